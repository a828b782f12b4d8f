"""How a head addresses a memory, by content, by location, or by both, and what it reads and writes
there.

A memory has N slots (rows) of width M. A head addresses it by weights w, a distribution over the
slots. In all functions the leading dimensions are free, H heads are one more of them, and
everything is computed in float32 at least, also under autocast. Numbers out of their range, such
as a gate above 1, are refused on a CPU alone: on a GPU the look would wait for it.

Source: Graves, Wayne and Danihelka 2014, "Neural Turing Machines", sections 3.1 to 3.3.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from ...kernels.addressing_math import (
    SHORTEST,
    _read,
    _scores,
    _sharpen,
    _shift,
    _uniform_shift,
    _write,
)
from ...kernels.precision import wide_dtype
from ...validate import check_integer, check_tensor, check_values, common_shape, describe, require

__all__ = ["SHORTEST", "Addressed", "address", "content_weights", "cosine_similarity"]
__all__ += ["interpolate", "read", "sharpen", "shift", "uniform_shift", "write"]


class Addressed(NamedTuple):
    """The weights after each of the four stages, ``(…, H, N)``; ``weights`` is the last one."""

    content: Tensor  # w^c, by content
    gated: Tensor  # w^g, mixed with the weights of the step before
    shifted: Tensor  # w̃, moved along the slots
    weights: Tensor  # w, sharpened


def read(memory: Tensor, weights: Tensor) -> Tensor:
    """Read a weighted sum of the slots.

    ``r = Σ_i w(i) M(i)``

    Shapes: memory ``(…, N, M)``, weights ``(…, H, N)`` → ``(…, H, M)``.

    Source: section 3.1, equation 2.
    """
    _check_memory(memory, weights=weights)
    return _batched(_read, *_wide(memory, weights))


def write(memory: Tensor, weights: Tensor, erase: Tensor, add: Tensor) -> Tensor:
    """Erase, then add, at the weights of all write heads.

    ``M̃(i) = M(i) ⊙ Π_h (1 − w_h(i) e_h)``, then ``M'(i) = M̃(i) + Σ_h w_h(i) a_h``. All heads
    erase before any head adds, so their order does not matter.

    Args:
        memory: ``(…, N, M)``; it is not changed.
        weights: ``(…, H, N)``.
        erase: e, ``(…, H, M)`` in [0, 1]: 1 wipes that column of a slot where w is 1, 0 keeps it.
        add: a, ``(…, H, M)``.

    Returns:
        The new memory ``(…, N, M)``.

    Source: section 3.2, equations 3 and 4.
    """
    _check_memory(memory, weights=weights, erase=erase, add=add)
    check_values("erase", erase, 0, 1)
    return _batched(_write, *_wide(memory, weights, erase, add))


def cosine_similarity(key: Tensor, memory: Tensor) -> Tensor:
    """Compare each key with each slot.

    ``cos(k, M(i)) = k·M(i) / √((k·k + ε)(M(i)·M(i) + ε))`` with ε = 1e-8. Without ε it is the
    cosine of the angle, which a vector of zeros does not have. With ε *inside* the root both the
    value (0) and the gradient (at most 1/√ε) are finite there; vectors longer than 0.01 are
    compared to four digits as without.

    Shapes: key ``(…, H, M)``, memory ``(…, N, M)`` → ``(…, H, N)``.

    Source: section 3.3.1, equation 6; ε is ours.
    """
    _check_memory(memory, key=key)
    return _batched(lambda key, memory: _scores(key, None, memory), *_wide(key, memory))


def content_weights(key: Tensor, strength: Tensor, memory: Tensor) -> Tensor:
    """Focus on the slots that resemble a key.

    ``w^c(i) = softmax_i(β cos(k, M(i)))``

    Args:
        key: k, ``(…, H, M)``.
        strength: β > 0, ``(…, H)``: the larger, the narrower the focus.
        memory: ``(…, N, M)``.

    Returns:
        ``(…, H, N)``.

    Source: section 3.3.1, equation 5.
    """
    _check_memory(memory, key=key)
    _check_heads("strength", strength, key)
    _check_leading(memory=memory.shape[:-2], key=key.shape[:-2], strength=strength.shape[:-1])
    check_values("strength", strength, 0)
    key, strength, memory = _wide(key, strength, memory)
    return (strength.unsqueeze(-1) * cosine_similarity(key, memory)).softmax(-1)


def interpolate(content: Tensor, previous: Tensor, gate: Tensor) -> Tensor:
    """Choose between looking up a content and starting from where the head was.

    ``w^g = g w^c + (1 − g) w_{t−1}``

    Shapes: content and previous ``(…, H, N)``, gate ``(…, H)``, in [0, 1] → ``(…, H, N)``.

    Source: section 3.3.2, equation 7.
    """
    _check_weights("content", content)
    _check_weights("previous", previous, like=content)
    _check_heads("gate", gate, content)
    _check_leading(content=content.shape[:-2], previous=previous.shape[:-2], gate=gate.shape[:-1])
    check_values("gate", gate, 0, 1)
    content, previous, gate = _wide(content, previous, gate)
    return torch.lerp(previous, content, gate.unsqueeze(-1))


def uniform_shift(lowest: Tensor, shift_range: int) -> Tensor:
    """Make a kernel of shifts from one number: all shifts between x and x + 1 alike, each cut down
    to a whole number.

    ``s(k) = max(0, 1 − |x − k|)`` for k = −R … R. A shift of x = 6.7 means 0.3 on 6 and 0.7 on 7.

    Args:
        lowest: x, ``(…,)``, the lower bound of the uniform distribution of width one; cut off at
            ±R.
        shift_range: R ≥ 1.

    Returns:
        ``(…, 2R + 1)``; entry j is the weight of the shift j − R.

    Source: section 3.3.2, its second way to define a shift; drawn in Weng 2018, figure 11.
    """
    check_integer("shift_range", shift_range)
    require(
        isinstance(lowest, Tensor) and lowest.is_floating_point(),
        f"lowest must be a tensor of floating point numbers, got {describe(lowest)}",
    )
    return _uniform_shift(lowest.to(wide_dtype(lowest)), shift_range)


def shift(weights: Tensor, kernel: Tensor) -> Tensor:
    """Move the weights along the slots, around the end: a circular convolution.

    ``w̃(i) = Σ_{k = −R … R} s(k) w((i − k) mod N)``. A *positive* shift moves to *higher* slots:
    all of s on k = 1 brings what was on slot 0 to slot 1, and what was on the last slot to slot 0.

    Args:
        weights: w, ``(…, H, N)``.
        kernel: s, ``(…, H, 2R + 1)``, a distribution; entry j is the weight of the shift j − R. 2R
            + 1 ≤ N.

    Returns:
        ``(…, H, N)``.

    Source: section 3.3.2, equation 8.
    """
    _check_weights("weights", weights)
    check_tensor("kernel", kernel)
    require(
        kernel.shape[-1] % 2 == 1 and kernel.shape[-1] <= weights.shape[-1],
        f"kernel must have an odd number of shifts (−R … R), at most {weights.shape[-1]}, one per "
        f"slot, got {kernel.shape[-1]}",
    )
    require(
        kernel.shape[-2] == weights.shape[-2],
        f"kernel must have one row per head, {weights.shape[-2]}, got shape {tuple(kernel.shape)}",
    )
    _check_leading(weights=weights.shape[:-2], kernel=kernel.shape[:-2])
    return _shift(*_wide(weights, kernel))


def sharpen(weights: Tensor, gamma: Tensor) -> Tensor:
    """Undo the blur of the shift.

    ``w'(i) = w(i)^γ / Σ_j w(j)^γ``, computed as ``softmax(γ log w)``, so that no power underflows
    into 0/0. Where w is 0, the result is below 1e-37 and the gradient 0.

    Args:
        weights: ``(…, H, N)``, not negative.
        gamma: γ ≥ 1, ``(…, H)``; 1 changes nothing, less would blur further.

    Returns:
        ``(…, H, N)``.

    Source: section 3.3.2, equation 9.
    """
    _check_weights("weights", weights)
    _check_heads("gamma", gamma, weights)
    _check_leading(weights=weights.shape[:-2], gamma=gamma.shape[:-1])
    check_values("weights", weights, 0)
    check_values("gamma", gamma, 1)
    return _sharpen(*_wide(weights, gamma))


def address(
    memory: Tensor,
    previous: Tensor,
    key: Tensor,
    strength: Tensor,
    gate: Tensor,
    kernel: Tensor,
    gamma: Tensor,
) -> Addressed:
    """Address the memory in four stages: content, interpolation, shift, sharpening.

    ``w^c = softmax(β cos(k, M))``, ``w^g = g w^c + (1 − g) w_{t−1}``, ``w̃ = s ∗ w^g``,
    ``w = w̃^γ / Σ w̃^γ``

    Shapes: memory ``(…, N, M)``; previous ``(…, H, N)``; key ``(…, H, M)``; strength, gate and
    gamma ``(…, H)``; kernel ``(…, H, 2R + 1)``. Each stage is a distribution over the slots if
    ``previous`` and ``kernel`` are distributions.

    Source: section 3.3 and figure 2.
    """
    content = content_weights(key, strength, memory)
    gated = interpolate(content, previous, gate)
    shifted = shift(gated, kernel)
    return Addressed(content, gated, shifted, sharpen(shifted, gamma))


def _batched(function, *tensors):
    """Call a function of ``(batch, …, …)`` on tensors whose leading dimensions broadcast."""
    leading = torch.broadcast_shapes(*(t.shape[:-2] for t in tensors))
    out = function(*(t.expand(*leading, -1, -1).reshape(-1, *t.shape[-2:]) for t in tensors))
    return out.view(*leading, *out.shape[-2:])


def _wide(*tensors):
    dtype = wide_dtype(*tensors)
    return tuple(t.to(dtype) for t in tensors)


def _check_leading(**leading):
    try:
        common_shape(*leading.values())
    except RuntimeError:
        *names, last = leading
        raise ValueError(
            f"{', '.join(names)} and {last} must have leading dimensions that broadcast, got "
            + " and ".join(str(tuple(shape)) for shape in leading.values())
        ) from None


def _check_weights(name, weights, like=None):
    check_tensor(name, weights)
    expected = tuple((weights if like is None else like).shape[-2:])
    require(
        weights.shape[-2:] == expected,
        f"{name} must have {expected} as its last dimensions (heads, slots), got shape "
        f"{tuple(weights.shape)}",
    )


def _check_memory(memory, weights=None, **vectors):
    n, width = check_tensor("memory", memory).shape[-2:]
    heads = None
    if weights is not None:
        check_tensor("weights", weights)
        require(
            weights.shape[-1] == n,
            f"weights must be (…, heads, {n}), one entry per slot of the memory, got shape "
            f"{tuple(weights.shape)}",
        )
        heads = weights.shape[-2]
    for name, vector in vectors.items():
        check_tensor(name, vector)
        require(
            vector.shape[-1] == width and heads in (None, vector.shape[-2]),
            f"{name} must be (…, {'heads' if heads is None else heads}, {width}), a row per head "
            f"as wide as a slot, got shape {tuple(vector.shape)}",
        )
    parts = {"memory": memory, **({} if weights is None else {"weights": weights}), **vectors}
    _check_leading(**{name: part.shape[:-2] for name, part in parts.items()})


def _check_heads(name, values, like):
    require(
        isinstance(values, Tensor)
        and values.is_floating_point()
        and values.dim() >= 1
        and values.shape[-1] == like.shape[-2],
        f"{name} must hold one number per head, (…, {like.shape[-2]}), got {describe(values)}",
    )
