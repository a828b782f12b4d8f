"""Pictures with captions, and bounding boxes of the objects that the words name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor

from ...validate import require
from ..endless_batches import drawn
from ..sequences.batches import SequenceBatches
from ..sequences.pairs import Pair
from ..sequences.vocabulary import Vocabulary


class Box(NamedTuple):
    """A rectangle in pixels, x to the right and y down, without its right and lower edge."""

    left: int
    top: int
    right: int
    bottom: int


@dataclass(frozen=True)
class Captioned:
    """Pictures, one caption each, and the places of what the words name.

    Attributes:
        pictures: (N, 3, H, W) uint8, red, green and blue
        captions: N tuples of words
        boxes: N tuples, for each word the boxes of the objects that it names; an empty tuple for a
            word that names none
    """

    pictures: Tensor
    captions: list[tuple[str, ...]]
    boxes: list[tuple[tuple[Box, ...], ...]]

    def __post_init__(self):
        counts = len(self.pictures), len(self.captions), len(self.boxes)
        require(len({*counts}) == 1, f"pictures, captions and boxes must be as many, got {counts}")

    def __len__(self) -> int:
        return len(self.captions)

    def take(self, chosen: Sequence[int] | slice) -> Captioned:
        """Some of them, by index."""
        rows = list(range(len(self)))[chosen] if isinstance(chosen, slice) else list(chosen)
        captions, boxes = [self.captions[i] for i in rows], [self.boxes[i] for i in rows]
        return Captioned(self.pictures[rows], captions, boxes)

    def alignment(self, grid: tuple[int, int]) -> list[tuple[frozenset[int], ...]]:
        """For each word the regions that hold what it names, as an alignment of a ``Pair``.

        ``grid`` is (rows, columns); region ``row · columns + column``. With ``alignment_accuracy``
        this gives the pointing rate: how often the largest weight is in the named object.
        """
        size = self.pictures.shape[-2], self.pictures.shape[-1]
        return [tuple(regions_of(boxes, size, grid) for boxes in row) for row in self.boxes]


@drawn
def regions_of(
    boxes: Sequence[Box], size: tuple[int, int], grid: tuple[int, int]
) -> frozenset[int]:
    """The regions of a grid (rows, columns) of a picture (height, width) that overlap a box."""
    (height, width), (rows, columns) = size, grid
    divides = min(grid) > 0 and height % rows == 0 and width % columns == 0
    require(divides, f"grid must divide a picture of {height} by {width} pixels, got {grid}")
    h, w = height // rows, width // columns
    return frozenset(
        row * columns + column
        for box in boxes
        for row in range(max(0, box.top // h), min(rows, -(-box.bottom // h)))
        for column in range(max(0, box.left // w), min(columns, -(-box.right // w)))
    )


class PictureBatch(NamedTuple):
    """B pictures and their captions; the tokens as in :class:`attnbook.tasks.Batch`.

    Attributes:
        pictures: (B, 3, H, W) uint8
        target_in: (B, m) BOS, then the caption
        target_out: (B, m) the caption, then EOS
        target_lengths: (B,) how many tokens of target_out are real; None where all are
    """

    pictures: Tensor
    target_in: Tensor
    target_out: Tensor
    target_lengths: Tensor | None = None


class PictureBatches:
    """Endless batches of captioned pictures, in the order of :class:`SequenceBatches`."""

    def __init__(self, data: Captioned, vocab: Vocabulary, batch_size: int, seed: int = 0):
        pairs = [Pair(caption, caption) for caption in data.captions]
        self._text = SequenceBatches(pairs, vocab, vocab, batch_size, seed)
        self.data = data

    def __len__(self) -> int:
        return len(self._text)

    def batch(self, step: int) -> PictureBatch:
        """The batch of a step, counted from 0 over all epochs."""
        text = self._text.batch(step)
        pictures = self.data.pictures[self._text.indices(step)]
        return PictureBatch(pictures, *text[2:])
