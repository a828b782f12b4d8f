"""Attention without the m×n matrix: blocks of scores, a softmax in one pass, and a backward pass
that recomputes.

A softmax over all keys needs their largest score before it can take the first exponential. What it
gives for *some* of the keys can be mended afterwards: when other keys bring a larger score, the sum
and the output that were taken relative to the smaller one are multiplied by the exponential of the
difference. So keys may come block by block, or a long source may be cut in parts that are attended
to apart, on other cores or other machines, and merged.

What is stored between the forward and the backward pass is the context and one number per query,
``lse = log Σ_j exp e_j``, from which any block of weights is ``exp(e − lse)`` again. Memory grows
with m + n. This works for every :class:`~attnbook.mechanisms.scores.base.Score`, because the
gradient of a block of scores is taken by automatic differentiation of ``score.compare`` on that
block alone, unless the score has a
:meth:`~attnbook.mechanisms.scores.base.Score.block_kernel` of its own.

Sources: Milakov and Gimelshein 2018, algorithm 3 (online softmax); Rabe and Staats 2021; Dao et al.
2022, section 3.1, for the dot product.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from itertools import groupby
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..validate import check_mask, check_tensor, is_readable, masks_by_name, require
from .double_backward import check_once
from .precision import autocast_as, autocast_state, wide_dtype, without_autocast
from .visible import Visible, is_finite

__all__ = [
    "BLOCK_ELEMENTS",
    "BlockKernel",
    "PartialContext",
    "blocks",
    "by_rows",
    "check_projected_width",
    "merge_contexts",
    "partial_context",
    "partial_unchecked",
    "stream_attention",
]

Gradients = Sequence[Tensor | None]
Pullback = Callable[[Tensor], Gradients]

BLOCK_ELEMENTS = 2**20
"""Elements of a block on a CPU: 4 MB in float32. It stays in the cache, and below the size at which
the C library gives buffers back to the kernel."""
_ACCELERATOR_ELEMENTS = 2**25  # many small kernels would leave it idle


def blocks(
    query: Tensor, key: Tensor, elements: int | None = None, longest: int | None = None
) -> Iterator[tuple[slice, slice, slice]]:
    """Yield ranges of (first dimension, queries, keys) for ``query (b, …, m, d)`` and
    ``key (b, …, n, d)``.

    A block is long in keys first, as the softmax reads whole rows, then in queries. ``elements`` is
    the upper bound of b × … × queries × keys × width in a block; it can be exceeded only by a
    single query and a single key. ``longest`` bounds queries and keys, as a window does."""
    if elements is None:
        elements = BLOCK_ELEMENTS if query.device.type == "cpu" else _ACCELERATOR_ELEMENTS
    size, m, n = query.shape[0], query.shape[-2], key.shape[-2]
    longest = max(m, n) if longest is None else longest
    per_pair = max(1, query.shape[1:-2].numel() * max(query.shape[-1], key.shape[-1]))
    keys = max(1, min(n, longest, elements // per_pair))
    queries = max(1, min(m, longest, elements // (per_pair * keys)))
    rows = max(1, min(size, elements // (per_pair * keys * queries)))
    for b in range(0, size, rows):
        for i in range(0, m, queries):
            for j in range(0, n, keys):
                yield (
                    slice(b, min(b + rows, size)),
                    slice(i, min(i + queries, m)),
                    slice(j, min(j + keys, n)),
                )


def by_rows(
    read: Callable[..., Tensor],
    tensors: Sequence[Tensor],
    m: int,
    rows: int,
    parameters: Sequence[Tensor] = (),
) -> Tensor:
    """``read(rows, *tensors)`` of m queries, some ``(…, rows, d)`` at a time. The backward pass
    reads each block again; gradients go to the tensors and to the ``parameters`` of ``read``.
    """
    if torch.compiler.is_compiling():
        return torch.cat([read(block, *tensors) for block in _cut_rows(m, rows)], dim=-2)
    return _ByRows.apply(read, m, rows, len(tensors), *tensors, *parameters)


def _cut_rows(m: int, rows: int) -> list[slice]:
    return [slice(start, min(start + rows, m)) for start in range(0, m, rows)]


class _ByRows(torch.autograd.Function):
    @staticmethod
    def forward(ctx, read, m, rows, count, *inputs):
        context: Any = None
        for block in _cut_rows(m, rows):
            part = read(block, *inputs[:count])
            if context is None:  # what stays is made once: pieces of it would break up the memory
                context = part.new_empty(*part.shape[:-2], m, part.shape[-1])
            context[..., block, :] = part
        ctx.read, ctx.rows, ctx.count, ctx.parameters = read, rows, count, inputs[count:]
        ctx.autocast = autocast_state(context)
        ctx.save_for_backward(*inputs)
        return context

    @staticmethod
    def backward(ctx, grad_context):
        check_once("attention with need_weights=False")
        needed, inputs = ctx.needs_input_grad[4:], ctx.saved_tensors
        totals = [
            torch.zeros_like(t, dtype=wide_dtype(t)) if needs else None
            for t, needs in zip(inputs, needed)
        ]
        for block in _cut_rows(grad_context.shape[-2], ctx.rows):
            with torch.enable_grad(), autocast_as(ctx.autocast):
                given = [
                    t.detach().requires_grad_(needs)
                    for t, needs in zip(inputs[: ctx.count], needed)
                ]
                part = ctx.read(block, *given)
            wanted = [t for t, needs in zip((*given, *ctx.parameters), needed) if needs]
            found = iter(
                torch.autograd.grad(part, wanted, grad_context[..., block, :], allow_unused=True)
            )
            for total in totals:
                if total is not None and (grad := next(found)) is not None:
                    total += grad
        grads = (None if s is None else s.to(t.dtype) for s, t in zip(totals, inputs))
        return None, None, None, None, *grads


class BlockKernel:
    """Scores of a block of queries and keys, and their gradient by automatic differentiation.

    Args:
        compare: ``(queries, projected keys) -> scores``.
        query: what :func:`compare` takes as queries, ``(…, m, width)``.
        parameters: what else the scores depend on, and whose gradients are wanted.
    """

    def __init__(
        self,
        compare: Callable[[Tensor, Tensor], Tensor],
        query: Tensor,
        parameters: tuple[Tensor, ...],
    ) -> None:
        self.compare, self.query, self.parameters = compare, query, parameters

    def compare_with_pullback(self, query: Tensor, projected: Tensor) -> tuple[Tensor, Pullback]:
        """Compare, and keep what the backward pass needs.

        Returns:
            The scores, detached, and a function from their gradient ``(…, m, n)`` to the gradients
            of ``query``, of ``projected`` and of each of the parameters; None where there is none.
            It is called once.
        """
        with torch.enable_grad():
            q, k = query.detach().requires_grad_(), projected.detach().requires_grad_()
            scores = self.compare(q, k)

        def pullback(grad: Tensor) -> Gradients:
            inputs = [q, k, *self.parameters]
            wanted = [t for t in inputs if t.requires_grad]
            grads = iter(
                torch.autograd.grad(scores, wanted, grad.to(scores.dtype), allow_unused=True)
            )
            return [next(grads) if t.requires_grad else None for t in inputs]

        return scores.detach(), pullback


def check_projected_width(width: int, projected: Tensor) -> None:
    """Raise a ``ValueError`` unless projected keys are as wide as what they are compared with."""
    if projected.shape[-1] != width:
        raise ValueError(
            f"projected_keys must have width {width}, as project_keys(key) has, got shape "
            f"{tuple(projected.shape)}"
        )


def stream_attention(
    score, query, projected, value, visible=None, block_elements: int | None = None, sink=None
) -> Tensor:
    """Context of attention, never storing more than a block of weights.

    ``context_t = Σ_j softmax_j(score(query_t, key_j)) value_j``

    Args:
        score: a :class:`Score`; its parameters receive gradients.
        query: ``(…, m, d_q)``.
        projected: ``(…, n, width)``, the result of ``score.project_keys(key)``.
        value: ``(…, n, d_v)``.
        visible: a :class:`Visible`, what the queries see; everything when not given.
        block_elements: upper bound of a block, see
            :data:`~attnbook.kernels.streaming.BLOCK_ELEMENTS`.
        sink: numbers broadcastable to ``(…, m)``, a score for each query that belongs to no key.

    Returns:
        Context ``(…, m, d_v)``; zeros for a query that may attend to nothing. Differentiable once:
        ``create_graph=True`` is a ``RuntimeError``.
    """
    batch = torch.broadcast_shapes(query.shape[:-2], projected.shape[:-2], value.shape[:-2])
    kernel = score.fast_path("block_kernel")(query)
    size = batch or (1,)  # blocks are cut along the first of the leading dimensions
    query, projected, value = (
        t.expand(*size, *t.shape[-2:]) for t in (kernel.query, projected, value)
    )
    if sink is not None:  # (…, m, 1)
        sink = sink.to(wide_dtype(value)).expand(*size, query.shape[-2]).unsqueeze(-1)
    context = _Stream.apply(
        kernel,
        block_elements,
        Visible() if visible is None else visible,
        query,
        projected,
        value,
        sink,
        *kernel.parameters,
    )
    return context if batch else context[0]


def _visible_blocks(visible, query, projected, elements):
    """Blocks of which something may be seen, with the part of the mask that belongs to each, None
    for all, and whether it is the first and the last of its queries.
    """
    m, n, dims = query.shape[-2], projected.shape[-2], query.dim()
    near = Visible(None, visible.reach)  # and, far from these, the first
    longest = None if visible.reach is None else max(visible.reach, 128)
    every = blocks(query, projected, elements, longest)
    for (b, r), row in groupby(every, key=lambda block: block[:2]):
        reached, mask = near.reached(r, m, n), visible.mask
        if mask is not None and mask.dim() >= dims and mask.shape[-dims] != 1:
            mask = mask[(slice(None),) * (mask.dim() - dims) + (b,)]
        columns = [c for *_, c in row if c.start < reached.stop]
        inside = [c for c in columns if c.stop > reached.start or c.start < visible.first]
        for c in inside:
            allowed = Visible(mask, visible.reach, visible.first).block(r, c, m, n, query.device)
            yield b, r, c, allowed, c is inside[0], c is inside[-1]


class _Stream(torch.autograd.Function):
    @staticmethod
    def forward(ctx, kernel, block_elements, visible, query, projected, value, sink, *parameters):
        wide = wide_dtype(value)
        context = value.new_empty(*query.shape[:-1], value.shape[-1])
        lse = query.new_empty(query.shape[:-1], dtype=wide)
        running = None
        for b, r, c, allowed, _, is_last in _visible_blocks(
            visible, query, projected, block_elements
        ):
            e = kernel.compare(query[b, ..., r, :], projected[b, ..., c, :]).to(wide)
            part = partial_unchecked(e, value[b, ..., c, :].to(wide), allowed)
            running = part if running is None else merge_contexts(running, part)
            if is_last:
                if sink is not None:
                    none = torch.zeros_like(running.summed)
                    top = sink[b, ..., r, :]
                    running = merge_contexts(
                        running, PartialContext(top, torch.ones_like(top), none)
                    )
                context[b, ..., r, :] = running.context
                lse[b, ..., r] = running.log_sum_exp.squeeze(-1)
                running = None
        ctx.kernel, ctx.block_elements, ctx.visible = kernel, block_elements, visible
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
        for b, r, c, allowed, is_first, _ in _visible_blocks(
            ctx.visible, query, projected, ctx.block_elements
        ):
            rows, columns = (b, ..., r, slice(None)), (b, ..., c, slice(None))
            if is_first:
                g = grad_context[rows].to(wide)
                # dot(gradient, context) is what the softmax subtracts from every key's share
                shared = (g * context[rows]).sum(-1, keepdim=True)
                if grad_sink is not None:
                    grad_sink[rows] = (sink[rows] - lse[b, ..., r].unsqueeze(-1)).exp() * -shared
            with autocast_as(ctx.autocast):
                e, pullback = ctx.kernel.compare_with_pullback(query[rows], projected[columns])
            weight = (e.to(wide) - lse[b, ..., r].unsqueeze(-1)).exp_()
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

    top: Tensor
    total: Tensor
    summed: Tensor

    @property
    def context(self) -> Tensor:
        """``summed / total``, ``(…, m, d_v)``; zeros for a query that may attend to nothing."""
        # whoever may attend to something has at least the 1 of the largest score
        return self.summed / self.total.clamp_min(torch.finfo(self.total.dtype).tiny)

    @property
    def log_sum_exp(self) -> Tensor:
        """``log Σ_j exp(e_j) = top + log total``, ``(…, m, 1)``; −∞ for a query that may attend to
        nothing."""
        return self.top + self.total.log()


@masks_by_name("mask")
def partial_context(scores: Tensor, value: Tensor, *, mask: Tensor | None = None) -> PartialContext:
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
    scores = scores.to(wide_dtype(scores, value))
    if mask is None or (is_readable(value) and is_finite(value)):
        return partial_unchecked(scores, value, mask)
    finite = value.isfinite().all(-1)  # (…, n)
    found = partial_unchecked(scores, value.where(finite.unsqueeze(-1), 0.0), mask)
    met = (mask & ~finite.unsqueeze(-2)).any(-1, keepdim=True)
    return found._replace(summed=found.summed.masked_fill(met, math.nan))


def partial_unchecked(scores: Tensor, value: Tensor, mask: Tensor | None) -> PartialContext:
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
