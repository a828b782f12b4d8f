"""Checks of the section on tours: a crossing on paper, a prediction, the length, the one form, what
an exchange gains, an entry of the table, a beam of valid tours, a batch of them.
"""

import numpy as np
import torch
from torch import Tensor

from ...answers.guarded import StudentError
from ..context import a, array, softmax
from ..registry import exercise
from ..slips import on_paper


def _cities(ctx, *shape):
    return torch.sigmoid(ctx.normal(*shape))


def _matrix(points):
    xy = array(points)
    return np.sqrt(((xy[:, None] - xy[None]) ** 2).sum(-1))


def _rolled(points, tours, dim):
    """The steps to what a wrong roll takes for the next city, added up."""
    at = np.take_along_axis(array(points), array(tours)[..., None], 1)
    return np.sqrt(((np.roll(at, -1, dim) - at) ** 2).sum(-1)).sum(1)


@on_paper("05.uncross", "the gain", title="A crossing less", difficulty=1, minutes=4, within=0.01)
def uncross():
    return 2, {
        "that is the length of the new tour: expected the difference": 14,
        "that is the length of the old tour: expected the difference": 16,
        "the sign is turned round: a gain is above 0 if the tour becomes shorter": -2,
        "the two edges that cross are the diagonals, and the new ones are the sides of length 4: "
        "the sides of length 3 are in the tour already": 4,
        "only one edge was exchanged: both diagonals are taken out": 1,
        "that is the length of what is taken out: something comes in instead": 10,
        "that is the length of the two new edges: expected what is gained": 8,
    }


@exercise("05.small_map", title="Predict: The same map, drawn small", difficulty=1, minutes=3)
def small_map(answer, ctx):
    return ctx.predicted(
        answer,
        "as good as before",
        "worse, but better than nearest neighbour",
        "worse than nearest neighbour",
    )


@exercise("05.tour_lengths", title="The length of a tour", difficulty=1, minutes=4)
def tour_lengths(answer, ctx):
    for rows, n in ((ctx.integers(4, 7), ctx.integers(7, 10)), (1, 5)):
        points = _cities(ctx, rows, n, 2)
        while True:  # no tour that goes round in the order of the input
            tours = torch.tensor([ctx.order(n) for _ in range(rows)])
            step = (tours.roll(-1, 1) - tours).abs()
            if not bool(((step == 1) | (step == n - 1)).all(1).any()) and 0 not in tours[:, 0]:
                break
        got = ctx.call(answer, points, tours)
        if type(got) is Tensor and got.dim() == 0 and rows > 1:
            ctx.fail("one number came back: expected one length a row, do not add up the rows")
        got = ctx.floats(got, "the lengths", (rows,), mention="one a row")

        places = array(points)

        def along(walks, way=lambda step: np.sqrt((step**2).sum(-1)), back=True, xy=places):
            at = np.take_along_axis(xy, walks[..., None], 1)
            steps = way(np.roll(at, -1, 1) - at)
            return steps.sum(1) if back else steps[:, :-1].sum(1)

        walks = array(tours)
        expected = along(walks)
        wrong = {
            "the way back from the last city to the first is missing": along(walks, back=False),
            "the distances are squared: take the root of each before you add": along(
                walks, lambda step: (step**2).sum(-1)
            ),
            "the root is taken of the whole sum: expected a root for each step": np.sqrt(
                along(walks, lambda step: (step**2).sum(-1))
            ),
            "that is the distance along the axes, |Δx| + |Δy|: expected the straight line": along(
                walks, lambda step: np.abs(step).sum(-1)
            ),
            "that is the mean of the steps: expected their sum": expected / n,
            "the cities are walked in the order of the input: go in the order of the tour": along(
                np.broadcast_to(np.arange(n), walks.shape)
            ),
            "all rows are walked in the order of the first row's tour": along(
                np.broadcast_to(walks[:1], walks.shape)
            ),
            "the tour is used the wrong way round: tours[b, k] is the city that comes k-th, not "
            "the place of city k": along(walks.argsort(1)),
            "each step is counted twice": 2 * expected,
            "the way back leads to city 0: expected the way to the first city of the tour, "
            "tours[b, 0]": along(walks, back=False)
            + np.sqrt(
                ((array(points)[:, 0] - array(points)[np.arange(rows), walks[:, -1]]) ** 2).sum(-1)
            ),
            "all rows take their cities from the first set of points": along(
                walks, xy=np.broadcast_to(array(points)[:1], points.shape)
            ),
            "the roll goes over the rows: roll along the tour, dimension 1": _rolled(
                points, tours, 0
            ),
            "the roll runs on over the end of a row: name the dimension, roll(-1, 1)": _rolled(
                points, tours, None
            ),
        }
        ctx.close(got, expected, "the lengths", wrong)


