"""ALiBi against loops in NumPy."""

import importlib
import math

import numpy as np
import pytest
import torch
from assertions import refusals
from watching import saved_bytes

from attnbook import ALiBi, MultiHeadAttention, alibi_slopes, attend, causal_mask, padding_mask

from ..agreement import assert_same, drawn, randomised

attend_module = importlib.import_module("attnbook.mechanisms.attention.soft_attention")
alibi_module = importlib.import_module("attnbook.mechanisms.positions.alibi")
B, H, M, N, D = 2, 6, 4, 7, 5


def right_slopes(heads):
    power = 2 ** math.floor(math.log2(heads))
    first = [2 ** (-8 * h / power) for h in range(1, power + 1)]
    between = [2 ** (-8 * h / (2 * power)) for h in range(1, 2 * power + 1, 2)]
    return first + between[: heads - power]


def oracle(query, key, value, mask, slopes=None, scale=D**0.5, penalty=None):
    """Context of every row by itself; query i stands at position i + n − m."""
    slopes = right_slopes(H) if slopes is None else slopes
    penalty = penalty or (lambda product, slope, i, j: product / scale - slope * abs(i - j))
    m, n = query.shape[-2], key.shape[-2]
    context = np.zeros((*query.shape[:-1], value.shape[-1]))
    for b, h, t in np.ndindex(*query.shape[:-1]):
        products = key[b, h] @ query[b, h, t]
        e = np.array([penalty(products[j], slopes[h], t + n - m, j) for j in range(n)])
        seen = np.flatnonzero(mask[b, t])
        if len(seen):
            e = np.exp(e[seen] - e[seen].max())
            context[b, h, t] = e / e.sum() @ value[b, h, seen]
    return torch.tensor(context)


def tensors(m=M, n=N, dtype=torch.float64):
    g = torch.Generator().manual_seed(2)
    return [torch.randn(B, H, k, D, generator=g, dtype=torch.float64).to(dtype) for k in (m, n, n)]


def masks(m=M, n=N):
    words = padding_mask(torch.tensor([n - 2, n]), n)[:, None].expand(B, m, n)
    nothing = causal_mask(m, n).repeat(B, 1, 1)
    nothing[1, 2] = False
    return {"causal": causal_mask(m, n).expand(B, m, n), "nothing": nothing, "padding": words}


def attended(score, mask, need_weights, given=None):
    options = {"mask": mask[:, None], "need_weights": need_weights}
    return attend(score, *(given or tensors()), **options).context


@pytest.fixture(params=["stored", "large"])
def way(request, monkeypatch):
    """Whether weights are kept, or a kernel or blocks take their place: with `need_weights`."""
    if request.param == "large":
        monkeypatch.setattr(attend_module, "STORED_WEIGHTS", 0)
        monkeypatch.setattr(alibi_module, "STORED_WEIGHTS", 0)
        monkeypatch.setattr("attnbook.kernels.streaming.BLOCK_ELEMENTS", 9)
    return request.param == "stored"


@pytest.mark.parametrize("heads", [1, 2, 3, 6, 8, 12, 16])
def test_slopes_are_those_of_the_paper(heads):
    right = torch.tensor(right_slopes(heads), dtype=torch.float64)
    assert_same(alibi_slopes(heads, dtype=torch.float64), right)


@pytest.mark.parametrize(
    ("kind", "causal"), [("causal", True), ("nothing", True), ("causal", False), ("padding", False)]
)
def test_context_equals_the_oracle(kind, causal, way):
    score, mask = ALiBi(H, causal=causal), masks()[kind]
    found = attended(score, mask, way)
    assert_same(found, oracle(*map(np.asarray, tensors()), mask))
    low = [t.float() for t in tensors()]
    torch.testing.assert_close(attended(score, mask, way, low).double(), found, atol=1e-5, rtol=0)


@pytest.mark.parametrize("kind", ["none", "padding", "pairs"])
def test_where_later_positions_are_seen_a_long_text_is_scored_as_a_short_one(kind, monkeypatch):
    words = masks()["padding"][:, None]
    mask = {"none": None, "padding": words[:, :, :1], "pairs": words}[kind]
    stored = attend(ALiBi(H), *tensors(), mask=mask).context
    monkeypatch.setattr(alibi_module, "STORED_WEIGHTS", 0)
    long = attend(ALiBi(H), *tensors(), mask=mask, need_weights=False).context
    assert_same(long, stored)


