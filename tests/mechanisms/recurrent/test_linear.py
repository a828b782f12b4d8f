"""Every form of linear attention against the recurrence in NumPy."""

import numpy as np
import pytest
import torch
from assertions import assert_refused
from hypothesis import given, settings
from hypothesis import strategies as st
from watching import LargestTensor

from attnbook import linear_attention, positive_features, unit_features

from ..agreement import assert_same
from .oracle import recurrence

B, H, N, DK, DV = 2, 3, 11, 4, 5
FORMS = [("recurrent", 1), ("parallel", 1), ("chunks", 1), ("chunks", 3), ("chunks", 4)]
GATES = ["constant", "scalar", "vector", "gated delta", "vector delta"]
KINDS = ["sum", "normalised", "delta", *GATES]


def problem(kind, n=N, seed=0, dtype=torch.float64):
    """Query, key, value, mask, and the options of a kind."""
    g = torch.Generator().manual_seed(seed)
    query, key = (torch.randn(B, H, n, DK, generator=g, dtype=dtype) for _ in range(2))
    value = torch.randn(B, H, n, DV, generator=g, dtype=dtype)
    query, key = positive_features(query), unit_features(key)
    mask = torch.rand(B, 1, n, generator=g) < 0.7
    mask[0, 0, 0] = False
    options = {}
    if kind == "normalised":
        key, options = key.abs(), {"normalise": True}
    shapes = {"constant": (H, 1, 1), "vector": (B, H, n, DK), "vector delta": (B, H, n, DK)}
    if kind in GATES:
        shape = shapes.get(kind, (B, H, n, 1))
        options["log_decay"] = -torch.rand(shape, generator=g, dtype=dtype)
    if "delta" in kind:
        options["strength"] = 1.5 * torch.rand(B, H, n, generator=g, dtype=dtype)
    return (query, key, value, mask), options


def states(normalise=False):
    g = torch.Generator().manual_seed(9)
    return torch.rand(B, H, DK, DV + normalise, generator=g, dtype=torch.float64)


def expected(arguments, options, state=None, wrong=""):
    """The oracle for each row and head."""
    query, key, value, mask = arguments
    n = key.shape[-2]
    decay, beta = options.get("log_decay"), options.get("strength")
    decay = None if decay is None else decay.exp().expand(B, H, n, -1).numpy()
    normalise = options.get("normalise", False)
    context, last = np.zeros((B, H, n, DV)), np.zeros((B, H, DK, DV + normalise))
    for b, h in np.ndindex(B, H):
        context[b, h], end = recurrence(
            *(t[b, h].numpy() for t in (query, key, value)),
            None if mask is None else mask[b, 0].numpy(),
            None if decay is None else decay[b, h],
            None if beta is None else beta[b, h].numpy(),
            normalise,
            None if state is None else state[b, h].numpy().T,
            wrong,
        )
        last[b, h] = end.T
    return torch.from_numpy(context), torch.from_numpy(last)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("masked", [False, True])
def test_every_form_equals_the_recurrence_in_value_and_gradient(kind, masked):
    (*tensors, mask), options = problem(kind)
    mask, state = mask if masked else None, states(kind == "normalised")
    right = expected((*tensors, mask), options, state)
    gates = [t for t in options.values() if isinstance(t, torch.Tensor)]
    leaves = [t.requires_grad_() for t in (*tensors, *gates, state)]
    slopes = None
    for form, length in FORMS:
        out = linear_attention(
            *tensors, key_mask=mask, state=state, form=form, chunk_length=length, **options
        )
        assert_same(tuple(out), right)
        ways = [torch.linspace(-1, 2, t.numel(), dtype=t.dtype).view_as(t) for t in out]
        found = torch.autograd.grad(sum((o * w).sum() for o, w in zip(out, ways)), leaves)
        slopes = found if slopes is None else slopes  # of the recurrence, step by step
        assert_same(found, slopes)


@pytest.mark.parametrize("kind", ["normalised", "vector", "gated delta"])
def test_gradients_equal_difference_quotients(kind):
    (*tensors, mask), options = problem(kind, 3)
    names = [name for name, t in options.items() if isinstance(t, torch.Tensor)]
    leaves = [t[:1, :1].clone().requires_grad_() for t in (*tensors, *map(options.get, names))]

    def run(query, key, value, *gates):
        given = {**options, **dict(zip(names, gates))}
        return tuple(
            linear_attention(query, key, value, key_mask=mask[:1, :1], chunk_length=2, **given)
        )

    assert torch.autograd.gradcheck(run, leaves)


