"""What every source of batches promises: ``batch(step)`` is a pure function of step and seed."""

import random

import pytest
import torch
from assertions import assert_refused

from attnbook.tasks import SequenceBatches, Vocabulary, make_task
from attnbook.tasks.algorithms import adding_problem, gaps, multi_query_recall, ntm_tasks, order
from attnbook.tasks.algorithms.repeats import RepeatBatches
from attnbook.tasks.endless_batches import EpochBatches, GeneratedBatches
from attnbook.tasks.geometry.points import KINDS, PointBatches
from attnbook.tasks.images.captioned_pictures import PictureBatches
from attnbook.tasks.images.few_shot_episodes import EpisodeBatches
from attnbook.tasks.images.labelled import Labelled, LabelledBatches
from attnbook.tasks.images.scenes import scenes
from attnbook.tasks.images.scenes import vocabulary as scene_vocabulary
from attnbook.tasks.images.strokes import alphabets
from attnbook.tasks.text import questions, reviews, treebank
from attnbook.tasks.text.characters import CharacterWindows
from attnbook.tasks.text.denoising import DenoisingBatches
from attnbook.tasks.text.facts import FactBatches
from attnbook.tasks.text.masking import MaskedBatches
from attnbook.tasks.text.reports import ReportBatches

COPY = make_task("copy", train=40, valid=0, test=0)
VOCABULARY = COPY.source_vocab
DOCUMENTS = reviews.generate(20, seed=0)
WORDS = Vocabulary.from_sequences(row for text in DOCUMENTS for row in text.sentences)
STORIES = [questions.draw("one fact", random.Random(k)) for k in range(20)]
LETTERS = alphabets(1, 6, 6)
PIXELS = torch.arange(20 * 16).view(20, 1, 4, 4).to(torch.uint8)
DIGITS = Labelled(PIXELS, torch.arange(20) % 5, tuple("abcde"))
SCENES = scenes(20, seed=0)
IDS = torch.arange(400)


def pairs(batch_size, seed, bucket):
    return SequenceBatches(COPY.train, VOCABULARY, VOCABULARY, batch_size, seed, bucket)


SOURCES = {
    **{f"adding, {kind}": (adding_problem.LongMemoryBatches, kind, 20)
       for kind in adding_problem.KINDS},
    **{f"gaps, {kind}": (gaps.GapBatches, kind, 8) for kind in gaps.KINDS},
    **{f"ntm, {kind}": (ntm_tasks.AlgorithmBatches, kind) for kind in ntm_tasks.KINDS},
    "ntm, growing": (lambda *given: ntm_tasks.AlgorithmBatches("copy", *given, grow=4),),
    **{f"order, {kind}": (lambda size, seed, kind=kind: order.OrderBatches(
        kind, (4, 6), size, seed=seed),) for kind in order.ORDERS},
    "recall": (multi_query_recall.RecallBatches, (2, 4)),
    "repeats": (RepeatBatches, 20, (3, 7), 9),
    **{f"points, {kind}": (PointBatches, kind, (3, 6)) for kind in KINDS},
    "episodes": (EpisodeBatches, LETTERS, 3, (1, 3), 2),
    "bent episodes": (lambda *given: EpisodeBatches(LETTERS, 3, 1, 2, *given, bend=0.1),),
    "labelled": (LabelledBatches, DIGITS),
    "pictures": (PictureBatches, SCENES, scene_vocabulary()),
    "pairs": (lambda *given: pairs(*given, False),),
    "pairs in buckets": (lambda *given: pairs(*given, True),),
    "characters": (CharacterWindows, IDS, 9),
    "denoising": (lambda *given: DenoisingBatches(IDS.view(-1, 20), given[0], range(5), given[1]),),
    "masking": (lambda size, seed: MaskedBatches(
        IDS.view(-1, 10).add(4).tolist(), 500, size, seed=seed),),
    "facts": (FactBatches, 9),
    "questions": (questions.QuestionBatches, STORIES, questions.vocabulary()),
    "reports": (ReportBatches, 5),
    "reviews": (reviews.DocumentBatches, DOCUMENTS, WORDS),
    "trees": (treebank.TreeBatches, Vocabulary(treebank.tokens())),
}  # fmt: skip


def make(name, batch_size=5, seed=1):
    maker, *arguments = SOURCES[name]
    return maker(*arguments, batch_size, seed)


def same(first, second):
    return all(map(torch.equal, first, second))


@pytest.mark.parametrize("name", SOURCES)
def test_a_batch_depends_on_step_and_seed_alone(name):
    before = torch.get_rng_state(), random.getstate()
    batches, again = make(name), make(name)
    first = [batches.batch(step) for step in range(9)]
    # in another order, from another object, and a second time
    assert all(same(again.batch(step), first[step]) for step in reversed(range(9)))
    assert same(batches.batch(0), first[0]) and not same(first[0], first[1])
    assert not all(same(make(name, seed=2).batch(step), first[step]) for step in range(3))
    assert torch.equal(torch.get_rng_state(), before[0]) and random.getstate() == before[1]


@pytest.mark.parametrize("name", SOURCES)
def test_wrong_sizes_and_steps_are_named(name):
    assert_refused("batch_size", make, name, batch_size=0)
    assert_refused("step", lambda: make(name).batch(-1))


def test_a_draw_that_fails_fails_at_once():
    def draw(count, generator):
        raise ValueError("colour must be red")

    assert_refused("colour", GeneratedBatches, draw, 4)
    assert_refused("count", EpochBatches, list, 0, 4)


@pytest.mark.parametrize("length", [None, lambda index: -index])
@pytest.mark.parametrize("shuffle", [False, True])
def test_an_epoch_shows_every_example_once(length, shuffle):
    batches = EpochBatches(list, 10, 4, length=length, stretch=1, shuffle_batches=shuffle)
    epochs = [[batches.batch(3 * epoch + k) for k in range(3)] for epoch in range(3)]
    for epoch in epochs:
        assert len(batches) == 3 and sorted(map(len, epoch)) == [2, 4, 4]
        assert sorted(index for batch in epoch for index in batch) == list(range(10))
        if length:
            assert all(batch == sorted(batch, reverse=True) for batch in epoch)
    assert epochs[0] != epochs[1]
    # only a shuffle moves the smaller batch, which is cut last, to the front
    assert any(len(epoch[-1]) == 4 for epoch in epochs) == shuffle


@pytest.mark.parametrize("name", SOURCES)
def test_a_batch_does_not_depend_on_the_default_device_or_dtype(name):
    wanted = [make(name).batch(step) for step in range(2)]
    with torch.device("meta"):
        drawn = [make(name).batch(step) for step in range(2)]
    assert all(map(same, drawn, wanted)) and {x.device.type for x in drawn[0]} == {"cpu"}
    torch.set_default_dtype(torch.float64)
    try:
        drawn = [make(name).batch(step) for step in range(2)]
    finally:
        torch.set_default_dtype(torch.float32)
    assert all(
        same(batch, [x.double() if x.is_floating_point() else x for x in right])
        for batch, right in zip(drawn, wanted)
    )
