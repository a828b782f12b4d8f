"""Multi-head attention beside PyTorch's layer, its function, and a loop in NumPy."""

import copy
import math
from functools import partial

import numpy as np
import pytest
import torch
from assertions import assert_refused, refusals
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from attnbook import (
    AdditiveScore,
    GeneralScore,
    LinformerAttention,
    LocalAttention,
    LocationScore,
    MemoryCompressedAttention,
    MultiHeadAttention,
    RelativeMultiHeadAttention,
    RMSNorm,
    ScaledDotScore,
    causal_mask,
    padding_mask,
)
from attnbook.mechanisms.attention.synthesizer import SynthesizerAttention

from ..agreement import assert_same, slopes

B, M, N, D, H = 2, 4, 7, 12, 3


def tensors(seed=3):
    g = torch.Generator().manual_seed(seed)
    return [torch.randn(B, n, D, generator=g, dtype=torch.float64) for n in (M, N, N)]


def masks():
    """Every kind of mask; in none of them a query is left without a key."""
    g = torch.Generator().manual_seed(5)
    some = torch.rand(B, H, M, N, generator=g) < 0.5
    some[..., 2] = True
    return {
        "none": None,
        "keys": padding_mask(torch.tensor([3, 7]), N)[:, None],
        "(m, n)": causal_mask(M, N),
        "(batch, m, n)": some[:, 0],
        "(batch, 1, n)": some[:, 0, :1],
        "(1, m, n)": some[:1, 0],
        "(batch, heads, m, n)": some,
        "(1, heads, 1, n)": some[:1, :, :1],
        "(batch, 1, m, n)": some[:, :1],
    }


def layer(**options):
    torch.manual_seed(0)
    made = MultiHeadAttention(D, H, **options).double()
    with torch.no_grad():
        for name, p in made.named_parameters():
            if name.endswith("bias"):
                p.normal_()  # zeros at the start would hide a mistake
    return made


def oracle(made, query, key, value, mask=None):
    """One row of the batch in NumPy: heads, queries and keys in loops.

    Returns the output and the weights (h, m, n).
    """
    p = {name: t.detach().numpy() for name, t in made.named_parameters()}

    def project(name, x):
        return x @ p[f"{name}_projection.weight"].T + p.get(f"{name}_projection.bias", 0.0)

    q, k, v = project("query", query), project("key", key), project("value", value)
    h, d, dv = made.num_heads, made.d_head, made.d_head_value
    m, n = len(q), len(k)
    weights, joined = np.zeros((h, m, n)), np.zeros((m, h * dv))
    for i in range(h):
        for t in range(m):
            allowed = [j for j in range(n) if mask is None or mask[i, t, j]]
            scores = [
                sum(q[t, i * d + c] * k[j, i * d + c] for c in range(d)) / math.sqrt(d)
                for j in allowed
            ]
            powers = np.exp(np.array(scores) - max(scores)) if allowed else np.zeros(0)
            for j, power in zip(allowed, powers):
                weights[i, t, j] = power / powers.sum()
                joined[t, i * dv : (i + 1) * dv] += weights[i, t, j] * v[j, i * dv : (i + 1) * dv]
    output = joined @ p["output_projection.weight"].T + p.get("output_projection.bias", 0.0)
    if mask is not None:
        output[~mask.any((0, 2))] = 0.0
    return output, weights


def full(mask):
    """A mask of any kind as (batch, heads, m, n)."""
    if mask is None:
        return torch.ones(B, H, M, N, dtype=torch.bool)
    return (mask if mask.dim() == 4 else mask.expand(B, M, N)[:, None]).expand(B, H, M, N)


@pytest.mark.parametrize("kind", masks())
def test_output_and_weights_equal_the_numpy_oracle(kind):
    made, mask = layer(), masks()[kind]
    got = made(*tensors(), mask=mask)
    for b in range(B):
        expected, weights = oracle(made, *(t[b].numpy() for t in tensors()), full(mask)[b].numpy())
        assert_same(got.context[b].detach(), torch.tensor(expected))
        assert_same(got.weights[b].detach(), torch.tensor(weights))


