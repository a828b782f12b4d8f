"""Tours through cities, many instances at once: the shortest, and short ones by rules of thumb.

A tour is a permutation of 0 … n − 1; the way from its last city back to its first is part of it and
not written. The canonical form starts at city 0, in the direction in which the second city has a
lower index than the last."""

from functools import lru_cache

import torch
from torch import Tensor

from ...validate import check_choice, check_values, check_whole, describe, require
from ..endless_batches import usual_defaults
from .hulls import check_points, check_shape

MOST = 16
"""Cities of an exact tour: the table of one instance has 2ⁿ⁻¹ (n − 1) entries."""

# entries of the table that are worked on at a time: small enough for the processor's cache
_TABLE = 1 << 18


def distances(points: Tensor) -> Tensor:
    """Euclidean distances (B, n, n) in float64, of points (B, n, 2)."""
    check_shape(points)
    xy = points.double()
    return (xy[:, :, None] - xy[:, None]).square().sum(-1).sqrt()


def tour_length(matrix: Tensor, tours: Tensor) -> Tensor:
    """(B,) length of each tour with the way back. matrix (B, n, n) distances, tours (B, n)."""
    rows = torch.arange(len(tours), device=tours.device)[:, None]
    return matrix[rows, tours, tours.roll(-1, 1)].sum(1)


def is_tour(walk, n: int) -> bool:
    """Whether a walk visits each of n cities exactly once."""
    return sorted(walk) == list(range(n))


def canonical(tours: Tensor) -> Tensor:
    """The same tours (B, n) from city 0, in the direction with a second city below the last."""
    n = tours.shape[1]
    place = torch.arange(n, device=tours.device)
    tours = tours.gather(1, (place + tours.argmin(1, keepdim=True)) % n)
    if n < 3:
        return tours
    return torch.where(tours[:, 1:2] > tours[:, -1:], tours[:, (-place) % n], tours)


def taught_tours(points: Tensor, lengths: Tensor | None = None, teacher: str = "exact") -> Tensor:
    """The tour of each row that a teacher gives, canonical: (B, n), −1 as padding.

    Args:
        points: (B, n, 2)
        lengths: (B,) how many of each row are real; all of them if not given
        teacher: one of TEACHERS: only "exact" gives the shortest tours, and only to 16 cities
    """
    check_choice("teacher", teacher, TEACHERS)
    solve, sizes = TEACHERS[teacher], check_points(points, lengths)
    if lengths is None:
        return solve(distances(points))
    tours = torch.full(points.shape[:2], -1, device=points.device)
    for n in sizes.unique().tolist():
        rows = (sizes == n).nonzero()[:, 0]
        tours[rows, :n] = solve(distances(points[rows, :n]))
    return tours


