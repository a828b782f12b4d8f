"""Relative positions against an oracle that builds a vector for every pair."""

import math

import pytest
import torch
from assertions import refusals
from hypothesis import given, settings
from hypothesis import strategies as st
from watching import LargestTensor

from attnbook import RelativeMultiHeadAttention, causal_mask, padding_mask
from attnbook.kernels.visible import Visible
from attnbook.mechanisms.caches.key_value import ProjectedSource
from attnbook.mechanisms.positions.relative import attend_with_relations

from ..agreement import assert_agree, assert_same, drawn, randomised

B, N, D, H = 2, 7, 12, 3


def layer(k=2, seed=0, **options):
    return randomised(RelativeMultiHeadAttention(D, H, max_distance=k, **options), seed)


def oracle(made, x, mask, *, distance=lambda i, j: j - i, scale=None):
    """Equations 3 to 5 of the paper with tensors a_ij of n×n×d."""
    n, k, d = x.shape[1], made.max_distance, made.d_head
    q, key, value = (
        getattr(made, f"{name}_projection")(x).view(len(x), n, H, -1).transpose(1, 2)
        for name in ("query", "key", "value")
    )
    rows = [[max(-k, min(k, distance(i, j))) + k for j in range(n)] for i in range(n)]
    a_key, a_value = (
        torch.stack([torch.stack([table[r] for r in row]) for row in rows])
        for table in (made.key_distance, made.value_distance)
    )
    e = (q[:, :, :, None] * (key[:, :, None] + a_key)).sum(-1) / (scale or math.sqrt(d))
    weights = e.masked_fill(~mask, -math.inf).softmax(-1).nan_to_num()
    z = (weights[..., None] * (value[:, :, None] + a_value)).sum(3)
    output = made.output_projection(z.transpose(1, 2).flatten(2))
    return output * mask.any(-1)[:, 0, :, None], weights


def masks():
    words = padding_mask(torch.tensor([4, 7]), N)[:, None].expand(B, N, N)
    nothing = torch.ones(B, N, N, dtype=torch.bool)
    nothing[1, 2] = False
    return {
        "none": torch.ones(B, N, N, dtype=torch.bool),
        "padding": words,
        "causal": causal_mask(N).expand(B, N, N),
        "both": words & causal_mask(N),
        "nothing": nothing,
    }


@pytest.mark.parametrize("kind", masks())
@pytest.mark.parametrize(
    "options", [{}, {"d_head": 5, "d_head_value": 2}, {"k": 9}, {"k": 0}], ids=str
)
@pytest.mark.parametrize("need_weights", [True, False])
def test_value_and_gradient_equal_the_oracle(kind, options, need_weights):
    made, mask = layer(**options), masks()[kind]
    ours = lambda x: made(x, mask=mask, need_weights=need_weights)  # noqa: E731
    theirs = lambda x: oracle(made, x, mask[:, None])  # noqa: E731
    assert_agree(ours, theirs, (B, N, D), [*made.parameters()], need_weights)


def test_queries_with_a_cache_are_the_last_positions():
    made, x, cache = layer(), drawn(B, N, D), None
    complete = made(x, mask=causal_mask(N)).context
    for t in range(N):
        found, cache, _ = made.read(x[:, t : t + 1], cache=cache)
        assert_same(found, complete[:, t : t + 1])
    several = made(x[:, 4:], projected=made.project(x), mask=causal_mask(N - 4, N)).context
    assert_same(several, complete[:, 4:])


@pytest.mark.parametrize(
    ("q", "k"), [((1, 3), (4, 5)), ((3,), (4, 5)), ((4, 3), (5,)), ((2, 1, 3), (4, 5))], ids=str
)
def test_leading_dimensions_broadcast(q, k):
    made, query, key = layer(), torch.randn(*q, D).double(), torch.randn(*k, D).double()
    batch = torch.broadcast_shapes(q[:-1], k[:-1])
    mask = torch.rand(*batch, 3, 5, generator=torch.Generator().manual_seed(0)) < 0.7
    complete = made(query.expand(*batch, 3, D), key.expand(*batch, 5, D), mask=mask)
    assert_same(made(query, key, mask=mask), complete)