def test_all_widths_may_differ_and_the_oracle_agrees():
    g = torch.Generator().manual_seed(1)
    made = layer(d_query=5, d_key=6, d_value=7, d_head=4, d_head_value=2, bias=False)
    query, key, value = (
        torch.randn(n, d, generator=g, dtype=torch.float64) for n, d in ((M, 5), (N, 6), (N, 7))
    )
    got = made(query, key, value)
    expected, weights = oracle(made, query.numpy(), key.numpy(), value.numpy())
    assert got.context.shape == (M, D) and got.weights.shape == (H, M, N)
    assert_same(got.context.detach(), torch.tensor(expected))
    assert_same(got.weights.detach(), torch.tensor(weights))


def twin(made):
    """PyTorch's layer with the same weights."""
    theirs = nn.MultiheadAttention(D, H, batch_first=True, dtype=torch.float64)
    parts = (made.query_projection, made.key_projection, made.value_projection)
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.cat([p.weight for p in parts]))
        theirs.in_proj_bias.copy_(torch.cat([p.bias for p in parts]))
        theirs.out_proj.load_state_dict(made.output_projection.state_dict())
    return theirs


@pytest.mark.parametrize(
    "options", [{}, {"bias": False}, {"kdim": 5, "vdim": 7}, {"add_bias_kv": True}]
)
def test_weights_of_pytorch_s_layer_are_read(options):
    torch.manual_seed(3)
    theirs = nn.MultiheadAttention(D, H, batch_first=True, dtype=torch.float64, **options)
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.normal_()
    d_key, d_value = options.get("kdim", D), options.get("vdim", D)
    made = layer(d_key=d_key, d_value=d_value, bias=options.get("bias", True))
    ours = nn.ModuleDict({"attention": made})
    state = {f"attention.{name}": tensor for name, tensor in theirs.state_dict().items()}
    if "add_bias_kv" in options:  # what ours has not is named
        with pytest.raises(RuntimeError, match="bias_k"):
            ours.load_state_dict(state)
        return
    ours.load_state_dict(state)
    query, key, value = (
        torch.randn(B, n, d, dtype=torch.float64) for n, d in ((M, D), (N, d_key), (N, d_value))
    )
    there = torch.arange(N) < torch.arange(1, B + 1)[:, None]
    got = made(query, key, value, key_mask=there)
    wanted = theirs(query, key, value, key_padding_mask=~there, average_attn_weights=False)
    assert_same(got.context, wanted[0])
    assert_same(got.weights, wanted[1])


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("kind", masks())
def test_value_and_gradient_equal_pytorch_s_layer(kind, need_weights):
    made, mask = layer(), masks()[kind]
    theirs = twin(made)
    # there True = may not, and batch · heads in front
    forbidden = None if mask is None else ~full(mask).flatten(0, 1)
    inputs = [t.requires_grad_() for t in tensors()]
    context, weights = made(*inputs, mask=mask, need_weights=need_weights)
    expected, shares = theirs(*inputs, attn_mask=forbidden, average_attn_weights=False)
    assert_same((context, weights), (expected, shares if need_weights else None))
    parts = made.query_projection, made.key_projection, made.value_projection
    joined = [p.weight for p in parts] + [p.bias for p in parts]
    found = slopes(context, [*inputs, *joined, *made.output_projection.parameters()])
    leaves = [theirs.in_proj_weight, theirs.in_proj_bias, *theirs.out_proj.parameters()]
    *of_inputs, weight, bias, out_weight, out_bias = slopes(expected, [*inputs, *leaves])
    assert_same(found, (*of_inputs, *weight.chunk(3), *bias.chunk(3), out_weight, out_bias))


def test_key_and_value_have_defaults_self_attention_and_the_keys():
    made, (query, key, _) = layer(), tensors()
    assert_same(made(query).context, made(query, query, query).context)
    assert_same(made(query, key).context, made(query, key, key).context)


