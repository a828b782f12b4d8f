"""Tokens that a language model read and that are taken back: as if they had not been read, for
every kind of cache.
"""

from dataclasses import replace
from functools import partial

import pytest
import torch
from refusing import assert_refused

from attnbook import (
    LatentAttention,
    LinearAttention,
    MultiHeadAttention,
    NoPositions,
    RotaryPositions,
    SlidingWindow,
    TransformerLM,
    paper_parts,
)
from attnbook.mechanisms import make_score

EXACT = {"atol": 1e-10, "rtol": 0}
WORDS, D = 13, 16
BASE = paper_parts(D, 4, 32, dropout=0.0)
TEXT = torch.arange(1, 27).reshape(2, 13) * 7 % (WORDS - 1) + 1
KINDS = {
    "keys and values": {},
    "scored keys": {"score": make_score("general", 4, 4)},
    "rotary, grouped": {"num_kv_heads": 2, "rotary": RotaryPositions(4)},
    "window": {"window": SlidingWindow(3), "rotary": RotaryPositions(4)},
    "window and sinks": {"window": SlidingWindow(3, 2), "rotary": RotaryPositions(4)},
}


def model_of(attention):
    torch.manual_seed(0)
    parts = replace(BASE, attention=attention, positions=NoPositions)
    return TransformerLM(WORDS, parts, num_layers=2).double().eval()


ATTENTIONS = {
    **{name: partial(MultiHeadAttention, D, 4, **options) for name, options in KINDS.items()},
    "latent": partial(LatentAttention, D, 4, d_latent=6, d_head=4, rotary=RotaryPositions(4)),
}


@pytest.mark.parametrize("lengths", [[4, 4], [4, 2]], ids=["whole", "padded"])
@pytest.mark.parametrize("name", ATTENTIONS)
def test_a_text_goes_on_from_what_was_kept(name, lengths):
    model, lengths = model_of(ATTENTIONS[name]), torch.tensor(lengths)
    state = model.start(model.encode(TEXT[:, :4] * (torch.arange(4) < lengths[:, None]), lengths))
    right = model.read(TEXT[:, 4:], state).logits
    read = model.read(torch.cat([TEXT[:, 4:6], TEXT[:, :3]], 1), state).state  # three of them vain
    kept = model.cut(read, 3)
    first = model.step(TEXT[:, 6], kept)
    torch.testing.assert_close(first.logits, right[:, 2], **EXACT)
    after = model.read(TEXT[:, 7:], first.state)
    torch.testing.assert_close(after.logits, right[:, 3:], **EXACT)
    assert model.cut(read, 0) is read
    # the test sees what is not cut, and what is cut by one too many
    for wrong in (read, model.cut(read, 2), model.cut(read, 4)):
        assert (model.step(TEXT[:, 6], wrong).logits - right[:, 2]).abs().max() > 1e-4


def test_what_cannot_be_taken_back_is_named():
    model = model_of(ATTENTIONS["window"])
    state = model.begin(1)
    for token in TEXT[0, :8]:
        state = model.step(token[None], state).state
    assert_refused("number", model.cut, state, 2)
    recurrent = model_of(partial(LinearAttention, D, 4))
    state = recurrent.read(TEXT, recurrent.begin(2)).state
    assert_refused("number", recurrent.cut, state, 1)
    plain = model_of(ATTENTIONS["keys and values"])
    assert_refused("number", lambda: plain.cut(plain.read(TEXT, plain.begin(2)).state, 14))
    state = plain.begin(2)._replace(caches=((), ()))
    assert_refused("state", plain.cut, state, 1)
