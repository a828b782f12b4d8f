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
edit("the way back from the last city to the first is missing", "at).norm", "at)[:, :-1].norm")
edit("the distances are squared", ".norm(dim=-1).sum(1)", ".square().sum((1, 2))")
edit("a root for each step", ".norm(dim=-1).sum(1)", ".square().sum((1, 2)).sqrt()")
edit("along the axes", ".norm(dim=-1).sum(1)", ".abs().sum((1, 2))")
edit("the mean of the steps", ".sum(1)", ".mean(1)")
edit("in the order of the input", "points.gather(1, tours[..., None].expand(-1, -1, 2))", "points")
edit("the first row's tour", ".gather(1, tours[..., None].expand(-1, -1, 2))", "[:, tours[0]]")
edit("the wrong way round", "tours[..., None]", "tours.argsort(1)[..., None]")
edit("one number came back", ".sum(1)", ".sum()")
edit("the shape is", ".sum(1)", "")
edit("the way back leads to city 0", "at.roll(-1, 1)", "torch.cat([at[:, 1:], points[:, :1]], 1)")
edit("all rows take their cities from the first set", ".gather…", "[0][tours]")
edit("the roll goes over the rows", "roll(-1, 1)", "roll(-1, 0)")
edit("the roll runs on over the end of a row", "roll(-1, 1)", "roll(-1)")
edit("lengths[", "expand(-1, -1, 2))", "expand(-1, -1, 2))[:, :6]")
edit("the shape is ()", ".sum(1)", ".sum(1).squeeze()")


def _from_zero(tour):
    k = tour.index(0)
    return tour[k:] + tour[:k]


edit = edits("05.canonical_tour")
edit("then go round the other way", " if tour[1] < tour[-1] else tour[:1] + tour[:0:-1]", "")
edit("then go round the other way", "tour[1] < tour[-1]", "tour[1] > tour[-1]")
edit("now city 0 comes last", "tour[:1] + tour[:0:-1]", "tour[::-1]")
edit("the tour came back as it was", "k = tour.index(0)", "return list(tour)")
edit("the cities are sorted", "k = tour.index(0)", "return sorted(tour)")
edit("turned round although", "tour if tour[1]", "tour if len(tour) in (3, 7) and tour[1]")
edit("city 0 is moved to the front", "k = tour.index(0)", "return [0] + [c for c in tour if c]")
edit(
    "city 0 changed places",
    "tour = tour[k:] + tour[:k]",
    "tour = list(tour)\n    tour[0], tour[k] = 0, tour[0]",
    "tour if tour[1] < tour[-1] else tour[:1] + tour[:0:-1]",
    "tour",
)
edit("changes its argument tour in place", "tour = tour[k:] + tour", "tour[:] = tour[k:] + tour")
edit(
    "behind the last city comes the first",
    "k = tour.index(0)",
    "k = tour.index(0)\n    other = tour[k + 1] < tour[k - 1]",
    "tour[1] < tour[-1]",
    "other",
)
edit("then go round the other way", "k =", "if tour[0] == 0:\n        return list(tour)\n    k =")
edit("the tour came back as it was", "k =", "if tour[-1] == 0:\n        return list(tour)\n    k =")
edit("the tour", "tour[1] < tour[-1]", "tour[1] < tour[2]")
edit("None came back", "tour[:1] + tour[:0:-1]", "tour.reverse()")


@wrong("05.canonical_tour", "expected a new one")
def the_same_list(tour):
    turned = _from_zero(tour)
    right = turned if turned[1] < turned[-1] else _from_zero(tour[::-1])
    return tour if right == tour else right


def _length(d, walk):
    return sum(d[x][y] for x, y in zip(walk, walk[1:] + walk[:1]))