@exercise("05.canonical_tour", title="One tour, one way to say it", difficulty=2, minutes=5)
def canonical_tour(answer, ctx):
    def from_zero(walk):
        k = walk.index(0)
        return walk[k:] + walk[:k]

    def unchanged(returned, copies):
        if copies[0] != given:
            ctx.fail(
                "your function changes its argument tour in place: the caller's list is "
                "different now"
            )
        if returned is copies[0]:
            ctx.fail(
                "the list that went in came back: expected a new one, even where nothing is to "
                "be turned"
            )

    # City 0 is somewhere inside, then last, then first. The third city never gives the same
    # about the direction as the last.
    for n, backwards, place in (
        (7, True, None),
        (7, False, None),
        (8, True, None),
        (6, False, None),
        (3, True, None),
        (7, False, -1),
        (6, True, -1),
        (8, True, 0),
        (7, False, 0),
    ):
        while True:
            given = ctx.order(n)
            turned, other = from_zero(given), from_zero(given[::-1])
            right = turned if turned[1] < turned[-1] else other
            where = given.index(0)
            fits = (
                0 < where < n - 1 and (where > 1 or n == 3) if place is None else given[place] == 0
            )
            clear = (
                n == 3 or (turned[1] < turned[2]) == backwards and turned[1] != n - 1 - turned[-1]
            )
            if fits and clear and (right != turned) == backwards:
                break
        known = {
            "the cities are sorted: that is another tour": sorted(given),
            (
                "the tour starts at city 0, but the second city is higher than the last: then go "
                "round the other way"
                if backwards
                else "the tour is turned round although its second city is lower than its last "
                "already"
            ): turned if backwards else other,
            "the tour came back as it was: turn it so that it starts at city 0": given,
            "the tour is turned round after it was turned to its start: now city 0 comes "
            "last": turned[::-1],
            "city 0 is moved to the front and the others stay: that is another tour, turn the "
            "whole tour": [0] + [c for c in given if c],
            "city 0 changed places with the first city: that is another tour, turn the whole "
            "tour": [0 if k == 0 else given[0] if c == 0 else c for k, c in enumerate(given)],
        }
        try:
            got = ctx.ids(ctx.call(answer, given, then=unchanged), "the tour")
        except StudentError as error:
            if place == -1 and not error.unwritten and "IndexError" in str(error):
                ctx.fail(
                    f"city 0 stands last here, and nothing stands behind it: behind the last "
                    f"city comes the first ({error})"
                )
            raise
        ctx.recognize(got, right, known)
        if got == right:
            continue
        if sorted(got) != sorted(right):
            ctx.fail(f"the tour has the cities {got}, expected those of {given}, each once")
        if got[0] != 0:
            ctx.fail(f"the tour starts at city {got[0]}: expected city 0")
        ctx.fail(f"{given} became {got}, expected {right}")


@exercise("05.two_opt_gain", title="What an exchange gains", difficulty=2, minutes=6)
def two_opt_gain(answer, ctx):
    for n in (ctx.integers(7, 9), ctx.integers(9, 11)):
        while True:
            matrix = torch.tensor(_matrix(_cities(ctx, n, 2)), dtype=torch.float32)
            d, tour = array(matrix), ctx.order(n)

            def gain(i, j):
                a, b, c, e = tour[i], tour[i + 1], tour[j], tour[(j + 1) % n]
                return d[a, b] + d[c, e] - d[a, c] - d[b, e]

            # Those that gain come first: who takes the absolute value is then seen at the first
            # that loses.
            places = sorted(
                ((1, 4), (0, n - 2), (2, n - 1), (ctx.integers(1, 3), ctx.integers(5, n - 1))),
                key=lambda ij: -gain(*ij),
            )
            if (
                all(city != k for k, city in enumerate(tour))
                and 0 not in (tour[1], tour[3])
                and gain(*places[0]) > 0.03
                and gain(*places[-1]) < -0.03
            ):
                break
        for i, j in (*places, (1, 3), (0, n - 1)):
            _gain_at(answer, ctx, matrix, tour, i, j, gain(i, j), gain(*places[0]))


