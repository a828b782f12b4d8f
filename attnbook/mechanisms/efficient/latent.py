"""Multi-head latent attention: all keys and values are made of one short vector a position."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor, nn

from ...kernels.layers import Linear
from ...kernels.visible import (
    join_nonfinite,
    restore_nonfinite,
    zero_nonfinite,
    zero_nonfinite_query,
)
from ...validate import check_integer, check_position, check_tensor, describe, require
from ..attention.masks import check_reading, masks_by_name
from ..attention.multi_head import MultiHeadAttention
from ..attention.soft_attention import Attended, attend_in_groups, attend_unchecked
from ..caches.key_value import Read, append_rows, positions_of, read_source
from ..layers.norms import RMSNorm
from ..scores.base import ScaledDotScore
from ..scores.functions import DotScore

if TYPE_CHECKING:
    from ..positions.rotary import RotaryPositions

__all__ = ["LatentAttention", "LatentSource", "cache_bytes"]


class LatentSource(NamedTuple):
    """What a :class:`LatentAttention` caches: ``compressed (…, n, d_latent + d_rotary)``, of each
    position its latent vector c and after it the rotated key that all heads share; ``nonfinite
    (…, n)`` as of a :class:`~attnbook.mechanisms.caches.key_value.ProjectedSource`."""

    compressed: Tensor
    nonfinite: Tensor | None = None

    @property
    def length(self) -> int:
        """n, the number of positions that a mask covers."""
        return self.compressed.shape[-2]

    def extend(self, more: LatentSource) -> LatentSource:
        """The source with further positions at its end: the cache of a decoder, one step on."""
        return LatentSource(
            append_rows(self.compressed, more.compressed), join_nonfinite(self, more)
        )

    def nonfinite_rows(self) -> Tensor:
        """:attr:`nonfinite`, written out."""
        if self.nonfinite is not None:
            return self.nonfinite
        return self.compressed.new_zeros(self.compressed.shape[:-1], dtype=torch.bool)

    def cut(self, number: int) -> LatentSource:
        """The source without its last ``number`` positions: what was read in vain is taken back."""
        kept = self.length - check_integer("number", number, 0, self.length)
        nonfinite = None if self.nonfinite is None else self.nonfinite[..., :kept]
        return LatentSource(self.compressed[..., :kept, :], nonfinite)


class LatentAttention(nn.Module):
    """Multi-head self-attention whose keys and values are expanded from a latent vector.

    ``c_j = RMSNorm(x_j W_DKV)``, ``[k_j,i; v_j,i] = c_j [W_UK,i, W_UV,i]`` in head i;
    ``r_j = R_j (x_j W_KR)``, one rotated key for all heads;
    ``[q_t,i; p_t,i] = RMSNorm(x_t W_DQ) [W_UQ,i, W_QR,i]``, of which R_t turns p;

    ``e_tj,i = (q_t,i·k_j,i + R_t p_t,i·r_j) / √(d_head + d_rotary)``,
    ``output_t = [Σ_j α_tj,1 v_j,1; …; Σ_j α_tj,h v_j,h] W_O``

    A cache holds c and r, ``d_latent + d_rotary`` numbers a position, however many heads there are.
    Rotary positions need their own part of the key: a rotation between W_UQ and W_UK would bar what
    follows.

    Since ``q·(c W_UK) = (q W_UKᵀ)·c`` and ``Σ α (c W_UV) = (Σ α c) W_UV``, a query can be brought
    to the space of c ("absorbed"), where attention is that of one head of keys and values with h
    heads of queries, and nothing is expanded. Both ways give the same; each call takes that with
    fewer multiplications: the absorbed one for a few queries before a long cache, the plain one
    where all positions are queries. The norms are not in the paper's formulas but in its section
    3.1.2 and in the published code.

    Args:
        d_model: width of inputs and output.
        num_heads: ``h``.
        d_latent: width of c; 4·d_head in the paper.
        d_head: width of the part of queries and keys that knows no positions.
        rotary: turns the other part, whose width it is made for, d_rotary; d_head / 2 in the paper.
            The published weights are of the layout ``"interleaved"``.
        d_head_value: width of values in a head; ``d_head`` when not given.
        d_query_latent: width of the latent vector of the queries; when not given, queries are
            projected at once, without a norm.

    Shapes: x ``(…, m, d_model)`` → context ``(…, m, d_model)``, weights ``(…, h, m, n)`` or None.

    Source: DeepSeek-AI 2024 (DeepSeek-V2), section 2.1, equations 9 to 19.
    """

    takes_position = True

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        *,
        d_latent: int,
        d_head: int,
        rotary: RotaryPositions,
        d_head_value: int | None = None,
        d_query_latent: int | None = None,
    ) -> None:
        super().__init__()
        self.d_model = check_integer("d_model", d_model)
        self.num_heads = h = check_integer("num_heads", num_heads)
        self.d_latent = check_integer("d_latent", d_latent)
        self.d_head = check_integer("d_head", d_head)
        d_head_value = d_head if d_head_value is None else d_head_value
        self.d_head_value = check_integer("d_head_value", d_head_value)
        require(
            hasattr(rotary, "d_head"), f"rotary must be RotaryPositions, got {describe(rotary)}"
        )
        self.rotary, width = rotary, d_head + rotary.d_head
        self.query_compression = self.query_norm = None
        if d_query_latent is not None:
            check_integer("d_query_latent", d_query_latent)
            self.query_compression = Linear(d_model, d_query_latent, bias=False)  # W_DQ
            self.query_norm = RMSNorm(d_query_latent)
        # of each head the columns of W_UQ, then those of W_QR
        self.query_projection = Linear(d_query_latent or d_model, h * width, bias=False)
        self.compression = Linear(d_model, d_latent + rotary.d_head, bias=False)  # W_DKV, W_KR
        self.latent_norm = RMSNorm(d_latent)
        # of each head the columns of W_UK, then those of W_UV
        self.expansion = Linear(d_latent, h * (d_head + self.d_head_value), bias=False)
        self.output_projection = Linear(h * self.d_head_value, d_model, bias=False)  # W_O
        for layer in self.children():
            if isinstance(layer, Linear):
                nn.init.xavier_uniform_(layer.weight)

    def project(self, x: Tensor, *, position: int | Tensor = 0) -> LatentSource:
        """What of positions x ``(…, n, d_model)`` is kept; position as in :meth:`forward`."""
        check_tensor("x", x, width=self.d_model)
        x, _, _, nonfinite = zero_nonfinite(x, x, x, self)
        latent, shared = self.compression(x).split([self.d_latent, self.rotary.d_head], dim=-1)
        turned = self._turn(shared.unsqueeze(-3), position).squeeze(-3)
        source = torch.cat([self.latent_norm(latent), turned], dim=-1)
        return LatentSource(source, None if nonfinite is None else nonfinite.source)

    def _turn(self, heads: Tensor, position: int | Tensor) -> Tensor:
        """Turn ``(…, heads, n, d_rotary)`` by positions from that of the first row on."""
        check_position(position, heads.shape[:-3])
        return self.rotary(heads, positions_of(position, heads))

    def read(
        self,
        x: Tensor,
        *,
        mask: Tensor | None = None,
        is_causal: bool = False,
        cache: LatentSource | None = None,
        position: int | Tensor = 0,
        need_weights: bool = False,
    ) -> Read:
        """As :meth:`attnbook.MultiHeadAttention.read`."""
        return read_source(self, x, mask, is_causal, cache, position, need_weights)

    @masks_by_name("mask")
    def forward(
        self,
        x: Tensor,
        *,
        mask: Tensor | None = None,
        key_mask: Tensor | None = None,
        is_causal: bool = False,
        need_weights: bool = True,
        projected: LatentSource | None = None,
        position: int | Tensor = 0,
    ) -> Attended:
        """Attend with every head.

        Args:
            x: ``(…, m, d_model)``, the queries.
            mask: boolean, True = may attend. Broadcastable to ``(…, m, n)``, the same for all
                heads; or, with one dimension more than that, to ``(…, h, m, n)``.
            key_mask, is_causal: as in :func:`attnbook.attend`.
            need_weights: whether the m×n matrices are returned, as in :func:`attnbook.attend`.
            projected: ``project(…)`` of all n positions, such as a cache; of x when not given.
            position: of the first row of x, an integer or ``(batch,)``, one for each text.

        Returns:
            :class:`Attended`: context, and weights or None. A query that may attend to nothing gets
            a row of zeros, with gradient zero.
        """
        check_tensor("x", x, width=self.d_model)
        if projected is not None and not isinstance(projected, LatentSource):
            raise ValueError(
                "projected must be a LatentSource, as `project` makes it, got "
                f"{describe(projected)}"
            )
        compressed = x if projected is None else projected.compressed
        leading, n = compressed.shape[:-2], compressed.shape[-2]
        visible = check_reading(x, leading, n, mask, key_mask, is_causal, self.num_heads)
        if projected is None:
            projected = self.project(x, position=position)
        x, nonfinite = zero_nonfinite_query(x, projected, self)
        if self.query_compression is not None and self.query_norm is not None:
            x = self.query_norm(self.query_compression(x))
        heads = self.query_projection(x).unflatten(-1, (self.num_heads, -1)).transpose(-3, -2)
        query, turned = heads.split([self.d_head, self.rotary.d_head], dim=-1)
        turned = self._turn(turned, position)
        attend = self._absorbed if self._is_cheaper_absorbed(x.shape[-2], n) else self._expanded
        context, weights = attend(query, turned, projected.compressed, visible, need_weights)
        context = self.output_projection(context.transpose(-3, -2).flatten(-2))
        sees = partial(visible.rows, x.shape[-2], n)
        return Attended(*restore_nonfinite(context, weights, nonfinite, sees, heads=True))

    def _is_cheaper_absorbed(self, m: int, n: int) -> bool:
        """Which way takes fewer multiplications in a head for m queries and n positions."""
        c, r, both = self.d_latent, self.rotary.d_head, self.d_head + self.d_head_value
        return m * c * both + m * n * (2 * c + r) < n * c * both + m * n * (both + r)

    def _expanded(self, query, turned, compressed, visible, need_weights) -> Attended:
        """Context ``(…, h, m, d_head_value)`` by the keys and values of every head."""
        latent, shared = compressed.split([self.d_latent, self.rotary.d_head], dim=-1)
        heads = self.expansion(latent).unflatten(-1, (self.num_heads, -1)).transpose(-3, -2)
        key, value = heads.split([self.d_head, self.d_head_value], dim=-1)
        shared = shared.unsqueeze(-3).expand(*key.shape[:-1], -1)
        query, key = torch.cat([query, turned], dim=-1), torch.cat([key, shared], dim=-1)
        return attend_unchecked(ScaledDotScore(), query, key, value, visible, need_weights)

    def _absorbed(self, query, turned, compressed, visible, need_weights) -> Attended:
        """The same in the space of the latent vectors, where nothing is expanded."""
        w = self.expansion.weight.unflatten(0, (self.num_heads, -1))  # (h, d_head + d_v, d_latent)
        w_uk, w_uv = w.split([self.d_head, self.d_head_value], dim=-2)
        scale = (self.d_head + self.rotary.d_head) ** -0.5
        query = torch.cat([query @ w_uk, turned], dim=-1) * scale
        key = compressed.unsqueeze(-3)  # of one head
        value = key[..., : self.d_latent]
        latents, weights = attend_in_groups(DotScore(), query, key, value, visible, need_weights)
        return Attended(latents @ w_uv.mT, weights)


def cache_bytes(
    layer: MultiHeadAttention | LatentAttention, dtype: torch.dtype = torch.bfloat16
) -> int:
    """How many bytes one more token adds to the cache of a layer.

    Keys and values of g heads ``g (d_head + d_head_value)`` numbers: g = h in multi-head, fewer in
    grouped-query, 1 in multi-query attention; ``d_latent + d_rotary`` in latent attention.

    Args:
        layer: of any size; made under ``torch.device("meta")`` it takes no memory.
        dtype: of the cache.

    Source: DeepSeek-AI 2024 (DeepSeek-V2), table 1.
    """
    if isinstance(layer, LatentAttention):
        numbers = layer.d_latent + layer.rotary.d_head
    else:
        numbers = layer.num_kv_heads * (layer.d_head + layer.d_head_value)
    return numbers * dtype.itemsize
