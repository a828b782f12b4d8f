"""Relatives of the drawn scenes: one large object to be named, two objects to be drawn."""

from functools import cache
from itertools import product
from typing import NamedTuple

import torch
from torch import Tensor

from ...validate import check_integer, check_seed, describe, require
from ..endless_batches import drawn, usual_defaults
from .labelled import Labelled, to_floats
from .scenes import CELL, GRID, KINDS, LARGE, SMALL, caption, draw, pairs_of, vocabulary

SIDE = 2 * CELL
"""Pixels each way of a picture of two objects."""


@drawn
def one_large(count: int, *, seed: int, small: int = 6, cells: int = 6) -> Labelled:
    """Pictures of up to 48 × 48 pixels, one large object among small ones; its kind is the class.

    The picture is rolled by a few pixels in each direction, over its edges, so that no grid of
    patches or windows is that of the cells in which the objects were drawn.

    Args:
        small: how many small objects.
        cells: of 8 × 8 pixels each way, at most 6.
    """
    check_integer("count", count)
    size = CELL * check_integer("cells", cells, 1, min(GRID))
    check_integer("small", small, 0, cells * cells - 1)
    generator = torch.Generator().manual_seed(check_seed(seed))
    pictures, labels = [], []
    for start in range(0, count, 1000):
        n = min(1000, count - start)
        places = torch.rand(n, cells * cells, generator=generator).argsort(1)[:, : 1 + small]
        places = places // cells * GRID[1] + places % cells
        kinds = torch.randint(len(KINDS), (n, 1 + small), generator=generator)
        sizes = torch.tensor([LARGE] + [SMALL] * small).expand(n, -1)
        place = torch.rand(n, 1 + small, 2, generator=generator)
        drawn = draw(places, kinds, sizes, (place * (CELL - sizes + 1)[..., None]).long())
        drawn = drawn[..., :size, :size]
        shift = torch.randint(CELL, (n, 2), generator=generator)
        for axis in (0, 1):
            index = (torch.arange(size) + shift[:, axis, None]) % size  # (n, size)
            shape = (n, 1, size, 1) if axis == 0 else (n, 1, 1, size)
            drawn = drawn.gather(2 + axis, index.view(shape).expand_as(drawn))
        pictures.append(drawn)
        labels.append(kinds[:, 0])
    names = tuple(" ".join(kind) for kind in KINDS)
    return Labelled(torch.cat(pictures), torch.cat(labels), names)


class Described(NamedTuple):
    """N pictures of two objects, and their captions.

    Attributes:
        pictures: (N, 3, SIDE, SIDE) uint8
        kinds: (N, 2) long, places in ``scenes.KINDS``, the upper object first
        words: (N, 7) long, ids of ``scenes.vocabulary()``
    """

    pictures: Tensor
    kinds: Tensor
    words: Tensor


@drawn
def two_objects(count: int, *, seed: int, part: str = "train") -> Described:
    """Pictures of 16 × 16 pixels: a large object in the upper half and another in the lower, each
    left or right, and the words for them.

    Args:
        part: "train": the pairs are not in ``scenes.held_out()``; "test": all of them are.
    """
    pairs = pairs_of(part)
    check_integer("count", count)
    generator = torch.Generator().manual_seed(check_seed(seed))
    kinds = pairs[torch.randint(len(pairs), (count,), generator=generator)]
    columns = torch.randint(2, (count, 2), generator=generator)
    offsets = torch.randint(CELL - LARGE + 1, (count, 2, 2), generator=generator)
    cells = columns + torch.tensor([0, GRID[1]])
    drawn = []
    for some, kind, place in zip(cells.split(1000), kinds.split(1000), offsets.split(1000)):
        whole = draw(some, kind, torch.full_like(some, LARGE), place)
        drawn.append(whole[..., :SIDE, :SIDE])
    return Described(torch.cat(drawn), kinds, _words()[kinds[:, 0], kinds[:, 1]])


@cache
@usual_defaults()
def _words() -> Tensor:
    """The caption of every pair of kinds: (24, 24, 7)."""
    vocab, kinds = vocabulary(), range(len(KINDS))
    return torch.tensor([[vocab.encode(caption(a, b)) for b in kinds] for a in kinds])


@cache
@usual_defaults()
def _halves() -> tuple[Tensor, Tensor]:
    """Every half of a picture that can be drawn, (R, 3, CELL, SIDE) floats, and its kind, (R,)."""
    places = range(CELL - LARGE + 1)
    rows = list(product(range(len(KINDS)), range(2), places, places))
    kind, column, down, right = torch.tensor(rows).unbind(-1)
    offsets = torch.stack([down, right], -1)[:, None]
    drawn = draw(column[:, None], kind[:, None], torch.full_like(kind, LARGE)[:, None], offsets)
    return to_floats(drawn[..., :CELL, :SIDE]), kind


def read_two(pictures: Tensor) -> Tensor:
    """What pictures of two objects show, right or blurred: for each half the kind of the drawn half
    that is nearest to it, pixel by pixel.

    Args:
        pictures: ``(N, 3, SIDE, SIDE)`` floats from −1 to 1.

    Returns:
        Long ``(N, 2)``, places in ``scenes.KINDS``.
    """
    floats = isinstance(pictures, Tensor) and pictures.is_floating_point()
    fits = floats and tuple(pictures.shape[1:]) == (3, SIDE, SIDE)
    require(fits, f"pictures must be floats (N, 3, {SIDE}, {SIDE}), got {describe(pictures)}")
    drawn, kinds = _halves()
    halves = pictures.detach().float().cpu().unflatten(2, (2, CELL)).movedim(2, 1)  # (N, 2, 3, …)
    distance = torch.cdist(halves.flatten(2).flatten(0, 1), drawn.flatten(1))
    return kinds[distance.argmin(-1)].view(-1, 2)
