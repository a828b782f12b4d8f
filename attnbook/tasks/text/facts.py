"""Texts that tell the same facts again: what a model can know grows with how far back it reads.

    wall cold . mill busy . wall cold . gate wet . mill busy . …

Each text has a world of its own, in which every thing has one quality, drawn at random. A sentence
tells of a thing drawn at random. A quality that was not told yet cannot be known better than by
chance; one that was told can be known for certain, by who finds the last sentence on the same
thing. So the least loss that any model can have is known for each word, and it falls with the
length.
"""

import math
import random
from typing import NamedTuple

import torch
from torch import Tensor

from ...validate import check_integer
from ..endless_batches import GeneratedBatches, drawn, text_generator
from ..sequences.vocabulary import Vocabulary
from .reports import QUALITIES, THINGS


class Facts(NamedTuple):
    """B texts of n words, a batch for ``language_loss``.

    Attributes:
        target_in, target_out: (B, n) ids, the second one word later
        told: (B, n) whether the next word is a quality that the text has told already
        least: (B, n) the least possible loss at the next word, in nats
    """

    target_in: Tensor
    target_out: Tensor
    told: Tensor
    least: Tensor


def vocabulary() -> Vocabulary:
    """The words of all texts."""
    return Vocabulary([".", *THINGS, *QUALITIES])


@drawn
def draw(count: int, length: int, generator: random.Random) -> Facts:
    """Draw texts of ``length`` words; each begins with a sentence and may end within one."""
    check_integer("length", length)
    ids = {word: k for k, word in enumerate(vocabulary().tokens)}
    texts, told, least = [], [], []
    for _ in range(count):
        world = {thing: generator.choice(QUALITIES) for thing in THINGS}
        words: list[str] = []
        known: list[bool] = []
        nats: list[float] = []
        while len(words) <= length:
            thing = generator.choice(THINGS)
            again = thing in words
            words += [thing, world[thing], "."]
            known += [False, again, False]
            nats += [math.log(len(THINGS)), 0.0 if again else math.log(len(QUALITIES)), 0.0]
        texts.append([ids[word] for word in words[: length + 1]])
        told.append(known[1 : length + 1])
        least.append(nats[1 : length + 1])
    tokens = torch.tensor(texts)
    return Facts(tokens[:, :-1], tokens[:, 1:], torch.tensor(told), torch.tensor(least))


class FactBatches(GeneratedBatches[Facts]):
    """New texts of ``length`` words at every step."""

    def __init__(self, length: int, batch_size: int, seed: int = 0) -> None:
        super().__init__(
            lambda count, random: draw(count, length, random), batch_size, seed, text_generator
        )
