"""Grouped queries, rotary positions and norms in the heads: beside loops in NumPy, step by step,
and wrong versions.
"""

import copy
import math
from functools import partial
from itertools import product

import numpy as np
import pytest
import torch
from assertions import refusals
from torch.nn import functional as F

from attnbook import (
    AdditiveScore,
    ALiBi,
    GeneralScore,
    LinformerAttention,
    LocalAttention,
    MemoryCompressedAttention,
    MultiHeadAttention,
    RelativeMultiHeadAttention,
    RMSNorm,
    RotaryPositions,
    SlidingWindow,
    attend,
    causal_mask,
    convert_rotary_layout,
    double_backward,
    group_by_means,
    padding_mask,
)
from attnbook.mechanisms.attention.synthesizer import SynthesizerAttention

from ..agreement import assert_same, drawn, randomised

B, N, D, H, WIDTH = 2, 6, 12, 6, 4


def layer(kv=2, **options):
    return randomised(MultiHeadAttention(D, H, d_head=WIDTH, num_kv_heads=kv, **options))


def rotary_layer(**options):
    return layer(rotary=RotaryPositions(WIDTH, base=50.0), normalise=RMSNorm, **options)


def inputs(n=N):
    return drawn(B, n, D, seed=3)


def masks():
    g = torch.Generator().manual_seed(5)
    some = torch.rand(B, H, N, N, generator=g) < 0.5
    some[..., 2] = True
    return {
        "none": None,
        "keys": padding_mask(torch.tensor([3, 6]), N)[:, None],
        "(m, n)": causal_mask(N),
        "(batch, m, n)": some[:, 0],
        "(batch, h, m, n)": some,
        "(1, h, 1, n)": some[:1, :, :1],
        "(batch, 1, m, n)": some[:, :1],
    }


def full(mask):
    if mask is None:
        return torch.ones(B, H, N, N, dtype=torch.bool)
    return (mask if mask.dim() == 4 else mask.expand(B, N, N)[:, None]).expand(B, H, N, N)


def oracle(made, x, mask, wrong=""):
    """One text in NumPy, a head and a pair at a time; or a mistake of WRONG."""
    p = {name: t.detach().numpy() for name, t in made.named_parameters()}
    kv, shared, n, half = made.num_kv_heads, made.num_heads // made.num_kv_heads, len(x), WIDTH // 2

    def heads(name, count):
        rows = x @ p[f"{name}_projection.weight"].T + p[f"{name}_projection.bias"]
        return rows.reshape(n, count, WIDTH)

    def normalised(v, name):
        if f"{name}_norm.weight" not in p or wrong == "no norm":
            return v
        eps = getattr(made, f"{name}_norm").eps
        return v / np.sqrt((v * v).mean() + eps) * p[f"{name}_norm.weight"]

    def turned(v, position):
        if made.rotary is None:
            return v
        out = np.zeros(WIDTH)
        for k in range(half):
            c = complex(v[k], v[k + half]) * np.exp(1j * position * 50.0 ** (-2 * k / WIDTH))
            out[k], out[k + half] = c.real, c.imag
        return out

    def placed(v, name, position):
        if wrong == "norm, which has weights of its own, after the rotation":
            return normalised(turned(v, position), name)
        return turned(normalised(v, name), position)

    q, k, v = heads("query", H), heads("key", kv), heads("value", kv)
    weights, joined = np.zeros((H, n, n)), np.zeros((n, H, WIDTH))
    turn = {"keys turned the other way": -1, "keys not turned": 0}.get(wrong, 1)
    ahead = wrong == "keys one position ahead"
    for i in range(H):
        j = i % kv if wrong == "heads of keys in turn" else i // shared
        keys = [placed(k[s, j], "key", turn * (s + ahead)) for s in range(n)]
        values = [turned(v[s, j], s) if wrong == "values turned" else v[s, j] for s in range(n)]
        for t in range(n):
            query, allowed = placed(q[t, i], "query", t), np.flatnonzero(mask[i, t])
            powers = np.exp([query @ keys[s] / math.sqrt(WIDTH) for s in allowed])
            weights[i, t, allowed] = powers / powers.sum()
            joined[t, i] = sum(w * values[s] for w, s in zip(weights[i, t, allowed], allowed))
    output = joined.reshape(n, -1) @ p["output_projection.weight"].T + p["output_projection.bias"]
    return torch.tensor(output), torch.tensor(weights)


@pytest.mark.parametrize("kind", masks())
@pytest.mark.parametrize("make", [layer, rotary_layer, partial(rotary_layer, kv=1)])
def test_value_and_weights_equal_the_oracle(kind, make):
    made, x, mask = make(), inputs(), masks()[kind]
    for need_weights in (True, False):
        got = made(x, mask=mask, need_weights=need_weights)
        for b in range(B):
            expected, weights = oracle(made, x[b].numpy(), full(mask)[b].numpy())
            assert_same(got.context[b].detach(), expected)
            if need_weights:
                assert_same(got.weights[b].detach(), weights)
    assert got.weights is None


