import math
from functools import partial

import numpy as np
import pytest
import torch
from assertions import assert_refused
from hypothesis import given, settings
from hypothesis import strategies as st
from watching import LargestTensor

import attnbook
from attnbook.mechanisms import (
    PredictedPosition,
    WindowedSource,
    attend_window,
    masked_softmax,
    monotonic_position,
    padding_mask,
    window_index,
)

from ..agreement import assert_same, drawn, randomised
from ..conftest import D as WIDTH
from ..conftest import build
from ..oracles import make


def rounded(position):
    return torch.floor(position.detach() + 0.5)


SPREAD = {"gaussian with sigma d": 2.0, "gaussian without the half": 0.5**0.5}


def full_computation(score, query, key, position, half_width, value, mask, sigma, wrong=""):
    """The same by way of all n scores: a mask of the window, then the Gaussian; or a mistake of
    WRONG. ``(…, m, d_v)`` and ``(…, m, n)``.
    """
    j, centre = torch.arange(key.shape[-2]), rounded(position + (wrong == "window off by one"))
    if wrong == "centre cut off instead of rounded":
        centre = torch.floor(position)
    offset = j - centre.unsqueeze(-1)
    last = half_width - (wrong == "window without its last position")
    window = (-half_width <= offset) & (offset <= last)
    padded = mask is None or wrong == "padding inside the window"
    allowed, after = window if padded else window & mask, torch.ones_like(window)
    if wrong == "window mask after the softmax":
        allowed, after = mask, window
    weights = masked_softmax(score(query, key), mask=allowed) * after
    if sigma is not None:
        around = rounded(position) if wrong == "gaussian around the rounded position" else position
        far = (j - around.unsqueeze(-1)) / (SPREAD.get(wrong, 1.0) * sigma)
        weights = weights * torch.exp(-(far**2) / 2)
    if wrong == "normalised again":
        weights = weights / weights.sum(-1, keepdim=True).clamp_min(1e-300)
    return weights @ value, weights


def attended(*given, need_weights=True):
    *given, mask, sigma = given
    return attend_window(*given, mask=mask, sigma=sigma, need_weights=need_weights)


@st.composite
def problems(draw):
    """Sources from one position to more than a window, positions from before the source to
    behind it, padding, gaps.
    """
    g = torch.Generator().manual_seed(draw(st.integers(0, 2**20)))
    batch, m, n = draw(st.integers(1, 3)), draw(st.integers(1, 4)), draw(st.integers(1, 12))
    half_width = draw(st.integers(1, 4))
    query, key, value = (
        torch.randn(batch, k, d, generator=g, dtype=torch.float64)
        for k, d in ((m, WIDTH), (n, WIDTH), (n, 3))
    )
    position = torch.rand(batch, m, generator=g, dtype=torch.float64) * (n + 8) - 4
    if draw(st.booleans()):
        # on a key, or half-way between two
        position = position.round() + draw(st.sampled_from([0.0, 0.5]))
    mask = None
    kind = draw(st.sampled_from(["none", "padding", "gaps"]))
    if kind == "padding":
        lengths = torch.randint(1, n + 1, (batch,), generator=g)
        mask = padding_mask(lengths, n)[:, None]
    elif kind == "gaps":
        mask = torch.rand(batch, m, n, generator=g) < 0.6
    sigma = draw(st.sampled_from([None, half_width / 2, 0.7]))
    return query, key, value, position, half_width, mask, sigma


@settings(max_examples=100, deadline=None)
@given(problems(), st.sampled_from(sorted(attnbook.SCORES)))
def test_the_gathered_window_equals_the_masked_full_computation_in_value_and_gradient(
    problem, name
):
    query, key, value, position, half_width, mask, sigma = problem
    score = build(name)
    inputs = [t.clone().requires_grad_() for t in (query, key, value, position)]
    upstream = torch.randn(*query.shape[:2], value.shape[-1], dtype=torch.float64)
    results = []
    for compute in (attended, full_computation):
        q, k, v, p = inputs
        context, weights = compute(score, q, k, p, half_width, v, mask, sigma)
        loss = (context * upstream).sum() + weights.square().sum()
        leaves = [*inputs, *score.parameters()]
        grads = torch.autograd.grad(loss, leaves, allow_unused=True, materialize_grads=True)
        results.append([context, weights, *grads])
    assert_same(*results)
    lean = attended(score, query, key, position, half_width, value, mask, sigma, need_weights=False)
    assert_same(lean.context, results[0][0])
    assert lean.weights is None
    j = torch.arange(key.shape[-2])
    outside = (j - torch.floor(position + 0.5).unsqueeze(-1)).abs() > half_width
    if mask is not None:
        outside = outside | ~mask
    assert (results[0][1][outside] == 0).all()


