import torch
from torch.nn import functional as F

from ..collection import wrong


def _hinge(real, fake, d=None, g=None):
    right = F.relu(1 - real).mean() + F.relu(1 + fake).mean(), -fake.mean()
    return right[0] if d is None else d, right[1] if g is None else g


@wrong("08.hinge_losses", "have changed places")
def swapped(real, fake):
    return _hinge(real, fake, d=F.relu(1 + real).mean() + F.relu(1 - fake).mean())


@wrong("08.hinge_losses", "fakes should be below −1")
def one_sign(real, fake):
    return _hinge(real, fake, d=F.relu(1 - real).mean() + F.relu(1 - fake).mean())


@wrong("08.hinge_losses", "the real ones pay above 1")
def real_turned(real, fake):
    return _hinge(real, fake, d=F.relu(real - 1).mean() + F.relu(1 + fake).mean())


@wrong("08.hinge_losses", "the margin lies on the wrong side")
def margin_turned(real, fake):
    return _hinge(real, fake, d=F.relu(-1 - real).mean() + F.relu(fake - 1).mean())


@wrong("08.hinge_losses", "the maximum is taken of the mean")
def maximum_of_the_mean(real, fake):
    return _hinge(real, fake, d=F.relu(1 - real.mean()) + F.relu(1 + fake.mean()))


@wrong("08.hinge_losses", "these are sums")
def sums(real, fake):
    return _hinge(real, fake, d=F.relu(1 - real).sum() + F.relu(1 + fake).sum())


@wrong("08.hinge_losses", "one mean over both")
def one_mean(real, fake):
    return _hinge(real, fake, d=torch.cat([F.relu(1 - real), F.relu(1 + fake)]).mean())


@wrong("08.hinge_losses", "divided by 2")
def half(real, fake):
    return _hinge(real, fake, d=(F.relu(1 - real).mean() + F.relu(1 + fake).mean()) / 2)


@wrong("08.hinge_losses", "the margin is 0")
def no_margin(real, fake):
    return _hinge(real, fake, d=F.relu(-real).mean() + F.relu(fake).mean())


@wrong("08.hinge_losses", "the maximum with 0 is missing")
def linear(real, fake):
    return _hinge(real, fake, d=(1 - real).mean() + (1 + fake).mean())


@wrong("08.hinge_losses", "logistic loss")
def logistic(real, fake):
    return F.softplus(-real).mean() + F.softplus(fake).mean(), F.softplus(-fake).mean()


@wrong("08.hinge_losses", "the generator has a margin")
def margin_for_both(real, fake):
    return _hinge(real, fake, g=F.relu(1 - fake).mean())


@wrong("08.hinge_losses", "the generator wants its scores up")
def generator_down(real, fake):
    return _hinge(real, fake, g=fake.mean())


@wrong("08.hinge_losses", "the real scores are in the loss of the generator")
def difference(real, fake):
    return _hinge(real, fake, g=real.mean() - fake.mean())


@wrong("08.hinge_losses", "expected the tuple")
def only_one(real, fake):
    return _hinge(real, fake)[0]


@wrong("08.hinge_losses", "no gradient reaches fake")
def detached(real, fake):
    return _hinge(real, fake.detach())


def _scores(h, w, b, E, labels):
    return h @ w + b + (E[labels] * h).sum(-1)


@wrong("08.class_scores", "the projection is missing")
def no_class(h, w, b, E, labels):
    return h @ w + b


@wrong("08.class_scores", "w·h + b is missing")
def class_alone(h, w, b, E, labels):
    return (E[labels] * h).sum(-1)


@wrong("08.class_scores", "b is missing")
def no_bias(h, w, b, E, labels):
    return _scores(h, w, b, E, labels) - b


@wrong("08.class_scores", "all classes are added up")
def all_classes(h, w, b, E, labels):
    return h @ w + b + (h @ E.T).sum(-1)


@wrong("08.class_scores", "only the class of the picture counts")
def every_class(h, w, b, E, labels):
    return (h @ w + b)[:, None] + h @ E.T


@wrong("08.class_scores", "not on those of all pictures")
def every_pair(h, w, b, E, labels):
    return h @ w + b + h @ E[labels].T


@wrong("08.class_scores", "the largest projection")
def largest(h, w, b, E, labels):
    return h @ w + b + (h @ E.T).amax(1)


@wrong("08.class_scores", "summed, not multiplied")
def sum_of_the_vector(h, w, b, E, labels):
    return h @ w + b + E[labels].sum(-1)


@wrong("08.class_scores", "before w")
def added_before(h, w, b, E, labels):
    return (h + E[labels]) @ w + b


@wrong("08.class_scores", "is a mean")
def mean(h, w, b, E, labels):
    return h @ w + b + (E[labels] * h).mean(-1)


