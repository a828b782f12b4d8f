"""Decoding with a cache equals reading the whole prefix, for every kind of part and of cache."""

from dataclasses import replace
from functools import partial

import pytest
import torch
from assertions import assert_exact, assert_refused
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from attnbook import (
    LINEAR_ATTENTIONS,
    LatentAttention,
    LearnedPositions,
    LinearAttention,
    LocationScore,
    Mamba2Mixer,
    MultiHeadAttention,
    PreNorm,
    RelativeMultiHeadAttention,
    RMSNorm,
    RotaryPositions,
    SlidingWindow,
    Transformer,
    TransformerEncoderModel,
    TransformerLM,
    alternating,
    attention_only,
    causal_mask,
    paper_parts,
)
from attnbook.decoding import beam_search, greedy
from attnbook.mechanisms import NoPositions, ReZero, make_score
from attnbook.mechanisms.caches.key_value import ProjectedSource, Read
from attnbook.modules import map_tensors
from attnbook.tasks import TOKEN_IDS
from attnbook.training.loop.nested import tensors_of
from attnbook_runs.language.parts.evolved import evolved

from ..properties import assert_steps_are_the_whole
from .oracles_transformer import FF, D, H, copy_weights, embedded, layer_pairs, randomised

BOS, EOS = 1, 2
SOURCE = torch.tensor([[5, 3, 7, 4, 6], [4, 6, 5, 0, 0], [3, 0, 0, 0, 0]])
LENGTHS = torch.tensor([5, 3, 1])
TARGET = torch.tensor([[1, 4, 5, 3, 3, 6], [1, 3, 6, 4, 4, 5], [1, 5, 4, 3, 6, 6]])


class CausalConvolution(nn.Module):
    """In the place of an attention: a weighted sum of the last three positions, its own cache."""

    def __init__(self):
        super().__init__()
        self.weight, self.output = nn.Parameter(torch.randn(3, D)), nn.Linear(D, D)

    def read(self, x, *, cache=None, mask=None, is_causal=False, position=0, need_weights=False):
        cache = x if cache is None else torch.cat([cache, x], 1)
        m, past = x.shape[1], nn.functional.pad(cache, (0, 0, 2, 0))
        seen = torch.stack([past[:, k : past.shape[1] - 2 + k] for k in range(3)])[:, :, -m:]
        return Read(self.output((seen * self.weight[:, None, None]).sum(0)), cache, None)


