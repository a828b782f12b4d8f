from torch.nn import functional as F

from ..collection import edits, wrong

edit = edits("08.hinge_losses")
edit("have changed places", "1 - real", "1 + real", "1 + fake", "1 - fake")
edit("fakes should be below −1", "1 + fake", "1 - fake")
edit("the real ones pay above 1", "1 - real", "real - 1")
edit("the margin lies on the wrong side", "1 - real", "-1 - real", "1 + fake", "fake - 1")
edit("these are sums", "mean() + torch.relu(1 + fake).mean()", "sum() + torch.relu(1 + fake).sum()")
edit("one mean over both", "(1 - real)…", "(torch.cat([1 - real, 1 + fake])).mean()")
edit("divided by 2", "torch…", "(torch.relu(1 - real).mean() + torch.relu(1 + fake).mean()) / 2")
edit("the margin is 0", "1 - real", "-real", "1 + fake", "fake")
edit("the maximum with 0 is missing", "torch.relu", "")
edit("the generator has a margin", "-fake.mean()", "torch.relu(1 - fake).mean()")
edit("the generator wants its scores up", "-fake", "fake")
edit("the real scores are in the loss of the generator", "-fake.mean", "real.mean() - fake.mean")
edit("expected the tuple", "return discriminator, -fake.mean()", "return discriminator")
edit("no gradient reaches fake", "fake", "fake.detach()")
edit("the maximum is taken of the mean", "real).mean(", "real.mean()", "+ fake…", "+ fake.mean())")
edit(
    "the loss of the generator comes first", "discriminator, -fake…", "-fake.mean(), discriminator"
)


@wrong("08.hinge_losses", "logistic loss")
def logistic(real, fake):
    return F.softplus(-real).mean() + F.softplus(fake).mean(), F.softplus(-fake).mean()


edit = edits("08.steepness")
edit("the slope stays below it", "1 / 3", "1.0")
edit("the slope is not 5", "1 / 3", "5")
edit("expected one number", "1 / 3", "1, 3")


edit = edits("08.norm_and_memory")
edit("expected one of 'all eight'", "one or none", "six")
edit("a float came back", '"one or none"', "1.0")
edit("None came back", 'return "one or none"', "pass")


edit = edits("08.class_scores")
edit("the projection is missing", "+ (E[labels] * h).sum(-1)", "")
edit("w·h + b is missing", "h @ w + b +", "")
edit("b is missing", "+ b +", "+")
edit("all classes are added up", "(E[labels] * h).sum(-1)", "(h @ E.T).sum(-1)")
edit("only the class of the picture counts", "h @ w…", "(h @ w + b)[:, None] + h @ E.T")
edit("on the vectors of all pictures", "(E[labels] * h).sum(-1)", "h @ E[labels].T")
edit("the largest projection", "(E[labels] * h).sum(-1)", "(h @ E.T).amax(1)")
edit("summed, not multiplied", "E[labels] * h", "E[labels]")
edit("before w", "h @ w + b + (E[labels] * h).sum(-1)", "(h + E[labels]) @ w + b")
edit("is a mean", ".sum(-1)", ".mean(-1)")
edit("row label + 1", "E[labels]", "E[(labels + 1) % len(E)]")
edit("labels are counted from 0", "E[labels]", "E[labels - 1]")
edit("no softmax", "(E[labels] * h)…", "(h @ E.T).softmax(-1).gather(1, labels[:, None])[:, 0]")
edit(", 1), expected", "h @ w…", "(h @ w + b + (E[labels] * h).sum(-1))[:, None]")
edit("no gradient reaches E", "E[labels]", "E[labels].detach()")
edit("a column (batch, 1) added to a row", "sum(-1)", "sum(-1, keepdim=True)")


edit = edits("08.normalised")
edit("divided by σ²", "(u @ W @ v)", "(u @ W @ v) ** 2")
edit("multiplied by σ", "weight / (u", "weight * (u")
edit("whatever `iterations` says", "range(iterations)", "range(1)")
edit("one step of the power method too many", "range(iterations)", "range(iterations + 1)")
edit("σ needs the new one", "W =", "old = u\n    W =", "(u @ W @ v)", "(old @ W @ v)")
edit("u came back as it was", "W =", "old = u\n    W =", "v), u", "v), old")
edit("v came back", "(u @ W @ v), u", "(u @ W @ v), F.normalize(W.T @ u, dim=0).detach()")
edit("the weight keeps its shape", "weight / (u @ W @ v)", "W / (u @ W @ v)")
edit("renamed by reshape", "(weight…", "weight.reshape(len(u), -1)")
edit("v is made of the new u", "(u @ W @ v), u", "(W.T @ u).norm(), u")
edit("the gradient runs through u and v", "torch.no_grad()", "torch.enable_grad()")
edit("σ is a constant in the gradient", "(u @ W @ v)", "(u @ W @ v).detach()")
edit("expected the tuple", "(u @ W @ v), u", "(u @ W @ v)")
edit(
    "stand in dimension 1",
    "(weight…",
    "weight.flatten(1)\n    given, u = u, u.repeat(2)[: len(W)]",
    "v), u",
    "v), given",
)
edit("Frobenius", "(u @ W @ v), u", "weight.norm(), u")
edit("exact σ", "(u @ W @ v), u", "torch.linalg.matrix_norm(W, 2), u")
edit("brought to length 1, too", "F.normalize(W.T @ u, dim=0)", "W.T @ u")
