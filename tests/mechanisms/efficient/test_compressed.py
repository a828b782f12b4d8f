"""Memory-compressed attention and Linformer against loops from their formulas; nothing comes
back from later positions.
"""

import copy
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from refusing import assert_refused
from watching import saved_bytes

from attnbook import (
    GeneralScore,
    LinformerAttention,
    MemoryCompressedAttention,
    MultiHeadAttention,
    causal_mask,
    padding_mask,
)
from attnbook.mechanisms import LengthProjection

from ..agreement import EXACT, assert_agree, randomised

B, N, D, H = 2, 8, 12, 3
W = D // H


def heads(linear, x):
    return linear(x).view(*x.shape[:-1], H, W).transpose(-3, -2)


def attended(made, q, k, v, allowed):
    """Softmax over allowed keys (B, 1, m, c), heads joined, zeros for a query that sees nothing."""
    if k.shape[-2] == 0:
        return 0 * q.transpose(1, 2).flatten(2), q[..., :0]
    weights = (q @ k.mT / math.sqrt(W)).masked_fill(~allowed, -math.inf).softmax(-1).nan_to_num()
    return made.output_projection((weights @ v).transpose(1, 2).flatten(2)) * allowed.any(-1)[
        :, 0, :, None
    ], weights


# Memory-compressed


def compressed(kernel=3, stride=3, seed=0, **options):
    torch.manual_seed(seed)
    return randomised(MemoryCompressedAttention(D, H, kernel_size=kernel, stride=stride, **options))


def compressed_oracle(made, x, mask, first=0, see=all):
    """Stretch by stretch, tap by tap; a stretch is allowed where the mask allows `see` of its
    positions.
    """
    k, v = made.key_projection(x), made.value_projection(x)
    n, starts = x.shape[1], range(first, x.shape[1] - made.kernel_size + 1, made.stride)

    def squeeze(rows, layer):
        outcome = [
            layer.bias
            + sum(rows[:, s + i] @ layer.weight[:, :, i].T for i in range(made.kernel_size))
            for s in starts
        ]
        return (
            torch.stack(outcome, 1).view(len(x), -1, H, W).transpose(1, 2)
            if outcome
            else rows.new_zeros(len(x), H, 0, W)
        )

    mask = (torch.ones(1, 1, dtype=torch.bool) if mask is None else mask).expand(len(x), n, n)
    allowed = torch.tensor(
        [
            [
                [see([bool(mask[b, t, s + i]) for i in range(made.kernel_size)]) for s in starts]
                for t in range(n)
            ]
            for b in range(len(x))
        ],
        dtype=torch.bool,
    ).view(len(x), 1, n, len(starts))
    return attended(
        made,
        heads(made.query_projection, x),
        squeeze(k, made.key_compression),
        squeeze(v, made.value_compression),
        allowed,
    )


def masks():
    words = padding_mask(torch.tensor([5, 8]), N)[:, None]
    some = torch.rand(B, N, N, generator=torch.Generator().manual_seed(0)) < 0.8
    return {
        "none": None,
        "padding": words,
        "causal": causal_mask(N),
        "both": words & causal_mask(N),
        "rows": words.mT,
        "some": some,
        "one row": torch.arange(N) > 3,
        "never": torch.zeros(1, 1, dtype=torch.bool),
    }


@pytest.mark.parametrize("kind", masks())
@pytest.mark.parametrize("size", [(3, 3), (1, 1), (3, 2), (4, 1), (8, 8), (9, 9)], ids=str)
@pytest.mark.parametrize("need_weights", [True, False])
def test_compressed_value_and_gradient_equal_the_oracle(kind, size, need_weights):
    made, mask = compressed(*size), masks()[kind]
    assert_agree(
        lambda x: made(x, mask=mask, need_weights=need_weights),
        lambda x: compressed_oracle(made, x, mask),
        (B, N, D),
        [*made.parameters()],
        need_weights,
    )