BASE = paper_parts(D, H, FF, dropout=0.0)
PLACELESS = replace(BASE, positions=NoPositions)
ROTARY = RotaryPositions(D // H)


def turned(**options):
    made = {"num_kv_heads": 1, "rotary": ROTARY, "normalise": RMSNorm, **options}
    return replace(PLACELESS, attention=partial(MultiHeadAttention, D, H, **made))


def recurrent(name, mixed):
    """Blocks whose cache is a state of fixed size, alone or in turn with attention."""
    attention = partial(LinearAttention, D, H, **LINEAR_ATTENTIONS.get(name, {}))
    if name == "mamba2":
        attention = partial(Mamba2Mixer, D, d_state=3, d_head=4)
    made = replace(PLACELESS, attention=attention)
    return replace(PLACELESS, stack=alternating(made, PLACELESS)) if mixed else made


VARIANTS = {
    "post-norm": BASE,
    "pre-norm": paper_parts(D, H, FF, dropout=0.0, residual=PreNorm),
    "rezero": paper_parts(D, H, FF, dropout=0.0, residual=ReZero),
    "learned positions": replace(BASE, positions=partial(LearnedPositions, 20, D)),
    "relative positions": replace(
        PLACELESS, attention=partial(RelativeMultiHeadAttention, D, H, max_distance=2)
    ),
    "scores by position": replace(
        BASE, attention=lambda: MultiHeadAttention(D, H, score=LocationScore(D // H, 20))
    ),
    "one block three times": replace(BASE, stack=lambda make, n: [make()] * n),
    "convolution for self-attention": replace(BASE, attention=CausalConvolution),
    "rotary, grouped, norms of heads": turned(),
}
COUNT_PADDING = ("scores by position", "convolution for self-attention")  # texts of one length
ACROSS = replace(BASE, cross_attention=partial(MultiHeadAttention, D, H, rotary=ROTARY))
TRANSLATORS = VARIANTS | {"across": ACROSS, "evolved, across": evolved(ACROSS, H, FF)}
CUT = {  # what can be taken back
    "rotary, grouped, norms of heads": turned(),
    "keys and values": PLACELESS,
    "scored keys": turned(num_kv_heads=H, score=make_score("general", 4, 4)),
    "window": turned(window=SlidingWindow(3)),
    "window and sinks": turned(window=SlidingWindow(3, 2)),
    "latent": replace(
        PLACELESS, attention=partial(LatentAttention, D, H, d_latent=6, d_head=4, rotary=ROTARY)
    ),
}
TEXTS = {
    **VARIANTS,
    **CUT,
    "attention only": attention_only(VARIANTS["pre-norm"]),
    **{
        f"{name}{', mixed' * mixed}": recurrent(name, mixed)
        for name in ("linear", "gated", "gated_delta", "mamba2")
        for mixed in (False, True)
    },
}


def build(name="post-norm", kind=Transformer, layers=3, seed=0):
    torch.manual_seed(seed)
    given = (8, 8, TRANSLATORS[name]) if kind is Transformer else (8, TEXTS[name])
    return randomised(kind(*given, num_layers=layers, token_ids=TOKEN_IDS), seed).eval()


@pytest.mark.parametrize("name", TRANSLATORS)
def test_cached_equals_uncached_token_by_token(name):
    blind = name == "convolution for self-attention"  # it says no weights, and reads padding
    lengths = torch.full((3,), 5) if blind else LENGTHS
    model = build(name)
    assert_steps_are_the_whole(model, SOURCE, lengths, TARGET, weights=False)
    memory = model.encode(SOURCE, lengths)
    first = model.step(TARGET[:, 0], model.start(memory), memory, need_weights=True)
    if not blind:
        cross = model(SOURCE, lengths, TARGET, need_weights=True).weights.cross
        assert_exact(first.weights, cross[-1].mean(1)[:, 0])


def test_keys_of_the_source_are_projected_once_and_a_cache_is_two_tensors_a_block():
    model, calls = build(), []
    for layer in model.decoder.layers:
        layer.cross_attention.key_projection.register_forward_hook(lambda *_: calls.append(1))
    memory = model.encode(SOURCE, LENGTHS)
    state = model.start(memory)
    for t in range(4):
        state = model.step(TARGET[:, t], state, memory).state
    assert len(calls) == 3
    for cache in state.caches:  # batch first
        assert cache.key.shape == cache.value.shape == (3, H, 4, D // H)
        assert len(list(tensors_of(cache))) == 2


# Decoder-only


def whole_texts(lengths):
    return [torch.cat([SOURCE[b, : lengths[b]], TARGET[b]])[None] for b in range(3)]


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_goes_on_after_prompts_of_different_lengths(name):
    """Token by token, and all at once where the attention can."""
    model = build(name, TransformerLM)
    lengths = torch.full((3,), 5) if name in COUNT_PADDING else LENGTHS
    wanted = torch.stack(
        [model(text).logits[0, n:] for text, n in zip(whole_texts(lengths), lengths)]
    )
    state = start = model.start(model.encode(SOURCE, lengths))
    for t in range(TARGET.shape[1]):
        logits, state, weights = model.step(TARGET[:, t], state)
        assert_exact(logits, wanted[:, t])
        assert weights is None
    assert_exact(model.read(TARGET, start).logits, wanted)


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_read_in_chunks_is_the_text_read_at_once(name):
    """From nothing, and behind a beginning that all texts of a batch share."""
    model, whole = build(name, TransformerLM), torch.cat([SOURCE[:1].expand(3, -1), TARGET], 1)
    wanted, shared = model(whole).logits, model.encode(SOURCE[:1], LENGTHS[:1])
    repeated = map_tensors(lambda t: t.expand(3, *t.shape[1:]), shared)
    for state, start, sizes in ((model.begin(3), 0, (1, 4, 2, 4)), (repeated, 5, (3, 1, 2))):
        for m in sizes:
            logits, state, _ = model.read(whole[:, start : start + m], state)
            assert_exact(logits, wanted[:, start : start + m])
            start += m
        assert start == whole.shape[1]


@pytest.mark.parametrize("lengths", [[4, 4], [4, 2]], ids=["whole", "padded"])
@pytest.mark.parametrize("name", CUT)
def test_a_text_goes_on_from_what_was_kept(name, lengths):
    """Tokens that were read and are taken back: as if they had not been read."""
    model, lengths = build(name, TransformerLM, 2), torch.tensor(lengths)
    text = torch.randint(3, 8, (2, 13), generator=torch.Generator().manual_seed(0))
    state = model.start(model.encode(text[:, :4] * (torch.arange(4) < lengths[:, None]), lengths))
    right = model.read(text[:, 4:], state).logits
    read = model.read(torch.cat([text[:, 4:6], text[:, :3]], 1), state).state  # three of them vain
    first = model.step(text[:, 6], model.cut(read, 3))
    assert_exact(first.logits, right[:, 2])
    assert_exact(model.read(text[:, 7:], first.state).logits, right[:, 3:])
    assert model.cut(read, 0) is read
    # the test sees what is not cut, and what is cut by one too many
    for wrong in (read, model.cut(read, 2), model.cut(read, 4)):
        assert (model.step(text[:, 6], wrong).logits - right[:, 2]).abs().max() > 1e-4


def test_what_cannot_be_taken_back_is_named():
    model = build("window", TransformerLM)
    state = model.begin(3)
    for token in torch.cat([TARGET, TARGET], 1).T:
        state = model.step(token, state).state
    assert_refused("number", model.cut, state, 2)
    delta = build("gated_delta", TransformerLM)
    assert_refused("number", delta.cut, delta.read(TARGET, delta.begin(3)).state, 1)
    plain = build("keys and values", TransformerLM)
    assert_refused("number", plain.cut, plain.read(TARGET, plain.begin(3)).state, 7)
    assert_refused("state", plain.cut, plain.begin(3)._replace(caches=((), ())), 1)


@pytest.mark.parametrize("name", ["post-norm", "gated_delta", "mamba2, mixed"])
def test_a_search_takes_the_caches_along(name):
    """Each text of a padded batch as alone, and with the probability that the whole text has."""
    model = build(name, TransformerLM)
    with torch.no_grad():
        result = greedy(model, SOURCE, LENGTHS, 5)
        beams = beam_search(model, SOURCE, LENGTHS, beam_size=3, max_length=5)
        for b, n in enumerate(LENGTHS):
            alone = greedy(model, SOURCE[b : b + 1, :n], LENGTHS[b : b + 1], 5)
            assert alone.tokens == [result.tokens[b]]
            for found in beams[b]:
                said = [*found.tokens, *[EOS] * found.finished]
                text = torch.tensor([[*SOURCE[b, :n].tolist(), BOS, *said]])
                scores = model(text[:, :-1]).logits[0].log_softmax(-1)[n:]
                log_p = scores.gather(1, text[0, n + 1 :, None]).sum().item()
                assert found.log_prob == pytest.approx(log_p, abs=1e-9)


def test_a_recurrent_state_does_not_grow():
    model = build("gated_delta", TransformerLM)
    state, sizes = model.begin(3), []
    for token in TARGET.T:
        state = model.step(token, state).state
        sizes.append(sum(t.numel() for t in state.caches[0] if t is not None))
    assert len(set(sizes)) == 1


def test_bad_tokens_are_named():
    model = build(kind=TransformerLM)
    assert_refused("tokens", lambda: model.read(TARGET + 8, model.begin(3)))
    assert_refused("token", lambda: model.step(TARGET[:, 0] + 8, model.begin(3)))
    assert_refused("token", lambda: model.step(TARGET[:, 0].double(), model.begin(3)))
    assert_refused("parts", TransformerLM, 8, {}, token_ids=TOKEN_IDS)


def test_a_language_model_is_the_encoder_under_a_causal_mask_and_its_weights_say_so():
    model = build(kind=TransformerLM, layers=2)
    logits, weights = model(SOURCE, LENGTHS, need_weights=True)
    layer = nn.TransformerEncoderLayer(D, H, FF, 0.0, batch_first=True, dtype=torch.float64)
    theirs = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    for ours, other in zip(model.stack.layers, theirs.layers):
        copy_weights(layer_pairs(ours, other))
    expected = theirs(embedded(model.embedding, SOURCE), ~causal_mask(5)) @ model.embedding.weight.T
    assert_exact(logits, expected)  # tied: the embedding is the last matrix
    assert [w.shape for w in weights] == [(3, H, 5, 5)] * 2
    assert all((w.triu(1) == 0).all() for w in weights)


def test_an_attention_only_model_is_a_sum_of_attentions_and_nothing_else():
    model = build("attention only", TransformerLM)
    x = model._embed(TARGET)
    for layer in model.stack.layers:
        x = x + layer.attention(layer.around_attention.norm(x), mask=causal_mask(6)).context
    assert_exact(model(TARGET).logits, model.output(model.stack.norm(x)))
    assert not any("feed_forward" in name for name, _ in model.named_parameters())


# Encoder-only


def test_the_encoder_model_sees_both_sides_and_no_padding():
    model = build(kind=TransformerEncoderModel)
    logits, weights = model(SOURCE, LENGTHS, need_weights=True)
    assert len(weights) == 3 and (weights[0][1, :, :, 3:] == 0).all()
    for b in range(3):
        alone = model(SOURCE[b : b + 1, : LENGTHS[b]])
        assert_exact(logits[b, : LENGTHS[b]], alone.logits[0])
    later = SOURCE.clone()
    later[0, 4] = 3
    assert not torch.allclose(model(later, LENGTHS).logits[0, 0], logits[0, 0])
    assert model.encode(SOURCE, LENGTHS).shape == (3, 5, D)


@settings(max_examples=15, deadline=None)
@given(st.integers(1, 6), st.integers(0, 99))
def test_without_positions_an_encoder_does_not_know_the_order(n, seed):
    torch.manual_seed(seed)
    tokens, order = torch.randint(3, 8, (2, n)), torch.randperm(n)
    placeless, placed = (
        build(name, TransformerEncoderModel, 2, seed) for name in ("keys and values", "post-norm")
    )
    assert_exact(placeless(tokens[:, order]).logits, placeless(tokens).logits[:, order])
    if n > 1 and not torch.equal(order, torch.arange(n)):
        moved, still = placed(tokens[:, order]).logits, placed(tokens).logits[:, order]
        assert not torch.allclose(moved, still, atol=1e-6)


class Silent(MultiHeadAttention):
    """An attention that does not say where it looked."""

    def forward(self, *arguments, **options):
        return super().forward(*arguments, **options)._replace(weights=None)


def test_a_part_without_weights_decodes_without_them():
    silent = replace(BASE, cross_attention=partial(Silent, D, H))
    model = randomised(Transformer(8, 8, silent, num_layers=3, token_ids=TOKEN_IDS)).eval()
    result = greedy(model, SOURCE, LENGTHS, 5, need_weights=True)
    assert result.weights is None and result.tokens == greedy(build(), SOURCE, LENGTHS, 5).tokens


# Known wrong versions of the cache


class Stale:
    """A cache that takes the newest position in one step too late."""

    def __init__(self, *source):
        self.seen, self.waiting = ProjectedSource(*source), None

    def __getattr__(self, name):
        return getattr(self.seen, name)

    def extend(self, more):
        seen = self.seen if self.waiting is None else self.seen.extend(self.waiting)
        new = Stale(*seen)
        new.waiting = more.seen
        return new


class KeysOnly(ProjectedSource):
    def extend(self, more):
        value = torch.cat([self.value[..., 1:, :], more.value, more.value], -2)
        return KeysOnly(torch.cat([self.key, more.key], -2), value)


class InFront(ProjectedSource):
    def extend(self, more):
        return InFront(torch.cat([more.key, self.key], -2), torch.cat([self.value, more.value], -2))


def caches(kind):
    def spoil(model):
        for layer in model.decoder.layers:
            project = layer.attention.project
            layer.attention.project = lambda x, position=0, f=project: kind(*f(x))

    return spoil


def positions(of):
    def spoil(model):
        forward = model.target_positions.forward
        model.target_positions.forward = lambda x, offset=0: forward(x, of(offset))

    return spoil


def only_the_last(model):
    for layer in model.decoder.layers:
        forward = layer.forward
        layer.forward = lambda *a, cache=None, f=forward, **kw: f(*a, cache=None, **kw)


WRONG = {
    "no own key": caches(Stale),
    "values only": caches(KeysOnly),
    "in front": caches(InFront),
    "positions from zero": positions(lambda offset: 0),
    "positions ahead by one": positions(lambda offset: offset + 1),
    "only the last": only_the_last,
}


@pytest.mark.parametrize("name", WRONG)
def test_known_wrong_caches_are_told_apart(name):
    model = build()
    expected = model(SOURCE, LENGTHS, TARGET).logits
    WRONG[name](model)
    memory = model.encode(SOURCE, LENGTHS)
    state, off = model.start(memory), 0.0
    for t in range(TARGET.shape[1]):
        logits, state, _ = model.step(TARGET[:, t], state, memory)
        off = max(off, (logits - expected[:, t]).abs().max().item())
    assert off > 1e-4


def test_blocks_of_several_parts_take_turns_in_a_decoder_too():
    other = replace(PLACELESS, feed_forward=nn.Identity)
    layers = replace(PLACELESS, stack=alternating(PLACELESS, other)).make_decoder(3).layers
    assert all(hasattr(layer, "cross_attention") for layer in layers)
    assert [type(layer.feed_forward) is nn.Identity for layer in layers] == [False, True, False]