def slow(score, query, key, value, position, half_width, allowed, sigma):
    """One query and one place of the window at a time, in NumPy, from equations 7, 8 and 10 of
    the paper.
    """
    one, m, n = make(score), len(query), len(key)
    weights = np.zeros((m, n))
    for t in range(m):
        centre = math.floor(position[t] + 0.5)
        places = range(max(0, centre - half_width), min(n, centre + half_width + 1))
        places = [j for j in places if allowed[j]]
        powers = {j: math.exp(one(query[t], key[j], j)) for j in places}
        for j in places:
            weights[t, j] = powers[j] / sum(powers.values())
            if sigma is not None:
                weights[t, j] *= math.exp(-((j - position[t]) ** 2) / (2 * sigma**2))
    return weights @ value, weights


def clamped(score, q, k, p, half_width, v, mask, sigma):
    """Places outside of the source counted onto its ends."""
    index = window_index(p, half_width).clamp(0, k.shape[-2] - 1)
    scores = score(q, k).gather(-1, index)
    weights = masked_softmax(scores, mask=mask.expand(*p.shape, k.shape[-2]).gather(-1, index))
    if sigma is not None:
        weights = weights * torch.exp(-((index - p.unsqueeze(-1)) ** 2) / (2 * sigma**2))
    weights = weights.new_zeros(*p.shape, k.shape[-2]).scatter_add(-1, index, weights)
    return weights @ v, weights


WRONG = [*SPREAD, "window off by one", "window without its last position", "normalised again"]
WRONG += ["centre cut off instead of rounded", "gaussian around the rounded position"]
WRONG += ["window mask after the softmax", "padding inside the window"]
WAYS = {  # ours, then mistakes that the equations must tell apart
    "right": attended,
    "places outside clamped onto the ends": clamped,
    **{wrong: partial(full_computation, wrong=wrong) for wrong in WRONG},
}


@pytest.mark.parametrize("way", WAYS)
def test_against_the_equations_in_numpy(way):
    g = torch.Generator().manual_seed(5)
    query, key, value = (
        torch.randn(2, k, d, generator=g, dtype=torch.float64)
        for k, d in ((5, WIDTH), (11, WIDTH), (11, 3))
    )
    position = torch.tensor(
        [[-0.3, 4.2, 5.5, 7.9, 10.8], [0.0, 2.6, 5.5, 6.7, 14.0]], dtype=torch.float64
    )
    lengths = torch.tensor([11, 7])
    mask, score = padding_mask(lengths)[:, None], build("general")
    worst = 0.0
    for sigma in (None, 1.0):  # D = 2
        context, weights = WAYS[way](score, query, key, position, 2, value, mask, sigma)
        for b in range(2):
            row = [t[b].numpy() for t in (query, key, value, position)]
            expected = slow(score, *row, 2, mask[b, 0].tolist(), sigma)
            for got, reference in zip((context[b], weights[b]), expected):
                worst = max(worst, float((got.detach() - torch.from_numpy(reference)).abs().max()))
    assert worst < 1e-10 if way == "right" else worst > 1e-3


def test_the_index_of_a_window():
    assert window_index(torch.tensor([0, 3]), 1).tolist() == [[-1, 0, 1], [2, 3, 4]]
    assert window_index(torch.tensor([2.49, 2.5, 3.49, -0.5]), 1)[:, 1].tolist() == [2, 3, 3, 0]
    assert window_index(torch.tensor([[1.0]]), 2).shape == (1, 1, 5)


def test_monotonic_positions_stay_at_the_last_word_of_a_short_source():
    found = monotonic_position(torch.arange(5), torch.tensor([3, 9]))
    assert found.tolist() == [[0, 1, 2, 2, 2], [0, 1, 2, 3, 4]]


