"""Checks of the section on tours: a crossing on paper, a prediction, the length, the one form, what
an exchange gains, an entry of the table, a beam of valid tours, a batch of them.
"""

import numpy as np
import torch
from torch import Tensor

from ...answers.guarded import StudentError
from ..context import a, array, softmax
from ..registry import exercise
from ..slips import Slips, on_paper


def _cities(ctx, *shape):
    return torch.sigmoid(ctx.normal(*shape))


def _matrix(points):
    xy = array(points)
    return np.sqrt(((xy[:, None] - xy[None]) ** 2).sum(-1))


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


def _lengths(points, tours):
    rows = np.arange(len(points))[:, None]
    at = points[rows, tours]
    step = np.roll(at, -1, 1) - at
    way = np.sqrt((step**2).sum(-1))
    return way.sum(1)


_LENGTHS = Slips(
    _lengths,
    {
        "the "
        "way back from the last city to the first is missing": "return way → return way[:, :-1]",
        "the distances are squared: "
        "take the root of each before you add": "np.sqrt((step**2).sum(-1)) → (step**2).sum(-1)",
        "the root is taken of the whole sum: expected "
        "a root for each step": "return way.sum(1) → return np.sqrt((step**2).sum((1, 2)))",
        "that is the distance along the axes, |Δx| + |Δy|: "
        "expected the straight line": "np.sqrt((step**2).sum(-1)) → abs(step).sum(-1)",
        "that is the mean of the steps: expected their sum": "way.sum( → way.mean(",
        "the cities are walked in the order of the input: "
        "go in the order of the tour": "points[rows, tours] → points",
        "all "
        "rows are walked in the order of the first row's tour": "[rows, tours] → [rows, tours[:1]]",
        "the tour is used the wrong way round: tours[b, k] is the "
        "city that comes k-th, not the place of city k": "[rows, tours] → [rows, tours.argsort(1)]",
        "each step is counted twice": "return → return 2 *",
        "the way back leads to city 0: expected the way to the first city of the "
        "tour, tours[b, 0]": "np.roll(at, -1, 1) → np.concatenate((at[:, 1:], points[:, :1]), 1)",
        "all rows "
        "take their cities from the first set of points": "points[rows, tours] → points[0][tours]",
        "the roll goes over the rows: "
        "roll along the tour, dimension 1": "(at, -1, 1) → (at, -1, 0)",
        "the roll runs on over the end of a row: name the dimension, "
        "roll(-1, 1)": "np.roll(at, -1, 1) → np.roll(at.reshape(-1, 2), -1, 0).reshape(at.shape)",
    },
)


@exercise("05.tour_lengths", title="The length of a tour", difficulty=1, minutes=4)
def tour_lengths(answer, ctx):
    rows, n = ctx.sizes(batch=(1, 6), n=(2, 9))
    points = _cities(ctx, rows, n, 2)
    while True:  # no tour that goes round in the order of the input
        tours = torch.tensor([ctx.order(n) for _ in range(rows)])
        step = (tours.roll(-1, 1) - tours).abs()
        along = ((step == 1) | (step == n - 1)).all(1).any()
        if n < 5 or not along and 0 not in tours[:, 0]:
            break
    got = ctx.call(answer, points, tours)
    if type(got) is Tensor and got.dim() == 0 and rows > 1:
        ctx.fail("one number came back: expected one length a row, do not add up the rows")
    got = ctx.floats(got, "the lengths", (rows,), mention="one a row")
    right, wrong = _LENGTHS(array(points), array(tours))
    ctx.close(got, right, "the lengths", wrong)


def _canonical(tour):
    k = tour.index(0)
    turned = tour[k:] + tour[:k]
    other = turned[:1] + turned[:0:-1]
    return turned if turned[1] < turned[-1] else other


