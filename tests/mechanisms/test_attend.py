import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from attnbook import AdditiveScore, DotScore, ScaledDotScore, attend, causal_mask, padding_mask
from attnbook.mechanisms.streaming import stream_attention

from . import oracles

EXACT = {"atol": 1e-10, "rtol": 0}


def test_context_and_weights_equal_the_numpy_oracle(score, problem):
    query, key, value, mask = problem
    got = attend(score, query, key, value, mask)
    for b in range(2):
        context, weights = oracles.attention(score, query[b].numpy(), key[b].numpy(), value[b].numpy(), mask[b].numpy())
        torch.testing.assert_close(got.context[b].detach(), torch.tensor(context), **EXACT)
        torch.testing.assert_close(got.weights[b].detach(), torch.tensor(weights), **EXACT)


@pytest.mark.parametrize("masked", [False, True])
def test_the_weights_of_every_registered_score_are_shares_over_the_keys(score, problem, masked):
    query, key, value, mask = problem
    mask = mask if masked else torch.ones_like(mask)
    weights = attend(score, 100 * query, 100 * key, value, mask).weights
    assert (weights >= 0).all() and (weights <= 1).all() and (weights[~mask] == 0).all()
    torch.testing.assert_close(weights.sum(-1), mask.any(-1).double(), atol=1e-12, rtol=0)


@pytest.mark.parametrize("blocks", [1, 30, 10**6])
@pytest.mark.parametrize("masked", [False, True])
def test_streaming_equals_the_stored_matrix_in_value_and_gradient(score, problem, blocks, masked):
    mask = problem[3] if masked else None
    grads = []
    for stream in (False, True):
        query, key, value = (t.clone().requires_grad_() for t in problem[:3])
        if stream:
            context = stream_attention(score, query, score.project_keys(key), value, mask, block_elements=blocks)
        else:
            context = attend(score, query, key, value, mask).context
        loss = (context * torch.linspace(-1, 2, context.numel(), dtype=torch.float64).view_as(context)).sum()
        wanted = [query, key, value, *score.parameters()]
        grads.append([context, *torch.autograd.grad(loss, wanted, allow_unused=True)])
    for stored, streamed in zip(*grads):
        # a location score never reads the key: no gradient at all, or zeros
        if stored is None or streamed is None:
            assert stored is None or not stored.any()
            assert streamed is None or not streamed.any()
        else:
            torch.testing.assert_close(streamed, stored, **EXACT)


def test_need_weights_false_takes_the_streaming_route_and_gives_the_same_context(score, problem):
    query, key, value, mask = problem
    lean = attend(score, query, key, value, mask, need_weights=False)
    assert lean.weights is None
    torch.testing.assert_close(lean.context, attend(score, query, key, value, mask).context, **EXACT)


def test_scaled_dot_equals_pytorch(problem):
    query, key, value, mask = problem
    expected = F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
    got = attend(ScaledDotScore(), query, key, value, mask).context
    usable = mask.any(-1)
    torch.testing.assert_close(got[usable], expected[usable], **EXACT)
    assert (got[~usable] == 0).all()


def test_one_head_equals_multihead_attention(problem):
    query, key, _, mask = problem
    mask = mask | ~mask.any(-1, keepdim=True)  # nn.MultiheadAttention gives NaN for an empty row
    theirs = nn.MultiheadAttention(6, 1, bias=False, batch_first=True, dtype=torch.float64)
    w_q, w_k, w_v = theirs.in_proj_weight.chunk(3)
    expected, weights = theirs(query, key, key, attn_mask=~mask)
    got = attend(ScaledDotScore(), query @ w_q.T, key @ w_k.T, key @ w_v.T, mask)
    torch.testing.assert_close(got.context @ theirs.out_proj.weight.T, expected, **EXACT)
    torch.testing.assert_close(got.weights, weights, **EXACT)


def test_a_query_with_nothing_to_attend_to_gets_zeros_and_sends_no_gradient(score, problem):
    for need_weights in (True, False):
        query, key, value = (t.clone().requires_grad_() for t in problem[:3])
        mask = problem[3].clone()
        mask[1] = False
        context = attend(score, query, key, value, mask, need_weights=need_weights).context
        assert (context[1] == 0).all()
        context.sum().backward()
        for t in (query, key, value):
            assert t.grad is None or (torch.isfinite(t.grad).all() and (t.grad[1] == 0).all())


def test_padding_has_no_weight_no_gradient_and_no_influence(score, problem):
    query, key, value, _ = problem
    mask = padding_mask(torch.tensor([4, 7]), 7)[:, None]
    for need_weights in (True, False):
        k, v = key.clone().requires_grad_(), value.clone().requires_grad_()
        attend(score, query, k, v, mask, need_weights=need_weights).context.square().sum().backward()
        assert (v.grad[0, 4:] == 0).all() and (k.grad is None or (k.grad[0, 4:] == 0).all())
        assert v.grad[0, :4].abs().min() > 0
    key2, value2 = key.clone(), value.clone()
    key2[0, 4:], value2[0, 4:] = 1e6, -1e6
    torch.testing.assert_close(attend(score, query, key2, value2, mask).context,
                               attend(score, query, key, value, mask).context, **EXACT)
    row = attend(score, query[:1], key[:1, :4], value[:1, :4]).context
    torch.testing.assert_close(attend(score, query, key, value, mask).context[:1], row, **EXACT)