def _gain_at(answer, ctx, matrix, tour, i, j, right, first):
    """One call; first: the gain of the first call, which has been right."""
    n, d = len(tour), array(matrix)
    result = ctx.number(
        _called(ctx, answer, matrix, tour, i, j, last=j == n - 1), f"the gain at i = {i}, j = {j}"
    )
    if np.isclose(result, right, rtol=1e-4, atol=2e-5):
        return
    a, b, c, e = tour[i], tour[i + 1], tour[j], tour[(j + 1) % n]
    f, g = tour[i - 1], tour[j - 1]

    def length(walk):
        return sum(d[x, y] for x, y in zip(walk, walk[1:] + walk[:1]))

    swapped = list(tour)
    swapped[i], swapped[j] = swapped[j], swapped[i]
    cut = tour[:i] + tour[i : j + 1][::-1] + tour[j + 1 :]
    known = {
        (
            "the sign is turned round: a gain is above 0 where the tour becomes shorter"
            if right > 0 or right == first
            else "the tour becomes longer here: the gain is below 0, do not take the absolute value"
        ): -right,
        "the positions are used as cities: look up which city stands at them, tour[i]": d[i, i + 1]
        + d[j, (j + 1) % n]
        - d[i, j]
        - d[i + 1, (j + 1) % n],
        "the new edges lead from place i to place j + 1 and from i + 1 to j: that cuts the tour "
        "into two; join place i with place j": d[a, b] + d[c, e] - d[a, e] - d[b, c],
        "that is what it gains to let two cities change places: expected the gain of turning "
        "round the part between": length(tour) - length(swapped),
        "the part from place i on is turned round, place i included: the first edge that goes is "
        "the one behind place i": length(tour) - length(cut),
        "that edge is the one before place i: the first edge that goes is the one behind it": d[
            f, a
        ]
        + d[c, e]
        - d[f, c]
        - d[a, e],
        "that edge is the one before place j: the second edge that goes is the one behind it": d[
            a, b
        ]
        + d[g, c]
        - d[a, g]
        - d[b, c],
        "only the old edges are counted: take away the two new ones": d[a, b] + d[c, e],
        "only the new edges are counted": d[a, c] + d[b, e],
        "the four distances are added: old minus new": d[a, b] + d[c, e] + d[a, c] + d[b, e],
        "that is the length of the new tour: expected how much shorter it is than the old "
        "one": length(tour) - right,
        "only one edge goes and one comes: an exchange takes away two and adds two": d[a, b]
        - d[a, c],
    }
    if j == n - 1:
        known = {
            "the way back is missing: behind the last city comes the first, the edge from "
            "tour[j] to tour[0] goes too": d[a, b] - d[a, c],
            "behind the last place comes place 0, not city 0: look up tour[0]": d[a, b]
            + d[c, 0]
            - d[a, c]
            - d[b, 0],
            **known,
        }
    if result == 0 and right < -1e-3:
        ctx.fail(
            f"the gain at i = {i}, j = {j} is 0, expected {right:.4g}: where the tour becomes "
            f"longer, the gain is below 0"
        )
    for message, value in known.items():
        if np.isclose(result, value, rtol=1e-4, atol=2e-5):
            ctx.fail(message)
    ctx.fail(f"the gain at i = {i}, j = {j} is {result:.4g}, expected {right:.4g}")


def _called(ctx, answer, matrix, tour, i, j, *, last):
    def unchanged(_, copies):
        if copies[1] != tour:
            ctx.fail(
                "your function changes its argument tour in place: the caller's list is "
                "different now"
            )

    try:
        return ctx.call(answer, matrix, tour, i, j, then=unchanged)
    except StudentError as error:
        if last and not error.unwritten and "IndexError" in str(error):
            ctx.fail(
                f"j = {j} is the last place, and no city stands at place j + 1: behind the last "
                f"city comes the first ({error})"
            )
        raise