def test_predicted_positions_are_equation_9_and_learn_through_the_gaussian_alone():
    predict, lengths = randomised(PredictedPosition(WIDTH)), torch.tensor([9, 6])
    query, key = drawn(2, 3, WIDTH), drawn(2, 9, WIDTH).requires_grad_()
    p = predict(query, lengths)
    w, v = (layer.weight.detach().numpy() for layer in (predict.hidden, predict.vector))
    for b, t in np.ndindex(2, 3):
        e = (v @ np.tanh(w @ query[b, t].numpy())).item()
        assert p[b, t].item() == pytest.approx(int(lengths[b]) / (1 + math.exp(-e)), abs=1e-12)
    mask = padding_mask(lengths)[:, None]
    for sigma in (1.0, None):
        found = attend_window(build("dot"), query, key, p, 2, mask=mask, sigma=sigma).context
        grads = torch.autograd.grad(
            found.square().sum(), [*predict.parameters()], allow_unused=True, retain_graph=True
        )
        assert all((g is None) if sigma is None else g.any() for g in grads)


def test_second_derivatives_are_those_of_the_full_computation_and_of_finite_differences():
    torch.manual_seed(0)
    query, x, w = (
        torch.randn(*shape).double().requires_grad_() for shape in ((3, 4), (9, 4), (4, 4))
    )
    position = torch.tensor([0.3, 4.2, 7.9]).double().requires_grad_()
    score, result = attnbook.DotScore(), []

    def together(key):
        return attend_window(score, query, key, position, 2, sigma=1.0).context

    def in_steps(key):  # many readings of one source: each adds to its gradient
        source = WindowedSource(score, key)
        steps = zip(query.split(1), position.split(1))
        return torch.cat([source.attend(q, p, 2, sigma=1.0).context for q, p in steps])

    def whole(key):
        return full_computation(score, query, key, position, 2, key, None, 1.0)[0]

    for way in (together, in_steps, whole):
        context = way(x @ w)  # something to learn in front of the source
        first = torch.autograd.grad(context.square().sum(), (x, query, position), create_graph=True)
        curved = sum(g.square().sum() for g in first)
        second = torch.autograd.grad(curved, (x, w, query, position))
        result.append([context, *first, *second])
    assert_same(result[0], result[2])
    assert_same(result[1], result[2])
    run = lambda q, k, p: attend_window(score, q, k, p, 2, k.sin(), sigma=1.0).context  # noqa: E731
    assert torch.autograd.gradgradcheck(run, (query, x, position))


def test_many_readings_of_one_source_add_up_and_the_graph_may_be_used_twice():
    torch.manual_seed(0)
    score = build("general")
    key = torch.randn(2, 9, WIDTH).double().requires_grad_()
    queries, position = torch.randn(2, 4, WIDTH).double(), torch.rand(2, 4).double() * 9
    source = WindowedSource(score, key)
    pairs = zip(queries.split(1, 1), position.split(1, 1))
    steps = [source.attend(q, p, 2, sigma=1.0).context for q, p in pairs]
    together = attend_window(score, queries, key, position, 2, sigma=1.0).context
    assert_same(torch.cat(steps, 1), together)
    wanted = [key, *score.parameters()]
    reference = torch.autograd.grad(together.square().sum(), wanted)
    loss = torch.cat(steps, 1).square().sum()
    for _ in range(2):
        assert_same(torch.autograd.grad(loss, wanted, retain_graph=True), reference)
    # a part of the readings
    first = torch.autograd.grad(steps[0].square().sum(), wanted, retain_graph=True)
    alone = attend_window(score, queries[:, :1], key, position[:, :1], 2, sigma=1.0).context
    assert_same(first, torch.autograd.grad(alone.square().sum(), wanted))


def test_leading_dimensions_are_free_and_a_shared_source_is_not_copied():
    torch.manual_seed(0)
    score, key = build("dot"), torch.randn(9, WIDTH).double()
    query, position = torch.randn(2, 3, 4, WIDTH).double(), torch.rand(2, 3, 4).double() * 9
    context, weights = attend_window(score, query, key, position, 2, sigma=1.0)
    assert context.shape == (2, 3, 4, WIDTH) and weights.shape == (2, 3, 4, 9)
    one = attend_window(score, query[1, 2], key, position[1, 2], 2, sigma=1.0)
    assert_same(context[1, 2], one.context)


