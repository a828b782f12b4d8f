"""A memory of product keys against a search through all slots."""

import numpy as np
import pytest
import torch
from assertions import refusals
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.autograd import gradcheck
from watching import LargestTensor

from attnbook_runs.language.parts.product_keys import ProductKeyMemory

from ..agreement import assert_same, drawn, randomised

D, K, HEADS, BEST, DQ = 5, 6, 2, 3, 8


def build(seed=0, top_k=BEST):
    return randomised(ProductKeyMemory(D, K, HEADS, top_k, DQ), seed, std=1.0)


def x_of(*shape, seed=3):
    return drawn(*shape, D, seed=seed)


def oracle(memory, x):
    """Every one of the K² slots is scored for one position x."""
    keys, values = memory.keys.detach().numpy(), memory.values.detach().numpy()
    queries = memory.norm(memory.query_projection(x[None])).detach().numpy().reshape(HEADS, DQ)
    total, slots = np.zeros(D), []
    for h in range(HEADS):
        first, second = queries[h, : DQ // 2], queries[h, DQ // 2 :]
        scores = np.array(
            [first @ keys[h, 0, i] + second @ keys[h, 1, j] for i in range(K) for j in range(K)]
        )
        best = np.argsort(-scores)[: memory.top_k]
        weights = np.exp(scores[best] - scores[best].max())
        total += weights / weights.sum() @ values[best]
        slots.append(best)
    return total, slots


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 99), top_k=st.integers(1, K))
def test_it_finds_the_best_of_all_slots(seed, top_k):
    memory, x = build(seed, top_k), x_of(2, 3, seed=seed)
    result, (slots, weights) = memory(x), memory.find(x)
    for at in np.ndindex(2, 3):
        total, best = oracle(memory, x[at])
        assert_same(result[at], torch.tensor(total))
        assert [set(s) for s in slots[at].tolist()] == [set(b.tolist()) for b in best]
    assert_same(weights.sum(-1), torch.ones(2, 3, HEADS).double())


def test_gradients_are_right_and_reach_what_was_read():
    memory, x = build(), x_of(1, 2).requires_grad_()
    assert gradcheck(memory, (x,))
    memory(x).square().sum().backward()
    slots = memory.find(x)[0].flatten().unique()
    touched = memory.values.grad.abs().sum(1) > 0
    assert touched[slots].all() and int(touched.sum()) == len(slots)
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in memory.parameters())


@pytest.mark.parametrize("shape", [(), (3,), (0,), (2, 0), (2, 1, 2)], ids=str)
def test_one_position_alone_and_none_at_all(shape):
    memory, x = build(), x_of(*shape)
    assert memory(x).shape == x.shape
    for where in np.ndindex(*shape):
        assert_same(memory(x)[where], torch.tensor(oracle(memory, x[where])[0]))


def test_many_slots_and_few_comparisons():
    memory = ProductKeyMemory(D, 64, 4, 8, DQ)
    assert memory.values.shape == (64**2, D) and memory.keys.shape == (4, 2, 64, DQ // 2)
    with torch.no_grad(), LargestTensor() as largest:
        memory.find(torch.randn(5, D))
    # a score for each half of a key, none for each slot
    assert largest.numel == 5 * 4 * 2 * 64 < 5 * 4 * 64**2 / 30


WRONG = ["softmax over all slots", "best of the first half only", "slots exchanged"]
WRONG += ["one softmax for all heads"]


@pytest.mark.parametrize("wrong", ["", *WRONG])
def test_known_wrong_versions_are_told_apart(wrong):
    memory, x = build(), x_of(3)
    halves = memory.norm(memory.query_projection(x)).unflatten(-1, (HEADS, 2, -1))
    scores = torch.einsum("thsd,hskd->thsk", halves, memory.keys)
    every = (scores[:, :, 0, :, None] + scores[:, :, 1, None, :]).flatten(-2)
    slots = memory.find(x)[0]
    if wrong == "best of the first half only":
        slots = scores[:, :, 0].topk(BEST).indices * K + scores[:, :, 1].argmax(-1, keepdim=True)
    weights = every.gather(-1, slots).softmax(-1)
    if wrong == "softmax over all slots":
        weights = every.softmax(-1).gather(-1, slots)
    if wrong == "one softmax for all heads":
        weights = every.gather(-1, slots).flatten(1).softmax(-1).view_as(weights)
    if wrong == "slots exchanged":
        slots = slots % K * K + slots // K
    off = torch.einsum("thk,thkd->td", weights, memory.values[slots]) - memory(x)
    assert off.abs().max() > 1e-3 if wrong else off.abs().max() < 1e-10


test_bad_input_is_named = refusals(
    ("top_k", lambda: ProductKeyMemory(D, 4, 2, 5, 8)),
    ("d_query", lambda: ProductKeyMemory(D, 4, 2, 2, 7)),
    ("num_keys", lambda: ProductKeyMemory(D, 0)),
    ("x", lambda: build()(x_of(3)[..., :2])),
)
