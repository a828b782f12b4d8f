"""Attention without the m×n matrix: blocks of scores, a running softmax, and a backward pass that
recomputes.

The softmax over n keys is computed block by block, see
:mod:`~attnbook.kernels.online_softmax`. What is stored between the forward and the
backward pass is the context and one number per query, ``lse = log Σ_j exp e_j``, from which any
block of weights is ``exp(e − lse)`` again. Memory grows with m + n.

This works for every :class:`~attnbook.mechanisms.scores.base.Score`, because the gradient of a
block of scores is taken by automatic differentiation of ``score.compare`` on that block alone,
unless the score has a :meth:`~attnbook.mechanisms.scores.base.Score.block_kernel` of its own.

Sources: Milakov and Gimelshein 2018 (online softmax); Rabe and Staats 2021; Dao et al. 2022 for the
dot product.
"""

from __future__ import annotations

import torch

from .blocks import blocks
from .double_backward import check_once
from .online_softmax import PartialContext, merge_contexts, partial_unchecked
from .precision import autocast_as, autocast_state, wide_dtype

__all__ = ["stream_attention"]


def stream_attention(
    score, query, projected, value, mask=None, block_elements: int | None = None, sink=None
) -> torch.Tensor:
    """Context of attention, never storing more than a block of weights.

    ``context_t = Σ_j softmax_j(score(query_t, key_j)) value_j``

    Args:
        score: a :class:`Score`; its parameters receive gradients.
        query: ``(…, m, d_q)``.
        projected: ``(…, n, width)``, the result of ``score.project_keys(key)``.
        value: ``(…, n, d_v)``.
        mask: boolean, broadcastable to ``(…, m, n)``; True = may attend.
        block_elements: upper bound of a block, see
            :data:`~attnbook.kernels.blocks.BLOCK_ELEMENTS`.
        sink: numbers broadcastable to ``(…, m)``, a score for each query that belongs to no key.

    Returns:
        Context ``(…, m, d_v)``; zeros for a query that may attend to nothing. Differentiable once:
        ``create_graph=True`` is a ``RuntimeError``.
    """
    batch = torch.broadcast_shapes(query.shape[:-2], projected.shape[:-2], value.shape[:-2])
    kernel = score.shortcut("block_kernel")(query)
    size = batch or (1,)  # blocks are cut along the first of the leading dimensions
    query, projected, value = (
        t.expand(*size, *t.shape[-2:]) for t in (kernel.query, projected, value)
    )
    if sink is not None:  # (…, m, 1)
        sink = sink.to(wide_dtype(value)).expand(*size, query.shape[-2]).unsqueeze(-1)
    context = _Stream.apply(
        kernel, block_elements, mask, query, projected, value, sink, *kernel.parameters
    )
    return context if batch else context[0]


def _mask_block(mask, dims, b, r, c):
    """The part of a mask that belongs to a block; dimensions that it broadcasts over stay as they
    are.
    """
    if mask is None:
        return None
    for dim, part in ((-1, c), (-2, r), (-dims, b)):
        if mask.dim() >= -dim and mask.shape[dim] != 1:
            mask = mask[(slice(None),) * (mask.dim() + dim) + (part,)]
    return mask


class _Stream(torch.autograd.Function):
    @staticmethod
    def forward(ctx, kernel, block_elements, mask, query, projected, value, sink, *parameters):
        wide = wide_dtype(value)
        context = value.new_empty(*query.shape[:-1], value.shape[-1])
        lse = query.new_empty(query.shape[:-1], dtype=wide)
        running = None
        for b, r, c in blocks(query, projected, block_elements):
            e = kernel.compare(query[b, ..., r, :], projected[b, ..., c, :]).to(wide)
            allowed = _mask_block(mask, query.dim(), b, r, c)
            part = partial_unchecked(e, value[b, ..., c, :].to(wide), allowed)
            running = part if running is None else merge_contexts(running, part)
            if c.stop == projected.shape[-2]:
                if sink is not None:
                    none = torch.zeros_like(running.summed)
                    top = sink[b, ..., r, :]
                    running = merge_contexts(
                        running, PartialContext(top, torch.ones_like(top), none)
                    )
                context[b, ..., r, :] = running.context
                lse[b, ..., r] = running.log_sum_exp.squeeze(-1)
                running = None
        ctx.kernel, ctx.block_elements, ctx.mask = kernel, block_elements, mask
        ctx.autocast = autocast_state(query)
        ctx.save_for_backward(query, projected, value, context, lse, sink, *parameters)
        return context

    @staticmethod
    def backward(ctx, grad_context):
        check_once("attention with need_weights=False")
        query, projected, value, context, lse, sink, *parameters = ctx.saved_tensors
        wide = lse.dtype
        grad_query = torch.zeros_like(query) if ctx.needs_input_grad[3] else None
        grad_projected = torch.zeros_like(projected) if ctx.needs_input_grad[4] else None
        grad_value = torch.zeros_like(value) if ctx.needs_input_grad[5] else None
        grad_sink = torch.zeros_like(sink) if ctx.needs_input_grad[6] else None
        grad_parameters = [
            torch.zeros_like(p) if needed else None
            for p, needed in zip(parameters, ctx.needs_input_grad[7:])
        ]
        for b, r, c in blocks(query, projected, ctx.block_elements):
            rows, columns = (b, ..., r, slice(None)), (b, ..., c, slice(None))
            if c.start == 0:
                g = grad_context[rows].to(wide)
                # dot(gradient, context) is what the softmax subtracts from every key's share
                shared = (g * context[rows]).sum(-1, keepdim=True)
                if grad_sink is not None:
                    grad_sink[rows] = (sink[rows] - lse[b, ..., r].unsqueeze(-1)).exp() * -shared
            with autocast_as(ctx.autocast):
                e, pullback = ctx.kernel.compare_with_pullback(query[rows], projected[columns])
            weight = (e.to(wide) - lse[b, ..., r].unsqueeze(-1)).exp_()
            allowed = _mask_block(ctx.mask, query.dim(), b, r, c)
            if allowed is not None:
                weight = weight.masked_fill_(~allowed, 0.0)
            if grad_value is not None:
                grad_value[columns] += weight.transpose(-1, -2) @ g
            grad_e = weight.mul_(g @ value[columns].to(wide).transpose(-1, -2) - shared)
            grad_q, grad_k, *grads = pullback(grad_e)
            if grad_query is not None and grad_q is not None:
                grad_query[rows] += grad_q
            if grad_projected is not None and grad_k is not None:
                grad_projected[columns] += grad_k
            for total, grad in zip(grad_parameters, grads):
                if total is not None and grad is not None:
                    total += grad
        grads = grad_query, grad_projected, grad_value, grad_sink
        return None, None, None, *grads, *grad_parameters
