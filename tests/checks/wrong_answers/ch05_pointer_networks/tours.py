import torch

from ..collection import wrong


def _at(points, tours):
    return points.gather(1, tours[..., None].expand(-1, -1, 2))


def _steps(points, tours):
    at = _at(points, tours)
    return at.roll(-1, 1) - at


@wrong("05.tour_lengths", "the way back from the last city to the first is missing")
def one_way(points, tours):
    return _steps(points, tours)[:, :-1].norm(dim=-1).sum(1)


@wrong("05.tour_lengths", "the distances are squared")
def squares(points, tours):
    return _steps(points, tours).square().sum((1, 2))


@wrong("05.tour_lengths", "a root for each step")
def one_root(points, tours):
    return _steps(points, tours).square().sum((1, 2)).sqrt()


@wrong("05.tour_lengths", "along the axes")
def blocks(points, tours):
    return _steps(points, tours).abs().sum((1, 2))


@wrong("05.tour_lengths", "the mean of the steps")
def mean_step(points, tours):
    return _steps(points, tours).norm(dim=-1).mean(1)


@wrong("05.tour_lengths", "in the order of the input")
def order_of_the_input(points, tours):
    return (points.roll(-1, 1) - points).norm(dim=-1).sum(1)


@wrong("05.tour_lengths", "the first row's tour")
def tour_of_the_first_row(points, tours):
    at = points[:, tours[0]]
    return (at.roll(-1, 1) - at).norm(dim=-1).sum(1)


@wrong("05.tour_lengths", "the wrong way round")
def places_of_cities(points, tours):
    return _steps(points, tours.argsort(1)).norm(dim=-1).sum(1)


@wrong("05.tour_lengths", "one number came back")
def of_all_rows(points, tours):
    return _steps(points, tours).norm(dim=-1).sum()


@wrong("05.tour_lengths", "the shape is")
def every_step(points, tours):
    return _steps(points, tours).norm(dim=-1)


@wrong("05.tour_lengths", "the way back leads to city 0")
def back_to_city_0(points, tours):
    at = _at(points, tours)
    return (at[:, 1:] - at[:, :-1]).norm(dim=-1).sum(1) + (at[:, -1] - points[:, 0]).norm(dim=-1)


@wrong("05.tour_lengths", "all rows take their cities from the first set")
def points_of_the_first_row(points, tours):
    at = points[0][tours]
    return (at.roll(-1, 1) - at).norm(dim=-1).sum(1)


@wrong("05.tour_lengths", "the roll goes over the rows")
def rolled_over_the_rows(points, tours):
    at = _at(points, tours)
    return (at.roll(-1, 0) - at).norm(dim=-1).sum(1)


@wrong("05.tour_lengths", "the roll runs on over the end of a row")
def rolled_flat(points, tours):
    at = _at(points, tours)
    return (at.roll(-1) - at).norm(dim=-1).sum(1)


@wrong("05.tour_lengths", "lengths[")
def six_cities(points, tours):
    at = _at(points, tours)[:, :6]
    return (at.roll(-1, 1) - at).norm(dim=-1).sum(1)


@wrong("05.tour_lengths", "the shape is ()")
def squeezed(points, tours):
    return _steps(points, tours).norm(dim=-1).sum(1).squeeze()


def _from_zero(tour):
    k = tour.index(0)
    return tour[k:] + tour[:k]


@wrong("05.canonical_tour", "then go round the other way")
def only_turned(tour):
    return _from_zero(tour)


@wrong("05.canonical_tour", "then go round the other way")
def turned_the_wrong_way_round(tour):
    tour = _from_zero(tour)
    return tour if tour[1] > tour[-1] else _from_zero(tour[::-1])


@wrong("05.canonical_tour", "now city 0 comes last")
def city_0_comes_last(tour):
    tour = _from_zero(tour)
    return tour if tour[1] < tour[-1] else tour[::-1]


@wrong("05.canonical_tour", "the tour came back as it was")
def as_it_was(tour):
    return list(tour)


