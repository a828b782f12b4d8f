"""Layers of linear attention and the mixer of Mamba-2: against NumPy, in parts, with padding."""

import catalogue
import numpy as np
import pytest
import torch
from assertions import refusals

from attnbook import LINEAR_ATTENTIONS, LinearAttention, Mamba2Mixer, ShortConvolution, causal_mask

from ..agreement import assert_same, drawn, randomised
from .oracle import recurrence

B, N, D, H, DV = 2, 7, 12, 3, 5
NAMES = [*LINEAR_ATTENTIONS, "mamba2"]


def layer(name):
    if name == "mamba2":
        return randomised(Mamba2Mixer(D, d_state=5, d_head=4, num_groups=2, kernel_size=3))
    return randomised(LinearAttention(D, H, d_head_value=DV, **LINEAR_ATTENTIONS[name]))


def draw(n=N, seed=0):
    return drawn(B, n, D, seed=seed)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def silu(x):
    return x * sigmoid(x)


def convolved(x, weight, bias=0.0):
    size = weight.shape[1]
    past = np.concatenate([np.zeros((size - 1, x.shape[1])), x])
    rows = [sum(w * r for w, r in zip(weight.T, past[t : t + size])) for t in range(len(x))]
    return silu(np.stack(rows) + bias)


def rms(x, eps):
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + eps)


def decay_of(p, x, prefix="head_decay."):
    step = np.log1p(np.exp(x + p[prefix + "bias"]))
    return step, np.exp(-np.exp(p[prefix + "log_rate"]) * step)


def attention_oracle(name, p, x):
    """One sequence (n, d) through a layer of that name, from the formulas of its paper."""
    y = x @ p["input_projection.weight"].T
    if "delta" in name:
        y = convolved(y, p["convolution.weight"])
    q, k, v = (y[:, :D], y[:, D : 2 * D], y[:, 2 * D :])
    cut = [t.reshape(len(x), H, -1) for t in (q, k, v)]
    alpha = beta = None
    if name == "retention":
        alpha = np.tile(1 - 2.0 ** (-5 - np.arange(H)), (len(x), 1))
    if name == "gated":
        low = x @ p["decay_projection.0.weight"].T
        gates = low @ p["decay_projection.1.weight"].T + p["decay_projection.1.bias"]
        alpha = sigmoid(gates).reshape(len(x), H, -1) ** (1 / 16)
    if name == "gated_delta":
        alpha = decay_of(p, x @ p["decay_projection.weight"].T)[1]
    if "delta" in name:
        beta = sigmoid(x @ p["strength_projection.weight"].T)
    heads = []
    for h in range(H):
        q, k, v = (t[:, h] for t in cut)
        if name == "linear":
            q, k = (np.where(t > 0, t + 1, np.exp(t)) for t in (q, k))
        if "delta" in name:
            q, k = (t / np.sqrt((t**2).sum(-1, keepdims=True) + 1e-6) for t in (silu(q), silu(k)))
        a, b = (None if t is None else t[:, h] for t in (alpha, beta))
        o, _ = recurrence(q, k, v, alpha=a, beta=b, normalise=name == "linear")
        heads.append(o if name == "linear" else rms(o, 1e-6) * p["norm.weight"])
    o = np.concatenate(heads, -1)
    if "gate_projection.weight" in p:
        o = o * silu(x @ p["gate_projection.weight"].T)
    return o @ p["output_projection.weight"].T


