from ..collection import edits, wrong


def _cross(u, v):
    return u[..., 0] * v[..., 1] - u[..., 1] * v[..., 0]


edit = edits("05.missed_corner")
edit("upside down", "8 / 9", "9 / 8")
edit(" is not ", "8 / 9", "0.5")
edit("one number", "8 / 9", '"8/9"')

edit = edits("05.listed_anew")
edit("expected one of", "about two in three", "about half")
edit("expected one of", "about two in three", "two in three")
edit("one of 'all of them'", '"about two in three"', "0.66")

edit = edits("05.left_of")
edit("right instead of left", "> 0", "< 0")
edit("a point on the line counts as left", "> 0", ">= 0")
edit("that is the dot product", "u[..., 0] * w[..., 1] - u[..., 1] * w[..., 0]", "(u * w).sum(-1)")
edit("that of b and c themselves", "b - a, c - a", "b, c")
edit("the dtype is float32, expected bool", "> 0", "")
edit("only the heights are compared", "u[..., 0]…", "w[..., 1] + 0 * u[..., 1] > 0")


edit = edits("05.code_answers")
edit("END is n − 1", "[*walk, n]", "[*walk, n - 1]")
edit("END is the length of the walk", "[*walk, n]", "[*walk, len(walk)]")
edit("END is the highest position in the walks + 1", "walk, n", "walk, max(map(max, walks)) + 1")
edit("END is one more than the highest position of its walk", "walk, n", "walk, max(walk) + 1")
edit("padding is 0, and 0 is the first point", "[-1]", "[0]")
edit("padding is END", "[-1]", "[n]")
edit("nobody learns when to stop", "[*walk, n]", "[*walk, -1]")
edit(
    "the padding stands in front of the walk",
    "[*walk, n] + [-1] * (width - 1 - len(walk))",
    "[-1] * (width - 1 - len(walk)) + [*walk, n]",
)
edit("has no room for END", "for walk in walks])", "for walk in walks])[:, :-1]")
edit("the rows are n + 1", "max(len(walk) for walk in walks) + 1", "n + 1")
edit("a list came back, expected a torch.Tensor", "walk in walks])", "walk in walks]).tolist()")


def _area(points, walk):
    x, y = points[walk].unbind(1)
    return (x * y.roll(-1) - x.roll(-1) * y).sum() / 2


def _turned(walk):
    k = walk.index(min(walk))
    return walk[k:] + walk[:k]


edit = edits("05.canonical_walk")
edit("the positions are sorted", "return walk[k:] + walk[:k]", "return sorted(walk)")
edit("the walk runs clockwise", "walk = walk[::-1]", "pass")
edit("the walk runs clockwise", ".sum() < 0", ".sum() > 0")
edit("came back turned round", ".sum() < 0", ".sum() != 0")
edit(
    "the area lacks the edge from the last corner back to the first",
    "x * y.roll(-1) - x.roll(-1) * y",
    "x[:-1] * y[1:] - x[1:] * y[:-1]",
)
edit(
    "now the lowest index comes last",
    "x, y =",
    "k = walk.index(min(walk))\n    walk = walk[k:] + walk[:k]\n    x, y =",
    "k = walk.index(min(walk))\n    return walk[k:] + walk[:k]",
    "return walk",
)
edit("starts at the leftmost point", "walk.index(min(walk))", "int(points[walk][:, 0].argmin())")
edit("changes its argument walk in place", "walk = walk[::-1]", "walk.reverse()")


@wrong("05.canonical_walk", "chosen by the indices")
def by_the_indices(points, walk):
    walk = _turned(walk)
    return walk if walk[1] < walk[-1] else _turned(walk[::-1])


edit = edits("05.triangle_order")
edit("by their centroids", "sides @ torch.stack([a, b, c]) / sides.sum()", "(a + b + c) / 3")
edit("a side that meets it", "sides @", "sides.roll(1) @")
edit("by squared lengths", ".norm()", ".square().sum()")
edit("by the second coordinate", ".tolist())", ".tolist()[::-1])")
edit("two incentres have the same first coordinate", " tuple", " ", ".tolist())", ".tolist())[0]")
edit("the order is turned round", "key=incentre", "key=incentre, reverse=True")
edit("does not ascend", "(tuple(sorted(t)) for t in triangles)", "triangles")
edit("ordered by their positions", ", key=incentre", "")
edit("8 triangles came back", "key=incentre)", "key=incentre)[1:]")


def _share(points, walk, truth):
    return float(_area(points, walk).abs() / _area(points, truth).abs())


edit = edits("05.coverage")
edit("covers nothing that counts: expected 0", "len({p, q, r, s}) == 4", "False")
edit("the sign is still on it", ".sum().abs()", ".sum()")
edit("that is the area, not its share", "area(walk) / area(truth)", "area(walk)")
edit(
    "the edge back to the first corner is missing in the sum",
    ".sum().abs()",
    "[: None if corners is truth else -1].sum().abs()",
)
edit(
    "a walk whose way back to its first corner crosses it: a walk that crosses itself",
    "zip(walk, walk[1:] + walk[:1])",
    "zip(walk, walk[1:])",
)
edit("neighbouring edges share a corner", "len({p, q, r, s}) == 4 and", "len({p, q, r, s}) < 4 or")
edit(
    "a walk that crosses itself twice: a walk that crosses itself covers nothing",
    "    edges =",
    "    count = 0\n    edges =",
    "return 0.0\n    return area(walk)",
    "count += 1\n    return 0.0 if count % 2 else area(walk)",
)
edit("a point from inside is allowed", "if len(walk) < 3", "if not set(walk) <= set(truth)")
edit("the shares are turned round", "area(walk) / area(truth)", "area(truth) / area(walk)")


@wrong(
    "05.coverage",
    "a walk whose first and fourth edge cross: a walk that crosses itself covers nothing",
)
def only_the_edge_after_the_next(points, walk, truth):
    m = len(walk)
    if m < 3:
        return 0.0
    corner = [points[walk[k % m]] for k in range(m + 3)]
    for i in range(m if m > 3 else 0):
        p, q, r, s = corner[i], corner[i + 1], corner[i + 2], corner[i + 3]
        if (
            _cross(q - p, r - p) * _cross(q - p, s - p) < 0
            and _cross(s - r, p - r) * _cross(s - r, q - r) < 0
        ):
            return 0.0
    return _share(points, walk, truth)
