import math

import pytest
import torch
from assertions import refusals

import attnbook
from attnbook import (
    AdditiveScore,
    ContentScore,
    DotScore,
    GeneralScore,
    LocationScore,
    ReducedRankScore,
    ScaledDotScore,
)

from .. import oracles
from ..agreement import assert_same, slopes
from ..conftest import build


@pytest.mark.parametrize("name", sorted(attnbook.SCORES))
def test_every_registered_score_has_a_formula_a_source_an_oracle_and_known_wrong_versions(name):
    kind = attnbook.SCORES[name]
    assert kind.name == name and kind.formula and kind.source
    assert name in oracles.ORACLES, f"tests/mechanisms/oracles.py: ORACLES lacks {name!r}"
    assert oracles.KNOWN_WRONG.get(name), f"tests/mechanisms/oracles.py: KNOWN_WRONG lacks {name!r}"


def test_the_registry_holds_the_scores_of_the_literature():
    literature = "additive content dot general location reduced_rank scaled_dot"
    assert set(literature.split()) <= set(attnbook.SCORES)


def test_every_score_equals_its_formula_in_numpy(score, problem):
    query, key, _, _ = problem
    assert_same(score(query, key).detach(), oracles.scores(score, query, key))


def test_projecting_the_keys_once_changes_nothing(score, problem):
    query, key, _, _ = problem
    projected = score.project_keys(key)
    steps = [score.compare(query[:, t : t + 1], projected) for t in range(4)]
    assert_same(torch.cat(steps, 1), score(query, key))


def test_leading_dimensions_are_free_and_broadcast(score, problem):
    query, key, _, _ = problem
    assert_same(score(query[0], key[0]), score(query, key)[0])
    # (2, 3, 4, 6) against (2, 1, 7, 6)
    heads = score(query[:, None].expand(2, 3, 4, 6), key[:, None])
    assert heads.shape == (2, 3, 4, 7)
    assert_same(heads[:, 2], score(query, key))


def test_gradients_match_finite_differences(score, problem):
    query, key, _, _ = (t[:1].clone() for t in problem)
    query.requires_grad_(), key.requires_grad_()
    assert torch.autograd.gradcheck(lambda q, k: score(q, k), (query, key))


def test_additive_can_be_differentiated_twice_and_twice_over(problem):
    query, key = (t[:1].clone().requires_grad_() for t in problem[:2])
    score = AdditiveScore(6, 6, 5).double()
    assert torch.autograd.gradgradcheck(lambda q, k: score(q, k), (query, key))
    loss, leaves = score(query, key).square().sum(), (query, key, *score.parameters())
    first = torch.autograd.grad(loss, leaves, retain_graph=True)
    assert all(map(torch.equal, first, torch.autograd.grad(loss, leaves)))


@pytest.mark.parametrize("elements", [1, 40, 10**6])
def test_additive_in_blocks_equals_the_formula_in_value_and_gradient(
    problem, elements, monkeypatch
):
    monkeypatch.setattr("attnbook.kernels.streaming.BLOCK_ELEMENTS", elements)
    score = AdditiveScore(6, 6, 5).double()
    # broadcast
    query, key = problem[0].clone().requires_grad_(), problem[1][:1].clone().requires_grad_()
    hidden = score.query_projection(query)[:, :, None] + score.key_projection(key)[:, None]
    expected, scores = score.vector(hidden.tanh()).squeeze(-1), score(query, key)
    leaves = [query, key, *score.parameters()]
    assert_same(scores, expected)
    assert_same(slopes(scores, leaves), slopes(expected, leaves))


def test_additive_under_the_transforms_of_torch_func(problem):
    query, key, _, _ = problem
    score = AdditiveScore(6, 6, 5).double()
    batched = torch.func.vmap(score, in_dims=(0, None))(query, key[0])
    assert_same(batched, score(query, key[:1]))
    jacobian = torch.func.jacrev(lambda q: score(q, key[0]))(query[0])  # (m, n, m, d)
    expected = torch.autograd.functional.jacobian(lambda q: score(q, key[0]), query[0])
    assert_same(jacobian, expected)


def test_additive_in_float32_stays_close_for_small_and_for_huge_hidden_units(problem):
    for size in (1e-4, 1.0, 1e4):
        query, key = size * problem[0], size * problem[1]
        score = AdditiveScore(6, 6, 5).double()
        expected, found = score(query, key), score.float()(query.float(), key.float()).double()
        torch.testing.assert_close(found, expected, atol=1e-5 * max(1, size / 1e3), rtol=0)


def test_permuting_the_keys_permutes_the_scores_that_do_not_count_positions(score, problem):
    query, key, _, _ = problem
    order = torch.tensor([3, 0, 6, 1, 5, 2, 4])
    moved = torch.allclose(score(query, key[:, order]), score(query, key)[..., order], atol=1e-10)
    assert moved == (not score.depends_on_position)


def test_location_looks_at_the_query_alone(problem):
    query, key, _, _ = problem
    score = LocationScore(6, 12).double()
    assert_same(score(query, key), score(query, torch.randn_like(key)))


def test_additive_in_both_written_forms(problem):
    query, key, _, _ = problem
    score = AdditiveScore(6, 6, 5).double()
    w = torch.cat([score.query_projection.weight, score.key_projection.weight], dim=1)
    pairs = torch.cat(
        [query[:, :, None].expand(-1, -1, 7, -1), key[:, None].expand(-1, 4, -1, -1)], -1
    )
    assert_same(score(query, key), (pairs @ w.T).tanh() @ score.vector.weight[0])


