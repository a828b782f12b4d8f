"""Decoding with a cache equals reading the whole prefix again, token by token; greedy and beam
search work on it unchanged.
"""

import itertools
from dataclasses import replace
from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from refusing import assert_refused
from torch import nn

from attnbook import (
    LearnedPositions,
    LocationScore,
    MultiHeadAttention,
    PreNorm,
    RelativeMultiHeadAttention,
    Transformer,
    TransformerEncoderModel,
    TransformerLM,
    paper_parts,
)
from attnbook.decoding import beam_search, greedy
from attnbook.mechanisms import NoPositions, ReZero
from attnbook.mechanisms.caches.key_value import ProjectedSource, Read
from attnbook.models.transformer.layers import EncoderLayer
from attnbook.modules import map_tensors
from attnbook.tasks import TOKEN_IDS
from attnbook.training import token_loss
from attnbook.training.loop.nested import tensors_of

from .oracles_transformer import EXACT, FF, D, H, randomised

PAD, BOS, EOS = 0, 1, 2
SOURCE = torch.tensor([[5, 3, 7, 4, 6], [4, 6, 5, 0, 0], [3, 0, 0, 0, 0]])
LENGTHS = torch.tensor([5, 3, 1])
TARGET = torch.tensor([[1, 4, 5, 3, 3, 6], [1, 3, 6, 4, 4, 5], [1, 5, 4, 3, 6, 6]])


class CausalConvolution(nn.Module):
    """What can stand in the place of an attention: a weighted sum of the last three positions,
    and its own kind of cache.
    """

    def __init__(self):
        super().__init__()
        self.weight, self.output = nn.Parameter(torch.randn(3, D)), nn.Linear(D, D)

    def read(self, x, *, cache=None, mask=None, position=0, need_weights=False):
        cache = x if cache is None else torch.cat([cache, x], 1)
        m, past = x.shape[1], nn.functional.pad(cache, (0, 0, 2, 0))
        seen = torch.stack([past[:, k : past.shape[1] - 2 + k] for k in range(3)])[:, :, -m:]
        return Read(self.output((seen * self.weight[:, None, None]).sum(0)), cache, None)


BASE = paper_parts(D, H, FF, dropout=0.0)
VARIANTS = {
    "post-norm": BASE,
    "pre-norm": paper_parts(D, H, FF, dropout=0.0, residual=PreNorm),
    "rezero": paper_parts(D, H, FF, dropout=0.0, residual=ReZero),
    "learned positions": replace(BASE, positions=partial(LearnedPositions, 20, D)),
    "relative positions": replace(
        BASE,
        positions=NoPositions,
        attention=partial(RelativeMultiHeadAttention, D, H, max_distance=2),
    ),
    "scores by position": replace(
        BASE, attention=lambda: MultiHeadAttention(D, H, score=LocationScore(D // H, 20))
    ),
    "one block three times": replace(BASE, stack=lambda make, n: [make()] * n),
    "convolution for self-attention": replace(BASE, attention=CausalConvolution),
}


def build(name="post-norm", kind=Transformer, layers=3, seed=0, size=8, **options):
    torch.manual_seed(seed)
    options = {"token_ids": TOKEN_IDS, **options}
    made = (
        kind(size, size, VARIANTS[name], num_layers=layers, **options)
        if kind is Transformer
        else kind(size, VARIANTS[name], num_layers=layers, **options)
    )
    return randomised(made, seed).eval()


@pytest.mark.parametrize("name", VARIANTS)
def test_cached_equals_uncached_token_by_token(name):
    # it reads the padding of a source, which is fine for a decoder
    if name == "convolution for self-attention":
        source, lengths = SOURCE, torch.full((3,), 5)
    else:
        source, lengths = SOURCE, LENGTHS
    model = build(name)
    memory = model.encode(source, lengths)
    state = model.start(memory)
    for t in range(TARGET.shape[1]):
        logits, state, weights = model.step(TARGET[:, t], state, memory, need_weights=True)
        complete = model(source, lengths, TARGET[:, : t + 1])
        torch.testing.assert_close(logits, complete.logits[:, t], **EXACT)
        torch.testing.assert_close(
            complete.logits, model(source, lengths, TARGET).logits[:, : t + 1], **EXACT
        )
        if name != "convolution for self-attention":
            cross = model(source, lengths, TARGET[:, : t + 1], need_weights=True).weights.cross
            torch.testing.assert_close(weights, cross[-1].mean(1)[:, t], **EXACT)


def uncached_greedy(model, source, lengths, max_length):
    """The whole prefix again for every token, one sentence at a time."""
    rows = []
    for b in range(len(source)):
        tokens = [BOS]
        while len(tokens) <= max_length and tokens[-1] != EOS:
            logits = (
                model(source[b : b + 1, : lengths[b]], lengths[b : b + 1], torch.tensor([tokens]))
                .logits[0, -1]
                .clone()
            )
            logits[[PAD, BOS]] = -torch.inf
            tokens.append(int(logits.argmax()))
        rows.append([t for t in tokens[1:] if t != EOS])
    return rows


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 1000), st.sampled_from(["post-norm", "pre-norm", "relative positions"]))
def test_greedy_with_a_cache_is_greedy_without(seed, name):
    model = build(name, seed=seed, layers=2)
    with torch.no_grad():
        assert greedy(model, SOURCE, LENGTHS, 7).tokens == uncached_greedy(
            model, SOURCE, LENGTHS, 7
        )


