"""The key-value cache: a source that is projected once and read many times."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from ...kernels.visible import assume_finite, join_nonfinite
from ...validate import check_integer, is_transforming

__all__ = ["ProjectedSource", "Read", "append_rows", "positions_of", "read_source"]


_SMALL = 2**14
"""So many numbers are copied in less time than it takes to write after them."""


class _Buffer:
    """Room for more rows than there are: ``rows (…, capacity, d)``, ``used`` of them written."""

    def __init__(self, rows: Tensor, used: int) -> None:
        self.rows, self.used = rows, used


def append_rows(old: Tensor, new: Tensor) -> Tensor:
    """``[old; new]``, ``(…, n, d)`` and ``(…, m, d)``, as the cache of a decoder grows.

    Without gradients ``new`` is written after ``old`` where that ends in a buffer with room, which
    doubles when it is full, so that a step costs no copy of all before it. What was returned once
    does not change: rows are written after it alone, and only the first to go on from it finds
    room there; another continuation gets a buffer of its own. Few numbers are copied, and so is
    what has not been appended to before, as in a beam search, which chooses its rows anew.
    """
    if (
        old.numel() < _SMALL
        or (torch.is_grad_enabled() and (old.requires_grad or new.requires_grad))
        or torch.compiler.is_compiling()
        or is_transforming()
        or not type(old) is type(new) is Tensor
        or (old.dtype, old.device) != (new.dtype, new.device)
        or old.shape[:-2] != new.shape[:-2]
    ):
        return torch.cat([old, new], dim=-2)
    n, end = old.shape[-2], old.shape[-2] + new.shape[-2]
    buffer = getattr(old, "_buffer", None)
    if buffer is None:
        joined = torch.cat([old, new], dim=-2)
        buffer = _Buffer(new, 0)  # without room: the next call makes it
    else:
        if (
            buffer.used != n
            or buffer.rows.shape[-2] < end
            or buffer.rows.is_inference() != torch.is_inference_mode_enabled()
        ):
            rows = old.new_empty(*old.shape[:-2], 2 * end, old.shape[-1])
            rows[..., :n, :] = old
            buffer = _Buffer(rows, n)
        buffer.rows[..., n:end, :] = new
        buffer.used = end
        # a tensor with versions of its own: what autograd keeps of it is not overwritten
        joined = buffer.rows.data[..., :end, :]
    joined._buffer = buffer  # type: ignore[attr-defined]
    return joined


class ProjectedSource(NamedTuple):
    """Keys and values of one source in every head: what a decoder computes once and reads at each
    step.

    ``key (…, g, n, d_head)``, ``value (…, g, n, d_head_value)`` for g heads of keys and values, as
    many as heads of queries or fewer, and ``scored``, what the score makes of the keys, or None
    where it takes them as they are, or where that depends on where in the source a key stands
    (``depends_on_position``), which the next :meth:`extend` would change: then it is made when the
    source is read. Keys that are rotated have been so by their positions. ``nonfinite (…, n)`` says
    which positions came with numbers that are not finite and were projected as zeros; None: none.
    """

    key: Tensor
    value: Tensor
    scored: Tensor | None = None
    nonfinite: Tensor | None = None

    @property
    def length(self) -> int:
        """n, the number of positions that a mask covers."""
        return self.key.shape[-2]

    def extend(self, more: ProjectedSource) -> ProjectedSource:
        """The source with further positions at its end: the cache of a decoder, one step on."""
        key, value = (append_rows(*pair) for pair in zip(self[:2], more[:2]))
        scored = None
        if self.scored is not None and more.scored is not None:
            scored = append_rows(self.scored, more.scored)
        return ProjectedSource(key, value, scored, join_nonfinite(self, more))

    def cut(self, number: int) -> ProjectedSource:
        """The source without its last ``number`` positions: what was read in vain is taken back."""
        kept = self.length - check_integer("number", number, 0, self.length)
        scored = None if self.scored is None else self.scored[..., :kept, :]
        nonfinite = None if self.nonfinite is None else self.nonfinite[..., :kept]
        return ProjectedSource(
            self.key[..., :kept, :], self.value[..., :kept, :], scored, nonfinite
        )

    def with_nonfinite(self, nonfinite: Tensor) -> ProjectedSource:
        """The source with what is known of its positions."""
        return self._replace(nonfinite=nonfinite)

    def nonfinite_rows(self) -> Tensor:
        """:attr:`nonfinite`, written out."""
        if self.nonfinite is not None:
            return self.nonfinite
        return self.key.new_zeros(*self.key.shape[:-3], self.key.shape[-2], dtype=torch.bool)


class Read(NamedTuple):
    """What an attention gives that reads a text from left to right: ``context (…, m, d)``, the
    ``cache`` for what comes next, and ``weights (…, h, m, n)`` or None.
    """

    context: Tensor
    cache: Any
    weights: Tensor | None


def read_source(
    attention: Any,
    x: Tensor,
    mask: Tensor | None,
    is_causal: bool,
    cache: Any,
    position: int | Tensor,
    need_weights: bool,
) -> Read:
    """``attention.read(x, …)`` of an attention whose cache is the source that it projects."""
    source = attention.project(x, position=position)
    with assume_finite(x, source.nonfinite is None):  # and need not be looked at again
        if cache is not None:
            source = cache.extend(source)
        context, weights = attention(
            x,
            mask=mask,
            is_causal=is_causal,
            projected=source,
            need_weights=need_weights,
            position=position,
        )
    return Read(context, source, weights)


def positions_of(position: int | Tensor, heads: Tensor) -> int | Tensor:
    """Of rows ``(…, h, n, w)`` that begin at ``position``: that number, or where it is one for each
    text, ``(batch,)``, the positions of all, ``(batch, 1, n)``.
    """
    if not isinstance(position, Tensor):
        return position
    rows = torch.arange(heads.shape[-2], device=heads.device)
    return position.to(heads.device)[:, None, None] + rows
