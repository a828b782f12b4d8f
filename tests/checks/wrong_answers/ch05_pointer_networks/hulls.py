import itertools

import torch

from ..collection import wrong


def _cross(u, v):
    return u[..., 0] * v[..., 1] - u[..., 1] * v[..., 0]


@wrong("05.left_of", "right instead of left")
def right_of(a, b, c):
    return _cross(b - a, c - a) < 0


@wrong("05.left_of", "a point on the line counts as left")
def or_on_it(a, b, c):
    return _cross(b - a, c - a) >= 0


@wrong("05.left_of", "that is the dot product")
def dot_product(a, b, c):
    return ((b - a) * (c - a)).sum(-1) > 0


@wrong("05.left_of", "that of b and c themselves")
def from_the_origin(a, b, c):
    return _cross(b, c) + 0 * a[..., 0] > 0


@wrong("05.left_of", "the dtype is float32, expected bool")
def the_number(a, b, c):
    return _cross(b - a, c - a)


@wrong("05.left_of", "only the heights are compared")
def higher(a, b, c):
    return c[..., 1] > a[..., 1] + 0 * b[..., 1]


def _coded(walks, n, end=None, padding=-1, front=False):
    width = max(map(len, walks)) + 1
    rows = []
    for walk in walks:
        said = [*walk, n if end is None else end(walk)]
        rest = [padding] * (width - len(said))
        rows.append(rest + said if front else said + rest)
    return torch.tensor(rows)


@wrong("05.code_answers", "END is n − 1")
def last_point(walks, n):
    return _coded(walks, n, lambda walk: n - 1)


@wrong("05.code_answers", "END is the length of the walk")
def own_length(walks, n):
    return _coded(walks, n, len)


@wrong("05.code_answers", "END is the highest position in the walks + 1")
def behind_the_highest(walks, n):
    return _coded(walks, n, lambda walk: max(map(max, walks)) + 1)


@wrong("05.code_answers", "END is one more than the highest position of its walk")
def behind_its_own_highest(walks, n):
    return _coded(walks, n, lambda walk: max(walk) + 1)


@wrong("05.code_answers", "padding is 0, and 0 is the first point")
def zeros_behind(walks, n):
    return _coded(walks, n, padding=0)


@wrong("05.code_answers", "padding is END")
def ends_behind(walks, n):
    return _coded(walks, n, padding=n)


@wrong("05.code_answers", "nobody learns when to stop")
def never_ends(walks, n):
    return _coded(walks, n, lambda walk: -1)


@wrong("05.code_answers", "the padding stands in front of the walk")
def padded_in_front(walks, n):
    return _coded(walks, n, front=True)


@wrong("05.code_answers", "has no room for END")
def no_room(walks, n):
    return _coded(walks, n)[:, :-1]


@wrong("05.code_answers", "the rows are n + 1")
def widest(walks, n):
    made = _coded(walks, n)
    return torch.cat([made, made.new_full((len(walks), n + 1 - made.shape[1]), -1)], 1)


@wrong("05.code_answers", "a list came back, expected a torch.Tensor")
def lists(walks, n):
    return _coded(walks, n).tolist()


def _area(points, walk):
    x, y = points[walk].unbind(1)
    return (x * y.roll(-1) - x.roll(-1) * y).sum() / 2


def _turned(walk):
    k = walk.index(min(walk))
    return walk[k:] + walk[:k]


@wrong("05.canonical_walk", "the positions are sorted")
def sorted_positions(points, walk):
    return sorted(walk)


@wrong("05.canonical_walk", "the walk runs clockwise")
def only_turned(points, walk):
    return _turned(walk)


@wrong("05.canonical_walk", "the walk runs clockwise")
def clockwise(points, walk):
    return _turned(walk if _area(points, walk) < 0 else walk[::-1])


@wrong("05.canonical_walk", "the walk is always turned round")
def always_reversed(points, walk):
    return _turned(walk[::-1])


@wrong("05.canonical_walk", "the area lacks the edge from the last corner back to the first")
def area_without_its_closing_term(points, walk):
    x, y = points[walk].unbind(1)
    return _turned(walk if (x[:-1] * y[1:] - x[1:] * y[:-1]).sum() > 0 else walk[::-1])


@wrong("05.canonical_walk", "chosen by the indices")
def by_the_indices(points, walk):
    walk = _turned(walk)
    return walk if walk[1] < walk[-1] else _turned(walk[::-1])


@wrong("05.canonical_walk", "now the lowest index comes last")
def turned_too_early(points, walk):
    walk = _turned(walk)
    return walk if _area(points, walk) > 0 else walk[::-1]


@wrong("05.canonical_walk", "starts at the leftmost point")
def leftmost(points, walk):
    walk = walk if _area(points, walk) > 0 else walk[::-1]
    k = int(points[walk][:, 0].argmin())
    return walk[k:] + walk[:k]


