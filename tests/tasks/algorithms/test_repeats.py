"""Texts that repeat: what they hold, and where their next symbol is known."""

import pytest
import torch
from assertions import assert_refused

from attnbook.tasks.algorithms.repeats import FIRST, RepeatBatches


def test_each_text_is_a_stretch_of_different_symbols_again_and_again():
    batch = RepeatBatches(20, (3, 7), symbols=9, batch_size=50, seed=1).batch(2)
    assert torch.equal(batch.target_in[:, 1:], batch.target_out[:, :-1])
    known = batch.is_repeated()
    for row, (text, period) in enumerate(zip(batch.target_in.tolist(), batch.period.tolist())):
        text.append(int(batch.target_out[row, -1]))
        assert len(set(text[:period])) == period  # all different
        assert all(text[i] == text[i - period] for i in range(period, 21))
        # known where the symbol that is read stands earlier, with what follows it
        assert known[row].tolist() == [text[i] in text[:i] for i in range(20)]
    assert set(batch.period.tolist()) == set(range(3, 8))
    assert batch.target_in.unique().tolist() == list(range(FIRST, FIRST + 9))


@pytest.mark.parametrize(
    "change, words",
    [
        ({"period": (3, 32)}, "period must be shorter"),
        ({"symbols": 10}, "period must be shorter"),
        ({"period": 1}, "period must be an"),
        ({"length": 0}, "length"),
    ],
)
def test_wrong_arguments_are_named(change, words):
    assert_refused(words, RepeatBatches, **change)
