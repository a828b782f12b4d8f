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
edit("padding is in the window", "& (places < lengths.unsqueeze(-1))", "")
edit("counts as padding", "lengths.unsqueeze(-1)", "lengths.unsqueeze(-1) - 1")
edit("one padding place counts as a word", "lengths.unsqueeze(-1)", "lengths.unsqueeze(-1) + 1")
edit("its right end", ".abs() <= D", ".abs() <= D) & (places - centre < D")
edit("its left end", ".abs() <= D", ".abs() <= D) & (places - centre > -D")
edit("too narrow at both ends", "<= D", "< D")
edit("one place too wide", "<= D", "<= D + 1")
edit("the centre is cut off", "torch.floor(position + 0.5)", "torch.floor(position)")
edit("rounded up", "torch.floor(position + 0.5)", "torch.ceil(position)")
edit("a half is rounded down", "torch.floor(position + 0.5)", "torch.ceil(position - 0.5)")
edit("torch.round does that", "torch.floor(position + 0.5)", "torch.round(position)")
edit("the position is not rounded", "torch.floor(position + 0.5)", "position")
edit(
    "upside down",
    "return ((places - centre).abs() <= D) & (places < lengths.unsqueeze(-1))",
    "return ~(((places - centre).abs() <= D) & (places < lengths.unsqueeze(-1)))",
)
edit(
    "expected bool",
    "return ((places - centre).abs() <= D) & (places < lengths.unsqueeze(-1))",
    "return (((places - centre).abs() <= D) & (places < lengths.unsqueeze(-1))).float()",
)
edit(
    "the centre is moved into the source",
    "torch.floor(position + 0.5)",
    "torch.minimum(torch.floor(position + 0.5).long(), lengths - 1)",
)


edit = edits("03.gaussian_weights")
edit("the Gaussian is missing", " * torch…", "")
edit("sigma is D", "D / 2", "D")
edit("lacks its 1/2", "(2 * sigma**2)", "sigma**2")
edit("sigma is not squared", "2 * sigma**2", "2 * sigma")
edit("around the rounded centre", "places - position.unsqueeze(-1)", "places - centre")
edit(
    "normalised again",
    "return shares *",
    "shares = shares *",
    "(2 * sigma**2))",
    "(2 * sigma**2))\n    return shares / shares.sum(-1, keepdim=True)",
)
edit(
    "added to the scores",
    'shares = torch.softmax(scores.masked_fill(~inside, float("-inf")), dim=-1)',
    "scores = scores + torch.exp(-2 * ((places - position.unsqueeze(-1)) / D) ** 2)",
    "return shares * torch.exp(-((places - position.unsqueeze(-1)) ** 2) / (2 * sigma**2))",
    'return torch.softmax(scores.masked_fill(~inside, float("-inf")), dim=-1)',
)
edit(
    "it belongs after the softmax",
    'shares = torch.softmax(scores.masked_fill(~inside, float("-inf")), dim=-1)',
    "scores = scores * torch.exp(-2 * ((places - position.unsqueeze(-1)) / D) ** 2)",
    "return shares * torch.exp(-((places - position.unsqueeze(-1)) ** 2) / (2 * sigma**2))",
    'return torch.softmax(scores.masked_fill(~inside, float("-inf")), dim=-1)',
)
edit(
    "cut out after the softmax",
    "scores.masked_fill(~inside",
    "scores.masked_fill(~(places < lengths.unsqueeze(-1))",
    "return shares",
    "return inside * shares",
)
edit("there is no window", "((places - centre).abs() <= D) &", "")
edit("padding in the window gets weight", "& (places < lengths.unsqueeze(-1))", "")
edit("the softmax of the scores is missing", "return shares", "return inside")
edit("expected exactly 0", 'float("-inf")', "-9.0")
edit(
    "normalised over the window",
    "return shares * torch.exp(",
    "gaussian = inside * torch.exp(",
    "(2 * sigma**2))",
    "(2 * sigma**2))\n    return shares * gaussian / gaussian.sum(-1, keepdim=True)",
)
edit("it is no density", "return shares", "return shares / (sigma * (2 * torch.pi) ** 0.5)")
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
