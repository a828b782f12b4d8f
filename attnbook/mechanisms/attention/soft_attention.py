"""The one path from scores to context: score, mask, softmax, weighted sum."""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from ...kernels.double_backward import under_double_backward
from ...kernels.fused import fused_attention, has_fused_kernel
from ...kernels.streaming import by_rows, check_projected_width, stream_attention
from ...kernels.visible import Visible, restore_nonfinite, zero_nonfinite
from ...validate import check_dtypes, check_value, common_shape, is_transforming
from ..scores.base import Score, check_score
from .masks import check_sink, check_visible, masks_by_name, softmax_over_allowed

__all__ = ["STORED_WEIGHTS", "Attended", "attend", "attend_in_groups", "attend_in_rows"]
__all__ += ["attend_unchecked"]

STORED_WEIGHTS = 2**20
"""Up to so many weights (batch × m × n; 4 MB in float32) are kept for the backward pass even where
nobody asks for them, if no fused kernel fits the score and its widths: a few MB, whatever the
problem, for a third of the time."""


class Attended(NamedTuple):
    """What attention gives: ``context (…, m, d_v)`` and ``weights (…, m, n)``, or None where they
    were not asked for.
    """

    context: Tensor
    weights: Tensor | None


@masks_by_name("mask")
def attend(
    score: Score,
    query: Tensor,
    key: Tensor,
    value: Tensor | None = None,
    *,
    mask: Tensor | None = None,
    key_mask: Tensor | None = None,
    is_causal: bool = False,
    need_weights: bool = True,
    projected_keys: Tensor | None = None,
    dropout: Callable[[Tensor], Tensor] | None = None,
    sink: Tensor | None = None,
) -> Attended:
    """Look up every query in the keys and return the values it finds, weighted.

    ``e_tj = score(query_t, key_j)``, ``α_t = softmax_j(e_t)`` over the keys that the mask allows,
    ``context_t = Σ_j α_tj value_j``

    Args:
        score: how well a query matches a key, one of :data:`attnbook.SCORES`.
        query: ``(…, m, d_q)``.
        key: ``(…, n, d_k)`` with n ≥ 1.
        value: ``(…, n, d_v)``; the keys themselves when not given.
        mask: boolean, broadcastable to ``(…, m, n)``; True = may attend. A query that may attend to
            nothing gets zero weights and a zero context, with zero gradients. What a query may not
            attend to has no influence on it, in value or gradient, even if it is NaN or infinite;
            one that sees a number that is not finite gets NaN.
        key_mask: which keys there are, boolean, ``(…, n)``, as :func:`padding_mask` makes it.
        is_causal: whether the queries are the last m of the n keys and see themselves and those
            before. Together with the masks: what all of them allow. Other than
            :func:`causal_mask` it needs no m×n matrix.
        need_weights: when False the weights are not returned and no matrix of m×n is stored: memory
            grows with m + n (and with the mask you give), but for a constant of a few MB, see
            :data:`STORED_WEIGHTS`. The context is the same up to rounding. A score that is an inner
            product goes through PyTorch's ``scaled_dot_product_attention``, any other, if the
            problem is large, through
            :func:`~attnbook.kernels.streaming.stream_attention`. The backward pass
            recomputes the scores and is no graph itself; under :func:`attnbook.double_backward` and
            the transforms of ``torch.func`` the weights are stored after all. Forward-mode
            derivatives (``torch.func.jvp``) of :class:`~attnbook.AdditiveScore` raise.
        projected_keys: ``score.project_keys(key)``, for a caller that attends to the same keys many
            times.
        dropout: what the weights go through before they meet the values, such as
            :class:`~attnbook.kernels.layers.Dropout`. The weights returned are those before it,
            and all m×n are stored. None, or a module in evaluation mode: nothing.
        sink: numbers broadcastable to ``(…, m)``: a score for each query that belongs to no key, so
            that the weights sum to less than 1, see
            :func:`~attnbook.mechanisms.attention.masks.masked_softmax`.

    Returns:
        :class:`Attended`: context and weights.
    """
    check_score(score).check(query, key)
    if key.shape[-2] < 1:
        raise ValueError(
            f"key must have at least one position, got shape {tuple(key.shape)}: an empty source"
        )
    value = key if value is None else check_value(value, key)
    batch = query.shape[:-2]
    if not batch == key.shape[:-2] == value.shape[:-2]:
        try:
            batch = torch.broadcast_shapes(batch, key.shape[:-2], value.shape[:-2])
        except RuntimeError:
            raise ValueError(
                "query, key and value must have leading dimensions that broadcast, got shapes "
                f"{tuple(query.shape)}, {tuple(key.shape)} and {tuple(value.shape)}"
            ) from None
    visible = check_visible(mask, key_mask, is_causal, batch, query.shape[-2], key.shape[-2])
    if sink is not None:
        sink = check_sink(sink, (*batch, query.shape[-2]))
    source = key
    if projected_keys is not None:
        score.check_projected(key, projected_keys)
        source = projected_keys
    check_dtypes(query, source, value)
    query, source, value, nonfinite = zero_nonfinite(
        query, source, value, score, projects_value=value is source
    )
    projected = score.project_keys(source) if projected_keys is None else source
    found = attend_unchecked(score, query, projected, value, visible, need_weights, dropout, sink)
    if nonfinite is None:
        return found
    sees = partial(visible.rows, query.shape[-2], key.shape[-2])
    return Attended(*restore_nonfinite(*found, nonfinite, sees))


