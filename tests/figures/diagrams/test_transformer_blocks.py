"""Drawings of live modules: what is drawn is what the code of the module does."""

from dataclasses import replace

import pytest
import torch
from matplotlib.patches import Circle, FancyArrowPatch
from refusing import refusals
from torch import nn

from attnbook import PreNorm, Transformer, TransformerLM, figures, paper_parts
from attnbook.figures.diagrams.module_outline import count_parameters, describe, read_block
from attnbook.mechanisms import (
    GatedFeedForward,
    NoResidual,
    PostNorm,
    ResidualConnection,
    ReZero,
    RMSNorm,
)


def block(residual=PostNorm, **options):
    return paper_parts(16, 4, 64, **options, residual=residual).make_encoder(1).layers[0]


def texts(fig):
    return [t.get_text() for t in fig.axes[0].texts]


def height(fig, text):
    """The heights at which a text stands, lowest first."""
    return sorted(t.get_position()[1] for t in fig.axes[0].texts if t.get_text().startswith(text))


def sums(fig):
    return sorted(p.center[1] for p in fig.axes[0].patches if isinstance(p, Circle))


@pytest.mark.parametrize(
    ("residual", "before", "behind", "join", "after"),
    [
        (PostNorm, [], ["dropout"], "sum", ["LayerNorm"]),
        (PreNorm, ["LayerNorm"], ["dropout"], "sum", []),
        (ReZero, ["LayerNorm"], ["dropout", "× scale"], "sum", []),
        (NoResidual, [], ["dropout", "LayerNorm"], "none", []),
    ],
)
def test_a_residual_connection_is_read_off_what_it_computes(residual, before, behind, join, after):
    for sublayer in read_block(block(residual)):
        assert [
            [part.module for part in parts]
            for parts in (sublayer.before, sublayer.behind, sublayer.after)
        ] == [before, behind, after]
        assert sublayer.join == join


def test_another_residual_connection_is_read_by_its_code_not_its_name():
    class PostNorm(ResidualConnection):  # although its name says otherwise
        def sublayer_input(self, x):
            return self.norm(x)

        def combine(self, x, output):
            return self.norm(x + 0.5 * self.dropout(output))

    class Gate(ResidualConnection):  # not a chain of modules and a sum: a box of its own
        def combine(self, x, output):
            return x * torch.sigmoid(output) + output

    class Looks(ResidualConnection):
        def combine(self, x, output):
            return x + output if output.sum() > 0 else x

    class Beside(ResidualConnection):  # the sum is not all
        def combine(self, x, output):
            return self.norm(x + output) + x

    (first, _) = read_block(block(PostNorm))
    assert [p.module for p in first.before] == ["LayerNorm"]
    assert [p.module for p in first.behind] == ["dropout", "× 0.5"]
    assert [p.module for p in first.after] == ["LayerNorm"] and first.join == "sum"

    class Changed(ResidualConnection):  # what is added is not the stream itself
        def combine(self, x, output):
            return self.norm(x) + output

    class Early(ResidualConnection):  # the sum is before the sublayer
        def sublayer_input(self, x):
            return x + self.norm(x)

        def combine(self, x, output):
            return self.norm(output)

    for residual in (Gate, Looks, Beside, Changed, Early):
        (first, _) = read_block(block(residual))
        assert first.join == "other"
        assert [p.lines[:2] for p in first.after] == [["residual connection", residual.__name__]]
        assert texts(figures.draw_block(block(residual))).count("residual") == 2


def test_what_changes_nothing_is_not_drawn():
    plain = read_block(block(PostNorm, dropout=0.0))
    assert all(not sublayer.behind for sublayer in plain)
    (only,) = read_block(
        replace(
            paper_parts(16, 4, 64, residual=NoResidual, norm=lambda width: nn.Identity()),
            feed_forward=nn.Identity,
        )
        .make_encoder(1)
        .layers[0]
    )
    assert only.part.role == "self-attention" and not only.after


def test_boxes_say_widths_and_parameters_of_the_live_module():
    layer = block()
    attention, feed_forward = (sublayer.part for sublayer in read_block(layer))
    assert attention.lines == [
        "self-attention",
        "MultiHeadAttention, 4 heads × 4",
        "1,088 parameters",
    ]
    assert feed_forward.lines == ["feed-forward", "FeedForward, 16 → 64 → 16", "2,128 parameters"]
    assert describe(GatedFeedForward(16, 40)).detail == "16 → 40 → 16"
    assert describe(RMSNorm(16)).lines == ["RMSNorm · 16 parameters"]
    layer.feed_forward.hidden.bias = None
    assert read_block(layer)[1].part.parameters == 2128 - 64
    shared = nn.Linear(3, 3)
    assert count_parameters(nn.Sequential(shared, shared)) == count_parameters(shared, shared) == 12
    other = nn.Linear(3, 3)
    other.weight = shared.weight
    assert count_parameters(shared, other) == 15


