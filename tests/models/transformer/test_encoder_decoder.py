"""The Transformer beside PyTorch's, its dropout, the sizes of the paper; known wrong versions."""

import math
from dataclasses import replace

import pytest
import torch
from assertions import assert_exact, refusals
from torch import nn
from watching import saved_bytes

from attnbook import PreNorm, Transformer, causal_mask, padding_mask
from attnbook.mechanisms import PostNorm, ReZero, RMSNorm
from attnbook.models.transformer.parts import paper_parts

from ..properties import assert_reads_what_it_may_and_no_more, assert_trains_in_half_precision
from .oracles_transformer import (
    FF,
    B,
    D,
    H,
    M,
    N,
    attention_pairs,
    copy_weights,
    layer_pairs,
    logits,
    model_pairs,
    randomised,
)

pytestmark = pytest.mark.filterwarnings("ignore:enable_nested_tensor is True")
SOURCE = torch.tensor([[5, 3, 7, 4, 6], [4, 6, 2, 0, 0], [3, 0, 0, 0, 0]])
LENGTHS = torch.tensor([5, 3, 1])
TARGET = torch.tensor([[1, 4, 5, 3], [1, 3, 0, 0], [1, 5, 4, 0]])
RESIDUALS = {False: PostNorm, True: PreNorm}
THEIRS = {"batch_first": True, "dtype": torch.float64}


def parts(**options):
    return paper_parts(D, H, FF, **{"dropout": 0.0, **options})


def build(seed=0, num_layers=2, tie="none", source_size=8, target_size=7, **options):
    made = Transformer(source_size, target_size, parts(**options), num_layers=num_layers, tie=tie)
    return randomised(made, seed)


def masks(m, n):
    """Every kind, as ours (True = may) and as PyTorch's attention and key padding masks (True =
    may not).
    """
    words = padding_mask(torch.tensor([n, 3, 1]), n)
    some = torch.rand(m, n, generator=torch.Generator().manual_seed(1)) < 0.5
    some[:, 0] = True
    kinds = {"none": (None, None, None), "padding": (words[:, None], None, ~words)}
    if m == n:
        past = causal_mask(n)
        kinds |= {"causal": (past, ~past, None), "both": (words[:, None] & past, ~past, ~words)}
    return kinds | {"any": (some, ~some, None)}


def inputs(*lengths):
    g = torch.Generator().manual_seed(3)
    draws = [torch.randn(B, n, D, generator=g, dtype=torch.float64) for n in lengths]
    return [x.requires_grad_() for x in draws]


def assert_agree(ours, theirs, results, given):
    """One value and all gradients: of the inputs and of every parameter."""
    assert_exact(*results)
    pairs = layer_pairs(ours, theirs)
    assert sum(len(p) for p, _ in pairs) == len(list(ours.parameters()))  # nothing is left out
    assert len(pairs) == len(list(theirs.parameters()))
    slopes, weight = [], torch.linspace(-1, 2, results[0].numel()).view_as(results[0])
    for result in results:
        for x in given:
            x.grad = None
        (result * weight).sum().backward()
        slopes.append([x.grad for x in given])
    assert_exact(*slopes)
    assert_gradients_agree(pairs)


def assert_gradients_agree(pairs):
    for parts_of, full in pairs:
        assert_exact(torch.cat([p.grad for p in parts_of]), full.grad)


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("kind", masks(N, N))
def test_encoder_layer_equals_pytorch_s(kind, norm_first, activation, need_weights):
    made = parts(residual=RESIDUALS[norm_first], activation=activation)
    ours = randomised(made.make_encoder(1).layers[0])
    theirs = nn.TransformerEncoderLayer(D, H, FF, 0.0, activation, norm_first=norm_first, **THEIRS)
    copy_weights(layer_pairs(ours, theirs))
    (x,), (mask, *other) = inputs(N), masks(N, N)[kind]
    results = ours(x, mask=mask, need_weights=need_weights).x, theirs(x, *other)
    assert_agree(ours, theirs, results, [x])


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("source_kind", masks(M, N))
@pytest.mark.parametrize("kind", masks(M, M))
def test_decoder_layer_equals_pytorch_s(kind, source_kind, norm_first, need_weights):
    ours = randomised(parts(residual=RESIDUALS[norm_first]).make_decoder(1).layers[0])
    theirs = nn.TransformerDecoderLayer(D, H, FF, 0.0, norm_first=norm_first, **THEIRS)
    copy_weights(layer_pairs(ours, theirs))
    x, memory = inputs(M, N)
    (mask, *target), (source_mask, *source) = masks(M, M)[kind], masks(M, N)[source_kind]
    given = {"mask": mask, "source_mask": source_mask, "need_weights": need_weights}
    others = (other for pair in zip(target, source) for other in pair)
    results = ours(x, ours.project(memory), **given).x, theirs(x, memory, *others)
    assert_agree(ours, theirs, results, [x, memory])


