import math

import torch

from ..collection import wrong


def _rows(places, d, exponent=lambda k, d: 2 * k / d, base=10_000.0):
    k = torch.arange(d // 2)
    angle = places[:, None] * base ** -exponent(k, d)
    return torch.stack([angle.sin(), angle.cos()], -1).flatten(1)


@wrong("06.sinusoid_rows", "in the first half of the columns")
def halves(places, d):
    rows = _rows(places, d)
    return torch.cat([rows[:, 0::2], rows[:, 1::2]], 1) if d > 2 else rows


@wrong("06.sinusoid_rows", "have changed places")
def cosine_first(places, d):
    return _rows(places, d).unflatten(1, (-1, 2)).flip(-1).flatten(1)


@wrong("06.sinusoid_rows", "counted from k = 1")
def from_one(places, d):
    return _rows(places, d, lambda k, d: 2 * (k + 1) / d)


@wrong("06.sinusoid_rows", "the exponent is k/d")
def half_exponent(places, d):
    return _rows(places, d, lambda k, d: k / d)


@wrong("06.sinusoid_rows", "the columns are counted twice")
def double_exponent(places, d):
    return _rows(places, d, lambda k, d: 4 * k / d)


@wrong("06.sinusoid_rows", "divided by ω")
def divided(places, d):
    angle = places[:, None] / 10_000.0 ** (-2 * torch.arange(d // 2) / d)
    return torch.stack([angle.sin(), angle.cos()], -1).flatten(1)


@wrong("06.sinusoid_rows", "all columns are sines")
def only_sines(places, d):
    return _rows(places, d)[:, 0::2].repeat_interleave(2, 1)


@wrong("06.sinusoid_rows", "they need not be whole")
def rounded(places, d):
    return _rows(places.trunc(), d)


@wrong("06.sinusoid_rows", "those of places 0, 1, 2")
def counted(places, d):
    return _rows(torch.arange(len(places)).float(), d)


@wrong("06.sinusoid_rows", "a pair shares its frequency")
def each_column_its_own(places, d):
    c = torch.arange(d)
    angle = places[:, None] * 10_000.0 ** (-c / d)
    return torch.where(c % 2 == 0, angle.sin(), angle.cos())


@wrong("06.sinusoid_rows", "one row a place")
def turned(places, d):
    return _rows(places, d).T


def _scores(q, k, table, sign=1, index=None, vectors=None, keys_scale=None, table_scale=None):
    n, root, clip = q.shape[1], math.sqrt(q.shape[-1]), len(table) // 2
    place = torch.arange(n)
    if index is None:
        index = (sign * (place - place[:, None])).clamp(-clip, clip) + clip
    picked = ((q if vectors is None else vectors) @ table.T).gather(-1, index.expand(len(q), n, n))
    return q @ k.mT / (root if keys_scale is None else keys_scale) + picked / (
        root if table_scale is None else table_scale
    )


def _distance(q):
    place = torch.arange(q.shape[1])
    return place - place[:, None]


@wrong("06.relative_scores", "the distance is i − j")
def other_way_round(q, k, table):
    return _scores(q, k, table, sign=-1)


@wrong("06.relative_scores", "has lost its sign")
def without_sign(q, k, table):
    clip = len(table) // 2
    return _scores(q, k, table, index=_distance(q).abs().clamp(max=clip) + clip)


@wrong("06.relative_scores", "the vectors meet the keys")
def keys_and_table(q, k, table):
    clip = len(table) // 2
    index = (_distance(q).clamp(-clip, clip) + clip).expand(len(q), -1, -1)
    return (q @ k.mT + (k @ table.T).gather(-1, index.mT).mT) / math.sqrt(q.shape[-1])


@wrong("06.relative_scores", "not divided by the root of d")
def unscaled(q, k, table):
    return _scores(q, k, table, keys_scale=1.0, table_scale=1.0)


@wrong("06.relative_scores", "divided by d: expected its root")
def scaled_by_the_width(q, k, table):
    return _scores(q, k, table, keys_scale=q.shape[-1], table_scale=q.shape[-1])


@wrong("06.relative_scores", "only the products with the keys are divided")
def table_unscaled(q, k, table):
    return _scores(q, k, table, table_scale=1.0)


@wrong("06.relative_scores", "only the products with the vectors are divided")
def keys_unscaled(q, k, table):
    return _scores(q, k, table, keys_scale=1.0)


@wrong("06.relative_scores", "the table is not used")
def plain(q, k, table):
    return q @ k.mT / math.sqrt(q.shape[-1])


@wrong("06.relative_scores", "the products with the keys are missing")
def without_keys(q, k, table):
    return _scores(q, 0 * k, table)


@wrong("06.relative_scores", "wrap round")
def wraps(q, k, table):
    return _scores(q, k, table, index=(_distance(q) + len(table) // 2) % len(table))


@wrong("06.relative_scores", "one row off")
def one_off(q, k, table):
    clip = len(table) // 2
    return _scores(
        q, k, table, index=(_distance(q).clamp(-clip, clip) + clip + 1).clamp(max=2 * clip)
    )


@wrong("06.relative_scores", "a row too low")
def one_low(q, k, table):
    clip = len(table) // 2
    return _scores(q, k, table, index=(_distance(q).clamp(-clip, clip) + clip - 1).clamp(min=0))


@wrong("06.relative_scores", "K is not added")
def negative_rows(q, k, table):
    clip = len(table) // 2
    return _scores(q, k, table, index=_distance(q).clamp(-clip, clip) % len(table))


@wrong("06.relative_scores", "and those at i")
def keys_of_the_query(q, k, table):
    return _scores(q, k, table, vectors=k)


@wrong("06.relative_scores", "your code stopped with")
def no_clip(q, k, table):
    return _scores(q, k, table, index=_distance(q) + len(table) // 2)


@wrong("06.relative_scores", "a tensor of n·n·d numbers is made")
def a_vector_for_each_pair(q, k, table):
    clip = len(table) // 2
    vectors = table[_distance(q).clamp(-clip, clip) + clip]  # (n, n, d)
    return (q @ k.mT + (q[:, :, None] * vectors).sum(-1)) / math.sqrt(q.shape[-1])


@wrong("06.relative_scores", "no gradient reaches table")
def table_cut(q, k, table):
    return _scores(q, k, table.detach())


@wrong("06.relative_scores", "the gradient at q is not")
def queries_cut_at_the_table(q, k, table):
    return _scores(q, k, table, vectors=q.detach())


def _above(heads):
    n = len(heads)
    above = torch.eye(n, dtype=torch.bool)
    for word in range(n):
        at = word
        while heads[at] >= 0:
            at = int(heads[at])
            above[word, at] = True
    return above


def _distances(heads, factor=2, add=0):
    above = _above(heads).long()
    depth = above.sum(1) - 1
    return depth[:, None] + depth - factor * (above @ above.T - 1) + add


@wrong("06.tree_distance", "differences of depths")
def difference_of_depths(heads):
    depth = _above(heads).sum(1)
    return (depth[:, None] - depth).abs()


@wrong("06.tree_distance", "sums of depths")
def sum_of_depths(heads):
    return _distances(heads, factor=0)


@wrong("06.tree_distance", "for all words that differ")
def over_the_root(heads):
    return _distances(heads, factor=0).fill_diagonal_(0)


@wrong("06.tree_distance", "distances in the sentence")
def in_the_sentence(heads):
    place = torch.arange(len(heads))
    return (place - place[:, None]).abs()


@wrong("06.tree_distance", "taken off once")
def once(heads):
    return _distances(heads, factor=1)


@wrong("06.tree_distance", "each distance is one too large")
def words_on_the_way(heads):
    return _distances(heads, add=1)


@wrong("06.tree_distance", "each distance but 0 is one too large")
def words_but_the_first(heads):
    return _distances(heads, add=1).fill_diagonal_(0)


@wrong("06.tree_distance", "only ways straight up are counted")
def only_up(heads):
    return torch.where(_above(heads), _distances(heads), 0)


@wrong("06.tree_distance", "straight up and down")
def up_and_down(heads):
    above = _above(heads)
    return torch.where(above | above.T, _distances(heads), 0)


@wrong("06.tree_distance", "is taken for the last word")
def root_under_the_last_word(heads):
    n = len(heads)
    distance = torch.full((n, n), n)
    for word, head in enumerate(heads.tolist()):
        distance[word, head] = distance[head, word] = 1
    distance.fill_diagonal_(0)
    for k in range(n):
        distance = torch.minimum(distance, distance[:, k, None] + distance[k])
    return distance


@wrong("06.tree_distance", "does not count as above itself")
def without_itself(heads):
    above = _above(heads).fill_diagonal_(False).long()
    depth = above.sum(1)
    return depth[:, None] + depth - 2 * above @ above.T


@wrong("06.tree_distance", "only neighbours are joined")
def only_neighbours(heads):
    distance = _distances(heads)
    return torch.where(distance == 1, 1, 0)


@wrong("06.tree_distance", "the dtype is float32")
def in_floats(heads):
    return _distances(heads).float()