@exercise("05.table_entry", title="One entry of the table", difficulty=3, minutes=10)
def table_entry(answer, ctx):
    # Sets of several sizes; lengths in the hundreds, since maps are no unit squares; and the
    # smallest set, where there is one way.
    for size, scale in ((5, 1.0), (6, 2500.0), (5, 1.0), (2, 1.0)):
        n = size + 2
        while True:
            matrix = torch.tensor(_matrix(scale * _cities(ctx, n, 2)), dtype=torch.float32)
            d = array(matrix)
            picked = [1 + c for c in ctx.order(n - 1)[:size]]
            cities, j = frozenset(picked), picked[0]
            before = sorted(cities - {j})
            # The entries of the sets that are smaller by one, with random lengths: every mistake
            # shows.
            rest = frozenset(before)
            lengths = (scale * (2 + ctx.normal(len(before)).abs())).tolist()
            table = {(rest, i): length for i, length in zip(before, lengths)}
            table |= {
                (cities - {i}, k): scale * (0.5 + 0.1 * ctx.integers(0, 9))
                for i in before
                for k in sorted(cities - {i})
            }
            ways = {i: table[rest, i] + d[i, j] for i in before}
            right = min(ways.values())
            nearest = min(before, key=lambda i: d[i, j])
            cheapest = min(before, key=lambda i: table[rest, i])
            known = {
                "that is the longest: expected the shortest": max(ways.values()),
                "the step from i to j is missing: add d(i, j) before you compare": min(
                    table[rest, i] for i in before
                ),
                "the shortest way to the set is taken, whichever step comes then: compare the "
                "sums": ways[cheapest],
                "the city nearest to j is taken as the one before it: compare the sums": ways[
                    nearest
                ],
                "the shortest way and the shortest step are added, and they need not belong to "
                "one city i: compare the sums": table[rest, cheapest] + d[nearest, j],
                "the way home from j to city 0 is added: that comes once, when all cities are in "
                "the set": right + d[j, 0],
                "the step starts at city 0: expected the last city i of the way": min(
                    table[rest, i] + d[0, j] for i in before
                ),
                "only the step is left: the length of the way to i is missing": min(
                    d[i, j] for i in before
                ),
                "the way to i is the one straight from city 0: the table holds the way through "
                "all of S∖j": min(d[0, i] + d[i, j] for i in before),
                "i and j have changed places in the table: expected the ways over S∖j that end "
                "at i": min(table[cities - {i}, j] + d[i, j] for i in before),
                "the ways are added up: expected the shortest of them": sum(ways.values()),
                "that is the mean of the ways: expected the shortest of them": sum(ways.values())
                / len(ways),
                "that is the city before j: expected the length of the way": float(
                    min(before, key=lambda i: ways[i])
                ),
                "sets other than S∖j are searched, too: take the entries table[rest, i] alone": min(
                    length + d[i, j] for (_, i), length in table.items() if i != j
                ),
            }
            values = [right, *known.values()]
            if (
                size == 2
                or min(abs(x - y) for k, x in enumerate(values) for y in values[:k]) > 1e-3 * scale
            ):
                # who stops after a fixed number of cities misses the last
                if size < 6 or right == ways[before[-1]]:
                    break
        try:
            result = ctx.number(ctx.call(answer, table, matrix, cities, j), f"T(S, {j})")
        except StudentError as error:
            if not error.unwritten and "KeyError" in str(error):
                ctx.fail(
                    f"you ask the table for an entry that is not in it: what is there are "
                    f"smaller sets, T(S∖j, i) with i ∈ S∖j ({error})"
                )
            raise
        ctx.close(result, right, f"T(S, {j})", known)


def _step(total, log_p, visited, mask=-np.inf):
    """The k best continuations: totals, tours, cities."""
    scores = total[:, None] + np.where(visited, mask, log_p)
    order = np.argsort(-scores.ravel(), kind="stable")[: len(total)]
    return scores.ravel()[order], order // log_p.shape[1], order % log_p.shape[1]


