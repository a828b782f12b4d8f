import torch

from ..collection import wrong


def _stretches(n, width, stride, end=None, start=None):
    c = torch.arange((n - width) // stride + 1)
    t = torch.arange(n)[:, None]
    return (c * stride + width - 1 if end is None else end(c)) <= t


@wrong("06.stretch_mask", "only begun")
def has_begun(n, width, stride):
    return _stretches(n, width, stride, lambda c: c * stride)


@wrong("06.stretch_mask", "upside down")
def inverted(n, width, stride):
    return ~_stretches(n, width, stride)


@wrong("06.stretch_mask", "hidden from the query at its end")
def one_late(n, width, stride):
    return _stretches(n, width, stride, lambda c: c * stride + width)


@wrong("06.stretch_mask", "one position too far")
def one_early(n, width, stride):
    return _stretches(n, width, stride, lambda c: c * stride + width - 2)


@wrong("06.stretch_mask", "counted by the width")
def no_stride(n, width, stride):
    return _stretches(n, width, stride, lambda c: c * width + width - 1)


@wrong("06.stretch_mask", "the place before stretch c + 1")
def ends_at_the_next(n, width, stride):
    return _stretches(n, width, stride, lambda c: (c + 1) * stride - 1)


@wrong("06.stretch_mask", "the future is in the keys")
def everything(n, width, stride):
    return torch.ones(n, (n - width) // stride + 1, dtype=torch.bool)


@wrong("06.stretch_mask", "the shape is")
def with_the_rest(n, width, stride):
    c = torch.arange(-(-n // stride))
    return c * stride + width - 1 <= torch.arange(n)[:, None]


@wrong("06.stretch_mask", "the dtype is")
def as_numbers(n, width, stride):
    return _stretches(n, width, stride).float()


@wrong("06.stretch_mask", "newest stretch alone")
def newest(n, width, stride):
    seen = _stretches(n, width, stride)
    return seen & ~_stretches(n, width, stride, lambda c: (c + 1) * stride + width - 1)


def _best(scores, k, dim=-1, largest=True):
    chosen = torch.zeros_like(scores, dtype=torch.bool)
    return chosen.scatter(dim, scores.topk(min(k, scores.shape[dim]), dim, largest).indices, True)


@wrong("06.top_k_gates", "no longer add up to 1")
def softmax_first(scores, k):
    return torch.softmax(scores, -1) * _best(scores, k)


@wrong("06.top_k_gates", "get exactly 0")
def all_of_them(scores, k):
    return torch.softmax(scores, -1)


@wrong("06.top_k_gates", "k worst")
def worst(scores, k):
    return torch.softmax(scores.masked_fill(~_best(scores, k, largest=False), float("-inf")), -1)


@wrong("06.top_k_gates", "along the positions")
def along_positions(scores, k):
    return torch.softmax(scores.masked_fill(~_best(scores, k, 0), float("-inf")), -1).nan_to_num()


@wrong("06.top_k_gates", "best and softmax are those along the positions")
def wrong_axis(scores, k):
    return torch.softmax(scores.masked_fill(~_best(scores, k, 0), float("-inf")), 0)


@wrong("06.top_k_gates", "only k - 1 experts")
def above_the_kth(scores, k):
    least = scores.sort(-1, descending=True).values[:, k - 1 : k]
    return torch.softmax(scores.masked_fill(scores <= least, float("-inf")), -1)


@wrong("06.top_k_gates", "over the positions")
def over_positions(scores, k):
    return torch.softmax(scores.masked_fill(~_best(scores, k), float("-inf")), 0).nan_to_num()


@wrong("06.top_k_gates", "the same gate")
def equal_shares(scores, k):
    return _best(scores, k).float() / k


@wrong("06.top_k_gates", "a score like any other")
def zero_instead(scores, k):
    return torch.softmax(scores * _best(scores, k), -1)


@wrong("06.top_k_gates", "scores of the best")
def no_softmax(scores, k):
    return scores * _best(scores, k)


@wrong("06.top_k_gates", "the shape is")
def narrow(scores, k):
    return torch.softmax(scores.topk(k).values, -1)


@wrong("06.top_k_gates", "no gradient goes back")
def detached(scores, k):
    return torch.softmax(scores.detach().masked_fill(~_best(scores, k), float("-inf")), -1)