_CANONICAL = Slips(
    _canonical,
    {
        "the cities are sorted: "
        "that is another tour": "turned if turned[1] < turned[-1] else other → sorted(tour)",
        "the tour starts at city 0, but the second city is higher than the last: then go round "
        "the other way": "turned if turned[1] < turned[-1] else other → turned",
        "the tour is turned round although its second city "
        "is lower than its last already": "turned if turned[1] < turned[-1] else other → other",
        "the tour came back as it was: "
        "turn it so that it starts at city 0": "turned if turned[1] < turned[-1] else other → tour",
        "the tour is turned round after it was turned to its start: "
        "now city 0 comes last": "turned if turned[1] < turned[-1] else other → turned[::-1]",
        "city 0 is moved to the front and the others stay: that is another tour, turn the whole "
        "tour": "turned if turned[1] < turned[-1] else other → [0] + [c for c in tour if c]",
        "city 0 changed places with the first city: that is another tour, turn the whole tour": (
            "turned if turned[1] < turned[-1] else other → [{0: tour[0], tour[0]: 0}.get(c, c) for "
            "c in tour]"
        ),
    },
)


@exercise("05.canonical_tour", title="One tour, one way to say it", difficulty=2, minutes=5)
def canonical_tour(answer, ctx):
    # City 0 is somewhere inside, then last, then first. The third city never gives the same
    # about the direction as the last.
    drawn = ctx.sizes(n=(3, 9))
    for n, backwards, place in (
        (drawn, True, None),
        (drawn, False, None),
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
            k = given.index(0)
            turned, right = given[k:] + given[:k], _canonical(given)
            fits = 0 < k < n - 1 and (k > 1 or n == 3) if place is None else given[place] == 0
            clear = (
                n == 3 or (turned[1] < turned[2]) == backwards and turned[1] != n - 1 - turned[-1]
            )
            if fits and clear and (right != turned) == backwards:
                break
        try:
            got = ctx.ids(ctx.call(answer, given, new="the tour"), "the tour")
        except StudentError as error:
            if place == -1 and not error.unwritten and "IndexError" in str(error):
                ctx.fail(
                    f"city 0 stands last here, and nothing stands after it: after the last city "
                    f"comes the first ({error})"
                )
            raise
        ctx.recognize(got, *_CANONICAL(given))
        if got == right:
            continue
        if sorted(got) != sorted(right):
            ctx.fail(f"the tour has the cities {got}, expected those of {given}, each once")
        if got[0] != 0:
            ctx.fail(f"the tour starts at city {got[0]}: expected city 0")
        ctx.fail(f"{given} became {got}, expected {right}")


def _length(d, walk):
    return sum(d[x, y] for x, y in zip(walk, walk[1:] + walk[:1]))


def _gain(d, tour, i, j):
    a, b, c, e = tour[i], tour[i + 1], tour[j], tour[(j + 1) % len(tour)]
    return d[a, b] + d[c, e] - d[a, c] - d[b, e]


_GAIN = Slips(
    _gain,
    {
        "the sign is turned round: a gain is above 0 where the tour becomes "
        "shorter": "d[a, b] + d[c, e] - d[a, c] - d[b, e] → d[a, c] + d[b, e] - d[a, b] - d[c, e]",
        "the tour becomes longer here: the gain is below 0, do not take the absolute value": (
            "d[a, b] + d[c, e] - d[a, c] - d[b, e] → abs(d[a, b] + d[c, e] - d[a, c] - d[b, e])"
        ),
        "the gain is 0 where the tour becomes longer: expected a number below 0": (
            "d[a, b] + d[c, e] - d[a, c] - d[b, e] → max(0, d[a, b] + d[c, e] - d[a, c] - d[b, e])"
        ),
        "the positions are used as cities: look up which city stands at them, tour[i]": (
            "tour[i], tour[i + 1], tour[j], tour[(j + 1) % len(tour)] → i, i + 1, j, (j + 1) % "
            "len(tour)"
        ),
        "the new edges lead from place i to place j + 1 and from i + 1 to j: that cuts the tour "
        "into two; "
        "join place i with place j": "- d[a, c] - d[b, e] → - d[a, e] - d[b, c]",
        "that is what it gains to let two cities change places: expected the gain of turning "
        "round the part between": (
            "return d[a, b] + d[c, e] - d[a, c] - d[b, e] → other = list(tour)\n    other[i], "
            "other[j] = c, a\n    return _length(d, tour) - _length(d, other)"
        ),
        "the part from place i on is turned round, place i included: the first edge that goes "
        "is the one after place i": (
            "return d[a, b] + d[c, e] - d[a, c] - d[b, e] → other = tour[:i] + tour[i : j + "
            "1][::-1] + tour[j + 1 :]\n    return _length(d, tour) - _length(d, other)"
        ),
        "that edge is the one before place j: the second edge that "
        "goes is the one after it": "tour[j], tour[(j + 1) % len(tour)] → tour[j - 1], tour[j]",
        "only the old edges are counted: take away the two new ones": "- d[a, c] - d[b, e] →",
        "only "
        "the new edges are counted": "d[a, b] + d[c, e] - d[a, c] - d[b, e] → d[a, c] + d[b, e]",
        "the four distances are added: old minus new": "- d[a, c] - d[b, e] → + d[a, c] + d[b, e]",
        "that is the length of the new tour: expected how much shorter it is than the old one": (
            "d[a, b] + d[c, e] - d[a, c] - d[b, e] → _length(d, tour) - d[a, b] - d[c, e] + d[a, "
            "c] + d[b, e]"
        ),
        "only one edge goes and one comes: an exchange "
        "takes away two and adds two": "d[a, b] + d[c, e] - d[a, c] - d[b, e] → d[a, b] - d[a, c]",
        "the way back is missing: after the last city comes the first, the edge from tour[j] to "
        "tour[0] "
        "goes too": "return → if j == len(tour) - 1:\n        return d[a, b] - d[a, c]\n    return",
        "after the last place comes place 0, not city 0: "
        "look up tour[0]": "tour[(j + 1) % len(tour)] → (*tour, 0)[j + 1]",
    },
)


@exercise("05.two_opt_gain", title="What an exchange gains", difficulty=2, minutes=6)
def two_opt_gain(answer, ctx):
    compared, drawn = [], ctx.sizes(n=(3, 10))
    for n in (ctx.integers(7, 9), drawn):
        while True:
            matrix = torch.tensor(_matrix(_cities(ctx, n, 2)), dtype=torch.float32)
            d, tour = array(matrix), ctx.order(n)
            places = {(0, n - 1), (0, 2), (n - 3, n - 1)}
            for _ in range(5 if n > 3 else 0):
                i = ctx.integers(0, n - 2)
                places.add((i, ctx.integers(i + 2, n)))
            # those that gain come first: who takes the absolute value is then seen at the first
            # that loses
            gains = sorted(((_gain(d, tour, *ij), *ij) for ij in places), reverse=True)
            fixed = any(city == k for k, city in enumerate(tour)) or 0 in tour[1:4:2]
            if n < 7 or not fixed and gains[0][0] > 0.03 and gains[-1][0] < -0.03 or n > 99:
                break
        for _, i, j in gains:
            name = f"the gain at i = {i}, j = {j}"
            try:
                result = ctx.number(ctx.call(answer, matrix, tour, i, j), name)
            except StudentError as error:
                if j == n - 1 and not error.unwritten and "IndexError" in str(error):
                    ctx.fail(
                        f"j = {j} is the last place, and no city stands at place j + 1: after the "
                        f"last city comes the first ({error})"
                    )
                raise
            right, wrong = _GAIN(d, tour, i, j)
            compared.append((name, result, right, wrong))
    ctx.close_everywhere(compared)


def _entry(table, d, cities, j):
    rest = cities - {j}
    ways = {i: table[rest, i] + d[i, j] for i in rest}
    return min(ways.values())


_ENTRY = Slips(
    _entry,
    {
        "that is the longest: expected the shortest": "return min → return max",
        "the step from i to j is missing: add d(i, j) before you compare": "+ d[i, j] →",
        "the shortest way to the set is taken, whichever step comes then: "
        "compare the sums": "min(ways.values()) → ways[min(rest, key=lambda i: table[rest, i])]",
        "the city nearest to j is taken as the one before it: "
        "compare the sums": "min(ways.values()) → ways[min(rest, key=lambda i: d[i, j])]",
        "the shortest way and the shortest step are added, and they need not belong to one city "
        "i: compare the sums": (
            "min(ways.values()) → min(table[rest, i] for i in rest) + min(d[i, j] for i in rest)"
        ),
        "the way home from j to city 0 is added: "
        "that comes once, when all cities are in the set": "return → return d[j, 0] +",
        "the step starts at city 0: expected the last city i of the way": "d[i, j] → d[0, j]",
        "only the step is left: the length of the way to i is missing": "table[rest, i] + →",
        "the way to i is the one straight from city 0: "
        "the table holds the way through all of S∖j": "table[rest, i] → d[0, i]",
        "i and j have changed places in the table: "
        "expected the ways over S∖j that end at i": "table[rest, i] → table[cities - {i}, j]",
        "the ways are added up: expected the shortest of them": "return min → return sum",
        "that is the mean of the ways: "
        "expected the shortest of them": "min(ways.values()) → sum(ways.values()) / len(ways)",
        "that is the city before j: "
        "expected the length of the way": "min(ways.values()) → float(min(ways, key=ways.get))",
        "sets other than S∖j are searched, too: take the entries table[rest, i] alone": (
            "{i: table[rest, i] + d[i, j] for i in rest} → {key: length + d[key[1], j] for key, "
            "length in table.items() if key[1] != j}"
        ),
    },
)


@exercise("05.table_entry", title="One entry of the table", difficulty=3, minutes=10)
def table_entry(answer, ctx):
    # Sets of several sizes; lengths in the hundreds, since maps are no unit squares; and the
    # smallest set, where there is one way.
    drawn = ctx.sizes(cities_in_the_set=(2, 6))
    for size, scale, more in ((5, 1.0, 2), (6, 2.5e6, 2), (drawn, 1.0, 2), (2, 1.0, 1)):
        n = size + more  # at the end all cities but the first are in the set
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
            for i in before:
                less = cities - {i}
                lower = (scale * (0.5 + 0.1 * ctx.integers(0, 9, size))).tolist()
                ends = sorted(less) if size < 99 else [j]  # all of them take megabytes
                table |= {(less, k): length for k, length in zip(ends, lower)}
            if size > 99:  # who stops after a fixed number of cities misses the last
                table[rest, before[-1]] = 0.1 * scale
            right, wrong = _ENTRY(table, d, cities, j)
            values = [right, *wrong.values()]
            gap = min(abs(x - y) for k, x in enumerate(values) for y in values[:k])
            last = right == table[rest, before[-1]] + d[before[-1], j]
            if gap > 1e-3 * scale if size == 5 else last:
                break
        try:
            result = ctx.number(ctx.call(answer, table, matrix, cities, j), f"T(S, {j})")
        except StudentError as error:
            if not error.unwritten and "KeyError" in str(error):
                ctx.fail(
                    f"you ask the table for an entry that is not in it: what is there are "
                    f"smaller sets, T(S∖j, i) with i ∈ S∖j ({str(error):.200})"
                )
            raise
        ctx.close(result, right, f"T(S, {j})", wrong)


def _step(total, log_p, visited):
    """The k best continuations: totals, tours, cities."""
    n, left = log_p.shape[1], np.where(visited, -np.inf, log_p)
    scores = total[:, None] + left
    order = np.argsort(-scores.ravel(), kind="stable")[: len(total)]
    tour, city = order // n, order % n
    return scores.ravel()[order], tour, city


_STEP = Slips(
    _step,
    {
        "a city is visited twice: visited "
        "cities get −∞ before the best are picked": "np.where(visited, -np.inf, log_p) → log_p",
        "each tour is continued by its own best city: all continuations of all tours compete "
        "for the k places": (
            'order = np.argsort(-scores.ravel(), kind="stable")[: len(total)] → order = '
            "scores.argmax(1) + n * np.arange(len(total))\n    order = "
            'order[np.argsort(-scores.ravel()[order], kind="stable")]'
        ),
        "the scores of the tours so far do not count: add total": "total[:, None] + →",
        "the probabilities are shared out anew among the cities that are left: a rule forbids, "
        "it does not give": "total[:, None] + left → total[:, None] + np.log(softmax(left))",
        "the worst continuations are kept: expected the "
        "best": "np.argsort(-scores.ravel() → np.argsort(np.where(visited, np.inf, scores).ravel()",
        "tour and city have changed places: place "
        "// n is the tour, place % n the city": "order // n, order % n → order % n, order // n",
        "the places are split up by k: a row of the scores has "
        "n cities, divide by n": "order // n, order % n → order // len(total), order % len(total)",
        "the second result is the place among all continuations: "
        "expected the tour it continues, place // n": "order // n, → order,",
        "probabilities are added: expected their logarithms": (
            "total[:, None] + left → np.where(visited, -np.inf, np.exp(total)[:, None] + "
            "np.exp(log_p))"
        ),
        "the best come last: expected them first": ": len(total)] → : len(total)][::-1]",
        "the totals are those before the step: "
        "add log p of the chosen city": "return scores.ravel()[order] → return total[tour]",
        "the totals are the steps alone: "
        "add the score of the tour so far": "return scores.ravel() → return left.ravel()",
        "the totals are probabilities: expected "
        "their logarithms": "return scores.ravel()[order] → return np.exp(scores.ravel()[order])",
    },
)


@exercise("05.beam_of_tours", title="A beam of valid tours", difficulty=3, minutes=12)
def beam_of_tours(answer, ctx):
    names = ("the totals", "the tours", "the cities")
    k, n = ctx.sizes(tours_in_the_beam=(1, 4), n=(5, 10))
    while True:
        # Visited cities are the most probable: without a mask they win. Totals far below 0: a
        # probability or a 0 shows.
        visited = torch.zeros(k, n, dtype=torch.bool)
        for row in visited:
            row[ctx.order(n)[:3]] = True
        log_p = torch.log_softmax(1.5 * ctx.normal(k, n) + 3.0 * visited, 1)
        total = -20 - ctx.normal(k).abs().cumsum(0) / k
        t, lp, v = array(total), array(log_p), array(visited)
        right, wrong = _STEP(t, lp, v)
        same = [tuple(np.concatenate(other).round(5)) for other in (right, *wrong.values())]
        gaps = np.diff(np.sort((t[:, None] + lp)[~v])[-k - 1 :])  # of those kept, and the next
        apart = len(set(same)) == len(same) and len(set(right[1].tolist())) > 1
        clear = k > 99 or apart and gaps.min() > 1e-3 and np.any(np.diff(right[1]) != 1)
        if gaps.min() > 1e-9 and (k == 1 or clear):
            break
    nan = (
        "there are more valid continuations than places: visited cities get −∞ before the best "
        "are picked, and total is added to log p"
    )
    parts = ctx.parts(ctx.call(answer, total, log_p, visited), ("total", "tour", "city"))
    got = (
        ctx.floats(parts[0], names[0], (k,), nan=nan, mention="one a place of the beam"),
        *(ctx.tensor(parts[i], names[i], (k,), dtype=torch.long) for i in (1, 2)),
    )
    ctx.recognize(got, right, wrong)
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
    # One tour with one city left, others with none: fewer valid continuations than places come back
    # as −∞, nothing as NaN.
    for total, where in (
        (torch.tensor([-1.0, -2.0]), (0, 3)),
        (torch.tensor([-2e5, -1e5]), (1, 2)),
    ):
        log_p, visited = torch.log_softmax(ctx.normal(2, 4), 1), torch.ones(2, 4, dtype=torch.bool)
        visited[where] = False
        parts = ctx.parts(ctx.call(answer, total, log_p, visited), ("total", "tour", "city"))
        if type(parts[0]) is not Tensor or parts[0].shape != (2,):
            what = f"the shape {tuple(parts[0].shape)}" if type(parts[0]) is Tensor else a(parts[0])
            ctx.fail(
                f"a beam of two tours with one valid continuation: the totals are one number and "
                f"−∞, of shape (2,), got {what}"
            )
        first, second = parts[0].tolist()
        expected = float(total[where[0]] + log_p[where])
        if not abs(first - expected) < 1e-6 * abs(expected) + 1e-5 or second != -np.inf:
            ctx.fail(
                f"with one city left there is one valid continuation: expected its total, "
                f"{expected:.4g}, and −∞ for the second place (no NaN, and a large negative number "
                f"is no −∞), got {first:.4g} and {second:.4g}"
            )
        tours, cities = (ctx.tensor(parts[i], names[i], (2,), dtype=torch.long) for i in (1, 2))
        if (int(tours[0]), int(cities[0])) != where:
            ctx.fail(
                f"with one city left, tour {where[0]} goes on to city {where[1]}: the first "
                f"continuation is (tour {tours[0]}, city {cities[0]})"
            )


def _walked(c, w):
    """Greedy tours and their log-probabilities."""
    rows, n = np.arange(len(c)), c.shape[1]
    left, city = np.ones((len(c), n), dtype=bool), 0 * rows
    tours, steps = [city], []
    for _ in range(n - 1):
        left[rows, city] = False
        scores = np.einsum("bd,bnd->bn", c[rows, city] @ w, c)
        masked = np.where(left, scores, -np.inf)
        shares = np.log(np.maximum(softmax(masked), 1e-300))
        city = masked.argmax(1)
        steps.append(shares[rows, city])
        tours.append(city)
    return np.stack(tours, 1), np.stack(steps, 1).sum(1)


_WALKED = Slips(
    _walked,
    {
        "a row loses the cities that other rows have visited: left[:, city] = False switches off "
        "these columns in all rows. "
        "A step of row b takes away city[b] from row b alone": "left[rows, city] → left[:, city]",
        "visited cities are not taken away: "
        "a tour may come back to them, or stay": "left[rows, city] = False → pass",
        "only the city of the last step is taken away: a tour may come back to those "
        "before": "left[rows, city] = False → left[:] = True\n        left[rows, city] = False",
        "the start is not taken away: "
        "a tour comes back to city 0 before its end": "city] = False → city] = len(tours) == 1",
        "every row loses the city that row 0 has visited: "
        "a step of row b takes away city[b] from row b": "left[rows, city] → left[rows, city[0]]",
        "a tour goes on to the least likely city: "
        "expected the likeliest": "masked.argmax(1) → np.where(left, scores, np.inf).argmin(1)",
        "the scores are always those from city 0: "
        "expected from the city where the tour is": "c[rows, city] @ → c[:, 0] @",
        "W is transposed: from city i the score of city j is c_i · W · c_j": "@ w, → @ w.T,",
        "W is not used": "@ w, →,",
        "each row goes the tour of the "
        "first one": "return np.stack(tours, 1) → return np.stack(tours, 1)[:1].repeat(len(c), 0)",
        "the probabilities are added up: "
        "expected their logarithms": "np.stack(steps, 1) → np.exp(np.stack(steps, 1))",
        "this is the mean over the steps: "
        "expected the sum": "np.stack(steps, 1).sum( → np.stack(steps, 1).mean(",
        "this is the mean over the cities: expected "
        "the sum over the steps": "np.stack(steps, 1).sum(1) → np.stack(steps, 1).sum(1) / n",
        "this is the probability: "
        "expected its logarithm": "np.stack(steps, 1).sum(1) → np.exp(np.stack(steps, 1).sum(1))",
        "the sign is turned: a log-probability is not above 0": "np.stack(steps → -np.stack(steps",
        "the softmax runs over visited cities, too: "
        "the mask comes before it": "softmax(masked) → softmax(scores)",
        "the log-probabilities of all rows are added up": ".sum(1) → .sum() + 0 * rows",
        "the scores are added up: "
        "expected log-probabilities": "steps.append(shares → steps.append(scores",
        "only the last step counts: add up": "np.stack(steps, 1).sum(1) → steps[-1]",
        "only the first step counts: add up": "np.stack(steps, 1).sum(1) → steps[0]",
    },
)


@exercise(
    "05.tours_by_the_batch", title="Find the bug: tours by the batch", difficulty=3, minutes=10
)
def tours_by_the_batch(answer, ctx):
    # The last with scores far below −10000, all of them whole numbers.
    drawn = ctx.sizes(batch=(1, 4), n=(2, 9), d=(1, 4))
    for low, (batch, n, d) in ((False, drawn), (True, (4, ctx.integers(6, 9), 4))):
        while True:  # no choice that rounding could decide, no two mistakes with the same tours
            cities, W = ctx.normal(batch, n, d), 0.6 * ctx.normal(d, d) / (d / 4) ** 0.5
            if low:
                cities = ctx.integers(1, 9, batch, n, d).float()
                W = -4096.0 * ctx.integers(1, 4, d, d)
            c, w = array(cities), array(W)
            (tours, logs), wrong = _WALKED(c, w)
            scores = np.sort(np.einsum("bid,de,bje->bij", c, w, c), -1)
            known = {other.tobytes() for other, _ in wrong.values()}
            apart = len(known) == 11 or low or 1 in (batch, d) or n < 5
            if n > 99 or np.diff(scores, axis=-1).min() > 1e-4 and apart:
                break
        shapes = (batch, n), (batch,)
        parts = ctx.parts(ctx.call(answer, cities, W), ("tours", "log_p"), shapes)
        mention = "one row a set, one column a step"
        got = ctx.tensor(parts[0], "the tours", shapes[0], dtype=torch.long, mention=mention)
        ctx.recognize(got, tours, {words: other for words, (other, _) in wrong.items()})
        for b, tour in enumerate(got.tolist()):
            if min(tour) < 0 or max(tour) >= n:
                ctx.fail(f"the tour of row {b} is {tour}: the cities are 0 to {n - 1}")
            if tour[0] != 0:
                ctx.fail(f"the tour of row {b} starts at city {tour[0]}: expected city 0")
            if len(set(tour)) < n:
                again = next(city for k, city in enumerate(tour) if city in tour[:k])
                ctx.fail(
                    f"the tour of row {b} visits city {again} twice, and {n - len(set(tour))} of "
                    f"{n} cities not at all: {tour}"
                )
        if not ctx.same(got, tours):
            b, k = np.argwhere(array(got) != tours)[0]
            ctx.fail(
                f"step {k} of row {b} goes to city {got[b, k]}: the likeliest city left is "
                f"{tours[b, k]}"
            )
        nan = (
            "no step of a tour has probability 0, and the last one has 1: is there no city left "
            "before the tour is at its end?"
        )
        log_p = ctx.floats(parts[1], "log_p", (batch,), mention="one a tour", nan=nan)
        ctx.close(log_p, logs, "log_p", {words: other for words, (_, other) in wrong.items()})