def held_karp(matrix: Tensor) -> Tensor:
    """The shortest tours by dynamic programming over sets of cities, canonical (B, n).

    With C(S, j) the shortest way that starts at city 0, visits the set S once each and ends at j ∈
    S:

        ``C({j}, j) = d(0, j)``,   ``C(S, j) = min over i ∈ S∖j of C(S∖j, i) + d(i, j)``,
        ``length = min over j of C({1 … n − 1}, j) + d(j, 0)``.

    Args:
        matrix: (B, n, n) symmetric distances, n at most 16

    Sets are bit masks, all sets of one size are one step: O(2ⁿ n²) per row, with no loop over rows.

    Source: Held and Karp 1962; Bellman 1962.
    """
    n = matrix.shape[-1]
    square = matrix.dim() == 3 and matrix.shape[1] == n > 0
    require(square, f"matrix must be (batch, n, n) with n >= 1, got {describe(matrix)}")
    came = f"got {n}; two_opt_best takes more"
    require(n <= MOST, f"matrix must have at most {MOST} cities for an exact tour, {came}")
    usual = bool(matrix.isfinite().all()) and torch.equal(matrix, matrix.mT)
    require(usual, "matrix must be finite and symmetric")
    if n <= 3 or len(matrix) == 0:
        return torch.arange(n, device=matrix.device).expand(len(matrix), n).clone()
    rows = max(1, _TABLE // (2 ** (n - 1) * (n - 1)))
    return canonical(torch.cat([_solve(chunk) for chunk in matrix.double().split(rows)]))


@lru_cache(maxsize=MOST)
@usual_defaults()
def _levels(m: int) -> tuple[tuple[tuple[Tensor, Tensor], ...], ...]:
    """For each size of set from 2 to m, for each city j: the sets with j, and those without it."""
    masks = torch.arange(2**m)
    has = [(masks >> j) & 1 == 1 for j in range(m)]
    size = torch.stack(has).sum(0)
    levels = [[masks[(size == k) & has[j]] for j in range(m)] for k in range(2, m + 1)]
    return tuple(tuple((s, s ^ (1 << j)) for j, s in enumerate(level)) for level in levels)


def _solve(matrix: Tensor) -> Tensor:
    B, n, _ = matrix.shape
    m, device = n - 1, matrix.device
    home = matrix[:, 0, 1:]  # (B, m)
    # (m, m, B): rows of the batch last, side by side in memory
    way = matrix[:, 1:, 1:].permute(1, 2, 0).contiguous()
    table = torch.full((2**m, m, B), torch.inf, dtype=matrix.dtype, device=device)
    for j in range(m):
        table[1 << j, j] = home[:, j]
    for level in _levels(m):
        for j, (with_j, without_j) in enumerate(level):
            # infinite for an i that is not in the set
            best = table[without_j.to(device)].add_(way[:, j]).amin(1)
            table[with_j.to(device), j] = best
    # Walk back: which last city, then which before it, explains the length.
    mask = torch.full((B,), 2**m - 1, device=device)
    batch = torch.arange(B, device=device)
    last = (table[-1].T + home).argmin(1)
    walk = [last]
    for _ in range(m - 1):
        mask = mask ^ (1 << last)
        last = (table[mask, :, batch] + matrix[batch, 1 + last, 1:]).argmin(1)
        walk.append(last)
    return torch.nn.functional.pad(1 + torch.stack(walk, 1), (1, 0))  # city 0 comes first


def nearest_neighbour(matrix: Tensor, start: int | Tensor = 0) -> Tensor:
    """Always go to the nearest city not yet visited: tours (B, n) in O(n²).

    start: one city, or one per row (B,), from 0 to n − 1.
    """
    matrix, (B, n, _) = matrix.double(), matrix.shape
    batch = torch.arange(B, device=matrix.device)
    city = check_whole("start", torch.as_tensor(start, device=matrix.device))
    check_values("start", city, 0, n - 1)
    city = city.expand(B)
    left = torch.ones(B, n, dtype=torch.bool, device=matrix.device)
    walk = []
    for _ in range(n):
        walk.append(city)
        left[batch, city] = False
        city = matrix[batch, city].masked_fill(~left, torch.inf).argmin(1)
    return torch.stack(walk, 1)


def farthest_insertion(matrix: Tensor) -> Tensor:
    """Insert the farthest city where it lengthens the tour least, until all are in: (B, n), O(n²).

    Begins with city 0 and the city farthest from it. Source: Rosenkrantz, Stearns and Lewis 1977.
    """
    B, n, _ = matrix.shape
    batch = torch.arange(B, device=matrix.device)
    tour = torch.zeros(B, 1, dtype=torch.long, device=matrix.device)
    # (B, n) distance of each city to its nearest in the tour; below 0: it is in
    to_tour = matrix[:, 0].clone()
    to_tour[:, 0] = -1.0
    for _ in range(n - 1):
        city = to_tour.argmax(1)
        there = matrix[batch[:, None], tour, city[:, None]]  # (B, k)
        edge = matrix[batch[:, None], tour, tour.roll(-1, 1)]
        after = (there + there.roll(-1, 1) - edge).argmin(1, keepdim=True)
        k = torch.arange(tour.shape[1] + 1, device=matrix.device)
        wider = torch.cat([tour, city[:, None]], 1)
        source = torch.where(k <= after, k, torch.where(k == after + 1, tour.shape[1], k - 1))
        tour = wider.gather(1, source)
        to_tour = torch.minimum(to_tour, matrix[batch, city])
        to_tour[batch, city] = -1.0
        to_tour.scatter_(1, tour, -1.0)
    return tour


def two_opt(matrix: Tensor, tours: Tensor) -> Tensor:
    """Exchange two edges as long as that shortens the tour, the best first; all rows in step.

    ``Δ(i, j) = d(tᵢ, tⱼ) + d(tᵢ₊₁, tⱼ₊₁) − d(tᵢ, tᵢ₊₁) − d(tⱼ, tⱼ₊₁)``: the part from i + 1 to j is
    turned round.

    Stops where no exchange gains more than 1e-12 of the tour. A step costs O(n²). Source: Croes
    1958."""
    # in float32 an exchange that changes nothing may seem to gain
    matrix, (B, n, _) = matrix.double(), matrix.shape
    tours = tours.clone()
    if n < 4:
        return tours
    place = torch.arange(n, device=matrix.device)
    # neighbouring edges have nothing between them that could be turned round
    upper = place[None] > place[:, None] + 1
    least = 1e-12 * tour_length(matrix, tours)
    active = torch.arange(B, device=matrix.device)
    while len(active):
        t = tours[active]
        # distances in the tour's order
        step = matrix[active[:, None, None], t[:, :, None], t[:, None, :]]
        edge = step[:, place, (place + 1) % n]
        gain = edge[:, :, None] + edge[:, None] - step - step.roll((-1, -1), (1, 2))
        best, where = gain.masked_fill(~upper, -torch.inf).flatten(1).max(1)
        better = best > least[active]
        active, t, where = active[better], t[better], where[better]
        i, j = (where // n)[:, None], (where % n)[:, None]
        inside = (place > i) & (place <= j)
        tours[active] = t.gather(1, torch.where(inside, i + 1 + j - place, place))
    return tours


def two_opt_best(matrix: Tensor, starts: int | None = None) -> Tensor:
    """The best `two_opt` from farthest insertion and from nearest neighbour at `starts` cities.

    A heuristic without a guarantee; for n up to 16 `held_karp` gives the shortest. starts: all n
    cities if not given."""
    n, best = matrix.shape[1], two_opt(matrix, farthest_insertion(matrix))
    for start in range(n if starts is None else min(starts, n)):
        tour = two_opt(matrix, nearest_neighbour(matrix, start))
        better = tour_length(matrix, tour) < tour_length(matrix, best)
        best = torch.where(better[:, None], tour, best)
    return canonical(best)


TEACHERS = {
    "exact": held_karp,
    "exact to 12, 2-opt beyond": lambda matrix: (
        held_karp(matrix) if matrix.shape[1] <= 12 else two_opt_best(matrix, 4)
    ),
    "2-opt": lambda matrix: two_opt_best(matrix, 1),
    "farthest insertion": lambda matrix: canonical(farthest_insertion(matrix)),
}
"""What gives a network its targets: the shortest tour, or a heuristic that is named."""
