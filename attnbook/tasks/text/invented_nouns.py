"""A language whose nouns are invented: what a noun means shows only in which verbs follow it.

    the dax sleeps here . the wugo hides often .        the zuck rusts today .

Half of the nouns are alive and half are things, drawn at random; a noun's form does not say which.
Verbs are said of one kind or of the other. The question of the fine-tuning is whether two nouns are
of the same kind, and it is asked of nouns that no labelled example has:

    the dax and the zuck same ?
"""

import random
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ...validate import check_integer, check_seed, require
from ..endless_batches import GeneratedBatches, drawn, text_generator
from ..sequences.vocabulary import Vocabulary
from .packing import PackedText, pack_documents

VERBS = (
    ("sleeps", "eats", "breathes", "runs", "barks", "hides"),
    ("rusts", "breaks", "bends", "melts", "shines", "leaks"),
)
"""What is said of the living, and of things."""
ADVERBS = ("today", "again", "often", "here", "slowly", "outside")
_FIRST = ("da", "wu", "bli", "fe", "to", "za", "ko", "mi", "ru", "pe", "ga", "lo", "ni", "so")
_LAST = ("x", "g", "ck", "p", "ndo", "rin", "lem", "bat", "zu", "fo", "sk", "mel", "go", "t", "va")
NOUNS = tuple(f"{first}{last}" for last in _LAST for first in _FIRST)[:200]


class Nouns(NamedTuple):
    """The nouns of one language, by what they are used for, and the kind of each, 0 or 1."""

    train: tuple[str, ...]
    validation: tuple[str, ...]
    test: tuple[str, ...]
    kind: dict[str, int]


class Comparisons(NamedTuple):
    """Questions about two nouns: tokens ``(B, 8)``, label ``(B,)``, 1 for the same kind."""

    tokens: Tensor
    label: Tensor


def nouns(seed: int = 0) -> Nouns:
    """Who is alive, and which half of the nouns gets labels; a quarter is for validation."""
    generator = random.Random(f"nouns/{check_seed(seed)}")
    kind = {noun: k % 2 for k, noun in enumerate(generator.sample(NOUNS, len(NOUNS)))}
    drawn = tuple(generator.sample(NOUNS, len(NOUNS)))
    half, rest = len(drawn) // 2, 3 * len(drawn) // 4
    return Nouns(drawn[:half], drawn[half:rest], drawn[rest:], kind)


def vocabulary() -> Vocabulary:
    """The words of all texts and questions."""
    words = (".", "the", "and", "same", "?", *NOUNS, *VERBS[0], *VERBS[1], *ADVERBS)
    return Vocabulary(words)


def document(language: Nouns, generator: random.Random) -> list[str]:
    """One to five sentences, each on a noun drawn at random."""
    words: list[str] = []
    for _ in range(generator.randint(1, 5)):
        noun = generator.choice(NOUNS)
        verb = generator.choice(VERBS[language.kind[noun]])
        words += ["the", noun, verb, generator.choice(ADVERBS), "."]
    return words


class NounTexts(GeneratedBatches[PackedText]):
    """New documents at every step, packed into rows of ``length`` tokens; each begins with BOS."""

    def __init__(
        self, language: Nouns, batch_size: int = 32, length: int = 64, seed: int = 0
    ) -> None:
        check_integer("length", length)
        words = vocabulary()

        def draw(count: int, random: random.Random) -> PackedText:
            def documents() -> Iterator[list[int]]:
                missing = count * length + 1
                while missing > 0:
                    ids = [words.token_ids.start, *words.encode(document(language, random))]
                    missing -= len(ids)
                    yield ids

            return PackedText(*(t[:count] for t in pack_documents(documents(), length)))

        super().__init__(draw, batch_size, seed, text_generator)


@drawn
def compare(
    language: Nouns, among: Sequence[str], count: int, generator: random.Random
) -> Comparisons:
    """Questions on two of these nouns, one half of the same kind."""
    words, kind, rows, labels = vocabulary(), language.kind, [], []
    for k in range(check_integer("count", count)):
        first = generator.choice(among)
        fits = [n for n in among if n != first and (kind[n] == kind[first]) == k % 2]
        require(bool(fits), f"among must have nouns of both kinds, got {len(among)} nouns")
        question = ["the", first, "and", "the", generator.choice(fits), "same", "?"]
        rows.append([words.token_ids.start, *words.encode(question)])
        labels.append(k % 2)
    return Comparisons(torch.tensor(rows), torch.tensor(labels))
