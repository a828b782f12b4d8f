from assertions import refusals
from matplotlib.colors import to_rgba

from attnbook import figures

WORDS, HEADS = ("the", "dogs", "near", "trees", "sleep"), (1, 4, 3, 1, -1)


def test_each_word_stands_at_its_place_and_depth_and_is_joined_to_its_head():
    ax = figures.dependency_tree(WORDS, HEADS, notes=[5, 6, 7, 8, 9], marked=[1]).axes[0]
    places = {t.get_text(): t.get_position() for t in ax.texts}
    assert [places[word] for word in WORDS] == [(0, -2), (1, -1), (2, -3), (3, -2), (4, 0)]
    branches = {tuple(map(tuple, line.get_xydata())) for line in ax.lines if line.get_zorder() == 1}
    ends = [(HEADS[k], k) for k in range(4)]
    assert branches == {(places[WORDS[head]], places[WORDS[k]]) for head, k in ends}
    assert [places[note][0] for note in "56789"] == [0, 1, 2, 3, 4]
    frames = {t.get_text(): t.get_bbox_patch().get_edgecolor() for t in ax.texts}
    assert frames["dogs"] == to_rgba(figures.COLORS[1]) != frames["the"] == frames["sleep"]


test_what_is_no_tree_is_named = refusals(
    ("heads and notes", lambda: figures.dependency_tree("", [])),
    ("heads and notes", lambda: figures.dependency_tree("ab", [-1])),
    ("heads and notes", lambda: figures.dependency_tree("a", [-1], notes=[1, 2])),
    ("heads", lambda: figures.dependency_tree("ab", [-1, -1])),
    ("heads", lambda: figures.dependency_tree("abc", [-1, 2, 1])),
    ("heads", lambda: figures.dependency_tree("ab", [-1, 5])),
)
