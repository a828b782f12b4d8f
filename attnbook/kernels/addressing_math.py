"""The mathematics of :mod:`~attnbook.mechanisms.memory.addressing` without its checks.

It is what a model runs at every step, once it has made the arguments itself: ``(batch, …)``, in
float32 at least."""

import torch

from .precision import without_autocast

__all__ = ["SHORTEST"]

SHORTEST = 1e-8
"""ε of :func:`~attnbook.mechanisms.memory.addressing.cosine_similarity`: the square of the length
below which a vector resembles nothing."""


def _read(memory, weights):
    with without_autocast(memory):
        return torch.bmm(weights, memory)


def _write(memory, weights, erase, add):
    with without_autocast(memory):
        one, columns = memory.new_ones(()), weights.mT
        # over heads: (batch, N, 1) and (batch, 1, M)
        for w, e in zip(columns.split(1, -1), erase.split(1, -2)):
            memory = memory * torch.baddbmm(one, w, e, alpha=-1)  # 1 − w e
        return torch.baddbmm(memory, columns, add)


def _scores(key, strength, memory):
    # β/‖k‖ goes to the key and 1/‖M(i)‖ to the score, so that the memory itself is not written
    # anew.
    scale = (key.square().sum(-1) + SHORTEST).rsqrt()
    scale = scale if strength is None else scale * strength
    with without_autocast(key):
        products = torch.bmm(key * scale.unsqueeze(-1), memory.mT)  # (batch, H, N)
    return products * (memory.square().sum(-1) + SHORTEST).rsqrt().unsqueeze(-2)


def _uniform_shift(lowest, shift_range):
    shifts = torch.arange(-shift_range, shift_range + 1, device=lowest.device, dtype=lowest.dtype)
    return (1 - (lowest.clamp(-shift_range, shift_range).unsqueeze(-1) - shifts).abs()).clamp_min(0)


def _circular_pad(weights, reach):
    """The weights with the last R slots once more in front and the first R after,
    ``(…, N + 2R)``."""
    return torch.cat(
        [weights[..., weights.shape[-1] - reach :], weights, weights[..., :reach]], dim=-1
    )


def _convolve(padded, kernel):
    """``w̃(i) = Σ_j s(j − R) w(i − (j − R))`` from the weights of :func:`_circular_pad`."""
    size = kernel.shape[-1]
    slots, parts = padded.shape[-1] - size + 1, kernel.split(1, -1)
    moved = padded[..., size - 1 :] * parts[0]
    for j in range(1, size):  # over shifts
        moved = torch.addcmul(moved, padded[..., size - 1 - j : size - 1 - j + slots], parts[j])
    return moved


def _shift(weights, kernel):
    return _convolve(_circular_pad(weights, kernel.shape[-1] // 2), kernel)


def _sharpen(weights, gamma):
    return (gamma.unsqueeze(-1) * weights.clamp_min(torch.finfo(weights.dtype).tiny).log()).softmax(
        -1
    )