def test_weights_of_a_decoder_layer_are_those_of_pytorch_s_attentions():
    ours = randomised(parts().make_decoder(1).layers[0])
    x, memory = inputs(M, N)
    source = ours.project(memory)
    of_target, of_source = ours(x, source, mask=causal_mask(M), need_weights=True).weights
    attention = nn.MultiheadAttention(D, H, **THEIRS)
    copy_weights(attention_pairs(ours.attention, attention))
    outcome, expected = attention(x, x, x, attn_mask=~causal_mask(M), average_attn_weights=False)
    assert_exact(of_target, expected)
    x = ours.around_attention.norm(x + outcome)
    copy_weights(attention_pairs(ours.cross_attention, attention))
    assert_exact(of_source, attention(x, memory, memory, average_attn_weights=False)[1])


@pytest.mark.parametrize("final", [False, True])
@pytest.mark.parametrize("norm_first", [False, True])
def test_the_whole_model_equals_nn_transformer_between_embeddings_and_logits(norm_first, final):
    options = {"final_norm": lambda: nn.LayerNorm(D)} if final else {}
    ours = build(num_layers=(2, 3), residual=RESIDUALS[norm_first], **options)
    theirs = nn.Transformer(D, H, 2, 3, FF, 0.0, norm_first=norm_first, **THEIRS)
    # as in the paper
    assert isinstance(ours.decoder.norm, nn.Identity) == (not norm_first and not final)
    pairs = copy_weights(model_pairs(ours, theirs))
    shared = [m.weight for m in (ours.source_embedding, ours.target_embedding, ours.output)]
    expected = logits(ours, theirs, SOURCE, LENGTHS, TARGET)
    expected.square().sum().backward()
    slopes = [p.grad.clone() for p in shared]
    for need_weights in (True, False):
        ours.zero_grad()
        got = ours(SOURCE, LENGTHS, TARGET, need_weights=need_weights).logits
        assert_exact(got, expected)
        got.square().sum().backward()
        assert_exact([p.grad for p in shared], slopes)
        assert_gradients_agree(pairs)


class Doubled(nn.Module):
    def forward(self, x):
        return 2 * x


def replace_dropouts(module):
    for name, child in module.named_children():
        if type(child).__name__ == "Dropout":
            setattr(module, name, Doubled())
        else:
            replace_dropouts(child)


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("inside", [False, True])
def test_dropout_stands_where_pytorch_has_it_and_by_default_where_the_paper_has_it(
    norm_first, inside
):
    """Every dropout doubles its input: two models agree only if they have it in the same places."""
    ours = build(residual=RESIDUALS[norm_first], final_norm=lambda: nn.LayerNorm(D))
    theirs = nn.Transformer(D, H, 2, 2, FF, 0.0, norm_first=norm_first, **THEIRS)
    copy_weights(model_pairs(ours, theirs))
    if not inside:
        for layer in (*ours.encoder.layers, *ours.decoder.layers):
            layer.feed_forward.dropout = nn.Identity()  # 0 by default; here all are replaced
        for layer in (*theirs.encoder.layers, *theirs.decoder.layers):
            layer.dropout = nn.Identity()
    replace_dropouts(ours), replace_dropouts(theirs)
    assert isinstance(ours.dropout, Doubled)
    # on the sum of embeddings and positions, of both sides
    for dropout, scale in ((nn.Identity(), 1), (Doubled(), 2)):
        ours.dropout = dropout
        expected = logits(ours, theirs, SOURCE, LENGTHS, TARGET, scale)
        assert_exact(ours(SOURCE, LENGTHS, TARGET).logits, expected)


