"""Who may attend to whom, without the m×n matrix where a rule says it.

A reading has m queries and n keys. What it may see is said by a boolean mask, True = may attend,
which may be as small as ``(…, 1, n)`` for padding; by causality, under which the queries are the
last m of the n positions and see themselves and what stands before; by a window, which is causality
with an end; or by both a mask and a rule.
"""

from __future__ import annotations

from typing import Any

import torch

from ..validate import may_look

__all__ = ["ALL_BEFORE", "Visible", "within_reach"]

ALL_BEFORE = 2**62  # the reach of causality alone


class Visible:
    """What m queries see of n keys: what the mask allows and, with a reach, what is near enough.

    Args:
        mask: boolean, broadcastable to ``(…, m, n)`` and of two dimensions at least; None: all.
        reach: None, or r: query t, at the place ``i = t + (n − m)``, sees ``i − r < j ≤ i``.
            :data:`ALL_BEFORE` is causality without a window.
    """

    __slots__ = ("_seeing", "mask", "reach")

    def __init__(self, mask: torch.Tensor | None = None, reach: int | None = None) -> None:
        self.mask, self.reach = mask, reach

    def matrix(self, m: int, n: int, device: torch.device) -> torch.Tensor | None:
        """As one boolean mask broadcastable to ``(…, m, n)``, or None: everything."""
        return self.block(slice(0, m), slice(0, n), m, n, device)

    def block(
        self, rows: slice, columns: slice, m: int, n: int, device: torch.device
    ) -> torch.Tensor | None:
        """The part of :meth:`matrix` for some queries and some keys."""
        mask = self.mask
        if mask is not None:
            mask = mask if mask.shape[-2] == 1 else mask[..., rows, :]
            mask = mask if mask.shape[-1] == 1 else mask[..., columns]
        if self.reach is None or m == 1 and self.reach >= n:
            return mask
        near = within_reach(rows, columns, n - m, self.reach, device)
        return near if mask is None else mask & near

    def reached(self, rows: slice, m: int, n: int) -> slice:
        """The keys outside of which no query of these rows sees any."""
        if self.reach is None:
            return slice(0, n)
        return slice(max(0, rows.start + n - m - self.reach + 1), rows.stop + n - m)

    def for_heads(self, leading: int) -> Visible:
        """The same in all heads ``(…, h, m, n)``, of a problem of so many leading dimensions."""
        mask = self.mask
        if mask is not None and 3 <= mask.dim() <= leading + 2:
            return Visible(mask.unsqueeze(-3), self.reach)
        return self

    def rows(self, m: int, n: int, positions: torch.Tensor | None = None) -> torch.Tensor | None:
        """Which queries see any of these ``positions (…, n)``, a boolean tensor, or any at all:
        ``(…, m)``, or ``(…, 1)`` where it is the same for all queries.

        None where it is known that all see something: without a mask, and on a CPU, where a look at
        the mask costs little and saves a pass over the context. A GPU would have to wait.
        """
        if positions is not None:
            return self._rows(m, n, positions)
        if not hasattr(self, "_seeing"):
            rows = None if self.mask is None else self._rows(m, n, None)
            self._seeing = rows if rows is None or not (may_look(rows) and rows.all()) else None
        return self._seeing

    def _rows(self, m: int, n: int, positions: Any) -> torch.Tensor:
        mask: Any = self.mask
        reach = self.reach
        if reach is None or (mask is not None and mask.shape[-2] > 1):
            allowed: Any = mask if reach is None else self.matrix(m, n, mask.device)
            if allowed is None:
                return positions.any(-1, keepdim=True)
            if positions is not None:
                allowed = allowed & positions.unsqueeze(-2)
            return allowed.any(-1)
        # a rule, and which keys there are: counted from the first key on
        there: Any = None if mask is None else mask.squeeze(-2)  # (…, n)
        if positions is not None:
            there = positions if there is None else there & positions
        number = there.expand(*there.shape[:-1], n).cumsum(-1)  # up to each key, it included
        within = number[..., n - m :]
        if reach < n:  # without those before the window
            last = torch.arange(n - m, n, device=there.device) - reach
            within = within - number.index_select(-1, last.clamp(min=0)) * (last >= 0)
        return within > 0


def within_reach(
    rows: slice, columns: slice, ahead: int, reach: int, device: torch.device
) -> torch.Tensor:
    """``(rows, columns)``: which keys query t at the place ``i = t + ahead`` reaches,
    ``i − reach < j ≤ i``.
    """
    i = torch.arange(rows.start, rows.stop, device=device).unsqueeze(-1) + ahead
    j = torch.arange(columns.start, columns.stop, device=device)
    return j <= i if reach >= rows.stop + ahead else (j <= i) & (j > i - reach)