@exercise("05.beam_of_tours", title="A beam of valid tours", difficulty=3, minutes=12)
def beam_of_tours(answer, ctx):
    for n in (ctx.integers(8, 11), 5):
        while True:
            k = 3
            # Visited cities are the most probable: without a mask they win. Totals far below 0: a
            # probability or a 0 shows.
            visited = torch.zeros(k, n, dtype=torch.bool)
            for row in visited:
                row[ctx.order(n)[:3]] = True
            log_p = torch.log_softmax(1.5 * ctx.normal(k, n) + 3.0 * visited, 1)
            total = -20 - ctx.normal(k).abs().cumsum(0)
            t, lp, v = array(total), array(log_p), array(visited)
            right = _step(t, lp, v)
            best = np.where(v, -np.inf, lp)
            each = best.argmax(1)
            order = np.argsort(-(t + best.max(1)), kind="stable")
            again = best - np.log(np.exp(best).sum(1, keepdims=True))
            top = _step(t, lp, np.zeros_like(v))
            worst = _step(-t, -lp, v)
            scores = np.exp(t)[:, None] + np.where(v, -np.inf, np.exp(lp))
            summed = np.argsort(-scores.ravel(), kind="stable")[:k]
            known = {
                "a city is visited twice: visited cities get −∞ before the best are picked": top,
                "each tour is continued by its own best city: all continuations of all tours "
                "compete for the k places": ((t + best.max(1))[order], order, each[order]),
                "the scores of the tours so far do not count: add total": _step(0 * t, lp, v),
                "the probabilities are shared out anew among the cities that are left: a rule "
                "forbids, it does not give": _step(t, again, v),
                "the worst continuations are kept: expected the best": (
                    -worst[0],
                    worst[1],
                    worst[2],
                ),
                "tour and city have changed places: place // n is the tour, place % n the city": (
                    right[0],
                    right[2],
                    right[1],
                ),
                "the places are split up by k: a row of the scores has n cities, divide by n": (
                    right[0],
                    (right[1] * n + right[2]) // k,
                    (right[1] * n + right[2]) % k,
                ),
                "the second result is the place among all continuations: expected the tour it "
                "continues, place // n": (right[0], right[1] * n + right[2], right[2]),
                "probabilities are added: expected their logarithms": (
                    scores.ravel()[summed],
                    summed // n,
                    summed % n,
                ),
                "the best come last: expected them first": tuple(part[::-1] for part in right),
            }
            same = [tuple(np.concatenate(other).round(5)) for other in (right, *known.values())]
            gaps = np.diff(np.sort((t[:, None] + lp)[~v]))
            if (
                len(set(same)) == len(same)
                and len(set(right[1].tolist())) > 1
                and gaps.min() > 1e-3
                and right[1].tolist() != [0, 1, 2]
            ):
                break
        names = ("the totals", "the tours", "the cities")
        parts = ctx.parts(ctx.call(answer, total, log_p, visited), ("total", "tour", "city"))
        got = [
            ctx.floats(
                parts[0],
                names[0],
                (k,),
                nan="there are more valid continuations than places: visited cities get −∞ "
                "before the best are picked, and total is added to log p",
            )
        ]
        got += [_long(ctx, part, name, k) for part, name in zip(parts[1:], names[1:])]
        ctx.recognize(tuple(got), tuple(right), {m: tuple(other) for m, other in known.items()})
        if all(ctx.same(mine, other) for mine, other in zip(got, right)):
            continue
        if ctx.same(got[1], right[1]) and ctx.same(got[2], right[2]):
            ctx.recognize(
                got[0],
                right[0],
                {
                    "the totals are those before the step: add log p of the chosen city": t[
                        right[1]
                    ],
                    "the totals are the steps alone: add the score of the tour so far": right[0]
                    - t[right[1]],
                    "the totals are probabilities: expected their logarithms": np.exp(right[0]),
                },
            )
        for b, (parent, city) in enumerate(zip(got[1].tolist(), got[2].tolist())):
            if not 0 <= parent < k or not 0 <= city < n:
                ctx.fail(
                    f"continuation {b} is (tour {parent}, city {city}): tours are 0 to {k - 1}, "
                    f"cities 0 to {n - 1}"
                )
            if v[parent, city]:
                if abs(array(got[0])[b] - t[parent]) < 1e-5:
                    ctx.fail("visited cities got 0, and log p = 0 is certainty: expected −∞")
                ctx.fail(
                    f"continuation {b} leads tour {parent} to city {city}, where it has been: "
                    f"visited cities get −∞ before the best are picked"
                )
        for mine, theirs, name in zip(got, right, names):
            ctx.close(mine, theirs, name)
    # One tour with one city left, one with none: fewer valid continuations than places come back as
    # −∞, nothing as NaN.
    total, log_p = torch.tensor([-1.0, -2.0]), torch.log_softmax(ctx.normal(2, 4), 1)
    visited = torch.tensor([[True, True, True, False], [True, True, True, True]])
    parts = ctx.parts(ctx.call(answer, total, log_p, visited), ("total", "tour", "city"))
    if type(parts[0]) is not Tensor or parts[0].shape != (2,):
        what = f"the shape {tuple(parts[0].shape)}" if type(parts[0]) is Tensor else a(parts[0])
        ctx.fail(
            f"a beam of two tours with one valid continuation: the totals are one number and −∞, "
            f"of shape (2,), got {what}"
        )
    if bool(parts[0].isnan().any()):
        ctx.fail("with one city left, the totals have to be one number and −∞, not NaN")
    if (
        abs(float(parts[0][0]) - float(total[0] + log_p[0, 3])) > 1e-4
        or float(parts[0][1]) != -np.inf
    ):
        ctx.fail(
            "with one city left there is one valid continuation: expected its total, and −∞ for "
            "the second place "
            f"(a large negative number is no −∞), got {[round(x, 3) for x in parts[0].tolist()]}"
        )
    tour, city = (
        int(_long(ctx, part, name, 2)[0])
        for part, name in zip(parts[1:], ("the tours", "the cities"))
    )
    if (tour, city) != (0, 3):
        ctx.fail(
            f"with one city left, tour 0 goes on to city 3: the first continuation is (tour "
            f"{tour}, city {city})"
        )
    # A beam of one.
    total, log_p = torch.tensor([-3.0]), torch.log_softmax(ctx.normal(1, 5), 1)
    visited = torch.tensor([[True, False, False, True, False]])
    right = _step(array(total), array(log_p), array(visited))
    parts = ctx.parts(ctx.call(answer, total, log_p, visited), ("total", "tour", "city"))
    got = (
        ctx.floats(parts[0], "the totals", (1,), mention="k = 1: the beam holds one tour"),
        *(_long(ctx, part, name, 1) for part, name in zip(parts[1:], ("the tours", "the cities"))),
    )
    for mine, theirs, name in zip(got, right, ("the totals", "the tours", "the cities")):
        ctx.close(mine, theirs, name)


