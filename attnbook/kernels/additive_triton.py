"""Additive attention as kernels for CUDA, in Triton: forward in one pass, backward by
recomputation.

The forward kernel goes over the keys block by block and keeps for every query the largest score,
the sum of the exponentials and the weighted sum of the values (online softmax), as
:mod:`~attnbook.kernels.streaming` does with PyTorch's operations. The hidden layer
``tanh(q_t + k_j)`` exists only in registers. The backward pass computes the scores once more and
then each gradient in a kernel of its own, in an order that is always the same, so that the result
is as well. Memory grows with m + n, but for a buffer of :data:`BUFFER` scores.

``import attnbook`` imports nothing of this and needs no Triton.

Sources: Milakov and Gimelshein 2018 (online softmax); Tillet, Kung and Cox 2019 (Triton).
"""
# pyright: reportMissingImports=false, reportIndexIssue=false, reportOptionalMemberAccess=false

from __future__ import annotations

import torch
from torch import Tensor

try:
    import triton
    import triton.language as tl
except ImportError:  # a machine without CUDA: nothing in here is called
    triton = None

from .double_backward import check_once
from .precision import wide_dtype

__all__ = ["additive_attention", "additive_scores"]

BUFFER = 2**24
"""Scores that the backward pass of attention holds at a time: 64 MB in float32."""
_ROWS, _COLUMNS, _WIDTH = 16, 32, 16  # a tile of the hidden layer
_WIDEST_VALUE = 512  # of a row of the weighted sum, which stays in registers


def _kernel(function):
    return function if triton is None else triton.jit(function)


@_kernel
def _part(matrix, rows, columns, m, n, WIDE: tl.constexpr):
    """These rows and columns of a matrix ``(m, n)``, zeros beyond its ends."""
    inside = (rows[:, None] < m) & (columns[None, :] < n)
    at = matrix + rows[:, None].to(tl.int64) * n + columns[None, :]
    return tl.load(at, mask=inside, other=0.0).to(WIDE)


@_kernel
def _hidden(a, b):
    """``tanh(a_r + b_c)`` for all pairs of rows: ``(rows, columns, width)``."""
    return 2 * tl.sigmoid(2 * (a[:, None, :] + b[None, :, :])) - 1


@_kernel
def _tile(first, second, vector, rows, columns, m, n, d, WIDTH: tl.constexpr, WIDE: tl.constexpr):
    """Scores of a tile: Σ_d v_d tanh(first_rd + second_cd)."""
    scores = tl.zeros([rows.shape[0], columns.shape[0]], WIDE)
    for start in range(0, d, WIDTH):
        units = start + tl.arange(0, WIDTH)
        a, b = _part(first, rows, units, m, d, WIDE), _part(second, columns, units, n, d, WIDE)
        v = tl.load(vector + units, mask=units < d, other=0.0).to(WIDE)
        scores += tl.sum(_hidden(a, b) * v[None, None, :], axis=2)
    return scores


@_kernel
def _scores_kernel(
    query,
    key,
    vector,
    scores,
    m,
    n,
    d,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    WIDTH: tl.constexpr,
    WIDE: tl.constexpr,
):
    batch = tl.program_id(2).to(tl.int64)
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    query, key = query + batch * m * d, key + batch * n * d
    e = _tile(query, key, vector, rows, columns, m, n, d, WIDTH, WIDE)
    at = scores + batch * m * n + rows[:, None] * n + columns[None, :]
    tl.store(at, e, mask=(rows[:, None] < m) & (columns[None, :] < n))


