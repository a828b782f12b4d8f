"""Synthetic stories with a question, an answer, and the supporting sentences.

Tasks of this kind were proposed by Weston et al. 2015; the words and rules here are new.
"""

import random
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ...validate import check_choice, check_range, require
from ..endless_batches import EpochBatches, drawn, torch_generator
from ..sequences.batches import pad_rows
from ..sequences.vocabulary import Vocabulary

ANIMALS = ("fox", "hen", "goat", "owl")
PLACES = ("mill", "barn", "well", "gate", "pond", "hill")
THINGS = ("key", "bell", "rope", "lamp")
MOVES = ("walks", "runs")
COUNTS = ("none", "one", "two", "three", "four")
KINDS = ("one fact", "two facts", "giving", "yes or no", "counting")


class Story(NamedTuple):
    """A story, a question about it, and why the answer is right.

    Attributes:
        sentences: n tuples of words, in the order of what happens
        question: its words
        answer: one word
        supporting: positions of the sentences that the answer needs, in the order in which a reader
            follows them from the question: for "two facts" first who holds the thing, then where
            that animal went
    """

    sentences: tuple[tuple[str, ...], ...]
    question: tuple[str, ...]
    answer: str
    supporting: tuple[int, ...]


def vocabulary() -> Vocabulary:
    """All words of the stories, questions and answers."""
    others = "the to takes where is at how many things holds gives who got yes no ?".split()
    return Vocabulary((*ANIMALS, *PLACES, *THINGS, *MOVES, *COUNTS, *others))


def draw(kind: str, generator: random.Random, sentences: tuple[int, int] = (6, 10)) -> Story:
    """One story of animals that move and take things.

    Args:
        kind: "one fact": where an animal is. "two facts": where a thing is, that is, where the
            animal is that took it last. "giving": who got a thing last; here animals give things to
            others instead of taking them, and only the order of the words tells who gives. "yes or
            no": whether an animal is at a place. "counting": how many things an animal holds.
        sentences: (least, most), both included; at least 3

    The animal or thing in the question has moved or was taken. A thing may be taken or given again;
    then the last event counts.
    """
    check_choice("kind", kind, KINDS)
    low, high = check_range("sentences", sentences, 3)
    if kind == "giving":
        return _give(generator, generator.randint(low, high))
    while True:
        story = _ask(kind, generator, _tell(generator, generator.randint(low, high)))
        if story is not None:
            return story


def _tell(generator: random.Random, count: int) -> list[tuple[str, ...]]:
    """Events as (animal, "to", place) or (animal, "takes", thing)."""
    events, holder = [], {}
    for _ in range(count):
        animal = generator.choice(ANIMALS)
        if generator.random() < 0.6:
            events.append((animal, "to", generator.choice(PLACES)))
        else:
            thing = generator.choice([t for t in THINGS if holder.get(t) != animal] or THINGS)
            holder[thing] = animal
            events.append((animal, "takes", thing))
    return events


def _give(generator: random.Random, count: int) -> Story:
    """Animals give things to one another; who got one of them last?"""
    events = [(*generator.sample(ANIMALS, 2), generator.choice(THINGS)) for _ in range(count)]
    last = {thing: i for i, (_, _, thing) in enumerate(events)}
    thing = generator.choice(sorted(last))
    rows = tuple(
        ("the", giver, "gives", "the", thing, "to", "the", taker) for giver, taker, thing in events
    )
    return Story(rows, ("who", "got", "the", thing, "?"), events[last[thing]][1], (last[thing],))


def _ask(kind: str, generator: random.Random, events: list[tuple[str, ...]]) -> Story | None:
    """A question that the events answer, or None."""
    # the last move of each animal
    at = {who: i for i, (who, what, _) in enumerate(events) if what == "to"}
    # the last take of each thing
    held = {what: i for i, (_, verb, what) in enumerate(events) if verb == "takes"}
    if kind in ("one fact", "yes or no"):
        if not at:
            return None
        who = generator.choice(sorted(at))
        place = events[at[who]][2]
        if kind == "one fact":
            question, answer = ("where", "is", "the", who, "?"), place
        else:
            others = [p for p in PLACES if p != place]
            asked = generator.choice(others) if generator.random() >= 0.5 else place
            question = ("is", "the", who, "at", "the", asked, "?")
            answer = "yes" if asked == place else "no"
        supporting: tuple[int, ...] = (at[who],)
    elif kind == "two facts":
        things = sorted(t for t, i in held.items() if events[i][0] in at)
        if not things:
            return None
        thing = generator.choice(things)
        who = events[held[thing]][0]
        question, answer = ("where", "is", "the", thing, "?"), events[at[who]][2]
        supporting = (held[thing], at[who])
    else:
        who = generator.choice(ANIMALS)
        supporting = tuple(sorted(i for i in held.values() if events[i][0] == who))
        question = ("how", "many", "things", "holds", "the", who, "?")
        answer = COUNTS[len(supporting)]
    rows = tuple(
        ("the", who, "takes", "the", what)
        if verb == "takes"
        else ("the", who, generator.choice(MOVES), "to", "the", what)
        for who, verb, what in events
    )
    return Story(rows, question, answer, supporting)


class QuestionBatch(NamedTuple):
    """B stories as int64, padded with PAD=0: story ``(B, n, words)``, a row per sentence in order;
    question ``(B, words)``; answer ``(B,)``, the id of its word.
    """

    story: Tensor
    question: Tensor
    answer: Tensor


@drawn
def collate_stories(stories: Sequence[Story], vocab: Vocabulary) -> QuestionBatch:
    """One batch."""
    require(len(stories) > 0, "stories must hold at least one story, got none")
    n = max(len(s.sentences) for s in stories)
    # the sentences of each story, filled up with empty ones, and its question
    rows = [row for s in stories for row in (*s.sentences, *[()] * (n - len(s.sentences)))]
    padded = pad_rows([vocab.encode(row) for row in (*rows, *(s.question for s in stories))])
    answers = torch.tensor(vocab.encode(s.answer for s in stories))
    return QuestionBatch(padded[: len(rows)].unflatten(0, (-1, n)), padded[len(rows) :], answers)


class QuestionBatches(EpochBatches[QuestionBatch]):
    """Endless batches from a list of stories."""

    def __init__(
        self, stories: Sequence[Story], vocab: Vocabulary, batch_size: int = 32, seed: int = 0
    ):
        every = collate_stories(stories, vocab)

        def pick(rows: list[int]) -> QuestionBatch:
            return QuestionBatch(*(part[rows] for part in every))

        super().__init__(pick, len(stories), batch_size, seed)

    @drawn
    def _order(self, epoch: int) -> list[list[int]]:
        order = torch.randperm(self._count, generator=torch_generator(self.seed, epoch))
        return [part.tolist() for part in order.split(self.batch_size)]
