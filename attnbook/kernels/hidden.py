"""A position that a query may not see has no influence on it, not even by a NaN.

A weight of 0 does not suffice for that: 0 · NaN and 0 · ∞ are NaN, in the weighted sum and in the
gradients. So what nobody may see is set to zero before anything is computed with it, and where some
may see a number that is not finite and others may not, they are computed apart.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from ..validate import may_look
from .precision import wide_dtype

__all__ = ["attend_despite", "clear_hidden", "is_finite", "rows_that_see", "without_hidden"]

Attend = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], Any]  # gives an Attended


def is_finite(tensor: torch.Tensor) -> bool:
    """Whether a tensor holds finite numbers alone: one pass over it, and a look.

    A result of autograd that is read at every step is looked at once: it notes the version of
    itself that was found finite. Any other tensor may share its memory with an array that changes
    without a new version.
    """
    version = None if tensor.grad_fn is None else tensor._version
    if version is not None and getattr(tensor, "_finite_version", None) == version:
        return True
    finite = math.isfinite(tensor.detach().sum(dtype=wide_dtype(tensor)).item())
    if finite and version is not None:
        tensor._finite_version = version  # type: ignore[attr-defined]
    return finite


def attend_despite(
    attend: Attend, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor
) -> Any:
    """``attend(query, key, value)`` under a mask, where numbers need not be finite.

    On a CPU every pair of a query and a position counts for itself: a query gets what it would get
    if positions that it may not see held zeros, and gives them no gradient. Where values cannot be
    looked at (on a GPU, under a compiler or ``torch.func``), that holds for positions that no query
    may see, which padding is.

    Args:
        attend: gives an :class:`Attended` under this mask.
        query, key, value: ``(…, m, d_q)``, ``(…, n, d_k)``, ``(…, n, d_v)``.
        mask: boolean, broadcastable to ``(…, m, n)``, or with one dimension more, of the heads,
            to ``(…, h, m, n)``.
    """
    batch = torch.broadcast_shapes(query.shape[:-2], key.shape[:-2], value.shape[:-2])
    if not may_look(key):
        seen = _of_all_heads(mask, len(batch)).any(-2)
        cleared = clear_hidden(key, seen)
        value = cleared if value is key else clear_hidden(value, seen)
        if query is key:  # self-attention: padding is a query, too, and keeps its finite numbers
            query = query.where(query.isfinite(), cleared)
        return attend(query, cleared, value)
    # Without gradients a query has influence on itself alone.
    if (
        is_finite(key)
        and (value is key or is_finite(value))
        and (query is key or not torch.is_grad_enabled() or is_finite(query))
    ):
        return attend(query, key, value)
    fine = [t.isfinite().all(-1, keepdim=True) for t in (query, key, value)]
    allowed = _of_all_heads(mask, len(batch))
    meets = (allowed & ~(fine[1] & fine[2]).mT).any(-1, keepdim=True) | ~fine[0]  # (…, m, 1)
    clean = attend(*(t.where(f, 0.0) for t, f in zip((query, key, value), fine)))
    if not meets.any():
        return clean
    # A query that sees what is not finite gets what comes of it, as a constant: its gradient
    # arrives as NaN by itself.
    with torch.no_grad():
        raw = attend(query, key, value)
    context = clean.context + (raw.context - clean.context).where(meets, 0.0)
    if clean.weights is None or raw.weights is None:
        return type(clean)(context, None)
    if clean.weights.dim() > meets.dim():
        meets = meets.unsqueeze(-3)
    return type(clean)(context, clean.weights + (raw.weights - clean.weights).where(meets, 0.0))


def without_hidden(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """x ``(…, n, d)`` with zeros for numbers that are not finite at positions that no query of a
    mask ``(…, m, n)`` may see: for a stack of layers, whose positions meet inside.
    """
    if may_look(x) and is_finite(x):
        return x
    seen = _of_all_heads(mask, x.dim() - 2).any(-2)
    return x.where(x.isfinite(), clear_hidden(x, seen))


def _of_all_heads(mask: torch.Tensor, leading: int) -> torch.Tensor:
    """What any head may see, of a mask that may have a dimension of the heads behind so many."""
    mask = torch.atleast_2d(mask)
    return mask.any(-3) if mask.dim() > leading + 2 else mask


def clear_hidden(tensor: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
    """Set positions that are not ``seen (…, n)`` to zero in ``(…, n, d)``.

    A position of a tensor that several rows of the batch share is seen where one of them sees it.
    """
    shape = tensor.shape[:-1]
    while seen.dim() > len(shape):
        seen = seen.any(0)
    for dim in range(-seen.dim(), -1):
        if shape[dim] == 1 and seen.shape[dim] > 1:
            seen = seen.any(dim, keepdim=True)
    return tensor.where(seen.unsqueeze(-1), 0.0)


def rows_that_see(mask: torch.Tensor | None) -> torch.Tensor | None:
    """Which queries may attend to anything: ``(…, m)`` for a mask ``(…, m, n)``, or None where it
    is known that all may.

    It is known without a mask, and on a CPU, where a look at the mask costs little and saves a pass
    over the context; a GPU would have to wait."""
    if mask is None:
        return None
    seeing = mask.any(-1)
    if may_look(mask) and bool(seeing.all()):
        return None
    return seeing