def test_a_query_sees_whole_stretches_of_its_past_alone_and_the_first_ones_see_nothing():
    made, x = compressed(), torch.randn(1, N, D, dtype=torch.float64, requires_grad=True)
    context, weights = made(x, mask=causal_mask(N))
    assert (weights[0, 0] > 0).tolist() == [[t >= 2, t >= 5] for t in range(N)]
    assert (context[0, :2] == 0).all() and (context[0, 2:] != 0).any(-1).all()
    for t in range(N):
        (grad,) = torch.autograd.grad(context[0, t].sum(), x, retain_graph=True)
        # what is compressed, and the query itself
        reached = set(range(3 * ((t + 1) // 3))) | ({t} if t >= 2 else set())
        assert {j for j in range(N) if grad[0, j].any()} <= reached
        assert t >= 2 or not grad.any()


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.integers(1, 5), min_size=1, max_size=5),
    st.sampled_from([(3, 3), (3, 2), (2, 1), (5, 5)]),
    st.integers(0, 99),
)
def test_a_text_in_pieces_is_the_text_at_once(pieces, size, seed):
    n, made = sum(pieces), compressed(*size, seed=seed)
    x = torch.randn(1, n, D, dtype=torch.float64)
    full, cache, start = made(x, mask=causal_mask(n)), None, 0
    for m in pieces:
        part = x[:, start : start + m]
        cache = made.project(part) if cache is None else cache.extend(made.project(part))
        start += m
        outcome = made(part, mask=causal_mask(m, start), projected=cache)
        torch.testing.assert_close(outcome.context, full.context[:, start - m : start], **EXACT)
        torch.testing.assert_close(
            outcome.weights,
            full.weights[:, :, start - m : start, : outcome.weights.shape[-1]],
            **EXACT,
        )
    assert cache.length == n


def test_a_cache_compresses_each_stretch_once():
    made, x = compressed(), torch.randn(1, 9, D).double()
    cache, rows = made.project(x[:, :1]), []
    made.key_compression.register_forward_hook(
        lambda layer, inputs, result: rows.append(result.shape[-1])
    )
    for t in range(1, 9):
        cache = cache.extend(made.project(x[:, t : t + 1]))
    assert rows == [1, 1] and cache.settled().key.shape[-2] == 3 and cache.waiting[0].shape[-2] == 3


def test_compression_of_one_position_by_an_identity_is_plain_attention():
    made, x = compressed(1, 1, bias=True), torch.randn(B, N, D).double()
    with torch.no_grad():
        for layer in (made.key_compression, made.value_compression):
            layer.weight.copy_(torch.eye(D).double()[:, :, None]), layer.bias.zero_()
    plain = MultiHeadAttention(D, H).double()
    plain.load_state_dict(
        {name: t for name, t in made.state_dict().items() if "compression" not in name}
    )
    torch.testing.assert_close(made(x, mask=causal_mask(N)), plain(x, mask=causal_mask(N)), **EXACT)


def test_the_sizes_of_the_paper_are_the_default():
    made = MemoryCompressedAttention(4, 2)
    assert made.key_compression.weight.shape == (4, 4, 3) and made.stretches(7) == 2


def test_other_widths_scores_leading_dimensions_and_bfloat16():
    torch.manual_seed(0)
    made = MemoryCompressedAttention(
        D, H, d_head=5, d_head_value=2, score=GeneralScore(5, 5)
    ).double()
    x = torch.randn(2, 3, N, D).double()
    outcome = made(x, mask=causal_mask(N))
    assert outcome.context.shape == (2, 3, N, D) and outcome.weights.shape == (2, 3, H, N, 2)
    torch.testing.assert_close(outcome.context[1], made(x[1], mask=causal_mask(N)).context, **EXACT)
    low = MemoryCompressedAttention(D, H)
    x = torch.randn(B, N, D)
    with torch.autocast("cpu", torch.bfloat16):
        half = low(x, mask=causal_mask(N)).context
    torch.testing.assert_close(
        half.float(), low(x, mask=causal_mask(N)).context, atol=0.05, rtol=0.05
    )
    assert (low(x[:, :2], mask=causal_mask(2)).context == 0).all() and low(
        x[:, :2]
    ).weights.shape == (B, H, 2, 0)


def _overlapping(mask):
    """Stretches that begin in the past count as seen."""
    return mask.unfold(-1, 3, 3).any(-1)


def _shifted(mask):
    """The end of a stretch forgotten by one."""
    return mask[..., 1::3][..., : mask.shape[-1] // 3]


def _everything(mask):
    return mask.unfold(-1, 3, 3).any(-1) | True


@pytest.mark.parametrize(
    "wrong", [_overlapping, _shifted, _everything], ids=lambda f: f.__name__.strip("_")
)
def test_known_wrong_masks_let_the_future_in(wrong):
    made = compressed()

    def leaks(layer):
        x = torch.randn(1, N, D, dtype=torch.float64, requires_grad=True)
        context = layer(x, mask=causal_mask(N)).context[0]
        grads = [
            torch.autograd.grad(context[t].sum(), x, retain_graph=True)[0][0] for t in range(N)
        ]
        return any(grad[t + 1 :].any() for t, grad in enumerate(grads))

    assert not leaks(made)
    made._over_stretches = wrong
    assert leaks(made)


def test_a_head_that_sees_half_of_a_stretch_sees_nothing_of_it_whatever_the_others_see():
    made, x = compressed(2, 2), torch.randn(1, 4, D, dtype=torch.float64)
    halves = torch.tensor(
        [[True, False, False, True], [False, True, True, False], [True, False, True, False]]
    )[:, None].repeat(1, 4, 1)
    outcome = made(x, mask=halves[None])
    assert outcome.weights.abs().max() == 0 and outcome.context.abs().max() == 0
    halves[1, 2] = True  # all of both stretches, for one query in one head
    outcome = made(x, mask=halves[None])
    assert (outcome.weights != 0).any(-1).nonzero().tolist() == [[0, 1, 2]]
    assert (outcome.context != 0).any(-1).tolist() == [[False, False, True, False]]
    # no stretch at all
    assert made(x[:, :1], mask=torch.ones(1, H, 1, 1, dtype=torch.bool)).context.abs().max() == 0


def test_compressed_errors_name_the_argument():
    assert_refused("stride", MemoryCompressedAttention, D, H, kernel_size=2, stride=3)
    assert_refused("kernel_size", MemoryCompressedAttention, D, H, kernel_size=0)
    assert_refused(
        "mask",
        lambda: MemoryCompressedAttention(D, H)(
            torch.randn(1, 4, D), mask=torch.ones(4, 1, dtype=torch.bool).float()
        ),
    )


# Linformer


def linformer(seed=0, **options):
    torch.manual_seed(seed)
    return randomised(LinformerAttention(D, H, **{"length": 10, "rank": 4, **options}))


def linformer_oracle(made, x, words):
    """Equation 7 with loops over heads and mixtures; words (B, n) says which positions are
    there.
    """
    outputs, saved = [], []
    for b in range(len(x)):
        q, k, v = (
            heads(layer, x[b])
            for layer in (made.query_projection, made.key_projection, made.value_projection)
        )
        per_head, per_weight = [], []
        for h in range(H):
            e, f = (
                m.weight[h] if m.weight.dim() == 3 else m.weight
                for m in (made.key_mixture, made.value_mixture)
            )
            keys, values = (
                torch.stack(
                    [
                        sum(
                            (mixture[r, j] * rows[h, j] for j in range(x.shape[1]) if words[b, j]),
                            torch.zeros(W).double(),
                        )
                        for r in range(len(mixture))
                    ]
                )
                for mixture, rows in ((e, k), (f, v))
            )
            weights = (q[h] @ keys.T / math.sqrt(W)).softmax(-1) * bool(words[b].any())
            per_head.append(weights @ values), per_weight.append(weights)
        (
            outputs.append(made.output_projection(torch.cat(per_head, -1)) * bool(words[b].any())),
            saved.append(torch.stack(per_weight)),
        )
    return torch.stack(outputs), torch.stack(saved)


@pytest.mark.parametrize("sharing", ["none", "headwise", "key-value", "layerwise"])
@pytest.mark.parametrize("lengths", [None, (8, 5), (3, 0)], ids=str)
@pytest.mark.parametrize("need_weights", [True, False])
def test_linformer_value_and_gradient_equal_the_oracle(sharing, lengths, need_weights):
    options = (
        {"length": None, "rank": None, "projection": LengthProjection(10, 4)}
        if sharing == "layerwise"
        else {"sharing": sharing}
    )
    made = linformer(**options)
    words = (
        torch.ones(B, N, dtype=torch.bool)
        if lengths is None
        else padding_mask(torch.tensor(lengths), N)
    )
    mask = None if lengths is None else words[:, None]
    assert_agree(
        lambda x: made(x, mask=mask, need_weights=need_weights),
        lambda x: linformer_oracle(made, x, words),
        (B, N, D),
        [*made.parameters()],
        need_weights,
    )


def test_what_is_shared_and_what_it_costs():
    sizes = {
        name: sum(p.numel() for p in linformer(sharing=name).parameters()) - 4 * (D * D + D)
        for name in ("none", "headwise", "key-value")
    }
    assert sizes == {"none": 2 * H * 40, "headwise": 2 * 40, "key-value": 40}
    shared = LengthProjection(10, 4)
    first, second = (LinformerAttention(D, H, projection=shared) for _ in range(2))
    assert first.key_mixture is second.value_mixture is shared
    (
        first(torch.randn(1, 10, D)).context.sum() + second(torch.randn(1, 10, D)).context.sum()
    ).backward()
    assert shared.weight.grad.shape == (4, 10)


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 8), st.integers(0, 99), st.sampled_from(["none", "headwise", "key-value"]))
def test_padding_has_no_influence_and_no_gradient(n, seed, sharing):
    made = linformer(seed, sharing=sharing)
    x = torch.randn(1, 8, D, dtype=torch.float64, requires_grad=True)
    mask = padding_mask(torch.tensor([n]), 8)[:, None]
    outcome = made(x, mask=mask).context[:, :n]
    torch.testing.assert_close(outcome, made(x[:, :n]).context, **EXACT)
    (grad,) = torch.autograd.grad(outcome.sum(), x)
    assert (grad[0, n:] == 0).all() and grad[0, :n].any(-1).all()
    weights = made(x, mask=mask).weights
    torch.testing.assert_close(weights.sum(-1), torch.ones(1, H, 8).double(), **EXACT)