def attend_unchecked(
    score: Score,
    query: Tensor,
    projected_keys: Tensor,
    value: Tensor,
    visible: Visible,
    need_weights: bool,
    dropout: Callable[[Tensor], Tensor] | None = None,
    sink: Tensor | None = None,
) -> Attended:
    """:func:`attend` without its checks, for layers that have checked their own arguments."""
    if not getattr(dropout, "training", True):
        dropout = None
    # The weights of a single query are no larger than the keys; and what stores no weights can
    # neither be differentiated twice nor be transformed.
    plain = not (need_weights or under_double_backward() or is_transforming()) and dropout is None
    if plain and sink is None:  # such a kernel may shift all scores of a row
        context = score.fast_path("fused_attention")(query, projected_keys, value, visible)
        if context is not None:
            return Attended(context, None)
    if plain and query.shape[-2] != 1:
        product = score.fast_path("inner_product")(query) if has_fused_kernel(value) else None
        # The kernel wants one width for all; where it would be fed zeros, a small problem is
        # quicker with its weights.
        fits = sink is None and product is not None and product[0].shape[-1] == value.shape[-1]
        if fits or _exceeds_stored_weights(query, projected_keys, value):
            if product is None:
                context = stream_attention(score, query, projected_keys, value, visible, sink=sink)
                return Attended(context, None)
            transformed, scale = product
            check_projected_width(transformed.shape[-1], projected_keys)
            context = fused_attention(transformed, projected_keys, value, visible, scale, sink)
            return Attended(context, None)
    # scores of half precision are kept in float32
    scores = score.compare(query, projected_keys)
    mask = visible.matrix(query.shape[-2], projected_keys.shape[-2], query.device)
    weights = softmax_over_allowed(scores, mask, sink).to(value.dtype)
    context = (weights if dropout is None else dropout(weights)) @ value
    return Attended(context, weights if need_weights else None)


