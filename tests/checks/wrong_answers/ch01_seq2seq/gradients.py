import torch

from ..collection import wrong


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
    return torch.stack(
        [torch.linalg.matrix_norm((1 - h**2)[:, None] * weight, ord=2) for h in states]
    )


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
    return [
        g * torch.clamp(torch.where(norm > 0, max_norm / norm, torch.nan), max=1.0)
        for g in gradients
    ]


@wrong("01.clip_gradients", "changes its argument gradients in place")
def in_place(gradients, max_norm):
    norm = _norm(gradients)
    for g in gradients:
        g.mul_(min(1.0, max_norm / norm.item()))
    return gradients


@wrong("01.clip_gradients", "expected a list of 3 tensors")
def returns_norm(gradients, max_norm):
    return _norm(gradients)


def _losses(logits, targets, pad):
    losses = torch.nn.functional.cross_entropy(
        logits.flatten(0, 1), targets.flatten(), reduction="none"
    ).view(targets.shape)
    return losses * (targets != pad), targets != pad


def _step(batches, pad, share):
    return sum(share(*_losses(logits, targets, pad)) for logits, targets in batches)


def _words(batches, pad):
    return sum((targets != pad).sum() for _, targets in batches)


@wrong("01.loss_of_a_step", "a mean of the batches' means")
def step_as_printed(batches, pad):
    return _step(batches, pad, lambda losses, real: losses.sum() / real.sum()) / len(batches)


@wrong("01.loss_of_a_step", "the means of the batches are added up")
def step_sum_of_means(batches, pad):
    return _step(batches, pad, lambda losses, real: losses.sum() / real.sum())


@wrong("01.loss_of_a_step", "weighted by their numbers of sentences")
def step_by_sentences(batches, pad):
    rows = sum(len(targets) for _, targets in batches)
    return _step(batches, pad, lambda losses, real: losses.sum() / real.sum() * len(real) / rows)


@wrong("01.loss_of_a_step", "weighted by their numbers of places")
def step_by_places(batches, pad):
    places = sum(targets.numel() for _, targets in batches)
    return _step(
        batches, pad, lambda losses, real: losses.sum() / real.sum() * real.numel() / places
    )


@wrong("01.loss_of_a_step", "a mean of the sentences' means")
def step_of_sentences(batches, pad):
    rows = sum(len(targets) for _, targets in batches)
    return _step(batches, pad, lambda losses, real: (losses.sum(1) / real.sum(1)).sum()) / rows


@wrong("01.loss_of_a_step", "counts as words in what you divide by")
def step_over_all_places(batches, pad):
    return _step(batches, pad, lambda losses, real: losses.sum()) / sum(
        targets.numel() for _, targets in batches
    )


@wrong("01.loss_of_a_step", "expected their mean")
def step_not_divided(batches, pad):
    return _step(batches, pad, lambda losses, real: losses.sum())


@wrong("01.loss_of_a_step", "the padding counts as a word that has to be said")
def step_without_mask(batches, pad):
    return _step(batches, -1, lambda losses, real: losses.sum()) / sum(
        targets.numel() for _, targets in batches
    )


@wrong("01.loss_of_a_step", "divided by the number of batches")
def step_per_batch(batches, pad):
    return _step(batches, pad, lambda losses, real: losses.sum()) / len(batches)


@wrong("01.loss_of_a_step", "only the last batch counts")
def step_overwritten(batches, pad):
    return _step(batches[-1:], pad, lambda losses, real: losses.sum() / real.sum())


@wrong("01.loss_of_a_step", "only the first batch counts")
def step_returns_too_early(batches, pad):
    return step_overwritten(batches[:1], pad)


@wrong("01.loss_of_a_step", "the number of words of the last one")
def step_last_count(batches, pad):
    return _step(batches, pad, lambda losses, real: losses.sum()) / _words(batches[-1:], pad)


@wrong("01.loss_of_a_step", "expected a torch.Tensor")
def step_as_a_number(batches, pad):
    return (_step(batches, pad, lambda losses, real: losses.sum()) / _words(batches, pad)).item()


@wrong("01.loss_of_a_step", "no gradient reaches the logits of batch 0")
def step_detached(batches, pad):
    before = _step(batches[:-1], pad, lambda losses, real: losses.sum()).detach()
    return (before + _step(batches[-1:], pad, lambda losses, real: losses.sum())) / _words(
        batches, pad
    )
