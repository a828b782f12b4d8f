"""What changes the Transformer: each against its definition, and decoding with the cache."""

from dataclasses import replace
from functools import partial
from itertools import product

import pytest
import torch
from assertions import assert_exact, assert_refused
from torch import nn
from torch.nn import functional as F

from attnbook import (
    ALiBi,
    FeedForward,
    GeneralScore,
    MultiHeadAttention,
    PreNorm,
    RMSNorm,
    RotaryPositions,
    SlidingWindow,
    Transformer,
    causal_mask,
    padding_mask,
    paper_parts,
)
from attnbook.decoding import greedy
from attnbook.kernels.layers import Dropout
from attnbook.mechanisms import ResidualConnection
from attnbook.mechanisms.attention.synthesizer import SYNTHESIZERS, SynthesizerAttention
from attnbook.mechanisms.layers.convolution import DynamicConvolution, LightweightConvolution
from attnbook.mechanisms.layers.embeddings import (
    AdaptiveEmbedding,
    AdaptiveOutput,
    FactorisedEmbedding,
    FactorisedOutput,
    MixtureOfSoftmaxes,
)
from attnbook.mechanisms.layers.fixup import Fixup, fixup_start
from attnbook.mechanisms.layers.norms import LayerNorm
from attnbook.mechanisms.positions.absolute import sinusoids
from attnbook.models.transformer.layers import EncoderLayer
from attnbook.models.transformer.stacks import (
    FunnelEncoder,
    TimeStep,
    TransparentDecoder,
    TransparentEncoder,
    shared,
    universal,
)
from attnbook.models.transformer.weighted import (
    WeightedDecoderLayer,
    WeightedEncoderLayer,
    branched,
)
from attnbook.tasks import TOKEN_IDS
from attnbook_runs.language.parts.evolved import EvolvedEncoderLayer, SequenceConvolution, evolved
from attnbook_runs.language.parts.product_keys import ProductKeyMemory

from ..properties import assert_steps_are_the_whole
from .oracles_transformer import FF, D, H, randomised
from .test_transformer_decoding import LENGTHS, SOURCE, TARGET

BASE = paper_parts(D, H, FF, dropout=0.0, residual=PreNorm)


def synthesizer(kind, mix):
    return replace(
        BASE, attention=partial(SynthesizerAttention, D, H, length=9, kind=kind, mix=mix)
    )


def convolutions(kind):
    attention, causal = partial(kind, D, H, 3), partial(kind, D, H, 3, causal=True)
    return replace(BASE, attention=attention, causal_attention=causal)


MODIFICATIONS = {
    "fixup": paper_parts(D, H, FF, dropout=0.0, residual=Fixup),
    "block sharing": replace(BASE, stack=shared),
    "universal": replace(BASE, stack=universal(D)),
    "transparent": replace(BASE, encoder=TransparentEncoder, decoder=TransparentDecoder),
    "funnel": replace(BASE, encoder=FunnelEncoder),
    "weighted": replace(
        BASE, encoder_layer=WeightedEncoderLayer, decoder_layer=WeightedDecoderLayer
    ),
    "evolved": evolved(BASE, H, FF),
    "lightweight convolution": convolutions(LightweightConvolution),
    "dynamic convolution": convolutions(DynamicConvolution),
    "product keys": replace(BASE, feed_forward=partial(ProductKeyMemory, D, 5, 2, 3, 8)),
    "factorised embeddings": replace(BASE, embedding=lambda size: FactorisedEmbedding(size, D, 3)),
    "factorised output": replace(BASE, output=lambda size: FactorisedOutput(D, size, 3)),
    "adaptive embeddings": replace(
        BASE, embedding=lambda size: AdaptiveEmbedding(size, D, (3, 6), 2.0)
    ),
    "adaptive softmax": replace(BASE, output=lambda size: AdaptiveOutput(D, size, (3, 6), 2.0)),
    "mixture of softmaxes": replace(BASE, output=lambda size: MixtureOfSoftmaxes(D, size, 3)),
    **{
        f"synthesizer {kind} {mix or ''}".strip(): synthesizer(kind, mix)
        for kind in SYNTHESIZERS
        for mix in (None, "plus", "alpha")
    },
}


