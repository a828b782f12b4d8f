"""Drawings of live modules: what is drawn is what the code of the module does."""

from dataclasses import replace

import pytest
import torch
from assertions import refusals
from matplotlib.patches import Circle, FancyArrowPatch
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
        drawn = sublayer.before, sublayer.behind, sublayer.after
        assert [[part.module for part in parts] for parts in drawn] == [before, behind, after]
        assert sublayer.join == join


def test_a_residual_connection_is_read_by_its_code_not_its_name():
    class PostNorm(ResidualConnection):  # although its name says otherwise
        def sublayer_input(self, x):
            return self.norm(x)

        def combine(self, x, output):
            return self.norm(x + 0.5 * self.dropout(output))

    (first, _) = read_block(block(PostNorm))
    assert [p.module for p in first.before] == ["LayerNorm"]
    assert [p.module for p in first.behind] == ["dropout", "× 0.5"]
    assert [p.module for p in first.after] == ["LayerNorm"] and first.join == "sum"


@pytest.mark.parametrize(
    ("before", "combine"),
    [
        # not a chain of modules and a sum
        (None, lambda self, x, output: x * torch.sigmoid(output) + output),
        (None, lambda self, x, output: x + output if output.sum() > 0 else x),
        (None, lambda self, x, output: self.norm(x + output) + x),  # the sum is not all
        (None, lambda self, x, output: self.norm(x) + output),  # what is added is not the stream
        # the sum is before the sublayer
        (lambda self, x: x + self.norm(x), lambda self, x, output: self.norm(output)),
    ],
)
def test_another_residual_connection_is_a_box_of_its_own(before, combine):
    own = {"combine": combine} | ({"sublayer_input": before} if before else {})
    residual = type("Other", (ResidualConnection,), own)
    (first, _) = read_block(block(residual))
    assert first.join == "other"
    assert [p.lines[:2] for p in first.after] == [["residual connection", "Other"]]
    assert texts(figures.draw_block(block(residual))).count("residual") == 2


def test_what_changes_nothing_is_not_drawn():
    assert all(not sublayer.behind for sublayer in read_block(block(PostNorm, dropout=0.0)))
    parts = paper_parts(16, 4, 64, residual=NoResidual, norm=lambda width: nn.Identity())
    (only,) = read_block(replace(parts, feed_forward=nn.Identity).make_encoder(1).layers[0])
    assert only.part.role == "self-attention" and not only.after


def test_boxes_say_widths_and_parameters_of_the_live_module():
    layer = block()
    attention, feed_forward = (sublayer.part for sublayer in read_block(layer))
    said = "self-attention; MultiHeadAttention, 4 heads × 4; 1,088 parameters"
    assert "; ".join(attention.lines) == said
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
    for fig, first, second, third in (
        (post, "sublayer", "sum", "norm"),
        (pre, "norm", "sublayer", "sum"),
    ):
        places = {
            "sublayer": height(fig, "self-attention") + height(fig, "feed-forward"),
            "norm": height(fig, "LayerNorm · 32"),
            "sum": sums(fig),
        }
        order = [places[kind][k] for k in (0, 1) for kind in (first, second, third)]
        assert order == sorted(order)
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


def model(tie="output", **options):
    parts = paper_parts(16, 4, 64, **options)
    return Transformer(20, 20, parts, num_layers=(2, 3), tie=tie)


@pytest.mark.parametrize("residual", [PostNorm, PreNorm])
def test_a_model_has_two_columns_a_frame_a_stack_and_an_arrow_between(residual):
    net = model(residual=residual)
    fig = figures.draw_model(net)
    said = texts(fig)
    assert fig.axes[0].get_title() == f"Transformer: {count_parameters(net):,} parameters"
    assert f"2 × EncoderLayer, {count_parameters(net.encoder.layers):,} parameters" in said
    assert f"3 × DecoderLayer, {count_parameters(net.decoder.layers):,} parameters" in said
    assert said.count("self-attention") == 2 and said.count("residual") == 5
    for name in ("attention over the source", "source embedding", "target embedding", "output"):
        assert said.count(name) == 1
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
    assert [t[0] for t in said if t[1:].startswith(" × EncoderLayer")] == ["1", "1", "2"]
    parts = replace(paper_parts(16, 4, 64), stack=lambda make, n: [make()] * n)
    said = texts(figures.draw_model(TransformerLM(20, parts, num_layers=3)))
    assert f"3 × the same block, {count_parameters(block()):,} parameters" in said


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
