"""Linear attention: its past is a matrix of fixed size, with decay, gates or the delta rule."""

import math
from typing import Any, NamedTuple

from torch import Tensor, finfo
from torch.nn import functional as F

from ...kernels.precision import wide_dtype, without_autocast
from ...kernels.visible import (
    restore_nonfinite_recurrent,
    zero_nonfinite,
    zero_nonfinite_gate,
    zero_nonfinite_state,
)
from ...validate import (
    check_choice,
    check_dtypes,
    check_integer,
    check_mask,
    check_tensor,
    check_value,
    check_values,
    common_shape,
    describe,
    require,
)
from ..attention.masks import masks_by_name
from .forms import by_chunks, by_steps

__all__ = ["FORMS", "RecurrentOutput", "linear_attention", "positive_features", "unit_features"]

FORMS = ("chunks", "parallel", "recurrent")
"""The forms of :func:`linear_attention`: the same numbers in another order."""


class RecurrentOutput(NamedTuple):
    """What a recurrent attention gives: ``context (…, n, d_v)``, and the ``state`` after the last
    position, with which the next ones go on; of a layer a :class:`~attnbook.RecurrentState`.
    """

    context: Tensor
    state: Any


def positive_features(x: Tensor) -> Tensor:
    """``φ(x) = elu(x) + 1``: x + 1 above 0, exp(x) below; never negative.

    Shapes: any → the same. Source: Katharopoulos et al. 2020, equation 7.
    """
    return F.elu(x) + 1


def unit_features(x: Tensor) -> Tensor:
    """``φ(x) = y / ‖y‖`` with ``y = SiLU(x)``: of length 1, as the delta rule needs them.

    The length is ``√(Σ y² + 10⁻⁶)``, so that a vector of zeros stays one.

    Shapes: ``(…, d)`` → the same. Source: Yang et al. 2024 (DeltaNet), section 3.1.
    """
    y = F.silu(x)
    return y * (y.square().sum(-1, keepdim=True) + 1e-6).rsqrt()