@pytest.mark.parametrize("causal", [True, False])
def test_gradients(causal, way):
    score, mask = ALiBi(3, causal=causal), causal_mask(2, 3)
    given = [torch.randn(1, 3, n, 2).double().requires_grad_() for n in (2, 3, 3)]
    run = lambda *t: attend(score, *t, mask=mask, need_weights=way).context  # noqa: E731
    assert torch.autograd.gradcheck(run, given)


ROOT = math.sqrt(D)
WRONG = {
    "slopes from the last head to the first": dict(slopes=right_slopes(H)[::-1]),
    "slopes from h = 0": dict(slopes=[1.0, 0.25, 2**-4, 2**-6, 0.25, 2**-3]),
    "slopes of 2^(-8h/H) for any H": dict(slopes=[2 ** (-8 * h / H) for h in range(1, H + 1)]),
    "one slope for all heads": dict(slopes=[0.5] * H),
    "what is far is preferred": dict(penalty=lambda e, slope, i, j: e / ROOT + slope * abs(i - j)),
    "the penalty is divided by the root, too": dict(
        penalty=lambda e, slope, i, j: (e - slope * abs(i - j)) / ROOT
    ),
    "not scaled": dict(scale=1.0),
    "the queries are the first m positions": dict(
        penalty=lambda e, slope, i, j: e / ROOT - slope * abs(i - (N - M) - j)
    ),
    "the square of the distance": dict(penalty=lambda e, s, i, j: e / ROOT - s * (i - j) ** 2),
}


@pytest.mark.parametrize("mistake", [None, *WRONG])
@pytest.mark.parametrize("causal", [True, False])
def test_known_wrong_versions_are_told_apart(mistake, causal, way):
    mask = masks()["causal" if causal else "padding"]
    wrong = oracle(*map(np.asarray, tensors()), mask, **WRONG.get(mistake, {}))
    difference = (attended(ALiBi(H, causal=causal), mask, way) - wrong).abs().max()
    assert difference < 1e-10 if mistake is None else difference > 1e-3


@pytest.mark.parametrize("causal", [True, False])
def test_decoding_from_a_cache_equals_the_whole(causal, way):
    made = randomised(MultiHeadAttention(12, H, score=ALiBi(H, causal=causal)))
    x = drawn(B, N, 12, seed=1)
    complete = made(x, mask=causal_mask(N)).context
    cache = None
    for t in range(N):
        step, cache, _ = made.read(x[:, t : t + 1], cache=cache, need_weights=way)
        assert_same(step, complete[:, t : t + 1])
    several = made(x[:, 4:], mask=causal_mask(N - 4, N), projected=cache, need_weights=way)
    assert_same(several.context, complete[:, 4:])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("causal", [True, False])
def test_far_away_neighbours_are_one_apart_in_every_precision(dtype, causal, monkeypatch):
    """Queries that match no key: the slopes alone weigh, also at the end of a long text, where
    bfloat16 counts in steps of 8."""
    monkeypatch.setattr(attend_module, "STORED_WEIGHTS", 0)
    monkeypatch.setattr(alibi_module, "STORED_WEIGHTS", 0)
    n = 1500
    query, value = torch.zeros(2, 1, n, 8, dtype=dtype)
    value[0, ::2] = 1.0  # every second position
    score = ALiBi(1, causal=causal)
    monkeypatch.setattr(alibi_module, "alibi_slopes", lambda *_, **o: torch.ones(1, **o))
    context = attend(score, query, query, value, mask=causal_mask(n), need_weights=False).context
    even, e = context[0, 200::2, 0].double(), math.exp(-1)
    assert (even - 1 / (1 + e)).abs().max() < (1e-3 if dtype == torch.float32 else 1e-2)


@pytest.mark.parametrize("causal", [True, False])
def test_without_weights_memory_grows_with_the_length(causal, monkeypatch):
    monkeypatch.setattr(attend_module, "STORED_WEIGHTS", 0)
    monkeypatch.setattr(alibi_module, "STORED_WEIGHTS", 0)

    def kept(n):
        given = [torch.randn(1, n, 4, requires_grad=True) for _ in range(3)]
        run = lambda: attend(ALiBi(1, causal=causal), *given, need_weights=False)  # noqa: E731
        return sum(saved_bytes(run).values())

    assert kept(1200) < 2.2 * kept(600)


Q, K, V = tensors()
test_arguments = refusals(
    ("num_heads", lambda: ALiBi(0)),
    ("query", lambda: attend(ALiBi(2), Q, K, V)),
    ("n", lambda: attend(ALiBi(H), K, Q, Q)),
    ("ALiBi needs query", lambda: attend(ALiBi(H), Q, K[..., 1:], V)),
)
