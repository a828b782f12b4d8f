"""Long reports of a harbour and their summaries: a few relevant sentences among many others.

A report consists of sentences of six words:

    today the wind is north .    yesterday the cargo is tin .    today the market is quiet .

The summary lists the values of four things **today**, in a fixed order; each is stated once, at a
random place of the report:

    ships 12 wind north cargo tin captain anna

Everything else is filler: other things, and the same four things yesterday, with wrong values. So
the summary is known exactly, a report can have any length, and only the words of the facts matter.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from ...validate import check_integer
from ..endless_batches import GeneratedBatches, drawn, torch_generator
from ..sequences.batches import Batch
from ..sequences.vocabulary import BOS, EOS, Vocabulary

FIELDS: dict[str, tuple[str, ...]] = {
    "ships": tuple(str(n) for n in range(16)),
    "wind": ("north", "northeast", "east", "southeast", "south", "southwest", "west", "northwest"),
    "cargo": tuple("tin wool wine salt corn silk iron coal tea rope glass oil".split()),
    "captain": tuple("anna bert clara david emma felix greta hugo ida jan klara leo".split()),
}
"""What a summary tells, in its order, and the values that each of them can have."""

THINGS = tuple("market tower bridge church inn mill gate well garden school wall street".split())
QUALITIES = tuple("quiet busy closed open old new empty full dark bright wet cold".split())
SENTENCE = 6
"""Words of a sentence."""


class Reports(NamedTuple):
    """B reports of S sentences as ids, source ``(B, 6 S)``; target ``(B, 8)``, name and value of
    each of the four facts; places ``(B, 4)``, the sentence that states each of them.
    """

    source: Tensor
    target: Tensor
    places: Tensor


def tokens() -> tuple[str, ...]:
    """Every word of reports and summaries."""
    values = tuple(value for values in FIELDS.values() for value in values)
    return ("today", "yesterday", "the", "is", ".", *FIELDS, *values, *THINGS, *QUALITIES)


def vocabulary() -> Vocabulary:
    """The vocabulary of reports and summaries, which is one."""
    return Vocabulary(tokens())


@drawn
def draw(sentences: int, batch: int, generator: torch.Generator) -> Reports:
    """``batch`` reports of so many sentences, 4 or more; half of the filler is on yesterday."""
    check_integer("sentences", sentences, len(FIELDS))
    check_integer("batch", batch)
    words, fields = vocabulary(), len(FIELDS)

    def ids(names):
        return torch.tensor(words.encode(names))

    def random(high, *shape):
        return torch.randint(high, shape, generator=generator)

    def values_of(*shape):
        drawn = [ids(values)[random(len(values), *shape)] for values in FIELDS.values()]
        return torch.stack(drawn, -1)

    shape = batch, sentences
    # Filler, everywhere: another thing on either day, or one of the four yesterday.
    thing, quality = (ids(names)[random(len(names), *shape)] for names in (THINGS, QUALITIES))
    day, field = random(2, *shape), random(fields, *shape)
    value = values_of(*shape)  # (B, S, 4)
    decoy = torch.rand(shape, generator=generator) < 0.5
    names = ids(tuple(FIELDS))
    subject = torch.where(decoy, names[field], thing)
    said = torch.where(decoy, value.gather(-1, field[..., None])[..., 0], quality)
    day = torch.where(decoy, 1, day)
    # The four facts, over four of the sentences.
    places = torch.rand(shape, generator=generator).argsort(-1)[:, :fields]
    facts = values_of(batch)  # (B, 4)
    subject = subject.scatter(1, places, names.expand(batch, -1))
    said, day = said.scatter(1, places, facts), day.scatter(1, places, torch.zeros_like(places))
    the, be, stop = (word.expand(shape) for word in ids(("the", "is", ".")))
    days = ids(("today", "yesterday"))
    source = torch.stack([days[day], the, subject, be, said, stop], -1).flatten(1)
    return Reports(source, torch.stack([names.expand(batch, -1), facts], -1).flatten(1), places)


class ReportBatches(GeneratedBatches[Batch]):
    """Endless batches of new reports of so many sentences."""

    def __init__(self, sentences: int, batch_size: int, seed: int = 0) -> None:
        self._reports = lambda count, generator: draw(sentences, count, generator)
        super().__init__(lambda *drawn: as_batch(self._reports(*drawn)), batch_size, seed)

    def reports(self, step: int) -> Reports:
        """The same with the places of the facts."""
        generator = torch_generator(self.seed, check_integer("step", step, 0))
        return self._reports(self.batch_size, generator)


@drawn
def as_batch(reports: Reports) -> Batch:
    """Reports as the batch of a sequence-to-sequence task."""
    (b, n), target, pad = reports.source.shape, reports.target, torch.nn.functional.pad
    both = pad(target, (1, 0), value=BOS), pad(target, (0, 1), value=EOS)
    return Batch(reports.source, torch.full((b,), n), *both, torch.full((b,), target.shape[1] + 1))


def facts_right(summaries, reports: Reports) -> list[float]:
    """The share of the four facts that each summary, a list of ids, has at its place."""
    pairs = zip(summaries, reports.target.tolist(), strict=True)
    places = range(0, 2 * len(FIELDS), 2)
    return [sum(a[k : k + 2] == b[k : k + 2] for k in places) / len(places) for a, b in pairs]


def lead(reports: Reports) -> list[list[int]]:
    """The first four sentences of each report, where writers of news put the main things."""
    return reports.source[:, : len(FIELDS) * SENTENCE].tolist()


def oracle_extract(reports: Reports) -> list[list[int]]:
    """The four sentences that state the facts, in their order: the upper bound of extraction."""
    rows = reports.source.unflatten(1, (-1, SENTENCE))
    return rows.gather(1, reports.places[..., None].expand(-1, -1, SENTENCE)).flatten(1).tolist()
