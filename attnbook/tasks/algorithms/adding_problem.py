"""Two marked numbers in a long sequence: their sum, product, or a difference that needs order."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from ...validate import check_choice, check_integer
from ..endless_batches import GeneratedBatches, drawn

TOLERANCE = 0.04
"""An answer is right when it is off by less (Hochreiter and Schmidhuber 1997, section 5.4)."""


class MarkedNumbers(NamedTuple):
    """B sequences, padded with zeros at the end.

    Attributes:
        inputs: (B, n, 2) a random number and a marker: 1 at two positions, −1 at the first and the
            last, else 0
        lengths: (B,) how many positions of each row are real
        target: (B,) the number to predict
        marked: (B, 2) the two marked positions, the earlier one first
    """

    inputs: Tensor
    lengths: Tensor
    target: Tensor
    marked: Tensor


# name: (lowest number, number in place of a marked first one, earlier and later number -> target)
_KINDS: dict[str, tuple[float, float, Callable]] = {
    "adding": (-1.0, 0.0, lambda a, b: 0.5 + (a + b) / 4),
    "multiplication": (0.0, 1.0, lambda a, b: a * b),
    "order": (-1.0, 0.0, lambda a, b: 0.5 + (a - b) / 4),
}
KINDS = tuple(_KINDS)


@drawn
def draw(kind: str, length: int, count: int, generator: torch.Generator) -> MarkedNumbers:
    """Sequences of T0 to 1.1·T0 steps, both ends included, every length as likely.

    Args:
        kind: "adding": numbers from [−1, 1), target ``0.5 + (X₁ + X₂) / 4``. "multiplication":
            numbers from [0, 1), target ``X₁ X₂``. "order", which is the book's: as adding with
            ``0.5 + (X₁ − X₂) / 4``, X₁ being the earlier one, so that the set of steps does not
            tell the answer.
        length: T0, at least 10
        count: B

    One of the first ten steps (nine where T0 = 10) is marked, then one of the first ⌊T0/2⌋ − 1 that
    is not marked yet. The first and the last step have the marker −1; where the first is chosen it
    keeps −1 and counts as 0 (adding), or as 1 (multiplication).

    Source: Hochreiter and Schmidhuber 1997, sections 5.4 and 5.5; lengths as in Raffel and Ellis
    2015, section 2.1.
    """
    check_choice("kind", kind, KINDS)
    check_integer("length", length, 10)
    check_integer("count", count, 0)
    low, instead, target = _KINDS[kind]
    longest = length + length // 10
    lengths = torch.randint(length, longest + 1, (count,), generator=generator)
    real = torch.arange(longest) < lengths[:, None]
    numbers = (low + (1 - low) * torch.rand(count, longest, generator=generator)) * real
    # not the last step, whose marker is −1
    first = torch.randint(0, min(10, length - 1), (count,), generator=generator)
    among = length // 2 - 1
    left = among - (first < among).long()  # places that are not marked yet
    second = (torch.rand(count, generator=generator) * left).long()
    second = second + (second >= first).long()  # skip over the marked one
    marked = torch.stack([first, second], 1).sort(1).values
    markers = torch.zeros(count, longest)
    markers.scatter_(1, marked, 1.0)
    markers[:, 0] = -1.0
    markers.scatter_(1, lengths[:, None] - 1, -1.0)
    chosen = torch.where(marked == 0, instead, numbers.gather(1, marked))
    inputs = torch.stack([numbers, markers], -1)
    return MarkedNumbers(inputs, lengths, target(*chosen.unbind(1)), marked)


class LongMemoryBatches(GeneratedBatches[MarkedNumbers]):
    """Endless batches of :func:`draw`, whose arguments are ``kind`` and ``length``."""

    def __init__(self, kind: str, length: int, batch_size: int = 100, seed: int = 0):
        super().__init__(partial(draw, kind, length), batch_size, seed)
