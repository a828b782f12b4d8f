"""What a pull is worth: Gittins' index by calibration, and the best policy of a small bandit."""

from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor

from ...validate import check_integer

RENTS = 200  # that are tried: for ten pulls the index errs by less than 0.0005


def _root(rates: Tensor, worth: Tensor) -> Tensor:
    """Where a convex, falling function of the rate, ``worth (G, …)`` at ``rates (G,)``, becomes 0.

    It is extended along the line through its last two positive values, which for a convex function
    gives too low a rate, by less than one step of the grid."""
    last = (worth > 0).sum(0) - 1  # worth is decreasing: the positive values come first
    at = last.clamp(min=1)
    v1, v0 = worth.gather(0, at[None])[0], worth.gather(0, at[None] - 1)[0]
    step = rates[1] - rates[0]
    root = rates[at] + v1 * step / (v0 - v1).clamp(min=torch.finfo(worth.dtype).tiny)
    return torch.minimum(root, rates[at] + step).clamp(max=1.0)


def finite_horizon_index(pulls: int) -> Tensor:
    """Gittins' index of a Bernoulli arm for every number of pulls that are left.

    The alternative to the arm is to stop; each pull costs a rent λ. With
    ``p = (s + 1)/(s + f + 2)``,

    ``W_λ(m, s, f) = max(0, p − λ + p W_λ(m − 1, s + 1, f) + (1 − p) W_λ(m − 1, s, f + 1))``,
    ``W_λ(0, ·) = 0``,

    and the index is the highest rent at which a start is worth anything:
    ``sup{λ : W_λ(m, s, f) > 0}``. It equals the highest reward per pull over all stopping rules
    within m pulls, ``sup_τ E[Σ_{t<τ} r_t] / E[τ]``. With one pull left it is p.

    Args:
        pulls: N, at most 200, as the table grows with N³; entries with ``s + f + m ≤ N`` are
            filled, the others are −1.

    Returns:
        ``(N + 1, N + 1, N + 1)`` float64 by pulls left m, wins s and losses f.

    Source: Gittins 1979; for a finite horizon Niño-Mora 2011.
    """
    check_integer("pulls", pulls, 1, 200)
    n = pulls + 1
    index = torch.full((n, n, n), -1.0, dtype=torch.float64)
    wins, losses = torch.arange(n)[:, None], torch.arange(n)[None, :]
    p = ((wins + 1) / (wins + losses + 2)).float()
    rates = torch.linspace(0, 1, RENTS)
    gain = p - rates[:, None, None]
    worth = torch.zeros(RENTS, n, n)
    for left in range(1, n):
        size = n - left  # wins and losses up to N − left
        lost, won = worth[:, :size, 1 : size + 1], worth[:, 1 : size + 1, :size]
        worth = torch.lerp(lost, won, p[:size, :size]) if left > 1 else worth[:, 1:, 1:]
        worth = worth.add(gain[:, :size, :size]).clamp_(min=0)
        seen = wins[:size] + losses[:, :size] <= pulls - left
        index[left, :size, :size] = torch.where(seen, _root(rates, worth), -1.0).double()
    return index


def bayes_value(
    arms: int, pulls: int, choose: Callable[[tuple[tuple[int, int], ...], int], int] | None = None
) -> float:
    """The expected reward of N pulls, exactly: of the best policy, or of one that is given.

    ``V(m, c) = max_k { p_k + p_k V(m − 1, c + win at k) + (1 − p_k) V(m − 1, c + loss at k) }``
    over the counts c of all arms.

    Args:
        arms, pulls: K and N. Arms are exchangeable, so that states are sorted counts;
            still, the number of states grows fast: N = 10 with K = 5 takes a second or so.
        choose: ``choose(counts, left) -> arm`` from the sorted pairs (wins, losses); None for the
            best choice.
    """
    check_integer("arms", arms)
    check_integer("pulls", pulls, 0)

    @cache
    def value(counts, left):
        if left == 0:
            return 0.0
        if choose is not None:
            return pull(counts, left, choose(counts, left))
        different = (k for k in range(arms) if k == 0 or counts[k] != counts[k - 1])
        return max(pull(counts, left, arm) for arm in different)

    def pull(counts, left, arm):
        wins, losses = counts[arm]
        p = (wins + 1) / (wins + losses + 2)
        rest = counts[:arm] + counts[arm + 1 :]
        after = (wins + 1, losses), (wins, losses + 1)
        won, lost = (tuple(sorted((*rest, pair))) for pair in after)
        return p * (1 + value(won, left - 1)) + (1 - p) * value(lost, left - 1)

    return value(((0, 0),) * arms, pulls)
