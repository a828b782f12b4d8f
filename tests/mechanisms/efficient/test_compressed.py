"""Memory-compressed attention and Linformer against loops from their formulas; nothing comes
back from later positions.
"""

import copy
import math

import pytest
import torch
from assertions import assert_refused, refusals
from hypothesis import given, settings
from hypothesis import strategies as st
from watching import saved_bytes

from attnbook import (
    GeneralScore,
    LinformerAttention,
    MemoryCompressedAttention,
    causal_mask,
    padding_mask,
)
from attnbook.mechanisms import LengthProjection

from ..agreement import assert_agree, assert_same, drawn, randomised

B, N, D, H = 2, 8, 12, 3
W = D // H
NAMES = ("query_projection", "key_projection", "value_projection")


def heads(rows):
    return rows.unflatten(-1, (H, W)).transpose(-3, -2)


def attended(made, q, k, v, allowed):
    """Softmax over allowed keys (B, 1, m, c), heads joined, zeros for a query that sees nothing."""
    weights = (q @ k.mT / math.sqrt(W)).masked_fill(~allowed, -math.inf)
    weights = weights.softmax(-1).nan_to_num() if k.shape[-2] else weights
    output = made.output_projection((weights @ v).transpose(1, 2).flatten(2))
    return output * allowed.any(-1)[:, 0, :, None], weights


# Memory-compressed


def compressed(kernel=3, stride=3, seed=0):
    return randomised(MemoryCompressedAttention(D, H, kernel_size=kernel, stride=stride), seed)


def compressed_oracle(made, x, mask):
    """Stretch by stretch, tap by tap; a stretch is allowed where the mask allows all of it."""
    n, w = x.shape[1], made.kernel_size
    starts = range(0, n - w + 1, made.stride)
    q, k, v = (getattr(made, name)(x) for name in NAMES)

    def squeeze(rows, layer):
        taps = layer.weight.unbind(-1)
        found = [layer.bias + sum(rows[:, s + i] @ taps[i].T for i in range(w)) for s in starts]
        return heads(torch.stack(found, 1) if found else rows[:, :0])

    mask = (torch.ones(1, 1, dtype=torch.bool) if mask is None else mask).expand(len(x), n, n)
    seen = [mask[:, :, s : s + w].all(-1) for s in starts]
    allowed = torch.stack(seen, -1) if seen else mask[..., :0]
    k, v = squeeze(k, made.key_compression), squeeze(v, made.value_compression)
    return attended(made, heads(q), k, v, allowed[:, None])


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
    }


@pytest.mark.parametrize("kind", masks())
@pytest.mark.parametrize("size", [(3, 3), (1, 1), (3, 2), (4, 1), (8, 8), (9, 9)], ids=str)
@pytest.mark.parametrize("need_weights", [True, False])
def test_compressed_value_and_gradient_equal_the_oracle(kind, size, need_weights):
    made, mask = compressed(*size), masks()[kind]
    ours = lambda x: made(x, mask=mask, need_weights=need_weights)  # noqa: E731
    theirs = lambda x: compressed_oracle(made, x, mask)  # noqa: E731
    assert_agree(ours, theirs, (B, N, D), [*made.parameters()], need_weights)


def test_a_query_sees_whole_stretches_of_its_past_alone_and_the_first_ones_see_nothing():
    made, x = compressed(), drawn(1, N, D).requires_grad_()
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
    x = drawn(1, n, D, seed=seed)
    full, cache, start = made(x, mask=causal_mask(n)), None, 0
    for m in pieces:
        now = slice(start, start + m)
        start += m
        found, cache, weights = made.read(
            x[:, now], mask=causal_mask(m, start), cache=cache, need_weights=True
        )
        assert_same(found, full.context[:, now])
        assert_same(weights, full.weights[:, :, now, : weights.shape[-1]])
    assert cache.length == n