def test_the_parallel_form_is_a_masked_matrix():
    (query, key, value, _), _ = problem("normalised")
    weights = (query @ key.mT).tril()
    right = (weights / weights.sum(-1, keepdim=True)) @ value
    assert_same(linear_attention(query, key, value, normalise=True).context, right)
    decay = torch.rand(N, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    between = torch.tensor(
        [[decay[j + 1 : i + 1].prod() if j <= i else 0.0 for j in range(N)] for i in range(N)]
    )
    found = linear_attention(query, key, value, log_decay=decay.log(), form="parallel").context
    assert_same(found, (query @ key.mT * between) @ value)


WRONG = {
    "decay after the write": "gated delta",
    "decay of the position before": "scalar",
    "reads before it writes": "sum",
    "no decay of the sum": "normalised",
    "not divided": "normalised",
    "erases without β": "delta",
    "adds without β": "delta",
    "erases by features": "delta",
    "adds before it erases": "delta",
    "padding forgets": "vector",
}


@pytest.mark.parametrize("wrong", WRONG)
def test_known_wrong_versions_are_told_apart(wrong):
    arguments, options = problem(WRONG[wrong])
    if wrong == "no decay of the sum":
        options["log_decay"] = problem("scalar")[1]["log_decay"]
    right = linear_attention(*arguments[:3], key_mask=arguments[3], **options).context
    assert_same(right, expected(arguments, options)[0])
    assert (right - expected(arguments, options, wrong=wrong)[0]).abs().max() > 1e-2


@settings(max_examples=15, deadline=None)
@given(
    st.sampled_from(KINDS), st.lists(st.integers(1, 5), min_size=1, max_size=5), st.integers(0, 99)
)
def test_a_state_that_is_carried_from_part_to_part_gives_the_whole(kind, parts, seed):
    n = sum(parts)
    (*tensors, mask), options = problem(kind, n, seed)
    whole = linear_attention(*tensors, key_mask=mask, chunk_length=4, **options)
    state, contexts, at = None, [], 0
    for m in parts:
        cut = {
            name: t[..., at : at + m] if name == "strength" else t[..., at : at + m, :]
            for name, t in options.items()
            if isinstance(t, torch.Tensor) and kind != "constant"
        }
        context, state = linear_attention(
            *(t[..., at : at + m, :] for t in tensors),
            key_mask=mask[..., at : at + m],
            state=state,
            form="recurrent" if m == 1 else "chunks",
            chunk_length=2,
            **{**options, **cut},
        )
        contexts.append(context)
        at += m
    assert_same(torch.cat(contexts, -2), whole.context)
    assert_same(state, whole.state)


@pytest.mark.parametrize("kind", KINDS)
def test_padding_writes_nothing_and_forgets_nothing_even_if_it_is_not_a_number(kind):
    (*tensors, _), options = problem(kind, 6)
    whole = linear_attention(*tensors, **options)
    for before, behind in ((3, 0), (0, 3)):

        def padded(t, rows=-2):
            width = (0, 0) * (-1 - rows) + (before, behind)
            return torch.nn.functional.pad(t, width, value=torch.nan).requires_grad_()

        leaves = [padded(t) for t in tensors]
        gates = {
            name: padded(t, -1 if name == "strength" else -2)
            for name, t in options.items()
            if isinstance(t, torch.Tensor) and kind != "constant"
        }
        there = torch.arange(9).sub(before).ge(0) & torch.arange(9).lt(6 + before)
        out = linear_attention(*leaves, key_mask=there, chunk_length=4, **{**options, **gates})
        assert_same(out.context[..., there, :], whole.context)
        assert_same(out.state, whole.state)
        assert (out.context[..., ~there, :] == 0).all()
        total = out.context.sum() + out.state.sum()
        slopes = torch.autograd.grad(total, [*leaves, *gates.values()])
        assert all(slope.isfinite().all() for slope in slopes)
        assert all((slope[..., ~there, :] == 0).all() for slope in slopes[:3])


@pytest.mark.parametrize("kind", ["scalar", "vector", "gated delta"])
def test_strong_decay_over_a_long_text_keeps_float32(kind):
    n, g = 4096, torch.Generator().manual_seed(0)
    query, key = (unit_features(torch.randn(1, 1, n, 8, generator=g)) for _ in range(2))
    value = torch.randn(1, 1, n, 4, generator=g)
    # from nearly nothing forgotten to nearly all: the product over a chunk is below 10^-300
    width = 8 if kind == "vector" else 1
    log_decay = -(torch.rand(1, 1, n, width, generator=g) * 8 - 5).exp()
    log_decay[..., 100:200, :] = -30
    options = {"log_decay": log_decay}
    if kind == "gated delta":
        options["strength"] = torch.rand(1, 1, n, generator=g)
    leaves = [t.clone().requires_grad_() for t in (query, key, value, log_decay)]
    out = linear_attention(*leaves[:3], **{**options, "log_decay": leaves[3]}, chunk_length=256)
    exact = linear_attention(
        *(t.double() for t in (query, key, value)),
        **{name: t.double() for name, t in options.items()},
        form="recurrent",
    )
    torch.testing.assert_close(out.context.double(), exact.context, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(out.state.double(), exact.state, atol=1e-5, rtol=1e-5)
    slopes = torch.autograd.grad(out.context.square().sum(), leaves)
    assert all(slope.isfinite().all() for slope in slopes)


def test_leading_dimensions_broadcast_as_heads_that_share_queries_and_keys():
    (query, key, value, mask), options = problem("gated delta")
    shared, first = key[:, :1], query[:1, :1]
    found = linear_attention(first, shared, value, key_mask=mask, **options, chunk_length=4)
    full = first.expand_as(query), shared.expand_as(key), value
    right = linear_attention(*full, key_mask=mask, **options, form="recurrent")
    assert_same(tuple(found), tuple(right))
    gates = {k: t[1, 2] for k, t in options.items()}
    alone = linear_attention(*(t[1, 2] for t in (query, key, value)), **gates)
    row = linear_attention(query, key, value, **options).context[1, 2]
    assert_same(alone.context, row)


def test_chunks_make_no_matrix_of_all_pairs():
    n = 256
    tensors = [torch.randn(1, 1, n, 8, requires_grad=True) for _ in range(3)]
    gates = {"strength": torch.rand(n), "log_decay": -torch.rand(n, 8)}
    with LargestTensor() as largest:
        linear_attention(*tensors, **gates, chunk_length=16).context.sum().backward()
    assert 0 < largest.numel <= 2 * n * 16 < n * n


def test_under_autocast_the_state_stays_float32():
    (*tensors, mask), options = problem("gated delta", 64, dtype=torch.float32)
    right = linear_attention(*tensors, key_mask=mask, **options)
    with torch.autocast("cpu", torch.bfloat16):
        low = linear_attention(*(t.bfloat16() for t in tensors), key_mask=mask, **options)
    assert low.context.dtype == torch.bfloat16 and low.state.dtype == torch.float32
    torch.testing.assert_close(low.state, right.state, atol=0.05, rtol=0.05)


Q, K, V = torch.ones(1, 4, 3), torch.ones(1, 4, 3), torch.ones(1, 4, 2)
THREE = K.expand(3, 4, 3)
BAD = [
    ("form", {"form": "fast"}),
    ("chunk_length", {"chunk_length": 0}),
    ("query and key", {"key": torch.ones(1, 4, 2)}),
    ("query and key", {"query": Q[:, :0], "key": K[:, :0], "value": V[:, :0]}),
    ("value", {"value": torch.ones(1, 3, 2)}),
    ("query, key and value must have one", {"value": V.double()}),
    ("query, key and value must have leading", {"value": V.expand(2, 4, 2), "key": THREE}),
    ("key_mask must be a", {"key_mask": torch.ones(1, 4)}),
    ("key_mask must be broadcastable", {"key_mask": torch.ones(3, dtype=torch.bool)}),
    ("log_decay must be between", {"log_decay": torch.ones(1, 4, 1)}),
    ("log_decay must be numbers", {"log_decay": -torch.ones(1, 4, 2)}),
    ("strength", {"strength": torch.ones(1, 3)}),
    ("normalise", {"strength": torch.ones(1, 4), "normalise": True}),
    ("state", {"state": torch.ones(1, 2, 3)}),
]


@pytest.mark.parametrize(("begin", "change"), BAD)
def test_errors_name_the_argument(begin, change):
    assert_refused(begin, linear_attention, **{"query": Q, "key": K, "value": V, **change})


BAD = [("strength", np.nan), ("strength", np.inf), ("strength", -1e305), ("log_decay", np.nan)]


@pytest.mark.parametrize(("gate", "bad"), BAD)
@pytest.mark.parametrize(("form", "length"), FORMS)
def test_a_gate_that_is_no_number_reaches_no_earlier_row(form, length, gate, bad):
    """In value and in the gradients of all rows, nor any where it is not there; all that follow are
    NaN, and so is the state.
    """
    (query, key, value, mask), options = problem("vector delta")
    mask[..., 3], mask[..., 7:] = False, True
    results = []
    for filling in (0.0, bad):
        given = {name: t.clone() for name, t in options.items()}
        given[gate][:, :, [3, 7]] = 0.0
        given[gate][0, :, [3, 7]] = filling
        leaves = [t.clone().requires_grad_() for t in (query, key, value, *given.values())]
        given = {"key_mask": mask, "form": form, "chunk_length": length}
        given |= dict(zip(options, leaves[3:]))
        context, state = linear_attention(*leaves[:3], **given)
        shown = torch.stack([context[1], context[0].where(torch.arange(N)[:, None] < 7, 0.0)])
        ways = torch.arange(1.0, N + 1)[:, None] * (1 + torch.arange(DV))
        results.append((shown, torch.autograd.grad((shown * ways).sum(), leaves), state[1]))
    assert context[0, :, 7:].isnan().all() and state[0].isnan().all()
    assert_same(*results)
