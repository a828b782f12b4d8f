import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from refusing import assert_refused
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

from ..conftest import D as WIDTH
from ..conftest import build
from ..oracles import make

EXACT = {"atol": 1e-10, "rtol": 0}


def full_computation(score, query, key, position, half_width, value, mask, sigma):
    """The same by way of all n scores: a mask of the window, then the Gaussian.

    (…, m, d_v) and (…, m, n).
    """
    n = key.shape[-2]
    j = torch.arange(n)
    centre = torch.floor(position.detach() + 0.5).unsqueeze(-1)
    window = (j - centre).abs() <= half_width
    allowed = window if mask is None else window & mask
    weights = masked_softmax(score(query, key), allowed)
    if sigma is not None:
        weights = weights * torch.exp(-((j - position.unsqueeze(-1)) ** 2) / (2 * sigma**2))
    return weights @ value, weights


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
    for compute in (
        lambda q, k, v, p: attend_window(score, q, k, p, half_width, v, mask, sigma=sigma),
        lambda q, k, v, p: full_computation(score, q, k, p, half_width, v, mask, sigma),
    ):
        context, weights = compute(*inputs)
        loss = (context * upstream).sum() + weights.square().sum()
        grads = torch.autograd.grad(loss, [*inputs, *score.parameters()], allow_unused=True)
        results.append([context, weights, *(torch.zeros(()) if g is None else g for g in grads)])
    for ours, reference in zip(*results):
        torch.testing.assert_close(
            ours, reference.expand_as(ours) if reference.dim() == 0 else reference, **EXACT
        )
    j = torch.arange(key.shape[-2])
    outside = (j - torch.floor(position + 0.5).unsqueeze(-1)).abs() > half_width
    if mask is not None:
        outside = outside | ~mask
    assert (results[0][1][outside] == 0).all()


@settings(max_examples=60, deadline=None)
@given(problems(), st.sampled_from(sorted(attnbook.SCORES)))
def test_without_weights_the_context_is_the_same_and_lean(problem, name):
    query, key, value, position, half_width, mask, sigma = problem
    score = build(name)
    with_weights = attend_window(score, query, key, position, half_width, value, mask, sigma=sigma)
    without = attend_window(
        score, query, key, position, half_width, value, mask, sigma=sigma, need_weights=False
    )
    assert without.weights is None
    torch.testing.assert_close(without.context, with_weights.context, **EXACT)


def slow(score, query, key, value, position, half_width, allowed, sigma):
    """One query and one place of the window at a time, in NumPy, from equations 7, 8 and 10 of
    the paper.
    """
    one, m, n = make(score), len(query), len(key)
    weights = np.zeros((m, n))
    for t in range(m):
        centre = math.floor(position[t] + 0.5)
        places = [
            j
            for j in range(centre - half_width, centre + half_width + 1)
            if 0 <= j < n and allowed[j]
        ]
        if not places:
            continue
        powers = {j: math.exp(one(query[t], key[j], j)) for j in places}
        for j in places:
            weights[t, j] = powers[j] / sum(powers.values())
            if sigma is not None:
                weights[t, j] *= math.exp(-((j - position[t]) ** 2) / (2 * sigma**2))
    return weights @ value, weights


# Each is a known mistake: attend_window with one thing different. All must be told apart from the
# oracle.
def right(score, q, k, v, p, half_width, mask, sigma):
    return attend_window(score, q, k, p, half_width, v, mask, sigma=sigma)


def window_off_by_one(score, q, k, v, p, half_width, mask, sigma):
    context, weights = full_computation(score, q, k, p + 1, half_width, v, mask, None)
    if sigma is not None:
        j = torch.arange(k.shape[-2])
        weights = weights * torch.exp(-((j - p.unsqueeze(-1)) ** 2) / (2 * sigma**2))
    return weights @ v, weights


def window_without_its_last_position(score, q, k, v, p, half_width, mask, sigma):
    j = torch.arange(k.shape[-2])
    short = (j - torch.floor(p + 0.5).unsqueeze(-1)) < half_width
    return full_computation(score, q, k, p, half_width, v, short & mask, sigma)


def centre_cut_off_instead_of_rounded(score, q, k, v, p, half_width, mask, sigma):
    window = (torch.arange(k.shape[-2]) - torch.floor(p).unsqueeze(-1)).abs() <= half_width
    return full_computation(score, q, k, p, 10**6, v, window & mask, sigma)