def _long(ctx, value, name, k):
    """Whole numbers of any size."""
    if type(value) is Tensor and value.dtype in (torch.int32, torch.int16):
        value = value.long()
    return ctx.tensor(value, name, (k,), dtype=torch.long)


def _walked(c, w, *, mine=None, among=True, ask="here", best=np.argmax, start=True):
    """Greedy tours, the log-probability of each step, and from which step on a row had no city
    left.

    mine: which entries of `left` a step of all rows switches off; by default one per row
    """
    batch, n, _ = c.shape
    rows, left = np.arange(batch), np.ones((batch, n), dtype=bool)
    city, tours, steps, stuck = (
        np.zeros(batch, dtype=int),
        [np.zeros(batch, dtype=int)],
        [],
        np.full(batch, n),
    )
    for k in range(1, n):
        if start or k > 1:
            mine(left, city) if mine else left.__setitem__((rows, city), False)
        here = c[rows, city] if ask == "here" else c[:, 0]
        scores = np.einsum("bd,bnd->bn", here @ w, c)
        stuck = np.where(~left.any(-1), np.minimum(stuck, k), stuck)
        allowed = np.where(left, scores, -1e9)
        shares = np.log(softmax(allowed if among else scores) + 1e-300)
        city = best(np.where(left, scores, -1e9 if best is np.argmax else 1e9), -1)
        steps.append(shares[rows, city])
        tours.append(city)
    return np.stack(tours, 1), np.stack(steps, 1), stuck


