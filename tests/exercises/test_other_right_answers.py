"""Answers that are right and not written as the book writes them pass as well."""

import pytest

from attnbook.checks import judge

from .right_answers import RIGHT


@pytest.mark.parametrize(
    ("id", "function"), RIGHT, ids=[f"{id}-{function.__name__}" for id, function in RIGHT]
)
def test_it_is_right(id, function):
    for seed in range(2):
        verdict = judge(id, function, seed)
        assert verdict, verdict