def build(name, layers=2):
    options = {"num_layers": layers, "tie": "none", "token_ids": TOKEN_IDS}
    return randomised(Transformer(8, 8, MODIFICATIONS[name], **options)).eval()


@pytest.mark.parametrize("name", MODIFICATIONS)
def test_cached_equals_uncached_and_a_row_is_a_batch_of_one_without_padding(name):
    model = build(name)
    assert_steps_are_the_whole(model, SOURCE, LENGTHS, TARGET, weights=False)
    full = model(SOURCE, LENGTHS, TARGET).logits
    for b, n in enumerate(LENGTHS):
        row = slice(b, b + 1)
        assert_exact(model(SOURCE[row, :n], LENGTHS[row], TARGET[row]).logits, full[row])
    other = SOURCE.clone()
    other[0, -1] = 3
    assert (model(other, LENGTHS, TARGET).logits[0] - full[0]).abs().max() > 1e-6
    assert len(greedy(model, SOURCE, LENGTHS, 4).tokens) == 3  # its caches can be picked from


def x_of(n=5, seed=3):
    return torch.randn(2, n, D, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def wire(norm=LayerNorm):
    return lambda: PreNorm(norm(D), Dropout(0.0))


# Fixup


def test_fixup_begins_as_the_identity_and_scales_as_its_authors_say():
    torch.manual_seed(0)
    model = Transformer(8, 8, MODIFICATIONS["fixup"], num_layers=3, token_ids=TOKEN_IDS).double()
    before = {name: p.clone() for name, p in model.named_parameters()}
    assert fixup_start(model) is model
    x = x_of()
    assert_exact(model.encoder(x).x, x)
    branches = 3 * 2 + 3 * 3
    for name, p in model.named_parameters():
        last = name.endswith(("output_projection.weight", "feed_forward.output.weight"))
        first = name.endswith(("value_projection.weight", "feed_forward.hidden.weight"))
        factor = 0 if last else branches**-0.5 if first else 1
        assert_exact(p, factor * before[name])


def test_fixup_is_the_sum_with_two_shifts_and_a_factor():
    residual = Fixup(nn.LayerNorm(D), Dropout(0.0)).double()
    assert [p.item() for p in residual.parameters()] == [0.0, 0.0, 1.0]
    with torch.no_grad():
        residual.before.fill_(0.5), residual.after.fill_(-2.0), residual.scale.fill_(3.0)
    x = x_of()
    assert_exact(residual(x, lambda h: h**2), x + 3 * (x + 0.5) ** 2 - 2)
    assert isinstance(residual.norm, nn.Identity) and isinstance(residual, ResidualConnection)


def test_fixup_in_the_wrong_place_is_named():
    assert_refused("model", fixup_start, Transformer(8, 8, BASE, num_layers=1))
    keys = replace(MODIFICATIONS["fixup"], feed_forward=partial(ProductKeyMemory, D, 5, 2, 3, 8))
    with pytest.raises(ValueError, match="must be a MultiHeadAttention or a FeedForward"):
        fixup_start(Transformer(8, 8, keys, num_layers=1))


# Stacks


def test_a_shared_block_is_one_block_and_a_universal_one_knows_its_depth():
    first, *others = build("block sharing", 4).encoder.layers
    assert len(others) == 3 and all(layer is first for layer in others)
    model = build("universal", 3)
    block, x = model.encoder.layers[0].block, x_of()
    assert all(layer.block is block for layer in model.encoder.layers)
    y = x
    for depth in range(3):
        y = block(y + sinusoids(3, D).double()[depth]).x
    # the buffer came from float32
    torch.testing.assert_close(model.encoder(x).x, model.encoder.norm(y), atol=1e-6, rtol=0)
    early, late = (TimeStep(block, depth, D).double()(x).x for depth in (0, 2))
    assert not torch.allclose(early, late)


def test_transparent_attention_mixes_the_levels_of_the_encoder():
    model = build("transparent", 3)
    x, mask = x_of(), padding_mask(torch.tensor([4, 5]), 5)[:, None]
    levels = model.encoder(x, mask=mask).x
    assert levels.shape == (2, 5, 4, D)
    y = x
    for i, layer in enumerate(model.encoder.layers):
        assert_exact(levels[..., i, :], model.encoder.norm(y))
        y = layer(y, mask=mask).x
    assert_exact(levels[..., 3, :], model.encoder.norm(y))
    shares = model.decoder.mixture.softmax(-1)  # (blocks, levels)
    for j, layer in enumerate(model.decoder.layers):
        mixed = sum(shares[j, i] * levels[..., i, :] for i in range(4))
        assert_exact(model.decoder.project(levels)[j].key, layer.project(mixed).key)
    assert (TransparentDecoder(model.decoder.layers, nn.Identity()).mixture == 0).all()
    assert_refused("memory", model.decoder.project, levels[..., :2, :])


def test_a_funnel_halves_the_sequence_and_its_queries_only():
    model = build("funnel", 2)
    first, second = model.encoder.layers
    x, lengths = x_of(), torch.tensor([4, 5])
    mask = padding_mask(lengths, 5)[:, None]
    long = first(x, mask=mask).x
    stacked = model.encoder(x, mask=mask, need_weights=True)
    for row, n in enumerate(lengths.tolist()):
        pairs = torch.stack([long[row, k : min(k + 2, n)].mean(0) for k in range(0, n, 2)])[None]
        norm = second.around_attention.norm
        y = pairs + second.attention(norm(pairs), norm(long[row : row + 1, :n])).context
        y = y + second.feed_forward(second.around_feed_forward.norm(y))
        halved = pairs.shape[1]
        assert_exact(stacked.x[row, :halved], model.encoder.norm(y)[0])
        assert stacked.mask[row, 0].tolist() == [k < halved for k in range(3)]
    assert [w.shape[-2:] for w in stacked.weights] == [(5, 5), (3, 5)]
    six = nn.ModuleList(nn.Identity() for _ in range(6))
    assert sorted(FunnelEncoder(six, nn.Identity(), 3).seams) == [2, 4]
    assert_refused("groups", lambda: FunnelEncoder([first, second], nn.Identity(), 3))
    for options in ({"rotary": RotaryPositions(D // H)}, {"score": ALiBi(H, causal=False)}):
        placed = EncoderLayer(MultiHeadAttention(D, H, **options), FeedForward(D, FF), wire)
        assert_refused("layers", lambda: FunnelEncoder([placed, placed], nn.Identity(), 2))
    assert_refused("mask", lambda: model.encoder(x, mask=causal_mask(5)))


def test_what_the_padding_holds_does_not_come_into_the_means_of_a_funnel():
    model, x = build("funnel", 2), x_of()
    mask = padding_mask(torch.tensor([3, 5]), 5)[:, None]
    zeros, spoiled = (x.masked_fill(~mask.mT, number) for number in (0.0, torch.nan))
    assert torch.equal(model.encoder(spoiled, mask=mask).x, model.encoder(zeros, mask=mask).x)


# Weighted Transformer

BIAS = "output_projection.bias"  # that W_o of branches has not


def branches_by_hand(layer, x, mask):
    """Σ_i α_i FFN(κ_i head_i W_o,i), head by head."""
    weights = layer(x, mask=mask).weights
    values = layer.value_projection(x)
    total, w, join = 0, D // H, layer.output_projection
    for i in range(H):
        head = weights[:, i] @ values[..., i * w : (i + 1) * w]
        branch = join.heads_in.softmax(0)[i] * head @ join.weight[:, i * w : (i + 1) * w].mT
        total = total + join.branches_out.softmax(0)[i] * join.feed_forward(branch)
    return total


def test_branches_equal_the_definition_and_a_row_without_keys_is_zero():
    layer = randomised(branched(MultiHeadAttention(D, H), FeedForward(D, FF)))
    x = x_of()
    assert_exact(layer(x, mask=causal_mask(5)).context, branches_by_hand(layer, x, causal_mask(5)))
    nothing = causal_mask(5).clone()
    nothing[2] = False
    assert layer(x, mask=nothing).context[:, 2].abs().max() == 0
    fresh = branched(MultiHeadAttention(D, H), FeedForward(D, FF)).output_projection
    for shares in (fresh.heads_in, fresh.branches_out):
        assert shares.softmax(0).tolist() == [1 / H] * H


def test_weights_of_branches_are_read_under_their_old_names_too():
    layer, other = (branched(MultiHeadAttention(D, H), FeedForward(D, FF)) for _ in range(2))
    old = {
        name.replace("output_projection.", "", "output_projection.weight" not in name): value
        for name, value in randomised(layer).state_dict().items()
    }
    assert {"feed_forward.hidden.weight", "heads_in", "output_projection.weight"} <= {*old}
    other.double().load_state_dict(old)
    x = x_of()
    assert_exact(other(x).context, layer(x).context)


def test_weighted_blocks_have_one_sublayer_less():
    attention, network = MultiHeadAttention(D, H), FeedForward(D, FF)
    layer, x = randomised(WeightedEncoderLayer(attention, network, wire())), x_of()
    assert_exact(layer(x).x, x + layer.attention(layer.around_attention.norm(x)).context)
    own = MultiHeadAttention(D, H, d_head=5, d_head_value=3, score=GeneralScore(5, 5))
    cross = MultiHeadAttention(D, H, d_key=7, d_value=9)
    encoder = WeightedEncoderLayer(own, network, wire()).attention
    decoder = WeightedDecoderLayer(own, cross, network, wire()).cross_attention
    assert encoder.score is own.score and (encoder.d_head, encoder.d_head_value) == (5, 3)
    assert (decoder.key_width, decoder.value_width) == (7, 9)
    options = {"rotary": RotaryPositions(D // H), "normalise": RMSNorm, "num_kv_heads": 1}
    made = MultiHeadAttention(D, H, learned_sink=True, window=SlidingWindow(3, 1), **options)
    names = {*dict(made.named_parameters())}
    joined = WeightedEncoderLayer(made, network, wire()).attention
    assert names <= {*dict(joined.named_parameters())} | {BIAS}
    assert joined.rotary is options["rotary"] and joined.window.size == 3
    assert joined.num_kv_heads == joined.window.sinks == 1
    wrong = LightweightConvolution(D, H, 3)
    assert_refused("attention", WeightedEncoderLayer, wrong, network, wire())


# Evolved Transformer


def test_a_sequence_convolution_is_pytorch_s():
    x = x_of(6)
    for separable, causal in product((False, True), (False, True)):
        layer = SequenceConvolution(D, 3, 5, separable=separable, causal=causal).double()
        y = layer.convolution(F.pad(x.mT, (4, 0) if causal else (2, 2))).mT
        assert_exact(layer(x), layer.pointwise(y) if separable else y)
        moved = x.clone()
        moved[:, -1] += 1
        assert torch.equal(layer(moved)[:, :-1], layer(x)[:, :-1]) is causal


def test_the_evolved_encoder_block_equals_its_figure():
    made = EvolvedEncoderLayer(MultiHeadAttention(D, H), FeedForward(D, FF), wire(), d_model=D)
    layer, x = randomised(made), x_of()
    h = layer.around_gate.norm(x)
    values, gate = (h @ layer.gate.weight.mT + layer.gate.bias).split(D, -1)
    y = x + values * torch.sigmoid(gate)
    h = layer.around_convolutions.norm(y)
    wide = torch.relu(h @ layer.wide.weight.mT + layer.wide.bias)
    c = layer.local.convolution
    near = torch.relu(F.conv1d(h.mT, c.weight, c.bias, padding=1).mT)
    wide = torch.cat([wide[..., : D // 2] + near, wide[..., D // 2 :]], -1)
    h = layer.norm(wide)
    c = layer.narrow.convolution
    h = layer.narrow.pointwise(F.conv1d(h.mT, c.weight, padding=4, groups=4 * D).mT)
    y = torch.cat([y[..., : D // 2] + h, y[..., D // 2 :]], -1)
    y = y + layer.attention(layer.around_attention.norm(y)).context
    y = y + layer.feed_forward(layer.around_feed_forward.norm(y))
    assert_exact(layer(x).x, y)
    with pytest.raises(ValueError, match="it takes no cache, and mask must be one of padding"):
        layer(x, mask=causal_mask(5))


def test_the_evolved_decoder_block_equals_its_figure():
    model = build("evolved", 1)
    layer, x, memory = model.decoder.layers[0], x_of(13), x_of(4, seed=5)
    mask = causal_mask(13)
    h = layer.around_both.norm(x)
    assert layer.wide_attention.num_heads == 2 * H
    assert layer.attention.num_heads == layer.first_cross_attention.num_heads == H
    y = x + layer.wide_attention(h, mask=mask).context
    y = y + layer.first_cross_attention(h, memory).context
    h = layer.around_convolutions.norm(y)

    def separable(conv, h, k):
        past, weight = F.pad(h.mT, (k - 1, 0)), conv.convolution.weight
        return conv.pointwise(F.conv1d(past, weight, groups=h.shape[-1]).mT)

    left, right = torch.relu(separable(layer.left, h, 11)), separable(layer.right, h, 7)
    h = layer.norm(torch.cat([left[..., : D // 2] + right, left[..., D // 2 :]], -1))
    y = y + separable(layer.joined, h, 7)
    y = y + layer.attention(layer.around_attention.norm(y), mask=mask).context
    y = y + layer.cross_attention(layer.around_cross_attention.norm(y), memory).context
    h = layer.feed_forward.hidden(layer.around_feed_forward.norm(y))
    y = y + layer.feed_forward.output(h * torch.sigmoid(h))
    assert_exact(layer(x, layer.project(memory), mask=mask).x, y)
    cache = None
    # blocks of several positions, longer than a kernel
    for first, last in ((0, 1), (1, 4), (4, 13)):
        given = {"mask": causal_mask(last - first, last), "cache": cache}
        result = layer(x[:, first:last], layer.project(memory), **given)
        assert_exact(result.x, y[:, first:last])
        cache = result.cache


# Sizes


SHARING = ("block sharing", "factorised embeddings", "transparent", "funnel")


def test_blocks_share_across_a_model_what_they_should():
    def count(parts):
        model = Transformer(50, 50, parts, num_layers=4, tie="none")
        return sum(p.numel() for p in model.parameters())

    whole, counts = count(BASE), {name: count(MODIFICATIONS[name]) for name in SHARING}
    assert counts["block sharing"] < whole / 2
    assert counts["factorised embeddings"] == whole - 2 * 50 * D + 2 * 3 * (50 + D)
    assert counts["transparent"] == whole + 4 * 5 and counts["funnel"] == whole


def test_a_decoder_has_the_causal_attention_it_is_given():
    model = build("lightweight convolution")
    assert [layer.attention.left for layer in model.encoder.layers] == [1, 1]
    assert [layer.attention.left for layer in model.decoder.layers] == [2, 2]
