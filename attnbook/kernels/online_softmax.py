"""Softmax in one pass: the context of some keys as maximum, sum and output, and the merging of such
parts.

A softmax over all keys needs their largest score before it can take the first exponential. What it
gives for *some* of the keys can be mended afterwards: when other keys bring a larger score, the sum
and the output that were taken relative to the smaller one are multiplied by the exponential of the
difference. So keys may come block by block, as in
:func:`~attnbook.kernels.streaming.stream_attention`, or a long source may be cut in
parts that are attended to apart, on other cores or other machines, and merged.

Sources: Milakov and Gimelshein 2018, algorithm 3; Dao et al. 2022, section 3.1.
"""

from __future__ import annotations

from functools import reduce
from typing import NamedTuple

import torch

from ..validate import check_mask, check_tensor, require
from .precision import wide_dtype, without_autocast

__all__ = ["PartialContext", "merge_contexts", "partial_context", "partial_unchecked"]


class PartialContext(NamedTuple):
    """What attention to some of the keys leaves, so that others can be added.

    ``top = max_j e_j``, ``total = Σ_j exp(e_j − top)``, ``summed = Σ_j exp(e_j − top) value_j``

    Attributes:
        top: ``(…, m, 1)``; the smallest finite number (or −∞) for a query that may attend to none
            of the keys. No gradient flows through it: it cancels in what is made of the three.
        total: ``(…, m, 1)``; 0 for such a query.
        summed: ``(…, m, d_v)``; zeros for such a query.

    Source: Milakov and Gimelshein 2018, algorithm 3 (m, d); Dao et al. 2022, section 3.1 (m, ℓ, O).
    """

    top: torch.Tensor
    total: torch.Tensor
    summed: torch.Tensor

    @property
    def context(self) -> torch.Tensor:
        """``summed / total``, ``(…, m, d_v)``; zeros for a query that may attend to nothing."""
        # whoever may attend to something has at least the 1 of the largest score
        return self.summed / self.total.clamp_min(torch.finfo(self.total.dtype).tiny)

    @property
    def log_sum_exp(self) -> torch.Tensor:
        """``log Σ_j exp(e_j) = top + log total``, ``(…, m, 1)``; −∞ for a query that may attend to
        nothing."""
        return self.top + self.total.log()


def partial_context(
    scores: torch.Tensor, value: torch.Tensor, mask: torch.Tensor | None = None
) -> PartialContext:
    """Attend to some of the keys, and leave the division by the sum for later.

    Args:
        scores: ``(…, m, n)``, of a :class:`~attnbook.mechanisms.scores.base.Score`, n ≥ 1.
        value: ``(…, n, d_v)``.
        mask: boolean, broadcastable to ``(…, m, n)``; True = may attend.

    Returns:
        :class:`PartialContext`, in float32 at least.
    """
    check_tensor("scores", scores)
    check_tensor("value", value)
    require(
        scores.shape[-1] == value.shape[-2] >= 1,
        f"scores must have a column for each of the {value.shape[-2]} positions of value, at least "
        f"one, got shape {tuple(scores.shape)}",
    )
    check_mask(mask, tuple(scores.shape))
    return partial_unchecked(scores.to(wide_dtype(scores, value)), value, mask)


def partial_unchecked(
    scores: torch.Tensor, value: torch.Tensor, mask: torch.Tensor | None
) -> PartialContext:
    """:func:`partial_context` without its checks, for scores that are in float32 at least."""
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    # Never −∞, else a row without allowed keys were −∞ − (−∞), NaN.
    top = scores.detach().amax(-1, keepdim=True).clamp_min(torch.finfo(scores.dtype).min)
    weight = (scores - top).exp_()
    with without_autocast(weight):
        summed = weight @ value.to(weight.dtype)
    return PartialContext(top, weight.sum(-1, keepdim=True), summed)


def merge_contexts(*parts: PartialContext) -> PartialContext:
    """The context of all keys from those of their parts, in any order.

    ``top = max_p top_p``, ``total = Σ_p exp(top_p − top) total_p``,
    ``summed = Σ_p exp(top_p − top) summed_p``

    Args:
        parts: at least one, all with the same queries and the same width of values.

    Returns:
        :class:`PartialContext`; its :attr:`~PartialContext.context` is that of attention to all the
        keys at once, zeros for a query that may attend to nothing in any part.

    Source: Milakov and Gimelshein 2018, section 3.1.
    """
    require(len(parts) >= 1, "parts must be at least one, got none")
    shapes = [tuple(part.summed.shape) for part in parts]
    require(
        all(shape == shapes[0] for shape in shapes),
        f"parts must have the same queries and width, got shapes {', '.join(map(str, shapes))}",
    )
    top = reduce(torch.maximum, (part.top.detach() for part in parts))
    top = top.clamp_min(torch.finfo(top.dtype).min)
    rescale = [(part.top.detach() - top).exp_() for part in parts]
    total = sum(part.total * by for part, by in zip(parts, rescale))
    summed = sum(part.summed * by for part, by in zip(parts, rescale))
    return PartialContext(top, torch.as_tensor(total), torch.as_tensor(summed))
