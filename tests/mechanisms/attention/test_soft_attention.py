import copy
import importlib

import pytest
import torch
from assertions import assert_refused
from hypothesis import given, settings
from hypothesis import strategies as st
from watching import saved_bytes

from attnbook import (
    SCORES,
    AdditiveScore,
    DotScore,
    LocationScore,
    ScaledDotScore,
    attend,
    causal_mask,
    make_score,
    padding_mask,
)
from attnbook.kernels.streaming import stream_attention
from attnbook.kernels.visible import Visible
from attnbook.mechanisms.layers.spectral_norm import add_spectral_norm

from .. import oracles
from ..agreement import assert_same, slopes
from ..conftest import D

# The package exports a function of the same name, so the module is asked for by path.
attend_module = importlib.import_module("attnbook.mechanisms.attention.soft_attention")


def test_context_and_weights_equal_the_numpy_oracle(score, problem):
    query, key, value, mask = problem
    got = attend(score, query, key, value, mask=mask)
    for b in range(2):
        context, weights = oracles.attention(
            score, query[b].numpy(), key[b].numpy(), value[b].numpy(), mask[b].numpy()
        )
        assert_same(got.context[b].detach(), torch.tensor(context))
        assert_same(got.weights[b].detach(), torch.tensor(weights))


@pytest.mark.parametrize("masked", [False, True])
def test_the_weights_of_every_registered_score_are_shares_over_the_keys(score, problem, masked):
    query, key, value, mask = problem
    mask = mask if masked else torch.ones_like(mask)
    weights = attend(score, 100 * query, 100 * key, value, mask=mask).weights
    assert (weights >= 0).all() and (weights <= 1).all() and (weights[~mask] == 0).all()
    torch.testing.assert_close(weights.sum(-1), mask.any(-1).double(), atol=1e-12, rtol=0)


@pytest.mark.parametrize("blocks", [1, 30, 10**6])
@pytest.mark.parametrize("masked", [False, True])
def test_streaming_equals_the_stored_matrix_in_value_and_gradient(score, problem, blocks, masked):
    mask = problem[3] if masked else None
    query, key, value = (t.clone().requires_grad_() for t in problem[:3])
    streamed = stream_attention(
        score, query, score.project_keys(key), value, Visible(mask), block_elements=blocks
    )
    stored = attend(score, query, key, value, mask=mask).context
    wanted = [query, key, value, *score.parameters()]
    assert_same(streamed, stored)
    assert_same(slopes(streamed, wanted), slopes(stored, wanted))


def test_streaming_refuses_a_second_derivative_also_where_its_incoming_gradient_is_a_constant(
    problem,
):
    query, key, value, _ = problem
    query, score = query.clone().requires_grad_(), AdditiveScore(D, D, 5).double()
    context = stream_attention(score, query, score.project_keys(key), value)
    words = "need_weights=False.*differentiated once.*double_backward"
    with pytest.raises(RuntimeError, match=words):
        torch.autograd.grad(context.sum(), query, create_graph=True)


MASKS = {
    "none": lambda m, n: None,
    "padding": lambda m, n: padding_mask(torch.tensor([n - 3, n]), n)[:, None],
    "an empty row of the batch": lambda m, n: padding_mask(torch.tensor([0, n]), n)[:, None],
    "causal": lambda m, n: causal_mask(m, n),
    "per query": lambda m, n: torch.rand(2, m, n, generator=torch.Generator().manual_seed(1)) < 0.3,
    "queries that attend to nothing": lambda m, n: torch.arange(m)[:, None] % 2 == 0,
    "keys alone": lambda m, n: torch.arange(n) < n - 1,
    "nothing at all": lambda m, n: torch.zeros(1, 1, dtype=torch.bool),
}


def assert_both_ways_agree(score, *three, mask):
    """Context and gradients with weights and without, also where the problem is small."""
    three = [t.detach().clone().requires_grad_() for t in three]
    stored, lean = (
        attend(score, *three, mask=mask, need_weights=need_weights)
        for need_weights in (True, False)
    )
    assert stored.weights is not None and lean.weights is None
    assert_same(lean.context, stored.context)
    wanted = [*three, *score.parameters()]
    assert_same(slopes(lean.context, wanted), slopes(stored.context, wanted))


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("small", [True, False])
def test_need_weights_false_gives_the_same_context_and_gradients(
    score, problem, mask, small, monkeypatch
):
    if not small:
        monkeypatch.setattr(attend_module, "STORED_WEIGHTS", 0)
    query, key, value, _ = problem
    mask = MASKS[mask](4, 7)
    assert_both_ways_agree(score, query, key, value, mask=mask)
    if mask is not None:
        context = attend(score, query, key, value, mask=mask, need_weights=False).context
        assert (context[~mask.expand(2, 4, 7).any(-1)] == 0).all()


