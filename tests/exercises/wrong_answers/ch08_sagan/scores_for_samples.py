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
edit("a probability that rounds to 0 has no logarithm", ".log_softmax(1)", ".softmax(1).log()")
edit(", expected one number", ".mean().exp()", ".exp()")
edit("right to some digits only", "clamp_min(1e-30)", "add(1e-8)")


edit = edits("08.two_clouds")
edit("the distance is NaN", "svdvals(a @ b.T)", "eigvalsh(a @ b.T @ b @ a.T).sub(1e-9).sqrt()")
edit("right to some digits only", "roots.sum()", "roots.float().sum()")
edit(  # as float32 is, by an amount that differs from machine to machine
    "with fewer rows than columns the distance is off by rounding",
    "return (x",
    "return (1.0 + 1e-3 * (len(x) <= x.shape[1])) * ((x",
    "roots.sum()",
    "roots.sum())",
)


@wrong("08.two_clouds", "none should be larger")
def as_printed(x, y):
    x, y = x.double(), y.double()
    a, b = x - x.mean(0), y - y.mean(0)
    first, second = a.T @ a / (len(a) - 1), b.T @ b / (len(b) - 1)
    values = torch.linalg.eigvals(first @ second).real.clamp_min(0)
    apart = (x.mean(0) - y.mean(0)).square().sum()
    return apart + first.trace() + second.trace() - 2 * values.sqrt().sum()
