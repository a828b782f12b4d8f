import numpy as np
import torch
from assertions import refusals
from matplotlib.patches import Rectangle

from attnbook import figures

SENTENCES = [("the", "film", "was", "dull"), ("we", "left")]


def test_document_heat_writes_every_word_darker_for_more_weight_in_a_sentence_of_weight():
    words = torch.tensor([[0.1, 0.1, 0.1, 0.7], [0.3, 0.7, 0.0, 0.0]])
    rows = torch.tensor([0.9, 0.1])
    ax = figures.document_heat(SENTENCES, words, rows, marked=[(0, 3)]).axes[0]
    assert [t.get_text() for t in ax.texts] == "0.90 the film was dull 0.10 we left".split()
    frames = [p for p in ax.patches if isinstance(p, Rectangle) and not p.get_fill()]
    fields = [p for p in ax.patches if p.get_fill()]
    bars = [fields[0], fields[5]]
    shades = [sum(p.get_facecolor()[:3]) for p in fields[1:5] + fields[6:8]]
    assert len(frames) == 1 and len(fields) == 8
    np.testing.assert_allclose([b.get_width() for b in bars], [0.63, 0.07], atol=1e-6)
    # 0.7 weighs less in the other sentence
    assert shades[3] < shades[5] < shades[4] and shades[0] > shades[3]


def test_memory_hops_draws_a_column_a_hop_and_frames_the_supporting_sentences():
    weights = np.array([[0.9, 0.1, 0.0, 0.0], [0.0, 0.2, 0.8, 0.0]])
    lines = ["one", "two", "three"]
    ax = figures.memory_hops(lines, weights, supporting=(0, 2), title="where?").axes[0]
    np.testing.assert_allclose(ax.images[0].get_array(), weights[:, :3].T)
    assert [t.get_text() for t in ax.get_yticklabels()] == lines
    assert [t.get_text() for t in ax.get_xticklabels()] == ["hop 1", "hop 2"]
    assert sorted(p.get_xy() for p in ax.patches) == [(-0.5, -0.5), (-0.5, 1.5)]
    assert ax.get_title(loc="left") == "where?"


test_too_few_weights_are_named = refusals(
    ("weights", lambda: figures.document_heat(SENTENCES, [[0.5, 0.5]], [1.0])),
    ("weights", lambda: figures.document_heat(SENTENCES, [[0.5, 0.5]] * 2, [0.5, 0.5])),
    ("weights", lambda: figures.document_heat([], [[1.0]], [1.0])),
    ("weights", lambda: figures.memory_hops(["one", "two"], [[1.0]])),
    ("weights", lambda: figures.memory_hops(["one"], [1.0])),
)
