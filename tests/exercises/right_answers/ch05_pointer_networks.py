import itertools
import math

import numpy as np
import torch

from .collection import right


@right("05.sorting_targets")
def sorted_row_by_row(numbers, lengths):
    result = torch.full(numbers.shape, -1)
    for b, size in enumerate(lengths.tolist()):
        result[b, :size] = numbers[b, :size].argsort()
    return result


@right("05.sorting_targets")
def sorted_in_python(numbers, lengths):
    rows = []
    for row, size in zip(numbers.tolist(), lengths.tolist()):
        rows.append(sorted(range(size), key=row.__getitem__) + [-1] * (len(row) - size))
    return torch.tensor(rows)


@right("05.point_at")
def scores_by_loops(e, d, W_1, W_2, v, lengths):
    p = e.new_zeros(e.shape[:2])
    for b, size in enumerate(lengths.tolist()):
        hidden = [v @ torch.tanh(W_1 @ e[b, j] + W_2 @ d[b]) for j in range(size)]
        p[b, :size] = torch.stack(hidden).softmax(0)
    return p


@right("05.point_at")
def scores_by_einsum(e, d, W_1, W_2, v, lengths):
    keys = torch.einsum("ij,bnj->bni", W_1, e)
    hidden = torch.tanh(keys + torch.einsum("ij,bj->bi", W_2, d)[:, None])
    scores = torch.einsum("bni,i->bn", hidden, v)
    real = torch.arange(e.shape[1]).expand(len(e), -1) < lengths[:, None]
    scores = torch.where(real, scores, torch.tensor(-math.inf, dtype=scores.dtype))
    return torch.nn.functional.softmax(scores, dim=1)


@right("05.still_free")
def crossed_off_step_by_step(targets, lengths, n):
    free = torch.zeros(*targets.shape, n, dtype=torch.bool)
    for b, row in enumerate(targets.tolist()):
        left = set(range(int(lengths[b])))
        for step, target in enumerate(row):
            free[b, step, list(left)] = True
            left.discard(target)
    return free


@right("05.still_free")
def compared_with_all_before(targets, lengths, n):
    columns = torch.arange(n)
    hit = targets[:, :, None] == columns
    steps = torch.arange(targets.shape[1])
    before = steps[:, None] > steps
    taken = (before[None, :, :, None] & hit[:, None]).any(2)
    return ~taken & (columns < lengths[:, None])[:, None]


@right("05.pointer_loss")
def loss_one_target_at_a_time(scores, free, targets):
    losses = []
    for b, m in (targets >= 0).nonzero().tolist():
        allowed = scores[b, m][free[b, m]]
        losses.append(torch.logsumexp(allowed, 0) - scores[b, m, targets[b, m]])
    return torch.stack(losses).mean()


@right("05.pointer_loss")
def loss_by_gather(scores, free, targets):
    real = targets >= 0
    log_p = scores.masked_fill(~(free | ~real[..., None]), -torch.inf).log_softmax(-1)
    picked = log_p.gather(-1, targets.clamp(min=0)[..., None])[..., 0]
    return -picked[real].mean()


@right("05.point_greedily")
def with_a_list_of_what_is_left(step, x, start, state):
    left, path, item = list(range(len(x))), [], start
    while left:
        scores, state = step(item, state)
        j = max(left, key=lambda k: float(scores[k]))
        left.remove(j)
        path.append(j)
        item = x[j]
    return path


@right("05.point_greedily")
def by_recursion(step, x, start, state, path=()):
    if len(path) == len(x):
        return list(path)
    scores, state = step(x[path[-1]] if path else start, state)
    scores = scores.clone()
    scores[list(path)] = -torch.inf
    return by_recursion(step, x, start, state, (*path, scores.argmax().item()))


@right("05.left_of")
def left_by_a_determinant(a, b, c):
    return torch.linalg.det(torch.stack(torch.broadcast_tensors(b - a, c - a), -1)) > 0


@right("05.left_of")
def left_by_the_normal(a, b, c):
    along = b - a
    normal = torch.stack([-along[..., 1], along[..., 0]], dim=-1)
    return ((c - a) * normal).sum(-1) > 0


@right("05.canonical_walk")
def turned_by_the_signed_area(points, walk):
    xy = points.tolist()
    around = zip(walk, walk[1:] + walk[:1])
    area = sum(xy[i][0] * xy[j][1] - xy[j][0] * xy[i][1] for i, j in around)
    ordered = list(walk) if area > 0 else list(reversed(walk))
    while ordered[0] != min(ordered):
        ordered.append(ordered.pop(0))
    return ordered


@right("05.canonical_walk")
def sorted_by_the_angle(points, walk):
    corners = points[walk].double()
    towards = corners - corners.mean(0)
    angle = torch.atan2(towards[:, 1], towards[:, 0])
    ordered = [walk[k] for k in angle.argsort().tolist()]
    first = ordered.index(min(ordered))
    return ordered[first:] + ordered[:first]


@right("05.triangle_order")
def incentres_in_numpy(points, triangles):
    xy, found = points.double().numpy(), []
    for triangle in triangles:
        i, j, k = sorted(triangle)
        a, b, c = xy[i], xy[j], xy[k]
        u, v, w = np.linalg.norm(b - c), np.linalg.norm(c - a), np.linalg.norm(a - b)
        found.append(((*((u * a + v * b + w * c) / (u + v + w)),), (i, j, k)))
    return [triple for _, triple in sorted(found)]


