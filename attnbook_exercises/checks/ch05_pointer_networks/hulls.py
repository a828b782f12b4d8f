"""Checks of the section on hulls: an area on paper, a prediction, sides of a line, answers as
targets, the canonical walk, triangles in order, covered area.
"""

import itertools

import numpy as np
import torch

from ..context import CheckContext, a, array, shape_of
from ..registry import exercise
from ..slips import on_paper


def _points(ctx, n):
    """n points inside the unit square."""
    return torch.sigmoid(ctx.normal(n, 2))


def _turn(p, q, r):
    return (q[..., 0] - p[..., 0]) * (r[..., 1] - p[..., 1]) - (q[..., 1] - p[..., 1]) * (
        r[..., 0] - p[..., 0]
    )


def _area(corners):
    x, y = corners.T
    return float((x * np.roll(y, -1) - np.roll(x, -1) * y).sum() / 2)


def _hull(points):
    """Counter-clockwise from the lowest index, by sorting and two chains."""
    order = sorted(range(len(points)), key=lambda i: tuple(points[i]))
    chains = []
    for run in (order, order[::-1]):
        chain = []
        for i in run:
            while len(chain) > 1 and _turn(points[chain[-2]], points[chain[-1]], points[i]) <= 0:
                chain.pop()
            chain.append(i)
        chains += chain[:-1]
    return _from_lowest(chains)


def _from_lowest(walk):
    k = walk.index(min(walk))
    return walk[k:] + walk[:k]


@on_paper(
    "05.missed_corner",
    "the share",
    title="A corner left out",
    difficulty=1,
    minutes=4,
    within=0.002,
)
def missed_corner():
    return 8 / 9, {
        "the fraction stands upside down: the answer covers less than the hull": 9 / 8,
        "that is the area of the answer: divide it by that of the hull": 16,
        "that is the area of the hull: expected the share that the answer covers of it": 18,
        "that is the share that is missing": 1 / 9,
        "the triangle that is missing has the base 4 and the height 1, and half of their product "
        "is its area; if you counted corners, areas are asked for": 16 / 20,
        "the height of the triangle is 1, from y = 4 to y = 5": 16 / 26,
        "the triangle is compared with the answer, not with the hull": 7 / 8,
        "the share is a number from 0 to 1, not in percent": 800 / 9,
    }


@exercise("05.listed_anew", title="Predict: The same points, listed anew", difficulty=1, minutes=3)
def listed_anew(answer, ctx):
    return ctx.predicted(answer, "all of them", "about two in three", "hardly any")


@exercise("05.left_of", title="Left of the line", difficulty=1, minutes=4)
def left_of(answer, ctx):
    rows = ctx.sizes(rows=(1, 40))
    p, q, r = (ctx.normal(rows, 2) for _ in range(3))
    grid = [ctx.integers(-2, 3, rows, 2).float() for _ in range(2)]
    step = ctx.integers(-2, 3, rows, 1)
    on = (grid[0], grid[1], grid[0] + step * (grid[1] - grid[0]))  # all three on one line
    for given in (
        (p, q, r),
        on,
        (p[0], q[0], r[0]),
        (1e-3 * p, 1e-3 * q, 1e-3 * r),  # small triangles turn as well
        (p.view(rows, 1, 2), q.view(rows, 1, 2), ctx.normal(rows, 4, 2)),
    ):
        shape = torch.broadcast_shapes(*(g.shape for g in given))[:-1]
        got = ctx.tensor(
            ctx.call(answer, *given),
            "the result",
            shape,
            dtype=torch.bool,
            mention="one truth value a point c",
        )
        x, y, z = (array(g) for g in given)
        cross = _turn(x, y, z)
        wrong = {
            "right instead of left: the cross product is above 0 where c lies left": cross < 0,
            "a point on the line counts as left: expected only those strictly left of it": cross
            >= 0,
            "that is the dot product: it tells before from behind, not left from right": (
                (y - x) * (z - x)
            ).sum(-1)
            > 0,
            "the cross product is that of b and c themselves: expected that of b − a and c − a": y[
                ..., 0
            ]
            * z[..., 1]
            - y[..., 1] * z[..., 0]
            > 0,
            "only the heights are compared: the line is not level": z[..., 1]
            > x[..., 1] + 0 * y[..., 1],
            "every point counts as left": np.ones_like(cross, dtype=bool),
        }
        ctx.close(got, cross > 0, "the result", wrong)