@masks_by_name("key_mask", mask="key_mask")
def linear_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    key_mask: Tensor | None = None,
    log_decay: Tensor | None = None,
    strength: Tensor | None = None,
    normalise: bool = False,
    state: Tensor | None = None,
    form: str = "chunks",
    chunk_length: int = 64,
) -> RecurrentOutput:
    """Read from a matrix that every position writes to: causal attention without a softmax.

    ``S_t = diag(α_t) S_{t−1} + k_t v_tᵀ``,  ``o_t = S_tᵀ q_t = Σ_{j≤t} (q_t · Π_{j<l≤t} α_l k_j)
    v_j``

    With ``strength`` β the delta rule: what the decayed memory holds under the key is taken out
    before the value is put in, ``S_t = (I − β_t k_t k_tᵀ) diag(α_t) S_{t−1} + β_t k_t v_tᵀ``.

    With ``normalise`` the context is divided by ``q_t · z_t``, ``z_t = α_t ⊙ z_{t−1} + k_t``, so
    that it is a weighted mean of the values; queries and keys should then be positive, as
    :func:`positive_features` are. There is no scale 1/√d; put it into the queries.

    Papers: all decays 1 and ``normalise``, linear attention; one α for each head, retention; a
    number α_t, the state-space duality of Mamba-2, and with β the gated DeltaNet; a vector α_t,
    gated linear attention; β without decay, DeltaNet.

    Args:
        query, key: q and k, ``(…, n, d_k)``, after their feature map.
        value: v, ``(…, n, d_v)``. Leading dimensions broadcast; heads are one of them.
        key_mask: which positions are there, boolean, broadcastable to ``(…, n)``. Where it is False
            nothing is written and nothing forgotten, and the context is zero: padding before a text
            leaves the state empty, padding after it leaves the state as it is.
        log_decay: ``log α ≤ 0``, broadcastable to ``(…, n, 1)``, one number a position, or to
            ``(…, n, d_k)``, one a feature; when not given, nothing is forgotten.
        strength: β, broadcastable to ``(…, n)``; between 0 and 2 the memory cannot grow under
            keys of length 1.
        state: S after the positions before, ``(…, d_k, d_v)``, or ``(…, d_k, d_v + 1)`` with
            ``normalise``, its last column z; when not given, zeros.
        form: "chunks": products of matrices inside of chunks, then a step a chunk, the time grows
            with ``n (chunk_length + d)``; "parallel": one chunk, a matrix n×n; "recurrent": a step
            a position.
        chunk_length: of the form "chunks".

    Returns:
        :class:`RecurrentOutput`: context ``(…, n, d_v)`` as values, state in float32 at least.

    Source: Katharopoulos et al. 2020, equations 9, 18–20; Sun et al. 2023, equations 5–7; Yang et
    al. 2024 (gated linear attention), equations 3–5; Dao and Gu 2024, section 6; Schlag et al.
    2021, equation 24; Yang et al. 2024 (DeltaNet), section 3.2; merging blocks instead of dividing
    by decays is ours.
    """
    check_choice("form", form, FORMS)
    length = check_integer("chunk_length", chunk_length)
    check_tensor("query", query)
    check_tensor("key", key)
    check_value(value, key)
    require(
        query.shape[-2:] == key.shape[-2:] and key.shape[-2] >= 1,
        "query and key must have the same positions and widths (…, n, d_k) with n ≥ 1, got shapes "
        f"{tuple(query.shape)} and {tuple(key.shape)}",
    )
    check_dtypes(query, key, value)
    require(not (normalise and strength is not None), "normalise must be False with a strength β")
    try:
        batch = common_shape(query.shape[:-2], key.shape[:-2], value.shape[:-2])
    except RuntimeError:
        raise ValueError(
            "query, key and value must have leading dimensions that broadcast, got shapes "
            f"{tuple(query.shape)}, {tuple(key.shape)} and {tuple(value.shape)}"
        ) from None
    n, d_k, columns = *key.shape[-2:], value.shape[-1] + normalise
    check_mask(key_mask, (*batch, n), name="key_mask", axes="(…, positions)", true="is there")
    log_decay = _check_gate("log_decay", log_decay, (*batch, n, d_k), (*batch, n, 1))
    strength = _check_gate("strength", strength, (*batch, n))
    if log_decay is not None:
        check_values("log_decay", log_decay, -math.inf, 0)
    shape = (*batch, d_k, columns)
    require(
        state is None or (isinstance(state, Tensor) and state.shape == shape),
        f"state must be {shape}, got {describe(state)}",
    )

    dtype, wide = value.dtype, wide_dtype(query, key, value)
    with without_autocast(value):
        query, key, value = (t.to(wide) for t in (query, key, value))
        log_decay = None if log_decay is None else log_decay.to(wide)
        strength = None if strength is None else strength.to(wide).unsqueeze(-1)
        state = key.new_zeros(shape) if state is None else state.to(wide)
        if normalise:
            value = F.pad(value, (0, 1), value=1.0)
        valid = None if key_mask is None else key_mask.expand(*key_mask.shape[:-1], n)
        query, key, value, nonfinite = zero_nonfinite(query, key, value)  # what is not finite
        most = 1e-6 * finfo(wide).max
        strength, nonfinite = zero_nonfinite_gate(strength, nonfinite, n, least=-most, most=most)
        log_decay, nonfinite = zero_nonfinite_gate(log_decay, nonfinite, n, least=-math.inf, most=0)
        memory, lost = zero_nonfinite_state(query, state, heads=False)
        if valid is not None:
            kept = valid.unsqueeze(-1)
            query, key, value = (t.where(kept, 0.0) for t in (query, key, value))
            log_decay = None if log_decay is None else log_decay.where(kept, 0.0)
            strength = None if strength is None else strength.where(kept, 0.0)
        decay = None
        if log_decay is not None:
            decay = log_decay.exp().expand(*log_decay.shape[:-2], n, -1)
        if strength is not None:
            strength = strength.expand(*strength.shape[:-2], n, 1)
        arguments = query, key, value, decay, strength, memory
        if form == "recurrent":
            context, after = by_steps(*arguments)
        else:
            context, after = by_chunks(*arguments, n if form == "parallel" else length)
        if normalise:
            context, total = context.split([columns - 1, 1], -1)
            # before the first position that is there all is 0
            context = context / total.where(total != 0, 1.0)
        context, after = restore_nonfinite_recurrent(
            context, after, nonfinite, lost, valid, heads=False
        )
    return RecurrentOutput(context.to(dtype), after)


def _check_gate(name: str, gate: Tensor | None, *shapes: tuple[int, ...]) -> Tensor | None:
    """Return a gate that fits one of the shapes by broadcasting, or raise a ``ValueError``."""
    if gate is None:
        return None
    fits = (
        isinstance(gate, Tensor)
        and gate.is_floating_point()
        and any(
            gate.dim() <= len(shape)
            and all(a in (1, b) for a, b in zip(reversed(gate.shape), reversed(shape)))
            for shape in shapes
        )
    )
    if not fits:  # a compiler cannot spell a shape
        spelled = " or ".join(map(str, shapes))
        raise ValueError(f"{name} must be numbers broadcastable to {spelled}, got {describe(gate)}")
    missing = min(2, len(shapes[0])) - gate.dim()
    return gate.reshape((1,) * missing + tuple(gate.shape)) if missing > 0 else gate
