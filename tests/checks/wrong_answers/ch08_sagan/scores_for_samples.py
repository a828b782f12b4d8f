import torch

from ..collection import wrong


def _kl(p, q):
    return (p * (p.log() - q.log())).sum(1)


@wrong("08.sure_and_varied", "the exponential is missing")
def no_exponential(logits):
    p = logits.softmax(1)
    return _kl(p, p.mean(0)).mean()


@wrong("08.sure_and_varied", "the other way round")
def reversed_divergence(logits):
    p = logits.softmax(1)
    q = p.mean(0)
    return (q * (q.log() - p.log())).sum(1).mean().exp()


@wrong("08.sure_and_varied", "average the probabilities")
def mean_of_logits(logits):
    return _kl(logits.softmax(1), logits.mean(0).softmax(0)).mean().exp()


@wrong("08.sure_and_varied", "first the mean, then exp")
def exponential_first(logits):
    p = logits.softmax(1)
    return _kl(p, p.mean(0)).exp().mean()


@wrong("08.sure_and_varied", "softmax runs over the pictures")
def over_pictures(logits):
    p = logits.softmax(0)
    return _kl(p, p.mean(0)).mean().exp()


@wrong("08.sure_and_varied", "a sum over the pictures")
def summed_pictures(logits):
    p = logits.double().softmax(1)
    return _kl(p, p.mean(0)).sum().exp()


@wrong("08.sure_and_varied", "the sum over the classes is a mean")
def mean_over_classes(logits):
    p = logits.softmax(1)
    return (p * (p.log() - p.mean(0).log())).mean().exp()


@wrong("08.sure_and_varied", "p(y) is missing")
def only_sure(logits):
    p = logits.softmax(1)
    return (p * p.log()).sum(1).mean().exp()


@wrong("08.sure_and_varied", "how varied the pictures are, and not how sure")
def only_varied(logits):
    q = logits.softmax(1).mean(0)
    return (-(q * q.log()).sum()).exp()


@wrong("08.sure_and_varied", "how unsure the classifier is")
def only_unsure(logits):
    p = logits.softmax(1)
    return (-(p * p.log()).sum(1).mean()).exp()


@wrong("08.sure_and_varied", "the mean is taken of log p")
def mean_of_logs(logits):
    log_p = logits.log_softmax(1)
    return (log_p.exp() * (log_p - log_p.mean(0))).sum(1).mean().exp()


@wrong("08.sure_and_varied", "only the likeliest class")
def hard_classes(logits):
    share = torch.bincount(logits.argmax(1), minlength=logits.shape[1]).double() / len(logits)
    return (-(share * share.clamp_min(1e-30).log()).sum()).exp()


@wrong("08.sure_and_varied", "the same for all classes")
def even_classes(logits):
    p = logits.softmax(1)
    return _kl(p, torch.full_like(p[0], 1 / p.shape[1])).mean().exp()


@wrong("08.sure_and_varied", "base 2")
def base_two(logits):
    p = logits.softmax(1)
    return (p * (p.log2() - p.mean(0).log2())).sum(1).mean().exp()


@wrong("08.sure_and_varied", "rounds to 0 gives NaN")
def not_finite(logits):
    p = logits.softmax(1)
    return _kl(p, p.mean(0)).mean().exp()


@wrong("08.sure_and_varied", "came back, expected one number")
def a_number_a_picture(logits):
    p = logits.softmax(1)
    return _kl(p, p.mean(0)).exp()


def _cov(x):
    apart = x - x.mean(0)
    return apart.T @ apart / (len(x) - 1)


def _roots(a, b):
    return torch.linalg.eigvals(a @ b).real.clamp_min(0).sqrt().sum()


def _fid(x, y, cov=_cov, roots=_roots, factor=2, gap=lambda g: g.square().sum()):
    x, y = x.double(), y.double()
    a, b = cov(x), cov(y)
    return gap(x.mean(0) - y.mean(0)) + a.trace() + b.trace() - factor * roots(a, b)


@wrong("08.two_clouds", "the root is missing")
def no_root(x, y):
    return _fid(x, y, roots=lambda a, b: (a @ b).trace())


@wrong("08.two_clouds", "root is taken of every entry")
def root_of_entries(x, y):
    return _fid(x, y, roots=lambda a, b: (a @ b).clamp_min(0).sqrt().trace())


@wrong("08.two_clouds", "has its root taken first")
def two_roots(x, y):
    def root(m):
        values, vectors = torch.linalg.eigh(m)
        return (vectors * values.clamp_min(0).sqrt()) @ vectors.T

    return _fid(x, y, roots=lambda a, b: (root(a) @ root(b)).trace())


@wrong("08.two_clouds", "entry by entry")
def entrywise(x, y):
    return _fid(x, y, roots=lambda a, b: (a * b).clamp_min(0).sqrt().trace())


@wrong("08.two_clouds", "means are left out")
def no_means(x, y):
    return _fid(x, y, gap=lambda g: 0)


@wrong("08.two_clouds", "not squared")
def plain_norm(x, y):
    return _fid(x, y, gap=lambda g: g.norm())


@wrong("08.two_clouds", "averaged: expected their sum")
def mean_gap(x, y):
    return _fid(x, y, gap=lambda g: g.square().mean())


@wrong("08.two_clouds", "the root stands once")
def one_root(x, y):
    return _fid(x, y, factor=1)


@wrong("08.two_clouds", "the root is added")
def root_added(x, y):
    return _fid(x, y, factor=-2)


@wrong("08.two_clouds", "expected n − 1")
def biased(x, y):
    return _fid(x, y, cov=lambda z: _cov(z) * (len(z) - 1) / len(z))


@wrong("08.two_clouds", "not centred")
def not_centred(x, y):
    return _fid(x, y, cov=lambda z: z.T @ z / (len(z) - 1))


@wrong("08.two_clouds", "only the variances")
def variances(x, y):
    return _fid(x, y, cov=lambda z: z.var(0).diag())


@wrong("08.two_clouds", "root of the whole")
def root_of_all(x, y):
    return _fid(x, y).clamp_min(0).sqrt()


@wrong("08.two_clouds", "a complex number came back")
def complex_answer(x, y):
    return _fid(x, y, roots=lambda a, b: torch.linalg.eigvals(a @ b).sqrt().sum())


@wrong("08.two_clouds", "the distance is NaN")
def not_clamped(x, y):
    return _fid(x, y, roots=lambda a, b: (torch.linalg.eigvals(a @ b).real - 1e-12).sqrt().sum())


@wrong("08.two_clouds", "means are left out")
def means_of_themselves(x, y):
    return _fid(x - x.mean(0), y - y.mean(0))


@wrong("08.two_clouds", "take eigvals")
def as_if_symmetric(x, y):
    return _fid(x, y, roots=lambda a, b: torch.linalg.eigvalsh(a @ b).clamp_min(0).sqrt().sum())


@wrong("08.two_clouds", "singular values")
def singular_values(x, y):
    return _fid(x, y, roots=lambda a, b: torch.linalg.svdvals(a @ b).sqrt().sum())


@wrong("08.two_clouds", "their traces and the roots")
def squared_differences(x, y):
    return (x.mean(0) - y.mean(0)).square().sum() + (_cov(x) - _cov(y)).square().sum()


@wrong("08.two_clouds", "float64")
def off_by_rounding(x, y):  # as float32 is, by an amount that differs from machine to machine
    return _fid(x, y) * (1.0 + 1e-3 * (len(x) <= x.shape[1]))
