"""Drawn pictures whose two figures, at the left and at the right edge, always share one colour: a
long-range dependency.

The shape of the figures is the class. The colour is one of eight, the heights are independent, and
the background is grey noise. Nothing near a figure reveals the colour of the other one.
"""

from __future__ import annotations

import colorsys
from functools import lru_cache
from typing import NamedTuple

import torch

from ...validate import check_integer, check_seed
from .labelled import Labelled

__all__ = [
    "COLOURS",
    "SHAPES",
    "Agreement",
    "FarParts",
    "agreement",
    "draw",
    "far_parts",
    "read_colours",
]

SHAPES = ("bar", "oval", "wedge", "cross")
COLOURS = tuple(
    tuple(round(255 * c) for c in colorsys.hsv_to_rgb(k / 8, 0.9, 0.95)) for k in range(8)
)
"""Eight colours of the same strength, 45° of hue apart."""

GROUND = 70  # mean grey of the background
NOISE = 25  # largest distance from it
PATCHES = 4  # the noise is drawn on a grid of so many points each way, and smooth between them
_FINER = 8  # samples per pixel, each way, for smooth edges
LEAST_COLOUR = 40.0
"""How far apart the strongest and the weakest of red, green and blue have to be for a pixel to
count as coloured.
"""
LEAST_PIXELS = 1 / 64
"""The share of the pixels of a side that has to be coloured for a figure to count as found."""


class FarParts(NamedTuple):
    """Drawn pictures and what they were drawn from.

    Attributes:
        data: :class:`attnbook.tasks.images.labelled.Labelled`; the class is the shape
        colours: long (N, 2), places in COLOURS, left and right
    """

    data: Labelled
    colours: torch.Tensor


class Agreement(NamedTuple):
    """How well the two sides of pictures agree, as shares.

    Attributes:
        agree: both figures found and of one colour, of all pictures
        found: both figures found, of all pictures
        chance: agreement of figures drawn by themselves: Σ_c p_left(c) p_right(c), with the colours
            of the pictures where both were found
        colours: how many colours are in use, as the exponential of the entropy of the left ones: 8
            if all alike often
    """

    agree: float
    found: float
    chance: float
    colours: float


@lru_cache(maxsize=4)
def _figures(size: int) -> torch.Tensor:
    """How much of each pixel a figure covers, (shapes, tops, size, width): a strip as wide as
    the figure, for each place of it.
    """
    width, height = 3 * size // 16, 3 * size // 8
    # −1 … 1 over the figure
    y, x = ((torch.arange(n * _FINER) + 0.5) / (n * _FINER) * 2 - 1 for n in (height, width))
    y, x = y[:, None], x[None]
    inside = torch.ones(len(y), x.shape[1], dtype=torch.bool)
    forms = torch.stack(
        [inside, x * x + y * y <= 1, 2 * x.abs() <= y + 1, (x.abs() <= 0.4) | (y.abs() <= 0.25)]
    )
    # (shapes, height, width)
    cover = forms.view(len(SHAPES), height, _FINER, width, _FINER).float().mean((2, 4))
    strips = torch.zeros(len(SHAPES), size - height + 1, size, width)
    for top in range(size - height + 1):
        strips[:, top, top : top + height] = cover
    return strips


def draw(
    shapes: torch.Tensor,
    colours: torch.Tensor,
    tops: torch.Tensor,
    *,
    size: int = 32,
    generator: torch.Generator | None = None,
) -> torch.Tensor:
    """Paint N pictures of two figures each.

    Args:
        shapes: long ``(N,)``, places in :data:`SHAPES`, the same left and right.
        colours: long ``(N, 2)``, places in :data:`COLOURS`, left and right.
        tops: long ``(N, 2)``, pixels from the upper edge to the figure, 0 … size − height.
        size: pixels each way, a multiple of 32. A figure is 3/16 of it wide, 3/8 high and 1/32
            away from its edge, with 9/16 of the picture between the two: at 32 pixels 6, 12, 1 and
            18.
        generator: of the noise; None: no noise.

    Returns:
        uint8 ``(N, 3, size, size)``.
    """
    if check_integer("size", size, 32) % 32:
        raise ValueError(f"size must be a multiple of 32, got {size!r}")
    n, width, height, margin = len(shapes), 3 * size // 16, 3 * size // 8, size // 32
    if tuple(colours.shape) != (n, 2) or tuple(tops.shape) != (n, 2):
        raise ValueError(
            f"colours and tops must be ({n}, 2), got {tuple(colours.shape)} and {tuple(tops.shape)}"
        )
    for name, places, most in (
        ("shapes", shapes, len(SHAPES) - 1),
        ("colours", colours, len(COLOURS) - 1),
        ("tops", tops, size - height),
    ):
        if n and not (0 <= int(places.min()) and int(places.max()) <= most):
            raise ValueError(
                f"{name} must lie between 0 and {most}, got {int(places.min())} to "
                f"{int(places.max())}"
            )
    palette = torch.tensor(COLOURS, dtype=torch.float32)
    painted = torch.full((n, 3, size, size), float(GROUND))
    if generator is not None:  # grey: the same in red, green and blue, so that it has no hue
        coarse = 2 * torch.rand(n, 1, PATCHES, PATCHES, generator=generator) - 1
        painted += NOISE * torch.nn.functional.interpolate(
            coarse, size=(size, size), mode="bilinear", align_corners=False
        )
    for side, left in enumerate((margin, size - margin - width)):
        cover = _figures(size)[shapes, tops[:, side]][:, None]  # (N, 1, size, width)
        strip = painted[..., left : left + width]
        strip.copy_(cover * palette[colours[:, side]][:, :, None, None] + (1 - cover) * strip)
    return painted.round().clamp(0, 255).to(torch.uint8)