@exercise("05.code_answers", title="Answers as targets", difficulty=1, minutes=4)
def code_answers(answer, ctx):
    count, n = ctx.sizes(walks=(1, 4), n=(1, 12))
    named, longest = max(1, n - 2), max(1, n - 3)  # the last two points are in no walk
    walks = [ctx.order(named)[:longest]]
    for _ in range(count - 1):
        walks.append(ctx.order(max(1, named - 1))[: ctx.integers(1, max(longest, 2))])
    walks = [walks[i] for i in ctx.order(count)]
    got = ctx.call(answer, walks, n)
    shape = shape_of(got)
    if shape == (len(walks), longest):
        ctx.fail(
            "the longest walk has no room for END: expected one column more than it has positions"
        )
    if shape == (len(walks), n + 1) and longest < n:
        ctx.fail(
            f"the rows are n + 1 = {n + 1} wide: expected one more than the longest walk "
            f"has, {longest + 1}"
        )
    got = array(
        ctx.tensor(
            got, "targets", (len(walks), longest + 1), dtype=torch.long, mention="a row a walk"
        )
    )

    def coded(end=n, padding=-1):
        return np.array(
            [
                [*walk, end(walk) if callable(end) else end] + [padding] * (longest - len(walk))
                for walk in walks
            ]
        )

    wrong = {
        "END is n − 1, and that is the last point: expected n": coded(n - 1),
        "END is the length of the walk, and that is a point too: expected n, the same in "
        "each row": coded(len),
        "END is the highest position in the walks + 1: expected n, the points that are in no "
        "walk count too": coded(max(map(max, walks)) + 1),
        "END is one more than the highest position of its walk: expected n, the same in each "
        "row": coded(lambda walk: max(walk) + 1),
        "padding is 0, and 0 is the first point: expected −1": coded(padding=0),
        "padding is END: the loss would ask for END again and again; expected −1": coded(padding=n),
        "END and padding are −1 both: nobody learns when to stop": coded(-1),
        "END stands in the last column of each row: expected right behind the walk": np.array(
            [[*walk] + [-1] * (longest - len(walk)) + [n] for walk in walks]
        ),
        "the padding stands in front of the walk: expected behind END": np.array(
            [[-1] * (longest - len(walk)) + [*walk, n] for walk in walks]
        ),
        "END stands in front of the walk: expected behind it": np.array(
            [[n, *walk] + [-1] * (longest - len(walk)) for walk in walks]
        ),
    }
    ctx.close(got, coded(), "targets", wrong)


@exercise("05.canonical_walk", title="One walk out of many", difficulty=2, minutes=6)
def canonical_walk(answer, ctx):
    def unchanged(_, copies):
        if copies[1] != walk:
            ctx.fail(
                "your function changes its argument walk in place: the caller's list is "
                "different now"
            )

    # At 3 the hull lies far from the origin, where an area without its closing term has the wrong
    # sign; a slanted one is narrow, and a sum of the wrong products has the wrong sign.
    for turned_round, upwards, away, slant in (
        (True, True, 0, 0),
        (False, True, 0, 0),
        (False, False, 0, 0),
        (True, False, 0, 0),
        (False, True, 3, 0),
        (True, True, 3, 0),
        (False, True, 0, 9),
        (False, True, 0, -9),
    ):
        while True:
            points = _points(ctx, ctx.integers(8, 12)) + away * torch.tensor([-1.0, 1.0])
            points[:, 0] += slant * points[:, 1]
            xy = array(points)
            right = _hull(xy)
            k = ctx.integers(1, len(right))
            walk = right[k:] + right[:k]
            walk = walk[::-1] if turned_round else walk
            back, left = _from_lowest(right[::-1]), int(xy[right][:, 0].argmin())
            known = {
                "the walk came back as it was: turn it so that it starts at the lowest index": walk,
                "the positions are sorted: that is no walk round the hull any more": sorted(right),
                (
                    "the hull lies far from the origin, and the walk runs clockwise: the area "
                    "lacks the edge from the last corner back to the first"
                    if away
                    else "the hull is narrow and slanted, and the walk runs clockwise: the sign "
                    "of the area needs both products of all edges, x_k y_k+1 and x_k+1 y_k"
                    if slant
                    else "the direction is chosen by the indices: expected counter-clockwise, "
                    "where the area is above 0"
                    if not upwards
                    else "the walk runs clockwise: expected counter-clockwise, where its area is "
                    "above 0"
                    if turned_round
                    else "the walk ran counter-clockwise already, and came back turned round: do "
                    "that only where its area is below 0"
                ): back,
                "the walk starts at the leftmost point: expected the lowest index": right[left:]
                + right[:left],
                "the walk is turned round after it was turned to its start: now the lowest index "
                "comes last": back[::-1],
            }
            x, y = xy[walk].T
            open_area = (x[:-1] * y[1:] - x[1:] * y[:-1]).sum()
            if not slant and (_area(xy[walk]) * open_area > 0) == bool(away):
                continue
            # A draw in which every mistake gives another walk; with the first two, a walk chosen by
            # its indices is right.
            if (right[1] < right[-1]) == upwards and len(
                {tuple(w) for w in (right, *known.values())}
            ) == len(known) + 1:
                break
        got = ctx.ids(ctx.call(answer, points, walk, then=unchanged), "the walk")
        ctx.recognize(got, right, known)
        if got == right:
            continue
        if sorted(got) != sorted(right):
            ctx.fail(f"the walk has the positions {got}, expected those of {walk}, each once")
        if got[0] != min(right):
            ctx.fail(f"the walk starts at {got[0]}: expected the lowest index, {min(right)}")
        ctx.fail(f"the walk is {got}, expected {right}")