def test_a_projected_source_serves_every_step():
    made, (query, key, value) = layer(), tensors()
    source, calls = made.project(key, value), []
    made.key_projection.register_forward_hook(lambda *_: calls.append(1))
    steps = torch.cat([made(query[:, t : t + 1], projected=source).context for t in range(M)], 1)
    assert not calls
    assert_same(steps, made(query, key, value).context)


def test_the_score_s_own_projection_of_the_keys_is_made_once_as_well():
    made, (query, key, value) = layer(score=GeneralScore(4, 4).double()), tensors()
    calls = []
    made.score.key_projection.register_forward_hook(lambda *_: calls.append(1))
    source = made.project(key, value)
    for t in range(M):
        made(query[:, t : t + 1], projected=source)
    assert len(calls) == 1


@pytest.mark.parametrize(
    "kind",
    [
        MultiHeadAttention,
        partial(LocalAttention, block_length=3),
        partial(MemoryCompressedAttention, kernel_size=2, stride=2),
    ],
    ids=["plain", "local", "compressed"],
)
@pytest.mark.parametrize(
    "make",
    [lambda: LocationScore(4, N), lambda: GeneralScore(4, 4), lambda: AdditiveScore(4, 4, 5)],
    ids=["location", "general", "additive"],
)
def test_with_a_cache_every_score_is_what_it_is_for_the_whole_text(kind, make):
    torch.manual_seed(0)
    made, x, cache = kind(D, H, score=make()).double(), tensors()[1], None
    complete = made(x, mask=causal_mask(N))
    for t in range(N):
        context, cache, weights = made.read(x[:, t : t + 1], cache=cache, need_weights=True)
        assert_same(context[:, 0], complete.context[:, t])
        assert_same(weights[:, :, 0], complete.weights[:, :, t, : weights.shape[-1]])


def test_a_cache_longer_than_a_location_score_is_named():
    made, x = layer(score=LocationScore(4, 3).double()), tensors()[1]
    cache = made.project(x[:, :3]).extend(made.project(x[:, 3:4]))
    words = "key has 4 positions, LocationScore was made for max_length = 3"
    assert_refused(words, made, x[:, 3:4], projected=cache)


def test_widths_that_are_not_given_follow_the_others():
    def widths(*arguments, **options):
        made = MultiHeadAttention(*arguments, **options)
        parts = made.query_projection, made.key_projection, made.value_projection
        return [*(p.in_features for p in parts), made.d_head, made.d_head_value]

    assert widths(12, 3) == [12, 12, 12, 4, 4]
    assert widths(12, 3, d_key=6, d_head=5) == [12, 6, 6, 5, 5]
    assert widths(12, 3, d_query=7, d_value=8, d_head_value=2) == [7, 12, 8, 4, 2]


@pytest.mark.parametrize(
    "make",
    [lambda: AdditiveScore(4, 4, 5), lambda: GeneralScore(4, 4)],
    ids=["additive", "general"],
)
def test_another_score_works_in_every_head(make):
    torch.manual_seed(1)
    score = make().double()
    made, (query, key, value) = layer(score=score), tensors()
    q, k, v = made.query_projection(query), made.key_projection(key), made.value_projection(value)
    heads = [
        score(q[..., i : i + 4], k[..., i : i + 4]).softmax(-1) @ v[..., i : i + 4]
        for i in (0, 4, 8)
    ]
    expected = made.output_projection(torch.cat(heads, -1))
    for need_weights in (True, False):
        assert_same(made(query, key, value, need_weights=need_weights).context, expected)
    made(query, key, value).context.square().sum().backward()
    assert all(p.grad.abs().sum() > 0 for p in made.parameters())


@pytest.mark.parametrize("need_weights", [True, False])
def test_one_head_that_sees_something_is_enough_for_an_output(need_weights):
    made, mask = layer(), torch.ones(B, H, M, N, dtype=torch.bool)
    mask[0, :, 1] = False
    mask[0, 2, 1, 4] = True
    context = made(*tensors(), mask=mask, need_weights=need_weights).context
    expected, _ = oracle(made, *(t[0].numpy() for t in tensors()), mask[0].numpy())
    assert_same(context[0].detach(), torch.tensor(expected))


