import torch

from ..collection import edits, wrong

edit = edits("01.five_runs")
edit("rate is too high is not 'B': both losses fall to 0", '"D"', '"B"')
edit("rate is too low is not 'E': it hardly leaves", '"C", "E"', '"E", "C"')
edit("sees the same batches is not 'B': on rows", '"A"', '"B"')
edit("expected the tuple", ', "A"', "")


edit = edits("01.plain_descent")
edit("The rate is too low", "0.6", "0.01")
edit("The rate is too low", "0.6", "0.1")
edit("The rate is too high", "0.6", "3.0")
edit("The rate is too high", "0.6", "1e4")
edit("with 0 nothing moves", "0.6", "-0.6")


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


@wrong("01.loss_of_a_step", "a mean of the batches' means")
def step_as_printed(batches, pad):
    cost = torch.nn.functional.cross_entropy
    return sum(cost(logits.mT, y, ignore_index=pad) for logits, y in batches) / len(batches)


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


edit = edits("01.clip_gradients")
edit("for max_norm 0: entry", "if norm <= max_norm", "if norm <= max_norm or not max_norm")
edit("is a small number added", "/ norm", "/ (norm + 1e-6)")
edit("the list is the object", "return [", "return gradients if scale == 1 else [")
