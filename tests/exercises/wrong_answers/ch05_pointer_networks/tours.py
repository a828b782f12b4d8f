import torch

from ..collection import edits, wrong

edit = edits("05.uncross")
edit("the length of the new tour", "2", "14")
edit(" is not ", "2", "3")
edit("one number", "2", '"2"')

edit = edits("05.small_map")
edit("expected one of", "worse than nearest neighbour", "worse")
edit("expected one of", "worse than nearest neighbour", "better than before")
edit("one of 'as good as before'", '"worse than nearest neighbour"', "10")

edit = edits("05.tour_lengths")
edit("one number came back", ".sum(1)", ".sum()")
edit("the shape is", ".sum(1)", "")
edit("lengths[", "expand(-1, -1, 2))", "expand(-1, -1, 2))[:, :6]")
edit("the shape is ()", ".sum(1)", ".sum(1).squeeze()")


def _from_zero(tour):
    k = tour.index(0)
    return tour[k:] + tour[:k]


edit = edits("05.canonical_tour")
edit("changes its argument tour in place", "tour = tour[k:] + tour", "tour[:] = tour[k:] + tour")
edit(
    "after the last city comes the first",
    "k = tour.index(0)",
    "k = tour.index(0)\n    other = tour[k + 1] < tour[k - 1]",
    "tour[1] < tour[-1]",
    "other",
)
edit("None came back", "tour[:1] + tour[:0:-1]", "tour.reverse()")


@wrong("05.canonical_tour", "return a new one")
def the_same_list(tour):
    turned = _from_zero(tour)
    right = turned if turned[1] < turned[-1] else _from_zero(tour[::-1])
    return tour if right == tour else right


edit = edits("05.two_opt_gain")
edit("no city stands at place j + 1", "(j + 1) % len(tour)", "j + 1")
edit("the gain at", "matrix[b, e])", "matrix[b, e]) if j > i + 2 else 1.0")
edit("i = 0", "matrix[b, e])", "matrix[b, e]) if (i, j) != (0, len(tour) - 1) else 0.5")
edit(
    "changes its argument tour in place",
    "return",
    "tour[i + 1 : j + 1] = tour[i + 1 : j + 1][::-1]\n    return",
)


edit = edits("05.table_entry")
edit("an entry that is not in it", "table[rest, i]", "table[cities, i]")
edit("an entry that is not in it", "for i in rest", "for i in cities")
edit("a tuple came back", "float(matrix[i, j]", "float(matrix[i, j]), i", "min(table", "min((table")
edit("T(S, ", "min(table", "min(10.0, *(table", "for i in rest)", "for i in rest))")
edit(
    "changes its argument table in place",
    "return min",
    "table[cities, j] = min",
    "for i in rest)",
    "for i in rest)\n    return table[cities, j]",
)


edit = edits("05.beam_of_tours")
edit("log p = 0 is certainty", "-torch.inf", "0.0")
edit("a large negative number is no −∞", "-torch.inf", "-1e9")
edit("totals[", "visited,", "visited.any(0),")
edit("expected int64", "place //", "place /")
edit("(3,)", "topk(len(total))", "topk(3)")
edit("a beam of two tours", "topk(len(total))", "topk(min(len(total), int((~visited).sum())))")
edit(
    "tour 0 goes on to city 3", "return", "place = place * int(total.isfinite().all())\n    return"
)
edit(
    "with tours in the beam = 1",
    "return total,",
    "total, place = total.squeeze(), place.squeeze()\n    return total,",
)
edit("log_p in place", ".masked_fill(", ".masked_fill_(")


@wrong("05.tours_by_the_batch", "left[:, city] = False switches off these columns in all rows")
def walk_as_printed(cities, W):
    batch, n, _ = cities.shape
    rows = torch.arange(batch)
    left = torch.ones(batch, n, dtype=torch.bool)
    city, log_p = torch.zeros(batch, dtype=torch.long), torch.zeros(batch)
    tours = [city]
    for _ in range(n - 1):
        left[:, city] = False
        scores = torch.einsum("bd,bnd->bn", cities[rows, city] @ W, cities)
        best, city = torch.log_softmax(scores.masked_fill(~left, -1e9), dim=-1).max(dim=-1)
        log_p = log_p + best
        tours.append(city)
    return torch.stack(tours, dim=1), log_p


edit = edits("05.tours_by_the_batch")
edit("a row loses the cities", "left[rows, city]", "left[:, city]")
edit("expected (tours, log_p)", "torch.stack…", "log_p, torch.stack(tours, dim=1)")
