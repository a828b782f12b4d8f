"""Positions that reach the heads of whole models: texts and translations step by step."""

from dataclasses import replace
from functools import partial

import pytest
import torch

from attnbook import (
    MultiHeadAttention,
    NoPositions,
    RMSNorm,
    RotaryPositions,
    SlidingWindow,
    Transformer,
    TransformerLM,
    paper_parts,
)
from attnbook.models.transformer.evolved import evolved

EXACT = {"atol": 1e-10, "rtol": 0}
WORDS, D = 13, 16
BASE = paper_parts(D, 4, 32, dropout=0.0)
TEXT = torch.arange(1, 23).reshape(2, 11) * 7 % (WORDS - 1) + 1


def parts(**options):
    made = {"num_kv_heads": 2, "rotary": RotaryPositions(4), "normalise": RMSNorm, **options}
    attention = partial(MultiHeadAttention, D, 4, **made)
    return replace(BASE, attention=attention, causal_attention=attention, positions=NoPositions)


@pytest.mark.parametrize(
    "options", [{}, {"window": SlidingWindow(3)}, {"window": SlidingWindow(3, 2)}], ids=str
)
def test_a_padded_batch_of_texts_goes_on_as_the_whole_texts_do(options):
    torch.manual_seed(0)
    model = TransformerLM(WORDS, parts(**options), num_layers=2).double().eval()
    lengths = torch.tensor([5, 1])
    whole = [model(TEXT[b : b + 1]).logits[0] for b in range(2)]
    padded = TEXT[:, :5] * (torch.arange(5) < lengths[:, None])
    state = model.start(model.encode(padded, lengths))
    for t in range(6):
        token = torch.stack([TEXT[b, lengths[b] + t] for b in range(2)])
        logits, state, _ = model.step(token, state)
        for b in range(2):
            torch.testing.assert_close(logits[b], whole[b][lengths[b] + t], **EXACT)
    # a model that sees no order would not need the positions
    assert (model(TEXT.flip(1)).logits[:, -1] - model(TEXT).logits[:, -1]).abs().max() > 1e-3


ACROSS = replace(BASE, cross_attention=partial(MultiHeadAttention, D, 4, rotary=RotaryPositions(4)))


@pytest.mark.parametrize(
    "made",
    [parts(), ACROSS, evolved(ACROSS, 4, 32)],
    ids=["self-attention", "cross-attention", "evolved"],
)
def test_a_translation_step_by_step_is_the_whole(made):
    torch.manual_seed(0)
    model = Transformer(WORDS, WORDS, made, num_layers=2).double().eval()
    lengths = torch.tensor([6, 3])
    whole = model(TEXT[:, :6], lengths, TEXT).logits
    memory = model.encode(TEXT[:, :6], lengths)
    state = model.start(memory)
    for t in range(TEXT.shape[1]):
        logits, state, _ = model.step(TEXT[:, t], state, memory)
        torch.testing.assert_close(logits, whole[:, t], **EXACT)
