"""Drawn pictures whose two figures, far apart, always share one colour: a long-range dependency.

The shape of the figures is the class. The colour is one of eight, the heights are independent, and
the background is grey noise. Nothing near a figure reveals the colour of the other one.
"""

import colorsys
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

from ...validate import check_integer, check_seed, check_values, describe, require
from ..endless_batches import drawn, usual_defaults
from .labelled import Labelled, check_pictures

SHAPES = ("bar", "oval", "wedge", "cross")
COLOURS = tuple(
    tuple(round(255 * c) for c in colorsys.hsv_to_rgb(k / 8, 0.9, 0.95)) for k in range(8)
)
"""Eight colours of the same strength, 45° of hue apart."""

SIZE = 32  # pixels each way
WIDTH, HEIGHT, MARGIN = 6, 12, 1  # of a figure, and its distance from the edge
GROUND = 70  # mean grey of the background
NOISE = 25  # largest distance from it
PATCHES = 4  # the noise is drawn on a grid of so many points each way, and smooth between them
_FINER = 8  # samples per pixel, each way, for smooth edges
LEAST_COLOUR = 40.0  # strongest minus weakest of red, green and blue in a pixel that is coloured
LEAST_PIXELS = 1 / 64  # share of coloured pixels in a side where a figure is found


class FarParts(NamedTuple):
    """Pictures, classed by shape, and their left and right colours in COLOURS, long (N, 2)."""

    data: Labelled
    colours: Tensor


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


@cache
@usual_defaults()
def _figures() -> Tensor:
    """How much of each pixel a figure covers, for each place of it: (shapes, tops, SIZE, WIDTH)."""
    # −1 … 1 over the figure
    y, x = ((torch.arange(n * _FINER) + 0.5) / (n * _FINER) * 2 - 1 for n in (HEIGHT, WIDTH))
    y, x = y[:, None], x[None]
    inside = torch.ones(len(y), x.shape[1], dtype=torch.bool)
    forms = torch.stack(
        [inside, x * x + y * y <= 1, 2 * x.abs() <= y + 1, (x.abs() <= 0.4) | (y.abs() <= 0.25)]
    )
    # (shapes, HEIGHT, WIDTH)
    cover = forms.view(len(SHAPES), HEIGHT, _FINER, WIDTH, _FINER).float().mean((2, 4))
    strips = torch.zeros(len(SHAPES), SIZE - HEIGHT + 1, SIZE, WIDTH)
    for top in range(SIZE - HEIGHT + 1):
        strips[:, top, top : top + HEIGHT] = cover
    return strips


@drawn
def draw(
    shapes: Tensor, colours: Tensor, tops: Tensor, *, generator: torch.Generator | None = None
) -> Tensor:
    """Paint N pictures of two figures each.

    Args:
        shapes: long ``(N,)``, places in :data:`SHAPES`, the same left and right.
        colours: long ``(N, 2)``, places in :data:`COLOURS`, left and right.
        tops: long ``(N, 2)``, pixels from the upper edge to the figure, 0 … SIZE − HEIGHT.
        generator: of the noise; None: no noise.

    Returns:
        uint8 ``(N, 3, SIZE, SIZE)``, with 18 pixels between the two figures.
    """
    n = len(shapes)
    require(
        colours.shape == tops.shape == (n, 2),
        f"colours and tops must be ({n}, 2), got {tuple(colours.shape)} and {tuple(tops.shape)}",
    )
    check_values("shapes", shapes, 0, len(SHAPES) - 1)
    check_values("colours", colours, 0, len(COLOURS) - 1)
    check_values("tops", tops, 0, SIZE - HEIGHT)
    palette = torch.tensor(COLOURS, dtype=torch.float32)
    painted = torch.full((n, 3, SIZE, SIZE), float(GROUND))
    if generator is not None:  # grey: the same in red, green and blue, so that it has no hue
        coarse = 2 * torch.rand(n, 1, PATCHES, PATCHES, generator=generator) - 1
        painted += NOISE * torch.nn.functional.interpolate(
            coarse, size=(SIZE, SIZE), mode="bilinear", align_corners=False
        )
    for side, left in enumerate((MARGIN, SIZE - MARGIN - WIDTH)):
        cover = _figures()[shapes, tops[:, side]][:, None]  # (N, 1, SIZE, WIDTH)
        strip = painted[..., left : left + WIDTH]
        strip.copy_(cover * palette[colours[:, side]][:, :, None, None] + (1 - cover) * strip)
    return painted.round().clamp(0, 255).to(torch.uint8)


@drawn
def far_parts(count: int, *, seed: int, agree: bool = True) -> FarParts:
    """``count`` pictures drawn by chance: shape, colour and both heights are independent of one
    another. Without ``agree``, for comparison only, the colour of each side is drawn for itself, so
    that one in eight agrees by chance.
    """
    check_integer("count", count)
    generator = torch.Generator().manual_seed(check_seed(seed))
    shapes = torch.randint(len(SHAPES), (count,), generator=generator)
    colours = torch.randint(len(COLOURS), (count, 2), generator=generator)
    if agree:
        colours = colours[:, :1].expand(-1, 2).clone()
    tops = torch.randint(SIZE - HEIGHT + 1, (count, 2), generator=generator)
    parts = zip(*(t.split(2000) for t in (shapes, colours, tops)))
    pictures = torch.cat([draw(*part, generator=generator) for part in parts])
    return FarParts(Labelled(pictures, shapes, SHAPES), colours)


def read_colours(pictures: Tensor) -> Tensor:
    """The colours of the figure at the left and at the right, read from the pixels alone.

    Of the outer third of each side those pixels count whose strongest and weakest channel are
    LEAST_COLOUR apart or more. Their mean, weighted by that distance, has a hue; the colour is the
    one whose hue is nearest.

    Shapes: uint8 ``(N, 3, H, W)`` → long ``(N, 2)``, places in :data:`COLOURS`, or −1 where too few
    pixels are coloured.
    """
    check_pictures(pictures, "(N, 3, height, width)")
    require(pictures.shape[1] == 3, f"pictures must have 3 colours, got {describe(pictures)}")
    third = -(-pictures.shape[-1] // 3)
    hues = _hue(torch.tensor(COLOURS, dtype=torch.float64, device=pictures.device).T)
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


def _hue(colour: Tensor) -> Tensor:
    """Hue of colours (3, N), as a share of the circle."""
    red, green, blue = colour
    return (torch.atan2(3**0.5 * (green - blue), 2 * red - green - blue) / (2 * torch.pi)) % 1


def agreement(pictures: Tensor) -> Agreement:
    """How often both sides of pictures ``(N, 3, H, W)`` have one colour, beside what the colours of
    the sides by themselves would give.

    A picture without a figure at one side does not agree. A generator that only ever paints one
    colour agrees always: hence ``chance`` and ``colours``.
    """
    read = read_colours(pictures)
    require(len(read) > 0, "pictures must hold at least one, got none")
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