def _centres(xy, triangles, kind):
    corners = xy[np.array(triangles)]
    if kind == "centroid":
        return corners.mean(1)
    opposite = np.linalg.norm(np.roll(corners, -1, 1) - np.roll(corners, -2, 1), axis=-1)
    if kind == "adjacent":
        opposite = np.roll(opposite, 1, 1)
    if kind == "square":
        opposite = opposite**2
    return (opposite[..., None] * corners).sum(1) / opposite.sum(1)[:, None]


def _ordered(xy, triangles, kind="incentre", first=0, down=False):
    centres = _centres(xy, triangles, kind)
    order = sorted(
        range(len(triangles)),
        key=lambda k: (centres[k][first], centres[k][1 - first]),
        reverse=down,
    )
    return [triangles[k] for k in order]


def _triple(ctx, value):
    ids = tuple(ctx.ids(value, "a triangle"))
    if type(value) is not tuple:
        ctx.fail(f"a triangle is {a(value)}: expected a tuple, {ids}")
    return ids


@exercise("05.triangle_order", title="Triangles in one order", difficulty=3, minutes=10)
def triangle_order(answer, ctx: CheckContext):
    for _ in range(2):
        while True:
            points = _points(ctx, 7)
            xy = array(points)
            every = list(itertools.combinations(range(7), 3))
            ascending = [every[k] for k in ctx.order(len(every))[:9]]
            right = _ordered(xy, ascending)
            known = {
                "the triangles are ordered by their centroids, the mean of the corners: expected "
                "the incentres": _ordered(xy, ascending, "centroid"),
                "each corner is weighted by the length of a side that meets it: expected the "
                "side opposite": _ordered(xy, ascending, "adjacent"),
                "the corners are weighted by squared lengths of the sides: expected the "
                "lengths": _ordered(xy, ascending, "square"),
                "the triangles are ordered by the second coordinate: expected the first": _ordered(
                    xy, ascending, first=1
                ),
                "the order is turned round: expected from left to right": _ordered(
                    xy, ascending, down=True
                ),
                "the triangles are ordered by their positions: expected by their incentres": sorted(
                    ascending
                ),
                "the triangles stand as they came: order them by their incentres": ascending,
            }
            gaps = np.diff(np.sort(_centres(xy, ascending, "incentre")[:, 0]))
            if (
                gaps.min() > 1e-4
                and len({tuple(map(tuple, other)) for other in (*known.values(), right)})
                == len(known) + 1
            ):
                break
        given = [tuple(t[i] for i in ctx.order(3)) for t in ascending]
        got = ctx.call(answer, points, given)
        if got is None or type(got) not in (list, tuple):
            ctx.fail(
                "None came back. Does your function return the list?"
                if got is None
                else f"{a(got)} came back, expected a list of triples"
            )
        got = [_triple(ctx, t) for t in got]
        if sorted(tuple(sorted(t)) for t in got) != sorted(ascending):
            ctx.fail(
                f"{len(got)} triangles came back, expected the {len(given)} given ones, each once"
            )
        unsorted = [t for t in got if t != tuple(sorted(t))]
        if unsorted:
            ctx.fail(
                f"the triangle {unsorted[0]} does not ascend: expected {tuple(sorted(unsorted[0]))}"
            )
        ctx.recognize(got, right, known)
        if got == right:
            continue
        place = next(k for k, (mine, other) in enumerate(zip(got, right)) if mine != other)
        ctx.fail(f"triangle {place} is {got[place]}, expected {right[place]}")
    # Two triangles with sides of 3, 4 and 5, one above the other: the incentres have the same x,
    # and no rounding is in them.
    x, y, lift = ctx.integers(-4, 5), ctx.integers(-4, 5), ctx.integers(4, 9)
    lower = torch.tensor([[x, y], [x + 4, y], [x, y + 3]]).float()
    points = torch.cat([lower + torch.tensor([0.0, float(lift)]), lower])
    got = ctx.call(answer, points, [(0, 1, 2), (3, 4, 5)])
    if type(got) not in (list, tuple) or [_triple(ctx, t) for t in got] != [(3, 4, 5), (0, 1, 2)]:
        ctx.fail(
            "two incentres have the same first coordinate: expected the one with the lower "
            "second coordinate first"
        )


