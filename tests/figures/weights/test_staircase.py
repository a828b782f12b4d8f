import numpy as np
from assertions import refusals

from attnbook import figures

WORDS = ["the", "dogs", "near", "sleep"]
WEIGHTS = np.array([[0, 0, 0, 0], [1, 0, 0, 0], [0.3, 0.7, 0, 0], [0.0, 0.9, 0.1, 0]])


def test_a_line_a_word_each_one_longer_and_darker_where_the_weight_is():
    ax = figures.word_staircase(WORDS, WEIGHTS, gold=[set(), set(), set(), {1}]).axes[0]
    assert [t.get_text() for t in ax.texts] == WORDS[:2] + WORDS[:3] + WORDS
    lines = sorted({t.get_position()[1] for t in ax.texts}, reverse=True)
    assert [sum(t.get_position()[1] == y for t in ax.texts) for y in lines] == [2, 3, 4]
    fields = [p for p in ax.patches if p.get_fill()]
    assert len(fields) == 1 + 2 + 3
    darkness = [3 - sum(p.get_facecolor()[:3]) for p in fields[3:]]
    assert darkness[1] > darkness[2] > darkness[0]
    (frame,) = [p for p in ax.patches if not p.get_fill()]
    assert abs(frame.get_x() - fields[4].get_x()) < 0.05
    assert abs(frame.get_y() - fields[4].get_y()) < 0.05


def test_the_looking_word_stands_last_in_a_colour_of_its_own():
    ax = figures.word_staircase(WORDS, WEIGHTS).axes[0]
    colored = [t.get_text() for t in ax.texts if t.get_color() == figures.COLORS[1]]
    assert colored == WORDS[1:]


test_mistakes_are_named = refusals(
    ("words", lambda: figures.word_staircase(WORDS[:1], WEIGHTS)),
    ("weights must be of shape", lambda: figures.word_staircase(WORDS, WEIGHTS[:3])),
    ("weights must be 0", lambda: figures.word_staircase(WORDS, np.eye(4))),
)
