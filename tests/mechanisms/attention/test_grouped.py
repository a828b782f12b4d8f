"""Grouped queries, rotary positions and norms in the heads: beside loops in NumPy, step by step,
and wrong versions.
"""

import copy
import math
from functools import partial

import numpy as np
import pytest
import torch
from refusing import assert_refused
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

EXACT = {"atol": 1e-10, "rtol": 0}
B, N, D, H, WIDTH = 2, 6, 12, 6, 4


def layer(kv=2, **options):
    torch.manual_seed(0)
    made = MultiHeadAttention(D, H, d_head=WIDTH, num_kv_heads=kv, **options).double()
    with torch.no_grad():
        for p in made.parameters():
            p.normal_(std=0.5)
    return made


def rotary_layer(**options):
    return layer(rotary=RotaryPositions(WIDTH, base=50.0), normalise=RMSNorm, **options)


def inputs(n=N, seed=3):
    g = torch.Generator().manual_seed(seed)
    return torch.randn(B, n, D, generator=g, dtype=torch.float64)


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


def oracle(
    made,
    x,
    mask,
    *,
    first=0,
    key_ahead=0,
    key_turn=1,
    norm_after=False,
    norm=True,
    group_of=lambda i, shared, kv: i // shared,
    turn_values=False,
):
    """One text in NumPy, a head and a pair at a time; the options are mistakes."""
    p = {name: t.detach().numpy() for name, t in made.named_parameters()}
    kv, shared, n, half = made.num_kv_heads, made.num_heads // made.num_kv_heads, len(x), WIDTH // 2

    def heads(name, count):
        rows = x @ p[f"{name}_projection.weight"].T + p[f"{name}_projection.bias"]
        return rows.reshape(n, count, WIDTH)

    def normalised(v, name):
        if f"{name}_norm.weight" not in p or not norm:
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
        if norm_after:
            return normalised(turned(v, position), name)
        return turned(normalised(v, name), position)

    q, k, v = heads("query", H), heads("key", kv), heads("value", kv)
    weights, joined = np.zeros((H, n, n)), np.zeros((n, H, WIDTH))
    for i in range(H):
        j = group_of(i, shared, kv)
        keys = [placed(k[s, j], "key", key_turn * (first + s + key_ahead)) for s in range(n)]
        values = [turned(v[s, j], first + s) if turn_values else v[s, j] for s in range(n)]
        for t in range(n):
            query, allowed = placed(q[t, i], "query", first + t), np.flatnonzero(mask[i, t])
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
            torch.testing.assert_close(got.context[b].detach(), expected, **EXACT)
            if need_weights:
                torch.testing.assert_close(got.weights[b].detach(), weights, **EXACT)
    assert got.weights is None


WRONG = {
    "heads of keys in turn": {"group_of": lambda i, shared, kv: i % kv},
    "keys one position ahead": {"key_ahead": 1},
    "keys turned the other way": {"key_turn": -1},
    "keys not turned": {"key_turn": 0},
    "values turned": {"turn_values": True},
    "no norm": {"norm": False},
}


@pytest.mark.parametrize("mistake", [None, *WRONG])
def test_known_wrong_heads_are_told_apart(mistake):
    made, x = rotary_layer(), inputs()
    expected, _ = oracle(
        made, x[0].numpy(), full(causal_mask(N))[0].numpy(), **WRONG.get(mistake, {})
    )
    difference = (made(x[:1], mask=causal_mask(N)).context[0].detach() - expected).abs().max()
    assert difference < 1e-10 if mistake is None else difference > 1e-3


def test_a_norm_with_weights_of_its_own_stands_before_the_rotation():
    made, x = rotary_layer(), inputs()
    wrong, _ = oracle(made, x[0].numpy(), full(None)[0].numpy(), norm_after=True)
    assert (made(x[:1]).context[0].detach() - wrong).abs().max() > 1e-3


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("make", [layer, rotary_layer, partial(rotary_layer, kv=1)])
def test_step_by_step_in_chunks_and_at_once_are_equal_and_the_cache_holds_the_fewer_heads(
    make, need_weights
):
    made, x = make(), inputs(9)
    whole = made(x, mask=causal_mask(9)).context
    cache, start = None, 0
    for m in (1, 1, 3, 1, 3):
        own = made.project(x[:, start : start + m], position=start)
        cache = own if cache is None else cache.extend(own)
        got = made(
            x[:, start : start + m],
            mask=causal_mask(m, start + m),
            projected=cache,
            position=start,
            need_weights=need_weights,
        )
        torch.testing.assert_close(got.context, whole[:, start : start + m], **EXACT)
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
        torch.testing.assert_close(got, expected, **EXACT)
    # keys that are given begin at 0
    later = made(x[:, 4:], x, mask=causal_mask(2, N), position=4).context
    torch.testing.assert_close(later, expected[:, 4:], **EXACT)


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
        torch.testing.assert_close(got, expected, **EXACT)


