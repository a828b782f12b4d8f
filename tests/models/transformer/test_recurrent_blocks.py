"""A language model whose blocks are recurrent: its state is the cache."""

import dataclasses

import pytest
import torch
from refusing import assert_refused

from attnbook import (
    LINEAR_ATTENTIONS,
    LinearAttention,
    Mamba2Mixer,
    NoPositions,
    TransformerLM,
    alternating,
    paper_parts,
)
from attnbook.decoding import greedy
from attnbook.tasks import TOKEN_IDS

WORDS, D = 13, 8
EXACT = {"atol": 1e-10, "rtol": 0}


def parts(name):
    base = dataclasses.replace(paper_parts(D, 2, 16, dropout=0.0), positions=NoPositions)
    recurrent = dataclasses.replace(
        base,
        attention=lambda: (
            Mamba2Mixer(D, d_state=3, d_head=4)
            if name == "mamba2"
            else LinearAttention(D, 2, **LINEAR_ATTENTIONS[name])
        ),
    )
    return recurrent, dataclasses.replace(base, stack=alternating(recurrent, base))


@pytest.mark.parametrize("name", ["linear", "gated", "gated_delta", "mamba2"])
@pytest.mark.parametrize("mixed", [False, True])
def test_decoding_with_states_equals_the_whole_text(name, mixed):
    torch.manual_seed(0)
    model = (
        TransformerLM(WORDS, parts(name)[mixed], num_layers=2, token_ids=TOKEN_IDS).double().eval()
    )
    tokens = torch.randint(1, WORDS, (2, 7))
    whole = model(tokens).logits
    lengths = torch.tensor([4, 2])  # a beginning that is padded
    state = model.encode(tokens[:, :4].where(torch.arange(4) < lengths[:, None], 0), lengths)
    for t in range(3):
        at = lengths + t
        out = model.step(tokens[[0, 1], at], state)
        right = whole[[0, 1], at]
        torch.testing.assert_close(out.logits, right, **EXACT)
        state = out.state
    state, logits = model.begin(2), []
    for t in range(7):
        out = model.step(tokens[:, t], state)
        state, logits = out.state, [*logits, out.logits]
    torch.testing.assert_close(torch.stack(logits, 1), whole, **EXACT)


def test_the_state_does_not_grow_and_can_be_searched_with():
    model = TransformerLM(WORDS, parts("gated_delta")[0], num_layers=1, token_ids=TOKEN_IDS).eval()
    sizes = []
    state = model.begin(1)
    for word in (3, 4, 5):
        state = model.step(torch.tensor([word]), state).state
        sizes.append(sum(t.numel() for t in state.caches[0] if t is not None))
    assert len(set(sizes)) == 1
    assert_refused("number", model.cut, state, 1)
    out = greedy(model, torch.tensor([[3, 4], [5, 0]]), torch.tensor([2, 1]), max_length=4)
    alone = greedy(model, torch.tensor([[5]]), torch.tensor([1]), max_length=4)
    assert out.tokens[1] == alone.tokens[0]
