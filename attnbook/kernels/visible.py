"""Who may attend to whom, without the m×n matrix where a rule says it; and what is hidden has no
influence, not even by a NaN.

A reading has m queries and n keys. What it may see is said by a boolean mask, True = may attend,
which may be as small as ``(…, 1, n)`` for padding; by causality, under which the queries are the
last m of the n positions and see themselves and what stands before; by a window, which is causality
with an end; or by both a mask and a rule.

A weight of 0 does not suffice to hide a number: 0 · NaN and 0 · ∞ are NaN, in the weighted sum and
in the gradients. So rows that hold a number that is not finite are set to zero before anything is
computed with them, and afterwards the queries that see one of them, or are such a row and see
anything, get NaN, as a constant. A query that may attend to nothing gets zeros.

A row of queries or keys so long that its square would overflow, or nearly, counts as such a row,
since a projection of it or its product with itself may not be finite; and so does a row of values
with a millionth of the largest number in it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from ..validate import is_readable
from .precision import wide_dtype

__all__ = [
    "ALL_BEFORE",
    "Nonfinite",
    "Visible",
    "assume_finite",
    "band_mask",
    "is_finite",
    "join_nonfinite",
    "restore_nonfinite",
    "restore_nonfinite_recurrent",
    "zero_masked_nonfinite",
    "zero_nonfinite",
    "zero_nonfinite_gate",
    "zero_nonfinite_query",
    "zero_nonfinite_state",
]

ALL_BEFORE = 2**62  # the reach of causality alone


class Visible:
    """What m queries see of n keys: what the mask allows and, with a reach, what is near enough.

    Args:
        mask: boolean, broadcastable to ``(…, m, n)`` and of two dimensions at least; None: all.
        reach: None, or r: query t, at the place ``i = t + (n − m)``, sees ``i − r < j ≤ i``.
            :data:`ALL_BEFORE` is causality without a window.
        first: with a reach, so many first keys are seen from any distance after them.
    """

    __slots__ = ("_nonempty", "first", "mask", "reach")

    def __init__(
        self, mask: Tensor | None = None, reach: int | None = None, first: int = 0
    ) -> None:
        self.mask, self.reach, self.first = mask, reach, first

    def matrix(self, m: int, n: int, device: torch.device) -> Tensor | None:
        """As one boolean mask broadcastable to ``(…, m, n)``, or None: everything."""
        return self.block(slice(0, m), slice(0, n), m, n, device)

    def block(
        self, rows: slice, columns: slice, m: int, n: int, device: torch.device
    ) -> Tensor | None:
        """The part of :meth:`matrix` for some queries and some keys."""
        mask = self.mask
        if mask is not None:
            mask = mask if mask.shape[-2] == 1 else mask[..., rows, :]
            mask = mask if mask.shape[-1] == 1 else mask[..., columns]
        if self.reach is None or m == 1 and self.reach >= n:
            return mask
        near = band_mask(rows, columns, n - m, self.reach, device, self.first)
        return near if mask is None else mask & near

    def reached(self, rows: slice, m: int, n: int) -> slice:
        """Keys outside of which no query of these rows sees any: of few lengths, as buffers of one
        size follow one another in the same memory.
        """
        if self.reach is None:
            return slice(0, n)
        start = 0 if self.first else max(0, rows.start + n - m - self.reach + 1)
        step = -(-n // 8)
        return slice(start, min(n, -(-(rows.stop + n - m) // step) * step))

    def for_heads(self, leading: int) -> Visible:
        """The same in all heads ``(…, h, m, n)``, of a problem of so many leading dimensions."""
        mask = self.mask
        if mask is not None and 3 <= mask.dim() <= leading + 2:
            return Visible(mask.unsqueeze(-3), self.reach, self.first)
        return self

    def rows(self, m: int, n: int, positions: Tensor | None = None) -> Tensor | None:
        """Which queries see any of these ``positions (…, n)``, a boolean tensor, or any at all:
        ``(…, m)``, or ``(…, 1)`` where it is the same for all queries.

        None where it is known that all see something: without a mask, and on a CPU, where a look at
        the mask costs little and saves a pass over the context. A GPU would have to wait.
        """
        if positions is not None:
            return self._rows(m, n, positions)
        if not hasattr(self, "_nonempty"):
            rows = None if self.mask is None else self._rows(m, n, None)
            if rows is not None and is_readable(rows) and rows.all():
                rows = None
            self._nonempty = rows
        return self._nonempty

    def _rows(self, m: int, n: int, positions: Any) -> Tensor:
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
        valid: Any = None if mask is None else mask.squeeze(-2)  # (…, n)
        if positions is not None:
            valid = positions if valid is None else valid & positions
        number = valid.expand(*valid.shape[:-1], n).cumsum(-1)  # up to each key, it included
        within = number[..., n - m :]
        if reach < n:  # without those before the window, but for the first
            last = torch.arange(n - m, n, device=valid.device) - reach
            before = number.index_select(-1, last.clamp(min=0))
            if self.first:
                before = before - number.index_select(-1, last.clamp(0, self.first - 1))
            within = within - before * (last >= 0)
        return within > 0


def band_mask(
    rows: slice, columns: slice, ahead: int, reach: int, device: torch.device, first: int = 0
) -> Tensor:
    """``(rows, columns)``: which keys query t at the place ``i = t + ahead`` reaches,
    ``j ≤ i`` and, but for the first, ``i − reach < j``.
    """
    i = torch.arange(rows.start, rows.stop, device=device).unsqueeze(-1) + ahead
    j = torch.arange(columns.start, columns.stop, device=device)
    if reach >= rows.stop + ahead:
        return j <= i
    near = j > i - reach
    return (j <= i) & (near | (j < first) if first else near)


class Nonfinite(NamedTuple):
    """Which rows were set to zero, as a number in them is not finite: ``query (…, m)``,
    ``source (…, n)``, boolean.
    """

    query: Tensor
    source: Tensor


_LARGEST_SQUARE = {t: 1e-6 * torch.finfo(t).max for t in (torch.float32, torch.float64)}
"""From which on the square of a row counts as not finite."""
_NOW = -1  # of a tensor without a graph: that it is finite is known in one call, and not after


def is_finite(tensor: Tensor, longest: Tensor | None = None) -> bool:
    """Whether a tensor holds finite numbers alone, of which none is so large that its square would
    overflow, and no row is longer than ``longest``: one pass over it, and a look.

    A result of autograd that is read at every step is looked at once: it notes the version of
    itself that was found finite. Any other tensor may share its memory with an array that changes
    without a new version.
    """
    version = _NOW if tensor.grad_fn is None else tensor._version
    if longest is None and getattr(tensor, "_finite_version", None) == version:
        return True
    plain = tensor.detach() if tensor.requires_grad else tensor
    if (most := _LARGEST_SQUARE.get(plain.dtype)) is not None:
        flat = plain.reshape(-1)
        total = flat.dot(flat).item()
    else:  # half precision, whose squares overflow
        most = _LARGEST_SQUARE[torch.float32]
        total = torch.linalg.vector_norm(plain, dtype=torch.float32).item() ** 2
    finite = math.isfinite(total) and total < most
    if longest is not None:
        return finite and total < longest.item() ** 2
    if finite and version is not _NOW:
        tensor._finite_version = version  # type: ignore[attr-defined]
    return finite


def _longest_row(module: nn.Module) -> Tensor | None:
    """How long a row may be that float16 takes through the matrices of a module: what is longer
    could leave its range there, although it is finite itself. None without matrices.
    """
    matrices = [p.detach() for p in module.parameters() if p.dim() >= 2]
    if not matrices:
        return None
    most = [torch.linalg.vector_norm(w, dim=-1, dtype=wide_dtype(w)).amax() for w in matrices]
    return 0.5 * torch.finfo(torch.float16).max / torch.stack(most).amax().clamp(min=1.0)


class assume_finite:  # noqa: N801 - a context
    """While what stands inside runs, this tensor is known to be finite, where ``found`` says so."""

    def __init__(self, tensor: Tensor, found: bool) -> None:
        self.tensor: Any = tensor if found and tensor.grad_fn is None else None

    def __enter__(self) -> None:
        if self.tensor is not None:
            self.tensor._finite_version = _NOW

    def __exit__(self, *_: object) -> None:
        if self.tensor is not None:
            self.tensor.__dict__.pop("_finite_version", None)


def zero_nonfinite(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    module: nn.Module | None = None,
    *,
    projects_value: bool = True,
) -> tuple[Tensor, Tensor, Tensor, Nonfinite | None]:
    """``(…, m, d_q)``, ``(…, n, d_k)``, ``(…, n, d_v)`` with zeros in the rows that are not finite,
    and which these are; None where it is known that there is none, which takes a look.

    Args:
        module: the one whose matrices these rows go through. Not finite is then, in float16, also
            what may overflow there. Other dtypes end far beyond what counts as infinite anyway.
        projects_value: whether the values go through them, too.
    """
    dtype, kind = query.dtype, query.device.type
    if kind != "meta" and torch.is_autocast_enabled(kind):
        dtype = torch.get_autocast_dtype(kind)
    longest = _longest_row(module) if module is not None and dtype == torch.float16 else None
    longest_value = longest if projects_value else None
    if (
        is_readable(query)
        and is_finite(query, longest)
        and (key is query or (is_readable(key) and is_finite(key, longest)))
        and (value is key or is_finite(value, longest_value))
    ):
        return query, key, value, None
    finite, same_value, same_key = _is_short(query, longest), value is key, key is query
    nonfinite = ~finite.squeeze(-1)
    query = query.where(finite, 0.0)
    if same_key and same_value:
        return query, query, query, Nonfinite(nonfinite, nonfinite)
    finite_key = finite if same_key else _is_short(key, longest)
    finite_value = finite_key if same_value else _is_small(value)
    if longest_value is not None and not same_value:
        finite_value = finite_value & _is_short(value, longest_value)
    key = query if same_key else key.where(finite_key, 0.0)
    value = key if same_value else value.where(finite_value, 0.0)
    return query, key, value, Nonfinite(nonfinite, ~(finite_key & finite_value).squeeze(-1))


def zero_nonfinite_query(
    query: Tensor, source: Any, module: nn.Module | None = None
) -> tuple[Tensor, Nonfinite | None]:
    """The same for queries of a source that is projected already, and knows which of its positions
    are ``nonfinite``.
    """
    query, _, _, found = zero_nonfinite(query, query, query, module)
    if found is None and source.nonfinite is None:
        return query, None
    rows = query.new_zeros(query.shape[:-1], dtype=torch.bool) if found is None else found.query
    return query, Nonfinite(rows, source.nonfinite_rows())


def join_nonfinite(source: Any, more: Any) -> Tensor | None:
    """Which positions of a source and of what goes on after it are ``nonfinite``; None: none."""
    if source.nonfinite is None and more.nonfinite is None:
        return None
    return torch.cat([source.nonfinite_rows(), more.nonfinite_rows()], dim=-1)


def _is_short(rows: Tensor, longest: Tensor | None = None) -> Tensor:
    """Which rows ``(…, n, d)`` are finite, and not too long: ``(…, n, 1)``."""
    rows = rows.detach()
    wide = wide_dtype(rows)
    length = torch.linalg.vector_norm(rows, dim=-1, keepdim=True, dtype=wide)
    return length < (math.sqrt(_LARGEST_SQUARE[wide]) if longest is None else longest)


def _is_small(rows: Tensor) -> Tensor:
    """The same of values, which meet no others: their sums are to be finite, too."""
    wide = rows.detach().to(wide_dtype(rows))
    return (wide * 1e6).isfinite().all(-1, keepdim=True)


def restore_nonfinite(
    context: Tensor,
    weights: Tensor | None,
    nonfinite: Nonfinite | None,
    sees: Callable[[Tensor | None], Tensor | None],
    *,
    clear: bool = False,
    heads: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """The context ``(…, m, d)`` and the weights ``(…, m, n)`` of a reading whose rows were
    :func:`zero_nonfinite`.

    Args:
        sees: which queries see any of some positions ``(…, n)``, or anything at all (None), as
            :meth:`~attnbook.kernels.visible.Visible.rows` says.
        clear: whether the context of a query that sees nothing is yet to be set to zero.
        heads: whether the weights are ``(…, h, m, n)``, and ``sees`` takes and gives a dimension of
            heads, ``(…, 1, n)`` and ``(…, h, m)`` or ``(m,)``: what any head sees is seen.
    """

    def any_head(rows: Tensor) -> Tensor:
        return (rows.any(-2) if heads and rows.dim() > 1 else rows).unsqueeze(-1)

    if nonfinite is None and not clear:
        return context, weights
    some = sees(None)
    if clear and some is not None:
        context = context.masked_fill(~any_head(some), 0.0)
    if nonfinite is None:
        return context, weights
    query, source = (t.unsqueeze(-2) for t in nonfinite) if heads else nonfinite
    met = sees(source)
    query = query if some is None else query & some
    met = query if met is None else met | query
    context = context.masked_fill(any_head(met), math.nan)
    if weights is not None:  # what is hidden keeps its weight, 0
        weights = weights.masked_fill(met.unsqueeze(-1) & (weights != 0), math.nan)
    return context, weights


def zero_nonfinite_state(
    x: Tensor, state: Tensor | None, *, heads: bool = True
) -> tuple[Any, Tensor | None]:
    """A state ``(…, h, d_k, d_v)`` of texts, without heads ``(…, d_k, d_v)``, with zeros for those
    that are not finite, and which texts these are, ``(…, 1)``; None where it is known that there
    are none.
    """
    if state is None or (is_readable(x) and is_readable(state) and is_finite(state)):
        return state, None
    finite = state.isfinite().flatten(-3 if heads else -2).all(-1, keepdim=True)
    return state.where(finite[(..., *(None,) * (1 + heads))], 0.0), ~finite


def zero_nonfinite_gate(
    gate: Tensor | None, nonfinite: Nonfinite | None, n: int, *, least: float, most: float
) -> tuple[Tensor | None, Nonfinite | None]:
    """A gate ``(…, n or 1, d)`` of n rows with zeros for those that do not lie between the two, and
    these rows among the nonfinite ones of the source.
    """
    if gate is None or (is_readable(gate) and is_finite(gate)):
        return gate, nonfinite
    finite = ((gate >= least) & (gate <= most)).all(-1, keepdim=True)
    rows = ~finite.squeeze(-1).expand(*finite.shape[:-2], n)
    query, source = (rows & False, rows) if nonfinite is None else nonfinite
    return gate.where(finite, 0.0), Nonfinite(query, source | rows)


def restore_nonfinite_recurrent(
    context: Tensor,
    state: Tensor,
    nonfinite: Nonfinite | None,
    lost: Tensor | None,
    valid: Tensor | None,
    *,
    heads: bool = True,
) -> tuple[Tensor, Tensor]:
    """The context ``(…, n, d)`` and the state of texts that are read from left to right, whose rows
    were :func:`zero_nonfinite`, and their states: what is ``valid (…, n)`` and not finite is in all
    that follows, and in the state.
    """
    if nonfinite is None and lost is None:
        return context, state
    met: Any = lost
    source: Any = lost
    if nonfinite is not None:
        query, source = nonfinite
        if valid is not None:
            query, source = query & valid, source & valid
        met = query | (source.cumsum(-1) > 0)
        if lost is not None:
            met, source = met | lost, source | lost
    if valid is not None:
        met = met & valid
    forever = source.any(-1)[(..., *(None,) * (2 + heads))]
    return context.masked_fill(met.unsqueeze(-1), math.nan), state.masked_fill(forever, math.nan)


def zero_masked_nonfinite(x: Tensor, mask: Tensor) -> Tensor:
    """x ``(…, n, d)`` with zeros for numbers that are not finite at positions that no query of a
    mask ``(…, m, n)``, or one with a dimension of heads, may see: for a stack of layers, whose
    positions meet inside.
    """
    if is_readable(x) and is_finite(x):
        return x
    seen = torch.atleast_2d(mask).any(-2)
    if seen.dim() >= x.dim():
        seen = seen.any(-2)  # by any head
    return x.where(x.isfinite() | seen.unsqueeze(-1), 0.0)
