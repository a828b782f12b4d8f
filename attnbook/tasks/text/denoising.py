"""Denoising: spans of a text are cut out and numbered, and are to be said again in order."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence

import torch

from ..translation.pairs import check_step
from .batches import Batch, _pad
from .vocabulary import Vocabulary

__all__ = ["DenoisingBatches", "corrupt", "gaps_in", "numbered_vocabulary", "segments"]


def gaps_in(length: int, share: float = 0.15, mean: float = 3.0) -> tuple[int, int]:
    """How many tokens of a text are cut out, and in how many spans: ``round(share · length)`` and
    ``round(that / mean)``, at least one.

    Raises:
        ValueError: for a length below 2, a share outside (0, 1) or a mean below 1.

    Source: Raffel et al. 2020, section 3.1.4.
    """
    if not isinstance(length, int) or length < 2:
        raise ValueError(f"length must be an integer >= 2, got {length!r}")
    if not 0 < share < 1 or not mean >= 1:
        raise ValueError(
            f"share must lie between 0 and 1 and mean be at least 1, got {share!r} and {mean!r}"
        )
    gone = min(max(1, round(share * length)), length - 1)
    return gone, min(max(1, round(gone / mean)), gone, length - gone)


def numbered_vocabulary(
    sentences: Iterable[Sequence[str]], spans: int, *, min_count: int = 1
) -> Vocabulary:
    """The words of sentences by frequency, behind the marks ``<1>`` … ``<spans>`` that stand for
    the gaps.
    """
    words = Vocabulary.from_sequences(sentences, min_count=min_count).tokens[4:]
    return Vocabulary([*(f"<{k + 1}>" for k in range(spans)), *words], unknown="unk")


def segments(
    sentences: Iterable[Sequence[str]], vocabulary: Vocabulary, length: int
) -> torch.Tensor:
    """Sentences one after the other, cut into pieces of ``length`` ids: ``(pieces, length)``; the
    rest is left out.

    Raises:
        ValueError: if the sentences do not fill one piece.
    """
    ids = [i for sentence in sentences for i in vocabulary.encode(sentence)]
    if len(ids) < length:
        raise ValueError(f"sentences must hold at least length = {length} words, got {len(ids)}")
    return torch.tensor(ids[: len(ids) // length * length]).view(-1, length)


def _parts(total: int, number: int, generator: random.Random) -> list[int]:
    """A random way to write ``total`` as a sum of ``number`` whole numbers of at least 1, all
    ways alike.
    """
    cuts = sorted(generator.sample(range(1, total), number - 1))
    return [b - a for a, b in zip([0, *cuts], [*cuts, total])]


def corrupt(
    ids: Sequence[int],
    marks: Sequence[int],
    generator: random.Random,
    *,
    share: float = 0.15,
    mean: float = 3.0,
) -> tuple[list[int], list[int]]:
    """Cut spans out of a text: what is left, with a mark in each gap, and the marks with what stood
    there.

    ``a b c d e f g`` may become ``a <1> d e <2>`` and ``<1> b c <2> f g``. A text begins with a
    token that stays and ends with a gap.

    Args:
        ids: the text.
        marks: ids for the gaps, in their order.
        share, mean: see :func:`gaps_in`.

    Raises:
        ValueError: as :func:`gaps_in`; if there are fewer marks than gaps.

    Source: Raffel et al. 2020, section 3.1.4.
    """
    gone, number = gaps_in(len(ids), share, mean)
    if len(marks) < number:
        raise ValueError(f"marks must hold one a gap, {number}, got {len(marks)}")
    stays, leaves = _parts(len(ids) - gone, number, generator), _parts(gone, number, generator)
    source, target, at = [], [], 0
    for mark, keep, cut in zip(marks, stays, leaves):
        source += [*ids[at : at + keep], mark]
        target += [mark, *ids[at + keep : at + keep + cut]]
        at += keep + cut
    return source, target


class DenoisingBatches:
    """Endless batches of corrupted texts; the gaps of a step depend on the seed and the step alone.

    Args:
        texts: ``(pieces, length)`` of :func:`segments`.
        batch_size: pieces a batch.
        marks: ids for the gaps.
        seed: of the order of the pieces and of the gaps.
        share, mean: see :func:`gaps_in`.

    ``batch(step)`` is a :class:`~attnbook.tasks.text.batches.Batch`: the source is what is left,
    the target what was cut out. ``len`` is the number of batches that show every piece once."""

    def __init__(
        self,
        texts: torch.Tensor,
        batch_size: int,
        marks: Sequence[int],
        seed: int = 0,
        *,
        share: float = 0.15,
        mean: float = 3.0,
    ) -> None:
        gaps_in(texts.shape[1], share, mean)
        if not isinstance(batch_size, int) or batch_size < 1:
            raise ValueError(f"batch_size must be an integer >= 1, got {batch_size!r}")
        self.texts, self.batch_size, self.marks, self.seed, self.share, self.mean = (
            texts,
            batch_size,
            list(marks),
            seed,
            share,
            mean,
        )

    def __len__(self) -> int:
        return -(-len(self.texts) // self.batch_size)

    def batch(self, step: int) -> Batch:
        epoch, position = divmod(check_step(step), len(self))
        order = list(range(len(self.texts)))
        random.Random(f"{self.seed}/{epoch}").shuffle(order)
        chosen = order[position * self.batch_size : (position + 1) * self.batch_size]
        generator = random.Random(f"{self.seed}/gaps/{step}")
        pairs = [
            corrupt(text, self.marks, generator, share=self.share, mean=self.mean)
            for text in self.texts[chosen].tolist()
        ]
        return _pad(*zip(*pairs))