@exercise(
    "05.tours_by_the_batch", title="Find the bug: tours by the batch", difficulty=3, minutes=10
)
def tours_by_the_batch(answer, ctx):
    # The last with scores far below −10000, all of them whole numbers.
    for batch, low in ((4, False), (1, False), (4, True)):
        while True:  # no choice that rounding could decide, no two mistakes with the same tours
            n, d = ctx.integers(6, 9), 4
            cities, W = ctx.normal(batch, n, d), 0.6 * ctx.normal(d, d)
            if low:
                cities = ctx.integers(1, 9, batch, n, d).float()
                W = -4096.0 * ctx.integers(1, 4, d, d)
            c, w = array(cities), array(W)
            tours, steps, _ = _walked(c, w)
            scores = np.sort(np.einsum("bid,de,bje->bij", c, w, c), -1)
            known = {other.tobytes() for other in (tours, *_wrong_walks(c, w).values())}
            if np.diff(scores, axis=-1).min() > 1e-4 and (batch == 1 or low or len(known) == 11):
                break
        parts = ctx.parts(ctx.call(answer, cities, W), ("tours", "log_p"), ((batch, n), (batch,)))
        got = array(
            ctx.tensor(
                parts[0],
                "the tours",
                (batch, n),
                dtype=torch.long,
                mention="one row a set, one column a step",
            )
        )
        log_p = ctx.floats(
            parts[1],
            "log_p",
            (batch,),
            mention="one a tour",
            nan="no step of a tour has probability 0, and the last one has 1: is there no city "
            "left before the tour is at its end?",
        )
        if (got < 0).any() or (got >= n).any():
            ctx.fail(
                f"a tour goes to city {int(got[(got < 0) | (got >= n)][0])}: the cities are 0 to "
                f"{n - 1}"
            )
        _look_at_walks(ctx, got, tours, c, w)
        logs = steps.sum(1)
        ctx.close(
            log_p,
            logs,
            "log_p",
            {
                "the probabilities are added up: expected their logarithms": np.exp(steps).sum(1),
                "this is the mean over the steps: expected the sum": logs / (n - 1),
                "this is the mean over the cities: expected the sum over the steps": logs / n,
                "this is the probability: expected its logarithm": np.exp(logs),
                "the sign is turned: a log-probability is not above 0": -logs,
                "the softmax runs over visited cities, too: the mask comes before it": _walked(
                    c, w, among=False
                )[1].sum(1),
                "the log-probabilities of all rows are added up": np.broadcast_to(
                    logs.sum(), logs.shape
                ),
                "the scores are added up: expected log-probabilities": np.stack(
                    [
                        sum(row[i] @ w @ row[j] for i, j in zip(tour, tour[1:]))
                        for row, tour in zip(c, tours)
                    ]
                ),
                "only the last step counts: add up": steps[:, -1],
                "only the first step counts: add up": steps[:, 0],
            },
        )


def _wrong_walks(c, w):
    """{what is wrong: the tours}, the most telling first.

    The printed one is compared up to where a row has no city left.
    """
    rows = np.arange(len(c))

    def leave(which, again=False):
        def mine(left, city):
            left[:] |= again
            left[which(city)] = False

        return _walked(c, w, mine=mine)

    printed, _, stuck = leave(lambda city: (slice(None), city))
    return {
        "a row loses the cities that other rows have visited: left[:, city] = False switches off "
        "these columns in all rows. A step of row b takes "
        "away city[b] from row b alone": np.where(
            np.arange(c.shape[1])[None] < stuck[:, None], printed, -1
        ),
        "visited cities are not taken away: a tour may come back to them, or stay": leave(
            lambda city: ([], [])
        )[0],
        "only the city of the last step is taken away: a tour may come back to those before": leave(
            lambda city: (rows, city), again=True
        )[0],
        "the start is not taken away: a tour comes back to city 0 before its end": _walked(
            c, w, start=False
        )[0],
        "every row loses the city that row 0 has visited: a step of row b takes away city[b] "
        "from row b": leave(lambda city: (rows, city[0]))[0],
        "a tour goes on to the least likely city: expected the likeliest": _walked(
            c, w, best=np.argmin
        )[0],
        "the scores are always those from city 0: expected from the city where the tour "
        "is": _walked(c, w, ask="start")[0],
        "W is transposed: from city i the score of city j is c_i · W · c_j": _walked(
            c, w.swapaxes(0, 1)
        )[0],
        "W is not used": _walked(c, np.eye(len(w)))[0],
        "each row goes the tour of the first one": np.broadcast_to(
            _walked(c, w)[0][:1], printed.shape
        ),
    }


def _look_at_walks(ctx, got, tours, c, w):
    n = tours.shape[1]
    if (got == tours).all():
        return
    for message, other in _wrong_walks(c, w).items():
        if ((got == other) | (other < 0)).all():
            ctx.fail(message)
    for b, tour in enumerate(got.tolist()):
        if tour[0] != 0:
            ctx.fail(f"the tour of row {b} starts at city {tour[0]}: expected city 0")
        if len(set(tour)) < n:
            again = next(city for k, city in enumerate(tour) if city in tour[:k])
            ctx.fail(
                f"the tour of row {b} visits city {again} twice, and {n - len(set(tour))} of {n} "
                f"cities not at all: {tour}"
            )
    b, k = np.argwhere(got != tours)[0]
    ctx.fail(
        f"step {k} of row {b} goes to city {got[b, k]}: the likeliest city left is {tours[b, k]}"
    )
