import torch

from ..collection import edits, wrong


def _rows(parents):
    return (parents + parents.shape[1] * torch.arange(len(parents))[:, None]).flatten()


edit = edits("06.cache_by_hand")
edit("one factor of 2 is missing", "240_000", "120_000")
edit("both factors of 2 are missing", "240_000", "60_000")
edit("the heads are counted on top of the width", "240_000", "1_200_000")
edit("the width of one head", "240_000", "48_000")
edit("that is one text", "240_000", "80_000")
edit("only the prompt", "240_000", "144_000")
edit("only what the model wrote", "240_000", "96_000")
edit("a query is used once", "240_000", "360_000")
edit("the number of bytes is not 50", "240_000", "50")

edit = edits("06.encoder_cache")
edit("your prediction", '"in all but the first"', '"in the first"')
edit("your prediction", '"in all but the first"', "2")
edit("your prediction", '"in all but the first"', "None")

edit = edits("06.reorder_caches")
edit("they stay where they are", "keys[rows], values[rows]", "keys.clone(), values.clone()")
edit("values of block 0: they stay where they are", "values[rows]", "values")
edit("a parent counts within its sentence", "parents + k * torch.arange(B).unsqueeze(1)", "parents")
edit("the rows are read as j · B + b", "parents + k *", "parents * B +")
edit("expected k times its number", "k * torch", " torch")
edit("the offset of a sentence is B times its number", "k * torch", "B * torch")
edit("every sentence follows the parents", "(parents +", "(parents[:1] +")
edit(
    "each has a parent of its own",
    "(parents + k * torch.arange(B).unsqueeze(1))",
    "(parents[:, :1] + k * torch.arange(B).unsqueeze(1)).expand(B, k)",
)
edit(
    "the result has 1 entries, expected one pair",
    "[(keys[rows], values[rows]) for keys, values in caches]",
    "[tuple(part[rows] for part in caches[0])]",
)
edit(
    "each block has a cache of its own",
    "keys, values in caches",
    "keys, values in caches[:1] * len(caches)",
)
edit("keys and values are exchanged", "keys[rows], values[rows]", "values[rows], keys[rows]")
edit(
    "changes its argument caches in place",
    "return [(keys[rows], values[rows]) for keys, values in caches]",
    "return [(keys.copy_(keys[rows]), values.copy_(values[rows])) for keys, values in caches]",
)
edit("one row for each beam of each sentence", ".flatten()", "")
edit("None came back", "return [", "[")


@wrong("06.reorder_caches", "parents says where a row comes from")
def scattered(caches, parents):
    rows = _rows(parents)
    return [tuple(part.clone().index_copy(0, rows, part) for part in pair) for pair in caches]


edit = edits("06.cached_attention")
edit("there is no mask within the block", ".tril(t)", "")
edit("the mask counts from the first column", ".tril(t)", ".tril()")
edit(
    "a new token does not see itself",
    ".tril(t)",
    ".tril(t - 1)",
    "dim=-1) @",
    "dim=-1).nan_to_num(0.0) @",
)
edit("sees one token after itself", ".tril(t)", ".tril(t + 1)")
edit("the mask is upside down", ".tril(t)", ".triu(t)")
edit(
    "the block does not see the cache", ".tril(t)", ".tril(t).logical_and(torch.arange(t + m) >= t)"
)
edit(
    "the block sees the cache alone",
    ".tril(t).bool()",
    ".bool().logical_and(torch.arange(t + m) < t)",
    "dim=-1) @",
    "dim=-1).nan_to_num(0.0) @",
)
edit("expected the longer cache", ", keys, values\n", ", k, v\n")
edit(
    "stand in front of the old ones",
    "flatten(2), keys, values",
    "flatten(2), keys.roll(m, 2), values.roll(m, 2)",
)
edit("not divided by the root", "/ q.shape[-1] ** 0.5", "")
edit("expected √(d/h)", "q.shape[-1] ** 0.5", "x.shape[-1] ** 0.5")
edit("expected its root", "q.shape[-1] ** 0.5", "q.shape[-1]")
edit(
    "a view or reshape alone cannot",
    ".unflatten(-1, (num_heads, -1)).transpose(1, 2)",
    ".reshape(len(x), num_heads, x.shape[1], -1)",
)
edit("before you flatten", "context.transpose(1, 2).flatten(2)", "context.reshape(x.shape)")
edit("over the queries (dim=-2)", "dim=-1", "dim=-2", ") @ values", ").nan_to_num(0.0) @ values")
edit("keys with W_k, values with W_v", "(W_q, W_k, W_v)", "(W_q, W_k, W_k)")
edit("are made with W_q", "(W_q, W_k, W_v)", "(W_q, W_q, W_v)")
edit("made with the transposed matrix", "x @ W)", "x @ W.T)")
edit(
    "the weights of a row no longer add up to 1",
    '.masked_fill(~allowed, float("-inf"))',
    "",
    "dim=-1) @",
    "dim=-1) * allowed @",
)
edit(
    "no gradient goes back",
    "return context.transpose(1, 2).flatten(2), keys, values",
    "return context.transpose(1, 2).flatten(2).detach(), keys.detach(), values.detach()",
)
edit(
    "no gradient reaches", "[keys, k]", "[keys.detach(), k]", "[values, v]", "[values.detach(), v]"
)
edit("the shape is", ".flatten(2),", ".flatten(2)[:, -1:],")