edit = edits("05.two_opt_gain")
edit("the sign is turned round", "[a, b]…", "[a, c] + matrix[b, e] - matrix[a, b] - matrix[c, e])")
edit("the positions are used as cities", "tour[i]…", "i, i + 1, j, (j + 1) % len(tour)")
edit("cuts the tour into two", "matrix[a, c] - matrix[b, e]", "matrix[a, e] - matrix[b, c]")
edit("only the old edges are counted", "- matrix[a, c] - matrix[b, e]", "")
edit("no city stands at place j + 1", "(j + 1) % len(tour)", "j + 1")
edit(
    "the way back is missing",
    "return",
    "if j == len(tour) - 1:\n        return float(matrix[a, b] - matrix[a, c])\n    return",
)
edit("do not take the absolute value", "float(matrix", "abs(float(matrix", "[b, e])", "[b, e]))")
edit(
    "where the tour becomes longer",
    "float(matrix[a, b] + matrix[c, e] - matrix[a, c] - matrix[b, e])",
    "max(0.0, float(matrix[a, b] + matrix[c, e] - matrix[a, c] - matrix[b, e]))",
)
edit("not city 0", "tour[(j + 1) % len(tour)]", "[*tour, 0][j + 1]")
edit("the one before place j", "tour[j], tour[(j + 1) % len(tour)]", "tour[j - 1], tour[j]")
edit("the four distances are added", "- matrix", "+ matrix")
edit("the gain at", "matrix[b, e])", "matrix[b, e]) if j > i + 2 else 1.0")
edit("i = 0", "matrix[b, e])", "matrix[b, e]) if (i, j) != (0, len(tour) - 1) else 0.5")
edit(
    "changes its argument tour in place",
    "return",
    "tour[i + 1 : j + 1] = tour[i + 1 : j + 1][::-1]\n    return",
)


@wrong("05.two_opt_gain", "two cities change places")
def swap(matrix, tour, i, j):
    d, other = matrix.tolist(), list(tour)
    other[i], other[j] = other[j], other[i]
    return _length(d, tour) - _length(d, other)


@wrong("05.two_opt_gain", "place i included")
def turns_city_i_as_well(matrix, tour, i, j):
    return _length(matrix.tolist(), tour) - _length(
        matrix.tolist(), tour[:i] + tour[i : j + 1][::-1] + tour[j + 1 :]
    )


@wrong("05.two_opt_gain", "the length of the new tour")
def new_length(matrix, tour, i, j):
    return _length(matrix.tolist(), tour[: i + 1] + tour[i + 1 : j + 1][::-1] + tour[j + 1 :])


edit = edits("05.table_entry")
edit("that is the longest", "min(", "max(")
edit("the step from i to j is missing", "+ float(matrix[i, j])", "")
edit("the shortest way to the set is taken", "rest)", "[min(rest, key=lambda i: table[rest, i])])")
edit("the city nearest to j", "i in rest", "i in [min(rest, key=lambda i: float(matrix[i, j]))]")
edit("the way home from j to city 0 is added", "matrix[i, j]", "matrix[i, j] + matrix[j, 0]")
edit("the step starts at city 0", "matrix[i, j]", "matrix[0, j]")
edit("only the step is left", "table[rest, i] +", "")
edit("i and j have changed places in the table", "table[rest, i]", "table[cities - {i}, j]")
edit("an entry that is not in it", "table[rest, i]", "table[cities, i]")
edit("an entry that is not in it", "for i in rest", "for i in cities")
edit("need not belong to one city i", "float", "0.0 for i in rest) + min(float")
edit("the one straight from city 0", "table[rest, i] + float(matrix", "float(matrix[0, i] + matrix")
edit("that is the mean", "min(", "sum(", "for i in rest)", "for i in rest) / len(rest)")
edit(
    "that is the city before j",
    "min(table[rest, i] + float(matrix[i, j]) for i in rest)",
    "min(sorted(rest), key=lambda i: table[rest, i] + float(matrix[i, j]))",
)
edit("a tuple came back", "float(matrix[i, j]", "float(matrix[i, j]), i", "min(table", "min((table")
edit(
    "sets other than S∖j",
    "min(table[rest, i] + float(matrix[i, j]) for i in rest)",
    "min(length + float(matrix[i, j]) for (_, i), length in table.items() if i != j)",
)
edit("T(S, ", "min(table", "min(10.0, *(table", "for i in rest)", "for i in rest))")
edit("compare the sums", "for i in rest)", "for i in sorted(rest)[:4])")
edit(
    "changes its argument table in place",
    "return min",
    "table[cities, j] = min",
    "for i in rest)",
    "for i in rest)\n    return table[cities, j]",
)