@_kernel
def _attention_kernel(
    query,
    key,
    value,
    vector,
    mask,
    context,
    lse,
    m,
    n,
    d,
    d_value,
    mask_batch,
    mask_row,
    mask_column,
    MASKED: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    WIDTH: tl.constexpr,
    VALUES: tl.constexpr,
    WIDE: tl.constexpr,
):
    batch = tl.program_id(1).to(tl.int64)
    query, key = query + batch * m * d, key + batch * n * d
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    channels = tl.arange(0, VALUES)
    top = tl.full([ROWS], float("-inf"), WIDE)
    total = tl.zeros([ROWS], WIDE)
    summed = tl.zeros([ROWS, VALUES], WIDE)
    for start in range(0, n, COLUMNS):
        columns = start + tl.arange(0, COLUMNS)
        e = _tile(query, key, vector, rows, columns, m, n, d, WIDTH, WIDE)
        allowed = (rows[:, None] < m) & (columns[None, :] < n)
        if MASKED:
            at = mask + batch * mask_batch + rows[:, None] * mask_row
            allowed &= tl.load(at + columns[None, :] * mask_column, mask=allowed, other=0) != 0
        e = tl.where(allowed, e, float("-inf"))
        highest = tl.maximum(top, tl.max(e, axis=1))
        # a row that may attend to nothing so far has no largest score
        shift = tl.where(highest == float("-inf"), 0.0, highest)
        weight = tl.exp(e - shift[:, None])
        rescale = tl.exp(top - shift)
        values = _part(value + batch * n * d_value, columns, channels, n, d_value, WIDE)
        if ROWS == 1:  # too few for the units that multiply matrices
            found = tl.sum(weight[:, :, None] * values[None, :, :], axis=1)
        else:
            found = tl.dot(weight, values, input_precision="ieee", out_dtype=WIDE)
        summed = summed * rescale[:, None] + found
        total = total * rescale + tl.sum(weight, axis=1)
        top = highest
    some = total > 0
    divisor = tl.where(some, total, 1.0)
    tl.store(
        context + (batch * m + rows[:, None]) * d_value + channels[None, :],
        summed / divisor[:, None],
        mask=(rows[:, None] < m) & (channels[None, :] < d_value),
    )
    # such that exp(e − lse) is 0 in a row that may attend to nothing
    tl.store(
        lse + batch * m + rows, tl.where(some, top + tl.log(divisor), float("inf")), mask=rows < m
    )


@_kernel
def _gradient_kernel(
    first,
    second,
    vector,
    gradient,
    to_first,
    to_vector,
    m,
    n,
    d,
    row_stride,
    column_stride,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    WIDTH: tl.constexpr,
    WIDE: tl.constexpr,
):
    """Gradients of ``first`` (m rows) and, for each block of rows, of the vector, from the gradient
    of the scores. With ``first`` and ``second`` exchanged it is that of the keys."""
    batch = tl.program_id(2).to(tl.int64)
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    units = tl.program_id(1) * WIDTH + tl.arange(0, WIDTH)
    inside = units < d
    a = _part(first + batch * m * d, rows, units, m, d, WIDE)
    v = tl.load(vector + units, mask=inside, other=0.0).to(WIDE)
    through = tl.zeros([ROWS, WIDTH], WIDE)
    hidden_sum = tl.zeros([WIDTH], WIDE)
    for start in range(0, n, COLUMNS):
        columns = start + tl.arange(0, COLUMNS)
        b = _part(second + batch * n * d, columns, units, n, d, WIDE)
        at = gradient + batch * m * n + rows[:, None] * row_stride
        g = tl.load(
            at + columns[None, :] * column_stride,
            mask=(rows[:, None] < m) & (columns[None, :] < n),
            other=0.0,
        ).to(WIDE)[:, :, None]
        hidden = _hidden(a, b)
        through += tl.sum(g * (1 - hidden * hidden), axis=1)
        hidden_sum += tl.sum(tl.sum(g * hidden, axis=1), axis=0)
    tl.store(
        to_first + (batch * m + rows[:, None]) * d + units[None, :],
        through * v[None, :],
        mask=(rows[:, None] < m) & inside[None, :],
    )
    at = (batch * tl.num_programs(0) + tl.program_id(0)) * d + units
    tl.store(to_vector + at, hidden_sum, mask=inside)


