"""Multi-head latent attention against loops in NumPy, and against the published class."""

import math

import numpy as np
import pytest
import torch
from assertions import refusals
from torch import nn
from watching import LargestTensor

from attnbook import (
    LatentAttention,
    MultiHeadAttention,
    RotaryPositions,
    cache_bytes,
    causal_mask,
    padding_mask,
)

from ..agreement import assert_same, drawn, randomised, slopes

B, H, N, D, LATENT, HEAD, ROTARY, VALUE, QUERY_LATENT = 2, 3, 6, 9, 8, 6, 4, 2, 5


def layer(queries=QUERY_LATENT, seed=0):
    rotary = RotaryPositions(ROTARY, layout="interleaved")
    widths = dict(d_latent=LATENT, d_head=HEAD, d_head_value=VALUE, d_query_latent=queries)
    return randomised(LatentAttention(D, H, rotary=rotary, **widths), seed)


def inputs(n=N, seed=1):
    return drawn(B, n, D, seed=seed)


def masks():
    nothing = causal_mask(N).repeat(B, 1, 1)
    nothing[1, 2] = False
    heads = torch.rand(B, H, N, N, generator=torch.Generator().manual_seed(3)) < 0.7
    heads[..., 0] = True
    return {
        "none": None,
        "causal": causal_mask(N),
        "nothing": nothing,
        "padding": padding_mask(torch.tensor([4, N]), N)[:, None],
        "heads": heads,
    }


def normed(x, weight, wrong):
    if wrong == "without the norms":
        return x
    weight = 1.0 if wrong == "norm without its gain" else weight
    return weight * x / np.sqrt((x**2).mean() + 1e-6)


def turned(x, position, wrong):
    out, k = np.zeros_like(x), len(x) // 2
    for i in range(k):
        a, b = (i, i + k) if wrong == "pairs of halves" else (2 * i, 2 * i + 1)
        angle = position * 10_000.0 ** (-2 * i / len(x))
        angle = -angle if wrong == "turned the other way" else angle
        out[a] = x[a] * math.cos(angle) - x[b] * math.sin(angle)
        out[b] = x[a] * math.sin(angle) + x[b] * math.cos(angle)
    return out


def oracle(made, x, mask=None, wrong=""):
    """Position by position and head by head, equations 9 to 19; or a mistake of WRONG."""
    p = {name: t.detach().numpy() for name, t in made.state_dict().items()}
    x = x.detach().numpy()
    mask = np.ones((1, 1, 1), bool) if mask is None else mask.numpy()
    mask = mask[:, None] if mask.ndim == 3 else mask
    mask = np.broadcast_to(mask, (len(x), H, x.shape[1], x.shape[1]))
    output, weights = np.zeros(x.shape), np.zeros(mask.shape)
    scale = math.sqrt(HEAD if wrong == "scaled by the root of d_head alone" else HEAD + ROTARY)
    for b in range(len(x)):
        queries, keys, values = [], [], []
        for j, row in enumerate(x[b]):
            joined, gain = p["compression.weight"] @ row, p["latent_norm.weight"]
            if wrong == "norm over latent and rotary key together":
                joined = normed(joined, np.concatenate([gain, np.ones(ROTARY)]), wrong)
                c, r = joined[:LATENT], joined[LATENT:]
            else:
                c, r = normed(joined[:LATENT], gain, wrong), joined[LATENT:]
            r = r if wrong == "rotary key not turned" else turned(r, j, wrong)
            both = (p["expansion.weight"] @ c).reshape(H, HEAD + VALUE)
            k, v = both[:, :HEAD], both[:, HEAD:]
            if wrong == "values before keys in the expansion":
                k, v = both[:, VALUE:], both[:, :VALUE]
            keys.append([np.concatenate([k[i], r]) for i in range(H)])
            values.append(v)
            q = row
            if "query_compression.weight" in p:
                q = normed(p["query_compression.weight"] @ row, p["query_norm.weight"], wrong)
            q = (p["query_projection.weight"] @ q).reshape(H, HEAD + ROTARY)
            queries.append([np.append(each[:HEAD], turned(each[HEAD:], j, wrong)) for each in q])
        for t in range(x.shape[1]):
            heads = np.zeros((H, VALUE))
            for i in range(H):
                e = np.exp([queries[t][i] @ key[i] / scale for key in keys]) * mask[b, i, t]
                weights[b, i, t] = e / max(sum(e), 1e-300)
                heads[i] = sum(w * v[i] for w, v in zip(weights[b, i, t], values))
            output[b, t] = p["output_projection.weight"] @ heads.flatten()
    return torch.tensor(output), torch.tensor(weights)


