"""Captioners that are wrong in a known way, and the oracle that must tell them apart."""

import numpy as np
import pytest
import torch

from attnbook.models import captioner as module

from .oracles_captioner import TARGET, build, caption_by_hand, pictures


def _vector_gate(model):
    model.gate = torch.nn.Linear(6, 5).double()


def _no_gate(model):
    model.gate = torch.nn.Linear(6, 1).double()
    torch.nn.init.zeros_(model.gate.weight), torch.nn.init.constant_(model.gate.bias, 50.0)


def _softmax_over_channels(model):
    forward = type(model.attention).forward

    def wrong(query, regions, expected=None):
        share = regions.features.softmax(-1)
        return forward(model.attention, query, regions)._replace(
            context=(share * regions.features).mean(1)
        )

    model.attention.forward = wrong


def _relu_for_tanh(model):
    score = model.attention.score
    score.compare = lambda q, p: (
        (score.query_projection(q)[..., None, :] + p[..., None, :, :]).relu()
        @ score.vector.weight[0]
    )


def _query_after_the_step(model):
    advance = model._advance
    model._advance = lambda e, state, regions, expected=None: advance(
        e, (state[1], state[1]), regions, expected
    )


def _mean_context(model):
    model.attention = module.MeanContext()


@pytest.mark.parametrize(
    "spoil",
    [
        _vector_gate,
        _no_gate,
        _softmax_over_channels,
        _relu_for_tanh,
        _query_after_the_step,
        _mean_context,
    ],
    ids=lambda f: f.__name__.strip("_"),
)
def test_known_wrong_captioners_are_told_apart_by_the_oracle(spoil):
    model = build()
    expected = [
        caption_by_hand(model, pictures()[b], TARGET[b].tolist(), "soft")[0] for b in range(3)
    ]
    spoil(model)
    got = model(pictures(), TARGET).logits
    assert any(not np.allclose(got[b].detach().numpy(), expected[b], atol=1e-5) for b in range(3))


def test_soft_context_at_test_time_is_told_apart_from_hard():
    model = build("hard")
    expected = caption_by_hand(model, pictures()[0], TARGET[0].tolist(), "hard")[0]
    model.attention.forward = lambda *a: module.SoftAttention.forward(model.attention, *a)
    assert not np.allclose(
        model(pictures(), TARGET).logits[0].detach().numpy(), expected, atol=1e-5
    )