def _tile_of(m: int, wide: torch.dtype) -> dict:
    """The sizes of a tile for m rows, and its dtype. The rows of a product of matrices, which
    Triton has not in float64, are many.
    """
    double = wide == torch.float64
    sizes = {"ROWS": 1 if m == 1 or double else _ROWS, "COLUMNS": _COLUMNS, "WIDTH": _WIDTH}
    return {**sizes, "WIDE": tl.float64 if double else tl.float32}


def _score_blocks(query, key, vector, wide: torch.dtype) -> Tensor:
    """``(b, m, d), (b, n, d), (d,) → (b, m, n)`` in the wide dtype."""
    (b, m, d), n, tile = query.shape, key.shape[1], _tile_of(query.shape[1], wide)
    scores = query.new_empty(b, m, n, dtype=wide)
    grid = (triton.cdiv(m, tile["ROWS"]), triton.cdiv(n, _COLUMNS), b)
    _scores_kernel[grid](query, key, vector, scores, m, n, d, **tile)
    return scores


def _gradients(first, second, vector, gradient, row_stride: int, column_stride: int):
    """Gradients of ``first (b, m, d)`` and of the vector, in the dtype of ``gradient``."""
    (b, m, d), n, tile = first.shape, second.shape[1], _tile_of(first.shape[1], gradient.dtype)
    blocks, strides = triton.cdiv(m, tile["ROWS"]), (row_stride, column_stride)
    to_first, to_vector = gradient.new_empty(b, m, d), gradient.new_empty(b, blocks, d)
    _gradient_kernel[(blocks, triton.cdiv(d, _WIDTH), b)](
        first, second, vector, gradient, to_first, to_vector, m, n, d, *strides, **tile
    )
    return to_first, to_vector.sum((0, 1))


def _score_gradients(query, key, vector, gradient):
    """Gradients of query, key and vector from that of the scores ``(b, m, n)``, contiguous."""
    n = key.shape[1]
    to_query, to_vector = _gradients(query, key, vector, gradient, n, 1)
    to_key, _ = _gradients(key, query, vector, gradient, 1, n)
    return to_query, to_key, to_vector


