import torch

from ..collection import edits, wrong

edit = edits("08.two_features")
edit("take their roots", "13", "213")
edit("the distance is not 14", "13", "14")
edit("expected one number", "13", "5, 8")


edit = edits("08.every_second")
edit("expected one of 'halfway'", "nearer to clean", "near clean")
edit("a float came back", '"nearer to clean"', "0.25")
edit("None came back", 'return "nearer to clean"', "pass")


edit = edits("08.sure_and_varied")
edit("the exponential is missing", ".mean().exp()", ".mean()")
edit("the other way round", "p * (log_p - log_mean)", "p.mean(0) * (log_mean - log_p)")
edit("average the probabilities", "p.mean…", "logits.mean(0).log_softmax(0)")
edit("first the mean, then exp", ".mean().exp()", ".exp().mean()")
edit("softmax runs over the pictures", "log_softmax(1)", "log_softmax(0)")
edit("a sum over the pictures", ".log_softmax", ".double().log_softmax", "mean().exp", "sum().exp")
edit("the sum over the classes is a mean", ".sum(1).mean()", ".mean()")
edit("p(y) is missing", "log_p - log_mean", "log_p")
edit(
    "how varied the pictures are, and not how sure", "(p *…", "(-p.mean(0) * log_mean).sum().exp()"
)
edit("how unsure the classifier is", "p * (log_p - log_mean)", "-p * log_p")
edit("the mean is taken of log p", "p.mean(0).clamp_min(1e-30).log()", "log_p.mean(0)")
edit("the same for all classes", "- log_mean", "+ torch.tensor(float(p.shape[1])).log()")
edit("base 2", "log_p - log_mean", "log_p - log_mean) / torch.tensor(2.0).log(")
edit("a probability that rounds to 0 has no logarithm", ".log_softmax(1)", ".softmax(1).log()")
edit(", expected one number", ".mean().exp()", ".exp()")


@wrong("08.sure_and_varied", "only the likeliest class")
def hard_classes(logits):
    share = torch.bincount(logits.argmax(1), minlength=logits.shape[1]).double() / len(logits)
    return (-(share * share.clamp_min(1e-30).log()).sum()).exp()


def _cov(x):
    apart = x - x.mean(0)
    return apart.T @ apart / (len(x) - 1)


edit = edits("08.two_clouds")
edit("the root is missing", "roots.sum()", "(first @ second).trace()")
edit("root is taken of every entry", "roots.sum()", "(first @ second).clamp_min(0).sqrt().trace()")
edit("entry by entry", "2 * roots.sum()", "2 * (first * second).clamp_min(0).sqrt().trace()")
edit("means are left out", "(x.mean(0) - y.mean(0)).square().sum() +", "")
edit("not squared", ".square().sum()", ".norm()")
edit("averaged: expected their sum", ".square().sum()", ".square().mean()")
edit("the root stands once", "2 * roots", "roots")
edit("the root is added", "- 2 * roots", "+ 2 * roots")
edit("expected n − 1", "(len(a) - 1)", "len(a)", "(len(b) - 1)", "len(b)")
edit("not centred", "x - x.mean(0), y - y.mean(0)", "x, y")
edit("only the variances", "a.T @…", "x.var(0).diag(), y.var(0).diag()")
edit("root of the whole", "return ", "return (", "roots.sum()", "roots.sum()).clamp_min(0).sqrt()")
edit("a complex number came back", ".real.clamp_min(0)", "")
edit("the distance is NaN", ".real.clamp_min(0)", ".real.sub(1e-12)")
edit("means are left out", ", y.double()", " - x.double().mean(0), y.double() - y.double().mean(0)")
edit("take eigvals", ".linalg.eigvals(first @ second).real", ".linalg.eigvalsh(first @ second)")
edit("singular values", ".linalg.eigvals(first @ second).real", ".linalg.svdvals(first @ second)")


@wrong("08.two_clouds", "has its root taken first")
def two_roots(x, y):
    def root(m):
        values, vectors = torch.linalg.eigh(m)
        return (vectors * values.clamp_min(0).sqrt()) @ vectors.T

    x, y = x.double(), y.double()
    a, b, gap = _cov(x), _cov(y), x.mean(0) - y.mean(0)
    return gap.square().sum() + (a + b - 2 * root(a) @ root(b)).trace()


@wrong("08.two_clouds", "their traces and the roots")
def squared_differences(x, y):
    return (x.mean(0) - y.mean(0)).square().sum() + (_cov(x) - _cov(y)).square().sum()


edit = edits("08.two_clouds")
edit("Put it to 0 before the root", ".clamp_min(0)", "")
edit(  # as float32 is, by an amount that differs from machine to machine
    "float64",
    "return (x",
    "return (1.0 + 1e-3 * (len(x) <= x.shape[1])) * ((x",
    "roots.sum()",
    "roots.sum())",
)
