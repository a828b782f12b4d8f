"""A source that is projected once and read many times: the cache of a decoder."""

from __future__ import annotations

from typing import NamedTuple

import torch

from ...validate import check_integer, check_mask, common_shape, require

__all__ = ["ProjectedSource", "check_reading"]


class ProjectedSource(NamedTuple):
    """Keys and values of one source in every head: what a decoder computes once and reads at each
    step.

    ``key (…, g, n, d_head)``, ``value (…, g, n, d_head_value)`` for g heads of keys and values, as
    many as heads of queries or fewer, and ``scored``, what the score makes of the keys, or None
    where it takes them as they are, or where that depends on where in the source a key stands
    (``counts_positions``), which the next :meth:`extend` would change: then it is made when the
    source is read. Keys that are rotated have been so by their positions."""

    key: torch.Tensor
    value: torch.Tensor
    scored: torch.Tensor | None = None

    @property
    def length(self) -> int:
        """n, the number of positions that a mask covers."""
        return self.key.shape[-2]

    def extend(self, more: ProjectedSource) -> ProjectedSource:
        """The source with further positions at its end: the cache of a decoder, one step on."""
        key, value = (torch.cat(pair, dim=-2) for pair in zip(self[:2], more[:2]))
        if self.scored is None or more.scored is None:
            return ProjectedSource(key, value)
        return ProjectedSource(key, value, torch.cat([self.scored, more.scored], dim=-2))

    def cut(self, number: int) -> ProjectedSource:
        """The source without its last ``number`` positions: what was read in vain is taken back."""
        kept = self.length - check_integer("number", number, 0, self.length)
        scored = None if self.scored is None else self.scored[..., :kept, :]
        return ProjectedSource(self.key[..., :kept, :], self.value[..., :kept, :], scored)


def check_reading(
    query: torch.Tensor, leading: torch.Size, n: int, mask: torch.Tensor | None, num_heads: int
) -> tuple[torch.Tensor | None, int]:
    """The mask under which queries ``(…, m, d)`` read a source of n positions, with two dimensions
    at least, and the number of leading dimensions of the problem; or a ``ValueError``.
    """
    require(n >= 1, f"key must have at least one position, got {n}: an empty source")
    try:
        batch = common_shape(query.shape[:-2], leading)
    except RuntimeError:
        raise ValueError(
            "query and key must have leading dimensions that broadcast, got "
            f"{tuple(query.shape[:-2])} and {tuple(leading)}"
        ) from None
    m = query.shape[-2]
    with_heads = isinstance(mask, torch.Tensor) and mask.dim() == len(batch) + 3
    check_mask(mask, (*batch, num_heads, m, n) if with_heads else (*batch, m, n))
    return mask if mask is None or mask.dim() > 1 else torch.atleast_2d(mask), len(batch)