def test_which_dropouts_the_options_set():
    def rates(**options):
        layer = paper_parts(D, H, FF, dropout=0.3, **options).make_decoder(1).layers[0]
        attentions = (layer.attention, layer.cross_attention)
        around = [part for name, part in layer.named_children() if name.startswith("around")]
        assert len(around) == 3
        return (
            {part.dropout.p for part in around},
            {part.dropout.p if part.dropout else 0.0 for part in attentions},
            layer.feed_forward.dropout.p,
        )

    assert rates() == ({0.3}, {0.0}, 0.0)
    assert rates(attention_dropout=0.1, feed_forward_dropout=0.2) == ({0.3}, {0.1}, 0.2)
    assert Transformer(8, 8, paper_parts(D, H, FF, dropout=0.3), num_layers=1).dropout.p == 0.3


def test_dropout_works_while_training_and_not_after():
    model = build(dropout=0.5, attention_dropout=0.5, feed_forward_dropout=0.5)
    first, second = (model(SOURCE, LENGTHS, TARGET).logits for _ in range(2))
    assert not torch.allclose(first, second)
    expected = build()(SOURCE, LENGTHS, TARGET).logits
    assert_exact(model.eval()(SOURCE, LENGTHS, TARGET).logits, expected)


# Sizes

PAPER = {
    "base": (dict(d_model=512, num_heads=8, d_feed_forward=2048), 65e6),
    "big": (dict(d_model=1024, num_heads=16, d_feed_forward=4096), 213e6),
}
MORE_ROWS = {
    "d256 dk32": (dict(d_model=256), 6, 28e6),
    "d1024 dk128": (dict(d_model=1024), 6, 168e6),
    "ff1024": (dict(d_feed_forward=1024), 6, 53e6),
    "ff4096": (dict(d_feed_forward=4096), 6, 90e6),
    "N=2": ({}, 2, 36e6),
    "N=4": ({}, 4, 50e6),
    "N=8": ({}, 8, 80e6),
}
VOCABULARY = 37_000  # "a shared source-target vocabulary of about 37000 tokens", section 5.1


def count(model):
    return sum(p.numel() for p in model.parameters())


def counted(d, ff, layers, vocabulary, bias):
    """Attention has four d×d matrices, the network two, a norm two vectors; one for all tokens."""
    attention = 4 * d * d + (4 * d if bias else 0)
    network = 2 * d * ff + ff + d
    blocks = (attention + network + 2 * 2 * d) + (2 * attention + network + 3 * 2 * d)
    return layers * blocks + vocabulary * d


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("name", PAPER)
def test_parameters_of_base_and_big_are_those_of_the_paper(name, bias):
    sizes, published = PAPER[name]
    with torch.device("meta"):
        model = Transformer(VOCABULARY, VOCABULARY, paper_parts(**sizes, bias=bias), tie="all")
    assert count(model) == counted(sizes["d_model"], sizes["d_feed_forward"], 6, VOCABULARY, bias)
    # the paper rounds, and its vocabulary is "about" 37000
    assert abs(count(model) - published) < 0.035 * published
    assert len(model.encoder.layers) == len(model.decoder.layers) == 6


@pytest.mark.parametrize("name", MORE_ROWS)
def test_parameters_of_other_rows_of_table_3(name):
    sizes, layers, published = MORE_ROWS[name]
    given = VOCABULARY, VOCABULARY, paper_parts(**sizes)
    with torch.device("meta"):
        model = Transformer(*given, num_layers=layers, tie="all")
    assert abs(count(model) - published) < 0.08 * published


def test_without_arguments_it_is_the_base_model():
    with torch.device("meta"):
        model = Transformer(100, 100)
    layer = model.decoder.layers[0]
    assert (layer.attention.num_heads, layer.attention.d_head) == (8, 64)
    assert layer.feed_forward.hidden.out_features == 2048
    assert isinstance(layer.around_attention, PostNorm) and model.dropout.p == 0.1


def test_ties():
    every, output, none = (build(tie=tie, source_size=7) for tie in ("all", "output", "none"))
    assert every.source_embedding is every.target_embedding
    assert output.source_embedding is not output.target_embedding
    for model in (every, output, none):
        assert (model.output.weight is model.target_embedding.weight) == (model is not none)
    assert count(none) - count(output) == count(output) - count(every) == 7 * D
    # two vocabularies work by default
    assert Transformer(8, 7, parts(), num_layers=1).output.weight.shape == (7, D)


# Properties


@pytest.mark.parametrize("residual", [PostNorm, PreNorm, ReZero])
def test_no_gradient_from_later_targets_nor_from_padding_and_some_from_all_else(residual):
    assert_reads_what_it_may_and_no_more(build(residual=residual), SOURCE, LENGTHS, TARGET)


