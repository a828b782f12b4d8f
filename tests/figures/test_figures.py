import numpy as np
import pytest
import torch
from assertions import refusals
from matplotlib import pyplot as plt
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, Rectangle
from matplotlib.text import Text

from attnbook import figures


def test_alignment_draws_the_weights_cut_to_the_tokens_and_frames_the_gold():
    weights = torch.arange(12, dtype=torch.float64).view(3, 4) / 12
    ax = figures.alignment(weights, ["a", "b", "c"], ["x", "y"], gold=[{0, 2}, set()]).axes[0]
    np.testing.assert_allclose(ax.images[0].get_array(), weights[:2, :3].numpy())
    frames = [p for p in ax.patches if isinstance(p, Rectangle)]
    assert sorted(p.get_xy() for p in frames) == [(-0.5, -0.5), (1.5, -0.5)]
    assert [t.get_text() for t in ax.get_xticklabels()] == ["a", "b", "c"]
    assert [t.get_text() for t in ax.get_yticklabels()] == ["x", "y"]


def test_word_arcs_draw_one_arc_a_word_wider_for_more_weight():
    ax = figures.word_arcs(["she", "is", "eating", "apple"], [0.1, 0.0, 0.2, 0.7], 2).axes[0]
    arcs = [p for p in ax.patches if isinstance(p, FancyArrowPatch)]
    assert len(arcs) == 2 and arcs[1].get_linewidth() > arcs[0].get_linewidth()


def test_text_heat_writes_every_word_once_darker_for_more_weight():
    words = [f"word{k}" for k in range(30)]
    ax = figures.text_heat(words, np.linspace(0, 1, 30)).axes[0]
    assert [t.get_text() for t in ax.texts][::2] == words
    fields = [p.get_facecolor()[:3] for p in ax.patches]
    assert sum(fields[0]) > sum(fields[15]) > sum(fields[-1])


PRICE = ["$\\x$", "a$2$"]


@pytest.mark.parametrize(
    "draw",
    [
        lambda: figures.alignment(np.eye(2), PRICE, PRICE),
        lambda: figures.word_arcs(PRICE, [0.5, 0.5], 0),
        lambda: figures.text_heat(PRICE, [0.5, 0.5]),
        lambda: figures.document_heat([PRICE], [[0.5, 0.5]], [1.0]),
        lambda: figures.memory_hops(PRICE, [[0.5, 0.5]], title=PRICE[0]),
        lambda: figures.dependency_tree(PRICE, [-1, 0]),
        lambda: figures.picture_words(np.zeros((3, 4, 4)), PRICE, np.full((2, 4), 0.25), (2, 2)),
    ],
)
def test_dollars_of_a_token_begin_no_formula(draw):
    fig = draw()
    fig.draw_without_rendering()  # a formula that cannot be read would stop it
    drawn = [t for t in fig.findobj(Text) if "$" in t.get_text()]
    assert len(drawn) >= 2 and all(t._preprocess_math(t.get_text())[1] is False for t in drawn)


def test_curves_draw_the_mean_and_the_range_over_seeds():
    seeds = {"a": [[0, 1], [1, 1]], "b": [0.5, 0.5]}
    ax = figures.curves([1, 2], seeds, xlabel="x", ylabel="y").axes[0]
    np.testing.assert_allclose(ax.lines[0].get_ydata(), [0.5, 1])
    band = ax.collections[0].get_paths()[0].vertices
    assert band[:, 1].min() == 0 and band[:, 1].max() == 1
    assert len(ax.collections) == 1 and ax.lines[0].get_linestyle() != ax.lines[1].get_linestyle()


def test_curves_take_tensors_of_any_precision():
    half = torch.tensor([0.5, 0.25], dtype=torch.bfloat16, requires_grad=True)
    ax = figures.curves([1, 2], {"a": half}, xlabel="x", ylabel="y").axes[0]
    assert list(ax.lines[0].get_ydata()) == [0.5, 0.25]


@pytest.mark.parametrize("losses", [[-1.0, -2.0, -3.0], [1.0, 0.5, -0.5]])
def test_training_shows_losses_below_zero(losses):
    bottom, top = figures.training(losses).axes[0].get_ylim()
    assert bottom < min(losses) and max(losses) < top


def test_training_draws_a_running_mean():
    ax = figures.training({"a": [4.0] * 20 + [2.0] * 20}, baseline=3.0).axes[0]
    smooth = ax.lines[1].get_ydata()
    assert smooth[0] == 4 and smooth[20] == 3 and smooth[-1] == 2
    assert ax.lines[2].get_ydata()[0] == 3.0


def test_encoder_decoder_has_a_box_a_state_and_a_context_only_with_attention():
    def boxes(fig):
        return sum(isinstance(p, FancyBboxPatch) for p in fig.axes[0].patches)

    source, target = ["she", "eats"], ["elle", "mange", "."]
    assert boxes(figures.encoder_decoder(source, target)) == 5
    assert boxes(figures.encoder_decoder(source, target, attention=[0.3, 0.7], step=1)) == 6


def test_every_figure_is_opaque_and_drawn_the_same_twice(tmp_path):
    for k in range(2):
        fig = figures.curves([1, 2], {"a": [0, 1]}, xlabel="x", ylabel="y")
        fig.savefig(tmp_path / f"{k}.png", metadata={"Software": None})
    assert (tmp_path / "0.png").read_bytes() == (tmp_path / "1.png").read_bytes()
    assert plt.imread(tmp_path / "0.png")[..., 3].min() == 1


test_bad_input_is_named = refusals(
    ("weights must cover", lambda: figures.alignment(np.zeros((1, 2)), ["a", "b"], ["x", "y"])),
    ("weights must have", lambda: figures.alignment(np.zeros(2), ["a"], ["x"])),
    ("weights must be", lambda: figures.alignment([[float("nan")]], ["a"], ["x"])),
    ("gold", lambda: figures.alignment([[1.0]], ["a"], ["x"], gold=[{1}])),
    ("gold", lambda: figures.alignment([[1.0]], ["a"], ["x"], gold=[{0}, {0}])),
    ("weights", lambda: figures.word_arcs(["a"], [1.0, 0.0], 0)),
    ("query", lambda: figures.word_arcs(["a", "b"], [1.0, 0.0], 2)),
    ("weights", lambda: figures.text_heat(["a"], [0.1, 0.2])),
    ("words", lambda: figures.text_heat([], [])),
    ("weights must lie", lambda: figures.text_heat(["a", "b"], [-3.0, 5.0])),
    ("line 'a' must", lambda: figures.curves([1, 2], {"a": [1]}, xlabel="", ylabel="")),
    ("losses of the", lambda: figures.training([])),
    ("source and target", lambda: figures.encoder_decoder([], ["a"])),
    ("attention", lambda: figures.encoder_decoder(["a"], ["b"], attention=[0.5, 0.5])),
    ("step", lambda: figures.encoder_decoder(["a"], ["b"], attention=[0.5], step=1)),
)