def mamba_oracle(p, x):
    """Two groups of three heads of width 4, and 5 features in the state."""
    z, mixed, steps = np.split(x @ p["input_projection.weight"].T, [24, 24 + 44], axis=-1)
    mixed = convolved(mixed, p["convolution.weight"], p["convolution.bias"])
    u, key, query = np.split(mixed, [24, 34], axis=-1)
    step, alpha = decay_of(p, steps)
    heads = []
    for h in range(6):
        rows, group = u[:, 4 * h : 4 * h + 4], slice(5 * (h // 3), 5 * (h // 3) + 5)
        q, k, v = query[:, group], key[:, group], step[:, h, None] * rows
        heads.append(recurrence(q, k, v, alpha=alpha[:, h])[0] + p["skip"][h] * rows)
    o = np.concatenate(heads, -1) * silu(z)
    o = np.concatenate([rms(o[:, :12], 1e-5), rms(o[:, 12:], 1e-5)], -1) * p["norm_weight"]
    return o @ p["output_projection.weight"].T


@pytest.mark.parametrize("name", NAMES)
def test_a_layer_equals_its_formulas(name):
    made, x = layer(name), draw()
    p = {key: value.detach().numpy() for key, value in made.named_parameters()}
    run = mamba_oracle if name == "mamba2" else lambda p, x: attention_oracle(name, p, x)
    right = torch.from_numpy(np.stack([run(p, row.numpy()) for row in x]))
    assert_same(made(x).context, right)


@pytest.mark.parametrize("name", NAMES)
def test_parts_and_single_steps_with_the_state_give_the_whole(name):
    made, x = layer(name), draw()
    whole = made(x, mask=causal_mask(N))
    state, contexts, at = None, [], 0
    for m in (3, 1, 1, 2):
        # as a block with a cache asks: these are the last m of the positions so far
        context, state = made(x[:, at : at + m], mask=causal_mask(m, at + m), state=state)
        contexts.append(context)
        at += m
    assert_same(torch.cat(contexts, 1), whole.context)
    assert_same(state, whole.state)


def test_of_a_mask_over_more_positions_the_last_are_those_of_x():
    made, x = layer("linear"), draw(3)
    hidden = torch.arange(8) >= 2  # in the cache, before these three
    assert_same(made(x, mask=hidden.view(1, 1, 8)), made(x))


@pytest.mark.parametrize("name", NAMES)
def test_padding_before_or_behind_changes_nothing_and_gets_zeros(name):
    made, x = layer(name), draw(4)
    whole, more = made(x), draw(3, seed=1)
    after = made(more, state=whole.state).context
    nothing = torch.full((B, 2, D), torch.nan, dtype=torch.float64)
    for parts, there in (((nothing, x), torch.arange(6) >= 2), ((x, nothing), torch.arange(6) < 4)):
        padded = torch.cat(parts, 1).requires_grad_()
        context, state = made(padded, mask=there.expand(B, 1, 6))
        assert_same(context[:, there], whole.context)
        assert (context[:, ~there] == 0).all()
        assert_same(made(more, state=state).context, after)
        slopes = torch.autograd.grad(context.sum(), [padded, *made.parameters()], allow_unused=True)
        assert all(s is None or bool(s.isfinite().all()) for s in slopes)
        assert (slopes[0][:, ~there] == 0).all()


def test_texts_of_different_lengths_in_a_batch_are_as_each_alone():
    made, x = layer("gated_delta"), draw(5)
    lengths = torch.tensor([5, 2])
    there = (torch.arange(5) < lengths[:, None])[:, None]
    _, state = made(x, mask=there & causal_mask(5))
    for row, length in enumerate(lengths.tolist()):
        alone = made(x[row : row + 1, :length]).state
        assert_same(tuple(t[row : row + 1] for t in state), tuple(alone))


def test_the_state_has_one_size_whatever_the_length():
    made = LinearAttention(D, H)
    shapes = {tuple(made(draw(n).float()).state.memory.shape) for n in (1, 5, 70)}
    assert shapes == {(B, H, D // H, D // H + 1)}


test_errors_name_the_argument = refusals(
    ("d_model", lambda: LinearAttention(12, 5)),
    ("decay", lambda: LinearAttention(12, 3, decay="slow")),
    ("normalise", lambda: LinearAttention(12, 3, delta=True)),
    ("expand · d_model", lambda: Mamba2Mixer(12, d_head=5)),
    ("num_groups", lambda: Mamba2Mixer(12, d_head=4, num_groups=4)),
    ("x", lambda: layer("linear")(torch.ones(1, 4, 11).double())),
    ("mask must be for", lambda: layer("linear")(draw(), mask=causal_mask(3))),
    ("past", lambda: ShortConvolution(4, 3)(torch.ones(2, 4), torch.ones(1, 4))),
)


PUBLISHED = {
    "in_proj.weight": "input_projection.weight",
    "conv1d.weight": "convolution.weight",
    "conv1d.bias": "convolution.bias",
    "A_log": "head_decay.log_rate",
    "dt_bias": "head_decay.bias",
    "D": "skip",
    "norm.weight": "norm_weight",
    "out_proj.weight": "output_projection.weight",
}


@pytest.mark.slow  # to import the package
def test_the_mixer_equals_the_published_class():
    transformers = pytest.importorskip("transformers", reason="the extra of published classes")
    from transformers.models.mamba2 import modeling_mamba2

    sizes = dict(hidden_size=16, num_heads=8, head_dim=4, state_size=6, n_groups=2, expand=2)
    config = transformers.Mamba2Config(**sizes, chunk_size=4, num_hidden_layers=1)
    torch.manual_seed(0)
    theirs = modeling_mamba2.Mamba2Mixer(config, 0).eval()
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter += 0.3 * torch.randn_like(parameter)
    ours = Mamba2Mixer(16, d_state=6, d_head=4, num_groups=2)
    state = theirs.state_dict()
    state["conv1d.weight"] = state["conv1d.weight"].squeeze(1)
    ours.load_state_dict({PUBLISHED[name]: tensor for name, tensor in state.items()})
    x = torch.randn(2, 11, 16)
    torch.testing.assert_close(ours(x).context, theirs(x), atol=1e-5, rtol=1e-5)
    there = torch.arange(11) >= torch.tensor([[0], [4]])  # padding before, as it is generated
    right = theirs(x, attention_mask=there.long())
    found = ours(x, mask=there[:, None]).context
    torch.testing.assert_close(found[there], right[there], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", ["LinearAttention", "Mamba2Mixer"])
def test_what_is_read_from_left_to_right_refuses_to_look_ahead(name):
    layer, x = catalogue.make(name).module, torch.randn(1, 5, catalogue.D)
    assert torch.equal(layer(x, is_causal=True).context, layer(x).context)
    for call in (layer, layer.read):
        for given in ({}, {"mask": torch.ones(1, 5, dtype=torch.bool)}):
            with pytest.raises(ValueError, match="is_causal must be True.* got False"):
                call(x, is_causal=False, **given)
        # what a mask of pairs says, and one position, is causal anyway
        assert torch.equal(call(x, is_causal=False, mask=causal_mask(5))[0], layer(x).context)
        call(x[:, :1], is_causal=False)