def gaussian_with_sigma_d(score, q, k, v, p, half_width, mask, sigma):
    return full_computation(
        score, q, k, p, half_width, v, mask, None if sigma is None else 2 * sigma
    )


def gaussian_around_the_rounded_position(score, q, k, v, p, half_width, mask, sigma):
    return full_computation(score, q, k, torch.floor(p + 0.5), half_width, v, mask, sigma)


def gaussian_without_the_half(score, q, k, v, p, half_width, mask, sigma):
    return full_computation(
        score, q, k, p, half_width, v, mask, None if sigma is None else sigma / math.sqrt(2)
    )


def normalised_again(score, q, k, v, p, half_width, mask, sigma):
    _, weights = full_computation(score, q, k, p, half_width, v, mask, sigma)
    weights = weights / weights.sum(-1, keepdim=True).clamp_min(1e-300)
    return weights @ v, weights


def window_mask_after_the_softmax(score, q, k, v, p, half_width, mask, sigma):
    _, weights = full_computation(score, q, k, p, 10**6, v, mask, sigma)
    weights = weights * (
        (torch.arange(k.shape[-2]) - torch.floor(p + 0.5).unsqueeze(-1)).abs() <= half_width
    )
    return weights @ v, weights


def padding_inside_the_window(score, q, k, v, p, half_width, mask, sigma):
    return full_computation(score, q, k, p, half_width, v, None, sigma)


def places_outside_clamped_onto_the_ends(score, q, k, v, p, half_width, mask, sigma):
    index = window_index(p, half_width).clamp(0, k.shape[-2] - 1)
    scores = score(q, k).gather(-1, index)
    weights = masked_softmax(scores, mask.expand(*p.shape, k.shape[-2]).gather(-1, index))
    if sigma is not None:
        weights = weights * torch.exp(-((index - p.unsqueeze(-1)) ** 2) / (2 * sigma**2))
    weights = weights.new_zeros(*p.shape, k.shape[-2]).scatter_add(-1, index, weights)
    return weights @ v, weights


WRONG = [
    window_off_by_one,
    window_without_its_last_position,
    centre_cut_off_instead_of_rounded,
    gaussian_with_sigma_d,
    gaussian_around_the_rounded_position,
    gaussian_without_the_half,
    normalised_again,
    window_mask_after_the_softmax,
    padding_inside_the_window,
    places_outside_clamped_onto_the_ends,
]


@pytest.mark.parametrize("compute", [right, *WRONG], ids=lambda f: f.__name__)
def test_against_the_equations_in_numpy(compute):
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
        context, weights = compute(score, query, key, value, position, 2, mask, sigma)
        for b in range(2):
            expected = slow(
                score,
                query[b].numpy(),
                key[b].numpy(),
                value[b].numpy(),
                position[b].tolist(),
                2,
                mask[b, 0].tolist(),
                sigma,
            )
            for got, reference in zip((context[b], weights[b]), expected):
                worst = max(worst, float((got.detach() - torch.from_numpy(reference)).abs().max()))
    assert worst < 1e-10 if compute is right else worst > 1e-3


def test_the_index_of_a_window():
    assert window_index(torch.tensor([0, 3]), 1).tolist() == [[-1, 0, 1], [2, 3, 4]]
    assert window_index(torch.tensor([2.49, 2.5, 3.49, -0.5]), 1)[:, 1].tolist() == [2, 3, 3, 0]
    assert window_index(torch.tensor([[1.0]]), 2).shape == (1, 1, 5)


def test_monotonic_positions_stay_at_the_last_word_of_a_short_source():
    assert monotonic_position(torch.arange(5), torch.tensor([3, 9])).tolist() == [
        [0, 1, 2, 2, 2],
        [0, 1, 2, 3, 4],
    ]


