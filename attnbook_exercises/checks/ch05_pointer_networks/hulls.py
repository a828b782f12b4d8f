"""Checks of the section on hulls: sides of a line, a prediction, the canonical walk, the curves of
three runs, an area on paper, triangles in order, covered area.
"""

import itertools

import numpy as np
import torch

from ..context import CheckContext, a, array
from ..registry import exercise
from ..slips import Slips, on_paper, read_the_curve


def _points(ctx, n):
    """n points inside the unit square."""
    return torch.sigmoid(ctx.normal(n, 2))


def _turn(p, q, r):
    return (q[..., 0] - p[..., 0]) * (r[..., 1] - p[..., 1]) - (q[..., 1] - p[..., 1]) * (
        r[..., 0] - p[..., 0]
    )


def _area(corners, until=None):
    """By the shoelace formula; `until=-1` leaves out the edge back to the first corner."""
    x, y = corners.T
    return float((x * np.roll(y, -1) - np.roll(x, -1) * y)[:until].sum() / 2)


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


def _left(a, b, c):
    return _turn(a, b, c) > 0


_LEFT = Slips(
    _left,
    {
        "right instead of left: the cross product is above 0 where c lies left": "> 0 → < 0",
        "a point on the line counts as left: expected only those strictly left of it": "> 0 → >= 0",
        "that is the dot product: it tells "
        "before from behind, not left from right": "_turn(a, b, c) → ((b - a) * (c - a)).sum(-1)",
        "the cross product is that of b and c themselves: "
        "expected that of b − a and c − a": "(a, → (0 * a,",
        "only the heights are compared: "
        "the line is not level": "_turn(a, b, c) → (c - a + 0 * b)[..., 1]",
        "every point counts as left": "> 0 → < np.inf",
    },
)


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
        (1e-6 * p, 1e-6 * q, 1e-6 * r),  # small triangles turn as well
        (p + 2**16, q + 2**16, r + 2**16),  # and so do those far from the origin
        (p, p + q * torch.tensor([0.0, 1.0]), r),  # and vertical lines
        (p, q, (p + q) / 2 + (1e-9 if ctx.case else 1e-3) * r),  # and what lies near a line
        (p.view(rows, 1, 2), q.view(rows, 1, 2), ctx.normal(rows, 4, 2)),
    ):
        shape = torch.broadcast_shapes(*(g.shape for g in given))[:-1]
        got = ctx.call(answer, *given)
        mention = "one truth value a point c"
        got = ctx.tensor(got, "the result", shape, dtype=torch.bool, mention=mention)
        right, wrong = _LEFT(*map(array, given))
        ctx.close(got, right, "the result", wrong)


@exercise("05.listed_anew", title="Predict: The same points, listed anew", difficulty=1, minutes=3)
def listed_anew(answer, ctx):
    return ctx.predicted(answer, "all of them", "about two in three", "hardly any")


@exercise("05.canonical_walk", title="One walk out of many", difficulty=2, minutes=6)
def canonical_walk(answer, ctx):
    corners = ctx.sizes(corners=(3, 7))
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
        back = (
            "the hull lies far from the origin, and the walk runs clockwise: the area lacks the "
            "edge from the last corner back to the first"
            if away
            else "the hull is narrow and slanted, and the walk runs clockwise: the sign of the "
            "area needs both products of all edges, x_k y_k+1 and x_k+1 y_k"
            if slant
            else "the direction is chosen by the indices: expected counter-clockwise, where the "
            "area is above 0"
            if not upwards
            else "the walk runs clockwise: expected counter-clockwise, where its area is above 0"
            if turned_round
            else "the walk ran counter-clockwise already, and came back turned round: do that "
            "only where its area is below 0"
        )

        def fits(points, right, walk, known, away=away, slant=slant, upwards=upwards):
            """Whether every mistake gives another walk; with the first two, a walk chosen by its
            indices is right.
            """
            xy = array(points)[walk]
            closed = _area(xy) * _area(xy, -1) > 0
            others = {tuple(one) for one in (right, *known.values())}
            apart = (right[1] < right[-1]) == upwards and len(others) == len(known) + 1
            return apart and (bool(slant) or closed != bool(away))

        while True:
            points = _points(ctx, ctx.integers(8, 12)) + away * torch.tensor([-1.0, 1.0])
            points[:, 0] += slant * points[:, 1]
            if _compare_walks(answer, ctx, points, _hull(array(points)), turned_round, back, fits):
                break
    for turned_round in (True, False):  # all points on a circle, in any order
        numbers = ctx.order(corners)
        angle = (torch.arange(corners) + 0.5) * (2 * np.pi / corners)
        points = torch.empty(corners, 2)
        points[numbers] = 1e-5 * torch.stack([angle.cos(), angle.sin()], -1)
        _compare_walks(answer, ctx, points, _from_lowest(numbers), turned_round)


