import pytest
from matplotlib.colors import to_rgba

from attnbook import figures

WORDS, HEADS = ("the", "dogs", "near", "trees", "sleep"), (1, 4, 3, 1, -1)


def test_each_word_stands_at_its_place_and_depth_and_is_joined_to_its_head():
    ax = figures.dependency_tree(WORDS, HEADS, notes=[5, 6, 7, 8, 9], marked=[1]).axes[0]
    places = {t.get_text(): t.get_position() for t in ax.texts}
    assert [places[word] for word in WORDS] == [(0, -2), (1, -1), (2, -3), (3, -2), (4, 0)]
    branches = {tuple(map(tuple, line.get_xydata())) for line in ax.lines if line.get_zorder() == 1}
    assert branches == {
        ((1, -1), (0, -2)),
        ((4, 0), (1, -1)),
        ((3, -2), (2, -3)),
        ((1, -1), (3, -2)),
    }
    assert [places[note][0] for note in "56789"] == [0, 1, 2, 3, 4]
    frames = {
        t.get_text(): t.get_bbox_patch().get_edgecolor() for t in ax.texts if t.get_text() in WORDS
    }
    assert frames["dogs"] == to_rgba(figures.COLORS[1]) != frames["the"] == frames["sleep"]


@pytest.mark.parametrize(
    ("words", "heads", "notes"),
    [
        ((), (), None),
        (("a", "b"), (-1,), None),
        (("a",), (-1,), (1, 2)),
        (("a", "b"), (-1, -1), None),
        (("a", "b", "c"), (-1, 2, 1), None),
        (("a", "b"), (-1, 5), None),
    ],
)
def test_what_is_no_tree_is_named(words, heads, notes):
    with pytest.raises(ValueError, match="heads"):
        figures.dependency_tree(words, heads, notes=notes)