@pytest.fixture(params=[False, True], ids=["plain", "absorbed"])
def absorbed(request, monkeypatch):
    monkeypatch.setattr(LatentAttention, "_is_cheaper_absorbed", lambda *_: request.param)
    return request.param


@pytest.mark.parametrize("kind", masks())
@pytest.mark.parametrize("queries", [QUERY_LATENT, None])
def test_context_and_weights_equal_the_oracle(kind, queries, absorbed):
    made, x, mask = layer(queries), inputs(), masks()[kind]
    expected, weights = oracle(made, x, mask)
    found = made(x, mask=mask)
    assert_same(found.context, expected)
    assert_same(found.weights, weights)
    lean = made(x, mask=mask, need_weights=False)
    assert_same(lean.context, expected)
    low = made.float()(x.float(), mask=mask).context.double()
    torch.testing.assert_close(low, expected, atol=1e-5 * expected.abs().max().item(), rtol=0)


def test_both_ways_have_the_same_gradients_and_those_of_differences(monkeypatch):
    made, mask, results = layer(), masks()["nothing"], []
    for way in (False, True):
        monkeypatch.setattr(LatentAttention, "_is_cheaper_absorbed", lambda *_, way=way: way)
        for need_weights in (True, False):
            x = inputs().requires_grad_()
            context = made(x, mask=mask, need_weights=need_weights).context
            results.append(slopes(context, [x, *made.parameters()]))
        run = lambda x: made(x, mask=mask).context  # noqa: E731
        assert torch.autograd.gradcheck(run, inputs().requires_grad_(), fast_mode=True)
    for other in results[1:]:
        assert_same(other, results[0])


WRONG = ["scaled by the root of d_head alone", "without the norms", "norm without its gain"]
WRONG += ["norm over latent and rotary key together", "pairs of halves", "rotary key not turned"]
WRONG += ["turned the other way", "values before keys in the expansion"]


@pytest.mark.parametrize("wrong", ["", *WRONG])
def test_known_wrong_versions_are_told_apart(wrong, absorbed):
    made, x, mask = layer(), inputs(), causal_mask(N)
    expected, _ = oracle(made, x, mask[None], wrong)
    difference = (made(x, mask=mask).context - expected).abs().max()
    assert difference > 1e-2 if wrong else difference < 1e-10


def test_decoding_from_a_cache_equals_the_whole(absorbed):
    made, x = layer(), inputs()
    complete = made(x, mask=causal_mask(N)).context
    cache = made.project(x[:, :3])
    for t in range(3, N):
        cache = cache.extend(made.project(x[:, t : t + 1], position=t))
        assert cache.compressed.shape == (B, t + 1, LATENT + ROTARY)
        step = made(x[:, t : t + 1], projected=cache, position=t).context
        assert_same(step, complete[:, t : t + 1])
    several = made(x[:, 4:], mask=causal_mask(N - 4, N), projected=cache, position=4).context
    assert_same(several, complete[:, 4:])
    # each row of the batch from a position of its own, and all moved: distances alone count
    each = torch.tensor([2, 40])
    assert_same(made(x, mask=causal_mask(N), position=each).context, complete)
    half_moved = made(x, projected=made.project(x, position=each)).context
    assert (half_moved - made(x).context).abs().max() > 1e-2


def test_leading_dimensions_and_what_is_masked_may_be_anything(absorbed):
    made, x = layer(), inputs()
    expected = made(x, mask=causal_mask(N)).context
    assert_same(made(x[0], mask=causal_mask(N)).context, expected[0])
    many = made(x[None, None].expand(2, 1, -1, -1, -1), mask=causal_mask(N)).context
    assert_same(many, expected.expand(2, 1, -1, -1, -1))
    spoilt = x.clone()
    spoilt[:, -1] = math.nan
    context = made(spoilt, mask=causal_mask(N)).context
    assert_same(context[:, :-1], expected[:, :-1])


test_wrong_arguments_are_named = refusals(
    ("rotary", lambda: LatentAttention(9, 3, rotary=None, d_latent=8, d_head=6)),
    ("projected", lambda: layer()(inputs(), projected=(inputs(), inputs()))),
    ("x must have", lambda: layer()(inputs()[..., 1:])),
    ("x must be", lambda: layer()(inputs().float())),
)


