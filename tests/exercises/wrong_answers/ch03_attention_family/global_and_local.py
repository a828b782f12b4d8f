import torch

from ..collection import edits, wrong

edit = edits("03.at_the_edge")
edit("not made to sum to 1", "/ 3", "/ 1.7419")
edit("cut off at the end", "/ 3", "/ 5")
edit(" is not ", "/ 3", "/ 2")
edit("one number", "2.718281828**-2 / 3", '"small"')

edit = edits("03.untrained_window")
edit("expected one of", "near the middle", "middle")
edit("expected one of", "near the middle", "near the end")
edit("one of 'near the front'", '"near the middle"', "0.5")

edit = edits("03.window")
edit("the position is not rounded", "torch.floor(position + 0.5)", "position")
edit(
    "expected bool",
    "return ((places - centre).abs() <= D) & (places < lengths.unsqueeze(-1))",
    "return (((places - centre).abs() <= D) & (places < lengths.unsqueeze(-1))).float()",
)


edit = edits("03.gaussian_weights")
edit("expected exactly 0", 'float("-inf")', "-9.0")
edit(
    "no gradient goes back",
    "return shares",
    "return shares.detach()",
    "- position.unsqueeze",
    "- position.detach().unsqueeze",
)
edit("no gradient reaches the position", "- position.unsqueeze", "- position.detach().unsqueeze")
edit("the gradient at the scores is not", "return shares", "return (shares + shares.detach()) / 2")
edit("no gradient reaches the position", "- position", "- torch.tensor(position.tolist())")


edit = edits("03.input_feeding")
edit("no gradient goes back", "torch.stack(vectors)", "torch.stack(vectors).detach()")
edit("the gradient at embedded is not", "(x, fed)", "(x, fed.detach())")
edit("no gradient reaches start", "x, fed…", "x, fed.detach()), dim=-1), s.detach())")
edit("the shape is", "torch.stack(vectors)", "fed")


@wrong("03.input_feeding", "the cell got inputs of width")
def not_fed(cell, embedded, start, annotations, W, W_c):
    s = start
    for x in embedded:
        s = cell(x, s)
    return s


@wrong("03.window", "expected 0")
def negative_places_wrap_to_the_end(position, D, lengths, n):
    window = torch.zeros(len(position), n, dtype=torch.bool)
    for b, centre in enumerate(torch.floor(position + 0.5).long().tolist()):
        for j in range(centre - D, centre + D + 1):
            if j < int(lengths[b]):
                window[b, j] = True
    return window
