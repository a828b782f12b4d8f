import torch

from ..collection import wrong


def _without(inputs, i):
    return torch.cat((inputs[:i], inputs[i + 1 :]))


@wrong("00.leave_one_out", "a row of zeros is still a row")
def zeroes(predict, inputs):
    effects = []
    for i in range(len(inputs)):
        changed = inputs.clone()
        changed[i] = 0
        effects.append((predict(inputs) - predict(changed)).abs())
    return torch.stack(effects)


@wrong("00.leave_one_out", "the effects have a sign")
def signed(predict, inputs):
    return torch.stack([predict(inputs) - predict(_without(inputs, i)) for i in range(len(inputs))])


@wrong("00.leave_one_out", "only row i is kept")
def keeps_one(predict, inputs):
    return torch.stack(
        [(predict(inputs) - predict(inputs[i : i + 1])).abs() for i in range(len(inputs))]
    )


@wrong("00.leave_one_out", "from row i alone")
def row_alone(predict, inputs):
    return torch.stack([predict(inputs[i : i + 1]) for i in range(len(inputs))])


@wrong("00.leave_one_out", "predict got a single row")
def row_without_matrix(predict, inputs):
    return torch.stack([(predict(inputs) - predict(inputs[i])).abs() for i in range(len(inputs))])


@wrong("00.leave_one_out", "predictions without row i")
def no_difference(predict, inputs):
    return torch.stack([predict(_without(inputs, i)) for i in range(len(inputs))])


@wrong("00.leave_one_out", "changes its argument inputs in place")
def spoils_inputs(predict, inputs):
    full, effects = predict(inputs), []
    for i in range(len(inputs)):
        inputs[i] = 0
        effects.append((full - predict(inputs)).abs())
    return torch.stack(effects)


@wrong("00.leave_one_out", "expected (5,)")
def one_number(predict, inputs):
    return sum((predict(inputs) - predict(_without(inputs, i))).abs() for i in range(len(inputs)))


def _gradient(predict, inputs):
    leaf = inputs.detach().clone().requires_grad_()
    return torch.autograd.grad(predict(leaf), leaf)[0]


@wrong("00.gradient_times_input", "the length of the gradient")
def gradient_norm(predict, inputs):
    return _gradient(predict, inputs).norm(dim=-1)


@wrong("00.gradient_times_input", "before the sum")
def absolute_inside(predict, inputs):
    return (_gradient(predict, inputs) * inputs).abs().sum(-1)


@wrong("00.gradient_times_input", "the saliency has a sign")
def signed_saliency(predict, inputs):
    return (_gradient(predict, inputs) * inputs).sum(-1)


@wrong("00.gradient_times_input", "leaves gradients on its argument inputs")
def marks_inputs(predict, inputs):
    inputs.requires_grad_()
    predict(inputs).backward()
    return (inputs * inputs.grad).sum(-1).abs()


@wrong("00.gradient_times_input", "not multiplied by the input")
def gradient_alone(predict, inputs):
    return _gradient(predict, inputs).sum(-1).abs()


@wrong("00.gradient_times_input", "added up over the width")
def keeps_width(predict, inputs):
    return (_gradient(predict, inputs) * inputs).abs()


@wrong(
    "00.gradient_times_input",
    "your code stopped with RuntimeError: element 0 of tensors does not require grad",
)
def no_leaf(predict, inputs):
    return torch.autograd.grad(predict(inputs), inputs)[0]


def _signs(first, second):
    i, j = torch.combinations(torch.arange(len(first)), 2).unbind(-1)
    return torch.sign((first[i] - first[j]) * (second[i] - second[j]))


@wrong("00.rank_agreement", "the share of pairs")
def share(first, second):
    return (_signs(first, second) > 0).float().mean()


@wrong("00.rank_agreement", "not divided by the number of pairs")
def counts(first, second):
    return _signs(first, second).sum()


@wrong("00.rank_agreement", "correlation of the numbers")
def pearson(first, second):
    return torch.corrcoef(torch.stack((first, second)))[0, 1].clamp(-1, 1)