def log_prob(model, source, tokens):
    """log p(tokens | source), read at once."""
    batch_in = torch.tensor([[BOS, *tokens[:-1]]])
    logits = model(source[None], torch.tensor([len(source)]), batch_in).logits[0]
    return logits.log_softmax(-1)[range(len(tokens)), list(tokens)].sum().item()


@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_a_beam_that_holds_everything_is_exhaustive_search(alpha):
    """Two words and EOS, up to 4 tokens: every target is scored by `forward`, and the beam finds
    the same order.
    """
    model, limit = build(size=5, layers=2, seed=4), 4
    with torch.no_grad():
        model.output.weight.mul_(0.3)
    source, lengths = torch.tensor([[3, 4, 3], [4, 4, 0]]), torch.tensor([3, 2])
    targets = [(*body, EOS) for n in range(limit) for body in itertools.product((3, 4), repeat=n)]
    targets += list(itertools.product((3, 4), repeat=limit))
    with torch.no_grad():
        outcome = beam_search(
            model, source, lengths, beam_size=len(targets), max_length=limit, length_penalty=alpha
        )
        for b in range(2):
            scores = {
                t: log_prob(model, source[b, : lengths[b]], t) / len(t) ** alpha for t in targets
            }
            produced = [(*h.tokens, EOS) if h.finished else tuple(h.tokens) for h in outcome[b]]
            assert produced == sorted(targets, key=scores.get, reverse=True)
            assert [h.score for h in outcome[b]] == pytest.approx(
                sorted(scores.values(), reverse=True), abs=1e-9
            )


def test_a_beam_takes_its_cache_along():
    """Every hypothesis of a small beam has the probability that `forward` gives it: no row reads
    another one's past.
    """
    model = build(seed=5)
    with torch.no_grad():
        for b, beams in enumerate(beam_search(model, SOURCE, LENGTHS, beam_size=4, max_length=6)):
            assert len({tuple(h.tokens) for h in beams}) == 4
            for h in beams:
                tokens = [*h.tokens, EOS] if h.finished else h.tokens
                assert h.log_prob == pytest.approx(
                    log_prob(model, SOURCE[b, : LENGTHS[b]], tokens), abs=1e-9
                )


