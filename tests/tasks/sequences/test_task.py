import os
from pathlib import Path

import pytest
from assertions import assert_refused

from attnbook.tasks import UNK, make_task
from attnbook.tasks.make import task_names
from attnbook.tasks.sequences.pairs import Pair, distinct
from attnbook.tasks.sequences.task import DRAWERS, MAKERS

MADE = [name for name in task_names() if name in DRAWERS]


@pytest.mark.parametrize("name", MADE)
def test_no_source_is_in_two_splits(name):
    task = make_task(name, train=1500, valid=200, test=300, seed=4)
    assert (len(task.train), len(task.valid), len(task.test)) == (1500, 200, 300)
    sources = [pair.source for pair in task.train + task.valid + task.test]
    assert len(set(sources)) == 2000
    assert task.name == name and task.attribution == ""
    for pair in task.train + task.valid + task.test:
        assert UNK not in task.source_vocab.encode(pair.source)
        assert UNK not in task.target_vocab.encode(pair.target)
        assert len(pair.alignment) == len(pair.content) == len(pair.target)
        assert all(0 <= i < len(pair.source) for sources in pair.alignment for i in sources)


@pytest.mark.parametrize("name", MADE)
def test_seeds_and_growing_train(name):
    small = make_task(name, train=50, valid=20, test=30, seed=9)
    large = make_task(name, train=200, valid=20, test=30, seed=9)
    assert small == make_task(name, train=50, valid=20, test=30, seed=9)
    assert (small.valid, small.test, small.train) == (large.valid, large.test, large.train[:50])
    other = make_task(name, train=50, valid=20, test=30, seed=10)
    assert other.train != small.train and other.source_vocab == small.source_vocab


@pytest.mark.parametrize(
    ("name", "options", "longer"),
    [
        ("phrases", {"phrases": 1}, {"phrases": 6}),
        ("copy", {"length": 4}, {"length": 30}),
        ("numbers-fr", {"digits": (1, 4)}, {"digits": 8}),
        ("numbers-en", {"digits": (1, 4), "british": True}, {"digits": 8, "british": True}),
    ],
)
def test_unseen_pairs_are_new_and_can_be_longer(name, options, longer):
    task = make_task(name, train=300, valid=10, test=10, seed=0, **options)
    seen = {pair.source for pair in task.train + task.valid + task.test}
    assert len({pair.source for pair in task.unseen(200, seed=1, **options)} - seen) == 200
    long = task.unseen(50, seed=1, **longer)
    assert min(len(p.source) for p in long) > 3
    mean = sum(len(p.target) for p in task.train) / 300
    assert sum(len(p.target) for p in long) / 50 > 1.5 * mean
    for pair in long:
        task.source_vocab.encode(pair.source), task.target_vocab.encode(pair.target)


@pytest.mark.parametrize("name", task_names())
def test_every_task_has_what_it_needs(name):
    module = MAKERS[name].__module__.rpartition(".")[2]
    test = Path(__file__).parents[1] / "translation" / f"test_{module}.py"
    assert test.exists(), f"task {name!r}: {test} is missing"
    if name not in DRAWERS:
        if not os.environ.get("ATTNBOOK_DATA"):
            pytest.skip("needs real data: ATTNBOOK_DATA is not set")
        task = make_task(name, train=20, valid=1, test=1)
        assert task.attribution, f"task {name!r}: a corpus needs an attribution"


def test_options_reach_the_generator():
    assert len(make_task("reverse", train=9, valid=0, test=0, symbols=3).source_vocab) == 7
    assert any("and" in p.source for p in make_task("numbers-en", train=200, british=True).train)


def test_wrong_arguments_are_named():
    assert_refused("name", make_task, "date", train=1)
    for size, wrong in (("train", 0), ("valid", -1), ("test", 1.5)):
        assert_refused(size, make_task, "copy", **{"train": 1, size: wrong})
    with pytest.raises(ValueError, match="options of 'copy'.*colour"):
        make_task("copy", train=1, colour="red")
    with pytest.raises(ValueError, match="too few different sources"):
        make_task("copy", train=100, length=1, symbols=5)
    with pytest.raises(ValueError, match="options of 'tatoeba'.*length"):
        make_task("tatoeba", train=1, length=3)
    with pytest.raises(ValueError, match="options of 'copy'.*words"):
        make_task("copy", train=1, valid=0, test=0).unseen(1, seed=0, words=3)
    with pytest.raises(ValueError, match="options of 'phrases'"):
        make_task("phrases", train=1, digits=3)


def test_a_task_can_use_up_all_its_sources():
    task = make_task("numbers-en", train=7, valid=1, test=2, digits=1)
    digits = sorted("".join(p.target) for p in task.train + task.valid + task.test)
    assert digits == list("0123456789")
    with pytest.raises(ValueError, match="too few"):
        task.unseen(1, seed=0, digits=1)


def test_distinct_from_a_finite_list():
    pairs = [Pair((c,), ()) for c in "aabbc"]
    assert [p.source[0] for p in distinct(pairs, 3, set())] == ["a", "b", "c"]
    assert [p.source[0] for p in distinct(pairs, 1, {("a",)})] == ["b"]
    assert distinct(pairs, 0, set()) == []
    with pytest.raises(ValueError, match="only 3"):
        distinct(pairs, 4, set())
