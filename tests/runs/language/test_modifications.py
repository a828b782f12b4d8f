"""The comparison of modifications: which models, with what sizes, and that it trains them alike."""

from dataclasses import replace

import pytest
import torch
from assertions import assert_refused
from torch import nn

from attnbook import FeedForward, GatedFeedForward, PreNorm, RMSNorm
from attnbook.mechanisms import ReZero
from attnbook.mechanisms.attention.synthesizer import SynthesizerAttention
from attnbook.mechanisms.layers.convolution import DynamicConvolution
from attnbook.mechanisms.layers.mixture_of_experts import Switch
from attnbook.tasks.text.denoising import DenoisingBatches
from attnbook.tasks.text.reviews import Document
from attnbook.training import token_loss
from attnbook_runs import load_experiments
from attnbook_runs.common import count_parameters
from attnbook_runs.language import modifications
from attnbook_runs.language.modifications import MODIFICATIONS, Sizes, build
from attnbook_runs.language.narang import FAMILIES, TABLE

SMALL = Sizes(d_model=24, num_heads=4, d_feed_forward=48, num_layers=4, length=20)
SIZE = 60


def made(name):
    torch.manual_seed(0)
    return build(name, SIZE, SMALL)


def batches():
    return DenoisingBatches(
        torch.randint(8, SIZE, (12, 20), generator=torch.Generator().manual_seed(0)), 4, [4, 5, 6]
    )


def test_every_row_of_the_paper_s_table_has_a_model_and_a_recorded_run_of_that_name():
    assert set(MODIFICATIONS) == set(TABLE) and len(TABLE) == 52
    assert {f"modification-{name}" for name in TABLE} <= set(load_experiments())
    assert_refused("name", build, "gated", SIZE)


@pytest.mark.parametrize("name", MODIFICATIONS)
def test_every_model_reads_a_batch_and_every_parameter_gets_a_gradient(name):
    model, batch = made(name), batches().batch(0)
    total, count = modifications._loss(model, batch)
    (total / count).backward()
    missing = [n for n, p in model.named_parameters() if p.grad is None]
    assert not [n for n in missing if "experts" not in n] and torch.isfinite(total)
    model.eval()
    with torch.no_grad():
        assert token_loss(model, batch)[0] > 0


def count(name):
    return count_parameters(made(name))


def test_what_is_said_to_cost_the_same_does():
    def beside_vanilla(name):
        return count_parameters(build(name, 5000)) / count_parameters(build("vanilla", 5000))

    vanilla = count("vanilla")
    for name in "gelu rezero-layer-norm deepest widest wider deeper funnel glu swiglu".split():
        assert abs(beside_vanilla(name) - 1) < 0.06, name
    assert abs(beside_vanilla("evolved") - 1) < 0.1  # 217 and 223 M in the paper
    assert 1.5 < beside_vanilla("product-keys") < 2.2  # 421 M
    assert count("tied-inputs") == count("tied-decoder") == vanilla + SIZE * 24
    assert count("untied") == vanilla + 2 * SIZE * 24
    assert count("block-sharing") < count("decoder-sharing") < count("encoder-sharing") < vanilla
    assert count("mixture-of-experts") > 1.5 * vanilla
    assert count("factorised-shared") < count("factorised")


def test_depth_against_width():
    layers = {
        name: len(made(name).encoder.layers) for name in ("deepest", "deeper", "wider", "widest")
    }
    assert layers == {"deepest": 8, "deeper": 6, "wider": 3, "widest": 2}
    block = made("widest").encoder.layers[0]
    assert block.attention.num_heads == 8 and block.attention.d_head == 6
    assert block.feed_forward.hidden.out_features == 96


