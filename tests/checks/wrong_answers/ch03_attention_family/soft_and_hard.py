import torch

from ..collection import wrong


def _gated(features, scores, state, w, b, gate=torch.sigmoid, axis=-1):
    return gate(state @ w + b)[:, None] * (scores.softmax(axis)[..., None] * features).sum(1)


@wrong("03.gated_context", "the gate is missing")
def no_gate(features, scores, state, w, b):
    return _gated(features, scores, state, w, b, torch.ones_like)


@wrong("03.gated_context", "a sigmoid is missing")
def linear_gate(features, scores, state, w, b):
    return _gated(features, scores, state, w, b, lambda x: x)


@wrong("03.gated_context", "a tanh stands where")
def tanh_gate(features, scores, state, w, b):
    return _gated(features, scores, state, w, b, torch.tanh)


@wrong("03.gated_context", "a ReLU stands where")
def relu_gate(features, scores, state, w, b):
    return _gated(features, scores, state, w, b, torch.relu)


@wrong("03.gated_context", "b is not used")
def no_bias(features, scores, state, w, b):
    return _gated(features, scores, state, w, torch.zeros_like(b))


@wrong("03.gated_context", "not 1 − β")
def turned_gate(features, scores, state, w, b):
    return _gated(features, scores, state, w, b, lambda x: 1 - torch.sigmoid(x))


@wrong("03.gated_context", "one number a channel")
def vector_gate(features, scores, state, w, b):
    context = (scores.softmax(-1)[..., None] * features).sum(1)
    return torch.sigmoid(state * w + b) * context


@wrong("03.gated_context", "the softmax is missing")
def no_softmax(features, scores, state, w, b):
    return torch.sigmoid(state @ w + b)[:, None] * (scores[..., None] * features).sum(1)


@wrong("03.gated_context", "runs over the batch")
def softmax_over_batch(features, scores, state, w, b):
    return _gated(features, scores, state, w, b, axis=0)


@wrong("03.gated_context", "over the channels")
def softmax_over_channels(features, scores, state, w, b):
    return torch.sigmoid(state @ w + b)[:, None] * (features.softmax(-1) * features).sum(1)


@wrong("03.gated_context", "the weights are not used")
def mean_of_regions(features, scores, state, w, b):
    return torch.sigmoid(state @ w + b)[:, None] * features.mean(1)


@wrong("03.gated_context", "that is hard attention")
def most_probable_region(features, scores, state, w, b):
    return (
        torch.sigmoid(state @ w + b)[:, None]
        * features[torch.arange(len(features)), scores.argmax(-1)]
    )


@wrong("03.gated_context", "became a mean")
def mean_of_weighted(features, scores, state, w, b):
    return _gated(features, scores, state, w, b) / features.shape[1]


@wrong("03.gated_context", "your code stopped with")
def gate_without_an_axis(features, scores, state, w, b):
    return torch.sigmoid(state @ w + b) * (scores.softmax(-1)[..., None] * features).sum(1)


@wrong("03.gated_context", "the shape is")
def keeps_the_regions(features, scores, state, w, b):
    return torch.sigmoid(state @ w + b)[:, None, None] * scores.softmax(-1)[..., None] * features


@wrong("03.gated_context", "no gradient goes back")
def context_detached(features, scores, state, w, b):
    return _gated(features, scores, state, w, b).detach()


@wrong("03.gated_context", "no gradient reaches the scores")
def alpha_detached(features, scores, state, w, b):
    return _gated(features, scores.detach(), state, w, b)


@wrong("03.gated_context", "no gradient reaches the state")
def gate_detached(features, scores, state, w, b):
    return _gated(features, scores, state, w, b, lambda x: torch.sigmoid(x).detach())


def _real(weights, lengths, shift=0):
    return (torch.arange(weights.shape[1]) < (lengths + shift)[:, None])[..., None]


@wrong("03.coverage", "the padded steps are added up too")
def with_padding(weights, lengths):
    return (1 - weights.sum(1)).square().sum(-1)


@wrong("03.coverage", "one padded step is left in")
def one_more(weights, lengths):
    return (1 - (weights * _real(weights, lengths, 1)).sum(1)).square().sum(-1)


