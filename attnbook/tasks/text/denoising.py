"""Denoising: numbered sentinels replace spans of a text, and the target lists the spans."""

import random
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from ...validate import check_integer, check_number, require
from ..endless_batches import EpochBatches, drawn
from ..sequences.batches import Batch, pad_pairs
from ..sequences.vocabulary import Vocabulary


def gaps_in(length: int, share: float = 0.15, mean: float = 3.0) -> tuple[int, int]:
    """How many tokens of a text are cut out, and in how many spans: ``round(share · length)`` and
    ``round(that / mean)``, at least one.

    Source: Raffel et al. 2020, section 3.1.4.
    """
    check_integer("length", length, 2)
    check_number("share", share, above=0, below=1)
    check_number("mean", mean, least=1)
    gone = min(max(1, round(share * length)), length - 1)
    return gone, min(max(1, round(gone / mean)), gone, length - gone)


def numbered_vocabulary(
    sentences: Iterable[Sequence[str]], spans: int, *, min_count: int = 1
) -> Vocabulary:
    """The sentinels ``<1>`` … ``<spans>``, then the words of the sentences by frequency."""
    words = Vocabulary.from_sequences(sentences, min_count=min_count).tokens[4:]
    return Vocabulary([*(f"<{k + 1}>" for k in range(spans)), *words], unknown="unk")


@drawn
def segments(sentences: Iterable[Sequence[str]], vocabulary: Vocabulary, length: int) -> Tensor:
    """Sentences one after the other, cut into ids ``(pieces, length)``, without the rest."""
    ids = [i for sentence in sentences for i in vocabulary.encode(sentence)]
    n = len(ids)
    require(n >= length, f"sentences must hold at least length = {length} words, got {n}")
    return torch.tensor(ids[: n // length * length]).view(-1, length)


def _parts(total: int, number: int, generator: random.Random) -> list[int]:
    """A random composition of ``total`` into ``number`` positive integers, all equally likely."""
    cuts = sorted(generator.sample(range(1, total), number - 1))
    return [b - a for a, b in zip([0, *cuts], [*cuts, total])]


@drawn
def corrupt(
    ids: Sequence[int],
    marks: Sequence[int],
    generator: random.Random,
    *,
    share: float = 0.15,
    mean: float = 3.0,
) -> tuple[list[int], list[int]]:
    """Cut spans out of a text: the rest with a sentinel per gap, and the sentinels with the spans.

    ``a b c d e f g`` may become ``a <1> d e <2>`` and ``<1> b c <2> f g``. A text begins with a
    token that stays and ends with a gap.

    Args:
        ids: the text.
        marks: ids for the gaps, in their order.
        share, mean: see :func:`gaps_in`.

    Source: Raffel et al. 2020, section 3.1.4.
    """
    gone, number = gaps_in(len(ids), share, mean)
    require(len(marks) >= number, f"marks must hold one per gap, {number}, got {len(marks)}")
    stays, leaves = _parts(len(ids) - gone, number, generator), _parts(gone, number, generator)
    source, target, at = [], [], 0
    for mark, keep, cut in zip(marks, stays, leaves):
        source += [*ids[at : at + keep], mark]
        target += [mark, *ids[at + keep : at + keep + cut]]
        at += keep + cut
    return source, target


class DenoisingBatches:
    """Endless batches of corrupted texts; the spans are drawn anew at each step.

    ``batch(step)`` is a :class:`~attnbook.tasks.sequences.batches.Batch`: the source is the text
    with sentinels, the target what was cut out.

    Args:
        texts: ``(pieces, length)`` of :func:`segments`.
        marks: ids of the sentinels.
    """

    def __init__(self, texts: Tensor, batch_size: int, marks: Sequence[int], seed: int = 0) -> None:
        self._marks, self._seed = list(marks), seed
        self._texts = EpochBatches(lambda rows: texts[rows].tolist(), len(texts), batch_size, seed)

    def __len__(self) -> int:
        return len(self._texts)

    def batch(self, step: int) -> Batch:
        texts = self._texts.batch(step)
        generator = random.Random(f"{self._seed}/gaps/{step}")
        return pad_pairs(*zip(*(corrupt(text, self._marks, generator) for text in texts)))