@pytest.mark.parametrize(
    "options", [{}, {"residual": PreNorm}, {"residual": ReZero, "norm": RMSNorm}]
)
def test_every_parameter_learns_also_in_half_precision(options):
    model = build(**options)
    total = model(SOURCE, LENGTHS, TARGET).logits.square().sum()
    total.backward()
    for name, p in model.named_parameters():
        # the same number for all keys: no softmax sees it
        assert "key_projection.bias" in name or p.grad.abs().sum() > 1e-8, name
    model = build(**options).float()
    assert_trains_in_half_precision(model, lambda: model(SOURCE, LENGTHS, TARGET).logits)


def test_a_batch_of_one_equals_a_row_and_more_padding_changes_nothing():
    model = build()
    full = model(SOURCE, LENGTHS, TARGET, need_weights=True)
    for b in range(B):
        row = slice(b, b + 1)
        given = SOURCE[row, : LENGTHS[b]], LENGTHS[row], TARGET[row]
        alone = model(*given, need_weights=True)
        assert_exact(alone.logits[0], full.logits[b])
        for one, every in zip(alone.weights.cross, full.weights.cross):
            assert_exact(one[0], every[b, :, :, : LENGTHS[b]])
    wider = torch.nn.functional.pad(SOURCE, (0, 3), value=6)
    assert_exact(model(wider, LENGTHS, TARGET).logits, full.logits)


def test_weights_are_shares_of_what_may_be_seen():
    weights = build()(SOURCE, LENGTHS, TARGET, need_weights=True).weights
    assert [len(w) for w in weights] == [2, 2, 2]
    for kind, shape in zip(weights, ((B, H, N, N), (B, H, M, M), (B, H, M, N))):
        for w in kind:
            assert w.shape == shape
            assert_exact(w.sum(-1), torch.ones(shape[:-1]).double())
    for w in (*weights.encoder, *weights.cross):
        assert (w.permute(0, 3, 1, 2)[~padding_mask(LENGTHS, N)] == 0).all()
    for w in weights.decoder:
        assert (w.triu(1) == 0).all()


def test_without_weights_memory_grows_with_the_length_and_not_with_its_square():
    """What a block keeps for a text twice as long is twice as much, and nothing of n×n."""
    layer = parts().make_encoder(1).layers[0].double()

    def saved(n):
        x, mask = torch.randn(1, n, D, dtype=torch.float64), torch.ones(1, 1, n, dtype=torch.bool)
        mask[..., -1] = False
        sizes = saved_bytes(lambda: layer(x, mask=mask)).values()
        return sum(sizes), max(sizes)

    (short, _), (long, largest) = saved(300), saved(600)
    assert long < 2.1 * short and largest < 8 * 600 * 600 / 4


# Known wrong versions


def _set(module, name, value):
    object.__setattr__(module, name, value)


def _connect(combine, sublayer_input=lambda residual: lambda x: x):
    def spoil(model):
        for layer in (*model.encoder.layers, *model.decoder.layers):
            for residual in (c for n, c in layer.named_children() if n.startswith("around")):
                _set(residual, "combine", combine(residual))
                _set(residual, "sublayer_input", sublayer_input(residual))

    return spoil


def _mask(change):
    def spoil(model):
        forward = model.decoder.forward

        def spoiled(x, *arguments, is_causal, **options):
            mask = change(causal_mask(x.shape[1])) if is_causal else None
            return forward(x, *arguments, mask=mask, **options)

        _set(model.decoder, "forward", spoiled)

    return spoil


def _no_source_mask(model):
    forward = model.decoder.forward
    _set(model.decoder, "forward", lambda x, sources, source_mask, **kw: forward(x, sources, **kw))


def _no_mask_in_the_encoder(model):
    forward = model.encoder.forward
    _set(model.encoder, "forward", lambda x, mask, **kw: forward(x, **kw)._replace(mask=mask))


def _first_block_only(model):
    forward = model.encoder.layers[1].forward
    _set(model.encoder.layers[1], "forward", lambda x, *a, **kw: forward(x, *a, **kw)._replace(x=x))


def _source_attends_to_the_target(model):
    for layer in model.decoder.layers:

        def forward(h, own=layer.cross_attention, need_weights=False, **_):
            return type(own).forward(own, h, projected=own.project(h), need_weights=need_weights)

        _set(layer.cross_attention, "forward", forward)


