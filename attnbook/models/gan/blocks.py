"""What generators and discriminators are built of: blocks that double or halve a side, inserts."""

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ...mechanisms.attention.picture_attention import PictureAttention
from ...validate import check_integer, require

__all__ = ["ConvolutionDown", "ConvolutionUp", "ResidualDown", "ResidualInstead", "ResidualUp"]
__all__ += ["DCGAN_BLOCKS", "RESIDUAL_BLOCKS", "Blocks"]

Norm = Callable[[int], nn.Module]
Insert = Callable[[int], nn.Module]
SMALLEST = 4
"""Side of the feature map at which a generator starts and a discriminator ends."""


class ResidualUp(nn.Module):
    """Double the side, with a way round.

    ``y = conv(relu(norm(conv(up(relu(norm(x))))))) + conv₁(up(x))``; up repeats every position 2×2,
    conv is 3×3, conv₁ is 1×1.

    Shapes: x ``(batch, channels, s, s)``, labels ``(batch,)`` or None → ``(batch, out, 2s, 2s)``.
    Source: Miyato et al. 2018, appendix B.
    """

    def __init__(self, channels: int, out: int, norm: Norm) -> None:
        super().__init__()
        self.first_norm, self.second_norm = norm(channels), norm(out)
        self.first = nn.Conv2d(channels, out, 3, padding=1)
        self.second = nn.Conv2d(out, out, 3, padding=1)
        self.around = nn.Conv2d(channels, out, 1)

    def forward(self, x: Tensor, labels: Tensor | None = None) -> Tensor:
        y = self.first(_upsample(F.relu(self.first_norm(x, labels))))
        y = self.second(F.relu(self.second_norm(y, labels)))
        return y + _upsample(self.around(x))  # a 1×1 convolution and a repetition change places


class ConvolutionUp(nn.Module):
    """Double the side by a transposed convolution, as in DCGAN: ``y = convᵀ(relu(norm(x)))``, 4×4.

    Shapes: as :class:`ResidualUp`. Source: Radford, Metz and Chintala 2016, section 3.
    """

    def __init__(self, channels: int, out: int, norm: Norm) -> None:
        super().__init__()
        self.norm = norm(channels)
        self.convolution = nn.ConvTranspose2d(channels, out, 4, stride=2, padding=1)

    def forward(self, x: Tensor, labels: Tensor | None = None) -> Tensor:
        return self.convolution(F.relu(self.norm(x, labels)))


class ResidualDown(nn.Module):
    """Halve the side, with a way round: ``y = down(conv(relu(conv(relu(x))))) + down(conv₁(x))``;
    down is the mean of 2×2 positions.

    Args:
        channels, out: of x and of y.
        halve: whether the side is halved; else it stays.
        activate: whether the first relu is there; the first block sees the picture itself.
        norm: what stands before each relu; nothing when not given.

    Shapes: x ``(batch, channels, s, s)`` → ``(batch, out, s/2, s/2)``. Source: Miyato et al. 2018,
    appendix B.
    """

    def __init__(
        self,
        channels: int,
        out: int,
        norm: Norm | None = None,
        *,
        halve: bool = True,
        activate: bool = True,
    ) -> None:
        super().__init__()
        norm = _no_norm if norm is None else norm
        self.before = nn.Sequential(norm(channels), nn.ReLU()) if activate else nn.Identity()
        self.first = nn.Conv2d(channels, out, 3, padding=1)
        self.middle = nn.Sequential(norm(out), nn.ReLU())
        self.second, self.around = nn.Conv2d(out, out, 3, padding=1), nn.Conv2d(channels, out, 1)
        self.down = nn.AvgPool2d(2) if halve else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        y = self.second(self.middle(self.first(self.before(x))))
        # a 1×1 convolution and a mean change places
        return self.down(y) + self.around(self.down(x))


