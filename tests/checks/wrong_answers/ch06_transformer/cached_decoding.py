import torch

from ..collection import wrong


def _rows(parents):
    return (parents + parents.shape[1] * torch.arange(len(parents))[:, None]).flatten()


@wrong("06.reorder_caches", "they stay where they are")
def caches_stay(caches, parents):
    return [(keys.clone(), values.clone()) for keys, values in caches]


@wrong("06.reorder_caches", "values of block 0: they stay where they are")
def keys_alone(caches, parents):
    return [(keys[_rows(parents)], values) for keys, values in caches]


@wrong("06.reorder_caches", "a parent counts within its sentence")
def first_sentence(caches, parents):
    return [tuple(part[parents.flatten()] for part in pair) for pair in caches]


@wrong("06.reorder_caches", "the rows are read as j · B + b")
def other_layout(caches, parents):
    rows = (parents * len(parents) + torch.arange(len(parents))[:, None]).flatten()
    return [tuple(part[rows] for part in pair) for pair in caches]


@wrong("06.reorder_caches", "expected k times its number")
def small_offset(caches, parents):
    rows = (parents + torch.arange(len(parents))[:, None]).flatten()
    return [tuple(part[rows] for part in pair) for pair in caches]


@wrong("06.reorder_caches", "the offset of a sentence is B times its number")
def offset_of_sentences(caches, parents):
    rows = (parents + len(parents) * torch.arange(len(parents))[:, None]).flatten()
    return [tuple(part[rows] for part in pair) for pair in caches]


@wrong("06.reorder_caches", "parents says where a row comes from")
def scattered(caches, parents):
    rows = _rows(parents)
    return [tuple(part.clone().index_copy(0, rows, part) for part in pair) for pair in caches]


@wrong("06.reorder_caches", "every sentence follows the parents")
def same_parents(caches, parents):
    rows = _rows(parents[:1].expand_as(parents))
    return [tuple(part[rows] for part in pair) for pair in caches]


@wrong("06.reorder_caches", "each has a parent of its own")
def best_parent(caches, parents):
    rows = _rows(parents[:, :1].expand_as(parents))
    return [tuple(part[rows] for part in pair) for pair in caches]


@wrong("06.reorder_caches", "expected one pair (keys, values) for each of the 2 blocks")
def first_block(caches, parents):
    return [tuple(part[_rows(parents)] for part in caches[0])]


@wrong("06.reorder_caches", "each block has a cache of its own")
def one_block_for_all(caches, parents):
    return [tuple(part[_rows(parents)] for part in caches[0]) for _ in caches]


@wrong("06.reorder_caches", "keys and values are exchanged")
def exchanged(caches, parents):
    return [(values[_rows(parents)], keys[_rows(parents)]) for keys, values in caches]


@wrong("06.reorder_caches", "changes its argument caches in place")
def in_place(caches, parents):
    for keys, values in caches:
        keys.copy_(keys[_rows(parents)])
        values.copy_(values[_rows(parents)])
    return caches


@wrong("06.reorder_caches", "one row for each beam of each sentence")
def five_dimensions(caches, parents):
    return [
        tuple(part[_rows(parents)].unflatten(0, parents.shape) for part in pair) for pair in caches
    ]


@wrong("06.reorder_caches", "None came back")
def nothing(caches, parents):
    [tuple(part[_rows(parents)] for part in pair) for pair in caches]


def _attend(
    x,
    keys,
    values,
    W_q,
    W_k,
    W_v,
    h,
    *,
    diagonal=0,
    scale=None,
    cut=None,
    join=True,
    dim=-1,
    mask=None,
):
    cut = cut or (lambda rows: rows.unflatten(-1, (h, -1)).transpose(1, 2))
    q, k, v = (cut(x @ W) for W in (W_q, W_k, W_v))
    keys, values = torch.cat([keys, k], 2), torch.cat([values, v], 2)
    m, n = q.shape[2], keys.shape[2]
    allowed = torch.ones(m, n).tril(n - m + diagonal).bool() if mask is None else mask(m, n)
    scores = q @ keys.mT * (q.shape[-1] ** -0.5 if scale is None else scale)
    context = scores.masked_fill(~allowed, float("-inf")).softmax(dim).nan_to_num(0.0) @ values
    return (context.transpose(1, 2) if join else context).reshape(x.shape), keys, values


@wrong("06.cached_attention", "there is no mask within the block")
def no_mask(*given):
    return _attend(*given, mask=lambda m, n: torch.ones(m, n).bool())


