"""A text as characters: windows to learn from, and windows that cover held-out text once."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ...validate import check_integer, check_whole, describe, require
from .. import datasets
from ..endless_batches import GeneratedBatches, drawn
from ..sequences.vocabulary import SPECIAL, Vocabulary


class Window(NamedTuple):
    """For ``language_loss``: ``target_in (B, n)`` and, a position later, ``target_out (B, n)``."""

    target_in: Tensor
    target_out: Tensor


def shakespeare() -> str:
    """Tiny Shakespeare: 1,115,394 characters, in the public domain; collected by A. Karpathy."""
    return datasets.fetch("tinyshakespeare", "input.txt").read_text(encoding="utf-8")


def split_text(text: str) -> tuple[str, str]:
    """The training text, and the last tenth as held-out text."""
    cut = round(len(text) * 0.9)
    return text[:cut], text[cut:]


def character_vocabulary(text: str) -> Vocabulary:
    """The characters of a text in code-point order; others are unknown."""
    return Vocabulary(sorted(set(text)), unknown="unk")


@drawn
def encode_text(text: str, vocabulary: Vocabulary) -> Tensor:
    """The id of each character, ``(len(text),)``."""
    return torch.tensor(vocabulary.encode(list(text)), dtype=torch.long)


def to_text(ids, vocabulary: Vocabulary) -> str:
    """The text of ids, special ones left out."""
    return "".join(vocabulary.tokens[int(i)] for i in ids if int(i) >= len(SPECIAL))


class CharacterWindows(GeneratedBatches[Window]):
    """Endless batches of windows of a text that begin at random places.

    Args:
        ids: ``(characters,)`` of :func:`encode_text`, or any other ids of a text, as a tensor, an
            array or a list.
        length: characters per window.
        cover: instead, one batch after the other, adjacent windows from the first
            character on, so that an epoch of ``len()`` batches scores each character but the first
            once (the rest that fills no window is left out).
    """

    def __init__(
        self,
        ids: Tensor | Sequence[int],
        length: int,
        batch_size: int,
        seed: int = 0,
        *,
        cover: bool = False,
    ) -> None:
        if not isinstance(ids, Tensor) and (array := np.asarray(ids)).dtype.kind in "iu":
            ids = torch.from_numpy(array.astype(np.int64))
        row = check_whole("ids", ids).long()
        require(row.dim() == 1, f"ids must be those of one text, in a row, got {describe(ids)}")
        n, length = len(row), check_integer("length", length)
        require(n > length, f"ids must hold more than length = {length}, got {n} of them")
        self.ids, self.length, self.cover = row, length, cover
        super().__init__(self._random, batch_size, seed)

    def __len__(self) -> int:
        return -(-((len(self.ids) - 1) // self.length) // self.batch_size)

    @drawn
    def batch(self, step: int) -> Window:
        if not self.cover:
            return super().batch(step)
        first = check_integer("step", step, 0) * self.batch_size
        last = min(first + self.batch_size, (len(self.ids) - 1) // self.length)
        return self._windows(torch.arange(first, max(first, last)) * self.length)

    def _random(self, count: int, generator: torch.Generator) -> Window:
        last = len(self.ids) - self.length
        return self._windows(torch.randint(last, (count,), generator=generator))

    def _windows(self, starts: Tensor) -> Window:
        windows = self.ids[starts[:, None] + torch.arange(self.length + 1)]
        return Window(windows[:, :-1], windows[:, 1:])