@pytest.mark.parametrize(("m", "n", "right"), [(1, 500, True), (500, 500, False), (1, 1, False)])
def test_the_way_with_fewer_multiplications_is_taken(m, n, right):
    made = LatentAttention(64, 4, d_latent=64, d_head=16, rotary=RotaryPositions(8))
    x, cache = torch.randn(1, m, 64), made.project(torch.randn(1, n, 64))
    with LargestTensor() as made_tensors, torch.no_grad():
        made(x, projected=cache)
    # the plain way expands the keys and values of 4 heads of 16 + 16, n × 128 numbers; the cache
    # has n × 72
    assert (made_tensors.numel < n * 72) == right
    assert made._is_cheaper_absorbed(m, n) == right


def test_the_cache_of_each_kind_takes_so_many_bytes():
    """DeepSeek-V2: 128 heads of 128, a latent vector of 512 and a rotary key of 64."""
    with torch.device("meta"):
        heads = [MultiHeadAttention(512, 128, d_head=128, num_kv_heads=g) for g in (128, 8, 1)]
        latent = LatentAttention(512, 128, d_latent=512, d_head=128, rotary=RotaryPositions(64))
    found = [cache_bytes(made, torch.float16) for made in (*heads, latent)]
    assert found == [2 * 2 * 128 * 128, 2 * 2 * 8 * 128, 2 * 2 * 128, 2 * (512 + 64)]
    source = layer().project(inputs(1))
    assert cache_bytes(layer(), torch.float64) == source.compressed.nbytes // B


PUBLISHED = {
    "query_projection": "q_b_proj",
    "query_compression": "q_a_proj",
    "query_norm": "q_a_layernorm",
    "compression": "kv_a_proj_with_mqa",
    "latent_norm": "kv_a_layernorm",
    "expansion": "kv_b_proj",
    "output_projection": "o_proj",
}


def rotated_in_float64(*arguments):
    *both, rotation = arguments
    pairs = (torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2)) for x in both)
    return tuple(torch.view_as_real(x * rotation.unsqueeze(1)).flatten(3) for x in pairs)


@pytest.mark.parametrize("queries", [QUERY_LATENT, None])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_it_equals_the_published_class(queries, dtype, absorbed, monkeypatch):
    pytest.importorskip("transformers")
    from transformers import DeepseekV2Config
    from transformers.models.deepseek_v2 import modeling_deepseek_v2 as published

    if dtype == torch.float64:  # the published parts compute in float32, whatever comes
        monkeypatch.setattr(published, "DeepseekV2RMSNorm", lambda d: nn.RMSNorm(d, eps=1e-6))
        monkeypatch.setattr(published, "apply_rotary_emb", rotated_in_float64)
    widths = dict(q_lora_rank=queries, kv_lora_rank=LATENT, qk_nope_head_dim=HEAD, v_head_dim=VALUE)
    heads = dict(num_attention_heads=H, num_key_value_heads=H)
    heads |= dict(qk_rope_head_dim=ROTARY, head_dim=ROTARY)
    config = DeepseekV2Config(hidden_size=D, **heads, **widths, attn_implementation="sdpa")
    theirs = published.DeepseekV2Attention(config, layer_idx=0).to(dtype)
    ours, x = layer(queries).to(dtype), inputs().to(dtype)
    names = dict(PUBLISHED, **({} if queries else {"query_projection": "q_proj"}))
    theirs.load_state_dict(
        {f"{names[k.split('.')[0]]}.weight": t for k, t in ours.state_dict().items()}
    )
    angles = torch.arange(N)[:, None] * 10_000.0 ** (-torch.arange(0, ROTARY, 2).double() / ROTARY)
    rotation = torch.polar(torch.ones_like(angles), angles)[None].to(dtype.to_complex())
    hidden = torch.zeros(1, 1, N, N, dtype=dtype).masked_fill(~causal_mask(N), -torch.inf)
    expected = theirs(x, attention_mask=hidden, position_embeddings=rotation)[0]
    bound = 1e-5 if dtype == torch.float32 else 1e-10
    found = ours(x, mask=causal_mask(N)).context
    torch.testing.assert_close(found, expected, atol=bound, rtol=bound)