def _embedding(change):
    def spoil(model):
        for e in (model.source_embedding, model.target_embedding):
            _set(e, "forward", lambda tokens, e=e: e.weight[tokens] * change(math.sqrt(D)))

    return spoil


def _no_positions(model):
    for positions in (model.source_positions, model.target_positions):
        _set(positions, "forward", lambda x, offset=0: x)


def _heads_scaled_by_the_model(model):
    for layer in (*model.encoder.layers, *model.decoder.layers):
        _set(layer.attention.score, "inner_product", lambda q: (q, D**-0.5))
        _set(layer.attention.score, "compare", lambda q, k: D**-0.5 * q @ k.transpose(-1, -2))


def _attention_and_network_exchanged(model):
    for layer in model.encoder.layers:

        def forward(x, mask=None, *, self=layer, **_):
            x = self.around_feed_forward(x, self.feed_forward)
            x, weights = self.around_attention(x, lambda h: self.attention(h, mask=mask))
            return type(LAYER)(x, None, weights)

        _set(layer, "forward", forward)


WRONG = {
    "pre-norm for post-norm": _connect(lambda w: lambda x, y: x + y, lambda w: w.norm),
    "the residual taken after the norm": _connect(
        lambda w: lambda x, y: w.norm(x) + y, lambda w: w.norm
    ),
    "norm of the branch alone": _connect(lambda w: lambda x, y: x + w.norm(y)),
    "no residual": _connect(lambda w: lambda x, y: w.norm(y)),
    "no norm": _connect(lambda w: lambda x, y: x + y),
    "no causal mask": _mask(lambda mask: None),
    "causal mask off by one": _mask(lambda mask: torch.ones_like(mask).tril(1)),
    "a token that does not see itself": _mask(lambda mask: mask.tril(-1)),
    "the future instead of the past": _mask(lambda mask: mask.T),
    "padding attended to by the decoder": _no_source_mask,
    "padding attended to by the encoder": _no_mask_in_the_encoder,
    "the last block left out": _first_block_only,
    "cross-attention that reads the target": _source_attends_to_the_target,
    "embeddings not scaled": _embedding(lambda root: 1),
    "embeddings divided by the root": _embedding(lambda root: 1 / root),
    "no positions": _no_positions,
    "heads scaled by the width of the model": _heads_scaled_by_the_model,
    "network before attention": _attention_and_network_exchanged,
}
LAYER = parts().make_encoder(1).layers[0](torch.zeros(1, 1, D))


@pytest.mark.parametrize("mistake", [None, *WRONG])
def test_known_wrong_models_are_told_apart(mistake):
    model = build()
    theirs = nn.Transformer(D, H, 2, 2, FF, 0.0, **THEIRS)
    copy_weights(model_pairs(model, theirs))
    expected = logits(model, theirs, SOURCE, LENGTHS, TARGET)
    if mistake:
        WRONG[mistake](model)
    difference = (model(SOURCE, LENGTHS, TARGET, need_weights=True).logits - expected).abs().max()
    assert difference < 1e-10 if mistake is None else difference > 1e-2


NO_OUTPUT = replace(parts(), output=lambda n: nn.Identity())
test_bad_input_is_named = refusals(
    ("source_size", lambda: Transformer(0, 7, parts())),
    ("num_layers", lambda: Transformer(8, 7, parts(), num_layers=0)),
    ("num_layers", lambda: Transformer(8, 7, parts(), num_layers=(1, 2, 3))),
    ("tie", lambda: Transformer(8, 7, parts(), num_layers=1, tie="both")),
    ("tie='all' needs one", lambda: Transformer(8, 7, parts(), num_layers=1, tie="all")),
    ("tie needs an", lambda: Transformer(8, 8, NO_OUTPUT, num_layers=1)),
    ("d_model", lambda: paper_parts(10, 4, 8).attention()),
    ("parts", lambda: Transformer(8, 7, {})),
    ("attention", lambda: replace(parts(), attention=nn.Identity())),
    ("norm", lambda: paper_parts(8, 2, 8, norm=nn.LayerNorm(8))),
    ("lengths", lambda: build()(SOURCE, torch.tensor([5, 0, 1]), TARGET)),
    ("source", lambda: build()(SOURCE + 5, LENGTHS, TARGET)),
    ("target_in must have", lambda: build()(SOURCE, LENGTHS, TARGET[:2])),
    ("target_in", lambda: build()(SOURCE, LENGTHS, TARGET + 4)),
)