def test_predicted_positions_are_equation_9_and_learn_through_the_gaussian_alone():
    torch.manual_seed(0)
    predict = PredictedPosition(WIDTH, 5).double()
    query = torch.randn(2, 3, WIDTH).double()
    key = torch.randn(2, 9, WIDTH).double().requires_grad_()
    lengths = torch.tensor([9, 6])
    p = predict(query, lengths)
    w, v = predict.hidden.weight.detach().numpy(), predict.vector.weight[0].detach().numpy()
    for b in range(2):
        for t in range(3):
            expected = int(lengths[b]) / (
                1 + math.exp(-float(v @ np.tanh(w @ query[b, t].numpy())))
            )
            assert abs(float(p[b, t].detach()) - expected) < 1e-12
    mask = padding_mask(lengths)[:, None]
    for sigma, learns in ((1.0, True), (None, False)):
        out = attend_window(
            build("dot"), query, key, predict(query, lengths), 2, mask=mask, sigma=sigma
        )
        grads = torch.autograd.grad(
            out.context.square().sum(), predict.parameters(), allow_unused=True
        )
        assert (
            all(g is not None and g.abs().sum() > 0 for g in grads)
            if learns
            else all(g is None for g in grads)
        )


def test_gradients_are_right_by_finite_differences():
    torch.manual_seed(0)
    score = build("general")
    query = torch.randn(1, 2, WIDTH).double().requires_grad_()
    key = torch.randn(1, 5, WIDTH).double().requires_grad_()
    position = torch.tensor([[0.2, 3.3]]).double().requires_grad_()
    assert torch.autograd.gradcheck(
        lambda q, k, p: attend_window(score, q, k, p, 2, sigma=1.0).context, (query, key, position)
    )


def gathered(query, key, position, half_width, sigma):
    """The window by indexing alone, for one row of a batch and a dot product."""
    n = key.shape[-2]
    index = window_index(position, half_width)  # (m, w)
    rows = key[index.clamp(0, n - 1)]  # (m, w, d)
    scores = (rows * query[:, None]).sum(-1).masked_fill((index < 0) | (index >= n), -math.inf)
    weights = scores.softmax(-1) * torch.exp(-((index - position[:, None]) ** 2) / (2 * sigma**2))
    return (weights[..., None] * rows).sum(-2)


def test_second_derivatives_are_those_of_a_gather_and_of_finite_differences():
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
        return torch.cat(
            [
                source.attend(query[t : t + 1], position[t : t + 1], 2, sigma=1.0).context
                for t in range(3)
            ]
        )

    for way in (together, in_steps, lambda key: gathered(query, key, position, 2, 1.0)):
        context = way(x @ w)  # something to learn in front of the source
        first = torch.autograd.grad(context.square().sum(), (x, query, position), create_graph=True)
        result.append(
            [
                context,
                *first,
                *torch.autograd.grad(sum(g.square().sum() for g in first), (x, w, query, position)),
            ]
        )
    for ours, again, expected in zip(*result):
        torch.testing.assert_close(ours, expected, **EXACT)
        torch.testing.assert_close(again, expected, **EXACT)
    assert torch.autograd.gradgradcheck(
        lambda q, k, p: attend_window(score, q, k, p, 2, k.sin(), sigma=1.0).context,
        (query, x, position),
    )


def test_many_readings_of_one_source_add_up_and_the_graph_may_be_used_twice():
    torch.manual_seed(0)
    score = build("general")
    key = torch.randn(2, 9, WIDTH).double().requires_grad_()
    queries, position = torch.randn(2, 4, WIDTH).double(), torch.rand(2, 4).double() * 9
    source = WindowedSource(score, key)
    steps = [
        source.attend(queries[:, t : t + 1], position[:, t : t + 1], 2, sigma=1.0).context
        for t in range(4)
    ]
    together = attend_window(score, queries, key, position, 2, sigma=1.0).context
    torch.testing.assert_close(torch.cat(steps, 1), together, **EXACT)
    wanted = [key, *score.parameters()]
    reference = torch.autograd.grad(together.square().sum(), wanted)
    loss = torch.cat(steps, 1).square().sum()
    for _ in range(2):
        for ours, expected in zip(torch.autograd.grad(loss, wanted, retain_graph=True), reference):
            torch.testing.assert_close(ours, expected, **EXACT)
    # a part of the readings
    first = torch.autograd.grad(steps[0].square().sum(), wanted, retain_graph=True)
    alone = torch.autograd.grad(
        attend_window(score, queries[:, :1], key, position[:, :1], 2, sigma=1.0)
        .context.square()
        .sum(),
        wanted,
    )
    for ours, expected in zip(first, alone):
        torch.testing.assert_close(ours, expected, **EXACT)


