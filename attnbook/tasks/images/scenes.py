"""Drawn coloured shapes: two large ones that the caption names, and small ones that it does not.

    a red circle above a blue square

The upper one of the large shapes is named first. The small shapes have the same colours and forms,
so a model has to detect the large ones, and which of them is the upper one, before it can name
them.
"""

from functools import cache
from itertools import permutations, product

import torch
from torch import Tensor

from ...validate import check_choice, check_integer, check_range, check_seed, require
from ..endless_batches import drawn, usual_defaults
from ..sequences.vocabulary import Vocabulary
from .captioned_pictures import Box, Captioned

COLOURS = {
    "red": (214, 39, 40),
    "green": (34, 150, 60),
    "blue": (31, 80, 200),
    "yellow": (240, 200, 20),
    "purple": (150, 70, 190),
    "black": (25, 25, 25),
}
SHAPES = ("circle", "square", "triangle", "cross")
KINDS = tuple(product(COLOURS, SHAPES))
"""The 24 kinds of object: (colour, shape)."""

GRID = (6, 6)  # cells of a picture, rows and columns; at most one object per cell
CELL = 8  # pixels of a cell, each way
LARGE, SMALL = 7, 4  # width of an object in pixels
BACKGROUND = (226, 226, 220)
_FINER = 8  # samples per pixel, each way, for smooth edges


@cache
@usual_defaults()
def _sprites(width: int) -> Tensor:
    """How much of each pixel a shape covers, 0 to 1: (shapes, places down, right, CELL, CELL).

    The offsets, in pixels, are the CELL − width + 1 places of a shape of that width in its cell,
    each way."""
    places = CELL - width + 1
    fine = (torch.arange(CELL * _FINER) + 0.5) / _FINER
    sprites = torch.zeros(len(SHAPES), places, places, CELL, CELL)
    for down, right in product(range(places), repeat=2):
        y = ((fine - down) / width * 2 - 1)[:, None]  # −1 … 1 from the upper to the lower edge
        x = ((fine - right) / width * 2 - 1)[None]
        inside = (x.abs() <= 1) & (y.abs() <= 1)
        forms = {
            "circle": x * x + y * y <= 1,
            "square": inside,
            "triangle": inside & (2 * x.abs() <= y + 1),
            "cross": inside & ((x.abs() <= 0.36) | (y.abs() <= 0.36)),
        }
        for k, shape in enumerate(SHAPES):
            fine_form = forms[shape].float().view(CELL, _FINER, CELL, _FINER)
            sprites[k, down, right] = fine_form.mean((1, 3))
    return sprites


def caption(upper: int, lower: int) -> tuple[str, ...]:
    """The words for two objects, given by their places in :data:`KINDS`."""
    return ("a", *KINDS[upper], "above", "a", *KINDS[lower])


def vocabulary() -> Vocabulary:
    """All words of the captions."""
    return Vocabulary(("a", "above", *COLOURS, *SHAPES))


