"""The Perceiver: a few vectors that read a long input, again and again."""

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn

from ...kernels.layers import Linear
from ...kernels.precision import finest_dtype
from ...mechanisms.attention.masks import masks_by_name
from ...mechanisms.attention.multi_head import MultiHeadAttention
from ...mechanisms.layers.norms import LayerNorm
from ...validate import check_integer, check_mask, check_number, check_tensor
from ..transformer.parts import Parts, check_parts
from .vision_transformer import pre_norm_parts

__all__ = ["Latents", "Perceiver", "fourier_features"]


def fourier_features(places: Tensor, bands: int, max_frequency: float) -> Tensor:
    """Positions as waves: for a model that is told of no grid where each input stands.

    ``[p, sin(π f_1 p), …, sin(π f_B p), cos(π f_1 p), …, cos(π f_B p)]`` for each coordinate p,
    with f_1 = 1 … f_B = μ/2 evenly spaced

    Args:
        places: ``(…, c)`` coordinates from −1 to 1.
        bands: ``B``.
        max_frequency: μ, twice the fastest wave: the number of inputs along the axis, whose
            neighbours are then told apart (Nyquist).

    Returns:
        ``(…, c · (2B + 1))``, coordinate by coordinate.

    Source: Jaegle et al. 2021, section 3.2.
    """
    check_tensor("places", places, least=1)
    check_number("max_frequency", max_frequency, least=2)
    finest = finest_dtype(places.device)
    frequency = torch.linspace(
        1.0, max_frequency / 2, check_integer("bands", bands), dtype=finest, device=places.device
    )
    wide = places.to(finest)[..., None]
    angle = math.pi * wide * frequency  # (…, c, B)
    waves = torch.cat([wide, angle.sin(), angle.cos()], dim=-1)
    return waves.flatten(-2).to(places.dtype)


class Latents(NamedTuple):
    """``x (batch, M, d_model)``, and the weights of each reading, ``(batch, h, M, n)``, or None."""

    x: Tensor
    weights: tuple[Tensor, ...] | None


class Perceiver(nn.Module):
    """M latent vectors read n inputs by cross-attention, think by self-attention, and read again.

    ``z ← z + CrossAttention(norm(z), norm(x))``, ``z ← z + FFN(norm(z))``, then L blocks of
    self-attention over z; all of it R times with the same weights; ``logits = W mean(norm(z)) + b``

    A reading costs M · n weights instead of n · n, and a block of the stack M · M.

    Args:
        d_input: width of the inputs, positions included (see :func:`fourier_features`).
        num_latents: ``M``.
        num_classes: ``K``.
        parts: what the blocks are built of; when not given, 512 wide, 8 heads, pre-norm, GELU. Its
            embedding, positions and output are not used.
        num_layers: ``L``.
        repeats: ``R``.

    Shapes: x ``(batch, n, d_input)``, key_mask ``(batch, n)``, True = may be read, or None → logits
    ``(batch, K)``; :meth:`read` gives :class:`Latents`.

    Source: Jaegle et al. 2021, section 3; readings share weights, as do stacks, the paper's option.
    """

    def __init__(
        self,
        d_input: int,
        num_latents: int,
        num_classes: int,
        parts: Parts | None = None,
        *,
        num_layers: int = 6,
        repeats: int = 1,
    ) -> None:
        super().__init__()
        parts = check_parts(pre_norm_parts(512, 8, 512) if parts is None else parts)
        d_model = parts.d_model
        self.repeats = check_integer("repeats", repeats)
        self.latents = nn.Parameter(
            torch.randn(check_integer("num_latents", num_latents), d_model) * 0.02
        )
        self.input_norm = LayerNorm(check_integer("d_input", d_input))
        self.reading = MultiHeadAttention(d_model, 1, d_key=d_input)  # one head, as in the paper
        self.around_reading = parts.residual()
        self.feed_forward = parts.feed_forward()
        self.around_feed_forward = parts.residual()
        self.stack = parts.make_encoder(num_layers)
        self.output = Linear(d_model, check_integer("num_classes", num_classes))

    @masks_by_name("key_mask", mask="key_mask")
    def read(
        self, x: Tensor, *, key_mask: Tensor | None = None, need_weights: bool = False
    ) -> Latents:
        """The latents after the last reading and its blocks."""
        check_tensor("x", x, least=3)
        check_mask(key_mask, x.shape[:-1], name="key_mask", axes="(batch, n)", true="may be read")
        if key_mask is not None:  # not even a NaN of what is hidden has influence
            x = x.where(key_mask.unsqueeze(-1), 0.0)
        projected = self.reading.project(self.input_norm(x))
        z, weights = self.latents.expand(len(x), -1, -1), []
        for _ in range(self.repeats):
            h = self.around_reading.sublayer_input(z)
            context, w = self.reading(
                h, key_mask=key_mask, projected=projected, need_weights=need_weights
            )
            z = self.around_reading.combine(z, context)
            z = self.stack(self.around_feed_forward(z, self.feed_forward)).x
            weights.append(w)
        return Latents(z, tuple(weights) if need_weights else None)

    @masks_by_name("key_mask", mask="key_mask")
    def forward(self, x: Tensor, *, key_mask: Tensor | None = None) -> Tensor:
        return self.output(self.read(x, key_mask=key_mask).x.mean(-2))
