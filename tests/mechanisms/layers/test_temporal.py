"""Causal convolutions, dense, TC and attention blocks against loops in NumPy."""

import math

import numpy as np
import pytest
import torch
from assertions import refusals
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.autograd import gradcheck

from attnbook import Attended, DotScore, attend, causal_mask
from attnbook.mechanisms.layers import temporal
from attnbook.mechanisms.layers.temporal import (
    AttentionBlock,
    CausalConvolution,
    DenseBlock,
    TCBlock,
    blocks_for,
)

from ..agreement import assert_same, drawn, randomised

D = 3
MAKE = {
    "dense": lambda: DenseBlock(D, 4, 2),
    "tc": lambda: TCBlock(D, 6, 2),
    "tc as listed": lambda: TCBlock(D, 6, 2, first=2),
    "attention": lambda: AttentionBlock(D, 4, 2),
}


def build(kind, seed=0):
    return randomised(MAKE[kind]() if isinstance(kind, str) else kind(), seed, std=1.0)


def x_of(n, batch=2, seed=3, width=D):
    return drawn(batch, n, width, seed=seed)


# Oracles: one sequence (n, d) at a time, position by position.


def convolve(x, weight, bias, dilation):
    """Kernel of two: the first half of a row of ``weight`` is for ``dilation`` steps back."""
    n, d = x.shape
    y = np.zeros((n, len(weight)))
    for t in range(n):
        for c in range(len(weight)):
            y[t, c] = bias[c] + sum(weight[c, d + i] * x[t, i] for i in range(d))
            if t >= dilation:
                y[t, c] += sum(weight[c, i] * x[t - dilation, i] for i in range(d))
    return y


def dense(x, weight, bias, dilation):
    y = convolve(x, weight, bias, dilation)
    filters = y.shape[1] // 2
    return np.concatenate([x, np.tanh(y[:, :filters]) / (1 + np.exp(-y[:, filters:]))], axis=1)


def attention(x, p):
    q, k, v = (
        x @ p[f"{part}_projection.weight"].T + p[f"{part}_projection.bias"]
        for part in ("query", "key", "value")
    )
    n, read, weights = len(x), np.zeros((len(x), v.shape[1])), np.zeros((len(x), len(x)))
    for t in range(n):
        e = [math.exp(float(q[t] @ k[j]) / math.sqrt(k.shape[1])) for j in range(t + 1)]
        for j in range(t + 1):
            weights[t, j] = e[j] / sum(e)
            read[t] += weights[t, j] * v[j]
    return np.concatenate([x, read], axis=1), weights


def oracle(block, x):
    p, x = {name: value.detach().numpy() for name, value in block.named_parameters()}, x.numpy()
    if isinstance(block, AttentionBlock):
        return attention(x, p)[0]
    parts = [""]
    if isinstance(block, TCBlock):
        parts = [f"blocks.{i}." for i in range(len(block.blocks))]
    first = (block if isinstance(block, DenseBlock) else block.blocks[0]).convolution.dilation
    for i, part in enumerate(parts):
        weight, bias = (p[f"{part}convolution.linear.{name}"] for name in ("weight", "bias"))
        x = dense(x, weight, bias, first * 2**i)
    return x


@pytest.mark.parametrize("n", [1, 2, 5, 9])
@pytest.mark.parametrize("kind", MAKE)
def test_the_output_is_that_of_the_formula(kind, n):
    block, x = build(kind), x_of(n)
    result = block(x).output
    assert result.shape == (2, n, block.d_out)
    for row in range(2):
        np.testing.assert_allclose(result[row].detach(), oracle(block, x[row]), atol=1e-10)


@pytest.mark.parametrize("kernel_size, dilation", [(1, 1), (2, 1), (2, 3), (3, 2), (4, 1)])
def test_a_causal_convolution_is_pytorchs_with_zeros_in_front(kernel_size, dilation):
    layer, x = build(lambda: CausalConvolution(D, 5, dilation, kernel_size)), x_of(7)
    theirs = torch.nn.Conv1d(D, 5, kernel_size, dilation=dilation).double()
    with torch.no_grad():
        theirs.weight.copy_(layer.linear.weight.unflatten(1, (kernel_size, D)).transpose(1, 2))
        theirs.bias.copy_(layer.linear.bias)
    expected = theirs(torch.nn.functional.pad(x.mT, (layer.reach, 0))).mT
    assert_same(layer(x), expected)
    assert_same(layer(x[:, 3:], layer.with_past(x)[:, 3 : 3 + layer.reach]), expected[:, 3:])


