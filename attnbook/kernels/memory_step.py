"""One step of all heads on a memory: address, write, read; with a hand-written gradient."""

from typing import NamedTuple

import torch
from torch import Tensor

from ..validate import is_transforming
from .addressing_math import SHORTEST, _circular_pad, _convolve, _read, _scores, _sharpen, _shift
from .double_backward import check_once, under_double_backward
from .precision import without_autocast

__all__ = ["HeadParameters", "memory_step", "plain_memory_step"]


class HeadParameters(NamedTuple):
    """The parameters that a controller emits for H heads, the read heads first; ``erase`` and
    ``add`` for the write heads alone.
    """

    key: Tensor  # k, (batch, H, M)
    strength: Tensor  # β > 0, (batch, H)
    gate: Tensor  # g in (0, 1), (batch, H)
    kernel: Tensor  # s, (batch, H, 2R + 1)
    gamma: Tensor  # γ ≥ 1, (batch, H)
    erase: Tensor  # e in (0, 1), (batch, write heads, M)
    add: Tensor  # a, (batch, write heads, M)


def memory_step(memory: Tensor, previous: Tensor, heads: HeadParameters):
    """Address with all heads, write with the last ones, then read with the others.

    The same as :func:`plain_memory_step`. A step is many small operations, and PyTorch's own
    backward pass spends more time between them than in them; one written by hand takes half as
    long. A compiler does that by itself, and gets the plain one; so does who asks for
    :func:`attnbook.double_backward`.

    Shapes: memory ``(batch, N, M)``, previous ``(batch, H, N)``, float32 or float64.

    Returns:
        The new memory ``(batch, N, M)``, what was read ``(batch, read heads, M)``, the weights
        ``(batch, H, N)``. ``create_graph=True`` is a ``RuntimeError`` without that switch.
    """
    if torch.compiler.is_compiling() or under_double_backward() or is_transforming():
        return plain_memory_step(memory, previous, heads)
    return _MemoryStep.apply(memory, previous, *heads)


def plain_memory_step(memory: Tensor, previous: Tensor, heads: HeadParameters):
    """The step in the functions of :mod:`~attnbook.mechanisms.memory.addressing`, differentiated by
    PyTorch.
    """
    content = _scores(heads.key, heads.strength, memory).softmax(-1)
    gated = torch.lerp(previous, content, heads.gate.unsqueeze(-1))
    weights = _sharpen(_shift(gated, heads.kernel), heads.gamma)
    writers = heads.add.shape[1]
    reading, writing = weights.split([weights.shape[1] - writers, writers], dim=1)
    # Products with broadcasting, where addressing.write has matrix products: a compiler makes one
    # pass over the memory of them. over heads: (batch, 1, N) and (batch, 1, M)
    for w, e in zip(writing.split(1, 1), heads.erase.split(1, 1)):
        memory = memory * (1 - w.mT * e)
    for w, a in zip(writing.split(1, 1), heads.add.split(1, 1)):
        memory = memory + w.mT * a
    return memory, _read(memory, reading), weights