@wrong("05.canonical_tour", "the cities are sorted")
def sorted_cities(tour):
    return sorted(tour)


@wrong("05.canonical_tour", "turned round although")
def always_turned_round(tour):
    tour = _from_zero(tour)
    return tour if len(tour) in (3, 7) and tour[1] < tour[-1] else _from_zero(tour[::-1])


@wrong("05.canonical_tour", "city 0 is moved to the front")
def moved_to_the_front(tour):
    return [0] + [c for c in tour if c]


@wrong("05.canonical_tour", "city 0 changed places")
def changed_places(tour):
    tour = list(tour)
    k = tour.index(0)
    tour[0], tour[k] = tour[k], tour[0]
    return tour


@wrong("05.canonical_tour", "changes its argument tour in place")
def in_place(tour):
    k = tour.index(0)
    tour[:] = tour[k:] + tour[:k]
    if tour[1] > tour[-1]:
        tour[1:] = tour[:0:-1]
    return list(tour)


@wrong("05.canonical_tour", "behind the last city comes the first")
def neighbours_by_place(tour):
    k = tour.index(0)
    return _from_zero(tour) if tour[k + 1] < tour[k - 1] else _from_zero(tour[::-1])


@wrong("05.canonical_tour", "expected a new one")
def the_same_list(tour):
    turned = _from_zero(tour)
    right = turned if turned[1] < turned[-1] else _from_zero(tour[::-1])
    return tour if right == tour else right


@wrong("05.canonical_tour", "then go round the other way")
def satisfied_with_the_start(tour):
    if tour[0] == 0:
        return list(tour)
    turned = _from_zero(tour)
    return turned if turned[1] < turned[-1] else _from_zero(tour[::-1])


@wrong("05.canonical_tour", "the tour came back as it was")
def city_0_left_at_the_end(tour):
    if tour[-1] == 0:
        return list(tour)
    turned = _from_zero(tour)
    return turned if turned[1] < turned[-1] else _from_zero(tour[::-1])


@wrong("05.canonical_tour", "the tour")
def compared_with_the_third(tour):
    turned = _from_zero(tour)
    return turned if turned[1] < turned[2] else _from_zero(tour[::-1])


@wrong("05.canonical_tour", "None came back")
def reversed_in_place(tour):
    turned = _from_zero(tour)
    return turned if turned[1] < turned[-1] else turned.reverse()


def _edges(matrix, tour, i, j):
    n = len(tour)
    a, b, c, e = tour[i], tour[i + 1], tour[j], tour[(j + 1) % n]
    return matrix.tolist(), a, b, c, e


def _length(d, walk):
    return sum(d[x][y] for x, y in zip(walk, walk[1:] + walk[:1]))


@wrong("05.two_opt_gain", "the sign is turned round")
def loss_instead_of_gain(matrix, tour, i, j):
    d, a, b, c, e = _edges(matrix, tour, i, j)
    return d[a][c] + d[b][e] - d[a][b] - d[c][e]


@wrong("05.two_opt_gain", "the positions are used as cities")
def positions_as_cities(matrix, tour, i, j):
    d, n = matrix.tolist(), len(tour)
    return d[i][i + 1] + d[j][(j + 1) % n] - d[i][j] - d[i + 1][(j + 1) % n]


@wrong("05.two_opt_gain", "cuts the tour into two")
def two_rings(matrix, tour, i, j):
    d, a, b, c, e = _edges(matrix, tour, i, j)
    return d[a][b] + d[c][e] - d[a][e] - d[b][c]


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


@wrong("05.two_opt_gain", "only the old edges are counted")
def old_edges(matrix, tour, i, j):
    d, a, b, c, e = _edges(matrix, tour, i, j)
    return d[a][b] + d[c][e]


@wrong("05.two_opt_gain", "no city stands at place j + 1")
def behind_the_end(matrix, tour, i, j):
    d = matrix.tolist()
    return (
        d[tour[i]][tour[i + 1]]
        + d[tour[j]][tour[j + 1]]
        - d[tour[i]][tour[j]]
        - d[tour[i + 1]][tour[j + 1]]
    )


