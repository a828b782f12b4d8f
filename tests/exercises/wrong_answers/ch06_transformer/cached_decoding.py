import torch

from ..collection import edits, wrong


def _rows(parents):
    return (parents + parents.shape[1] * torch.arange(len(parents))[:, None]).flatten()


edit = edits("06.cache_by_hand")
edit("one factor of 2 is missing", "240_000", "120_000")
edit("both factors of 2 are missing", "240_000", "60_000")
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
edit("each block has a cache of its own", "values in caches", "values in caches[:1] * len(caches)")
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
edit("expected the longer cache", ", keys, values\n", ", k, v\n")
edit("stand in front of the old ones", ", keys, values", ", keys.roll(m, 2), values.roll(m, 2)")
edit("a view or reshape alone cannot", "unflatten…", "reshape(len(x), num_heads, x.shape[1], -1)")
edit("keys with W_k, values with W_v", "(W_q, W_k, W_v)", "(W_q, W_k, W_k)")
edit("are made with W_q", "(W_q, W_k, W_v)", "(W_q, W_q, W_v)")
edit("made with the transposed matrix", "x @ W)", "x @ W.T)")
edit("no gradient goes back", "(2), keys, values", "(2).detach(), keys.detach(), values.detach()")
edit("no gradient reaches", "[keys, k]", "[keys.detach(), k]", "values, v", "values.detach(), v")
edit("the shape is", ".flatten(2),", ".flatten(2)[:, -1:],")