def _compare_walks(answer, ctx, points, right, turned_round, back=None, fits=None):
    """Whether the draw fits; it is judged then."""
    k = ctx.integers(1, len(right))
    walk = right[k:] + right[:k]
    walk = walk[::-1] if turned_round else walk
    left, round_ = int(array(points)[right][:, 0].argmin()), _from_lowest(right[::-1])
    known = {
        "the walk came back as it was: turn it so that it starts at the lowest index": walk,
        "the positions are sorted: that is no walk round the hull any more": sorted(right),
        back or "the walk runs clockwise: expected counter-clockwise": round_,
        "the walk starts at a point that is chosen by where it lies: expected the lowest "
        "index": right[left:] + right[:left],
        "the walk is turned round after it was turned to its start: now the lowest index comes "
        "last": round_[::-1],
    }
    if fits and not fits(points, right, walk, known):
        return False
    got = ctx.ids(ctx.call(answer, points, walk), "the walk")
    if fits:
        ctx.recognize(got, right, known)
    if sorted(got) != sorted(right):
        ctx.fail(f"the walk has the positions {got}, expected those of {walk}, each once")
    if got[0] != min(right):
        ctx.fail(f"the walk starts at {got[0]}: expected the lowest index, {min(right)}")
    if got != right:
        ctx.fail(f"the walk is {got}, expected {right}: counter-clockwise, from the lowest index")
    return True


@read_the_curve("05.three_runs", title="How far is it to the floor?", difficulty=2, minutes=5)
def three_runs():
    return {
        "the run from any corner": (
            "B",
            {
                "A": "it falls by 0.07 in the second half, so what is left can be learned: what "
                "nobody can learn away stays level",
                "C": "it falls to 0.07, far below 0.27, which a start that cannot be known costs",
            },
        ),
        "the run farthest above its floor": (
            "A",
            {
                "B": "its floor is 0.27, and it ends 0.07 above that",
                "C": "its floor is 0, and it ends 0.07 above that: another run has more to learn",
            },
        ),
    }


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


def _ordered(xy, triangles):
    corners = xy[np.array(triangles)]
    weights = np.linalg.norm(np.roll(corners, -1, 1) - np.roll(corners, -2, 1), axis=-1)
    centres = (weights[..., None] * corners).sum(1) / weights.sum(1)[:, None]
    order = sorted(range(len(triangles)), key=lambda k: tuple(centres[k]))
    return [triangles[k] for k in order]


_ORDERED = Slips(
    _ordered,
    {
        "the triangles are ordered by their centroids, the mean of the corners: "
        "expected the incentres": "centres = → weights = np.ones_like(weights)\n    centres =",
        "each corner is weighted by the length of a side that meets it: "
        "expected the side opposite": "centres = → weights = np.roll(weights, 1, 1)\n    centres =",
        "the corners are weighted by squared lengths of the sides: "
        "expected the lengths": "axis=-1) → axis=-1) ** 2",
        "the triangles are ordered by the second coordinate: "
        "expected the first": "tuple(centres[k]) → tuple(centres[k][::-1])",
        "the order is turned round: expected from left to right": "in order] → in order[::-1]]",
        "the triangles are ordered by their positions: expected "
        "by their incentres": "return [triangles[k] for k in order] → return sorted(triangles)",
        "the triangles stand as they came: "
        "order them by their incentres": "in order] → in range(len(order))]",
    },
)


def _triple(ctx, value):
    ids = tuple(ctx.ids(value, "a triangle"))
    if type(value) is not tuple:
        ctx.fail(f"a triangle is {a(value)}: expected a tuple, {ids}")
    return ids


@exercise("05.triangle_order", title="Triangles in one order", difficulty=3, minutes=10)
def triangle_order(answer, ctx: CheckContext):
    n, count = ctx.sizes(points=(3, 9, 12), triangles=(1, 9))
    every = list(itertools.combinations(range(n), 3))
    while True:
        points = _points(ctx, n)
        ascending = [every[k] for k in ctx.order(len(every))[:count]]
        right, wrong = _ORDERED(array(points), ascending)
        apart = len({tuple(other) for other in (*wrong.values(), right)}) == len(wrong) + 1
        near = array(points + 1e-5 * ctx.normal(n, 2))  # no order that rounding decides
        if len(ascending) > 99 or right == _ordered(near, ascending) and (apart or len(right) < 5):
            break
    given = [tuple(t[i] for i in ctx.order(3)) for t in ascending]
    got = ctx.call(answer, points, given)
    if type(got) not in (list, tuple):
        ctx.fail(
            "None came back. Does your function return the list?"
            if got is None
            else f"{a(got)} came back, expected a list of triples"
        )
    got = [_triple(ctx, t) for t in got]
    if sorted(tuple(sorted(t)) for t in got) != sorted(ascending):
        ctx.fail(f"{len(got)} triangles came back, expected the {len(given)} given ones, each once")
    unsorted = [t for t in got if t != tuple(sorted(t))]
    if unsorted:
        ctx.fail(
            f"the triangle {unsorted[0]} does not ascend: expected {tuple(sorted(unsorted[0]))}"
        )
    ctx.recognize(got, right, wrong)
    if got != right:
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