@given(st.integers(1, 8), st.integers(1, 4), st.integers(0, 10_000))
@settings(max_examples=25, deadline=None)
def test_self_attention_is_equivariant_and_its_weights_are_shares(n, heads, seed):
    torch.manual_seed(seed)
    made = MultiHeadAttention(4 * heads, heads).double()
    x = torch.randn(n, 4 * heads).double()
    order = torch.randperm(n)
    a, b = made(x), made(x[order])
    assert_same(b.context, a.context[order])
    assert_same(b.weights, a.weights[:, order][:, :, order])
    assert_same(a.weights.sum(-1), torch.ones(heads, n).double())


def test_leading_dimensions_are_free():
    made, (query, key, value) = layer(), tensors()
    mask = masks()["(batch, m, n)"]
    complete = made(query, key, value, mask=mask).context
    assert_same(made(query[0], key[0], value[0], mask=mask[0]).context, complete[0])
    more = made(*(t[:, None] for t in tensors()), mask=mask[:, None])
    assert_same(more.context[:, 0], complete)
    assert more.weights.shape == (B, 1, H, M, N)
    shared = made(query[0], key, value)  # the same queries for every source
    assert_same(shared.context[1], made(query[0], key[1], value[1]).context)


def test_it_runs_under_autocast_and_copies():
    torch.manual_seed(0)
    made = MultiHeadAttention(16, 4)
    x = torch.randn(2, 9, 16, requires_grad=True)
    exact = made(x, mask=causal_mask(9)).context
    for need_weights in (True, False):
        with torch.autocast("cpu", torch.bfloat16):
            low = made(x, mask=causal_mask(9), need_weights=need_weights).context
        assert low.dtype == torch.bfloat16
        torch.testing.assert_close(low.float(), exact, atol=0.05, rtol=0.05)
        low.float().sum().backward()
    twins = copy.deepcopy(made)
    twins.load_state_dict(made.state_dict())
    torch.testing.assert_close(twins(x, mask=causal_mask(9)).context, exact)


