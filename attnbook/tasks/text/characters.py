"""A text as characters: windows to learn from, and windows that cover held-out text once."""

from __future__ import annotations

from typing import NamedTuple

import torch

from .. import datasets
from ..translation.pairs import check_step
from .vocabulary import SPECIAL, Vocabulary

__all__ = [
    "CharacterWindows",
    "Window",
    "character_vocabulary",
    "encode_text",
    "shakespeare",
    "split_text",
    "to_text",
]


class Window(NamedTuple):
    """``target_in (B, n)`` and ``target_out (B, n)``, the characters one place later: a batch
    for ``language_loss``.
    """

    target_in: torch.Tensor
    target_out: torch.Tensor


def shakespeare() -> str:
    """Tiny Shakespeare: 40,000 lines of the plays, 1,115,394 characters (text in the public
    domain; collected by A. Karpathy).
    """
    return datasets.fetch("tinyshakespeare", "input.txt").read_text(encoding="utf-8")


def split_text(text: str, held: float = 0.1) -> tuple[str, str]:
    """The text, and its last ``held`` share, which is kept back."""
    if not 0 < held < 1:
        raise ValueError(f"held must lie between 0 and 1, got {held!r}")
    cut = round(len(text) * (1 - held))
    return text[:cut], text[cut:]


def character_vocabulary(text: str) -> Vocabulary:
    """The characters of a text in code-point order; others are unknown."""
    return Vocabulary(sorted(set(text)), unknown="unk")


def encode_text(text: str, vocabulary: Vocabulary) -> torch.Tensor:
    """The id of each character, ``(len(text),)``."""
    return torch.tensor(vocabulary.encode(list(text)), dtype=torch.long)


def to_text(ids, vocabulary: Vocabulary) -> str:
    """The text of ids, special ones left out."""
    return "".join(vocabulary.tokens[int(i)] for i in ids if int(i) >= len(SPECIAL))


class CharacterWindows:
    """Endless batches of windows of a text that begin at random places; ``batch(step)`` depends on
    seed and step alone.

    Args:
        ids: ``(characters,)`` of :func:`encode_text`.
        length: characters a window.
        batch_size: windows a batch.
        seed: of the places.
        cover: instead, one batch after the other, windows that lie end to end from the first
            character on, so that an epoch of ``len()`` batches scores each character but the first
            once (the rest that fills no window is left out).

    Raises:
        ValueError: for a text that is not longer than a window, sizes below 1, or a step below 0.
    """

    def __init__(
        self, ids: torch.Tensor, length: int, batch_size: int, seed: int = 0, *, cover: bool = False
    ) -> None:
        for name, value in (("length", length), ("batch_size", batch_size)):
            if not isinstance(value, int) or value < 1:
                raise ValueError(f"{name} must be an integer >= 1, got {value!r}")
        if len(ids) <= length:
            raise ValueError(
                f"ids must hold more than length = {length} characters, got {len(ids)}"
            )
        self.ids, self.length, self.batch_size, self.seed, self.cover = (
            ids,
            length,
            batch_size,
            seed,
            cover,
        )

    def __len__(self) -> int:
        return -(-((len(self.ids) - 1) // self.length) // self.batch_size)

    def batch(self, step: int) -> Window:
        check_step(step)
        if self.cover:
            starts = (
                torch.arange((len(self.ids) - 1) // self.length)[step * self.batch_size :][
                    : self.batch_size
                ]
                * self.length
            )
        else:
            generator = torch.Generator().manual_seed(1_000_003 * self.seed + step)
            starts = torch.randint(
                len(self.ids) - self.length, (self.batch_size,), generator=generator
            )
        places = starts[:, None] + torch.arange(self.length + 1)
        windows = self.ids[places]
        return Window(windows[:, :-1], windows[:, 1:])