@wrong("05.two_opt_gain", "the way back is missing")
def open_at_the_end(matrix, tour, i, j):
    d, a, b, c, e = _edges(matrix, tour, i, j)
    return d[a][b] - d[a][c] if j == len(tour) - 1 else d[a][b] + d[c][e] - d[a][c] - d[b][e]


@wrong("05.two_opt_gain", "the length of the new tour")
def new_length(matrix, tour, i, j):
    return _length(matrix.tolist(), tour[: i + 1] + tour[i + 1 : j + 1][::-1] + tour[j + 1 :])


def _gain(matrix, tour, i, j):
    d, a, b, c, e = _edges(matrix, tour, i, j)
    return d[a][b] + d[c][e] - d[a][c] - d[b][e]


@wrong("05.two_opt_gain", "do not take the absolute value")
def absolute(matrix, tour, i, j):
    return abs(_gain(matrix, tour, i, j))


@wrong("05.two_opt_gain", "where the tour becomes longer")
def never_below_0(matrix, tour, i, j):
    return max(0.0, _gain(matrix, tour, i, j))


@wrong("05.two_opt_gain", "not city 0")
def back_to_city_0_again(matrix, tour, i, j):
    d, walk = matrix.tolist(), [*tour, 0]
    a, b, c, e = walk[i], walk[i + 1], walk[j], walk[j + 1]
    return d[a][b] + d[c][e] - d[a][c] - d[b][e]


@wrong("05.two_opt_gain", "the one before place j")
def one_place_too_early(matrix, tour, i, j):
    d, a, b, c, e = matrix.tolist(), tour[i], tour[i + 1], tour[j - 1], tour[j]
    return d[a][b] + d[c][e] - d[a][c] - d[b][e]


@wrong("05.two_opt_gain", "the four distances are added")
def all_four(matrix, tour, i, j):
    d, a, b, c, e = _edges(matrix, tour, i, j)
    return d[a][b] + d[c][e] + d[a][c] + d[b][e]


@wrong("05.two_opt_gain", "the gain at")
def short_parts_ignored(matrix, tour, i, j):
    return _gain(matrix, tour, i, j) if j > i + 2 else 1.0


@wrong("05.two_opt_gain", "i = 0")
def whole_ring_turned(matrix, tour, i, j):
    return _gain(matrix, tour, i, j) if (i, j) != (0, len(tour) - 1) else 0.5


@wrong("05.two_opt_gain", "changes its argument tour in place")
def turns_the_tour(matrix, tour, i, j):
    gain = _gain(matrix, tour, i, j)
    tour[i + 1 : j + 1] = tour[i + 1 : j + 1][::-1]
    return gain


def _before(cities, j):
    return sorted(cities - {j})


@wrong("05.table_entry", "that is the longest")
def longest(table, matrix, cities, j):
    return max(table[cities - {j}, i] + float(matrix[i, j]) for i in _before(cities, j))


@wrong("05.table_entry", "the step from i to j is missing")
def without_the_step(table, matrix, cities, j):
    return min(table[cities - {j}, i] for i in _before(cities, j))


@wrong("05.table_entry", "the shortest way to the set is taken")
def shortest_before(table, matrix, cities, j):
    i = min(_before(cities, j), key=lambda i: table[cities - {j}, i])
    return table[cities - {j}, i] + float(matrix[i, j])


@wrong("05.table_entry", "the city nearest to j")
def nearest(table, matrix, cities, j):
    i = min(_before(cities, j), key=lambda i: float(matrix[i, j]))
    return table[cities - {j}, i] + float(matrix[i, j])


@wrong("05.table_entry", "the way home from j to city 0 is added")
def and_home(table, matrix, cities, j):
    return min(
        table[cities - {j}, i] + float(matrix[i, j] + matrix[j, 0]) for i in _before(cities, j)
    )


@wrong("05.table_entry", "the step starts at city 0")
def from_city_0(table, matrix, cities, j):
    return min(table[cities - {j}, i] + float(matrix[0, j]) for i in _before(cities, j))