def test_an_identity_for_a_projection_is_plain_attention():
    made, x = linformer(length=N, rank=N, sharing="key-value"), torch.randn(B, N, D).double()
    with torch.no_grad():
        made.key_mixture.weight.copy_(torch.eye(N))
    plain = MultiHeadAttention(D, H).double()
    plain.load_state_dict(
        {name: t for name, t in made.state_dict().items() if "mixture" not in name}
    )
    torch.testing.assert_close(made(x), plain(x), **EXACT)


def test_it_is_for_encoders():
    made, x = linformer(), torch.randn(B, N, D).double()
    assert_refused("mask", lambda: made(x, mask=causal_mask(N)))
    assert_refused(
        "mask", made, x, mask=causal_mask(N) & padding_mask(torch.tensor([5, 8]), N)[:, None]
    )
    with pytest.raises(ValueError, match="encoders"):
        made.project(x[:, :3]).extend(made.project(x[:, 3:4]))
    assert_refused("key", made, torch.randn(1, 11, D).double())
    # queries may be as many as they are
    assert made(torch.randn(1, 13, D).double(), x[:1]).context.shape == (1, 13, D)


def test_the_mask_would_be_needed():
    """Without the refusal a causal mask after the mixture would change nothing: the future is in
    every key.
    """
    made, x = linformer(), torch.randn(1, N, D, dtype=torch.float64, requires_grad=True)
    (grad,) = torch.autograd.grad(made(x).context[0, 0].sum(), x)
    assert grad[0, 1:].any(-1).all()


