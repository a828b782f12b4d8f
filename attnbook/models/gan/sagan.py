"""Generator and discriminator of pictures: SAGAN, and with its options off the DCGAN baseline."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ...mechanisms.attention.picture_attention import PictureAttention, check_map
from ...mechanisms.layers.conditional_norm import (
    ConditionalBatchNorm,
    UnconditionalBatchNorm,
    check_labels,
)
from ...mechanisms.layers.spectral_norm import add_spectral_norm
from ...validate import check_integer, describe, require
from .blocks import (
    DCGAN_BLOCKS,
    RESIDUAL_BLOCKS,
    SMALLEST,
    Blocks,
    Insert,
    _Reshape,
    _Stage,
    check_inserts,
    glorot,
    sides_to,
    widths_at,
)

__all__ = ["PictureDiscriminator", "PictureGenerator", "PicturePair"]
__all__ += ["attention_scales", "dcgan_pair", "sagan_pair"]


class PictureGenerator(nn.Module):
    """Noise becomes a picture: a 4×4 map, then blocks that double its side.

    ``x = W z`` as a 4×4 map;  ``x ← insert(block(x, label))`` for the sides 8, 16 … size;
    ``picture = tanh(conv(relu(norm(x))))``

    The width at side s is ``channels · size / s``, and ``max_channels`` at most.

    Args:
        size: side of the pictures, 4 times a power of 2.
        channels: width at the full side.
        colors: channels of the pictures, 1 for grey.
        d_noise: width of z, which is drawn from a normal distribution.
        num_classes: K for conditional batch norm; None: the labels are not looked at.
        block: ``(channels, out, norm) → module``, such as
            :class:`~attnbook.models.gan.blocks.ResidualUp`.
        inserts: ``{side: channels → module}``, what stands after the block that reaches this side,
            such as ``{16: PictureAttention}``. Nothing when not given.
        max_channels: upper bound of the width.

    Shapes: noise ``(batch, d_noise)``, labels ``(batch,)`` → pictures
    ``(batch, colors, size, size)`` in (−1, 1).

    Source: Miyato et al. 2018, appendix B; Zhang et al. 2019, section 3.
    """

    def __init__(
        self,
        size: int = 32,
        *,
        channels: int = 64,
        colors: int = 3,
        d_noise: int = 128,
        num_classes: int | None = None,
        block: Callable[..., nn.Module] = RESIDUAL_BLOCKS.up,
        inserts: Mapping[int, Insert] | None = None,
        max_channels: int = 1024,
    ) -> None:
        super().__init__()
        sides = sides_to(size)  # 4, 8, … size
        self.size = size
        self.d_noise = check_integer("d_noise", d_noise)
        self.num_classes = num_classes
        widths = widths_at(sides, size, channels, max_channels)
        norm: Callable[[int], nn.Module] = UnconditionalBatchNorm
        if num_classes is not None:
            norm = partial(ConditionalBatchNorm, num_classes=num_classes)
        inserts = check_inserts(inserts, sides)
        self.first = nn.Linear(d_noise, widths[0] * SMALLEST**2)
        self.stages = nn.ModuleList([_Stage(_Reshape(), inserts, SMALLEST, widths[0])])
        for side, before, width in zip(sides[1:], widths, widths[1:]):
            self.stages.append(_Stage(block(before, width, norm), inserts, side, width))
        self.norm = norm(widths[-1])
        self.last = nn.Conv2d(widths[-1], check_integer("colors", colors), 3, padding=1)
        glorot(self)

    def forward(self, noise: Tensor, labels: Tensor | None = None) -> Tensor:
        require(
            isinstance(noise, Tensor)
            and noise.is_floating_point()
            and noise.dim() == 2
            and noise.shape[1] == self.d_noise,
            f"noise must be floating point numbers (batch, {self.d_noise}), got {describe(noise)}",
        )
        x = self.first(noise)
        for stage in self.stages:
            x = stage(x, labels)
        return torch.tanh(self.last(F.relu(self.norm(x, labels))))


class PictureDiscriminator(nn.Module):
    """A picture becomes a score, high for what looks real: blocks halve the side, then a sum.

    ``x ← insert(block(x))`` for the sides size/2 … last_side;  ``h = Σ_positions act(block(x))``;
    ``score = w·h + b + e_label·h``

    The last term, the projection, is there with classes only: a vector for every class, of which
    the features of a picture of this class should have much. The width at side s is
    ``channels · size / (2 s)``, and ``max_channels`` at most.

    Args:
        size, channels, colors, num_classes, inserts, max_channels: as in :class:`PictureGenerator`.
        block: ``(channels, out, norm, halve=, activate=) → module``.
        norm: ``channels → module`` before the activations in the blocks; None: none. (DCGAN has
            batch norm, SAGAN has spectral norm.)
        final: makes the activation before the sum.
        last_side: side of the map that is summed, from 4 to size/2. A larger one leaves blocks out,
            and with them reach: each position of the last map sees a smaller part of the picture.

    Shapes: pictures ``(batch, colors, size, size)``, labels ``(batch,)`` → scores ``(batch,)``.

    Source: Miyato and Koyama 2018, section 3 (projection); Zhang et al. 2019, section 3.
    """

    def __init__(
        self,
        size: int = 32,
        *,
        channels: int = 64,
        colors: int = 3,
        num_classes: int | None = None,
        block: Callable[..., nn.Module] = RESIDUAL_BLOCKS.down,
        norm: Callable[[int], nn.Module] | None = None,
        inserts: Mapping[int, Insert] | None = None,
        max_channels: int = 1024,
        final: Callable[[], nn.Module] = nn.ReLU,
        last_side: int = SMALLEST,
    ) -> None:
        super().__init__()
        sides = sides_to(size)[-2::-1]  # size/2, … 8, 4
        require(len(sides) > 0, f"size must be {2 * SMALLEST} at least, got {size}")
        require(last_side in sides, f"last_side must be one of {sides}, got {last_side!r}")
        sides = sides[: sides.index(last_side) + 1]
        self.size = size
        self.colors = check_integer("colors", colors)
        self.num_classes = num_classes
        widths = widths_at(sides, size // 2, channels, max_channels)
        inserts = check_inserts(inserts, sides)
        self.stages = nn.ModuleList()
        for k, (side, before, width) in enumerate(zip(sides, [colors, *widths], widths)):
            # the first block sees the picture itself
            stage = block(before, width, norm, activate=k > 0)
            self.stages.append(_Stage(stage, inserts, side, width))
        self.last_block, self.final = block(widths[-1], widths[-1], norm, halve=False), final()
        self.output = nn.Linear(widths[-1], 1)  # w, b
        self.classes = None
        if num_classes is not None:  # e
            self.classes = nn.Embedding(check_integer("num_classes", num_classes), widths[-1])
        glorot(self)

    def features(self, pictures: Tensor) -> Tensor:
        """h: ``(batch, colors, size, size)`` → ``(batch, width)``."""
        x = check_map("pictures", pictures, self.colors)
        require(
            x.shape[-2:] == (self.size, self.size),
            f"pictures must have the side {self.size}, got {tuple(x.shape)}",
        )
        for stage in self.stages:
            x = stage(x)
        return self.final(self.last_block(x)).sum((2, 3))

    def forward(self, pictures: Tensor, labels: Tensor | None = None) -> Tensor:
        h = self.features(pictures)
        score = self.output(h).squeeze(-1)
        if self.classes is not None:
            labels = check_labels(labels, len(pictures), self.classes.num_embeddings)
            score = score + (self.classes(labels) * h).sum(-1)
        return score


class PicturePair(NamedTuple):
    """``generator(noise, labels)`` and ``discriminator(pictures, labels)``, trained together."""

    generator: nn.Module
    discriminator: nn.Module


def sagan_pair(
    size: int = 32,
    *,
    channels: int = 64,
    colors: int = 3,
    d_noise: int = 128,
    num_classes: int | None = None,
    attention_at: int | None = 16,
    insert: Insert = PictureAttention,
    blocks: Blocks = RESIDUAL_BLOCKS,
    spectral_norm: bool | str = True,
    discriminator_norm: Callable[[int], nn.Module] | None = None,
    max_channels: int = 1024,
    last_side: int = SMALLEST,
) -> PicturePair:
    """Make both networks of a SAGAN for square pictures.

    Args:
        size, channels, colors, d_noise, num_classes, max_channels: as in :class:`PictureGenerator`.
        attention_at: side of the feature maps, in both networks, after which ``insert`` stands;
            None: nowhere. A side which the discriminator does not have (the full one) is an error.
        insert: ``channels → module``: :class:`PictureAttention`, ``PooledPictureAttention``, or
            ``ResidualInstead`` for a comparison.
        blocks: ``RESIDUAL_BLOCKS`` or ``DCGAN_BLOCKS``.
        spectral_norm: True for both networks, False for none, "discriminator" for that one alone.
        discriminator_norm, last_side: see :class:`PictureDiscriminator`.

    Source: Zhang et al. 2019; their pictures have the side 128 and attention stands at 32.
    """
    require(
        isinstance(spectral_norm, bool) or spectral_norm == "discriminator",
        f"spectral_norm must be True, False or 'discriminator', got {spectral_norm!r}",
    )
    inserts = {} if attention_at is None else {attention_at: insert}
    common: dict[str, Any] = {"channels": channels, "colors": colors, "num_classes": num_classes}
    common |= {"inserts": inserts, "max_channels": max_channels}
    generator = PictureGenerator(size, d_noise=d_noise, block=blocks.up, **common)
    discriminator = PictureDiscriminator(
        size,
        block=blocks.down,
        norm=discriminator_norm,
        final=blocks.final,
        last_side=last_side,
        **common,
    )
    if spectral_norm is True:
        add_spectral_norm(generator)
    if spectral_norm:
        add_spectral_norm(discriminator)
    return PicturePair(generator, discriminator)


def dcgan_pair(size: int = 32, **options) -> PicturePair:
    """The baseline: :func:`sagan_pair` with plain convolutions and batch norm alone.

    Options as in :func:`sagan_pair`. From the paper's network it differs in three places: the first
    layer of the generator is followed by batch norm like all others; the last one is a 3×3
    convolution at the full side; the discriminator ends with a 3×3 convolution and a sum. Source:
    Radford, Metz and Chintala 2016; in this form Miyato et al. 2018, table 3."""
    options = {
        "attention_at": None,
        "blocks": DCGAN_BLOCKS,
        "spectral_norm": False,
        "discriminator_norm": nn.BatchNorm2d,
        **options,
    }
    return sagan_pair(size, **options)


def attention_scales(module: nn.Module) -> dict[str, float]:
    """γ of every attention layer in ``module``, by its name; to be logged while it trains."""
    return {
        name or "attention": float(part.gamma.detach())
        for name, part in module.named_modules()
        if isinstance(part, PictureAttention)
    }
