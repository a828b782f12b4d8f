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
edit("the earlier occurrences themselves", "weights[i, j + 1]", "weights[i, j]")
edit("what stood before", "weights[i, j + 1]", "(weights[i, j - 1] if j else 0)")
edit("of all positions", "/ count", "/ len(tokens)")
edit("number of pairs", "count += bool(earlier)", "count += len(earlier)")
edit("only the last occurrence", "for j in earlier", "for j in earlier[-1:]")
edit("only the first occurrence", "for j in earlier", "for j in earlier[:1]")
edit("expected one number", "return total / count", "return [total / count]")

edit = edits("09.note_from_nowhere")
edit("that of the last token", "torch.cat([torch.zeros_like(x[:1]), x[:-1]])", "x.roll(1, 0)")
edit("its own token as its note", "torch.zeros_like(x[:1])", "x[:1]")
edit("finds itself", "c * x @ before.T", "c * x @ x.T")
edit("what stood after each position", "torch.cat…", "torch.cat([x[1:], torch.zeros_like(x[:1])])")
edit("the mask is missing", "scores.masked_fill(future, -torch.inf)", "scores")
edit("not multiplied by c", "c * x", "x")
edit("divided by √d", "c * x @ before.T", "c * x @ before.T / x.shape[1] ** 0.5")
edit("later positions have scores of 0", "future, -torch.inf", "future, 0.0")
edit("the first position is masked for the others", "return", "future[1:, 0] = True\n    return")


@wrong("09.note_from_nowhere", "that of the last token")
def as_printed(x, c):
    scores = c * x @ torch.roll(x, 1, dims=0).T
    future = torch.ones(len(x), len(x)).triu(1).bool()
    scores = scores.masked_fill(future, -torch.inf)
    return scores.softmax(-1) @ x
