import torch

from ..collection import edits, wrong

edit = edits("01.forgetting")
edit("after 6 steps 0.53 is left", "return 7", "return 6")
edit("it does not take 0.1 away", "return 7", "return 5")
edit("the number of steps is not 2", "return 7", "return 2")


edit = edits("01.more_updates")
edit("expected one of 'nearly all'", '"a guess"', '"guess"')
edit("an int came back", '"a guess"', "7")
edit("None came back", 'return "a guess"', "pass")


edit = edits("01.jacobian_norms")
edit("the slope of tanh is missing", "(1 - state**2)", "torch.ones_like(state)")
edit("h is the tanh already", "state**2", "torch.tanh(state) ** 2")
edit("one norm a step", "torch.stack(norms)", "norms[-1]")


edit = edits("01.clip_gradients")
edit(
    "do not divide by it",
    "1.0 if norm <= max_norm else max_norm / norm",
    "torch.clamp(torch.where(norm > 0, max_norm / norm, torch.nan), max=1.0)",
)
edit("changes its argument gradients in place", "gradient * scale", "gradient.mul_(scale)")
edit("expected a list of", "return [gradient * scale for gradient in gradients]", "return norm")


def _losses(logits, targets, pad):
    losses = torch.nn.functional.cross_entropy(
        logits.flatten(0, 1), targets.flatten(), reduction="none"
    ).view(targets.shape)
    return losses * (targets != pad), targets != pad


def _step(batches, pad, share):
    return sum(share(*_losses(logits, targets, pad)) for logits, targets in batches)


@wrong("01.loss_of_a_step", "a mean of the batches' means")
def step_as_printed(batches, pad):
    return _step(batches, pad, lambda losses, real: losses.sum() / real.sum()) / len(batches)


edit = edits("01.loss_of_a_step")
edit("where pad is 0 the loss", "targets != pad", "targets != (pad or -1)")
edit("expected a torch.Tensor", "total / count", "(total / count).item()")
edit(
    "no gradient reaches the logits of batch 0",
    "total = total +",
    "total = total.detach() +",
    "0.0, 0",
    "torch.zeros(()), 0",
)


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


@wrong("01.clip_gradients", "for max_norm 0: entry")
def zero_switches_off(gradients, max_norm):
    norm = torch.cat([g.flatten() for g in gradients]).norm()
    return [g * max_norm / norm if max_norm and norm > max_norm else 1 * g for g in gradients]
