"""One more term in the denominator of the softmax, against loops in NumPy."""

import importlib
import math

import numpy as np
import pytest
import torch
from assertions import refusals
from watching import saved_bytes

from attnbook import (
    AdditiveScore,
    ALiBi,
    DotScore,
    MultiHeadAttention,
    ScaledDotScore,
    attend,
    causal_mask,
    masked_softmax,
)

from ..agreement import assert_same, drawn, randomised

attend_module = importlib.import_module("attnbook.mechanisms.attention.soft_attention")
alibi_module = importlib.import_module("attnbook.mechanisms.positions.alibi")
B, H, M, N, D = 2, 3, 4, 7, 6
SINK = torch.tensor([[-1.0], [0.0], [2.0]]).double()
SCORES = {
    "scaled": ScaledDotScore,
    "dot": DotScore,
    "additive": lambda: AdditiveScore(D, D, 4),
    "alibi": lambda: ALiBi(H),
}


@pytest.fixture(params=["stored", "large"])
def way(request, monkeypatch):
    """Whether weights are kept, or a kernel or blocks take their place: with `need_weights`."""
    if request.param == "large":
        monkeypatch.setattr(attend_module, "STORED_WEIGHTS", 0)
        monkeypatch.setattr(alibi_module, "STORED_WEIGHTS", 0)
        monkeypatch.setattr("attnbook.kernels.streaming.BLOCK_ELEMENTS", 99)
    return request.param == "stored"


@pytest.fixture(params=SCORES)
def score(request):
    torch.manual_seed(0)
    return SCORES[request.param]().double()


def tensors(dtype=torch.float64):
    g = torch.Generator().manual_seed(2)
    return [torch.randn(B, H, k, D, generator=g).double().to(dtype) for k in (M, N, N)]


def some():
    """In row 2 of one text nothing may be attended to."""
    mask = torch.rand(B, 1, M, N, generator=torch.Generator().manual_seed(4)) < 0.6
    mask[1, 0, 2] = False
    return mask


MASKS = {"none": lambda: None, "some": some, "rows": lambda: torch.arange(M)[:, None] % 2 == 0}


def weights_of(score, query, key, mask, share):
    """The weights that `share(exponentials, sink)` makes of each row."""
    with torch.no_grad():
        scores = score(query, key).numpy()
    mask = np.broadcast_to(np.ones(1, bool) if mask is None else mask.numpy(), scores.shape)
    weights = np.zeros(scores.shape)
    for b, h, t in np.ndindex(*scores.shape[:-1]):
        e = np.array([math.exp(s) if k else 0.0 for s, k in zip(scores[b, h, t], mask[b, h, t])])
        if e.any():
            weights[b, h, t] = share(e, SINK[h].item())
    return weights


def right(e, sink):
    return e / (e.sum() + math.exp(sink))


@pytest.mark.parametrize("kind", MASKS)
def test_context_weights_and_precision(score, kind, way):
    (query, key, value), mask = tensors(), MASKS[kind]()
    expected = weights_of(score, query, key, mask, right)
    context, weights = attend(score, query, key, value, mask=mask, sink=SINK, need_weights=way)
    assert_same(context.detach(), torch.tensor(expected @ value.numpy()))
    if way:
        assert_same(weights.detach(), torch.tensor(expected))
        assert (weights.sum(-1) < 1).all()
        found = masked_softmax(score(query, key), mask=mask, sink=SINK)
        assert_same(found.detach(), torch.tensor(expected))
    options = {"mask": mask, "sink": SINK.float(), "need_weights": way}
    low = attend(score.float(), *tensors(torch.float32), **options).context
    torch.testing.assert_close(low.double(), context, atol=1e-5, rtol=0)


@pytest.mark.parametrize("kind", MASKS)
def test_gradients(score, kind, way):
    mask = MASKS[kind]()
    given = [t[:1].requires_grad_() for t in tensors()]
    sink = SINK.clone().requires_grad_()
    mask = None if mask is None else mask[-1:] if mask.dim() > 2 else mask

    def run(query, key, value, sink):
        return attend(score, query, key, value, mask=mask, sink=sink, need_weights=way).context

    assert torch.autograd.gradcheck(run, [*given, sink], fast_mode=True)
    if kind == "some":  # nothing comes of a row that may attend to nothing
        context = run(*given, sink)
        assert (context[:, :, 2] == 0).all()
        grads = torch.autograd.grad(context[:, :, 2].sum(), [*given, sink])
        assert all((g == 0).all() for g in grads)


def test_a_sink_without_end_takes_everything_and_one_below_all_numbers_nothing(score, way):
    given = tensors()
    for sink, share in ((math.inf, 0.0), (-math.inf, 1.0)):
        found = attend(score, *given, sink=torch.full_like(SINK, sink), need_weights=way)
        plain = attend(score, *given, need_weights=way)
        assert_same(found.context, share * plain.context)


@pytest.mark.parametrize("need_weights", [True, False])
def test_heads_learn_a_sink_without_end(need_weights):
    made = MultiHeadAttention(8, 2, learned_sink=True, output_bias=False)
    with torch.no_grad():
        made.sink.fill_(math.inf)
        assert (made(torch.randn(1, 3, 8), need_weights=need_weights).context == 0).all()