class ConvolutionDown(nn.Module):
    """Halve the side with one convolution, as in DCGAN: ``y = conv(leaky_relu(norm(x)))``, 4×4 with
    stride 2, slope 0.2.

    Where the side stays (``halve`` False) the convolution is 3×3. Arguments and shapes: as
    :class:`ResidualDown`. Source: Radford, Metz and Chintala 2016, section 3."""

    def __init__(
        self,
        channels: int,
        out: int,
        norm: Norm | None = None,
        *,
        halve: bool = True,
        activate: bool = True,
    ) -> None:
        super().__init__()
        norm = _no_norm if norm is None else norm
        leaky = nn.LeakyReLU(0.2)
        self.before = nn.Sequential(norm(channels), leaky) if activate else nn.Identity()
        kernel, stride = (4, 2) if halve else (3, 1)
        self.convolution = nn.Conv2d(channels, out, kernel, stride, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        return self.convolution(self.before(x))


class ResidualInstead(nn.Module):
    """A control for attention, a residual block of the same size:
    ``y = x + conv(relu(conv(relu(x))))``, 3×3 each and, as in attention, without biases.

    The hidden width is the smallest with which the block has at least as many parameters as
    :class:`PictureAttention`: the comparison is never to the disadvantage of the block.

    Args:
        channels: C, of x and of y.
        widths: ``d_key`` and ``d_value`` of that attention.
        scaled: multiply what is added with one learned number γ that starts at 0, as attention has
            it. Then both start as the identity.

    Shapes: x ``(batch, C, s, s)`` → the same. Source: the comparison in Zhang et al. 2019, table 1.
    """

    def __init__(self, channels: int, *, scaled: bool = False, **widths: int) -> None:
        super().__init__()
        parameters = sum(p.numel() for p in PictureAttention(channels, **widths).parameters())
        hidden = math.ceil(parameters / (18 * channels))
        self.first = nn.Conv2d(channels, hidden, 3, padding=1, bias=False)
        self.second = nn.Conv2d(hidden, channels, 3, padding=1, bias=False)
        self.gamma = nn.Parameter(torch.zeros(())) if scaled else None

    def forward(self, x: Tensor) -> Tensor:
        added = self.second(F.relu(self.first(F.relu(x))))
        return x + (added if self.gamma is None else self.gamma * added)


class Blocks(NamedTuple):
    """The kind of blocks of a pair: ``up(channels, out, norm)`` for the generator,
    ``down(channels, out, norm, halve, activate)`` for the discriminator, and ``final``, the
    activation before the discriminator's sum over positions."""

    up: Callable[..., nn.Module]
    down: Callable[..., nn.Module]
    final: Callable[[], nn.Module]


RESIDUAL_BLOCKS = Blocks(up=ResidualUp, down=ResidualDown, final=nn.ReLU)
"""The blocks of SAGAN."""
DCGAN_BLOCKS = Blocks(up=ConvolutionUp, down=ConvolutionDown, final=partial(nn.LeakyReLU, 0.2))
"""The blocks of the baseline."""


class _Stage(nn.Module):
    """A block and what is inserted after it."""

    def __init__(
        self, block: nn.Module, inserts: Mapping[int, Insert], side: int, width: int
    ) -> None:
        super().__init__()
        self.block, self.insert = block, inserts[side](width) if side in inserts else nn.Identity()

    def forward(self, x: Tensor, *labels: Tensor | None) -> Tensor:
        return self.insert(self.block(x, *labels))


class _Reshape(nn.Module):
    """The first map of a generator, ``(batch, 16 channels)`` → ``(batch, channels, 4, 4)``."""

    def forward(self, x: Tensor, labels: Tensor | None = None) -> Tensor:
        return x.unflatten(-1, (-1, SMALLEST, SMALLEST))


def sides_to(size: int) -> list[int]:
    """4, 8, 16 … size."""
    sides = [SMALLEST]
    while sides[-1] < check_integer("size", size):
        sides.append(2 * sides[-1])
    require(sides[-1] == size, f"size must be {SMALLEST} times a power of 2, got {size}")
    return sides


def widths_at(sides: list[int], full: int, channels: int, max_channels: int) -> list[int]:
    """Channels at these sides: ``channels`` at ``full``, twice as many at half of it, bounded."""
    channels = check_integer("channels", channels)
    max_channels = check_integer("max_channels", max_channels)
    return [min(channels * full // side, max_channels) for side in sides]


def check_inserts(inserts: Mapping[int, Insert] | None, sides: list[int]) -> Mapping[int, Insert]:
    inserts = {} if inserts is None else inserts
    for side in inserts:
        require(
            side in sides,
            f"inserts must stand at a side that a block reaches, {sorted(sides)}, got {side!r}",
        )
    return inserts


def glorot(module: nn.Module) -> None:
    """Weights of variance 2 / (in + out), biases 0; γ and the gains of norms keep their start."""
    for part in module.modules():
        if isinstance(part, nn.Conv2d | nn.ConvTranspose2d | nn.Linear | nn.Embedding):
            nn.init.xavier_uniform_(part.weight)
            if not isinstance(part, nn.Embedding) and part.bias is not None:
                nn.init.zeros_(part.bias)


def _upsample(x: Tensor) -> Tensor:
    return F.interpolate(x, scale_factor=2, mode="nearest")


def _no_norm(channels: int) -> nn.Module:
    return nn.Identity()
