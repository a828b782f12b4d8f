"""Stacks of blocks connected otherwise: one used again, a memory of all, a shrinking sequence."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ...kernels.visible import zero_masked_nonfinite
from ...mechanisms.attention.masks import masks_by_name
from ...mechanisms.positions.absolute import sinusoids
from ...validate import check_integer, require
from .layers import Decoder, Encoder, EncoderLayer, LayerOutput, Position, Stacked

__all__ = ["FunnelEncoder", "TransparentDecoder", "TransparentEncoder"]
__all__ += ["TimeStep", "shared", "universal"]

Make = Callable[[], nn.Module]


def shared(make: Make, number: int) -> list[nn.Module]:
    """One block, used ``number`` times: for ``Parts.stack``.

    Source: Lan et al. 2020, section 3.1.
    """
    return [make()] * check_integer("number", number)


class TimeStep(nn.Module):
    """A block that is used at several depths and receives the depth: ``block(x + P_depth)``.

    P is the sinusoid of the depth, as that of a position. Source: Dehghani et al. 2019, equation 6.
    """

    block: Any  # an encoder's or a decoder's
    step: Tensor

    def __init__(self, block: nn.Module, depth: int, d_model: int) -> None:
        super().__init__()
        self.block = block
        self.register_buffer("step", sinusoids(depth + 1, d_model)[depth], persistent=False)

    def project(self, memory: Tensor) -> Any:
        """As the block."""
        return self.block.project(memory)

    def forward(self, x: Tensor, *arguments, **options) -> LayerOutput:
        return self.block(x + self.step.to(x.dtype), *arguments, **options)


def universal(d_model: int) -> Callable[[Make, int], list[nn.Module]]:
    """One block used at every depth, with the depth as input, for ``Parts.stack``.

    The number of steps is fixed, as in the paper's experiments on translation; its halting by
    position is left out, and the positions are added once and not at every step.

    Source: Dehghani et al. 2019, section 2.1.
    """

    def stack(make: Make, number: int) -> list[nn.Module]:
        block = make()
        return [TimeStep(block, depth, d_model) for depth in range(check_integer("number", number))]

    return stack


class TransparentEncoder(Encoder):
    """An encoder that hands over what every block gives, each through the norm of the stack, for a
    :class:`TransparentDecoder`. It reads its whole source at once.

    Shapes: x ``(batch, n, d)`` → ``(batch, n, (N + 1), d)``, the embeddings first. Source: Bapna et
    al. 2018, section 4.
    """

    def finish(self, outputs: list[Tensor]) -> Tensor:
        return torch.stack([self.norm(x) for x in outputs], dim=-2)


class TransparentDecoder(Decoder):
    """A decoder in which each block reads a mixture of its own of the encoder's blocks.

    ``memory_j = Σ_i softmax_i(W_·j)_i h_i`` over N + 1 levels, W = 0 at the start.

    The encoder has as many blocks as the decoder.

    Source: Bapna et al. 2018, section 4.
    """

    def __init__(self, layers: Sequence[nn.Module], norm: nn.Module) -> None:
        super().__init__(layers, norm)
        self.mixture = nn.Parameter(torch.zeros(len(self.layers), len(self.layers) + 1))

    def project(self, memory: Tensor) -> tuple:
        require(
            memory.shape[-2] == self.mixture.shape[1],
            f"memory must have the {self.mixture.shape[1]} levels of this decoder "
            f"(blocks of the encoder and its embeddings), got shape {tuple(memory.shape)}",
        )
        mixed = torch.einsum("...id,ji->j...d", memory, self.mixture.softmax(-1))
        return tuple(layer.project(x) for layer, x in zip(self.layers, mixed))


class FunnelEncoder(Encoder):
    """An encoder whose sequence shrinks: between groups of blocks, the mean of every two positions.

    At the seam the shortened sequence asks and the long one answers: queries, residual and
    feed-forward have half the length, keys and values the full one, so that what the mean loses can
    still be attended to.

    Args:
        layers, norm: as in :class:`~attnbook.models.transformer.layers.Encoder`.
        groups: number of groups G; of N blocks the k-th group ends after block ``round(k N / G)``,
            a half rounded to the even number.

    Shapes: x ``(batch, n, d)``, mask ``(batch, 1, n)`` or None → :class:`Stacked` with
    ``⌈n / 2^{groups − 1}⌉`` positions and the mask of these: a shorter position may be attended to
    if one of its two may.

    The paper keeps its first position, a token for the whole text, out of the mean, and stretches
    the result again where every position is to be predicted; a decoder that attends to it, as that
    of :class:`~attnbook.models.transformer.encoder_decoder.Transformer`, reads the short one.

    Source: Dai et al. 2020, section 2.2.
    """

    def __init__(self, layers: Sequence[nn.Module], norm: nn.Module, groups: int = 2) -> None:
        super().__init__(layers, norm)
        check_integer("groups", groups)
        require(
            groups <= len(self.layers),
            f"groups must be at most the number of blocks {len(self.layers)}, got {groups}",
        )
        cuts = [round(k * len(self.layers) / groups) for k in range(1, groups)]
        self.seams = frozenset(cuts)
        for k in cuts:
            attention = getattr(self.layers[k], "attention", None)
            score = getattr(attention, "score", None)
            require(
                not getattr(attention, "takes_position", False)
                and not getattr(score, "depends_on_position", False),
                f"layers must have an attention that asks for no positions at a seam, where a "
                f"query stands for two of them; block {k} has one that does",
            )

    @masks_by_name("mask")
    def forward(
        self,
        x: Tensor,
        *,
        mask: Tensor | None = None,
        is_causal: bool = False,
        caches: Sequence | None = None,
        need_weights: bool = False,
        position: Position = 0,
    ) -> Stacked:
        require(caches is None, "a funnel reads its whole source at once: it takes no caches")
        require(
            not is_causal and (mask is None or mask.shape[-2] == 1),
            f"mask must be one of padding, (batch, 1, n), got shape "
            f"{None if mask is None else tuple(mask.shape)}",
        )
        x = x if mask is None else zero_masked_nonfinite(x, mask)
        weights = []
        for k, layer in enumerate(self.layers):
            if k in self.seams:
                x, w, mask = self._shorten(layer, x, mask, need_weights)
            else:
                x, _, w = layer(x, mask=mask, need_weights=need_weights, position=position)
            weights.append(w)
        return Stacked(self.norm(x), (), tuple(weights) if need_weights else None, mask)

    @staticmethod
    def _shorten(layer: EncoderLayer, x: Tensor, mask: Tensor | None, need_weights: bool) -> tuple:
        n, short = x.shape[-2], (x.shape[-2] + 1) // 2
        present = x.new_ones(1, 1) if mask is None else mask.mT.to(x.dtype)
        present = present.expand(*x.shape[:-2], n, 1)
        pairs, count = (
            nn.functional.pad(t, (0, 0, 0, 2 * short - n)).unflatten(-2, (short, 2)).sum(-2)
            for t in (x * present, present)
        )
        around = layer.around_attention
        keys = layer.attention.project(around.sublayer_input(x))
        y = pairs / count.clamp(min=1)
        context, weights = layer.attention(
            around.sublayer_input(y), mask=mask, projected=keys, need_weights=need_weights
        )
        y = layer.around_feed_forward(around.combine(y, context), layer.feed_forward)
        return y, weights, None if mask is None else (count > 0).mT