@wrong("05.table_entry", "only the step is left")
def step_alone(table, matrix, cities, j):
    return min(float(matrix[i, j]) for i in _before(cities, j))


@wrong("05.table_entry", "i and j have changed places in the table")
def without_i_ending_at_j(table, matrix, cities, j):
    return min(table[cities - {i}, j] + float(matrix[i, j]) for i in _before(cities, j))


@wrong("05.table_entry", "an entry that is not in it")
def j_still_in_the_set(table, matrix, cities, j):
    return min(table[cities, i] + float(matrix[i, j]) for i in _before(cities, j))


@wrong("05.table_entry", "an entry that is not in it")
def over_j_itself(table, matrix, cities, j):
    return min(table[cities - {j}, i] + float(matrix[i, j]) for i in cities)


def _ways(table, matrix, cities, j):
    return {i: table[cities - {j}, i] + float(matrix[i, j]) for i in _before(cities, j)}


@wrong("05.table_entry", "need not belong to one city i")
def two_minima(table, matrix, cities, j):
    rest = cities - {j}
    return min(table[rest, i] for i in rest) + min(float(matrix[i, j]) for i in rest)


@wrong("05.table_entry", "the one straight from city 0")
def straight_from_city_0(table, matrix, cities, j):
    return min(float(matrix[0, i] + matrix[i, j]) for i in _before(cities, j))


@wrong("05.table_entry", "that is the mean")
def mean_way(table, matrix, cities, j):
    ways = _ways(table, matrix, cities, j).values()
    return sum(ways) / len(ways)


@wrong("05.table_entry", "that is the city before j")
def city_before(table, matrix, cities, j):
    ways = _ways(table, matrix, cities, j)
    return min(ways, key=ways.get)


@wrong("05.table_entry", "a tuple came back")
def length_and_city(table, matrix, cities, j):
    return min((way, i) for i, way in _ways(table, matrix, cities, j).items())


@wrong("05.table_entry", "sets other than S∖j")
def every_set(table, matrix, cities, j):
    return min(length + float(matrix[i, j]) for (_, i), length in table.items() if i != j)


@wrong("05.table_entry", "T(S, ")
def starts_from_ten(table, matrix, cities, j):
    return min(10.0, *_ways(table, matrix, cities, j).values())


@wrong("05.table_entry", "compare the sums")
def four_cities_at_most(table, matrix, cities, j):
    ways = _ways(table, matrix, cities, j)
    return min(ways[i] for i in sorted(ways)[:4])


@wrong("05.table_entry", "changes its argument table in place")
def writes_the_entry(table, matrix, cities, j):
    table[cities, j] = min(_ways(table, matrix, cities, j).values())
    return table[cities, j]


def _best(scores, n):
    total, index = scores.flatten().topk(len(scores))
    return total, index // n, index % n


@wrong("05.beam_of_tours", "a city is visited twice")
def no_mask(total, log_p, visited):
    return _best(total[:, None] + log_p, log_p.shape[1])


@wrong("05.beam_of_tours", "log p = 0 is certainty")
def zeros_for_visited(total, log_p, visited):
    return _best(total[:, None] + log_p.masked_fill(visited, 0.0), log_p.shape[1])


@wrong("05.beam_of_tours", "all continuations of all tours compete")
def best_of_each(total, log_p, visited):
    value, city = log_p.masked_fill(visited, -torch.inf).max(1)
    total, parent = (total + value).sort(descending=True)
    return total, parent, city[parent]


@wrong("05.beam_of_tours", "add total")
def steps_alone(total, log_p, visited):
    return _best(log_p.masked_fill(visited, -torch.inf), log_p.shape[1])


@wrong("05.beam_of_tours", "a rule forbids, it does not give")
def shared_out_anew(total, log_p, visited):
    return _best(
        total[:, None] + log_p.masked_fill(visited, -torch.inf).log_softmax(1), log_p.shape[1]
    )