@wrong("03.coverage", "the last real step is left out")
def one_less(weights, lengths):
    return (1 - (weights * _real(weights, lengths, -1)).sum(1)).square().sum(-1)


@wrong("03.coverage", "add up over the steps")
def over_regions(weights, lengths):
    return ((1 - weights.sum(2)).square() * _real(weights, lengths)[..., 0]).sum(1)


@wrong("03.coverage", "each step is squared alone")
def steps_alone(weights, lengths):
    return ((1 - weights).square() * _real(weights, lengths)).sum((1, 2))


@wrong("03.coverage", "the square is missing")
def no_square(weights, lengths):
    return (1 - (weights * _real(weights, lengths)).sum(1)).sum(-1)


@wrong("03.coverage", "the absolute value")
def absolute(weights, lengths):
    return (1 - (weights * _real(weights, lengths)).sum(1)).abs().sum(-1)


@wrong("03.coverage", "the mean over the regions")
def mean_over_regions(weights, lengths):
    return (1 - (weights * _real(weights, lengths)).sum(1)).square().mean(-1)


@wrong("03.coverage", "averaged over the steps")
def mean_over_steps(weights, lengths):
    return (1 - (weights * _real(weights, lengths)).sum(1) / lengths[:, None]).square().sum(-1)


@wrong("03.coverage", "one number a caption")
def one_number(weights, lengths):
    return (1 - (weights * _real(weights, lengths)).sum(1)).square().sum()


@wrong("03.coverage", "and 0 in the padding")
def over_regions_with_padding(weights, lengths):
    return (1 - (weights * _real(weights, lengths)).sum(2)).square().sum(1)


@wrong("03.coverage", "square the shortfall of each region")
def over_both(weights, lengths):
    return (1 - (weights * _real(weights, lengths)).sum((1, 2))).square()


@wrong("03.coverage", "added up before the square")
def square_of_the_sum(weights, lengths):
    return (1 - (weights * _real(weights, lengths)).sum(1)).sum(-1).square()


@wrong("03.coverage", "its equal share of the steps")
def equal_share(weights, lengths):
    return (
        (lengths[:, None] / weights.shape[2] - (weights * _real(weights, lengths)).sum(1))
        .square()
        .sum(-1)
    )


@wrong("03.coverage", "those above 1 pay too")
def one_sided(weights, lengths):
    return (1 - (weights * _real(weights, lengths)).sum(1)).relu().square().sum(-1)


@wrong("03.coverage", "no gradient goes back")
def penalty_detached(weights, lengths):
    return (1 - (weights * _real(weights, lengths)).sum(1)).square().sum(-1).detach()


@wrong("03.coverage", "no gradient goes back")
def penalty_of_numbers(weights, lengths):
    rows = zip(weights.tolist(), lengths.tolist())
    return torch.tensor(
        [sum((1 - sum(column)) ** 2 for column in zip(*row[:length])) for row, length in rows]
    )


@wrong("03.coverage", "the gradient at the weights is not")
def half_detached(weights, lengths):
    away = 1 - (weights * _real(weights, lengths)).sum(1)
    return (away * away.detach()).sum(-1)


def _reinforce(
    scores,
    chosen,
    log_p,
    baseline,
    entropy_weight,
    advantage=lambda p, b: p - b,
    detach=True,
    sign=-1,
    pick=None,
    push=-1,
    words=1,
):
    log_alpha = scores.log_softmax(-1)
    log_choice = (
        log_alpha.gather(-1, chosen[..., None])[..., 0].sum(1)
        if pick is None
        else pick(log_alpha, chosen)
    )
    entropy = -(log_alpha.exp() * log_alpha).sum((1, 2))
    gain = advantage(log_p, baseline)
    gain = gain.detach() if detach else gain
    return (-words * log_p + push * gain * log_choice + sign * entropy_weight * entropy).mean()


@wrong("03.reinforce", "the sign of the baseline is wrong")
def plus_baseline(*inputs):
    return _reinforce(*inputs, advantage=lambda p, b: p + b)


