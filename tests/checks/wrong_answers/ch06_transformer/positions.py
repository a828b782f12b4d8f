import torch

from ..collection import edits, wrong

edits(
    "06.sinusoid_rows",
    (
        "in the first half of the columns",
        "torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)",
        "torch.cat([angle.sin(), angle.cos()], dim=1)",
    ),
    ("have changed places", "angle.sin(), angle.cos()", "angle.cos(), angle.sin()"),
    ("counted from k = 1", "torch.arange(d // 2)", "torch.arange(1, d // 2 + 1)"),
    ("the exponent is k/d", "-2 * torch", "-1 * torch"),
    ("the columns are counted twice", "-2 * torch", "-4 * torch"),
    ("divided by ω", "* omega", "/ omega"),
    ("all columns are sines", "angle.cos()", "angle.sin()"),
    ("they need not be whole", "places[:, None]", "places.trunc()[:, None]"),
    ("those of places 0, 1, 2", "places[:, None]", "torch.arange(len(places))[:, None]"),
    ("one row a place", ".flatten(1)", ".flatten(1).T"),
)


@wrong("06.sinusoid_rows", "a pair shares its frequency")
def each_column_its_own(places, d):
    c = torch.arange(d)
    angle = places[:, None] * 10_000.0 ** (-c / d)
    return torch.where(c % 2 == 0, angle.sin(), angle.cos())


edits(
    "06.relative_scores",
    ("the distance is i − j", "place - place[:, None]", "place[:, None] - place"),
    (
        "has lost its sign",
        "(place - place[:, None]).clamp(-K, K)",
        "(place - place[:, None]).abs().clamp(max=K)",
    ),
    (
        "the vectors meet the keys",
        "(q @ table.T).gather(-1, index.expand(batch, n, n))",
        "(k @ table.T).gather(-1, index.T.expand(batch, n, n)).transpose(1, 2)",
    ),
    ("not divided by the root of d", "/ d**0.5", ""),
    ("divided by d: expected its root", "d**0.5", "d"),
    (
        "only the products with the keys are divided",
        "(q @ k.transpose(1, 2) + picked) / d**0.5",
        "q @ k.transpose(1, 2) / d**0.5 + picked",
    ),
    (
        "only the products with the vectors are divided",
        "(q @ k.transpose(1, 2) + picked) / d**0.5",
        "q @ k.transpose(1, 2) + picked / d**0.5",
    ),
    ("the table is not used", "+ picked", ""),
    ("the products with the keys are missing", "q @ k.transpose(1, 2) + picked", "picked"),
    (
        "wrap round",
        "(place - place[:, None]).clamp(-K, K) + K",
        "(place - place[:, None] + K) % len(table)",
    ),
    ("one row off", ".clamp(-K, K) + K", ".clamp(-K, K - 1) + K + 1"),
    ("a row too low", ".clamp(-K, K) + K", ".clamp(1 - K, K) + K - 1"),
    ("K is not added", ".clamp(-K, K) + K", ".clamp(-K, K) % len(table)"),
    ("and those at i", "(q @ table.T)", "(k @ table.T)"),
    ("your code stopped with", ".clamp(-K, K)", ""),
    (
        "a tensor of n·n·d numbers is made",
        "(q @ table.T).gather(-1, index.expand(batch, n, n))",
        "(q[:, :, None] * table[index]).sum(-1)",
    ),
    ("no gradient reaches table", "table.T", "table.T.detach()"),
    ("the gradient at q is not", "(q @ table.T)", "(q.detach() @ table.T)"),
)


edits(
    "06.tree_distance",
    (
        "differences of depths",
        "size[:, None] + size - 2 * above @ above.T",
        "(size[:, None] - size).abs()",
    ),
    ("sums of depths", "size[:, None] + size - 2 * above @ above.T", "size[:, None] + size - 2"),
    (
        "for all words that differ",
        "return size[:, None] + size - 2 * above @ above.T",
        "return (size[:, None] + size - 2).fill_diagonal_(0)",
    ),
    (
        "distances in the sentence",
        "size[:, None] + size - 2 * above @ above.T",
        "(torch.arange(n)[:, None] - torch.arange(n)).abs()",
    ),
    ("taken off once", "- 2 * above @ above.T", "- above @ above.T - 1"),
    ("each distance is one too large", "above.T", "above.T + 1"),
    (
        "each distance but 0 is one too large",
        "return size[:, None] + size - 2 * above @ above.T",
        "return (size[:, None] + size - 2 * above @ above.T + 1).fill_diagonal_(0)",
    ),
    (
        "only ways straight up are counted",
        "return size[:, None] + size - 2 * above @ above.T",
        "return above * (size[:, None] - size)",
    ),
    (
        "straight up and down",
        "return size[:, None] + size - 2 * above @ above.T",
        "return (above + above.T).clamp(max=1) * (size[:, None] - size).abs()",
    ),
    (
        "does not count as above itself",
        "size = above.sum(1)",
        "above.fill_diagonal_(0)\n    size = above.sum(1)",
    ),
    (
        "only neighbours are joined",
        "return size[:, None] + size - 2 * above @ above.T",
        "return (size[:, None] + size - 2 * above @ above.T == 1).long()",
    ),
    (
        "the dtype is float32",
        "return size[:, None] + size - 2 * above @ above.T",
        "return (size[:, None] + size - 2 * above @ above.T).float()",
    ),
)


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