def _crossings(xy, walk, *, closing=True):
    """The pairs of edges that cross; edge k starts at corner k of the walk."""
    m = len(walk)
    edges = [(k, (k + 1) % m) for k in range(m if closing else m - 1)]
    crossings = []
    for (i, j), (k, l) in itertools.combinations(edges, 2):
        if {i, j} & {k, l}:
            continue
        p, q, r, s = (xy[walk[t]] for t in (i, j, k, l))
        if _turn(p, q, r) * _turn(p, q, s) < 0 and _turn(r, s, p) * _turn(r, s, q) < 0:
            crossings.append((i, k))
    return crossings


def _crosses(xy, walk, *, closing=True):
    return bool(_crossings(xy, walk, closing=closing))


@exercise("05.coverage", title="The share of the area", difficulty=3, minutes=12)
def coverage(answer, ctx):
    while True:
        points = _points(ctx, 9)
        xy = array(points)
        right = _hull(xy)
        inner = [i for i in range(9) if i not in right]
        if not 5 <= len(right) <= 7:
            continue
        tries = (ctx.order(9)[:6] for _ in range(300))
        far = next((w for w in tries if _crossings(xy, w) == [(0, 3)]), None)
        tries = (ctx.order(9)[:6] for _ in range(300))
        twice = [w for w in tries if len(_crossings(xy, w)) == 2][:3]
        if far and twice:
            break
    short = right[:2] + right[3:]
    dented = right[:1] + [inner[0]] + right[1:]
    bow = [right[0], right[2], right[1], *right[3:]]
    last = [*right[1:-2], right[-1], right[-2], right[0]][: len(right)]
    # The crossing that only the closing edge makes: the way back from the last corner to the first.
    # It does not name the first corner of the hull.
    closing = next(
        list(w)
        for w in itertools.permutations(right[1:5])
        if _crosses(xy, w) and not _crosses(xy, w, closing=False)
    )
    some = [ctx.order(9)[:5] for _ in range(60)]
    once = [w for w in some if len(_crossings(xy, w)) == 1][:6]
    simple = [w for w in some if not _crosses(xy, w)][:6]
    hull_area = _area(xy[right])
    cases = [
        ("the hull itself", right),
        ("a hull without one corner", short),
        ("a walk that runs clockwise", short[::-1]),
        ("a walk with a point from inside", dented),
        ("a walk that crosses itself", bow),
        ("a walk that crosses itself", last),
        ("a walk whose first and fourth edge cross", far),
        ("a walk whose way back to its first corner crosses it", closing),
        *(("a walk that crosses itself", walk) for walk in once),
        *(("a walk that crosses itself twice", walk) for walk in twice),
        *(("a walk that does not cross itself", walk) for walk in simple),
        ("a walk that crosses itself five times", [right[k] for k in (0, 2, 4, 1, 3)]),
        ("a walk of three corners", right[-3:]),
        ("a walk of two corners", right[:2]),
        ("an empty walk", []),
    ]
    for name, walk in cases:
        result = ctx.number(ctx.call(answer, points, walk, right), f"the coverage of {name}")
        expected = 0.0 if len(walk) < 3 or _crosses(xy, walk) else abs(_area(xy[walk])) / hull_area
        if np.isclose(result, expected, rtol=1e-4, atol=2e-5):
            continue
        if len(walk) >= 3:
            signed, x, y = _area(xy[walk]), *xy[walk].T
            known = {
                "the sign is still on it: take the absolute value, a clockwise walk has an area "
                "too": signed / hull_area if expected and signed < 0 else np.nan,
                "that is the area, not its share of the true hull's": abs(signed) * (expected > 0),
                "a walk that crosses itself covers nothing that counts: expected 0": abs(signed)
                / hull_area
                if not expected
                else np.nan,
                "the edge back to the first corner is missing in the sum": abs(
                    (x[:-1] * y[1:] - x[1:] * y[:-1]).sum() / 2
                )
                / hull_area,
                "the half of the shoelace formula is missing": 2 * abs(signed) / hull_area
                if expected
                else np.nan,
                "the shares are turned round: expected the area of the walk divided by that of "
                "the hull": hull_area / abs(signed),
                "this polygon does not cross itself, but 0 came back (neighbouring edges share a "
                "corner, and that is no crossing; a point from inside is allowed)": 0.0
                if expected
                else np.nan,
            }
            for message, other in known.items():
                if np.isclose(result, other, rtol=1e-4, atol=2e-5):
                    ctx.fail(f"{name}: {message}")
        ctx.fail(f"the coverage of {name} is {result:.4g}, expected {expected:.4g}")