@wrong("05.canonical_walk", "changes its argument walk in place")
def in_place(points, walk):
    if _area(points, walk) < 0:
        walk.reverse()
    return _turned(walk)


def _order(points, triangles, weigh, key=lambda centre: tuple(centre.tolist()), down=False):
    made = []
    for t in triangles:
        t = tuple(sorted(t))
        a, b, c = points[list(t)]
        w = weigh(torch.stack([(b - c).norm(), (c - a).norm(), (a - b).norm()]))
        made.append((key((w[:, None] * torch.stack([a, b, c])).sum(0) / w.sum()), t))
    return [t for _, t in sorted(made, reverse=down)]


@wrong("05.triangle_order", "by their centroids")
def by_centroid(points, triangles):
    return _order(points, triangles, torch.ones_like)


@wrong("05.triangle_order", "a side that meets it")
def adjacent_side(points, triangles):
    return _order(points, triangles, lambda w: w.roll(1))


@wrong("05.triangle_order", "by squared lengths")
def squared(points, triangles):
    return _order(points, triangles, torch.square)


@wrong("05.triangle_order", "by the second coordinate")
def second_first(points, triangles):
    return _order(points, triangles, lambda w: w, lambda centre: tuple(centre.tolist()[::-1]))


@wrong("05.triangle_order", "two incentres have the same first coordinate")
def first_coordinate_alone(points, triangles):
    return _order(points, triangles, lambda w: w, lambda centre: float(centre[0]))


@wrong("05.triangle_order", "the order is turned round")
def from_the_right(points, triangles):
    return _order(points, triangles, lambda w: w, down=True)


@wrong("05.triangle_order", "does not ascend")
def as_they_came(points, triangles):
    right = _order(points, triangles, lambda w: w)
    given = {tuple(sorted(t)): t for t in triangles}
    return [given[t] for t in right]


@wrong("05.triangle_order", "ordered by their positions")
def by_positions(points, triangles):
    return sorted(tuple(sorted(t)) for t in triangles)


@wrong("05.triangle_order", "8 triangles came back")
def one_lost(points, triangles):
    return _order(points, triangles, lambda w: w)[1:]


def _crossing(points, walk, closing=True, touching=False):
    m = len(walk)
    edges = [(walk[k], walk[(k + 1) % m]) for k in range(m if closing else m - 1)]
    for (i, j), (k, l) in itertools.combinations(edges, 2):
        if {i, j} & {k, l}:
            if touching:
                return True
            continue
        p, q, r, s = points[[i, j, k, l]]
        if (
            _cross(q - p, r - p) * _cross(q - p, s - p) < 0
            and _cross(s - r, p - r) * _cross(s - r, q - r) < 0
        ):
            return True
    return False


def _share(points, walk, truth):
    return float(_area(points, walk).abs() / _area(points, truth).abs())


@wrong("05.coverage", "covers nothing that counts: expected 0")
def whatever_it_crosses(points, walk, truth):
    return _share(points, walk, truth) if len(walk) > 2 else 0.0


@wrong("05.coverage", "the sign is still on it")
def signed(points, walk, truth):
    if len(walk) < 3 or _crossing(points, walk):
        return 0.0
    return float(_area(points, walk) / _area(points, truth))


@wrong("05.coverage", "that is the area, not its share")
def area_alone(points, walk, truth):
    return 0.0 if len(walk) < 3 or _crossing(points, walk) else float(_area(points, walk).abs())


@wrong("05.coverage", "the edge back to the first corner is missing in the sum")
def open_sum(points, walk, truth):
    if len(walk) < 3 or _crossing(points, walk):
        return 0.0
    x, y = points[walk].unbind(1)
    return float((x[:-1] * y[1:] - x[1:] * y[:-1]).sum().abs() / 2 / _area(points, truth).abs())


@wrong(
    "05.coverage",
    "a walk whose way back to its first corner crosses it: a walk that crosses itself covers "
    "nothing",
)
def crossing_without_the_way_back(points, walk, truth):
    return (
        0.0
        if len(walk) < 3 or _crossing(points, walk, closing=False)
        else _share(points, walk, truth)
    )


@wrong(
    "05.coverage",
    "a walk whose first and fourth edge cross: a walk that crosses itself covers nothing",
)
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


@wrong("05.coverage", "neighbouring edges share a corner")
def neighbours_cross(points, walk, truth):
    return (
        0.0
        if len(walk) < 3 or _crossing(points, walk, touching=True)
        else _share(points, walk, truth)
    )


@wrong("05.coverage", "the shares are turned round")
def turned_round(points, walk, truth):
    return 0.0 if len(walk) < 3 or _crossing(points, walk) else 1 / _share(points, walk, truth)