class _Scores(torch.autograd.Function):
    @staticmethod
    def forward(ctx, query, key, vector):
        ctx.save_for_backward(query, key, vector)
        wide = wide_dtype(query, key, vector)
        scores = _score_blocks(query, key, vector, wide)
        return scores.to(torch.promote_types(query.dtype, key.dtype))

    @staticmethod
    def backward(ctx, grad):
        check_once("additive scores by Triton")
        query, key, vector = ctx.saved_tensors
        grad = grad.to(wide_dtype(query, key, vector)).contiguous()
        found = _score_gradients(query, key, vector, grad)
        return tuple(g.to(t.dtype) for g, t in zip(found, (query, key, vector), strict=True))


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, query, key, value, vector, mask):
        (b, m, d), n, d_value = query.shape, key.shape[1], value.shape[-1]
        wide = wide_dtype(query, key, value, vector)
        context, lse = value.new_empty(b, m, d_value), query.new_empty(b, m, dtype=wide)
        tile = {**_tile_of(m, wide), "VALUES": max(16, triton.next_power_of_2(d_value))}
        allowed, strides = query, (0, 0, 0)  # no mask: any tensor stands in its place
        if mask is not None:
            allowed, strides = mask.view(torch.uint8), _strides(mask)
        arrays = query, key, value, vector, allowed, context, lse
        _attention_kernel[(triton.cdiv(m, tile["ROWS"]), b)](
            *arrays, m, n, d, d_value, *strides, MASKED=mask is not None, **tile
        )
        ctx.save_for_backward(query, key, value, vector, mask, context, lse)
        return context

    @staticmethod
    def backward(ctx, grad):
        check_once("attention with need_weights=False")
        query, key, value, vector, mask, context, lse = ctx.saved_tensors
        wide, (b, m, _), n = lse.dtype, query.shape, key.shape[1]
        grad = grad.to(wide)
        shared = (grad * context.to(wide)).sum(-1, keepdim=True)
        totals = [torch.zeros_like(t, dtype=wide) for t in (query, key, value, vector)]
        to_query, to_key, to_value, to_vector = totals
        rows = max(1, min(m, BUFFER // n))
        batches = max(1, BUFFER // (rows * n))
        for i in range(0, b, batches):
            for j in range(0, m, rows):
                at, part = slice(i, i + batches), slice(j, j + rows)
                q, k, v = query[at, part].contiguous(), key[at], value[at].to(wide)
                weight = _score_blocks(q, k, vector, wide).sub_(lse[at, part, None]).exp_()
                if mask is not None:
                    allowed = mask[at if len(mask) > 1 else slice(None)]
                    allowed = allowed[:, part if mask.shape[1] > 1 else slice(None)]
                    weight.masked_fill_(~allowed, 0.0)
                g = grad[at, part]
                to_value[at] += weight.mT @ g
                weight *= g @ v.mT - shared[at, part]
                found = _score_gradients(q, k, vector, weight)
                to_query[at, part] = found[0]
                to_key[at] += found[1]
                to_vector += found[2]
        inputs = (query, key, value, vector)
        return *(g.to(t.dtype) for g, t in zip(totals, inputs, strict=True)), None


def _strides(mask: Tensor) -> tuple[int, ...]:
    """Steps of a mask ``(b or 1, m or 1, n or 1)``; 0 where it is broadcast."""
    return tuple(
        0 if size == 1 else step for size, step in zip(mask.shape, mask.stride(), strict=True)
    )


def _flat(tensor: Tensor, batch: torch.Size) -> Tensor:
    """One leading dimension, contiguous."""
    return tensor.expand(*batch, *tensor.shape[-2:]).reshape(-1, *tensor.shape[-2:]).contiguous()


def additive_scores(query: Tensor, key: Tensor, vector: Tensor) -> Tensor:
    """``e_tj = v·tanh(q_t + k_j)``: as
    :func:`attnbook.kernels.additive.additive_scores`, differentiable once.
    """
    batch = torch.broadcast_shapes(query.shape[:-2], key.shape[:-2])
    scores = _Scores.apply(_flat(query, batch), _flat(key, batch), vector.contiguous())
    return scores.view(*batch, query.shape[-2], key.shape[-2])


def additive_attention(
    query: Tensor, key: Tensor, value: Tensor, vector: Tensor, mask: Tensor | None = None
) -> Tensor | None:
    """``context_t = Σ_j softmax_j(v·tanh(q_t + k_j)) value_j`` over the keys that the mask allows.

    Args:
        query: projected queries ``(…, m, d)``.
        key: projected keys ``(…, n, d)``.
        value: ``(…, n, d_v)``.
        vector: v, ``(d,)``.
        mask: boolean, broadcastable to ``(…, m, n)``; True = may attend.

    Returns:
        ``(…, m, d_v)``, zeros for a query that may attend to nothing, differentiable once; None for
        values wider than the kernel can hold.
    """
    if value.shape[-1] > _WIDEST_VALUE:
        return None
    batch = torch.broadcast_shapes(query.shape[:-2], key.shape[:-2], value.shape[:-2])
    if mask is not None:
        last = mask.shape[-2:] if mask.dim() > 1 else (1, *mask.shape)
        mask = (mask.expand(*batch, *last) if mask.dim() > 2 else mask).reshape(-1, *last)
    flat = (_flat(t, batch) for t in (query, key, value))
    context = _Attention.apply(*flat, vector.contiguous(), mask)
    return context.view(*batch, *context.shape[-2:])