def test_reduced_rank_is_general_with_a_matrix_of_that_rank(problem):
    query, key, _, _ = problem
    low, full = ReducedRankScore(6, 6, 2).double(), GeneralScore(6, 6).double()
    with torch.no_grad():
        full.key_projection.weight.copy_(low.query_projection.weight.T @ low.key_projection.weight)
    assert_same(low(query, key), full(query, key))
    assert torch.linalg.matrix_rank(full.key_projection.weight) == 2


def test_content_of_a_zero_vector_is_zero_with_finite_gradient():
    query = torch.zeros(1, 1, 4, dtype=torch.float64, requires_grad=True)
    key = torch.randn(1, 3, 4, dtype=torch.float64)
    out = ContentScore()(query, key)
    assert (out == 0).all()
    out.sum().backward()
    assert torch.isfinite(query.grad).all()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("eps", [1e-8, 1e-15, 1e-30, 1e-200, 5e-324])
def test_content_with_however_small_an_eps_stays_finite_around_a_vector_of_norm_0(eps, dtype):
    smallest = torch.finfo(dtype).tiny
    key = torch.randn(1, 3, 4, generator=torch.Generator().manual_seed(0)).to(dtype)
    # about where squares and cubes end
    for size in (0.0, smallest, smallest**0.5, smallest**0.4, smallest**0.35, smallest**0.3):
        query = torch.full((1, 1, 4), size, dtype=dtype, requires_grad=True)
        result = ContentScore(eps)(query, key)
        result.sum().backward()
        assert result.isfinite().all() and query.grad.isfinite().all()
        assert size > 0 or (result == 0).all()
    query = torch.randn(1, 2, 4, generator=torch.Generator().manual_seed(1)).to(dtype)
    torch.testing.assert_close(ContentScore(eps)(query, key), ContentScore()(query, key))


@pytest.mark.parametrize("size", [1e-4, 1.0, 200.0, 6e4])
def test_content_in_half_precision_is_the_cosine_whatever_the_length(size):
    g = torch.Generator().manual_seed(0)
    query, key = (size * torch.rand(1, n, 4, generator=g) for n in (2, 3))
    half = ContentScore()(query.half().requires_grad_(), key.half())
    torch.testing.assert_close(half.float(), ContentScore()(query, key), atol=2e-3, rtol=0)
    zero = torch.zeros(1, 1, 4, dtype=torch.float16, requires_grad=True)
    result = ContentScore()(zero, key.half())
    result.sum().backward()
    assert (result == 0).all() and torch.isfinite(zero.grad).all() and (zero.grad != 0).all()


def test_scaled_dot_has_variance_one_where_dot_has_variance_d():
    g = torch.Generator().manual_seed(0)
    q, k = torch.randn(1, 400, 256, generator=g), torch.randn(1, 400, 256, generator=g)
    assert DotScore()(q, k).var().item() == pytest.approx(256, rel=0.05)
    assert ScaledDotScore()(q, k).var().item() == pytest.approx(1, rel=0.05)


@pytest.mark.parametrize(
    ("name", "mistake"), [(n, m) for n, ms in oracles.KNOWN_WRONG.items() for m in ms]
)
def test_known_wrong_scores_are_told_apart_by_the_oracle(name, mistake, problem):
    query, key, _, _ = problem
    score = build(name)
    wrong = oracles.KNOWN_WRONG[name][mistake](score, query, key).detach()
    assert not torch.allclose(wrong, oracles.scores(score, query, key), atol=1e-3)


def test_a_score_is_built_with_the_sizes_that_it_takes_and_no_score_with_an_unknown_one():
    for name in attnbook.SCORES:
        score = attnbook.make_score(name, 6, 6, rank=3, d_hidden=5, max_length=9)
        assert type(score) is attnbook.SCORES[name]
    assert attnbook.make_score("reduced_rank", 6, 9, rank=3).key_projection.out_features == 3
    assert attnbook.make_score("reduced_rank", 9, 8).key_projection.out_features == 2
    assert attnbook.make_score("location", 6, 5, max_length=9).max_length == 9
    with pytest.raises(TypeError, match="no score takes ranks"):
        attnbook.make_score("dot", 6, 6, ranks=3)


X = torch.randn(2, 4, 6)
test_bad_input_is_named = refusals(
    ("query", lambda: AdditiveScore(6, 6)(X[..., :5], X)),
    ("key", lambda: GeneralScore(6, 5)(X, X)),
    ("DotScore needs query", lambda: DotScore()(X, X[..., :3])),
    ("ContentScore needs query", lambda: ContentScore()(X[..., :3], X)),
    ("key has 4", lambda: LocationScore(6, 3)(X, X)),
    ("query", lambda: DotScore()(X.long(), X)),
    ("query must have at", lambda: DotScore()(X[0, 0], X)),
    ("query", lambda: DotScore()(None, X)),
    ("eps", lambda: ContentScore(0.0)),
    ("eps", lambda: ContentScore(-1e-8)),
    ("eps", lambda: ContentScore(math.nan)),
    ("eps", lambda: ContentScore("1e-8")),
    ("d_query", lambda: AdditiveScore(0, 6)),
    ("rank", lambda: ReducedRankScore(6, 6, 0)),
    ("score", lambda: attnbook.make_score("cosine", 6, 6)),
    ("score 'dot' needs", lambda: attnbook.make_score("dot", 6, 12)),
    ("score 'location' needs", lambda: attnbook.make_score("location", 6, 6)),
)
