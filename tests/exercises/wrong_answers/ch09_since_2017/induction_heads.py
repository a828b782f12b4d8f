import torch

from ..collection import edits, wrong

edit = edits("09.sharp_enough")
edit("half of the weight", "9 * 31", "31")
edit("the score is not 5", "math.log(9 * 31)", "5.0")
edit("expected one number", "math.log(9 * 31)", '"ln 279"')

edit = edits("09.longer_stretch")
edit("expected one of 'below 0.5'", "above 2", "very large")
edit("a float came back", '"above 2"', "2.0")
edit("None came back", 'return "above 2"', "pass")

edit = edits("09.prefix_matching")
edit("what stood before", "weights[i, j + 1]", "(weights[i, j - 1] if j else 0)")
edit("expected one number", "return total / count", "return [total / count]")
edit("the score is", "total, count =", "tokens = tokens.short()\n    total, count =")

edit = edits("09.note_from_nowhere")
edit("finds itself", "c * x @ before.T", "c * x @ x.T")
edit("no gradient", "c * x @ before.T", "(c * x @ before.T).detach()", "@ x\n", "@ x.detach()\n")


@wrong("09.note_from_nowhere", "that of the last token")
def as_printed(x, c):
    scores = c * x @ torch.roll(x, 1, dims=0).T
    future = torch.ones(len(x), len(x)).triu(1).bool()
    scores = scores.masked_fill(future, -torch.inf)
    return scores.softmax(-1) @ x