@wrong("08.class_scores", "row label + 1")
def next_class(h, w, b, E, labels):
    return _scores(h, w, b, E, (labels + 1) % len(E))


@wrong("08.class_scores", "labels are counted from 0")
def class_before(h, w, b, E, labels):
    return _scores(h, w, b, E, labels - 1)


@wrong("08.class_scores", "no softmax")
def probability(h, w, b, E, labels):
    return h @ w + b + (h @ E.T).softmax(-1).gather(1, labels[:, None])[:, 0]


@wrong("08.class_scores", "the shape is (batch, 1)".replace("(batch, 1)", "(5, 1)"))
def a_column(h, w, b, E, labels):
    return _scores(h, w, b, E, labels)[:, None]


@wrong("08.class_scores", "no gradient reaches E")
def table_cut(h, w, b, E, labels):
    return _scores(h, w, b, E.detach(), labels)


def _normalised(
    weight,
    u,
    iterations,
    transposed,
    *,
    matrix=None,
    scale=lambda s: s,
    length=lambda t: t / t.norm(),
    new=True,
):
    W = (weight.transpose(0, 1) if transposed else weight).flatten(1) if matrix is None else matrix
    with torch.no_grad():
        first = u
        for _ in range(iterations):
            v = length(W.T @ u)
            u = length(W @ v)
    return weight / scale((u if new else first) @ W @ v), u


@wrong("08.normalised", "stand in dimension 1")
def first_dimension(weight, u, iterations, transposed):
    flat = weight.flatten(1)
    start = u if len(u) == len(flat) else u.repeat(2)[: len(flat)]
    new, _ = _normalised(weight, start / start.norm(), iterations, False, matrix=flat)
    return new, u


@wrong("08.normalised", "Frobenius")
def frobenius(weight, u, iterations, transposed):
    return weight / weight.norm(), u


@wrong("08.normalised", "exact σ")
def exact(weight, u, iterations, transposed):
    return weight / torch.linalg.matrix_norm(
        (weight.transpose(0, 1) if transposed else weight).flatten(1), 2
    ), u


@wrong("08.normalised", "divided by σ²")
def squared(weight, u, iterations, transposed):
    return _normalised(weight, u, iterations, transposed, scale=lambda s: s**2)


@wrong("08.normalised", "multiplied by σ")
def multiplied(weight, u, iterations, transposed):
    return _normalised(weight, u, iterations, transposed, scale=lambda s: 1 / s)


@wrong("08.normalised", "whatever `iterations` says")
def one_step(weight, u, iterations, transposed):
    return _normalised(weight, u, 1, transposed)


@wrong("08.normalised", "one step of the power method too many")
def one_more(weight, u, iterations, transposed):
    return _normalised(weight, u, iterations + 1, transposed)


@wrong("08.normalised", "σ needs the new one")
def old_u(weight, u, iterations, transposed):
    return _normalised(weight, u, iterations, transposed, new=False)


@wrong("08.normalised", "u came back as it was")
def forgotten(weight, u, iterations, transposed):
    return _normalised(weight, u, iterations, transposed)[0], u


@wrong("08.normalised", "v came back")
def v_for_u(weight, u, iterations, transposed):
    new, after = _normalised(weight, u, iterations, transposed)
    v = (weight.transpose(0, 1) if transposed else weight).flatten(1).T @ after
    return new, v / v.norm()


@wrong("08.normalised", "the weight keeps its shape")
def as_a_matrix(weight, u, iterations, transposed):
    new, after = _normalised(weight, u, iterations, transposed)
    return (new.transpose(0, 1) if transposed else new).flatten(1), after


@wrong("08.normalised", "renamed by reshape")
def reshaped(weight, u, iterations, transposed):
    return _normalised(weight, u, iterations, transposed, matrix=weight.reshape(len(u), -1))


@wrong("08.normalised", "v is made of the new u")
def v_of_the_new_u(weight, u, iterations, transposed):
    _, new = _normalised(weight, u, iterations, transposed)
    W = (weight.transpose(0, 1) if transposed else weight).flatten(1)
    return weight / (W.T @ new).norm(), new


@wrong("08.normalised", "the gradient runs through u and v")
def rounds_with_gradients(weight, u, iterations, transposed):
    W = (weight.transpose(0, 1) if transposed else weight).flatten(1)
    for _ in range(iterations):
        v = F.normalize(W.T @ u, dim=0)
        u = F.normalize(W @ v, dim=0)
    return weight / (u @ W @ v), u


@wrong("08.normalised", "σ is a constant in the gradient")
def sigma_cut(weight, u, iterations, transposed):
    return _normalised(weight, u, iterations, transposed, scale=lambda s: s.detach())


@wrong("08.normalised", "expected the tuple")
def weight_alone(weight, u, iterations, transposed):
    return _normalised(weight, u, iterations, transposed)[0]