def test_what_the_models_are_made_of():
    def kinds(name, wanted):
        return sum(type(m) is wanted for m in made(name).modules())

    assert all(
        isinstance(layer.around_attention, PreNorm) for layer in made("vanilla").encoder.layers
    )
    assert kinds("vanilla", FeedForward) == 8 and kinds("swiglu", GatedFeedForward) == 8
    assert kinds("rms-norm", RMSNorm) == 22 and kinds("rms-norm", nn.LayerNorm) == 0
    assert kinds("rezero", ReZero) == 20 and kinds("switch", Switch) == 8
    assert kinds("synthesizer-dense", SynthesizerAttention) == 8
    assert kinds("dynamic-convolution", DynamicConvolution) == 8
    model = made("factorised-shared")
    narrow = model.source_embedding.narrow.weight
    assert model.output.words is narrow is model.target_embedding.narrow.weight
    model = made("encoder-sharing")
    assert len(set(map(id, model.encoder.layers))) == 1
    assert len(set(map(id, model.decoder.layers))) == 4
    model = made("untied")
    tables = model.source_embedding, model.target_embedding, model.output
    assert len({id(table.weight) for table in tables}) == 3
    fixup = made("fixup")
    assert all(
        layer.attention.output_projection.weight.abs().max() == 0 for layer in fixup.encoder.layers
    )


def test_experts_pay_for_their_balance_and_others_do_not():
    for name, pays in (("switch", True), ("mixture-of-experts", True), ("vanilla", False)):
        model, batch = made(name), batches().batch(0)
        torch.manual_seed(1)
        total = modifications._loss(model, batch)[0]
        torch.manual_seed(1)
        assert bool(total > token_loss(model, batch)[0] + 1e-6) is pays


def test_a_short_comparison_learns_and_is_the_same_again():
    given = dict(data="grammar", seeds=2, min_count=1, length=24, batch_size=16, held_batches=2)
    given |= dict(d_model=24, d_feed_forward=48, num_layers=1, steps=40, warmup=5)
    settings = modifications.Settings(modification="rms-norm", **given)
    found = modifications.compare(settings)
    assert found["label"] == "RMS Norm" and found["paper"] == {"early": 2.167, "final": 1.821}
    assert len(found["final"]) == 2
    assert all(b < a - 0.2 for a, b in zip(found["early"], found["final"]))
    assert abs(found["mean"] - sum(found["final"]) / 2) < 1e-4
    assert found["spread"] > 0 and found["operations"] > 10**6
    again = modifications.compare(replace(settings, seeds=1), seed=1)
    assert again["final"] == found["final"][1:] and again["spread"] is None
    assert_refused("data", lambda: modifications.compare(modifications.Settings(data="news")))


def test_the_extreme_rows_on_reviews_that_are_held_out(monkeypatch, figures_of):
    """Ten rows beside the vanilla model; no review is in both parts."""
    documents = [
        Document(((f"review{k}", *"a b c d e f g h i".split()),) * 6, k % 2) for k in range(2000)
    ]
    monkeypatch.setattr(modifications.reviews, "movie_reviews", lambda: documents)
    training, held_out, vocabulary, _ = modifications._texts("movie-reviews", 20, 1)
    ids = {vocabulary.encode([f"review{k}"])[0] for k in range(2000)} - {
        vocabulary.encode(["?"])[0]
    }
    read = [ids & set(part.flatten().tolist()) for part in (training, held_out)]
    assert len(read[0]) == 1800 and not read[0] & read[1]
    assert held_out.numel() == pytest.approx(training.numel() / 9, rel=0.01)
    losses = {name: TABLE[name].final for name in modifications.EXTREMES}
    assert len(losses) == 10 and "vanilla" not in losses
    assert not [
        name
        for name, row in TABLE.items()
        if name not in losses and not 1.798 <= row.final <= min(sorted(losses.values())[5:])
    ]
    figures = figures_of(
        "modification-fixup-reviews",
        **dict(length=20, d_model=8, d_feed_forward=8, num_layers=1, steps=8, held_batches=1),
    )
    assert len(figures["final"]) == 1 and figures["spread"] is None
    assert figures["train_words"] == training.numel()


def test_the_table_is_the_paper_s():
    assert TABLE["vanilla"] == ("vanilla Transformer", 223, 11.1, 3.5, 2.182, 0.005, 1.838)
    assert min(TABLE, key=lambda name: TABLE[name].final) == "switch"
    assert max(TABLE, key=lambda name: TABLE[name].final) == ("block-sharing-factorised-shared")
    members = [name for family in FAMILIES.values() for name in family]
    assert sorted(["vanilla", *members]) == sorted(TABLE)
    better = [name for name, row in TABLE.items() if row.final < TABLE["vanilla"].final]
    assert len(better) == 15