@pytest.mark.parametrize(
    ("q", "k", "v", "m"),
    [
        ((4, D), (7, D), (7, 3), (4, 7)),
        ((4, D), (7, D), (7, 9), (7,)),
        ((2, 1, 4, D), (3, 7, D), (7, 9), (2, 1, 1, 7)),
        ((2, 1, 1, 4, D), (3, 1, 7, D), (2, 7, D), (2, 1, 1, 1, 7)),
        ((2, 1, 1, 4, D), (3, 2, 7, D), (7, D), (4, 7)),
        ((0, 4, D), (0, 7, D), (0, 7, 3), (1, 4, 7)),
        ((2, 0, D), (2, 7, D), (2, 7, 3), (2, 1, 7)),
        ((2, 1, D), (2, 7, D), (2, 7, 3), (2, 1, 7)),
    ],
    ids=str,
)
@pytest.mark.parametrize("masked", [False, True])
def test_without_weights_leading_dimensions_broadcast_and_may_be_empty(
    score, q, k, v, m, masked, monkeypatch
):
    monkeypatch.setattr(attend_module, "STORED_WEIGHTS", 0)
    g = torch.Generator().manual_seed(5)
    query, key, value = (
        torch.randn(shape, generator=g, dtype=torch.float64) for shape in (q, k, v)
    )
    mask = torch.rand(m, generator=g) < 0.6 if masked else None
    assert_both_ways_agree(score, query, key, value, mask=mask)


def test_without_weights_float32_is_as_close_to_the_oracle_as_it_should_be(
    score, problem, monkeypatch
):
    monkeypatch.setattr(attend_module, "STORED_WEIGHTS", 0)
    query, key, value, mask = problem
    # itself held to the oracle at 1e-10
    expected = attend(score, query, key, value, mask=mask).context
    low = (t.float() for t in (query, key, value))
    got = attend(score.float(), *low, mask=mask, need_weights=False).context
    torch.testing.assert_close(got.double(), expected, atol=1e-5, rtol=0)


def saved_elements(score, n, mask=None):
    """What the path without weights keeps between the passes."""
    query, key = (torch.randn(1, n, D, dtype=torch.float64, requires_grad=True) for _ in range(2))
    sizes = saved_bytes(lambda: attend(score, query, key, mask=mask, need_weights=False)).values()
    return max(sizes) // 8, sum(sizes) // 8


def test_without_weights_what_is_stored_grows_with_the_length_not_with_its_square(score):
    score = LocationScore(D, 2400).double() if score.name == "location" else score
    for mask in (lambda n: None, lambda n: padding_mask(torch.tensor([n - 1]), n)[:, None]):
        # over a million weights: no problem is small any more
        (top, total), (_, twice) = (saved_elements(score, n, mask(n)) for n in (1200, 2400))
        assert top < 1200 * 50 and twice < 2.2 * total


def test_small_problems_may_keep_a_few_megabytes():
    stored = attend_module.STORED_WEIGHTS
    top, _ = saved_elements(AdditiveScore(D, D, 4).double(), int(stored**0.5))
    assert top == stored <= 2**20


@pytest.mark.parametrize("training", [False, True])
def test_parameters_behind_a_parametrization_get_the_same_gradients_without_weights(
    problem, training, monkeypatch
):
    """A weight that is computed, and in training computed anew at each look: it has to be the
    same one for every block.
    """
    monkeypatch.setattr(attend_module, "STORED_WEIGHTS", 0)
    monkeypatch.setattr("attnbook.kernels.streaming.BLOCK_ELEMENTS", 40)
    torch.manual_seed(0)
    score = add_spectral_norm(AdditiveScore(D, D, 5).double()).train(training)
    state, gradients = copy.deepcopy(score.state_dict()), []
    for need_weights in (True, False):
        score.load_state_dict(state)
        context = attend(score, *problem[:3], mask=problem[3], need_weights=need_weights).context
        gradients.append(
            [context, *torch.autograd.grad(context.square().sum(), list(score.parameters()))]
        )
    assert_same(*gradients)