def test_the_weights_are_those_of_the_formula_and_sum_to_one():
    block, x = build("attention"), x_of(6)
    weights = block(x, need_weights=True).weights
    p = {name: value.detach().numpy() for name, value in block.named_parameters()}
    for row in range(2):
        assert_same(weights[row].detach(), torch.tensor(attention(x[row].numpy(), p)[1]))
    assert_same(weights.sum(-1), torch.ones(2, 6, dtype=torch.float64))
    assert weights.triu(1).abs().max() == 0 and build("tc")(x, need_weights=True).weights is None


@settings(max_examples=25, deadline=None)
@given(
    cuts=st.lists(st.integers(1, 4), min_size=1, max_size=5),
    kind=st.sampled_from(sorted(MAKE)),
    seed=st.integers(0, 9),
)
def test_piece_by_piece_is_the_same(cuts, kind, seed):
    block, x = build(kind, seed), x_of(sum(cuts), seed=seed)
    full, past, pieces = block(x).output, None, []
    for piece in x.split(cuts, dim=1):
        result = block(piece, past)
        past = result.past
        pieces.append(result.output)
    assert_same(torch.cat(pieces, dim=1), full)


def later_moves_it(block, x) -> bool:
    """Whether any output depends on a later input, by the derivative and by changing them."""
    n = x.shape[-2]
    # (m, batch, n, d)
    jacobian = torch.autograd.functional.jacobian(lambda x: block(x).output.sum((0, 2)), x)
    later = jacobian.abs().amax((1, 3)).triu(1).max() > 0
    before = block(x).output
    for j in range(1, n):
        changed = x.clone()
        changed[:, j] += 1.0
        later |= not torch.equal(block(changed).output[:, :j], before[:, :j])
    return bool(later)


@settings(max_examples=20, deadline=None)
@given(n=st.integers(2, 9), kind=st.sampled_from(sorted(MAKE)), seed=st.integers(0, 9))
def test_no_output_depends_on_a_later_input(n, kind, seed):
    assert not later_moves_it(build(kind, seed), x_of(n, seed=seed))


def seen_by_the_last(block, n):
    """Which of n inputs the last output depends on, beside its own copy of its input."""
    x = x_of(n, batch=1).requires_grad_()
    (slope,) = torch.autograd.grad(block(x).output[0, -1, D:].sum(), x)
    return (slope[0].abs().amax(-1) > 0).tolist()


@pytest.mark.parametrize("length", [1, 2, 3, 4, 5, 6, 8, 9, 11, 16, 17, 26, 101])
def test_a_tc_block_sees_all_of_its_length_and_needs_all_of_its_layers(length):
    block = build(lambda: TCBlock(D, length, 2))
    number = len(block.blocks)
    assert number == blocks_for(length) == math.ceil(math.log2(length))
    assert block.d_out == D + 2 * number
    if length > 1:
        assert all(seen_by_the_last(block, length))
        fewer = build(lambda: TCBlock(D, 2 ** (number - 1), 2))
        assert length == 2 or not all(seen_by_the_last(fewer, length))


def test_the_listing_of_the_paper_never_sees_an_odd_number_of_steps_back():
    back = seen_by_the_last(build(lambda: TCBlock(D, 8, 2, first=2)), 15)[::-1]
    assert back == [k % 2 == 0 for k in range(15)]
    back = seen_by_the_last(build(lambda: TCBlock(D, 8, 2)), 15)[::-1]
    assert back == [k < 8 for k in range(15)]


@pytest.mark.parametrize("length", [6, 26, 101])
def test_the_natural_logarithm_makes_too_few(length):
    natural = math.ceil(math.log(length))
    assert natural < blocks_for(length)
    assert not all(seen_by_the_last(build(lambda: TCBlock(D, 2**natural, 2)), length))


@pytest.mark.parametrize("kind", MAKE)
def test_gradients_are_right_and_reach_every_parameter(kind):
    block, x = build(kind), x_of(5, batch=1).requires_grad_()
    assert gradcheck(lambda x: block(x).output, (x,))
    block(x).output.square().sum().backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in block.parameters())


def over_the_queries(score, query, key, value, *, is_causal, need_weights):
    # for each key over the queries that may look at it
    mask = causal_mask(query.shape[-2], key.shape[-2])
    weights = score(query, key).masked_fill(~mask, -torch.inf).softmax(-2)
    return Attended(weights @ value, weights)


def shifted_mask(steps):
    def attend_shifted(score, query, key, value, *, is_causal, need_weights):
        m, n = query.shape[-2], key.shape[-2]
        mask = torch.ones(m, n).bool().tril(n - m + steps)
        return attend(score, query, key, value, mask=mask, need_weights=need_weights)

    return lambda patch, block: patch(temporal, "attend", attend_shifted)


