import torch

from ..collection import edits, wrong

edit = edits("08.steepness")
edit("the slope stays below it", "1 / 3", "1.0")
edit("the slope is not 5", "1 / 3", "5")
edit("expected one number", "1 / 3", "1, 3")


edit = edits("08.norm_and_memory")
edit("expected one of 'all eight'", "one or none", "six")
edit("a float came back", '"one or none"', "1.0")
edit("None came back", 'return "one or none"', "pass")


edit = edits("08.four_games")
edit("than of B's: the larger rate", '"D", "B", "A"', '"D", "A", "B"')
edit("below 1: that is the norm", '"D", "B", "A"', '"A", "B", "D"')
edit("expected the tuple", '"D", "B", "A"', '"DBA"')

edit = edits("08.class_scores")
edit("only the class of the picture counts", "h @ w…", "(h @ w + b)[:, None] + h @ E.T")
edit("on the vectors of all pictures", "(E[labels] * h).sum(-1)", "h @ E[labels].T")
edit(", 1), expected", "h @ w…", "(h @ w + b + (E[labels] * h).sum(-1))[:, None]")
edit("no gradient reaches E", "E[labels]", "E[labels].detach()")


edit = edits("08.normalised")
edit("v came back", "(u @ W @ v), u", "(u @ W @ v), F.normalize(W.T @ u, dim=0).detach()")
edit("the weight keeps its shape", "weight / (u @ W @ v)", "W / (u @ W @ v)")
edit("the gradient runs through u and v", "torch.no_grad()", "torch.enable_grad()")
edit("σ is a constant in the gradient", "(u @ W @ v)", "(u @ W @ v).detach()")
edit("expected the tuple", "(u @ W @ v), u", "(u @ W @ v)")


@wrong("08.class_scores", "for 600 pictures: no loop")
def scores_one_by_one(h, w, b, E, labels):
    return torch.stack([row @ w + row @ E[int(label)] + b for row, label in zip(h, labels)])
