import pytest
from refusing import refused

from attnbook.tasks.translation import copy_and_reverse


@pytest.mark.parametrize("make", [copy_and_reverse.copy, copy_and_reverse.reverse])
def test_what_each_target_token_comes_from(make):
    pairs = make(500, seed=1, length=(2, 6), symbols=5)
    assert (
        pairs
        == make(500, seed=1, length=(2, 6), symbols=5)
        != make(500, seed=2, length=(2, 6), symbols=5)
    )
    assert {len(p.source) for p in pairs} == {2, 3, 4, 5, 6}
    assert {c for p in pairs for c in p.source} == set("abcde")
    for pair in pairs:
        assert list(pair.target) == (
            list(pair.source) if make is copy_and_reverse.copy else list(reversed(pair.source))
        )
        expected = (
            range(len(pair.source))
            if make is copy_and_reverse.copy
            else reversed(range(len(pair.source)))
        )
        assert [set(s) for s in pair.alignment] == [{i} for i in expected]
        assert pair.content == (True,) * len(pair.source)


def test_wrong_arguments_are_named():
    for length in (0, (3, 2), (1.5, 2)):
        refused("length", copy_and_reverse.copy, 1, seed=0, length=length)
    for symbols in (0, 27, 1.5):
        refused("symbols", copy_and_reverse.reverse, 1, seed=0, symbols=symbols)