WRONG = ["heads of keys in turn", "keys one position ahead", "keys turned the other way"]
WRONG += ["keys not turned", "values turned", "no norm"]
WRONG += ["norm, which has weights of its own, after the rotation"]


@pytest.mark.parametrize("wrong", ["", *WRONG])
def test_known_wrong_heads_are_told_apart(wrong):
    made, x, mask = rotary_layer(), inputs(), causal_mask(N)
    expected, _ = oracle(made, x[0].numpy(), full(mask)[0].numpy(), wrong)
    difference = (made(x[:1], mask=mask).context[0].detach() - expected).abs().max()
    assert difference > 1e-3 if wrong else difference < 1e-10


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("make", [layer, rotary_layer, partial(rotary_layer, kv=1)])
def test_step_by_step_in_chunks_and_at_once_are_equal_and_the_cache_holds_the_fewer_heads(
    make, need_weights
):
    made, x = make(), inputs(9)
    whole = made(x, mask=causal_mask(9)).context
    cache, start = None, 0
    for m in (1, 1, 3, 1, 3):
        now, mask = slice(start, start + m), causal_mask(m, start + m)
        options = {"cache": cache, "position": start, "need_weights": need_weights}
        context, cache, _ = made.read(x[:, now], mask=mask, **options)
        assert_same(context, whole[:, now])
        start += m
    assert cache.key.shape == cache.value.shape == (B, made.num_kv_heads, 9, WIDTH)


def test_mistakes_of_the_position_in_decoding_are_told_apart():
    """Turned after it is cached, or all by one position: each step would turn the old keys on."""
    made, x = rotary_layer(), inputs()
    whole = made(x, mask=causal_mask(N)).context
    for key_position in (lambda t: 0, lambda t: t + 1):
        cache = made.project(x[:, :1])
        for t in range(1, N):
            cache = cache.extend(made.project(x[:, t : t + 1], position=key_position(t)))
        got = made(x[:, -1:], projected=cache, position=N - 1).context
        assert (got - whole[:, -1:]).abs().max() > 1e-3


def test_a_shift_of_the_whole_text_changes_nothing_and_rows_have_positions_of_their_own():
    made, x = rotary_layer(), inputs()
    expected = made(x, mask=causal_mask(N)).context
    for position in (1000, torch.tensor([3, 70]), torch.tensor([-2, 0])):
        got = made(x, mask=causal_mask(N), position=position).context
        assert_same(got, expected)
    # keys that are given begin at 0
    later = made(x[:, 4:], x, mask=causal_mask(2, N), position=4).context
    assert_same(later, expected[:, 4:])


@pytest.mark.parametrize(
    "score", [lambda: AdditiveScore(4, 4, 5), lambda: GeneralScore(4, 4), lambda: ALiBi(H)]
)
def test_any_score_reads_shared_keys_as_if_each_head_had_its_own(score):
    made, x = layer(score=score()), inputs()
    q = made.query_projection(x).unflatten(-1, (H, -1)).transpose(1, 2)
    k, v = (
        p(x).unflatten(-1, (2, -1)).transpose(1, 2).repeat_interleave(3, 1)
        for p in (made.key_projection, made.value_projection)
    )
    heads = attend(made.score, q, k, v, mask=causal_mask(N)).context
    expected = made.output_projection(heads.transpose(1, 2).flatten(-2))
    for need_weights in (True, False):
        got = made(x, mask=causal_mask(N), need_weights=need_weights).context
        assert_same(got, expected)


def test_it_is_pytorch_s_grouped_attention():
    made, x = layer(), inputs()
    q, k, v = (
        p(x).unflatten(-1, (-1, WIDTH)).transpose(1, 2)
        for p in (made.query_projection, made.key_projection, made.value_projection)
    )
    heads = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    expected = made.output_projection(heads.transpose(1, 2).flatten(-2))
    assert_same(made(x, mask=causal_mask(N)).context, expected)


def test_gradients_once_and_twice():
    made = rotary_layer(kv=1)
    x = inputs(3)[:1].requires_grad_()
    run = lambda x: made(x, mask=causal_mask(3)).context  # noqa: E731
    assert torch.autograd.gradcheck(run, (x,), fast_mode=True)
    with double_backward():
        assert torch.autograd.gradgradcheck(run, (x,), fast_mode=True)


