"""Relative positions against an oracle that builds a vector for every pair."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from refusing import assert_refused
from watching import LargestTensor

from attnbook import MultiHeadAttention, RelativeMultiHeadAttention, causal_mask, padding_mask
from attnbook.kernels.visible import Visible
from attnbook.mechanisms.caches.key_value import ProjectedSource
from attnbook.mechanisms.positions.relative import attend_with_relations, relative_index

from ..agreement import EXACT, assert_agree, randomised

B, N, D, H = 2, 7, 12, 3


def layer(k=2, seed=0, **options):
    torch.manual_seed(seed)
    return randomised(RelativeMultiHeadAttention(D, H, max_distance=k, **options))


def oracle(made, x, mask, m=None, *, distance=lambda i, j: j - i, scale=None):
    """Equations 3 to 5 of the paper with tensors a_ij of n×n×d; the queries are the last m
    positions.
    """
    n = x.shape[1]
    m = n if m is None else m
    k, d = made.max_distance, made.d_head

    def split(t):
        return t.view(len(x), n, H, -1).transpose(1, 2)

    q, key, value = (
        split(getattr(made, f"{name}_projection")(x)) for name in ("query", "key", "value")
    )
    a_key, a_value = torch.zeros(n, n, d).double(), torch.zeros(n, n, made.d_head_value).double()
    for i in range(n):
        for j in range(n):
            r = max(-k, min(k, distance(i, j))) + k
            at = torch.tensor(i), torch.tensor(j)
            a_key = a_key.index_put(at, made.key_distance[r])
            a_value = a_value.index_put(at, made.value_distance[r])
    e = (q[:, :, :, None] * (key[:, :, None] + a_key)).sum(-1) / (scale or math.sqrt(d))
    weights = e.masked_fill(~mask, -math.inf).softmax(-1).nan_to_num()
    z = (weights[..., None] * (value[:, :, None] + a_value)).sum(3)
    output = made.output_projection(z.transpose(1, 2).flatten(2))
    return output[:, n - m :], weights[:, :, n - m :]


def masks():
    words = padding_mask(torch.tensor([4, 7]), N)[:, None].expand(B, N, N)
    return {
        "none": torch.ones(B, N, N, dtype=torch.bool),
        "padding": words,
        "causal": causal_mask(N).expand(B, N, N),
        "both": words & causal_mask(N),
    }


@pytest.mark.parametrize("kind", masks())
@pytest.mark.parametrize("options", [{}, {"d_head": 5, "d_head_value": 2}, {"k": 9}], ids=str)
@pytest.mark.parametrize("need_weights", [True, False])
def test_value_and_gradient_equal_the_oracle(kind, options, need_weights):
    made, mask = layer(**options), masks()[kind]
    assert_agree(
        lambda x: made(x, mask=mask, need_weights=need_weights),
        lambda x: oracle(made, x, mask[:, None]),
        (B, N, D),
        [*made.parameters()],
        need_weights,
    )


def test_queries_with_a_cache_are_the_last_positions():
    made, x = layer(), torch.randn(B, N, D).double()
    complete = made(x, mask=causal_mask(N)).context
    cache = made.project(x[:, :3])
    for t in range(3, N):
        cache = cache.extend(made.project(x[:, t : t + 1]))
        torch.testing.assert_close(
            made(x[:, t : t + 1], projected=cache).context, complete[:, t : t + 1], **EXACT
        )
    several = made(x[:, 4:], projected=made.project(x), mask=causal_mask(N - 4, N)).context
    torch.testing.assert_close(several, complete[:, 4:], **EXACT)


@pytest.mark.parametrize(
    ("q", "k"), [((1, 3), (4, 5)), ((3,), (4, 5)), ((4, 3), (5,)), ((2, 1, 3), (4, 5))], ids=str
)
def test_leading_dimensions_broadcast(q, k):
    made, query, key = layer(), torch.randn(*q, D).double(), torch.randn(*k, D).double()
    batch = torch.broadcast_shapes(q[:-1], k[:-1])
    mask = torch.rand(*batch, 3, 5, generator=torch.Generator().manual_seed(0)) < 0.7
    complete = made(query.expand(*batch, 3, D), key.expand(*batch, 5, D), mask=mask)
    for ours, expected in zip(made(query, key, mask=mask), complete):
        torch.testing.assert_close(ours, expected, **EXACT)


def two_distances(dtype, device="cpu", n=2048):
    """Keys that all look alike, half of them at one distance: shares and slopes are sums of 1024
    numbers 2⁻¹¹, which in bfloat16 stop growing at 1/8. Returns the context, and its gradient in
    the query."""
    index = (torch.arange(n, device=device) % 2)[None]
    zeros = torch.zeros(1, 1, n, 2, dtype=dtype, device=device)
    sign = (1.0 - 2.0 * index).to(dtype)[..., None, :, None]
    keys, values = (
        torch.tensor(t, dtype=dtype, device=device)
        for t in ([[1.0, 0.0], [1.0, 2.0]], [[3.0], [1.0]])
    )
    query = torch.tensor([[[[1.0, 0.0]]]], dtype=dtype, device=device).requires_grad_()
    source = ProjectedSource(zeros, sign.expand(1, 1, n, 1))
    context = attend_with_relations(
        query, source, [(index, keys, values)], Visible(), None, False
    ).context
    return context.detach(), torch.autograd.grad(context, query)[0]


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_many_small_shares_of_a_distance_add_up(dtype, device):
    context, slope = two_distances(dtype, device)
    torch.testing.assert_close(
        context.cpu().double(), torch.full((1, 1, 1, 1), 2.0).double(), atol=1e-2, rtol=0
    )
    torch.testing.assert_close(
        slope.cpu().double(), torch.tensor([[[[0.0, -2.0]]]]).double(), atol=1e-2, rtol=0
    )


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_no_sum_over_pairs_is_kept_in_half_precision_and_wider_numbers_are_not_copied(dtype):
    """What a GPU rounds after each addition, a CPU does not: so the dtype of the sums is looked
    at, both ways.
    """
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
    assert len(sums) == 2 and set(sums) == {
        torch.float64 if dtype == torch.float64 else torch.float32
    }
    assert bool(copies) == (dtype == torch.bfloat16)


def test_a_row_with_nothing_to_attend_to_gets_zeros():
    made, x = layer(), torch.randn(B, N, D).double().requires_grad_()
    mask = torch.ones(B, N, N, dtype=torch.bool)
    mask[1, 2] = False
    for need_weights in (True, False):
        context = made(x, mask=mask, need_weights=need_weights).context
        assert (context[1, 2] == 0).all() and (context[1, 3] != 0).any()
        grads = torch.autograd.grad(context[1, 2].sum(), [x, *made.parameters()])
        assert all((g == 0).all() for g in grads)


def test_no_tensor_of_a_vector_for_each_pair_is_kept_or_made():
    made, n = RelativeMultiHeadAttention(64, 2, max_distance=3), 40
    x = torch.randn(1, n, 64, requires_grad=True)
    with LargestTensor() as largest:
        made(x, mask=causal_mask(n)).context.sum().backward()
    # weights of both heads; one vector a pair is 32 × n × n
    assert 0 < largest.numel <= max(2 * n * n, 64 * n, 64 * 64) < n * n * 32


def test_with_a_distance_of_zero_no_order_is_known():
    x, order = torch.randn(B, N, D).double(), torch.randperm(N, generator=torch.Generator())
    for distance in (0, 1):
        made = RelativeMultiHeadAttention(D, H, max_distance=distance).double()
        moved = (made(x[:, order]).context - made(x).context[:, order]).abs().max()
        assert bool(moved < 1e-10) == (distance == 0)


def test_zero_tables_are_plain_attention_and_a_table_changes_it():
    made, x = layer(), torch.randn(B, N, D).double()
    plain = MultiHeadAttention(D, H).double()
    plain.load_state_dict(
        {name: t for name, t in made.state_dict().items() if "distance" not in name}
    )
    assert (made(x).context - plain(x).context).abs().max() > 0.1
    with torch.no_grad():
        made.key_distance.zero_(), made.value_distance.zero_()
    torch.testing.assert_close(made(x).context, plain(x).context, **EXACT)


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 6), st.integers(1, 8), st.integers(1, 5), st.integers(0, 99))
def test_moving_a_text_changes_nothing_and_beyond_the_clip_distance_is_one(k, n, before, seed):
    made, x = layer(k, seed), torch.randn(1, n, D).double()
    # What stands before the text and is masked away moves it to later positions.
    moved = torch.cat([torch.randn(1, before, D).double(), x], 1)
    mask = torch.ones(n + before, n + before, dtype=torch.bool)
    mask[:, :before] = False
    torch.testing.assert_close(made(moved, mask=mask).context[:, before:], made(x).context, **EXACT)
    index = relative_index(n, n + before, k)
    for t in range(n):
        for j in range(n + before):
            assert index[t, j] == min(max(j - (t + before), -k), k) + k


class Doubled(torch.nn.Module):
    def forward(self, weights):
        return 2 * weights


def test_attention_dropout_meets_both_sums_alike():
    made, x = layer(dropout=0.5), torch.randn(B, N, D).double()
    expected = made.eval()(x).context
    torch.testing.assert_close(expected, oracle(made, x, masks()["none"][:, None])[0], **EXACT)
    made.train().dropout = Doubled()  # every share doubled: both sums double
    doubled = made(x).context - made.output_projection.bias
    torch.testing.assert_close(doubled, 2 * (expected - made.output_projection.bias), **EXACT)


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
    mask = masks()["both"]
    x = torch.randn(B, N, D, generator=torch.Generator().manual_seed(1)).double()
    wrong, _ = oracle(made, x, mask[:, None], **WRONG.get(mistake, {}))
    difference = (made(x, mask=mask).context - wrong).abs().max()
    assert difference < 1e-10 if mistake is None else difference > 1e-2


def test_known_wrong_cache_offset_is_told_apart():
    made, x = layer(), torch.randn(B, N, D).double()
    right = made(x[:, -1:], projected=made.project(x)).context
    # as if the query stood first
    at_zero = relative_index(1, 1, 2).expand(1, N) * 0 + (torch.arange(N).clamp(-2, 2) + 2)
    assert (at_zero != relative_index(1, N, 2)).any()
    torch.testing.assert_close(right, oracle(made, x, masks()["none"][:, None], 1)[0], **EXACT)


def test_autocast_and_options():
    torch.manual_seed(0)
    made = RelativeMultiHeadAttention(16, 4, max_distance=3)
    x = torch.randn(2, 9, 16, requires_grad=True)
    with torch.autocast("cpu", torch.bfloat16):
        low = made(x, mask=causal_mask(9)).context
    assert low.dtype == torch.bfloat16
    torch.testing.assert_close(
        low.float(), made(x, mask=causal_mask(9)).context, atol=0.05, rtol=0.05
    )
    low.float().sum().backward()
    for begin, call in (
        ("max_distance", lambda: RelativeMultiHeadAttention(12, 3, max_distance=-1)),
        ("n", lambda: layer()(torch.randn(1, 5, D).double(), torch.randn(1, 3, D).double())),
    ):
        assert_refused(begin, call)
