import torch

from .collection import wrong


def _norms(weight, states, slope=lambda h: 1 - h**2, flip=False, order=2):
    product, norms = torch.eye(len(weight)), []
    for state in states:
        one = slope(state)[:, None] * weight
        product = product @ one if flip else one @ product
        norms.append(torch.linalg.matrix_norm(product, ord=order))
    return torch.stack(norms)


@wrong("01.jacobian_norms", "the slope of tanh is missing")
def no_slope(weight, states):
    return _norms(weight, states, torch.ones_like)


@wrong("01.jacobian_norms", "h is the tanh already")
def tanh_twice(weight, states):
    return _norms(weight, states, lambda h: 1 - torch.tanh(h) ** 2)


@wrong("01.jacobian_norms", "Frobenius")
def frobenius(weight, states):
    return _norms(weight, states, order="fro")


@wrong("01.jacobian_norms", "in the wrong order")
def wrong_order(weight, states):
    return _norms(weight, states, flip=True)


def _each(weight, states):
    return torch.stack([torch.linalg.matrix_norm((1 - h**2)[:, None] * weight, ord=2) for h in states])


@wrong("01.jacobian_norms", "upper bound")
def product_of_norms(weight, states):
    return _each(weight, states).cumprod(0)


@wrong("01.jacobian_norms", "norms of single steps")
def single_steps(weight, states):
    return _each(weight, states)


@wrong("01.jacobian_norms", "W is transposed")
def transposed(weight, states):
    return _norms(weight.T, states)


@wrong("01.jacobian_norms", "not W diag(1 - h²)")
def slope_at_the_right(weight, states):
    product, norms = torch.eye(len(weight)), []
    for h in states:
        product = weight @ torch.diag(1 - h**2) @ product
        norms.append(torch.linalg.matrix_norm(product, ord=2))
    return torch.stack(norms)


@wrong("01.jacobian_norms", "spectral radius")
def spectral_radius(weight, states):
    product, norms = torch.eye(len(weight)), []
    for h in states:
        product = (1 - h**2)[:, None] * weight @ product
        norms.append(torch.linalg.eigvals(product).abs().max())
    return torch.stack(norms)


@wrong("01.jacobian_norms", "one norm a step")
def last_only(weight, states):
    return _norms(weight, states)[-1]


def _norm(gradients):
    return torch.cat([g.flatten() for g in gradients]).norm()


@wrong("01.clip_gradients", "clipped by its own norm")
def one_by_one(gradients, max_norm):
    return [g * min(1.0, max_norm / (g.norm().item() + 1e-9)) for g in gradients]


@wrong("01.clip_gradients", "single entries are cut off")
def by_value(gradients, max_norm):
    return [g.clamp(-max_norm / 1.0, max_norm) for g in gradients]


@wrong("01.clip_gradients", "scaled up")
def always_scales(gradients, max_norm):
    norm = _norm(gradients)
    return [g * max_norm / norm for g in gradients]


@wrong("01.clip_gradients", "the root comes last")
def sum_of_norms(gradients, max_norm):
    norm = sum(g.norm() for g in gradients)
    return [g * min(1.0, max_norm / norm) for g in gradients]


@wrong("01.clip_gradients", "do not divide by it")
def nan_at_zero(gradients, max_norm):
    norm = _norm(gradients)
    return [g * torch.clamp(torch.where(norm > 0, max_norm / norm, torch.nan), max=1.0) for g in gradients]


@wrong("01.clip_gradients", "changes its argument gradients in place")
def in_place(gradients, max_norm):
    norm = _norm(gradients)
    for g in gradients:
        g.mul_(min(1.0, max_norm / norm.item()))
    return gradients


@wrong("01.clip_gradients", "expected a list of 3 tensors")
def returns_norm(gradients, max_norm):
    return _norm(gradients)
