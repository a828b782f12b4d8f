"""Masked tokens of two kinds: one needs attention to one position, the other an average of all.

A *look-up* is a table of names with one value each, in random order, and the same names again in
another order, their values masked. To predict a masked value the model must find the one position
that holds its name, another one for every mask.

A *topic* is a text whose words are all drawn from one of a few word distributions. No single word
matters more than another: the masked words are predicted from how often each word occurs, anywhere
in the text.
"""

from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from ...validate import check_choice, check_integer
from ..endless_batches import GeneratedBatches, drawn
from ..sequences.vocabulary import PAD, UNK

KINDS = ("look-up", "topic")
VALUES, SYMBOLS, TOPICS, SHARE = 8, 16, 8, 0.15
FIRST = UNK + 1
"""The id of the first word. In a topic word k is ``FIRST + k`` and UNK stands in the gaps. In a
look-up the name i with the value k is ``FIRST + i · (VALUES + 1) + k + 1``, with k = −1 in a gap,
and the answer is ``FIRST + k``."""


def vocabulary_size(kind: str, length: int) -> int:
    """How many ids there are."""
    return FIRST + (SYMBOLS if kind == "topic" else length // 2 * (VALUES + 1))


class Gaps(NamedTuple):
    """tokens ``(B, n)`` and target ``(B, n)``: the masked id at each mask, PAD elsewhere."""

    tokens: Tensor
    target: Tensor


@drawn
def frequencies() -> Tensor:
    """``(topics, symbols)``: the probability of each word in each topic. Always the same."""
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(TOPICS, SYMBOLS, generator=generator, dtype=torch.float64)
    return (1.5 * noise).softmax(-1)


class GapBatches(GeneratedBatches[Gaps]):
    """Endless batches of :func:`draw`, whose arguments are ``kind`` and ``length``."""

    def __init__(self, kind: str, length: int, batch_size: int, seed: int = 0) -> None:
        super().__init__(partial(draw, kind, length), batch_size, seed)


@drawn
def draw(kind: str, length: int, count: int, generator: torch.Generator) -> Gaps:
    """Random texts with gaps.

    Args:
        kind: "look-up", or "topic", of whose words a share of :data:`SHARE` is masked.
        length: n; even for look-ups, whose second half is all gaps.
        count: ``B``.
    """
    check_choice("kind", kind, KINDS)
    if check_integer("length", length, 2) % 2 and kind == "look-up":
        raise ValueError(f"length must be even for look-ups, got {length!r}")
    return (_look_ups if kind == "look-up" else _topics)(length, count, generator)


def _look_ups(length: int, count: int, generator: torch.Generator) -> Gaps:
    names = length // 2
    first, second = (torch.rand(count, names, generator=generator).argsort(1) for _ in range(2))
    value = torch.randint(VALUES, (count, names), generator=generator)  # of each name
    table = FIRST + first * (VALUES + 1) + value.gather(1, first) + 1
    return Gaps(
        torch.cat([table, FIRST + second * (VALUES + 1)], 1),
        torch.cat([torch.full_like(table, PAD), FIRST + value.gather(1, second)], 1),
    )


def _topics(length: int, count: int, generator: torch.Generator) -> Gaps:
    topic = torch.randint(TOPICS, (count,), generator=generator)
    chances, hidden = frequencies()[topic], max(1, round(SHARE * length))
    words = FIRST + torch.multinomial(chances, length, replacement=True, generator=generator)
    places = torch.rand(count, length, generator=generator).argsort(1)[:, :hidden]
    masked = torch.zeros_like(words, dtype=torch.bool).scatter(1, places, True)
    return Gaps(words.masked_fill(masked, UNK), words.masked_fill(~masked, PAD))


def best_loss(kind: str, batch: Gaps) -> float:
    """The lowest expected loss per masked token, in nats, for a model that knows the word
    distributions: 0 for look-ups, Bayes' rule for topics.

    ``p(topic | text) ∝ Π_j p(w_j | topic)`` over the words that are not hidden,
    ``p(w) = Σ_topic p(topic | text) p(w | topic)``"""
    if kind == "look-up":
        return 0.0
    table, shown, masked = frequencies(), batch.tokens != UNK, batch.target != PAD
    words = F.one_hot((batch.tokens - FIRST).clamp(min=0), SYMBOLS).double()
    counts = (words * shown[..., None]).sum(1)  # (B, symbols)
    posterior = (counts @ table.log().T).softmax(-1)
    right = (posterior @ table).log().gather(1, (batch.target - FIRST).clamp(min=0))
    return float(-(right * masked).sum() / masked.sum())