def test_a_cache_compresses_each_stretch_once():
    made, x = compressed(), drawn(1, 9, D)
    cache, rows = made.project(x[:, :1]), []
    made.key_compression.register_forward_hook(
        lambda layer, inputs, result: rows.append(result.shape[-1])
    )
    for t in range(1, 9):
        cache = cache.extend(made.project(x[:, t : t + 1]))
    assert rows == [1, 1] and cache.settled().key.shape[-2] == 3 and cache.waiting[0].shape[-2] == 3


def test_the_sizes_of_the_paper_are_the_default():
    made = MemoryCompressedAttention(4, 2)
    assert made.key_compression.weight.shape == (4, 4, 3) and made.stretches(7) == 2


def test_other_widths_scores_and_leading_dimensions():
    made = randomised(MemoryCompressedAttention(D, H, d_head=5, score=GeneralScore(5, 5)))
    x, mask = drawn(2, 3, N, D), causal_mask(N)
    found = made(x, mask=mask)
    assert found.context.shape == (2, 3, N, D) and found.weights.shape == (2, 3, H, N, 2)
    assert_same(found.context[1], made(x[1], mask=mask).context)


WRONG_MASKS = {
    "stretches that begin in the past": lambda mask: mask.unfold(-1, 3, 3).any(-1),
    "the end of a stretch forgotten by one": lambda mask: mask.unfold(-1, 3, 3)[..., 1],
    "everything": lambda mask: mask.unfold(-1, 3, 3).any(-1) | True,
}


@pytest.mark.parametrize("wrong", WRONG_MASKS)
def test_known_wrong_masks_let_the_future_in(wrong):
    made = compressed()

    def leaks():
        slopes = torch.autograd.functional.jacobian(
            lambda x: made(x[None], mask=causal_mask(N)).context[0].sum(-1), drawn(N, D)
        )
        return bool(slopes.abs().sum(-1).triu(1).any())

    assert not leaks()
    made._over_stretches = WRONG_MASKS[wrong]
    assert leaks()


def test_a_head_that_sees_half_of_a_stretch_sees_nothing_of_it_whatever_the_others_see():
    made, x = compressed(2, 2), drawn(1, 4, D)
    halves = torch.tensor([[1, 0, 0, 1], [0, 1, 1, 0], [1, 0, 1, 0]]).bool()
    halves = halves[:, None].repeat(1, 4, 1)
    found = made(x, mask=halves[None])
    assert found.weights.abs().max() == 0 and found.context.abs().max() == 0
    halves[1, 2] = True  # all of both stretches, for one query in one head
    found = made(x, mask=halves[None])
    assert (found.weights != 0).any(-1).nonzero().tolist() == [[0, 1, 2]]
    assert (found.context != 0).any(-1).tolist() == [[False, False, True, False]]
    # no stretch at all
    assert made(x[:, :1], mask=torch.ones(1, H, 1, 1, dtype=torch.bool)).context.abs().max() == 0


# Linformer


def linformer(seed=0, **options):
    return randomised(LinformerAttention(D, H, **{"length": 10, "rank": 4, **options}), seed)


def linformer_oracle(made, x, words):
    """Equation 7, sum by sum; words (B, n) says which positions are there."""
    q, k, v = (heads(getattr(made, name)(x)) for name in NAMES)
    keys, values = (
        torch.einsum("hrj,bj,bhjw->bhrw", e.expand(H, -1, -1)[..., : x.shape[1]], there, rows)
        for there in [words.double()]
        for e, rows in ((made.key_mixture.weight, k), (made.value_mixture.weight, v))
    )
    return attended(made, q, keys, values, words.any(-1)[:, None, None, None].expand(-1, 1, N, 4))


