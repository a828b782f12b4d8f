import pytest
import torch
from assertions import refusals
from task_data import seeded

from attnbook.tasks import PAD
from attnbook.tasks.algorithms.multi_query_recall import (
    FIRST,
    KEYS,
    VOCABULARY_SIZE,
    RecallBatches,
    draw,
)


@pytest.mark.parametrize("told", [1, 2, 3])
def test_every_key_is_asked_once_for_the_last_value_that_it_was_given(told):
    tokens, target = draw(5, 40, seeded(), told=told)
    assert tokens.shape == target.shape == (40, (2 * told + 1) * 5)
    assert tokens.min() >= FIRST and tokens.max() < VOCABULARY_SIZE
    changed = 0
    for row, answer in zip(tokens.tolist(), target.tolist()):
        list_of, asked = row[: 10 * told], row[10 * told :]
        held = {}
        for key, value in zip(list_of[::2], list_of[1::2]):
            assert FIRST <= key < FIRST + KEYS <= value
            changed += held.get(key, value) != value
            held[key] = value
        assert sorted(held) == sorted(asked) and len(held) == 5
        assert answer == [PAD] * (10 * told) + [held[key] for key in asked]
    assert (changed > 0) == (told > 1)


def test_there_are_as_many_keys_and_values_as_asked_for():
    tokens, target = draw(5, 200, seeded(), keys=6, values=3)
    assert tokens[:, :10:2].unique().tolist() == list(range(FIRST, FIRST + 6))
    assert tokens[:, 1:10:2].unique().tolist() == list(range(FIRST + 6, FIRST + 9))
    assert set(target.unique().tolist()) == {PAD, *range(FIRST + 6, FIRST + 9)}


def test_batches_have_all_sizes():
    batches = RecallBatches((2, 4), 3, seed=1)
    assert {batches.batch(step).tokens.shape[1] for step in range(20)} == {6, 12}


test_errors_name_the_argument = refusals(
    ("pairs must hold", lambda: RecallBatches((), 2)),
    ("pairs must be", lambda: RecallBatches((KEYS + 1,), 2)),
    ("told", lambda: draw(2, 1, torch.Generator(), told=0)),
)