@wrong("05.beam_of_tours", "tour and city have changed places")
def changed_places_of_parts(total, log_p, visited):
    total, parent, city = _best(
        total[:, None] + log_p.masked_fill(visited, -torch.inf), log_p.shape[1]
    )
    return total, city, parent


@wrong("05.beam_of_tours", "divide by n")
def divided_by_k(total, log_p, visited):
    total, index = (
        (total[:, None] + log_p.masked_fill(visited, -torch.inf)).flatten().topk(len(total))
    )
    return total, index // len(total), index % len(total)


@wrong("05.beam_of_tours", "probabilities are added")
def probabilities(total, log_p, visited):
    return _best(
        total.exp()[:, None] + log_p.exp().masked_fill(visited, -torch.inf), log_p.shape[1]
    )


@wrong("05.beam_of_tours", "a large negative number is no −∞")
def large_number(total, log_p, visited):
    return _best(total[:, None] + log_p.masked_fill(visited, -1e9), log_p.shape[1])


@wrong("05.beam_of_tours", "the totals are those before the step")
def totals_of_before(total, log_p, visited):
    _, parent, city = _best(total[:, None] + log_p.masked_fill(visited, -torch.inf), log_p.shape[1])
    return total[parent], parent, city


def _masked(total, log_p, visited):
    return total[:, None] + log_p.masked_fill(visited, -torch.inf)


@wrong("05.beam_of_tours", "before the best are picked")
def masked_too_late(total, log_p, visited):
    total, tour, city = _best(total[:, None] + log_p, log_p.shape[1])
    return total.masked_fill(visited[tour, city], -torch.inf), tour, city


@wrong("05.beam_of_tours", "visited cities get −∞")
def mask_turned_round(total, log_p, visited):
    return _best(_masked(total, log_p, ~visited), log_p.shape[1])


@wrong("05.beam_of_tours", "totals[")
def visited_by_any(total, log_p, visited):
    return _best(_masked(total, log_p, visited.any(0)), log_p.shape[1])


@wrong("05.beam_of_tours", "the totals are probabilities")
def probabilities_of_tours(total, log_p, visited):
    return _best(_masked(total, log_p, visited).exp(), log_p.shape[1])


@wrong("05.beam_of_tours", "expected int64")
def divided_to_a_fraction(total, log_p, visited):
    total, place = _masked(total, log_p, visited).flatten().topk(len(total))
    return total, place / log_p.shape[1], place % log_p.shape[1]


@wrong("05.beam_of_tours", "a beam of two tours")
def always_three(total, log_p, visited):
    total, place = _masked(total, log_p, visited).flatten().topk(3)
    return total, place // log_p.shape[1], place % log_p.shape[1]


@wrong("05.beam_of_tours", "a beam of two tours")
def fewer_than_k(total, log_p, visited):
    total, place = (
        _masked(total, log_p, visited).flatten().topk(min(len(total), int((~visited).sum())))
    )
    return total, place // log_p.shape[1], place % log_p.shape[1]


@wrong("05.beam_of_tours", "tour 0 goes on to city 3")
def nothing_where_few_are_left(total, log_p, visited):
    total, tour, city = _best(_masked(total, log_p, visited), log_p.shape[1])
    return (total, tour, city) if bool(total.isfinite().all()) else (total, 0 * tour, 0 * city)


@wrong("05.beam_of_tours", "the beam holds one tour")
def squeezed_beam(total, log_p, visited):
    return tuple(part.squeeze() for part in _best(_masked(total, log_p, visited), log_p.shape[1]))


@wrong("05.beam_of_tours", "log_p in place")
def mask_written_into_log_p(total, log_p, visited):
    log_p[visited] = -torch.inf
    return _best(total[:, None] + log_p, log_p.shape[1])