def dilate(patch, block, dilations):
    for dense_block, dilation in zip(block.blocks, dilations):
        patch(dense_block.convolution, "dilation", dilation)


def exchange(patch, block):
    read = block.convolution.read
    patch(block.convolution, "read", lambda full: torch.cat(read(full).chunk(2, -1)[::-1], -1))


def behind(patch, block):
    pad = lambda x, past=None: torch.nn.functional.pad(x, (0, 0, 0, 2))  # noqa: E731
    patch(block.convolution, "with_past", pad)


BREAKS = {
    "softmax over the queries": ("attention", lambda p, b: p(temporal, "attend", over_the_queries)),
    "no scale": ("attention", lambda p, b: p(b, "score", DotScore())),
    "a mask that sees one further": ("attention", shifted_mask(1)),
    "a mask that does not see itself": ("attention", shifted_mask(-1)),
    "dilations 2, 4, 8": ("tc", lambda p, b: dilate(p, b, (2, 4, 8))),
    "dilations 1, 1, 1": ("tc", lambda p, b: dilate(p, b, (1, 1, 1))),
    "zeros behind instead of in front": ("dense", behind),
    "tanh and gate exchanged": ("dense", exchange),
    "the gate by tanh too": ("dense", lambda p, b: p(torch.Tensor, "sigmoid", torch.Tensor.tanh)),
}


@pytest.mark.parametrize("mistake", BREAKS)
def test_known_wrong_versions_are_told_apart(mistake, monkeypatch):
    kind, spoil = BREAKS[mistake]
    block, x = build(kind), x_of(7)
    right = [oracle(block, row) for row in x]
    spoil(monkeypatch.setattr, block)
    result = block(x).output
    assert max(np.abs(result[row].detach().numpy() - right[row]).max() for row in range(2)) > 1e-3


AHEAD = ["softmax over the queries", "a mask that sees one further"]


@pytest.mark.parametrize("mistake", [*AHEAD, "zeros behind instead of in front"])
def test_a_look_ahead_is_seen(mistake, monkeypatch):
    kind, spoil = BREAKS[mistake]
    block = build(kind)
    spoil(monkeypatch.setattr, block)
    assert later_moves_it(block, x_of(6))


def test_queries_and_keys_that_start_alike_look_at_what_resembles_them():
    torch.manual_seed(0)
    plain = AttentionBlock(D, 16, 2)
    torch.manual_seed(0)
    block = AttentionBlock(D, 16, 2, alike=3.0)
    torch.testing.assert_close(block.query_projection.weight, 3 * plain.query_projection.weight)
    assert torch.equal(block.key_projection.weight, block.query_projection.weight)
    assert torch.equal(block.key_projection.bias, block.query_projection.bias)
    assert torch.equal(block.value_projection.weight, plain.value_projection.weight)
    x = 2 * torch.eye(3).repeat(1, 2, 1)  # three different positions, then the same again
    alike, other = (made(x, need_weights=True).weights[0, -1, 2] for made in (block, plain))
    assert alike > 0.4 > 0.3 > other
    block(x).output.sum().backward()
    # two matrices that learn apart
    assert block.key_projection.weight.grad is not block.query_projection.weight.grad


test_bad_input_is_named = refusals(
    ("length", lambda: blocks_for(0)),
    ("dilation", lambda: CausalConvolution(3, 4, 0)),
    ("filters", lambda: DenseBlock(3, 0, 1)),
    ("first", lambda: TCBlock(3, 4, 2, first=0)),
    ("d_value", lambda: AttentionBlock(3, 4, 0)),
    ("alike", lambda: AttentionBlock(3, 4, 2, alike=0)),
    ("x", lambda: build("attention")(x_of(3, width=5))),
    ("x", lambda: build("tc")(x_of(3, width=5))),
    ("past", lambda: build("dense")(x_of(3), x_of(1))),
)


def test_a_later_number_that_is_not_finite_spoils_no_gradient_of_what_stands_before():
    block, x = build("attention"), x_of(7)
    wanted = torch.autograd.grad(block(x).output[:, :5].sum(), [*block.parameters()])
    spoiled = x.index_fill(1, torch.tensor([5]), torch.nan)
    output = block(spoiled).output
    assert output.isnan().any(-1).tolist() == [[False] * 5 + [True] * 2] * len(x)
    clean = torch.autograd.grad(block(x[:, :5]).output.sum(), [*block.parameters()])
    found = torch.autograd.grad(output[:, :5].sum(), [*block.parameters()])
    for a, b, c in zip(found, wanted, clean, strict=True):
        assert_same(a, b)
        assert_same(a, c)