def attend_in_rows(
    read: Callable[..., Attended],
    tensors: Sequence[Tensor],
    weights: tuple[int, ...],
    need_weights: bool,
    dropout: Callable[[Tensor], Tensor] | None,
    parameters: Sequence[Tensor] = (),
) -> Attended:
    """Attention for whose scores there is no kernel: ``read(rows, *tensors)`` is that of some
    queries. Where nobody asks for the weights and they are many, a block of them is made at a time,
    see :func:`~attnbook.kernels.streaming.by_rows`.

    Args:
        weights: the shape of all, ``(…, m, n)``.
    """
    *batch, m, n = weights
    drops = dropout is not None and getattr(dropout, "training", True)
    stored = need_weights or drops or under_double_backward() or is_transforming()
    a_row = max(1, math.prod(batch) * n)
    if not stored and a_row * m > STORED_WEIGHTS:
        rows = max(1, STORED_WEIGHTS // a_row)
        context = by_rows(lambda *given: read(*given).context, tensors, m, rows, parameters)
        return Attended(context, None)
    context, found = read(slice(0, m), *tensors)
    return Attended(context, found if need_weights else None)


def _exceeds_stored_weights(query: Tensor, key: Tensor, value: Tensor) -> bool:
    """Whether the weights are more than :data:`STORED_WEIGHTS`."""
    batch = common_shape(query.shape[:-2], key.shape[:-2], value.shape[:-2])
    return batch.numel() * query.shape[-2] * key.shape[-2] > STORED_WEIGHTS


def attend_in_groups(
    score: Score,
    query: Tensor,
    projected_keys: Tensor,
    value: Tensor,
    visible: Visible,
    need_weights: bool,
    dropout: Callable[[Tensor], Tensor] | None = None,
    sink: Tensor | None = None,
) -> Attended:
    """:func:`attend_unchecked` for h heads of queries and g heads of keys and values:
    ``head_i = attend(query_i, key_j, value_j)``, ``j = ⌊i g / h⌋``.

    The queries of a group stand after one another, as more queries of one head. So the keys are
    read where they lie, once for the group, and not copied for each head of queries.

    Args:
        query: ``(…, h, m, d)``.
        projected_keys, value: ``(…, g, n, d)`` and ``(…, g, n, d_v)``; g divides h.
        visible: in heads, ``(…, h, m, n)``.
        sink: broadcastable to ``(…, h, m)``, with two dimensions at least.

    Returns:
        ``context (…, h, m, d_v)`` and ``weights (…, h, m, n)`` or None.
    """
    m, shared = query.shape[-2], query.shape[-3] // projected_keys.shape[-3]
    if shared > 1 and m == 1 and visible.reach is not None:
        visible = Visible(visible.matrix(m, projected_keys.shape[-2], query.device))
    if shared > 1 and (score.depends_on_position or visible.reach is not None):
        # a score, or a rule, has to see where a query stands, and in which head
        projected_keys, value = (t.repeat_interleave(shared, -3) for t in (projected_keys, value))
        shared = 1
    if shared == 1:
        return attend_unchecked(
            score, query, projected_keys, value, visible, need_weights, dropout, sink
        )
    if sink is not None:
        sink = sink.expand(*sink.shape[:-2], query.shape[-3], m)
        sink = sink.unflatten(-2, (-1, shared)).flatten(-2)  # (…, g, h/g · m)
    query = query.unflatten(-3, (-1, shared)).flatten(-3, -2)  # (…, g, h/g · m, d)
    if visible.mask is not None:
        visible = Visible(_for_groups(visible.mask, shared, m))
    # of a step in decoding the weights are few, and quicker stored than not
    stored = need_weights or (m == 1 and query.device.type == "cpu")
    context, weights = attend_unchecked(
        score, query, projected_keys, value, visible, stored, dropout, sink
    )

    def of_heads(t: Tensor) -> Tensor:
        return t.unflatten(-2, (shared, m)).flatten(-4, -3)

    if weights is None or not need_weights:
        return Attended(of_heads(context), None)
    return Attended(of_heads(context), of_heads(weights))


def _for_groups(mask: Tensor, shared: int, m: int) -> Tensor:
    """A mask ``(…, h or 1, m or 1, n or 1)`` for queries in groups of h/g heads:
    ``(…, g or 1, h/g · m or 1, n or 1)``.
    """
    of_heads = mask.dim() > 2 and mask.shape[-3] > 1
    if mask.shape[-2] == 1 and not of_heads:
        return mask
    mask = mask.unflatten(-3, (-1, shared)) if of_heads else mask.unsqueeze(-3)
    return mask.expand(*mask.shape[:-3], shared, m, -1).flatten(-3, -2)
