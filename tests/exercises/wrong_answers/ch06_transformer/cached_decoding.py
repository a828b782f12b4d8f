from ..collection import edits

edit = edits("06.cache_by_hand")
edit("one factor of 2 is missing", "240_000", "120_000")
edit("both factors of 2 are missing", "240_000", "60_000")
edit("the number of bytes is not 50", "240_000", "50")

edit = edits("06.encoder_cache")
edit("your prediction", '"in all but the first"', '"in the first"')
edit("your prediction", '"in all but the first"', "2")
edit("your prediction", '"in all but the first"', "None")

edit = edits("06.reorder_caches")
edit(
    "the result has 1 entries, expected one pair",
    "[(keys[rows], values[rows]) for keys, values in caches]",
    "[tuple(part[rows] for part in caches[0])]",
)
edit("keys and values are exchanged", "keys[rows], values[rows]", "values[rows], keys[rows]")
edit(
    "changes its argument caches in place",
    "return [(keys[rows], values[rows]) for keys, values in caches]",
    "return [(keys.copy_(keys[rows]), values.copy_(values[rows])) for keys, values in caches]",
)
edit("one row for each beam of each sentence", ".flatten()", "")
edit("None came back", "return [", "[")


edit = edits("06.cached_attention")
edit("expected the longer cache", ", keys, values\n", ", k, v\n")
edit("stand in front of the old ones", ", keys, values", ", keys.roll(m, 2), values.roll(m, 2)")
edit("no gradient goes back", "(2), keys, values", "(2).detach(), keys.detach(), values.detach()")
edit("no gradient reaches", "[keys, k]", "[keys.detach(), k]", "values, v", "values.detach(), v")
edit("the shape is", ".flatten(2),", ".flatten(2)[:, -1:],")