WRONG = {
    "no sink": lambda e, sink: e / e.sum(),
    "one more for all heads": lambda e, sink: e / (e.sum() + 1),
    "the sink itself, not its exponential": lambda e, sink: e / (e.sum() + sink),
    "its sign turned": lambda e, sink: e / (e.sum() + math.exp(-sink)),
    "divided by the root as a score": lambda e, sink: e / (e.sum() + math.exp(sink / D**0.5)),
    "once for each key": lambda e, sink: e / (e + math.exp(sink)).sum(),
    "made to sum to 1 again": lambda e, sink: right(e, sink) / right(e, sink).sum(),
    "the weight of the sink is spread over the keys": lambda e, sink: (
        right(e, sink) + (1 - right(e, sink).sum()) * (e > 0) / (e > 0).sum()
    ),
}


@pytest.mark.parametrize("mistake", [None, *WRONG])
def test_known_wrong_versions_are_told_apart(mistake, score, way):
    (query, key, value), mask = tensors(), some()
    wrong = weights_of(score, query, key, mask, WRONG.get(mistake, right)) @ value.numpy()
    context = attend(score, query, key, value, mask=mask, sink=SINK, need_weights=way).context
    difference = (context - torch.tensor(wrong)).abs().max()
    assert difference < 1e-10 if mistake is None else difference > 1e-2


def test_scores_of_any_size_stay_finite(way):
    query, key, value = tensors()
    for sink in (-math.inf, -1e9, 1e9):
        given, far = (DotScore(), 1e4 * query, key, value), torch.full((1,), sink).double()
        context = attend(*given, mask=some(), sink=far, need_weights=way).context
        plain = attend(*given, mask=some()).context
        assert_same(context, plain if sink < 0 else 0 * plain)


def test_a_sink_of_half_precision_is_not_divided_beyond_its_range(monkeypatch):
    monkeypatch.setattr(attend_module, "STORED_WEIGHTS", 0)
    x, sink = torch.randn(1, 4, 128).half(), torch.full((1, 4), -1e4).half()
    got, right = (
        attend(ScaledDotScore(), x, x, sink=sink, need_weights=way).context for way in (False, True)
    )
    torch.testing.assert_close(got, right, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("name", ["scaled", "additive"])
def test_without_weights_memory_grows_with_the_length(name, monkeypatch):
    monkeypatch.setattr(attend_module, "STORED_WEIGHTS", 0)
    score, sink = SCORES[name](), torch.zeros(1, requires_grad=True)

    def kept(n):
        x = torch.randn(n, D, requires_grad=True)
        return sum(saved_bytes(lambda: attend(score, x, x, sink=sink, need_weights=False)).values())

    assert kept(800) < 2.2 * kept(400)


@pytest.mark.parametrize("kv_heads", [1, 2, 4])
def test_heads_have_one_each_also_in_groups_and_from_a_cache(kv_heads, way):
    made = randomised(MultiHeadAttention(8, 4, num_kv_heads=kv_heads, learned_sink=True))
    x = drawn(B, N, 8, seed=1)
    context, weights = made(x, mask=causal_mask(N), need_weights=way)
    q, k, v = (
        t.unflatten(-1, (-1, 2)).transpose(1, 2)
        for t in (made.query_projection(x), made.key_projection(x), made.value_projection(x))
    )
    for h in range(4):
        at = h * kv_heads // 4
        e = (q[:, h] @ k[:, at].mT / math.sqrt(2)).exp() * causal_mask(N)
        share = e / (e.sum(-1, keepdim=True) + made.sink[h].exp())
        part = made.output_projection.weight[:, 2 * h : 2 * h + 2]
        context = context - share @ v[:, at] @ part.T
        if way:
            assert_same(weights[:, h], share)
    assert_same(context, made.output_projection.bias.expand(context.shape))
    cache = made.project(x[:, :-2])
    for t in (N - 2, N - 1):
        cache = cache.extend(made.project(x[:, t : t + 1]))
        step = made(x[:, t : t + 1], projected=cache, need_weights=way).context
        whole = made(x, mask=causal_mask(N), need_weights=way).context[:, t : t + 1]
        assert_same(step, whole)


def test_at_its_start_it_is_one_more_in_the_denominator():
    made, x = MultiHeadAttention(8, 4, learned_sink=True).double(), torch.randn(1, 5, 8).double()
    made.score.inner_product = lambda query: (0 * query, 1.0)  # all scores are 0
    assert_same(made(x).weights, torch.full((1, 4, 5, 5), 1 / 6, dtype=torch.float64))


Q, K, _ = tensors()
test_arguments = refusals(
    ("sink", lambda: attend(DotScore(), Q, K, sink=1.0)),
    ("sink", lambda: attend(DotScore(), Q, K, sink=torch.zeros(2))),
    ("sink", lambda: masked_softmax(Q, sink=torch.zeros(H, 1).long())),
)