def test_a_compare_of_ones_own_is_never_overruled_by_a_shortcut(problem, monkeypatch):
    monkeypatch.setattr(attend_module, "STORED_WEIGHTS", 0)

    class Tempered(ScaledDotScore):
        name = ""

        def compare(self, query, projected):
            return super().compare(query, projected) / 3

    class Doubled(AdditiveScore):
        name = ""

        def compare(self, query, projected):
            return 2 * super().compare(query, projected)

    replaced = [ScaledDotScore(), AdditiveScore(D, D, 5).double()]
    for one in replaced:
        one.compare = lambda q, p: (
            -(q[..., :1] + 0 * p[..., :1].transpose(-1, -2))
            * torch.arange(7.0, dtype=torch.float64)
        )
    for one in (Tempered(), Doubled(D, D, 5).double(), *replaced):
        assert_both_ways_agree(one, *problem[:3], mask=problem[3])


@given(st.integers(1, 5), st.integers(1, 9), st.integers(0, 10_000))
@settings(max_examples=40, deadline=None)
def test_shuffling_keys_with_values_and_mask_leaves_the_context(m, n, seed):
    g = torch.Generator().manual_seed(seed)
    torch.manual_seed(seed)
    score = AdditiveScore(4, 4, 3).double()
    query, key, value = (
        torch.randn(n_, d, generator=g, dtype=torch.float64) for n_, d in ((m, 4), (n, 4), (n, 2))
    )
    mask = torch.rand(m, n, generator=g) < 0.7
    order = torch.randperm(n, generator=g)
    a = attend(score, query, key, value, mask=mask)
    b = attend(score, query, key[order], value[order], mask=mask[:, order])
    assert_same(b.context, a.context)
    assert_same(b.weights, a.weights[:, order])


@pytest.mark.parametrize("autocast", [False, True])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", SCORES)
def test_half_precision_is_as_stable_with_weights_as_without(name, dtype, autocast):
    torch.manual_seed(0)
    score = make_score(name, 8, 8, max_length=6)
    # inner products up to 400,000, where float16 ends at 65,504
    query, key, value = 200 * torch.randn(3, 8), 200 * torch.randn(6, 8), torch.randn(6, 8)
    exact = copy.deepcopy(score.to(dtype)).double()
    query, key, value = (t.to(dtype) for t in (query, key, value))
    right = attend(exact, query.double(), key.double(), value.double()).context
    if autocast:
        score, query, key, value = score.float(), query.float(), key.float(), value.float()
    with torch.autocast("cpu", dtype, enabled=autocast):
        for need_weights in (True, False):
            got = attend(score, query, key, value, need_weights=need_weights)
            torch.testing.assert_close(got.context.double(), right, rtol=0, atol=0.03)
            assert got.weights is None or got.weights.dtype == value.dtype


def test_streaming_survives_large_scores_and_half_precision():
    g = torch.Generator().manual_seed(0)
    query, key = 30 * torch.randn(1, 3, 8, generator=g), 30 * torch.randn(1, 50, 8, generator=g)
    stored = attend(DotScore(), query, key).context
    streamed = stream_attention(DotScore(), query, key, key, block_elements=64)
    torch.testing.assert_close(streamed, stored, atol=1e-4, rtol=1e-5)
    query, key = query.bfloat16(), key.bfloat16()
    low = stream_attention(DotScore(), query, key, key, block_elements=64)
    assert low.dtype == torch.bfloat16 and torch.isfinite(low).all()


@pytest.mark.parametrize("kind", ["additive", "general", "reduced_rank", "content"])
def test_no_weights_under_autocast_in_both_directions(kind, monkeypatch):
    monkeypatch.setattr(attend_module, "STORED_WEIGHTS", 0)
    torch.manual_seed(0)
    score = make_score(kind, 8, 8)
    query, key = torch.randn(2, 5, 8, requires_grad=True), torch.randn(2, 9, 8, requires_grad=True)
    grads = []
    for need_weights in (True, False):
        with torch.autocast("cpu", torch.bfloat16):
            context = attend(score, query, key, need_weights=need_weights).context
        grads.append(
            torch.autograd.grad(context.float().square().sum(), (query, key, *score.parameters()))
        )
    torch.testing.assert_close(*grads, atol=0.1, rtol=0.1)