@wrong("03.reinforce", "the baseline is not used")
def no_baseline(*inputs):
    return _reinforce(*inputs, advantage=lambda p, b: p)


@wrong("03.reinforce", "pushes the wrong way")
def wrong_way(*inputs):
    return _reinforce(*inputs, push=1)


@wrong("03.reinforce", "the advantage carries a gradient")
def not_detached(*inputs):
    return _reinforce(*inputs, detach=False)


@wrong("03.reinforce", "the entropy is punished")
def entropy_punished(*inputs):
    return _reinforce(*inputs, sign=1)


@wrong("03.reinforce", "the entropy term is missing")
def no_entropy(*inputs):
    return _reinforce(*inputs, sign=0)


@wrong("03.reinforce", "that of the most probable region")
def wrong_sample(*inputs):
    return _reinforce(*inputs, pick=lambda log_alpha, chosen: log_alpha.amax(-1).sum(1))


@wrong("03.reinforce", "of all regions are added up")
def all_regions(*inputs):
    return _reinforce(*inputs, pick=lambda log_alpha, chosen: log_alpha.sum((1, 2)))


@wrong("03.reinforce", "where its logarithm should")
def probability(*inputs):
    return _reinforce(
        *inputs, pick=lambda la, chosen: la.exp().gather(-1, chosen[..., None]).sum((1, 2))
    )


@wrong("03.reinforce", "the advantage is left out")
def no_advantage(*inputs):
    return _reinforce(*inputs, advantage=lambda p, b: torch.ones_like(p))


@wrong("03.reinforce", "detach the advantage alone")
def product_detached(scores, chosen, log_p, baseline, entropy_weight):
    log_alpha = scores.log_softmax(-1)
    log_choice = log_alpha.gather(-1, chosen[..., None])[..., 0].sum(1)
    entropy = -(log_alpha.exp() * log_alpha).sum((1, 2))
    return (-log_p - ((log_p - baseline) * log_choice).detach() - entropy_weight * entropy).mean()


@wrong("03.reinforce", "a log_softmax is missing")
def scores_gathered(scores, chosen, *inputs):
    picked = scores.gather(-1, chosen[..., None])[..., 0].sum(1)
    return _reinforce(scores, chosen, *inputs, pick=lambda log_alpha, chosen: picked)


@wrong("03.reinforce", "the means over the captions are multiplied")
def product_of_means(scores, chosen, log_p, baseline, entropy_weight):
    log_alpha = scores.log_softmax(-1)
    log_choice = log_alpha.gather(-1, chosen[..., None])[..., 0].sum(1)
    entropy = -(log_alpha.exp() * log_alpha).sum((1, 2))
    return (
        -log_p.mean()
        - (log_p - baseline).detach().mean() * log_choice.mean()
        - entropy_weight * entropy.mean()
    )


@wrong("03.reinforce", "log p(s) is averaged over the steps")
def mean_over_the_steps(scores, *inputs):
    return _reinforce(
        scores, *inputs, pick=lambda la, chosen: la.gather(-1, chosen[..., None])[..., 0].mean(1)
    )


@wrong("03.reinforce", "the entropy is averaged over the steps")
def mean_entropy(scores, *inputs):
    return _reinforce(scores, *inputs, sign=-1 / scores.shape[1])


@wrong("03.reinforce", "the words do not learn")
def no_words(*inputs):
    return _reinforce(*inputs, words=0)


@wrong("03.reinforce", "that of a sum over the captions")
def summed(*inputs):
    return _reinforce(*inputs) * len(inputs[0])


@wrong("03.reinforce", "no gradient reaches the scores")
def scores_detached(scores, *inputs):
    return _reinforce(scores.detach(), *inputs)


@wrong("03.reinforce", "no gradient can be taken of your loss")
def a_bare_number(*inputs):
    return _reinforce(*inputs).detach()


@wrong("03.reinforce", "one number: the mean over the captions")
def one_a_caption(scores, chosen, log_p, baseline, entropy_weight):
    log_choice = scores.log_softmax(-1).gather(-1, chosen[..., None])[..., 0].sum(1)
    return -log_p - (log_p - baseline).detach() * log_choice