def far_parts(count: int, *, seed: int, size: int = 32, agree: bool = True) -> FarParts:
    """Pictures drawn by chance: shape, colour and both heights are independent of one another.

    Args:
        count: how many.
        seed: of everything that is drawn by chance.
        size: pixels each way, a multiple of 32.
        agree: False: the colour of each side is drawn for itself, so that one in eight agrees by
            chance. For comparison only.
    """
    check_integer("count", count)
    generator = torch.Generator().manual_seed(check_seed(seed))
    shapes = torch.randint(len(SHAPES), (count,), generator=generator)
    colours = torch.randint(len(COLOURS), (count, 2), generator=generator)
    if agree:
        colours = colours[:, :1].expand(-1, 2).clone()
    tops = torch.randint(size - 3 * size // 8 + 1, (count, 2), generator=generator)
    parts = [
        draw(*part, size=size, generator=generator)
        for part in zip(*(t.split(2000) for t in (shapes, colours, tops)))
    ]
    return FarParts(Labelled(torch.cat(parts), shapes, SHAPES), colours)


def read_colours(pictures: torch.Tensor) -> torch.Tensor:
    """The colours of the figure at the left and at the right, read from the pixels alone.

    Of the outer third of each side those pixels count whose strongest and weakest channel are
    LEAST_COLOUR apart or more. Their mean, weighted by that distance, has a hue; the colour is the
    one whose hue is nearest.

    Shapes: uint8 ``(N, 3, H, W)`` → long ``(N, 2)``, places in :data:`COLOURS`, or −1 where too few
    pixels are coloured.
    """
    if (
        not isinstance(pictures, torch.Tensor)
        or pictures.dtype != torch.uint8
        or pictures.dim() != 4
        or pictures.shape[1] != 3
    ):
        raise ValueError(
            f"pictures must be uint8 (N, 3, height, width), got "
            f"{getattr(pictures, 'dtype', type(pictures).__name__)} "
            f"{tuple(getattr(pictures, 'shape', ()))}"
        )
    third = -(-pictures.shape[-1] // 3)
    hues = torch.tensor(
        [_hue(torch.tensor(colour, dtype=torch.float64)[:, None])[0] for colour in COLOURS],
        dtype=torch.float64,
        device=pictures.device,
    )
    colours = []
    for side in (pictures[..., :third], pictures[..., -third:]):
        pixels = side.flatten(2).double()  # (N, 3, pixels)
        strength = pixels.amax(1) - pixels.amin(1)
        weight = strength * (strength >= LEAST_COLOUR)
        # (N, 3)
        mean = (pixels * weight[:, None]).sum(-1) / weight.sum(-1, keepdim=True).clamp_min(1e-9)
        apart = (_hue(mean.T)[:, None] - hues).abs()
        colour = torch.minimum(apart, 1 - apart).argmin(-1)
        enough = (weight > 0).double().mean(-1) >= LEAST_PIXELS
        colours.append(torch.where(enough, colour, -1))
    return torch.stack(colours, -1)


def _hue(colour: torch.Tensor) -> torch.Tensor:
    """Hue of colours (3, N), as a share of the circle."""
    red, green, blue = colour
    return (torch.atan2(3**0.5 * (green - blue), 2 * red - green - blue) / (2 * torch.pi)) % 1


def agreement(pictures: torch.Tensor) -> Agreement:
    """How often both sides of the pictures have one colour, beside what the colours of the sides by
    themselves would give.

    Shapes: uint8 ``(N, 3, H, W)``. A picture without a figure at one side does not agree. A
    generator that only ever paints one
    colour agrees always: hence ``chance`` and ``colours``.
    """
    read = read_colours(pictures)
    if not len(read):
        raise ValueError("pictures must hold at least one, got none")
    both = (read >= 0).all(1)
    kept = read[both]
    if not len(kept):
        return Agreement(0.0, 0.0, 0.0, 0.0)
    left, right = (
        torch.bincount(side, minlength=len(COLOURS)).double() / len(kept) for side in kept.unbind(1)
    )
    return Agreement(
        agree=float((kept[:, 0] == kept[:, 1]).double().sum() / len(read)),
        found=float(both.double().mean()),
        chance=float(left @ right),
        colours=float(torch.special.entr(left).sum().exp()),
    )
