import torch

from .collection import wrong


def _self(X, W_q, W_k, W_v, lengths, see=lambda t, j: j <= t, padding=True, scale=None, axis=-1, fill=float("-inf"), swap=False,
          after=False, values=True):
    n = X.shape[1]
    q, k, v = X @ W_q, X @ W_k, X @ W_v
    e = q @ k.transpose(1, 2) / (scale or W_k.shape[1]) ** 0.5
    e = e.transpose(1, 2) if swap else e
    t, j = torch.arange(n)[:, None], torch.arange(n)
    mask = see(t, j) & ((j < lengths[:, None, None]) | (not padding))
    weights = torch.softmax(e, axis) * mask if after else torch.softmax(e.masked_fill(~mask, fill), axis)
    return weights @ v, weights


@wrong("03.masked_self_attention", "the future is visible")
def sees_the_future(*inputs):
    return _self(*inputs, see=lambda t, j: j < 10**6 + 0 * t)


@wrong("03.masked_self_attention", "no mask is used")
def no_mask(*inputs):
    return _self(*inputs, see=lambda t, j: j < 10**6 + 0 * t, padding=False)


@wrong("03.masked_self_attention", "the padding gets weight")
def sees_the_padding(*inputs):
    return _self(*inputs, padding=False)


@wrong("03.masked_self_attention", "one position too many")
def off_by_one(*inputs):
    return _self(*inputs, see=lambda t, j: j <= t + 1)


@wrong("03.masked_self_attention", "is the diagonal masked?")
def strictly_before(*inputs):
    return _self(*inputs, see=lambda t, j: j < t)


@wrong("03.masked_self_attention", "a position may not see itself")
def strictly_before_with_zeros(*inputs):
    context, weights = _self(*inputs, see=lambda t, j: j < t)
    return context.nan_to_num(), weights.nan_to_num()


@wrong("03.masked_self_attention", "applied after the softmax")
def mask_after(*inputs):
    return _self(*inputs, after=True)


@wrong("03.masked_self_attention", "the softmax runs over the queries")
def over_the_queries(*inputs):
    context, weights = _self(*inputs, axis=1)
    return context.nan_to_num(), weights.nan_to_num()


@wrong("03.masked_self_attention", "the scores are not scaled")
def unscaled(*inputs):
    return _self(*inputs, scale=1)


@wrong("03.masked_self_attention", "the root of the width of X")
def scaled_by_the_input(X, *inputs):
    return _self(X, *inputs, scale=X.shape[-1])


@wrong("03.masked_self_attention", "queries and keys are swapped")
def swapped(*inputs):
    return _self(*inputs, swap=True)


@wrong("03.masked_self_attention", "expected exactly 0")
def mild_fill(*inputs):
    return _self(*inputs, fill=-8.0)


@wrong("03.masked_self_attention", "as wide as the values")
def inputs_for_values(X, W_q, W_k, W_v, lengths):
    _, weights = _self(X, W_q, W_k, W_v, lengths)
    return weights @ X, weights


@wrong("03.masked_self_attention", "the weights are transposed in the sum")
def transposed_sum(X, W_q, W_k, W_v, lengths):
    _, weights = _self(X, W_q, W_k, W_v, lengths)
    return weights.transpose(1, 2) @ (X @ W_v), weights


@wrong("03.masked_self_attention", "expected (context, weights)")
def wrong_way_round(*inputs):
    return _self(*inputs)[::-1]


def _heads(query, source, W_q, W_k, W_v, W_o, h, mask, cut=None, scale=None, axis=-1, join=None, last=True):
    batch, _, d = query.shape
    cut = cut or (lambda y: y.view(batch, -1, h, d // h).transpose(1, 2))
    q, k, v = cut(query @ W_q), cut(source @ W_k), cut(source @ W_v)
    e = q @ k.transpose(-1, -2) / (scale or d // h) ** 0.5
    context = torch.softmax(e.masked_fill(~mask[:, None], float("-inf")), axis).nan_to_num() @ v
    context = (join or (lambda y: y.transpose(1, 2)))(context).reshape(query.shape)
    return context @ W_o if last else context


@wrong("03.multi_head", "one head of the full width")
def one_head(query, source, W_q, W_k, W_v, W_o, num_heads, mask):
    return _heads(query, source, W_q, W_k, W_v, W_o, 1, mask)


@wrong("03.multi_head", "a view alone, which mixes positions")
def view_alone(query, source, W_q, W_k, W_v, W_o, h, mask):
    d = query.shape[-1]
    return _heads(query, source, W_q, W_k, W_v, W_o, h, mask, cut=lambda y: y.view(len(y), h, -1, d // h))


@wrong("03.multi_head", "every num_heads-th column")
def interleaved(query, source, W_q, W_k, W_v, W_o, h, mask):
    d = query.shape[-1]
    return _heads(query, source, W_q, W_k, W_v, W_o, h, mask, cut=lambda y: y.view(len(y), -1, d // h, h).permute(0, 3, 1, 2))


@wrong("03.multi_head", "the scale is the root of d")
def scaled_by_d(query, *inputs):
    return _heads(query, *inputs, scale=query.shape[-1])


@wrong("03.multi_head", "the scores are not scaled")
def unscaled(*inputs):
    return _heads(*inputs, scale=1)


@wrong("03.multi_head", "the softmax runs over the queries")
def over_the_queries(*inputs):
    return _heads(*inputs, axis=-2)


@wrong("03.multi_head", "the mask is upside down")
def inverted(*inputs):
    return _heads(*inputs[:-1], ~inputs[-1])


@wrong("03.multi_head", "the mask is not used")
def no_mask(*inputs):
    return _heads(*inputs[:-1], torch.ones_like(inputs[-1]))


@wrong("03.multi_head", "W_o is missing")
def no_output_projection(*inputs):
    return _heads(*inputs, last=False)


@wrong("03.multi_head", "without swapping positions and heads back")
def not_swapped_back(*inputs):
    return _heads(*inputs, join=lambda y: y)


@wrong("03.multi_head", "joined in the wrong order")
def wrong_order(*inputs):
    return _heads(*inputs, join=lambda y: y.flip(1).transpose(1, 2))


@wrong("03.multi_head", "the columns of the heads are interleaved")
def columns_interleaved(*inputs):
    return _heads(*inputs, join=lambda y: y.permute(0, 2, 3, 1))


@wrong("03.multi_head", "used transposed")
def transposed(query, source, W_q, W_k, W_v, W_o, h, mask):
    return _heads(query, source, W_q.T, W_k.T, W_v.T, W_o.T, h, mask)