@pytest.mark.parametrize("sharing", ["none", "headwise", "key-value", "layerwise"])
@pytest.mark.parametrize("lengths", [None, (8, 5), (3, 0)], ids=str)
@pytest.mark.parametrize("need_weights", [True, False])
def test_linformer_value_and_gradient_equal_the_oracle(sharing, lengths, need_weights):
    options = {"sharing": sharing}
    if sharing == "layerwise":
        options = {"length": None, "rank": None, "projection": LengthProjection(10, 4)}
    made, words = linformer(**options), padding_mask(torch.tensor(lengths or (N, N)), N)
    mask = None if lengths is None else words[:, None]
    ours = lambda x: made(x, mask=mask, need_weights=need_weights)  # noqa: E731
    theirs = lambda x: linformer_oracle(made, x, words)  # noqa: E731
    assert_agree(ours, theirs, (B, N, D), [*made.parameters()], need_weights)


def test_what_is_shared_and_what_it_costs():
    sizes = {
        name: sum(p.numel() for p in linformer(sharing=name).parameters()) - 4 * (D * D + D)
        for name in ("none", "headwise", "key-value")
    }
    assert sizes == {"none": 2 * H * 40, "headwise": 2 * 40, "key-value": 40}
    shared = LengthProjection(10, 4)
    first, second = (LinformerAttention(D, H, projection=shared) for _ in range(2))
    assert first.key_mixture is second.value_mixture is shared
    for number in (1, H):
        made = LinformerAttention(D, H, projection=LengthProjection(10, 4, number))
        assert made(torch.randn(B, N, D)).weights.shape == (B, H, N, 4)
    again = copy.deepcopy(linformer(sharing="key-value"))
    assert again.key_mixture is again.value_mixture


def test_it_is_for_encoders():
    made, x = linformer(), drawn(B, N, D)
    for mask in (causal_mask(N), causal_mask(N) & padding_mask(torch.tensor([5, 8]), N)[:, None]):
        assert_refused("mask", made, x, mask=mask)
    with pytest.raises(ValueError, match="encoders"):
        made.project(x[:, :3]).extend(made.project(x[:, 3:4]))
    assert_refused("key", made, torch.randn(1, 11, D).double())
    # queries may be as many as they are
    assert made(drawn(1, 13, D), x[:1]).context.shape == (1, 13, D)


def test_memory_of_linformer_grows_with_the_length():
    def saved(n):
        made = LinformerAttention(D, H, length=n, rank=4)
        return sum(saved_bytes(lambda: made(torch.randn(1, n, D))).values())

    assert saved(800) < 2.1 * saved(400)


def _from_the_end(made, words):
    for mixture in (made.key_mixture, made.value_mixture):
        mixture.weight.data = mixture.weight.data.roll(N - mixture.length, -1)


def _exchanged(made, words):
    made.key_mixture, made.value_mixture = made.value_mixture, made.key_mixture


WRONG_MIXTURES = {
    "padding enters": lambda made, words: words.fill_(True),
    "columns from the end": _from_the_end,
    "keys and values exchanged": _exchanged,
}


@pytest.mark.parametrize("wrong", WRONG_MIXTURES)
def test_known_wrong_mixtures_are_told_apart(wrong):
    made, x, words = linformer(), drawn(B, N, D), padding_mask(torch.tensor([8, 5]), N)
    right = made(x, mask=words[:, None]).context
    WRONG_MIXTURES[wrong](made, words)
    assert (right - linformer_oracle(made, x, words)[0]).abs().max() > 1e-3


def _linformer(heads=H, **options):
    return lambda: LinformerAttention(D, heads, **options)


test_errors_name_the_argument = refusals(
    ("stride", lambda: MemoryCompressedAttention(D, H, kernel_size=2, stride=3)),
    ("kernel_size", lambda: MemoryCompressedAttention(D, H, kernel_size=0)),
    ("rank", _linformer(length=10, rank=11)),
    ("length", _linformer(length=0, rank=4)),
    ("length", _linformer(rank=4)),
    ("sharing", _linformer(length=10, rank=4, sharing="all")),
    ("give length and rank, or", _linformer(length=10, projection=LengthProjection(10, 4))),
    ("projection", _linformer(projection=LengthProjection(10, 4, num_heads=2))),
    # it would broadcast, to more heads than there are
    ("projection", _linformer(1, projection=LengthProjection(10, 4, num_heads=3))),
)