def test_leading_dimensions_are_free_and_a_shared_source_is_not_copied():
    torch.manual_seed(0)
    score, key = build("dot"), torch.randn(9, WIDTH).double()
    query, position = torch.randn(2, 3, 4, WIDTH).double(), torch.rand(2, 3, 4).double() * 9
    context, weights = attend_window(score, query, key, position, 2, sigma=1.0)
    assert context.shape == (2, 3, 4, WIDTH) and weights.shape == (2, 3, 4, 9)
    one = attend_window(score, query[1, 2], key, position[1, 2], 2, sigma=1.0)
    torch.testing.assert_close(context[1, 2], one.context, **EXACT)


def test_float32_agrees_to_1e_5():
    torch.manual_seed(0)
    score = build("additive")
    query = torch.randn(2, 5, WIDTH).double()
    key = torch.randn(2, 30, WIDTH).double()
    position = torch.rand(2, 5).double() * 30
    exact = attend_window(score, query, key, position, 3, sigma=1.5).context
    low = attend_window(
        score.float(), query.float(), key.float(), position.float(), 3, sigma=1.5
    ).context
    torch.testing.assert_close(low.double(), exact, atol=1e-5, rtol=0)


def test_far_positions_are_exact_under_autocast():
    torch.manual_seed(0)
    predict, query, n = PredictedPosition(WIDTH), torch.randn(1, 6, WIDTH), 4096
    plain = predict(query, torch.tensor([n]))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        position = predict(query, torch.tensor([n]))
        out = attend_window(
            attnbook.DotScore(), query, torch.randn(1, n, WIDTH), position, 3, sigma=1.5
        )
    assert torch.equal(position, plain) and (position != position.round()).any()
    # from weights of eight bits, no coarser than those
    half = predict.bfloat16()(query.bfloat16(), torch.tensor([n]))
    assert half.dtype == torch.float32 and (half != half.bfloat16().float()).all()
    assert (out.weights.argmax(-1) - position).abs().max() <= 3.5 and torch.isfinite(
        out.context
    ).all()


@pytest.mark.parametrize(
    "name", [name for name, kind in sorted(attnbook.SCORES.items()) if not kind.counts_positions]
)
def test_a_step_makes_as_much_for_a_long_source_as_for_a_short_one(name):
    made = []
    for n in (64, 4096):
        score = build(name)
        query = torch.randn(2, 1, WIDTH).double()
        key = torch.randn(2, n, WIDTH).double()
        mask = padding_mask(torch.tensor([n, n - 1]))[:, None]
        projected = score.project_keys(key)
        position = torch.tensor([[10.2], [31.7]]).double()
        with LargestTensor() as local, torch.no_grad():
            WindowedSource(score, key, mask=mask, projected_keys=projected).attend(
                query, position, 10, sigma=5.0, need_weights=False
            )
        with LargestTensor() as everything, torch.no_grad():
            attnbook.attend(score, query, key, mask=mask, projected_keys=projected)
        made.append((local.numel, local.total, everything.numel))
    assert made[0][:2] == made[1][:2] and made[1][2] > 30 * made[0][2]


def test_the_backward_pass_of_a_loop_makes_one_buffer_a_source_and_not_one_a_step():
    score, n, steps = build("dot"), 4096, 8
    key = torch.randn(1, n, WIDTH).double().requires_grad_()
    source = WindowedSource(score, key)
    total = sum(
        source.attend(
            torch.randn(1, 1, WIDTH).double(),
            torch.tensor([[40.0 * t]]),
            5,
            sigma=2.5,
            need_weights=False,
        ).context.sum()
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
    ("projected_keys must have a row", dict(projected_keys=torch.zeros(2, 5, WIDTH))),
    ("projected_keys must have width", dict(projected_keys=torch.zeros(2, 7, 3))),
    ("query, key and value", dict(value=torch.zeros(2, 7, 3).double())),
    ("score", dict(score="dot")),
    ("mask must be broadcastable", dict(mask=torch.ones(2, 7, dtype=torch.bool))),
]


@pytest.mark.parametrize(("begin", "change"), BAD)
def test_bad_input_is_named(begin, change):
    arguments = dict(
        score=attnbook.DotScore(),
        query=torch.zeros(2, 3, WIDTH),
        key=torch.zeros(2, 7, WIDTH),
        position=torch.zeros(2, 3),
        half_width=2,
    )
    assert_refused(begin, attend_window, **{**arguments, **change})
    assert_refused("d_query", PredictedPosition, 0)
    assert_refused("lengths", lambda: PredictedPosition(WIDTH)(torch.zeros(2, 3, WIDTH), [7, 5]))