def _wrong(
    made, q, k, v, mask, *, cut=None, scale=None, axis=-1, forbid=None, last=True, join=None
):
    """Multi-head attention with one part replaced."""

    def split(x):
        return x.view(B, -1, H, D // H).transpose(1, 2)

    cut = cut or split
    q, k, v = (
        cut(getattr(made, f"{name}_projection")(x))
        for name, x in (("query", q), ("key", k), ("value", v))
    )
    scores = q @ k.transpose(-1, -2) / math.sqrt(scale or D // H)
    weights = scores.masked_fill((forbid or torch.logical_not)(mask), -1e30).softmax(axis)
    heads = weights @ v
    joined = join(heads) if join else heads.transpose(1, 2).reshape(B, M, D)
    return made.output_projection(joined) if last else joined


WRONG = {
    "a view without the transpose": dict(cut=lambda x: x.view(B, H, -1, D // H)),
    "heads take every third column": dict(
        cut=lambda x: x.view(B, -1, D // H, H).permute(0, 3, 1, 2)
    ),
    "the scale is the root of d_model": dict(scale=D),
    "no scale": dict(scale=1),
    "a softmax over the queries": dict(axis=-2),
    "a softmax over the heads": dict(axis=1),
    "the mask upside down": dict(forbid=lambda mask: mask),
    "no output projection": dict(last=False),
    "heads concatenated backwards": dict(join=lambda x: x.flip(1).transpose(1, 2).reshape(B, M, D)),
    "heads concatenated without the transpose": dict(join=lambda x: x.reshape(B, M, D)),
    "columns of the heads interleaved": dict(join=lambda x: x.permute(0, 2, 3, 1).reshape(B, M, D)),
}


@pytest.mark.parametrize("mistake", [None, *WRONG])
def test_known_wrong_layers_are_told_apart_by_the_oracle(mistake):
    made, mask = layer(), masks()["(batch, heads, m, n)"]
    got = _wrong(made, *tensors(), mask, **WRONG.get(mistake, {})).detach()
    rows = zip(*(t.numpy() for t in (*tensors(), mask)))
    expected = torch.tensor(np.stack([oracle(made, *row)[0] for row in rows]))
    assert torch.allclose(got, expected, atol=1e-9) == (mistake is None)
    assert mistake is None or (got - expected).abs().max() > 1e-2


X, PLAIN = torch.randn(2, 4, 12), MultiHeadAttention(12, 3)
test_bad_input_is_named = refusals(
    ("d_model", lambda: MultiHeadAttention(12, 5)),
    ("num_heads", lambda: MultiHeadAttention(12, 0)),
    ("d_head", lambda: MultiHeadAttention(12, 3, d_head=0)),
    ("score must be made", lambda: MultiHeadAttention(12, 3, score=GeneralScore(12, 12))),
    ("score must be a", lambda: MultiHeadAttention(12, 3, score="dot")),
    ("score must be a", lambda: MultiHeadAttention(12, 3, score=ScaledDotScore)),
    ("normalise", lambda: MultiHeadAttention(12, 3, normalise=RMSNorm(4))),
    ("dropout", lambda: MultiHeadAttention(12, 3, dropout=1.0)),
    ("query", lambda: PLAIN(X[..., :5])),
    ("key", lambda: MultiHeadAttention(12, 3, d_key=6)(X, X)),
    ("value", lambda: MultiHeadAttention(12, 3, d_value=6)(X, X)),
    ("value must have as", lambda: PLAIN(X, X, X[:, :3])),
    ("key must have at", lambda: PLAIN(X, X[:, :0])),
    ("query and key", lambda: PLAIN(X, torch.cat([X, X])[:3])),
    ("mask", lambda: PLAIN(X, mask=torch.ones(2, 2, 4, 4).bool())),
    ("mask", lambda: PLAIN(X, X[:, :3], mask=torch.ones(2, 3).bool())),
    ("give key and", lambda: PLAIN(X, X, projected=PLAIN.project(X))),
    ("projected", lambda: PLAIN(X, projected=(X, X))),
    ("x", lambda: PLAIN(X.double())),
    ("x", lambda: PLAIN(X, X.bfloat16())),
)


OTHERS = {
    "local": lambda: LocalAttention(D, H, block_length=3),
    "compressed": lambda: MemoryCompressedAttention(D, H),
    "linformer": lambda: LinformerAttention(D, H, length=N, rank=4),
    "relative": lambda: RelativeMultiHeadAttention(D, H, max_distance=2),
    "random synthesizer": lambda: SynthesizerAttention(D, H, length=N, kind="random"),
}


@pytest.mark.parametrize("kind", OTHERS)
def test_values_of_another_number_are_named_in_every_kind(kind):
    _, key, value = tensors()
    assert_refused("value", lambda: OTHERS[kind]().double()(key, key, value[:, 1:]))


@pytest.mark.parametrize("kind", OTHERS)
def test_no_keys_at_all_are_named_in_every_kind(kind):
    made, key = OTHERS[kind]().double(), tensors()[1][:, :0]
    for query in (key, tensors()[0]):
        assert_refused("key", made, query, key)
        assert_refused("key", lambda: made(query, projected=made.project(key)))


@pytest.mark.parametrize("kind", OTHERS)
def test_an_empty_batch_has_an_empty_result_in_every_kind(kind):
    made, x = OTHERS[kind]().double(), tensors()[1][:0]
    for need_weights in (True, False):
        assert made(x, need_weights=need_weights).context.shape == (0, N, D)


@pytest.mark.parametrize("allowed", [True, False])
@pytest.mark.parametrize("kind", OTHERS)
def test_a_mask_may_have_fewer_dimensions_in_every_kind(kind, allowed):
    made, x = OTHERS[kind]().double(), tensors()[1]
    complete = made(x, mask=torch.full((1, N), allowed))
    for mask in (torch.tensor(allowed), torch.full((1,), allowed), torch.full((N,), allowed)):
        assert_same(made(x, mask=mask), complete)