edit = edits("05.beam_of_tours")
edit("a city is visited twice", ".masked_fill(visited, -torch.inf)", "")
edit("log p = 0 is certainty", "-torch.inf", "0.0")
edit("add total", "total[:, None] +", "")
edit("a rule forbids, it does not give", "-torch.inf)", "-torch.inf).log_softmax(1)")
edit("tour and city have changed places", "// log_p…", "% log_p.shape[1], place // log_p.shape[1]")
edit("divide by n", "log_p.shape[1]", "len(total)")
edit("probabilities are added", "total[:, None] + log_p", "total.exp()[:, None] + log_p.exp()")
edit("a large negative number is no −∞", "-torch.inf", "-1e9")
edit(
    "the totals are those before the step",
    "total, place =",
    "_, place =",
    "return total",
    "return total[place // log_p.shape[1]]",
)
edit(
    "before the best are picked",
    ".masked_fill(visited, -torch.inf)",
    "",
    "return total",
    "return total.masked_fill(visited.flatten()[place], -torch.inf)",
)
edit("visited cities get −∞", "visited,", "~visited,")
edit("totals[", "visited,", "visited.any(0),")
edit("the totals are probabilities", "-torch.inf)", "-torch.inf)\n    scores = scores.exp()")
edit("expected int64", "place //", "place /")
edit("a beam of two tours", "topk(len(total))", "topk(3)")
edit("a beam of two tours", "topk(len(total))", "topk(min(len(total), int((~visited).sum())))")
edit(
    "tour 0 goes on to city 3", "return", "place = place * int(total.isfinite().all())\n    return"
)
edit(
    "the beam holds one tour",
    "return total,",
    "total, place = total.squeeze(), place.squeeze()\n    return total,",
)
edit("log_p in place", ".masked_fill(", ".masked_fill_(")


@wrong("05.beam_of_tours", "all continuations of all tours compete")
def best_of_each(total, log_p, visited):
    value, city = log_p.masked_fill(visited, -torch.inf).max(1)
    total, parent = (total + value).sort(descending=True)
    return total, parent, city[parent]


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
edit("no city left before the tour is at its end", "left[rows, city]", "left[:, city]")
edit("visited cities are not taken away", '.masked_fill(~left, float("-inf"))', "")
edit(
    "only the city of the last step is taken away",
    "left[rows, city] = False",
    "left = torch.ones(batch, n, dtype=torch.bool)\n        left[rows, city] = False",
)
edit("takes away city[b] from row b", "[rows, city] =", "[:, city[0]] =", 'float("-inf")', "-1e9")
edit("the least likely city", ".max(dim=-1)", '.masked_fill(~left, float("inf")).min(dim=-1)')
edit("always those from city 0", "cities[rows, city]", "cities[:, 0]")
edit("W is transposed", "@ W", "@ W.T")
edit("over visited cities, too", "+ best", "+ torch.log_softmax(scores, -1)[rows, city]")
edit("expected the sum", ".stack(tours, dim=1), log_p", ".stack(tours, dim=1), log_p / (n - 1)")
edit("the probabilities are added up", "+ best", "+ best.exp()")
edit("expected (tours, log_p)", "torch.stack…", "log_p, torch.stack(tours, dim=1)")
edit("the start is not taken away", "for _", "for k", "= False", "= k == 0")