@right("05.triangle_order")
def incentres_all_at_once(points, triangles):
    corners = points[torch.tensor(triangles)]
    opposite = (corners.roll(-1, 1) - corners.roll(-2, 1)).norm(dim=-1, keepdim=True)
    centres = (opposite * corners).sum(1) / opposite.sum(1)
    order = sorted(range(len(triangles)), key=lambda t: centres[t].tolist())
    return [tuple(sorted(triangles[t])) for t in order]


@right("05.coverage")
def area_as_a_fan(points, walk, truth):
    def side(a, b, c):
        (ax, ay), (bx, by), (cx, cy) = (points[k].tolist() for k in (a, b, c))
        return (bx - ax) * (cy - ay) - (by - ay) * (cx - ax)

    def area(corners):
        fan = zip(corners[1:], corners[2:])
        return abs(sum(side(corners[0], b, c) for b, c in fan)) / 2

    n = len(walk)
    for i in range(n):
        for j in range(i + 1, n):
            p, q, r, s = walk[i], walk[(i + 1) % n], walk[j], walk[(j + 1) % n]
            if len({p, q, r, s}) < 4:
                continue
            if side(p, q, r) * side(p, q, s) < 0 and side(r, s, p) * side(r, s, q) < 0:
                return 0.0
    return area(walk) / area(truth) if n > 2 else 0.0


@right("05.tour_lengths")
def lengths_edge_by_edge(points, tours):
    rows = []
    for xy, tour in zip(points.tolist(), tours.tolist()):
        rows.append(sum(math.dist(xy[i], xy[j]) for i, j in zip(tour, tour[1:] + tour[:1])))
    return points.new_tensor(rows)


@right("05.tour_lengths")
def lengths_from_a_matrix(points, tours):
    distances = torch.cdist(points, points, compute_mode="donot_use_mm_for_euclid_dist")
    rows = torch.arange(len(points))[:, None]
    return distances[rows, tours, torch.cat([tours[:, 1:], tours[:, :1]], dim=1)].sum(-1)


@right("05.canonical_tour")
def the_smaller_of_two(tour):
    k = tour.index(0)
    forward = [*tour[k:], *tour[:k]]
    backward = [0, *reversed(forward[1:])]
    return min(forward, backward)


@right("05.canonical_tour")
def with_modular_steps(tour):
    n, at = len(tour), tour.index(0)
    way = 1 if tour[(at + 1) % n] < tour[at - 1] else -1
    return [tour[(at + way * k) % n] for k in range(n)]


@right("05.two_opt_gain")
def gain_from_whole_lengths(matrix, tour, i, j):
    def length(walk):
        return sum(float(matrix[p, q]) for p, q in zip(walk, walk[1:] + walk[:1]))

    turned = tour[: i + 1] + list(reversed(tour[i + 1 : j + 1])) + tour[j + 1 :]
    return length(tour) - length(turned)


@right("05.two_opt_gain")
def gain_as_a_tensor_s_item(matrix, tour, i, j):
    ends = torch.tensor([tour[i], tour[j]])
    nexts = torch.tensor([tour[i + 1], tour[j + 1 - len(tour)]])
    out = matrix[ends, nexts].sum()
    into = matrix[ends[0], ends[1]] + matrix[nexts[0], nexts[1]]
    return (out - into).item()


@right("05.table_entry")
def shortest_by_a_loop(table, matrix, cities, j):
    best, before = math.inf, frozenset(city for city in cities if city != j)
    for i in before:
        way = table[(before, i)] + matrix[i][j].item()
        if way < best:
            best = way
    return best


@right("05.beam_of_tours")
def beam_by_sorting(total, log_p, visited):
    k, n = log_p.shape
    scores = [
        (-math.inf if visited[row, city] else float(total[row] + log_p[row, city]), row, city)
        for row, city in itertools.product(range(k), range(n))
    ]
    totals, rows, cities = zip(*sorted(scores, key=lambda one: -one[0])[:k])
    return total.new_tensor(totals), torch.tensor(rows), torch.tensor(cities)


@right("05.beam_of_tours")
def beam_by_unravelling(total, log_p, visited):
    scores = torch.where(visited, -torch.inf, total.unsqueeze(1) + log_p)
    order = scores.reshape(-1).sort(descending=True).indices[: total.numel()]
    rows, cities = torch.unravel_index(order, scores.shape)
    return scores[rows, cities], rows, cities


@right("05.tours_by_the_batch")
def visited_marked_in_place(cities, W):
    batch, n, _ = cities.shape
    visited = torch.zeros(batch, n, dtype=torch.bool)
    city, log_p = torch.zeros(batch, dtype=torch.long), torch.zeros(batch)
    tours, row = [city], torch.arange(batch)
    with torch.no_grad():
        for _ in range(n - 1):
            visited[row, city] = True
            scores = torch.einsum("bd,bnd->bn", cities[row, city] @ W, cities)
            best, city = torch.log_softmax(scores.masked_fill(visited, float("-inf")), -1).max(-1)
            log_p = log_p + best
            tours.append(city)
    return torch.stack(tours, 1), log_p


@right("05.tours_by_the_batch")
def tours_one_by_one(cities, W):
    walks, chances = [], []
    for xy in cities:
        tour, chance = [0], xy.new_zeros(())
        while len(tour) < len(xy):
            left = [k for k in range(len(xy)) if k not in tour]
            log_p = torch.log_softmax(xy[left] @ (xy[tour[-1]] @ W), 0)
            chance = chance + log_p.max()
            tour.append(left[int(log_p.argmax())])
        walks.append(torch.tensor(tour))
        chances.append(chance)
    return torch.stack(walks), torch.stack(chances)


@right("05.table_entry")
def shortest_of_a_sorted_list(table, matrix, cities, j):
    before = frozenset(cities) - frozenset([j])
    return sorted(table[before, i] + float(matrix[i, j]) for i in before)[0]