def test_keys_of_the_source_are_projected_once_and_a_cache_is_two_tensors_a_block():
    model, calls = build(), []
    for layer in model.decoder.layers:
        layer.cross_attention.key_projection.register_forward_hook(lambda *_: calls.append(1))
    memory = model.encode(SOURCE, LENGTHS)
    state = model.start(memory)
    for t in range(4):
        state = model.step(TARGET[:, t], state, memory).state
    assert len(calls) == 3
    tensors = list(tensors_of(state))
    # keys and values, batch first
    assert len(tensors) == 2 * 3 and all(t.shape == (3, H, 4, D // H) for t in tensors)


# Decoder-only


@pytest.mark.parametrize("name", [name for name in VARIANTS])
def test_a_text_goes_on_after_prompts_of_different_lengths(name):
    model = build(name, TransformerLM)
    texts = [torch.cat([SOURCE[b, : LENGTHS[b]], TARGET[b]]) for b in range(3)]
    # they count padding: prompts of one length
    if name in ("scores by position", "convolution for self-attention"):
        source = SOURCE
        lengths = torch.full((3,), 5)
        texts = [torch.cat([SOURCE[b], TARGET[b]]) for b in range(3)]
    else:
        source, lengths = SOURCE, LENGTHS
    memory = model.encode(source, lengths)
    state = model.start(memory)
    for t in range(TARGET.shape[1]):
        logits, state, weights = model.step(TARGET[:, t], state, memory, need_weights=True)
        for b in range(3):
            torch.testing.assert_close(
                logits[b], model(texts[b][None]).logits[0, lengths[b] + t], **EXACT
            )
        assert weights is None


@pytest.mark.parametrize("name", VARIANTS)
def test_a_text_read_in_chunks_is_the_text_read_at_once(name):
    """From nothing, and behind a beginning that all texts of a batch share."""
    model, whole = build(name, TransformerLM), torch.cat([SOURCE[:1].expand(3, -1), TARGET], 1)
    wanted, shared = model(whole).logits, model.encode(SOURCE[:1], LENGTHS[:1])
    repeated = map_tensors(lambda t: t.expand(3, *t.shape[1:]), shared)
    for state, start, sizes in ((model.begin(3), 0, (1, 4, 2, 4)), (repeated, 5, (3, 1, 2))):
        for m in sizes:
            logits, state, _ = model.read(whole[:, start : start + m], state)
            torch.testing.assert_close(logits, wanted[:, start : start + m], **EXACT)
            start += m
        assert start == whole.shape[1]


def test_chunks_go_on_after_prompts_of_different_lengths():
    model = build("relative positions", TransformerLM)
    read = model.read(TARGET, model.encode(SOURCE, LENGTHS)).logits
    for b in range(3):
        text = torch.cat([SOURCE[b, : LENGTHS[b]], TARGET[b]])[None]
        torch.testing.assert_close(read[b], model(text).logits[0, LENGTHS[b] :], **EXACT)
    assert_refused("tokens", lambda: model.read(TARGET + 8, model.begin(3)))
    assert_refused("token", lambda: model.step(TARGET[:, 0] + 8, model.begin(3)))
    assert_refused("token", lambda: model.step(TARGET[:, 0].double(), model.begin(3)))
    assert_refused("parts", TransformerLM, 8, {}, token_ids=TOKEN_IDS)


def test_a_text_from_nothing_and_with_greedy_and_beam():
    model = build(kind=TransformerLM)
    state = model.begin(3)
    for t in range(TARGET.shape[1]):
        logits, state, _ = model.step(TARGET[:, t], state)
        torch.testing.assert_close(logits, model(TARGET).logits[:, t], **EXACT)
    with torch.no_grad():
        result = greedy(model, SOURCE, LENGTHS, 5)
        for b, beams in enumerate(beam_search(model, SOURCE, LENGTHS, beam_size=1, max_length=5)):
            assert beams[0].tokens == result.tokens[b]
            tokens = torch.tensor(
                [[*SOURCE[b, : LENGTHS[b]].tolist(), BOS, *result.tokens[b], EOS]]
            )
            log_probs = (
                model(tokens[:, :-1])
                .logits[0]
                .log_softmax(-1)
                .gather(1, tokens[0, 1:, None])[LENGTHS[b] :, 0]
            )
            if not result.finished[b]:
                log_probs = log_probs[:-1]
            assert log_probs.sum().item() == pytest.approx(result.log_probs[b].item(), abs=1e-9)


def test_a_language_model_is_the_encoder_under_a_causal_mask_and_its_weights_say_so():
    model = build(kind=TransformerLM, layers=2)
    logits, weights = model(SOURCE, LENGTHS, need_weights=True)
    x = SOURCE
    theirs = nn.TransformerEncoder(
        nn.TransformerEncoderLayer(D, H, FF, 0.0, batch_first=True, dtype=torch.float64),
        2,
        enable_nested_tensor=False,
    )
    from .oracles_transformer import copy_weights, embedded, layer_pairs

    for ours, other in zip(model.stack.layers, theirs.layers):
        copy_weights(layer_pairs(ours, other))
    expected = (
        theirs(embedded(model.embedding, x), torch.ones(5, 5, dtype=torch.bool).triu(1))
        @ model.embedding.weight.T
    )
    torch.testing.assert_close(logits, expected, **EXACT)  # tied: the embedding is the last matrix
    assert len(weights) == 2 and all(
        w.shape == (3, H, 5, 5) and (w.triu(1) == 0).all() for w in weights
    )
    assert isinstance(model.stack.layers[0], EncoderLayer)
    logits = model(SOURCE).logits
    changed = SOURCE.clone()
    changed[:, 3] = 6 - changed[:, 3] % 3
    assert torch.equal(model(changed).logits[:, :3], logits[:, :3]) and not torch.allclose(
        model(changed).logits[:, 3], logits[:, 3]
    )


# Encoder-only


def test_the_encoder_model_sees_both_sides_and_no_padding():
    model = build(kind=TransformerEncoderModel)
    logits, weights = model(SOURCE, LENGTHS, need_weights=True)
    assert len(weights) == 3 and (weights[0][1, :, :, 3:] == 0).all()
    for b in range(3):
        alone = model(SOURCE[b : b + 1, : LENGTHS[b]])
        torch.testing.assert_close(logits[b, : LENGTHS[b]], alone.logits[0], **EXACT)
    later = SOURCE.clone()
    later[0, 4] = 3
    assert not torch.allclose(model(later, LENGTHS).logits[0, 0], logits[0, 0])
    assert model.encode(SOURCE, LENGTHS).shape == (3, 5, D)


@settings(max_examples=15, deadline=None)
@given(st.integers(1, 6), st.integers(0, 99))
def test_without_positions_an_encoder_does_not_know_the_order(n, seed):
    torch.manual_seed(seed)
    tokens, order = torch.randint(3, 8, (2, n)), torch.randperm(n)
    made = {
        name: randomised(
            TransformerEncoderModel(
                8, replace(BASE, positions=kind), num_layers=2, token_ids=TOKEN_IDS
            ),
            seed,
        )
        for name, kind in (("none", NoPositions), ("sinusoids", BASE.positions))
    }
    torch.testing.assert_close(
        made["none"](tokens[:, order]).logits, made["none"](tokens).logits[:, order], **EXACT
    )
    if n > 1 and not torch.equal(order, torch.arange(n)):
        assert not torch.allclose(
            made["sinusoids"](tokens[:, order]).logits,
            made["sinusoids"](tokens).logits[:, order],
            atol=1e-6,
        )


class Silent(MultiHeadAttention):
    """An attention that does not say where it looked."""

    def forward(self, *arguments, **options):
        return super().forward(*arguments, **options)._replace(weights=None)


def test_a_part_without_weights_decodes_without_them():
    model = randomised(
        Transformer(
            8,
            8,
            replace(BASE, cross_attention=partial(Silent, D, H)),
            num_layers=2,
            token_ids=TOKEN_IDS,
        )
    ).eval()
    result = greedy(model, SOURCE, LENGTHS, 5, need_weights=True)
    assert result.weights is None and result.tokens == uncached_greedy(model, SOURCE, LENGTHS, 5)


@pytest.mark.gpu
def test_on_a_gpu_it_is_the_same_model():
    model = build("relative positions")
    expected = model(SOURCE, LENGTHS, TARGET).logits
    tokens = greedy(model, SOURCE, LENGTHS, 6).tokens
    model.cuda()
    torch.testing.assert_close(
        model(SOURCE.cuda(), LENGTHS.cuda(), TARGET.cuda()).logits.cpu(),
        expected,
        atol=1e-8,
        rtol=0,
    )
    assert greedy(model, SOURCE, LENGTHS, 6).tokens == tokens
    torch.manual_seed(0)
    model = Transformer(8, 8, paper_parts(64, 4, 128), num_layers=2, token_ids=TOKEN_IDS).cuda()
    with torch.autocast("cuda", torch.bfloat16):
        logits = model(SOURCE.cuda(), LENGTHS.cuda(), TARGET.cuda()).logits
    logits.float().square().sum().backward()
    assert logits.dtype == torch.bfloat16 and all(
        torch.isfinite(p.grad).all() for p in model.parameters()
    )


# Known wrong versions of the cache


def _no_own_key(model):
    for layer in model.decoder.layers:
        extend = layer.attention.project
        layer.attention.project = lambda x, position=0, f=extend: Stale(f(x))


class Stale:
    """A cache that takes the newest position in one step too late."""

    def __init__(self, first):
        self.seen, self.waiting = first, None

    def __getattr__(self, name):
        return getattr(self.seen, name)

    def extend(self, more):
        new = Stale(self.seen if self.waiting is None else self.seen.extend(self.waiting))
        new.waiting = more.seen
        return new


def _positions_from_zero(model):
    forward = model.target_positions.forward
    model.target_positions.forward = lambda x, offset=0: forward(x, 0)


def _positions_ahead_by_one(model):
    forward = model.target_positions.forward
    model.target_positions.forward = lambda x, offset=0: forward(x, offset + 1)


def _cache_of_keys_only(model):
    for layer in model.decoder.layers:
        project = layer.attention.project
        layer.attention.project = lambda x, position=0, f=project: KeysOnly(*f(x))


class KeysOnly(ProjectedSource):
    def extend(self, more):
        return KeysOnly(
            torch.cat([self.key, more.key], -2),
            torch.cat([self.value[..., 1:, :], more.value, more.value], -2),
        )


def _in_front(model):
    for layer in model.decoder.layers:
        project = layer.attention.project
        layer.attention.project = lambda x, position=0, f=project: InFront(*f(x))


class InFront(ProjectedSource):
    def extend(self, more):
        return InFront(torch.cat([more.key, self.key], -2), torch.cat([self.value, more.value], -2))


def _only_the_last(model):
    for layer in model.decoder.layers:
        forward = layer.forward
        layer.forward = lambda *a, cache=None, f=forward, **kw: f(*a, cache=None, **kw)


WRONG = [
    _no_own_key,
    _positions_from_zero,
    _positions_ahead_by_one,
    _cache_of_keys_only,
    _in_front,
    _only_the_last,
]


@pytest.mark.parametrize("spoil", WRONG, ids=lambda f: f.__name__.strip("_"))
def test_known_wrong_caches_are_told_apart(spoil):
    model = build()
    expected = model(SOURCE, LENGTHS, TARGET).logits
    spoil(model)
    memory = model.encode(SOURCE, LENGTHS)
    state, off = model.start(memory), 0.0
    for t in range(TARGET.shape[1]):
        logits, state, _ = model.step(TARGET[:, t], state, memory)
        off = max(off, (logits - expected[:, t]).abs().max().item())
    assert off > 1e-4


def test_it_learns_with_the_loss_of_the_book():
    """Reversing short sequences, from the loss of a guess to nearly nothing in two hundred
    steps.
    """
    from attnbook.tasks.sequences.batches import Batch

    torch.manual_seed(0)
    model = Transformer(
        8, 8, paper_parts(16, 2, 32, dropout=0.0), num_layers=1, tie="all", token_ids=TOKEN_IDS
    )
    optimizer, losses = torch.optim.Adam(model.parameters(), lr=5e-3), []
    for _ in range(250):
        body = torch.randint(3, 8, (32, 4))
        batch = Batch(
            body,
            torch.full((32,), 4),
            torch.cat([torch.full((32, 1), BOS), body.flip(1)], 1),
            torch.cat([body.flip(1), torch.full((32, 1), EOS)], 1),
        )
        total, terms = token_loss(model, batch)
        optimizer.zero_grad()
        (total / terms).backward()
        optimizer.step()
        losses.append((total / terms).item())
    assert losses[0] > 1.5 and sum(losses[-10:]) / 10 < 0.15
    model.eval()
    assert greedy(model, torch.tensor([[3, 4, 5, 7]]), torch.tensor([4]), 8).tokens == [
        [7, 5, 4, 3]
    ]