def _go(
    cities,
    W,
    leave,
    fill=float("-inf"),
    ask=None,
    best=lambda steps: steps.max(-1),
    add=lambda steps, city: steps.gather(1, city[:, None])[:, 0],
):
    batch, n, _ = cities.shape
    left = torch.ones(batch, n, dtype=torch.bool)
    city, tours, log_p = (
        torch.zeros(batch, dtype=torch.long),
        [torch.zeros(batch, dtype=torch.long)],
        torch.zeros(batch),
    )
    for k in range(n - 1):
        left = left & ~leave(left, city, k)
        here = cities[torch.arange(batch), city if ask is None else torch.full_like(city, ask)]
        scores = torch.einsum("bd,bnd->bn", here @ W, cities)
        steps = torch.log_softmax(scores.masked_fill(~left, fill), -1)
        city = best(steps)[1]
        log_p = log_p + add(torch.log_softmax(scores, -1) if add is _over_all else steps, city)
        tours.append(city)
    return torch.stack(tours, 1), log_p


def _own(left, city, k):
    return torch.nn.functional.one_hot(city, left.shape[1]).bool()


def _over_all(steps, city):
    return steps.gather(1, city[:, None])[:, 0]


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
        steps = torch.log_softmax(scores.masked_fill(~left, -1e9), dim=-1)
        best, city = steps.max(dim=-1)
        log_p = log_p + best
        tours.append(city)
    return torch.stack(tours, dim=1), log_p


@wrong("05.tours_by_the_batch", "no city left before the tour is at its end")
def walk_as_printed_with_infinity(cities, W):
    return _go(cities, W, lambda left, city, k: _own(left, city, k).any(0, keepdim=True))


@wrong("05.tours_by_the_batch", "visited cities are not taken away")
def walk_without_a_mask(cities, W):
    return _go(cities, W, lambda left, city, k: torch.zeros_like(left))


@wrong("05.tours_by_the_batch", "only the city of the last step is taken away")
def walk_forgets(cities, W):
    batch, n, _ = cities.shape
    city, tours, log_p = (
        torch.zeros(batch, dtype=torch.long),
        [torch.zeros(batch, dtype=torch.long)],
        torch.zeros(batch),
    )
    for _ in range(n - 1):
        scores = torch.einsum("bd,bnd->bn", cities[torch.arange(batch), city] @ W, cities)
        best, city = torch.log_softmax(
            scores.masked_fill(torch.nn.functional.one_hot(city, n).bool(), float("-inf")), -1
        ).max(-1)
        log_p = log_p + best
        tours.append(city)
    return torch.stack(tours, 1), log_p


@wrong("05.tours_by_the_batch", "the start is not taken away")
def walk_home_too_early(cities, W):
    return _go(cities, W, lambda left, city, k: _own(left, city, k) & (k > 0))


@wrong("05.tours_by_the_batch", "takes away city[b] from row b")
def walk_behind_the_first_row(cities, W):
    return _go(cities, W, lambda left, city, k: _own(left, city[:1].expand_as(city), k), fill=-1e9)


@wrong("05.tours_by_the_batch", "the least likely city")
def walk_worst(cities, W):
    def best(steps):
        return steps.masked_fill(steps == float("-inf"), float("inf")).min(-1)

    return _go(cities, W, _own, best=best)


@wrong("05.tours_by_the_batch", "always those from city 0")
def walk_asks_the_start(cities, W):
    return _go(cities, W, _own, ask=0)


@wrong("05.tours_by_the_batch", "W is transposed")
def walk_transposed(cities, W):
    return _go(cities, W.T, _own)


@wrong("05.tours_by_the_batch", "over visited cities, too")
def walk_mask_after(cities, W):
    return _go(cities, W, _own, add=_over_all)


@wrong("05.tours_by_the_batch", "expected the sum")
def walk_mean(cities, W):
    tours, log_p = _go(cities, W, _own)
    return tours, log_p / (cities.shape[1] - 1)


@wrong("05.tours_by_the_batch", "the probabilities are added up")
def walk_probabilities(cities, W):
    return _go(cities, W, _own, add=lambda steps, city: steps.max(-1).values.exp())


@wrong("05.tours_by_the_batch", "expected (tours, log_p)")
def walk_turned_round(cities, W):
    return _go(cities, W, _own)[::-1]
