"""The comparison by number of heads, at a size of seconds."""

import pytest
from assertions import assert_refused

from attnbook_runs.translation.number_of_heads import Settings, by_number

SMALL = dict(heads=(1, 4), d_model=16, d_feed_forward=32, train_pairs=200, test_pairs=20)
SMALL |= dict(batch_size=16, steps=20)


def test_only_the_number_of_heads_differs_between_the_rows():
    found = by_number(Settings(**SMALL))
    assert [(row["heads"], row["d_head"]) for row in found["rows"]] == [(1, 16), (4, 4)]
    assert found["rows"][0]["parameters"] == found["rows"][1]["parameters"]
    assert found["rows"][0]["loss"] != found["rows"][1]["loss"]
    assert by_number(Settings(**SMALL)) == found  # to the last digit, on one machine
    for row in found["rows"]:
        assert row["perplexity"] == pytest.approx(2.718281828 ** row["loss"], rel=1e-3)
        assert 0 <= row["exact"] <= 1


def test_a_number_that_does_not_divide_the_width_is_named():
    assert_refused("d_model", lambda: by_number(Settings(**{**SMALL, "heads": (3,)})))