def test_far_positions_are_exact_under_autocast():
    torch.manual_seed(0)
    predict, query, n = PredictedPosition(WIDTH), torch.randn(1, 6, WIDTH), 4096
    plain = predict(query, torch.tensor([n]))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        position = predict(query, torch.tensor([n]))
        key = torch.randn(1, n, WIDTH)
        out = attend_window(attnbook.DotScore(), query, key, position, 3, sigma=1.5)
    assert torch.equal(position, plain) and (position != position.round()).any()
    # from weights of eight bits, no coarser than those
    half = predict.bfloat16()(query.bfloat16(), torch.tensor([n]))
    assert half.dtype == torch.float32 and (half != half.bfloat16().float()).all()
    assert (out.weights.argmax(-1) - position).abs().max() <= 3.5
    assert torch.isfinite(out.context).all()


@pytest.mark.parametrize(
    "name", [name for name, kind in sorted(attnbook.SCORES.items()) if not kind.depends_on_position]
)
def test_a_step_makes_as_much_for_a_long_source_as_for_a_short_one(name):
    made = []
    for n in (64, 64, 4096):  # the first fills the buffers that a thread keeps
        score, query, key = build(name), drawn(2, 1, WIDTH), drawn(2, n, WIDTH)
        position = torch.tensor([[10.2], [31.7]]).double()
        options = {"mask": padding_mask(torch.tensor([n, n - 1]))[:, None]}
        options["projected_keys"] = score.project_keys(key)
        with LargestTensor() as local, torch.no_grad():
            source = WindowedSource(score, key, **options)
            source.attend(query, position, 10, sigma=5.0, need_weights=False)
        with LargestTensor() as everything, torch.no_grad():
            attnbook.attend(score, query, key, **options)
        made.append((local.numel, local.total, everything.numel))
    assert made[1][:2] == made[2][:2] and made[2][2] > 30 * made[1][2]


def test_the_backward_pass_of_a_loop_makes_one_buffer_a_source_and_not_one_a_step():
    score, n, steps = build("dot"), 4096, 8
    key = torch.randn(1, n, WIDTH).double().requires_grad_()
    source = WindowedSource(score, key)
    query, options = drawn(1, 1, WIDTH), {"sigma": 2.5, "need_weights": False}
    total = sum(
        source.attend(query, torch.tensor([[40.0 * t]]), 5, **options).context.sum()
        for t in range(steps)
    )
    with LargestTensor() as made:
        total.backward()
    assert key.grad.abs().sum() > 0 and made.total < 1.5 * key.numel()


BAD = [
    ("half_width", dict(half_width=0)),
    ("sigma", dict(sigma=0.0)),
    ("position must be real", dict(position=torch.zeros(2, 3, dtype=torch.long), sigma=1.0)),
    ("position must hold one", dict(position=torch.zeros(2, 4))),
    ("query, key, value and position", dict(position=torch.zeros(5, 3))),
    ("position", dict(position=3.0)),
    ("sigma", dict(sigma="a")),
    ("key", dict(key=torch.zeros(2, 0, WIDTH))),
    ("DotScore", dict(key=torch.zeros(2, 7, WIDTH + 1))),
    ("value must have as many", dict(value=torch.zeros(2, 6, 3))),
    ("mask must be a boolean", dict(mask=torch.ones(2, 7))),
    ("position must hold finite", dict(position=torch.tensor([0.0, math.nan, 1.0]))),
    ("position", dict(position=torch.zeros(2, 3, dtype=torch.complex64))),
    ("query, key and value", dict(value=torch.zeros(2, 7, 3).double())),
    ("score", dict(score="dot")),
    ("mask must be broadcastable", dict(mask=torch.ones(2, 7, dtype=torch.bool))),
]


@pytest.mark.parametrize(("begin", "change"), BAD)
def test_bad_input_is_named(begin, change):
    given = dict(score=attnbook.DotScore(), key=torch.zeros(2, 7, WIDTH), half_width=2)
    given |= dict(query=torch.zeros(2, 3, WIDTH), position=torch.zeros(2, 3))
    assert_refused(begin, attend_window, **given | change)


def test_bad_input_of_the_modules_is_named():
    assert_refused("d_query", PredictedPosition, 0)
    assert_refused("lengths", lambda: PredictedPosition(WIDTH)(torch.zeros(2, 3, WIDTH), [7, 5]))
    source, rows = (attnbook.DotScore(), torch.zeros(2, 7, WIDTH)), torch.zeros(2, 5, WIDTH)
    assert_refused("projected_keys must have a row", WindowedSource, *source, projected_keys=rows)
