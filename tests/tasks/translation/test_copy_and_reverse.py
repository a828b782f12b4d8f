import pytest
from assertions import refusals

from attnbook.tasks.sequences.pairs import take
from attnbook.tasks.translation.copy_and_reverse import drawer


@pytest.mark.parametrize("reverse", [False, True])
def test_what_each_target_token_comes_from(reverse):
    pairs = take(drawer(reverse, length=(2, 6), symbols=5), 500, seed=1)
    assert {len(p.source) for p in pairs} == {2, 3, 4, 5, 6}
    assert {c for p in pairs for c in p.source} == set("abcde")
    for pair in pairs:
        order = list(range(len(pair.source)))[:: -1 if reverse else 1]
        assert list(pair.target) == [pair.source[i] for i in order]
        assert [set(s) for s in pair.alignment] == [{i} for i in order]
        assert pair.content == (True,) * len(pair.source)


test_wrong_arguments_are_named = refusals(
    ("length", lambda: drawer(False, length=0)), ("symbols", lambda: drawer(True, symbols=27))
)