class _MemoryStep(torch.autograd.Function):
    @staticmethod
    def forward(ctx, memory, previous, key, strength, gate, kernel, gamma, erase, add):
        with without_autocast(memory):
            key_length = (key.square().sum(-1, keepdim=True) + SHORTEST).rsqrt_()  # 1/‖k‖
            # 1/‖M(i)‖, (batch, 1, N)
            slot_length = ((memory * memory).sum(-1) + SHORTEST).rsqrt_().unsqueeze(1)
            unit = key * key_length
            cosine = torch.bmm(unit, memory.mT).mul_(slot_length)
            content = (cosine * strength.unsqueeze(-1)).softmax(-1)
            gated = _circular_pad(
                torch.lerp(previous, content, gate.unsqueeze(-1)), kernel.shape[-1] // 2
            )
            shifted = _convolve(gated, kernel)
            logs = shifted.clamp_min(torch.finfo(shifted.dtype).tiny).log_()
            weights = (logs * gamma.unsqueeze(-1)).softmax(-1)

            one, readers = memory.new_ones(()), weights.shape[1] - add.shape[1]
            reading, writing = weights[:, :readers], weights[:, readers:].mT
            # before each erasure, and what it leaves: M, 1 − w e, M ⊙ (1 − w e), …
            stages = [memory]
            for w, e in zip(writing.split(1, -1), erase.split(1, 1)):  # over heads
                stages.append(torch.baddbmm(one, w, e, alpha=-1))
                stages.append(stages[-2] * stages[-1])
            after = torch.baddbmm(stages[-1], writing, add)
            reads = torch.bmm(reading, after)
        inputs = previous, strength, gate, kernel, gamma, erase, add
        steps = key_length, slot_length, unit, cosine, content, gated, shifted, logs, weights, after
        ctx.save_for_backward(*inputs, *steps, *stages[:-1])
        return after, reads, weights

    @staticmethod
    def backward(ctx, to_memory, to_reads, to_weights):
        check_once("memory_step")
        previous, strength, gate, kernel, gamma, erase, add, *steps = ctx.saved_tensors
        key_length, slot_length, unit, cosine, content, gated, *steps = steps
        shifted, logs, weights, after, *stages = steps
        readers = weights.shape[1] - add.shape[1]
        reading, writing = weights[:, :readers], weights[:, readers:]
        with without_autocast(to_memory):
            # r = w M', then M' = M̃ + w a, then each M̃ = M ⊙ (1 − w e)
            to_memory = torch.baddbmm(to_memory, reading.mT, to_reads)
            to_reading = to_reads @ after.mT
            to_writing = add @ to_memory.mT
            to_add = writing @ to_memory
            to_erase = torch.empty_like(erase)
            for h in reversed(range(add.shape[1])):
                before, kept = stages[2 * h], stages[2 * h + 1]
                products = to_memory * before
                to_writing[:, h : h + 1] -= erase[:, h : h + 1] @ products.mT
                to_erase[:, h : h + 1] = (writing[:, h : h + 1] @ products).neg_()
                to_memory = to_memory * kept
            # w = softmax(γ log w̃); w̃ = s ∗ w^g: the gradient moves the other way; w^g = g w^c +
            # (1 − g) w_{t−1}
            to_scaled = _softmax_gradient(
                torch.cat([to_reading, to_writing], dim=1).add_(to_weights), weights
            )
            to_gamma = (to_scaled * logs).sum(-1)
            tiny = torch.finfo(shifted.dtype).tiny
            to_shifted = (
                (to_scaled * gamma.unsqueeze(-1))
                .div_(shifted.clamp_min(tiny))
                .masked_fill_(shifted < tiny, 0)
            )
            # (batch, H, 2R + 1, N), what each shift brings, the last first
            windows = gated.unfold(-1, shifted.shape[-1], 1)
            to_kernel = (windows * to_shifted.unsqueeze(-2)).sum(-1).flip(-1)
            to_gated = _shift(to_shifted, kernel.flip(-1))
            to_content = to_gated * gate.unsqueeze(-1)
            to_gate = (to_gated * (content - previous)).sum(-1)
            # w^c = softmax(β cos), cos = k·M(i) / (‖k‖ ‖M(i)‖)
            to_scores = _softmax_gradient(to_content, content)
            to_cosine = to_scores * strength.unsqueeze(-1)
            to_products = to_cosine * slot_length
            to_unit = torch.bmm(to_products, stages[0])
            # (batch, 1, N)
            shrink = (to_cosine * cosine).sum(1, keepdim=True) * slot_length.square()
            to_memory = torch.baddbmm(to_memory, to_products.mT, unit).addcmul_(
                stages[0], shrink.mT, value=-1
            )
            to_key = (to_unit - unit * (to_unit * unit).sum(-1, keepdim=True)) * key_length
        return (
            to_memory,
            to_gated - to_content,
            to_key,
            (to_scores * cosine).sum(-1),
            to_gate,
            to_kernel,
            to_gamma,
            to_erase,
            to_add,
        )


def _softmax_gradient(gradient, weights):
    return weights * (gradient - (gradient * weights).sum(-1, keepdim=True))