@cache
@usual_defaults()
def held_out() -> frozenset[tuple[int, int]]:
    """The ordered pairs of kinds that no training caption names: a fifth of all 24 · 23."""
    pairs = list(permutations(range(len(KINDS)), 2))
    order = torch.randperm(len(pairs), generator=torch.Generator().manual_seed(0)).tolist()
    return frozenset(pairs[i] for i in order[: len(pairs) // 5])


@usual_defaults()
def pairs_of(part: str) -> Tensor:
    """The ordered pairs ``(P, 2)`` of "train", which are not in :func:`held_out`, or of "test"."""
    check_choice("part", part, ("train", "test"))
    unseen, pairs = held_out(), permutations(range(len(KINDS)), 2)
    return torch.tensor([pair for pair in pairs if (pair in unseen) == (part == "test")])


@drawn
def draw(cells: Tensor, kinds: Tensor, sizes: Tensor, offsets: Tensor) -> Tensor:
    """Paint N pictures of K objects each.

    Args:
        cells: long ``(N, K)``, the cell of each object, row · columns + column; all different in a
            picture, or −1 for none.
        kinds: long ``(N, K)``, places in :data:`KINDS`.
        sizes: long ``(N, K)``, :data:`LARGE` or :data:`SMALL`.
        offsets: long ``(N, K, 2)``, pixels down and right from the upper left corner of the cell, 0
            … CELL − size.

    Returns:
        uint8 ``(N, 3, rows · CELL, columns · CELL)``.
    """
    n, (rows, columns) = len(cells), GRID
    # (N, K, 3)
    colour = torch.tensor(list(COLOURS.values()), dtype=torch.float32)[kinds // len(SHAPES)]
    ground = torch.tensor(BACKGROUND, dtype=torch.float32)
    painted = ground[:, None, None].expand(n * rows * columns, 3, CELL, CELL).clone()
    place = cells + rows * columns * torch.arange(n)[:, None]
    for size in (LARGE, SMALL):
        chosen = (sizes == size) & (cells >= 0)
        down, right = offsets[chosen].unbind(-1)
        # (objects, 1, CELL, CELL)
        cover = _sprites(size)[kinds[chosen] % len(SHAPES), down, right][:, None]
        over, under = colour[chosen][:, :, None, None], ground[:, None, None]
        painted[place[chosen]] = cover * over + (1 - cover) * under
    painting = painted.view(n, rows, columns, 3, CELL, CELL).permute(0, 3, 1, 4, 2, 5)
    return painting.reshape(n, 3, rows * CELL, columns * CELL).round().to(torch.uint8)


@drawn
def scenes(
    count: int, *, seed: int, part: str = "train", small: tuple[int, int] | int = (2, 4)
) -> Captioned:
    """Pictures, captions, and the box of the object that each colour and shape word names.

    Args:
        part: "train": the named pairs are not in :func:`held_out`; "test": all of them are.
        small: (least, most) small objects, both included; or one number.
    """
    pairs = pairs_of(part)
    check_integer("count", count)
    low, high = check_range("small", small, 0)
    (rows, columns), most = GRID, high + 2
    limit = rows * columns // 2 - 2
    require(high <= limit, f"small must be at most {limit}, got {small!r}")
    generator = torch.Generator().manual_seed(check_seed(seed))

    def integers(top: int, *shape: int) -> Tensor:
        return torch.randint(top, shape, generator=generator)

    kinds = integers(len(KINDS), count, most)
    kinds[:, :2] = pairs[integers(len(pairs), count)]
    # The two large ones: different rows, the higher first, and different columns.
    row = torch.rand(count, rows, generator=generator).argsort(1)[:, :2].sort(1).values
    column = torch.rand(count, columns, generator=generator).argsort(1)[:, :2]
    large = row * columns + column
    # taken ones sort last
    free = torch.rand(count, rows * columns, generator=generator).scatter(1, large, 2.0)
    cells = torch.cat([large, free.argsort(1)[:, : most - 2]], 1)
    number = low + integers(high - low + 1, count)
    cells = cells.masked_fill(torch.arange(most) >= 2 + number[:, None], -1)
    sizes = torch.tensor([LARGE] * 2 + [SMALL] * (most - 2)).expand(count, most)
    place = torch.rand(count, most, 2, generator=generator)
    offsets = (place * (CELL - sizes + 1)[..., None]).long()
    # a thousand at a time: floats are four times as wide
    parts = zip(*(t.split(1000) for t in (cells, kinds, sizes, offsets)))
    pictures = torch.cat([draw(*part) for part in parts])

    corners = torch.stack([row, column], -1) * CELL + offsets[:, :2]  # (count, 2, 2): top and left
    captions, boxes = [], []
    for (a, b), corner in zip(kinds[:, :2].tolist(), corners.tolist()):
        captions.append(caption(a, b))
        upper, lower = ((Box(x, y, x + LARGE, y + LARGE),) for y, x in corner)
        boxes.append(((), upper, upper, (), (), lower, lower))
    return Captioned(pictures, captions, boxes)