def test_means_of_a_group_s_heads_are_its_head():
    full_layer, x = layer(kv=H, rotary=RotaryPositions(WIDTH)), inputs()
    grouped = group_by_means(full_layer, 2)
    frozen = group_by_means(copy.deepcopy(full_layer).requires_grad_(False).eval(), 2)
    assert not any(p.requires_grad for p in frozen.parameters())
    assert not any(module.training for module in frozen.modules())
    for name in ("key_projection", "value_projection"):
        ours, old = getattr(grouped, name), getattr(full_layer, name)
        for j, part in product(range(2), ("weight", "bias")):
            rows = [getattr(old, part)[(3 * j + i) * WIDTH :][:WIDTH] for i in range(3)]
            assert_same(getattr(ours, part)[j * WIDTH :][:WIDTH], sum(rows) / 3)
    assert full_layer.num_kv_heads == H and grouped.project(x).key.shape[1] == 2
    # where the heads of a group are alike, nothing is lost
    with torch.no_grad():
        for p in (full_layer.key_projection, full_layer.value_projection):
            for t in (p.weight, p.bias):
                heads = t.unflatten(0, (2, 3, -1))
                t.copy_(heads[:, :1].expand_as(heads).flatten(0, 2))
    alike = group_by_means(full_layer, 2)
    assert_same(alike(x).context, full_layer(x).context)
    assert (alike(x).context - group_by_means(full_layer, 1)(x).context).abs().max() > 1e-3


def test_a_layer_whose_layout_is_converted_gives_the_same():
    made, x = layer(rotary=RotaryPositions(WIDTH, layout="interleaved")), inputs()
    expected = made(x).context
    twin = layer(rotary=RotaryPositions(WIDTH))
    twin.load_state_dict(made.state_dict())
    assert (twin(x).context - expected).abs().max() > 1e-3
    with torch.no_grad():
        for p, heads in ((twin.query_projection, H), (twin.key_projection, 2)):
            for t in (p.weight, p.bias):
                t.copy_(convert_rotary_layout(t, heads, to="half"))
    assert_same(twin(x).context, expected)


def test_blocks_of_local_attention_are_turned_too():
    made = LocalAttention(D, H, block_length=4, d_head=WIDTH, rotary=RotaryPositions(WIDTH))
    made, x = made.double(), inputs()
    same_block = (torch.arange(N) // 4 == torch.arange(N)[:, None] // 4) & causal_mask(N)
    plain = MultiHeadAttention(D, H, d_head=WIDTH, rotary=RotaryPositions(WIDTH)).double()
    plain.load_state_dict(made.state_dict())
    expected, cache = plain(x, mask=same_block).context, None
    assert_same(made(x, mask=causal_mask(N)).context, expected)
    for t in range(N):
        got, cache, _ = made.read(x[:, t : t + 1], cache=cache, position=t)
        assert_same(got, expected[:, t : t + 1])


def test_compiled_and_mapped():
    made, x = rotary_layer(), inputs()
    run = lambda x: made(x, mask=causal_mask(N), need_weights=False).context  # noqa: E731
    compiled = torch.compile(run, fullgraph=True, backend="eager")
    assert_same(compiled(x), run(x))
    assert_same(torch.func.vmap(run)(x[:, None])[:, 0], run(x))


X, TURNED = torch.randn(2, 3, 12), MultiHeadAttention(12, 3, rotary=RotaryPositions(4))
LOCAL = LocalAttention(12, 3, block_length=2)
test_wrong_arguments_are_named = refusals(
    ("num_kv_heads must divide num_heads", lambda: MultiHeadAttention(12, 3, num_kv_heads=2)),
    ("num_kv_heads", lambda: MultiHeadAttention(12, 3, num_kv_heads=0)),
    ("rotary must", lambda: MultiHeadAttention(12, 3, rotary=RotaryPositions(6))),
    ("position", lambda: TURNED(X, position=torch.tensor([0, 1, 2]))),
    ("position", lambda: TURNED(X[0], position=torch.tensor([0, 1]))),
    ("num_kv_heads must divide the", lambda: group_by_means(MultiHeadAttention(12, 3), 2)),
    ("layer must be one that groups", lambda: group_by_means(LOCAL, 1)),
)


@pytest.mark.parametrize(
    ("kind", "own", "option"),
    [
        (RelativeMultiHeadAttention, {"max_distance": 2}, {"num_kv_heads": 1}),
        (RelativeMultiHeadAttention, {"max_distance": 2}, {"learned_sink": True}),
        (RelativeMultiHeadAttention, {"max_distance": 2}, {"score": None}),
        (LocalAttention, {"block_length": 2}, {"num_kv_heads": 1}),
        (LocalAttention, {"block_length": 2}, {"window": SlidingWindow(2)}),
        (LinformerAttention, {"length": 4, "rank": 2}, {"rotary": RotaryPositions(4)}),
        (SynthesizerAttention, {"length": 4}, {"normalise": RMSNorm}),
        (SynthesizerAttention, {"length": 4}, {"d_key": 3}),
        (MemoryCompressedAttention, {}, {"window": SlidingWindow(2)}),
    ],
)
def test_a_layer_takes_only_what_it_is_defined_with(kind, own, option):
    kind(12, 3, **own)
    with pytest.raises(TypeError, match=f"unexpected keyword argument '{[*option][0]}'"):
        kind(12, 3, **own, **option)