@wrong("00.rank_agreement", "correlation of the ranks")
def spearman(first, second):
    ranks = torch.stack((first.argsort().argsort(), second.argsort().argsort())).double()
    return torch.corrcoef(ranks)[0, 1]


@wrong("00.rank_agreement", "n² counts every pair twice")
def divides_by_square(first, second):
    return _signs(first, second).sum() / len(first) ** 2


@wrong("00.rank_agreement", "the agreement of")
def top_only(first, second):
    return float(first.argmax() == second.argmax())


@wrong("00.rank_agreement", "argsort gives, not ranks")
def argsort_positions(first, second):
    return _signs(first.argsort(), second.argsort()).float().mean()


@wrong("00.rank_agreement", "the sum is divided by n²")
def ordered_pairs_by_square(first, second):
    return 2 * _signs(first, second).sum() / len(first) ** 2


@wrong("00.rank_agreement", "the sign is forgotten")
def no_sign(first, second):
    i, j = torch.combinations(torch.arange(len(first)), 2).unbind(-1)
    return ((first[i] - first[j]) * (second[i] - second[j])).mean()


@wrong("00.rank_agreement", "the sign is lost")
def absolute(first, second):
    return _signs(first, second).mean().abs()


def _pooled(words, query, real, weigh):
    weights = weigh(words @ query, real)
    return (weights[..., None] * words).sum(1), weights


def _masked(dim=-1, fill=float("-inf")):
    return lambda scores, real: torch.softmax(scores.masked_fill(~real, fill), dim)


@wrong("00.pool_a_batch", "the softmax runs over the batch (dim=0)")
def pool_as_printed(words, query, real):
    return _pooled(words, query, real, _masked(0))


@wrong("00.pool_a_batch", "the texts share one softmax")
def pool_in_one(words, query, real):
    return _pooled(
        words,
        query,
        real,
        lambda scores, real: _masked()(scores.reshape(1, -1), real.reshape(1, -1)).view_as(scores),
    )


@wrong("00.pool_a_batch", "each row is divided by its sum of a softmax over the batch")
def pool_repaired_by_hand(words, query, real):
    def weigh(scores, real):
        weights = _masked(0)(scores, real)
        return weights / weights.sum(-1, keepdim=True)

    return _pooled(words, query, real, weigh)


@wrong("00.pool_a_batch", "the padding is not masked")
def pool_without_mask(words, query, real):
    return _pooled(words, query, real, lambda scores, real: torch.softmax(scores, -1))


@wrong("00.pool_a_batch", "the mask comes after the softmax")
def pool_mask_after(words, query, real):
    return _pooled(words, query, real, lambda scores, real: torch.softmax(scores, -1) * real)


@wrong("00.pool_a_batch", "still gets weight, since exp(0) is 1")
def pool_mask_times_scores(words, query, real):
    return _pooled(words, query, real, lambda scores, real: torch.softmax(scores * real, -1))


@wrong("00.pool_a_batch", "the mask is upside down")
def pool_upside_down(words, query, real):
    return _pooled(
        words, query, real, lambda scores, real: torch.softmax(scores.masked_fill(real, -1e9), -1)
    )


@wrong("00.pool_a_batch", "made with those of a softmax over the batch")
def pool_context_of_the_batch(words, query, real):
    return _pooled(words, query, real, _masked(0))[0], _pooled(words, query, real, _masked())[1]


@wrong("00.pool_a_batch", "the mean of weight times word")
def pool_mean(words, query, real):
    context, weights = _pooled(words, query, real, _masked())
    return context / words.shape[1], weights


@wrong("00.pool_a_batch", "the contexts of the texts are added up")
def pool_added_up(words, query, real):
    context, weights = _pooled(words, query, real, _masked())
    return context.sum(0).expand_as(context), weights


@wrong("00.pool_a_batch", "expected (context, weights)")
def pool_turned_round(words, query, real):
    return _pooled(words, query, real, _masked())[::-1]


@wrong("00.pool_a_batch", "no gradient reaches query")
def pool_detached(words, query, real):
    weights = _pooled(words, query, real, _masked())[1].detach()
    return (weights[..., None] * words).sum(1), weights
