import torch

from .collection import wrong


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


@wrong("05.two_opt_gain", "t_i included")
def turns_city_i_as_well(matrix, tour, i, j):
    return _length(matrix.tolist(), tour) - _length(matrix.tolist(), tour[:i] + tour[i:j + 1][::-1] + tour[j + 1:])


@wrong("05.two_opt_gain", "only the old edges are counted")
def old_edges(matrix, tour, i, j):
    d, a, b, c, e = _edges(matrix, tour, i, j)
    return d[a][b] + d[c][e]


@wrong("05.two_opt_gain", "no city stands at place j + 1")
def behind_the_end(matrix, tour, i, j):
    d = matrix.tolist()
    return d[tour[i]][tour[i + 1]] + d[tour[j]][tour[j + 1]] - d[tour[i]][tour[j]] - d[tour[i + 1]][tour[j + 1]]


@wrong("05.two_opt_gain", "the way back is missing")
def open_at_the_end(matrix, tour, i, j):
    d, a, b, c, e = _edges(matrix, tour, i, j)
    return d[a][b] - d[a][c] if j == len(tour) - 1 else d[a][b] + d[c][e] - d[a][c] - d[b][e]


@wrong("05.two_opt_gain", "the length of the new tour")
def new_length(matrix, tour, i, j):
    return _length(matrix.tolist(), tour[:i + 1] + tour[i + 1:j + 1][::-1] + tour[j + 1:])


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
    return min(table[cities - {j}, i] + float(matrix[i, j] + matrix[j, 0]) for i in _before(cities, j))


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
    return _best(total[:, None] + log_p.masked_fill(visited, -torch.inf).log_softmax(1), log_p.shape[1])


@wrong("05.beam_of_tours", "parent and city have changed places")
def changed_places_of_parts(total, log_p, visited):
    total, parent, city = _best(total[:, None] + log_p.masked_fill(visited, -torch.inf), log_p.shape[1])
    return total, city, parent


@wrong("05.beam_of_tours", "divide by n")
def divided_by_k(total, log_p, visited):
    total, index = (total[:, None] + log_p.masked_fill(visited, -torch.inf)).flatten().topk(len(total))
    return total, index // len(total), index % len(total)


@wrong("05.beam_of_tours", "probabilities are added")
def probabilities(total, log_p, visited):
    return _best(total.exp()[:, None] + log_p.exp().masked_fill(visited, -torch.inf), log_p.shape[1])


@wrong("05.beam_of_tours", "a large negative number is no −∞")
def large_number(total, log_p, visited):
    return _best(total[:, None] + log_p.masked_fill(visited, -1e9), log_p.shape[1])


@wrong("05.beam_of_tours", "the totals are those before the step")
def totals_of_before(total, log_p, visited):
    _, parent, city = _best(total[:, None] + log_p.masked_fill(visited, -torch.inf), log_p.shape[1])
    return total[parent], parent, city