@wrong("06.cached_attention", "the mask counts from the first column")
def mask_from_the_left(*given):
    return _attend(*given, mask=lambda m, n: torch.ones(m, n).tril().bool())


@wrong("06.cached_attention", "a new token does not see itself")
def not_itself(*given):
    return _attend(*given, diagonal=-1)


@wrong("06.cached_attention", "sees one token after itself")
def one_too_far(*given):
    return _attend(*given, diagonal=1)


@wrong("06.cached_attention", "the mask is upside down")
def upside_down(*given):
    return _attend(*given, mask=lambda m, n: torch.ones(m, n).triu(n - m).bool())


@wrong("06.cached_attention", "the block does not see the cache")
def forgets_the_cache(x, keys, values, W_q, W_k, W_v, h):
    context, new_keys, new_values = _attend(x, keys[:, :, :0], values[:, :, :0], W_q, W_k, W_v, h)
    return context, torch.cat([keys, new_keys], 2), torch.cat([values, new_values], 2)


@wrong("06.cached_attention", "the block sees the cache alone")
def sees_the_old_alone(*given):
    return _attend(*given, mask=lambda m, n: (torch.arange(n) < n - m).expand(m, n))


@wrong("06.cached_attention", "expected the longer cache")
def new_rows_alone(x, keys, *rest):
    context, longer, values = _attend(x, keys, *rest)
    return context, longer[:, :, keys.shape[2] :], values[:, :, keys.shape[2] :]


@wrong("06.cached_attention", "stand in front of the old ones")
def in_front(x, keys, values, W_q, W_k, W_v, h):
    context, longer, more = _attend(x, keys, values, W_q, W_k, W_v, h)
    return context, longer.roll(x.shape[1], 2), more.roll(x.shape[1], 2)


@wrong("06.cached_attention", "not divided by the root")
def not_scaled(*given):
    return _attend(*given, scale=1.0)


@wrong("06.cached_attention", "expected √(d/h)")
def scaled_by_the_model(x, *rest):
    return _attend(x, *rest, scale=x.shape[-1] ** -0.5)


@wrong("06.cached_attention", "expected its root")
def scaled_without_root(x, *rest):
    return _attend(x, *rest, scale=rest[-1] / x.shape[-1])


@wrong("06.cached_attention", "a view or reshape alone cannot")
def view_alone(*given):
    return _attend(*given, cut=lambda rows: rows.reshape(len(rows), given[-1], rows.shape[1], -1))


@wrong("06.cached_attention", "before you flatten")
def flat_heads(*given):
    return _attend(*given, join=False)


@wrong("06.cached_attention", "over the queries (dim=-2)")
def softmax_over_queries(*given):
    return _attend(*given, dim=-2)


@wrong("06.cached_attention", "keys with W_k, values with W_v")
def one_matrix(x, keys, values, W_q, W_k, W_v, h):
    return _attend(x, keys, values, W_q, W_k, W_k, h)


@wrong("06.cached_attention", "are made with W_q")
def keys_by_the_query_matrix(x, keys, values, W_q, W_k, W_v, h):
    return _attend(x, keys, values, W_q, W_q, W_v, h)


@wrong("06.cached_attention", "made with the transposed matrix")
def transposed(x, keys, values, W_q, W_k, W_v, h):
    return _attend(x, keys, values, W_q.T, W_k.T, W_v.T, h)


@wrong("06.cached_attention", "the weights of a row no longer add up to 1")
def mask_after_softmax(x, keys, values, W_q, W_k, W_v, h):
    _, keys, values = _attend(x, keys, values, W_q, W_k, W_v, h)
    q = (x @ W_q).unflatten(-1, (h, -1)).transpose(1, 2)
    weights = (q @ keys.mT / q.shape[-1] ** 0.5).softmax(-1).tril(keys.shape[2] - x.shape[1])
    return (weights @ values).transpose(1, 2).flatten(2), keys, values


@wrong("06.cached_attention", "no gradient goes back")
def detached(*given):
    return tuple(part.detach() for part in _attend(*given))


@wrong("06.cached_attention", "no gradient reaches")
def frozen_cache(x, keys, values, W_q, W_k, W_v, h):
    return _attend(x, keys.detach(), values.detach(), W_q, W_k, W_v, h)


@wrong("06.cached_attention", "the shape is")
def one_position(x, keys, values, W_q, W_k, W_v, h):
    context, keys, values = _attend(x, keys, values, W_q, W_k, W_v, h)
    return context[:, -1:], keys, values
