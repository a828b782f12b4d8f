"""Heads of linear attention as a layer, which stands in a model where multi-head attention does."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ...kernels.layers import Linear
from ...kernels.visible import restore_nonfinite_recurrent, zero_nonfinite, zero_nonfinite_state
from ...validate import check_choice, check_integer, check_tensor, describe, require
from ..attention.masks import masks_by_name
from ..caches.key_value import Read
from ..layers.norms import RMSNorm
from .linear import RecurrentOutput, linear_attention, positive_features, unit_features
from .short_convolution import ShortConvolution, valid_positions

__all__ = ["LINEAR_ATTENTIONS", "HeadDecay", "LinearAttention", "RecurrentState"]

DECAYS = (None, "constant", "scalar", "vector")
_RANK, _SOFTER = 16, 16.0  # of the vector gate: the width of its bottleneck, and τ


class RecurrentState(NamedTuple):
    """What a recurrent attention knows of the positions before, of one size whatever their number.

    Attributes:
        memory: S, ``(…, h, d_k, d_v)``.
        recent: the last inputs of the short convolution, ``(…, K − 1, width)``, or None.
    """

    memory: Tensor
    recent: Tensor | None

    def cut(self, number: int) -> RecurrentState:
        """Raise a ``ValueError``: unlike a cache, a state cannot lose what was written last."""
        raise ValueError(
            f"number must be 0 with a recurrent state, which keeps no positions, got {number}"
        )


class HeadDecay(nn.Module):
    """One decay for each head at each position, from a step size that the input chooses.

    ``Δ_t = softplus(x_t + b)``,  ``log α_t = −e^a Δ_t``

    The heads begin with rates ``e^a`` of 1, 2, …, and with step sizes between 0.001 and 0.1.

    Shapes: x ``(…, n, h)`` → Δ and log α, each ``(…, h, n)``.

    Source: Dao and Gu 2024, section 7; Gu and Dao 2023, section 3.6.
    """

    def __init__(self, num_heads: int) -> None:
        super().__init__()
        rates = torch.arange(1, check_integer("num_heads", num_heads) + 1).float()
        self.log_rate = nn.Parameter(rates.log())  # a
        low, high = math.log(0.001), math.log(0.1)
        steps = torch.empty(num_heads).uniform_(low, high).exp()
        self.bias = nn.Parameter(steps + (-torch.expm1(-steps)).log())  # softplus⁻¹

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        step = F.softplus(x + self.bias)
        return step.mT, (-self.log_rate.exp() * step).mT


class RecurrentAttention(nn.Module):
    """A layer whose past is a state: a subclass says by :meth:`run` what becomes of both."""

    d_model: int

    def run(self, x, valid, memory, recent) -> tuple[Tensor, RecurrentState]:
        """The context of positions x, zeros where none is ``valid (…, m)``, and the state after
        them; memory and recent are those of the state before, None at the beginning.
        """
        raise NotImplementedError(f"{type(self).__name__} must define run")

    @masks_by_name("mask")
    def forward(
        self,
        x: Tensor,
        *,
        mask: Tensor | None = None,
        key_mask: Tensor | None = None,
        is_causal: bool = True,
        state: RecurrentState | None = None,
    ) -> RecurrentOutput:
        """Run over the positions x, which come after those of the state, from left to right: only
        a mask of pairs may say so in place of ``is_causal``.
        """
        check_tensor("x", x, width=self.d_model)
        pairs = isinstance(mask, Tensor) and mask.dim() > 1 and mask.shape[-2] > 1
        require(
            is_causal is True or is_causal is False and (x.shape[-2] == 1 or pairs),
            "is_causal must be True, as a recurrent attention reads from left to right, got "
            f"{describe(is_causal) if isinstance(is_causal, Tensor) else is_causal}",
        )
        valid = valid_positions(x, mask, key_mask)
        if valid is not None:
            x = x.where(valid.unsqueeze(-1), 0.0)
        x, _, _, nonfinite = zero_nonfinite(x, x, x)  # what is not finite
        memory, recent = (None, None) if state is None else state
        memory, lost = zero_nonfinite_state(x, memory)
        context, (memory, recent) = self.run(x, valid, memory, recent)
        context, memory = restore_nonfinite_recurrent(context, memory, nonfinite, lost, valid)
        return RecurrentOutput(context, RecurrentState(memory, recent))

    def read(
        self,
        x: Tensor,
        *,
        mask: Tensor | None = None,
        is_causal: bool = True,
        cache: RecurrentState | None = None,
        position: int | Tensor = 0,
        need_weights: bool = False,
    ) -> Read:
        """As :meth:`attnbook.MultiHeadAttention.read`; always causal, the state is the cache, which
        knows how far the text has come, and there are no weights.
        """
        context, state = self(x, mask=mask, is_causal=is_causal, state=cache)
        return Read(context, state, None)


class LinearAttention(RecurrentAttention):
    """Causal multi-head attention with a state of fixed size instead of a cache that grows.

    ``head_h = linear_attention(φ(x W_q), φ(x W_k), x W_v, …)``, see
    :func:`~attnbook.mechanisms.recurrent.linear.linear_attention`; the heads side by
    side, then ``W_o``. Without arguments that of Katharopoulos et al.; :data:`LINEAR_ATTENTIONS`
    has the arguments of others.

    In a Transformer it stands where :class:`~attnbook.mechanisms.attention.multi_head.
    MultiHeadAttention` does, and the state is the cache. It is causal whatever the mask says: of a
    mask it takes which positions are there.

    Args:
        d_model: width of x and of the result.
        num_heads: ``h``.
        d_head: width of queries and keys in a head; ``d_model / num_heads`` when not given.
        d_head_value: width of values in a head; ``d_head`` when not given.
        feature_map: φ, from ``(…, d_head)`` to the same; None for none.
        normalise: divide the context by the sum of its weights; if not, each head's context goes
            through an RMS norm, as in the papers since 2023.
        decay: None; "constant", ``α_h = 1 − 2^(−5−h)``, h = 0, 1, …; "scalar", a number for each
            position and head, see :class:`HeadDecay`; "vector", a number for each feature of the
            keys, too, ``α_t = σ(W_2 W_1 x_t + b)^(1/16)`` with 16 rows in W_1.
        delta: whether the delta rule writes, with ``β_t = σ(W_β x_t)``.
        gate: whether the context is multiplied by ``SiLU(x W_g)`` before W_o.
        convolution: K of a :class:`~attnbook.mechanisms.recurrent.short_convolution.
            ShortConvolution` of queries, keys and values; 0 for none.

    Shapes: x ``(…, m, d_model)``, mask broadcastable to ``(…, m, n)``, key_mask to ``(…, m)`` →
    :class:`RecurrentOutput`, context ``(…, m, d_model)`` and :class:`RecurrentState`. A position
    that is not there gets zeros and writes nothing into the memory; a short convolution reads zeros
    where it stands.

    Source: Katharopoulos et al. 2020, section 3.2; Sun et al. 2023, section 2.2 (here without its
    rotation); Yang et al. 2024 (gated linear attention), section 4.4; Yang et al. 2024 (DeltaNet),
    section 3.4; Yang et al. 2025 (gated DeltaNet), section 3.4.
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        *,
        d_head: int | None = None,
        d_head_value: int | None = None,
        feature_map: Callable[[Tensor], Tensor] | None = positive_features,
        normalise: bool = True,
        decay: str | None = None,
        delta: bool = False,
        gate: bool = False,
        convolution: int = 0,
    ) -> None:
        super().__init__()
        self.d_model = check_integer("d_model", d_model)
        self.num_heads = check_integer("num_heads", num_heads)
        require(
            d_head is not None or d_model % num_heads == 0,
            f"d_model must divide by num_heads, got {d_model} and {num_heads}: give d_head, or "
            f"another number",
        )
        self.d_head = check_integer("d_head", d_model // num_heads if d_head is None else d_head)
        d_head_value = self.d_head if d_head_value is None else d_head_value
        self.d_head_value = check_integer("d_head_value", d_head_value)
        require(not (normalise and delta), "normalise must be False with delta")
        self.feature_map, self.normalise = feature_map, normalise
        self.decay, self.delta = check_choice("decay", decay, DECAYS), delta
        wide, wide_value = num_heads * self.d_head, num_heads * self.d_head_value
        self.widths = (wide, wide, wide_value)
        # W_q, W_k and W_v of all heads
        self.input_projection = self._linear(d_model, sum(self.widths))
        kernel = check_integer("convolution", convolution, 0)
        self.convolution = ShortConvolution(sum(self.widths), kernel) if kernel else None
        if decay == "scalar":
            self.decay_projection = self._linear(d_model, num_heads)
            self.head_decay = HeadDecay(num_heads)
        elif decay == "vector":
            self.decay_projection = nn.Sequential(self._linear(d_model, _RANK), Linear(_RANK, wide))
        self.strength_projection = self._linear(d_model, num_heads) if delta else None  # W_β
        self.norm = None if normalise else RMSNorm(self.d_head_value)
        self.gate_projection = self._linear(d_model, wide_value) if gate else None  # W_g
        self.output_projection = self._linear(wide_value, d_model)  # W_o

    @staticmethod
    def _linear(d_in: int, d_out: int) -> Linear:
        layer = Linear(d_in, d_out, bias=False)
        nn.init.xavier_uniform_(layer.weight)
        return layer

    def run(self, x, valid, memory, recent) -> tuple[Tensor, RecurrentState]:
        projected = self.input_projection(x)
        if self.convolution is not None:
            projected, recent = self.convolution(projected, recent, key_mask=valid)
        query, key, value = map(self._split, projected.split(self.widths, -1))
        if self.feature_map is not None:
            query, key = self.feature_map(query), self.feature_map(key)
        strength = None
        if self.strength_projection is not None:
            strength = self.strength_projection(x).sigmoid().mT  # (…, h, m)
        context, memory = linear_attention(
            query,
            key,
            value,
            key_mask=None if valid is None else valid.unsqueeze(-2),
            log_decay=self._log_decay(x),
            strength=strength,
            normalise=self.normalise,
            state=memory,
            form="recurrent" if x.shape[-2] == 1 else "chunks",
        )
        if self.norm is not None:
            context = self.norm(context)
        context = context.transpose(-3, -2).flatten(-2)  # heads side by side
        if self.gate_projection is not None:
            context = context * F.silu(self.gate_projection(x))
        return self.output_projection(context), RecurrentState(memory, recent)

    def _log_decay(self, x: Tensor) -> Tensor | None:
        """``log α``: ``(h, 1, 1)``, ``(…, h, m, 1)``, ``(…, h, m, d_head)``, or None."""
        if self.decay is None:
            return None
        if self.decay == "constant":
            # 1 − α = 2^(−5 − head), exact in any dtype
            forgotten = torch.exp2(-5.0 - torch.arange(self.num_heads, device=x.device))
            return torch.log1p(-forgotten.to(x.dtype)).view(-1, 1, 1)
        gates = self.decay_projection(x)
        if self.decay == "scalar":
            return self.head_decay(gates)[1].unsqueeze(-1)
        return F.logsigmoid(self._split(gates)) / _SOFTER

    def _split(self, projected: Tensor) -> Tensor:
        """``(…, m, h·w)`` → ``(…, h, m, w)``."""
        return projected.unflatten(-1, (self.num_heads, -1)).transpose(-3, -2)


_DELTA = {"feature_map": unit_features, "normalise": False, "delta": True, "convolution": 4}
LINEAR_ATTENTIONS: dict[str, dict[str, Any]] = {
    "linear": {},
    "retention": {"feature_map": None, "normalise": False, "decay": "constant", "gate": True},
    "gated": {"feature_map": None, "normalise": False, "decay": "vector", "gate": True},
    "delta": _DELTA,
    "gated_delta": {**_DELTA, "decay": "scalar", "gate": True},
}
"""The arguments of :class:`LinearAttention` by the name of a paper's layer: linear attention,
retention, gated linear attention, DeltaNet, gated DeltaNet. The state-space duality is
:class:`~attnbook.mechanisms.recurrent.mamba2.Mamba2Mixer`."""