def test_it_is_pytorch_s_grouped_attention():
    made, x = layer(), inputs()
    q, k, v = (
        p(x).unflatten(-1, (-1, WIDTH)).transpose(1, 2)
        for p in (made.query_projection, made.key_projection, made.value_projection)
    )
    heads = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    expected = made.output_projection(heads.transpose(1, 2).flatten(-2))
    torch.testing.assert_close(made(x, mask=causal_mask(N)).context, expected, **EXACT)


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
        for j in range(2):
            rows = [old.weight[(3 * j + i) * WIDTH :][:WIDTH] for i in range(3)]
            torch.testing.assert_close(ours.weight[j * WIDTH :][:WIDTH], sum(rows) / 3, **EXACT)
            rows = [old.bias[(3 * j + i) * WIDTH :][:WIDTH] for i in range(3)]
            torch.testing.assert_close(ours.bias[j * WIDTH :][:WIDTH], sum(rows) / 3, **EXACT)
    assert full_layer.num_kv_heads == H and grouped.project(x).key.shape[1] == 2
    # where the heads of a group are alike, nothing is lost
    with torch.no_grad():
        for p in (full_layer.key_projection, full_layer.value_projection):
            for t in (p.weight, p.bias):
                t.copy_(
                    t.unflatten(0, (2, 3, -1))[:, :1]
                    .expand_as(t.unflatten(0, (2, 3, -1)))
                    .flatten(0, 2)
                )
    alike = group_by_means(full_layer, 2)
    torch.testing.assert_close(alike(x).context, full_layer(x).context, **EXACT)
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
    torch.testing.assert_close(twin(x).context, expected, **EXACT)


def test_blocks_of_local_attention_are_turned_too():
    made = LocalAttention(D, H, block_length=4, d_head=WIDTH, rotary=RotaryPositions(WIDTH))
    made, x = made.double(), inputs()
    same_block = (torch.arange(N) // 4 == torch.arange(N)[:, None] // 4) & causal_mask(N)
    plain = MultiHeadAttention(D, H, d_head=WIDTH, rotary=RotaryPositions(WIDTH)).double()
    plain.load_state_dict(made.state_dict())
    expected, cache = plain(x, mask=same_block).context, None
    torch.testing.assert_close(made(x, mask=causal_mask(N)).context, expected, **EXACT)
    for t in range(N):
        own = made.project(x[:, t : t + 1], position=t)
        cache = own if cache is None else cache.extend(own)
        got = made(x[:, t : t + 1], projected=cache, position=t).context
        torch.testing.assert_close(got, expected[:, t : t + 1], **EXACT)


def test_compiled_and_mapped():
    made, x = rotary_layer(), inputs()
    run = lambda x: made(x, mask=causal_mask(N), need_weights=False).context  # noqa: E731
    compiled = torch.compile(run, fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(x), run(x), **EXACT)
    torch.testing.assert_close(torch.func.vmap(run)(x[:, None])[:, 0], run(x), **EXACT)


def test_wrong_arguments_are_named():
    x = torch.randn(2, 3, 12)
    turned = MultiHeadAttention(12, 3, rotary=RotaryPositions(4))
    for begin, call in (
        ("num_kv_heads must divide num_heads", lambda: MultiHeadAttention(12, 3, num_kv_heads=2)),
        ("num_kv_heads", lambda: MultiHeadAttention(12, 3, num_kv_heads=0)),
        ("rotary must", lambda: MultiHeadAttention(12, 3, rotary=RotaryPositions(6))),
        ("position", lambda: turned(x, position=torch.tensor([0, 1, 2]))),
        ("position", lambda: turned(x[0], position=torch.tensor([0, 1]))),
        ("num_kv_heads must divide the", lambda: group_by_means(MultiHeadAttention(12, 3), 2)),
        (
            "layer must be one that groups",
            lambda: group_by_means(LocalAttention(12, 3, block_length=2), 1),
        ),
    ):
        assert_refused(begin, call)


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
