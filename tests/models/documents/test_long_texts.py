"""What summaries of long texts are made with, passed into the Transformer."""

from dataclasses import replace
from functools import partial

import pytest
import torch
from assertions import assert_exact, assert_refused

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
from attnbook.mechanisms import LengthProjection
from attnbook.models.transformer.parts import alternating
from attnbook.tasks import TOKEN_IDS

from ..transformer.oracles_transformer import FF, D, H, randomised

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


def build(name):
    made = TransformerLM(8, VARIANTS[name], num_layers=LAYERS[name], token_ids=TOKEN_IDS)
    return randomised(made).eval()


def test_layers_alternate():
    for _ in range(2):  # a second model begins anew
        kinds = [type(layer.attention) for layer in build("L-M-L-M-L").stack.layers]
        assert kinds == [LocalAttention, MemoryCompressedAttention] * 2 + [LocalAttention]
    assert_refused("parts", alternating)


@pytest.mark.parametrize("prompt", [1, 2, 5, 6, 11])
@pytest.mark.parametrize("name", VARIANTS)
def test_with_a_cache_a_text_goes_on_as_without(name, prompt):
    model = build(name)
    complete = model(TEXT).logits
    state = model.start(model.encode(TEXT[:, :prompt], torch.full((3,), prompt)))
    for t in range(prompt, TEXT.shape[1]):
        logits, state, _ = model.step(TEXT[:, t], state)
        assert_exact(logits, complete[:, t])


def test_linformer_in_an_encoder_and_not_in_a_decoder():
    shared = LengthProjection(14, 3)
    parts = replace(BASE, attention=partial(LinformerAttention, D, H, projection=shared))
    model = randomised(TransformerEncoderModel(8, parts, num_layers=2, token_ids=TOKEN_IDS)).eval()
    assert sum(p is shared.weight for p in model.parameters()) == 1
    lengths = torch.tensor([14, 9, 4])
    logits = model(TEXT, lengths).logits
    for b in range(3):
        assert_exact(logits[b, : lengths[b]], model(TEXT[b : b + 1, : lengths[b]]).logits[0])
    assert torch.isfinite(logits).all()
    assert_refused("mask", lambda: TransformerLM(8, parts, num_layers=2, token_ids=TOKEN_IDS)(TEXT))
