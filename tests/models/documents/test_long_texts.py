"""What the summaries of long texts are made with, passed into the Transformer: caches,
causality, decoding, learning.
"""

from dataclasses import replace
from functools import partial

import pytest
import torch
from refusing import assert_refused

from attnbook import (
    FeedForward,
    LinformerAttention,
    LocalAttention,
    MemoryCompressedAttention,
    MixtureOfExperts,
    PreNorm,
    Switch,
    TransformerEncoderModel,
    TransformerLM,
    paper_parts,
)
from attnbook.decoding import beam_search, greedy
from attnbook.mechanisms import LengthProjection, balance_loss, padding_mask
from attnbook.models.transformer.parts import alternating
from attnbook.tasks import TOKEN_IDS

from ..transformer.oracles_transformer import EXACT, FF, D, H, randomised

BASE = paper_parts(D, H, FF, dropout=0.0, residual=PreNorm)
LOCAL = replace(BASE, attention=partial(LocalAttention, D, H, block_length=4))
COMPRESSED = replace(BASE, attention=partial(MemoryCompressedAttention, D, H))
EXPERTS = replace(
    COMPRESSED, feed_forward=partial(MixtureOfExperts, D, 3, lambda: FeedForward(D, FF))
)
VARIANTS = {
    "local": LOCAL,
    "compressed": COMPRESSED,
    "L-M-L-M-L": replace(BASE, stack=alternating(LOCAL, COMPRESSED)),
    "experts": replace(BASE, stack=alternating(LOCAL, EXPERTS)),
    "switch": replace(
        BASE, feed_forward=partial(Switch, D, 3, lambda: FeedForward(D, FF), capacity_factor=0.5)
    ),
}
LAYERS = {"local": 2, "compressed": 2, "L-M-L-M-L": 5, "experts": 5, "switch": 2}
TEXT = torch.randint(3, 8, (3, 14), generator=torch.Generator().manual_seed(0))


def build(name, seed=0):
    torch.manual_seed(seed)
    return randomised(
        TransformerLM(8, VARIANTS[name], num_layers=LAYERS[name], token_ids=TOKEN_IDS), seed
    ).eval()


def test_layers_alternate():
    for _ in range(2):  # a second model begins anew
        kinds = [type(layer.attention) for layer in build("L-M-L-M-L").stack.layers]
        assert kinds == [
            LocalAttention,
            MemoryCompressedAttention,
            LocalAttention,
            MemoryCompressedAttention,
            LocalAttention,
        ]
    assert_refused("parts", alternating)


@pytest.mark.parametrize("prompt", [1, 2, 5, 6, 11])
@pytest.mark.parametrize("name", VARIANTS)
def test_with_a_cache_a_text_goes_on_as_without(name, prompt):
    model = build(name)
    complete = model(TEXT).logits
    memory = model.encode(TEXT[:, :prompt], torch.full((3,), prompt))
    state = model.start(memory)
    for t in range(prompt, TEXT.shape[1]):
        logits, state, _ = model.step(TEXT[:, t], state, memory)
        torch.testing.assert_close(logits, complete[:, t], **EXACT)


@pytest.mark.parametrize("name", VARIANTS)
def test_no_later_word_has_any_influence(name):
    model = build(name)
    logits = model(TEXT).logits
    for t in range(1, TEXT.shape[1]):
        changed = TEXT.clone()
        changed[:, t:] = 3 + (changed[:, t:] - 2) % 5
        torch.testing.assert_close(model(changed).logits[:, :t], logits[:, :t], **EXACT)
        assert not torch.allclose(model(changed).logits[:, t], logits[:, t])


def test_how_far_each_attention_reaches():
    """The first words decide nothing of what local layers say far behind; with compressed ones
    in between they do.
    """
    changed = TEXT.clone()
    changed[:, 0] = 3 + (changed[:, 0] - 2) % 5
    for name, reaches in (("local", False), ("L-M-L-M-L", True)):
        model = build(name)
        assert (model(changed).logits[:, 12] - model(TEXT).logits[:, 12]).abs().max().gt(
            1e-6
        ) == reaches


@pytest.mark.parametrize("name", VARIANTS)
def test_greedy_and_beam_work_on_the_caches(name):
    model = build(name)
    source, lengths = TEXT[:, :7], torch.full((3,), 7)
    with torch.no_grad():
        result = greedy(model, source, lengths, 6)
        for b, beams in enumerate(beam_search(model, source, lengths, beam_size=3, max_length=6)):
            for h in beams:
                tokens = torch.tensor(
                    [[*source[b].tolist(), 1, *h.tokens, *([2] if h.finished else [])]]
                )
                scores = (
                    model(tokens[:, :-1])
                    .logits[0]
                    .log_softmax(-1)
                    .gather(1, tokens[0, 1:, None])[7:]
                )
                assert h.log_prob == pytest.approx(scores.sum().item(), abs=1e-9)
    assert len(result.tokens) == 3


def test_linformer_in_an_encoder_and_not_in_a_decoder():
    shared = LengthProjection(14, 3)
    parts = replace(BASE, attention=partial(LinformerAttention, D, H, projection=shared))
    model = randomised(TransformerEncoderModel(8, parts, num_layers=2, token_ids=TOKEN_IDS)).eval()
    assert sum(p is shared.weight for p in model.parameters()) == 1
    lengths = torch.tensor([14, 9, 4])
    logits = model(TEXT, lengths).logits
    for b in range(3):
        torch.testing.assert_close(
            logits[b, : lengths[b]], model(TEXT[b : b + 1, : lengths[b]]).logits[0], **EXACT
        )
    assert padding_mask(lengths, 14).any() and torch.isfinite(logits).all()
    assert_refused("mask", lambda: TransformerLM(8, parts, num_layers=2, token_ids=TOKEN_IDS)(TEXT))


def test_experts_learn_with_their_balance_added():
    torch.manual_seed(0)
    model = TransformerLM(8, VARIANTS["experts"], num_layers=2, token_ids=TOKEN_IDS)
    optimizer, losses = torch.optim.Adam(model.parameters(), 0.01), []
    for _ in range(150):
        half = torch.randint(3, 8, (16, 3))
        text = torch.cat([half, half], 1)
        logits = model(text[:, :-1]).logits[:, 2:]
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), text[:, 3:].flatten())
        optimizer.zero_grad()
        (loss + balance_loss(model)).backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[0] > 1.4 and sum(losses[-10:]) / 10 < 0.9
    layer = model.stack.layers[1].feed_forward
    assert layer.balance is not None and (layer.counts > 0).all()