def two_distances(dtype, device="cpu", n=2048):
    """Keys that all look alike, half of them at one distance: shares and slopes are sums of 1024
    numbers 2⁻¹¹, which in bfloat16 stop growing at 1/8. Returns the context, and its gradient in
    the query."""
    index = (torch.arange(n, device=device) % 2)[None]
    keys, values, query, zeros = (
        torch.tensor(t, dtype=dtype, device=device)
        for t in ([[1.0, 0.0], [1.0, 2.0]], [[3.0], [1.0]], [[[[1.0, 0.0]]]], [[[[0.0, 0.0]]]])
    )
    sign = (1.0 - 2.0 * index).to(dtype)[..., None, :, None]
    source = ProjectedSource(zeros.repeat(1, 1, n, 1), sign.expand(1, 1, n, 1))
    relations = [(lambda rows, seen: index, keys, values)]
    given = query.requires_grad_(), source, relations, Visible(), None, False
    context = attend_with_relations(*given).context
    return context.detach(), torch.autograd.grad(context, query)[0]


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_many_small_shares_of_a_distance_add_up(dtype, device):
    context, slope = two_distances(dtype, device)
    assert context.item() == pytest.approx(2.0, abs=1e-2)
    assert slope.flatten().tolist() == pytest.approx([0.0, -2.0], abs=1e-2)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_no_sum_over_pairs_is_kept_in_half_precision_and_wider_numbers_are_not_copied(dtype):
    """A GPU rounds after each addition, a CPU does not: so the dtype of the sums is looked at."""
    sums, copies = [], []

    class Watch(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, function, types, arguments=(), options=None):
            if "scatter_add" in str(function):
                sums.append(arguments[0].dtype)
            if "_to_copy" in str(function):
                copies.append(function)
            return function(*arguments, **(options or {}))

    made, x = layer().to(dtype), torch.randn(B, N, D, dtype=dtype, requires_grad=True)
    with Watch():
        made(x).context.sum().backward()
    assert sums == [torch.promote_types(dtype, torch.float32)] * 2
    assert bool(copies) == (dtype == torch.bfloat16)


def test_no_tensor_of_a_vector_for_each_pair_is_kept_or_made():
    made, n = RelativeMultiHeadAttention(64, 2, max_distance=3), 40
    x = torch.randn(1, n, 64, requires_grad=True)
    with LargestTensor() as largest:
        made(x, mask=causal_mask(n)).context.sum().backward()
    # weights of both heads; one vector a pair is 32 × n × n
    assert 0 < largest.numel <= max(2 * n * n, 64 * n, 64 * 64) < n * n * 32


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 6), st.integers(1, 8), st.integers(1, 5), st.integers(0, 99))
def test_moving_a_text_changes_nothing_and_beyond_the_clip_distance_is_one(k, n, before, seed):
    made, x = layer(k, seed), torch.randn(1, n, D).double()
    # What stands before the text and is masked away moves it to later positions.
    moved = torch.cat([torch.randn(1, before, D).double(), x], 1)
    mask = torch.ones(n + before, n + before, dtype=torch.bool)
    mask[:, :before] = False
    assert_same(made(moved, mask=mask).context[:, before:], made(x).context)


WRONG = {
    "distance the other way round": dict(distance=lambda i, j: i - j),
    "distance without a sign": dict(distance=lambda i, j: abs(i - j)),
    "positions instead of distances": dict(distance=lambda i, j: j),
    "scaled by the root of d_model": dict(scale=math.sqrt(D)),
    "not scaled": dict(scale=1.0),
}


@pytest.mark.parametrize("mistake", [None, *WRONG])
def test_known_wrong_versions_are_told_apart(mistake):
    made = layer()
    mask, x = masks()["both"], drawn(B, N, D, seed=1)
    wrong, _ = oracle(made, x, mask[:, None], **WRONG.get(mistake, {}))
    difference = (made(x, mask=mask).context - wrong).abs().max()
    assert difference < 1e-10 if mistake is None else difference > 1e-2


test_arguments = refusals(
    ("max_distance", lambda: RelativeMultiHeadAttention(12, 3, max_distance=-1)),
    ("n", lambda: layer()(drawn(1, 5, D), drawn(1, 3, D))),
)