def _covered(xy, walk, truth):
    if len(walk) < 3 or _crosses(xy, walk):
        return 0.0
    return abs(_area(xy[walk])) / _area(xy[truth])


_COVERED = Slips(
    _covered,
    {
        "the sign is still on it: take the absolute "
        "value, a clockwise walk has an area too": "abs(_area(xy[walk])) → _area(xy[walk])",
        "that is the area, not its share of the true hull's": "/ _area(xy[truth]) →",
        "a walk that crosses itself covers nothing that counts: "
        "expected 0": "or _crosses(xy, walk) →",
        "the edge "
        "back to the first corner is missing in the sum": "_area(xy[walk]) → _area(xy[walk], -1)",
        "the half of the shoelace formula is missing": "abs( → 2 * abs(",
        "the shares are turned round: expected the area of the walk divided by that of the "
        "hull": "abs(_area(xy[walk])) / _area(xy[truth]) → _area(xy[truth]) / abs(_area(xy[walk]))",
        "0 came back for every walk (neighbouring edges share a corner, "
        "and that is no crossing)": "return abs(_area(xy[walk])) / _area(xy[truth]) → return 0.0",
    },
)


@exercise("05.coverage", title="The share of the area", difficulty=3, minutes=12)
def coverage(answer, ctx):
    # of more corners than 24 the edges cannot be compared in a second
    n, corners = ctx.sizes(points_inside=(0, 9), corners=(3, 9, 24))
    cases = []
    angle = torch.arange(corners) * (2 * np.pi / corners)
    circle = torch.stack([angle.cos(), angle.sin()], -1)
    many = torch.cat([circle, 0.3 * _points(ctx, n)])
    numbers = ctx.order(len(many))
    placed = torch.empty_like(many)
    placed[numbers] = many
    ring, k = numbers[:corners], ctx.integers(1, max(2, corners - 2))
    bow = ring[:k] + [ring[k + 1], ring[k]] + ring[k + 2 :]
    late = ring[:-2] + [ring[-1], ring[-2]]
    some = [*ring[:2], *numbers[corners:][:1], *ring[2:]]
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
    # The crossing that only the closing edge makes: the way back from the last corner to the first.
    # It does not name the first corner of the hull.
    closing = next(
        list(w)
        for w in itertools.permutations(right[1:5])
        if _crosses(xy, w) and not _crosses(xy, w, closing=False)
    )
    five = [ctx.order(9)[:5] for _ in range(60)]
    once = [w for w in five if len(_crossings(xy, w)) == 1][:6]
    simple = [w for w in five if not _crosses(xy, w)][:6]
    for name, walk in (
        ("the hull itself", right),
        ("a hull without one corner", short),
        ("a walk that runs clockwise", short[::-1]),
        ("a walk with a point from inside, which is allowed,", [right[0], inner[0], *right[1:]]),
        ("a walk whose first and fourth edge cross", far),
        ("a walk whose way back to its first corner crosses it", closing),
        *(("a walk that crosses itself", walk) for walk in once),
        *(("a walk that crosses itself twice", walk) for walk in twice),
        *(("a walk that does not cross itself", walk) for walk in simple),
        ("a walk that crosses itself five times", [right[k] for k in (0, 2, 4, 1, 3)]),
        ("a walk of three corners", right[-3:]),
        ("a walk of two corners", right[:2]),
        ("an empty walk", []),
    ):
        cases.append((name, points, walk, right))
    beads = torch.tensor([[0.0, 0.0], [1, 0], [3, 0], [4, 0], [4, 4], [0, 4]])
    cases.append(("a walk with four points on one line", beads, [*range(6)], [0, 3, 4, 5]))
    for name, walk in (
        ("all corners", ring[::-1]),
        ("all corners, two neighbours exchanged", bow),
        ("all corners, the last two exchanged", late),
        ("all corners and a point from inside, which is allowed,", some),
    ):
        cases.append((name, placed, walk, ring))
    compared = []
    for name, points, walk, truth in cases:
        name = f"the coverage of {name}"
        got = ctx.number(ctx.call(answer, points, walk, truth), name)
        compared.append((name, got, *_COVERED(array(points), walk, truth)))
    ctx.close_everywhere(compared)