def test_post_norm_has_its_norms_on_the_stream_and_pre_norm_in_the_branch():
    post, pre = figures.draw_block(block()), figures.draw_block(block(PreNorm))
    for fig in (post, pre):
        assert len(sums(fig)) == 2
        assert texts(fig).count("residual") == 2
        assert "x, (n × 16)" in texts(fig)
    attention, norms = height(post, "self-attention")[0], height(post, "LayerNorm · 32")
    assert (
        attention
        < sums(post)[0]
        < norms[0]
        < height(post, "feed-forward")[0]
        < sums(post)[1]
        < norms[1]
    )
    attention, norms = height(pre, "self-attention")[0], height(pre, "LayerNorm · 32")
    assert (
        norms[0]
        < attention
        < sums(pre)[0]
        < norms[1]
        < height(pre, "feed-forward")[0]
        < sums(pre)[1]
    )
    none = figures.draw_block(block(NoResidual))
    assert not sums(none) and "residual" not in texts(none)


def test_blocks_stand_beside_each_other_in_their_own_columns():
    fig = figures.draw_block(block(), block(PreNorm))
    names = ("EncoderLayer, PostNorm", "EncoderLayer, PreNorm")
    titles = [f"{name}\n{count_parameters(block()):,} parameters" for name in names]
    assert len(sums(fig)) == 4 and set(titles) <= set(texts(fig))
    a, b = (t.get_position()[0] for t in fig.axes[0].texts if t.get_text() in titles)
    assert b - a > 4.2


def test_a_decoder_block_reads_the_source():
    fig = figures.draw_block(paper_parts(16, 4, 64).make_decoder(1).layers[0])
    (box,) = height(fig, "attention over the source")
    assert len(sums(fig)) == 3
    assert abs(height(fig, "source")[0] - box) < 0.5
    assert height(fig, "self-attention")[0] < box < height(fig, "feed-forward")[0]


def model(tie="output", source_size=20, **options):
    return Transformer(
        source_size, 20, paper_parts(16, 4, 64, **options), num_layers=(2, 3), tie=tie
    )


@pytest.mark.parametrize("residual", [PostNorm, PreNorm])
def test_a_model_has_two_columns_a_frame_a_stack_and_an_arrow_between(residual):
    net = model(residual=residual)
    fig = figures.draw_model(net)
    said = texts(fig)
    assert fig.axes[0].get_title() == f"Transformer: {count_parameters(net):,} parameters"
    assert f"2 × EncoderLayer, {count_parameters(net.encoder.layers):,} parameters" in said
    assert f"3 × DecoderLayer, {count_parameters(net.decoder.layers):,} parameters" in said
    assert said.count("self-attention") == 2
    assert said.count("attention over the source") == 1
    assert said.count("residual") == 5
    assert (
        said.count("source embedding")
        == said.count("target embedding")
        == said.count("output")
        == 1
    )
    # each stack ends with one
    assert said.count("LayerNorm · 32 parameters") == 5 + 2 * (residual is PreNorm)
    assert height(fig, "target embedding") < height(fig, "self-attention") < height(fig, "output")
    assert any(isinstance(p, FancyArrowPatch) for p in fig.axes[0].patches)
    for name in ("source positions", "target positions"):
        assert name in said


def test_a_matrix_that_is_used_twice_says_so():
    assert "the matrix of the target embedding" in texts(figures.draw_model(model()))
    assert texts(figures.draw_model(model("all"))).count("the matrix of the source embedding") == 2
    assert not [t for t in texts(figures.draw_model(model("none"))) if "matrix of" in t]


def test_one_stack_one_column_and_blocks_that_differ_are_drawn_apart():
    lm = TransformerLM(20, paper_parts(16, 4, 64), num_layers=4)
    said = texts(figures.draw_model(lm))
    assert any(t.startswith("4 × EncoderLayer") for t in said) and said.count("self-attention") == 1
    lm.stack.layers[1] = block(PreNorm)
    said = texts(figures.draw_model(lm))
    assert [t[:16] for t in said if "× EncoderLayer" in t] == [
        "1 × EncoderLayer",
        "1 × EncoderLayer",
        "2 × EncoderLayer",
    ]
    shared = TransformerLM(
        20, replace(paper_parts(16, 4, 64), stack=lambda make, n: [make()] * n), num_layers=3
    )
    assert f"3 × the same block, {count_parameters(block()):,} parameters" in texts(
        figures.draw_model(shared)
    )


def test_drawing_leaves_the_module_as_it_was():
    net = model()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    names = [name for name, _ in net.named_modules()]
    figures.draw_model(net)
    assert all(torch.equal(before[name], value) for name, value in net.state_dict().items())
    assert net.training
    assert [name for name, _ in net.named_modules()] == names


test_what_cannot_be_drawn_is_named = refusals(
    ("layer", lambda: figures.draw_block(nn.Linear(2, 2))),
    ("layer", lambda: figures.draw_block("block")),
    ("layers", lambda: figures.draw_block()),
    ("model", lambda: figures.draw_model(nn.Linear(2, 2))),
)