def test_linformer_errors_and_copies():
    for options, word in (
        (dict(rank=11), "rank"),
        (dict(length=0), "length"),
        (dict(sharing="all"), "sharing"),
        (dict(projection=LengthProjection(10, 4)), "give length and rank, or projection"),
        (dict(length=None), "length"),
    ):
        assert_refused(word, LinformerAttention, D, H, **{"length": 10, "rank": 4, **options})
    made, x = linformer(sharing="key-value"), torch.randn(B, N, D).double()
    again = copy.deepcopy(made)
    assert again.key_mixture is again.value_mixture
    torch.testing.assert_close(again(x).context, made(x).context, **EXACT)


def test_a_projection_for_other_heads_is_named():
    assert_refused(
        "projection", LinformerAttention, D, H, projection=LengthProjection(10, 4, num_heads=2)
    )
    # it would broadcast, to more heads than there are
    assert_refused(
        "projection", LinformerAttention, D, 1, projection=LengthProjection(10, 4, num_heads=3)
    )
    for heads in (None, 1, H):
        assert LinformerAttention(D, H, projection=LengthProjection(10, 4, heads))(
            torch.randn(B, N, D)
        ).weights.shape == (B, H, N, 4)


def test_memory_of_linformer_grows_with_the_length():
    def saved(n):
        made = LinformerAttention(D, H, length=n, rank=4)
        return sum(saved_bytes(lambda: made(torch.randn(1, n, D))).values())

    assert saved(800) < 2.1 * saved(400)


# Known wrong versions of Linformer


def _padding_enters(made, x, words):
    return linformer_oracle(made, x, torch.ones_like(words))[0]


def _columns_from_the_end(made, x, words):
    turned = copy.deepcopy(made)
    for mixture in {turned.key_mixture, turned.value_mixture}:
        mixture.weight.data = mixture.weight.data.roll(x.shape[1] - made.key_mixture.length, -1)
    return linformer_oracle(turned, x, words)[0]


def _keys_and_values_exchanged(made, x, words):
    turned = copy.deepcopy(made)
    turned.key_mixture, turned.value_mixture = turned.value_mixture, turned.key_mixture
    return linformer_oracle(turned, x, words)[0]


@pytest.mark.parametrize(
    "wrong",
    [_padding_enters, _columns_from_the_end, _keys_and_values_exchanged],
    ids=lambda f: f.__name__.strip("_"),
)
def test_known_wrong_mixtures_are_told_apart(wrong):
    made = linformer()
    x = torch.randn(B, N, D).double()
    words = padding_mask(torch.tensor([8, 5]), N)
    assert (made(x, mask=words[:, None]).context - wrong(made, x, words)).abs().max() > 1e-3
