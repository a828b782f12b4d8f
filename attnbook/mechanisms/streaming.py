"""Attention without the m×n matrix: blocks of scores, a running softmax, and a backward pass that recomputes.

The softmax over n keys can be computed block by block: keep for every query the largest score so far, the sum of the
exponentials relative to it, and the weighted sum of values relative to it; when a block brings a larger score, rescale
the two sums. What is stored between the forward and the backward pass is the context and one number per query,
``lse = log Σ_j exp e_j``, from which any block of weights is ``exp(e − lse)`` again. Memory grows with m + n.

This works for every :class:`~attnbook.mechanisms.scores.Score`, because the gradient of a block of scores is taken
by automatic differentiation of ``score.compare`` on that block alone.

Sources: Milakov and Gimelshein 2018 (online softmax); Rabe and Staats 2021; Dao et al. 2022 for the dot product.
"""

from __future__ import annotations

from contextlib import contextmanager

import torch
from torch.autograd.function import once_differentiable

__all__ = ["stream_attention", "BLOCK_ELEMENTS"]

BLOCK_ELEMENTS = 2**21
"""Largest number of elements (of batch × queries × keys × width) that one block works on: 8 MB in float32, small enough
to stay in a cache and below the size at which the C library returns buffers to the kernel."""


def stream_attention(score, query, projected, value, mask=None, block_elements: int | None = None) -> torch.Tensor:
    """Context of attention, never storing more than a block of weights.

    ``context_t = Σ_j softmax_j(score(query_t, key_j)) value_j``

    Args:
        score: a :class:`Score`; its parameters receive gradients.
        query: ``(…, m, d_q)``.
        projected: ``(…, n, width)``, the result of ``score.project_keys(key)``.
        value: ``(…, n, d_v)``.
        mask: boolean, broadcastable to ``(…, m, n)``; True = may attend.
        block_elements: upper bound of a block, see :data:`BLOCK_ELEMENTS`.

    Returns:
        Context ``(…, m, d_v)``; zeros for a query that may attend to nothing. Differentiable once.
    """
    batch = torch.broadcast_shapes(query.shape[:-2], projected.shape[:-2], value.shape[:-2])
    query = query.expand(*batch, *query.shape[-2:])
    projected = projected.expand(*batch, *projected.shape[-2:])
    value = value.expand(*batch, *value.shape[-2:])
    parameters = tuple(score.parameters())
    return _Stream.apply(score, block_elements or BLOCK_ELEMENTS, mask, query, projected, value, *parameters)


def _blocks(query, projected, block_elements):
    """Ranges of queries and of keys such that a block stays below the bound; long in keys, as a row is read at once."""
    m, n = query.shape[-2], projected.shape[-2]
    per_pair = max(1, query.shape[:-2].numel()) * max(query.shape[-1], projected.shape[-1])
    keys = max(1, min(n, block_elements // per_pair))
    queries = max(1, min(m, block_elements // (per_pair * keys)))
    rows = [slice(i, min(i + queries, m)) for i in range(0, m, queries)]
    columns = [slice(j, min(j + keys, n)) for j in range(0, n, keys)]
    return rows, columns


def _mask_block(mask, rows, columns):
    if mask is None:
        return None
    mask = mask if mask.shape[-1] == 1 else mask[..., columns]
    return mask if mask.dim() < 2 or mask.shape[-2] == 1 else mask[..., rows, :]


@contextmanager
def _autocast_as(state):
    device_type, enabled, dtype = state
    with torch.autocast(device_type, dtype=dtype, enabled=enabled):
        yield


class _Stream(torch.autograd.Function):
    @staticmethod
    def forward(ctx, score, block_elements, mask, query, projected, value, *parameters):
        rows, columns = _blocks(query, projected, block_elements)
        wide = torch.float64 if value.dtype == torch.float64 else torch.float32  # sums are kept at least in float32
        lowest = torch.finfo(wide).min
        context = value.new_empty(*query.shape[:-1], value.shape[-1])
        lse = query.new_empty(query.shape[:-1], dtype=wide)
        for r in rows:
            q = query[..., r, :]
            top = torch.full_like(lse[..., r], lowest).unsqueeze(-1)  # largest score so far
            total = torch.zeros_like(top)  # Σ exp(e − top)
            summed = context.new_zeros(*q.shape[:-1], value.shape[-1], dtype=wide)  # Σ exp(e − top) value
            for c in columns:
                e = score.compare(q, projected[..., c, :]).to(wide)
                allowed = _mask_block(mask, r, c)
                if allowed is not None:
                    e = e.masked_fill(~allowed, lowest)
                new_top = torch.maximum(top, e.amax(-1, keepdim=True))
                weight = (e - new_top).exp_()
                if allowed is not None:
                    weight = weight.masked_fill_(~allowed, 0.0)  # a row without allowed keys has e = top everywhere
                rescale = (top - new_top).exp_()
                total = total * rescale + weight.sum(-1, keepdim=True)
                summed = summed * rescale + weight @ value[..., c, :].to(wide)
                top = new_top
            total = total.clamp_min(torch.finfo(wide).tiny)  # only rows that may attend to nothing have 0 here
            context[..., r, :] = summed / total
            lse[..., r] = (top + total.log()).squeeze(-1)
        ctx.score, ctx.block_elements, ctx.mask = score, block_elements, mask
        kind = query.device.type
        ctx.autocast = (kind, torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind))
        ctx.save_for_backward(query, projected, value, context, lse, *parameters)
        return context

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_context):
        query, projected, value, context, lse, *parameters = ctx.saved_tensors
        rows, columns = _blocks(query, projected, ctx.block_elements)
        wide = lse.dtype
        grad_query = torch.zeros_like(query) if ctx.needs_input_grad[3] else None
        grad_projected = torch.zeros_like(projected) if ctx.needs_input_grad[4] else None
        grad_value = torch.zeros_like(value) if ctx.needs_input_grad[5] else None
        grad_parameters = [torch.zeros_like(p) if needed else None
                           for p, needed in zip(parameters, ctx.needs_input_grad[6:])]
        for r in rows:
            g = grad_context[..., r, :].to(wide)
            # dot(gradient, context) is what the softmax subtracts from every key's share
            shared = (g * context[..., r, :]).sum(-1, keepdim=True)
            for c in columns:
                with _autocast_as(ctx.autocast):
                    e, pullback = ctx.score.compare_with_pullback(query[..., r, :], projected[..., c, :])
                weight = (e.to(wide) - lse[..., r].unsqueeze(-1)).exp_()
                allowed = _mask_block(ctx.mask, r, c)
                if allowed is not None:
                    weight = weight.masked_fill_(~allowed, 0.0)
                if grad_value is not None:
                    grad_value[..., c, :] += (weight.transpose(-1, -2) @ g).to(value.dtype)
                grad_e = weight.mul_(g @ value[..., c, :].to(wide).transpose(-1, -2) - shared)
                grad_q, grad_k, *grads = pullback(grad_e)
                _add(grad_query, r, grad_q)
                _add(grad_projected, c, grad_k)
                for total, grad in zip(grad_parameters, grads):
                    if total is not None and grad is not None:
                        total += grad
        return None, None, None, grad_query, grad_projected, grad_value, *grad_parameters


def _add(total, positions, grad):
    if total is not None and grad is not None:
        total[..., positions, :] += grad
