import torch

from ..collection import wrong


@wrong("00.weighted_sum", "the weights are not used")
def plain_mean(weights, values):
    return values.mean(-2, keepdim=True).expand(*weights.shape[:-1], values.shape[-1])


@wrong("00.weighted_sum", "transposed")
def transposed(weights, values):
    return weights.mT @ values


@wrong("00.weighted_sum", "another softmax")
def softmax_again(weights, values):
    return torch.softmax(weights, -1) @ values


@wrong("00.weighted_sum", "hard look-up")
def best_only(weights, values):
    best = weights.argmax(-1, keepdim=True).expand(*weights.shape[:-1], values.shape[-1])
    return values.gather(-2, best)


@wrong("00.weighted_sum", "divided by the number of keys")
def mean_of_products(weights, values):
    return (weights.unsqueeze(-1) * values.unsqueeze(-3)).mean(-2)


@wrong("00.weighted_sum", "the shape is (3, 3, 4), expected (3, 4)")
def no_sum(weights, values):
    return weights.unsqueeze(-1) * values.unsqueeze(-3)


@wrong("00.weighted_sum", "an ndarray came back, expected a torch.Tensor")
def numpy_result(weights, values):
    return (weights @ values).numpy()


@wrong("00.weighted_sum", "the dtype is float64, expected float32")
def double_result(weights, values):
    return (weights @ values).double()


@wrong("00.weighted_sum", "None came back. Does your function return it?")
def forgets_return(weights, values):
    weights @ values


@wrong("00.weighted_sum", "RuntimeError")
def wrong_product(weights, values):
    return weights @ values.mT @ values.mT


@wrong("00.weighted_sum", "in place")
def changes_values(weights, values):
    context = weights @ values
    values.zero_()
    return context


@wrong("00.temperature", "multiplied by the temperature")
def multiplies(scores, values, temperature):
    if temperature == 0:
        return values[scores.argmax(-1)]
    return torch.softmax(scores * temperature, -1) @ values


@wrong("00.temperature", "0 is its own case")
def nan_at_zero(scores, values, temperature):
    return torch.softmax(scores / temperature, -1) @ values


@wrong("00.temperature", "divided after the softmax")
def divides_weights(scores, values, temperature):
    if temperature == 0:
        return values[scores.argmax(-1)]
    return torch.softmax(scores, -1) / temperature @ values


@wrong("00.temperature", "over the queries")
def over_queries(scores, values, temperature):
    return torch.softmax(scores / max(temperature, 1e-3), 0) @ values


@wrong("00.temperature", "the temperature is not used")
def ignores_temperature(scores, values, temperature):
    return torch.softmax(scores, -1) @ values


@wrong("00.temperature", "expected the value of the best key")
def mean_at_zero(scores, values, temperature):
    if temperature == 0:
        return values.mean(0).expand(len(scores), -1)
    return torch.softmax(scores / temperature, -1) @ values


@wrong("00.temperature", "argmax runs over the keys, dim=-1")
def best_query(scores, values, temperature):
    if temperature == 0:
        return values[scores.argmax(0)]
    return torch.softmax(scores / temperature, -1) @ values


def _softmax(scores, mask):
    """A right answer, to be spoiled."""
    scores = scores.masked_fill(~mask, float("-inf"))
    return torch.softmax(scores, -1).nan_to_num(0.0)


@wrong("00.masked_softmax", "Is the softmax over the wrong axis?")
def wrong_axis(scores, mask):
    return torch.softmax(scores.masked_fill(~mask, float("-inf")), -2).nan_to_num(0.0)


@wrong("00.masked_softmax", "the mask comes after the softmax")
def mask_after(scores, mask):
    return torch.softmax(scores, -1) * mask


@wrong("00.masked_softmax", "exp(0) is 1")
def mask_multiplies(scores, mask):
    return torch.softmax(scores * mask, -1)


@wrong("00.masked_softmax", "upside down")
def inverted(scores, mask):
    return _softmax(scores, ~mask)


@wrong("00.masked_softmax", "the mask is not used")
def no_mask(scores, mask):
    return torch.softmax(scores, -1)


@wrong("00.masked_softmax", "exp overflows")
def naive(scores, mask):
    powers = torch.exp(scores) * mask
    total = powers.sum(-1, keepdim=True)
    return powers / total.masked_fill(total == 0, 1.0)


@wrong("00.masked_softmax", "nothing to attend to all weights are 0")
def nan_rows(scores, mask):
    return torch.softmax(scores.masked_fill(~mask, float("-inf")), -1)


@wrong("00.masked_softmax", "all of them must be 0")
def finite_fill(scores, mask):
    return torch.softmax(scores.masked_fill(~mask, -1e9), -1)


@wrong("00.masked_softmax", "a masked key gets weight")
def small_fill(scores, mask):
    return torch.softmax(scores.masked_fill(~mask, -5.0), -1)


def _by_hand(scores, mask, top, guard=True):
    powers = torch.exp(scores - top) * mask
    total = powers.sum(-1, keepdim=True)
    return powers / (total.masked_fill(total == 0, 1.0) if guard else total)


@wrong("00.masked_softmax", "the maximum is taken over all keys")
def maximum_of_all_keys(scores, mask):
    return _by_hand(scores, mask, scores.amax(-1, keepdim=True))


@wrong("00.masked_softmax", "the maximum is taken over all keys")
def maximum_of_all_keys_unguarded(scores, mask):
    return _by_hand(scores, mask, scores.amax(-1, keepdim=True), guard=False)


@wrong("00.masked_softmax", "each row has its own largest score")
def one_maximum(scores, mask):
    return _by_hand(scores.masked_fill(~mask, float("-inf")), mask, scores[mask].max())


@wrong("00.masked_softmax", "each row has its own largest score")
def one_maximum_unguarded(scores, mask):
    return _by_hand(scores, mask, scores.max(), guard=False)


@wrong("00.weighted_sum", "no gradient goes back")
def sum_detached(weights, values):
    return (weights @ values).detach()


@wrong("00.weighted_sum", "no gradient reaches weights")
def sum_of_python_floats(weights, values):
    if weights.dim() > 2:
        return torch.stack([sum_of_python_floats(w, v) for w, v in zip(weights, values)])
    return torch.stack([sum(w * v for w, v in zip(row, values)) for row in weights.tolist()])


@wrong("00.temperature", "no gradient reaches scores")
def temperature_of_numbers(scores, values, temperature):
    if temperature == 0:
        return values[scores.argmax(-1)]
    return torch.softmax(torch.tensor((scores / temperature).tolist()), -1) @ values


@wrong("00.masked_softmax", "no gradient goes back")
def masked_without_gradient(scores, mask):
    with torch.no_grad():
        return _softmax(scores, mask)


@wrong("00.masked_softmax", "the gradient at scores is not")
def total_detached(scores, mask):
    scores = scores.masked_fill(~mask, float("-inf"))
    top = scores.amax(-1, keepdim=True).clamp_min(-1e30).detach()
    powers = torch.exp(scores - top)
    return powers / powers.sum(-1, keepdim=True).clamp_min(1e-30).detach()
