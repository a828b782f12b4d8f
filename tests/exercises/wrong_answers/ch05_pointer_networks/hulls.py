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
edit("that of b and c themselves", "b - a, c - a", "b, c")
edit("the dtype is float32, expected bool", "> 0", "")
edit("only the heights are compared", "u[..., 0]…", "w[..., 1] + 0 * u[..., 1] > 0")


edit = edits("05.three_runs")
edit("it falls by 0.07 in the second half", '"B", "A"', '"A", "A"')
edit("its floor is 0.27", '"B", "A"', '"B", "B"')
edit("expected the tuple", '"B", "A"', '"B"')


def _area(points, walk):
    x, y = points[walk].unbind(1)
    return (x * y.roll(-1) - x.roll(-1) * y).sum() / 2


edit = edits("05.canonical_walk")
edit("came back turned round", ".sum() < 0", ".sum() != 0")
edit("chosen by where it lies", "walk.index(min(walk))", "int(points[walk][:, 0].argmin())")
edit("changes its argument walk in place", "walk = walk[::-1]", "walk.reverse()")


edit = edits("05.triangle_order")
edit("two incentres have the same first coordinate", " tuple", " ", ".tolist())", ".tolist())[0]")
edit("does not ascend", "(tuple(sorted(t)) for t in triangles)", "triangles")
edit("8 triangles came back", "key=incentre)", "key=incentre)[1:]")


def _share(points, walk, truth):
    return float(_area(points, walk).abs() / _area(points, truth).abs())


edit = edits("05.coverage")
edit(
    "a walk whose way back to its first corner crosses it is",
    "zip(walk, walk[1:] + walk[:1])",
    "zip(walk, walk[1:])",
)
edit(
    "a walk that crosses itself twice is",
    "    edges =",
    "    count = 0\n    edges =",
    "return 0.0\n    return area(walk)",
    "count += 1\n    return 0.0 if count % 2 else area(walk)",
)
edit("a point from inside, which is allowed", "if len(walk) < 3", "if not set(walk) <= set(truth)")


@wrong("05.coverage", "a walk whose first and fourth edge cross is")
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