def test_changing_an_attended_value_changes_the_context_and_causal_hides_the_future(score, problem):
    query, key, value, _ = problem
    value = value.clone().requires_grad_()
    context = attend(score, query, key[:, :4], value[:, :4], causal_mask(4)).context
    for t in range(4):
        (grad,) = torch.autograd.grad(context[:, t].sum(), value, retain_graph=True)
        assert (grad[:, t + 1:] == 0).all() and (grad[:, :t + 1].abs() > 0).all()


@given(st.integers(1, 5), st.integers(1, 9), st.integers(0, 10_000))
@settings(max_examples=40, deadline=None)
def test_shuffling_keys_with_values_and_mask_leaves_the_context(m, n, seed):
    g = torch.Generator().manual_seed(seed)
    torch.manual_seed(seed)
    score = AdditiveScore(4, 4, 3).double()
    query, key, value = (torch.randn(n_, d, generator=g, dtype=torch.float64) for n_, d in ((m, 4), (n, 4), (n, 2)))
    mask = torch.rand(m, n, generator=g) < 0.7
    order = torch.randperm(n, generator=g)
    a = attend(score, query, key, value, mask)
    b = attend(score, query, key[order], value[order], mask[:, order])
    torch.testing.assert_close(b.context, a.context, **EXACT)
    torch.testing.assert_close(b.weights, a.weights[:, order], **EXACT)


def test_the_context_lies_in_the_hull_of_the_values(score, problem):
    query, key, value, mask = problem
    context = attend(score, query, key, value, mask).context
    for b in range(2):
        for t in range(4):
            if mask[b, t].any():
                allowed = value[b, mask[b, t]]
                assert (context[b, t] <= allowed.amax(0) + 1e-12).all()
                assert (context[b, t] >= allowed.amin(0) - 1e-12).all()


def test_streaming_survives_large_scores_and_half_precision():
    g = torch.Generator().manual_seed(0)
    query, key = 30 * torch.randn(1, 3, 8, generator=g), 30 * torch.randn(1, 50, 8, generator=g)
    stored = attend(DotScore(), query, key).context
    streamed = stream_attention(DotScore(), query, key, key, block_elements=64)
    torch.testing.assert_close(streamed, stored, atol=1e-4, rtol=1e-5)
    low = stream_attention(DotScore(), query.bfloat16(), key.bfloat16(), key.bfloat16(), block_elements=64)
    assert low.dtype == torch.bfloat16 and torch.isfinite(low).all()


def test_streaming_works_under_autocast_in_both_directions():
    torch.manual_seed(0)
    score = AdditiveScore(8, 8)
    query, key = torch.randn(2, 5, 8, requires_grad=True), torch.randn(2, 9, 8, requires_grad=True)
    grads = []
    for need_weights in (True, False):
        with torch.autocast("cpu", torch.bfloat16):
            context = attend(score, query, key, need_weights=need_weights).context
        grads.append(torch.autograd.grad(context.float().square().sum(), (query, key, *score.parameters())))
    for stored, streamed in zip(*grads):
        torch.testing.assert_close(streamed, stored, atol=0.1, rtol=0.1)


def test_streaming_stores_no_m_by_n_tensor_between_the_passes(problem):
    score = AdditiveScore(6, 6, 4).double()
    query, key = torch.randn(1, 64, 6, dtype=torch.float64), torch.randn(1, 64, 6, dtype=torch.float64)
    query.requires_grad_()
    saved = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t.numel()) or t, lambda t: t):
        attend(score, query, key, need_weights=False)
        lean, saved[:] = sum(saved), []
        attend(score, query, key)
        stored = sum(saved)
    assert lean < 64 * 64 < stored


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
    right, _ = oracles.attention(score, query[0].numpy(), key[0].numpy(), value[0].numpy(), mask[0].numpy())
    assert not torch.allclose(wrong[0], torch.tensor(right), atol=1e-3)


@pytest.mark.parametrize(("change", "words"), [
    (lambda a: a.update(value=a["value"][:, :3]), r"value must have as many positions as key \(7\)"),
    (lambda a: a.update(key=a["key"][:, :0], value=a["value"][:, :0]), "empty source"),
    (lambda a: a.update(mask=a["mask"].float()), "mask must be a boolean tensor"),
    (lambda a: a.update(mask=a["mask"][..., :3]), r"broadcastable to .* \(2, 4, 7\), got shape \(2, 4, 3\)"),
    (lambda a: a.update(query=a["query"][..., :5]), "one width, got 5 and 6"),
    (lambda a: a.update(key=torch.cat([a["key"]] * 2)[:3], value=torch.cat([a["value"]] * 2)[:3], mask=None),
     "leading dimensions that broadcast"),
])
def test_bad_input_is_named(problem, change, words):
    arguments = dict(zip(("query", "key", "value", "mask"), problem))
    change(arguments)
    with pytest.raises(ValueError, match=words):
        attend(DotScore(), **arguments)