WRONG = {
    "softmax over the queries": lambda e, v, k: e.masked_fill(~k, -1e30).softmax(-2) @ v,
    "mask after the softmax": lambda e, v, k: e.softmax(-1).masked_fill(~k, 0.0) @ v,
    "values weighted by the scores": lambda e, v, k: e.masked_fill(~k, 0.0) @ v,
    "mean of the values": lambda e, v, k: v.mean(-2, keepdim=True).expand(-1, e.shape[-2], -1),
    "mask upside down": lambda e, v, k: e.masked_fill(k, -1e30).softmax(-1) @ v,
    "causal mask off by one": lambda e, v, k: e.masked_fill(~k.roll(1, -1), -1e30).softmax(-1) @ v,
}


@pytest.mark.parametrize("mistake", WRONG)
def test_known_wrong_attention_is_told_apart_by_the_oracle(mistake, problem):
    query, key, value, _ = problem
    score, key, value = DotScore(), key[:, :4], value[:, :4]
    mask = causal_mask(4).expand(2, 4, 4)
    wrong = WRONG[mistake](score(query, key), value, mask)
    right, _ = oracles.attention(
        score, query[0].numpy(), key[0].numpy(), value[0].numpy(), mask[0].numpy()
    )
    assert not torch.allclose(wrong[0], torch.tensor(right), atol=1e-3)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda a: a.update(value=a["value"][:, :3]), "value"),
        (lambda a: a.update(key=a["key"][:, :0], value=a["value"][:, :0]), "key"),
        (lambda a: a.update(mask=a["mask"].float()), "mask"),
        (lambda a: a.update(mask=a["mask"][..., :3]), "mask must be broadcastable"),
        (lambda a: a.update(query=a["query"][..., :5]), "DotScore needs query"),
        (
            lambda a: a.update(
                key=torch.cat([a["key"]] * 2)[:3], value=torch.cat([a["value"]] * 2)[:3], mask=None
            ),
            "query, key and value must have leading",
        ),
        (lambda a: a.update(score="dot"), "score"),
        (lambda a: a.update(score=DotScore), "score"),
        (lambda a: a.update(query=a["query"].float()), "query, key and value must have one"),
        (lambda a: a.update(value=a["value"].bfloat16()), "query, key and value must have one"),
        (lambda a: a.update(projected_keys=a["key"].float()), "query, key and value must have one"),
        (lambda a: a.update(projected_keys=a["key"].tolist()), "projected_keys"),
    ],
)
@pytest.mark.parametrize("need_weights", [True, False])
def test_bad_input_is_named(problem, change, words, need_weights):
    arguments = dict(zip(("query", "key", "value", "mask"), problem), score=DotScore())
    change(arguments)
    assert_refused(words, attend, **arguments, need_weights=need_weights)


@pytest.mark.parametrize("need_weights", [True, False])
def test_autocast_brings_several_dtypes_to_one(problem, need_weights):
    query, *source = (t.bfloat16() for t in problem[:3])
    options = {"mask": problem[3], "need_weights": need_weights}
    with torch.autocast("cpu", torch.bfloat16):
        mixed = attend(DotScore(), problem[0].float(), *source, **options).context
        plain = attend(DotScore(), query, *source, **options).context
    torch.testing.assert_close(mixed, plain, atol=0.02, rtol=0.02)


@pytest.mark.parametrize("small", [True, False])
@pytest.mark.parametrize("need_weights", [True, False])
def test_projected_keys_of_another_shape_are_named(
    score, problem, need_weights, small, monkeypatch
):
    if not small:
        monkeypatch.setattr(attend_module, "STORED_WEIGHTS", 0)
    *three, mask = problem
    projected = score.project_keys(three[1]).detach()
    width = f"projected_keys must have width {projected.shape[-1]}"
    for other, words in (
        (projected[:, :3], "projected_keys"),
        (torch.cat([projected, projected], dim=-2), "projected_keys"),
        (projected[:1], "projected_keys"),
        (projected[0], "projected_keys"),
        (projected[..., :1], width),
        (torch.cat([projected, projected], dim=-1), width),
    ):
        options = {"mask": mask, "need_weights": need_weights, "projected_keys": other}
        assert_refused(words, attend, score, *three, **options)
