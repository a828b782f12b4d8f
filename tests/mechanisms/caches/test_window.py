"""Sliding windows: the mask one pair at a time, a rolling cache beside the masked whole, and wrong
versions.
"""

import numpy as np
import pytest
import torch
from assertions import assert_refused, refusals

from attnbook import (
    ALiBi,
    MultiHeadAttention,
    PagedCache,
    RotaryPositions,
    SlidingWindow,
    causal_mask,
    sliding_window_mask,
)

from ..agreement import assert_same, drawn, randomised

B, N, D, H, WIDTH = 2, 14, 12, 4, 4


def formula(m, n, window, sinks=0, *, off=0):
    """One pair at a time; with `off` the window is so much too long."""
    mask = np.zeros((m, n), dtype=bool)
    for t in range(m):
        i = t + n - m
        for j in range(n):
            mask[t, j] = j <= i and (i - j < window + off or j < sinks)
    return torch.tensor(mask)


@pytest.mark.parametrize("sinks", [0, 1, 3])
@pytest.mark.parametrize("window", [1, 4, 20])
def test_the_mask_is_its_formula(window, sinks):
    for m, n in ((1, 1), (9, 9), (1, 9), (3, 9)):
        got = sliding_window_mask(m, n, window=window, sinks=sinks)
        assert torch.equal(got, formula(m, n, window, sinks))
    assert torch.equal(sliding_window_mask(9, window=9), causal_mask(9))
    for off in (-1, 1):
        assert not torch.equal(sliding_window_mask(9, window=4), formula(9, 9, 4, off=off))


def layer(window, sinks=0, rotary=None):
    options = {"window": SlidingWindow(window, sinks), "rotary": rotary}
    return randomised(MultiHeadAttention(D, H, d_head=WIDTH, num_kv_heads=2, **options))


def inputs(n=N):
    return drawn(B, n, D, seed=3)


def decode(made, x, chunks, mask=None, position=None, need_weights=False):
    """A text in chunks, with the cache; the context of all, and the last cache."""
    cache, start, out = None, 0, []
    for m in chunks:
        now = slice(start, start + m)
        seen = None if mask is None else mask[..., now, : start + m]
        options = {"cache": cache, "position": start, "need_weights": need_weights}
        context, cache, _ = made.read(x[:, now], mask=seen, **options)
        out.append(context)
        start += m
    return torch.cat(out, 1), cache


CHUNKS = {"steps": [1] * N, "a beginning": [7] + [1] * 7, "chunks": [3, 1, 5, 2, 3]}


@pytest.mark.parametrize("chunks", CHUNKS)
@pytest.mark.parametrize(("window", "sinks"), [(1, 0), (4, 0), (4, 2), (40, 3)])
@pytest.mark.parametrize("need_weights", [True, False])
def test_a_layer_with_a_window_is_one_with_its_mask_whole_or_with_a_rolling_cache(
    chunks, window, sinks, need_weights
):
    made, x = layer(window, sinks), inputs()
    plain = MultiHeadAttention(D, H, d_head=WIDTH, num_kv_heads=2).double()
    plain.load_state_dict(made.state_dict())
    expected = plain(x, mask=formula(N, N, window, sinks)).context
    assert_same(made(x, need_weights=need_weights).context, expected)
    got, cache = decode(made, x, CHUNKS[chunks], need_weights=need_weights)
    assert_same(got, expected)
    last = CHUNKS[chunks][-1]
    assert cache.length == N and cache.key.shape == (B, 2, min(N, window + sinks + last - 1), WIDTH)


def oracle(made, x, window, sinks, *, in_text=False):
    """Rotary keys where they stand, queries seen from the sinks where they stand in the cache; one
    text, a pair at a time."""
    p = {name: t.detach().numpy() for name, t in made.named_parameters()}
    n, shared, half = len(x), H // made.num_kv_heads, WIDTH // 2

    def heads(name):
        rows = x @ p[f"{name}_projection.weight"].T + p[f"{name}_projection.bias"]
        return rows.reshape(n, -1, WIDTH)

    def complexes(v):
        return v[:half] + 1j * v[half:]

    q, k, v = heads("query"), heads("key"), heads("value")
    joined = np.zeros((n, H, WIDTH))
    omega = 50.0 ** (-2 * np.arange(half) / WIDTH)
    for i in range(H):
        for t in range(n):
            seen = np.flatnonzero(formula(n, n, window, sinks)[t])
            scores = []
            for j in seen:
                distance = t - j
                if j < sinks and not in_text:
                    distance = min(t, sinks + window - 1) - j
                turned = complexes(q[t, i]) * np.exp(1j * distance * omega)
                product = (turned * complexes(k[j, i // shared]).conj()).real.sum()
                scores.append(product / WIDTH**0.5)
            powers = np.exp(scores)
            joined[t, i] = (powers / powers.sum()) @ v[seen, i // shared]
    return torch.tensor(
        joined.reshape(n, -1) @ p["output_projection.weight"].T + p["output_projection.bias"]
    )


@pytest.mark.parametrize(("window", "sinks"), [(4, 0), (4, 2), (3, 1), (40, 2)])
def test_rotary_keys_keep_their_distance_in_the_window_and_a_bounded_one_to_the_sinks(
    window, sinks
):
    made, x = layer(window, sinks, RotaryPositions(WIDTH, base=50.0)), inputs()
    for need_weights in (True, False):
        got = made(x, need_weights=need_weights).context.detach()
        for b in range(B):
            expected = oracle(made, x[b].numpy(), window, sinks)
            assert_same(got[b], expected)
    for chunks in CHUNKS.values():
        assert_same(decode(made, x, chunks)[0].detach(), got)
    in_text = oracle(made, x[0].numpy(), window, sinks, in_text=True)
    far = sinks and window + sinks < N
    assert ((got[0] - in_text).abs().max() > 1e-3) == bool(far)


@pytest.mark.parametrize("begun", [1, 2, 3])
def test_sinks_that_come_with_a_later_chunk_are_sinks(begun):
    made, x = layer(3, 3, rotary=RotaryPositions(WIDTH, base=50.0)), inputs()
    got, cache = decode(made, x, [begun, N - begun])
    assert_same(got, made(x).context)
    assert cache.head == 3


def test_what_the_sinks_are_is_seen_from_far_and_what_is_evicted_is_not():
    made, x = layer(4, 2), inputs().requires_grad_()
    context = decode(made, x, CHUNKS["steps"])[0]
    (grad,) = torch.autograd.grad(context[:, -1].sum(), x)
    seen = grad.abs().sum((0, 2)) > 0
    assert torch.equal(seen, formula(1, N, 4, 2)[0])


WRONG = {
    "window one too long": {"window": 5},
    "window one too short": {"window": 3},
    "sinks forgotten": {"sinks": 0},
    "one sink too few": {"sinks": 1},
}


@pytest.mark.parametrize("mistake", WRONG)
def test_known_wrong_windows_are_told_apart(mistake):
    x, right = inputs(), layer(4, 2)(inputs()).context
    wrong = layer(**{"window": 4, "sinks": 2, **WRONG[mistake]})
    for got in (wrong(x).context, decode(wrong, x, CHUNKS["steps"])[0]):
        assert (got - right).abs().max() > 1e-3


@pytest.mark.parametrize("padding_stands", ["before", "behind"])
@pytest.mark.parametrize(
    ("sinks", "rotary"), [(0, None), (2, None), (2, RotaryPositions(WIDTH, base=50.0))]
)
def test_texts_of_a_batch_whose_beginnings_were_padded_go_on_as_each_alone(
    padding_stands, sinks, rotary
):
    made, x, n = layer(4, sinks, rotary), inputs(), 6
    lengths = torch.tensor([6, 1])  # shorter than the sinks
    padding = n - lengths
    if padding_stands == "before":
        first = torch.stack([moved(x[b, :n], int(padding[b])) for b in range(B)])
        real, start = torch.arange(n) >= padding[:, None], -padding
    else:
        first, real, start = x[:, :n], torch.arange(n) < lengths[:, None], 0
    cache = made.project(first, position=start)
    mask, position = real[:, None], lengths
    for _ in range(8):
        token = torch.stack([x[b, position[b]] for b in range(B)])[:, None]
        cache = cache.extend(made.project(token, position=position))
        mask = torch.cat([mask, torch.ones(B, 1, 1, dtype=torch.bool)], -1)
        got = made(token, projected=cache, mask=mask, position=position).context
        for b in range(B):
            alone = made(x[b, : position[b] + 1]).context[-1]
            assert_same(got[b, 0], alone)
        position = position + 1
    # both ends are longer by the longest padding
    assert cache.key.shape[-2] == min(14, 4 + 5 + (sinks + 5 if sinks else 0))


def moved(rows, shift):
    return torch.cat([torch.full_like(rows[:shift], 9.0), rows[: len(rows) - shift]])


def test_a_mask_of_heads_and_one_of_pairs_hold_inside_the_window():
    made, x = layer(4, 1), inputs()
    mask = torch.rand(B, H, N, N, generator=torch.Generator().manual_seed(0)) < 0.7
    plain = MultiHeadAttention(D, H, d_head=WIDTH, num_kv_heads=2).double()
    plain.load_state_dict(made.state_dict())
    for given in (mask, mask[:, 0], mask[0, 0]):
        expected = plain(x, mask=given & formula(N, N, 4, 1)).context
        assert_same(made(x, mask=given).context, expected)
        got = decode(made, x, CHUNKS["chunks"], mask=given)[0]
        assert_same(got, expected)


def test_what_was_read_in_vain_is_cut_off_and_no_more():
    made, x = layer(4, 2, RotaryPositions(WIDTH, base=50.0)), inputs()
    expected = made(x).context
    cache = decode(made, x, [5, 3])[1]
    for number in (2, 0, 3):  # of the three positions that came last
        again = cache.cut(number)
        start = 8 - number
        for t in range(start, N):
            again = again.extend(made.project(x[:, t : t + 1], position=t))
            got = made(x[:, t : t + 1], projected=again, position=t).context
            assert_same(got, expected[:, t : t + 1])
    assert_refused("number", cache.cut, 4)


def test_gradients_through_the_rolling_cache():
    made, x = layer(2, 1, RotaryPositions(WIDTH, base=50.0)), inputs(5)[:1].requires_grad_()
    for run in (lambda x: decode(made, x, [1] * 5)[0], lambda x: made(x).context):
        assert torch.autograd.gradcheck(run, (x,), fast_mode=True)


def test_compiled():
    made, x = layer(4, 2, RotaryPositions(WIDTH, base=50.0)), inputs()
    run = lambda x: made(x, need_weights=False).context  # noqa: E731
    assert_same(torch.compile(run, fullgraph=True, backend="eager")(x), run(x))


X, TWO = torch.randn(2, 3, 12), SlidingWindow(2)
MADE, PLAIN = MultiHeadAttention(12, 3, window=TWO), MultiHeadAttention(12, 3)
PAGES = PagedCache(3, 2, 3, 4).open()
ONE_HEAD = MultiHeadAttention(12, 3, num_kv_heads=1)
test_wrong_arguments_are_named = refusals(
    ("n", lambda: sliding_window_mask(3, 2, window=1)),
    ("window", lambda: sliding_window_mask(3, window=0)),
    ("size", lambda: SlidingWindow(0)),
    ("sinks", lambda: SlidingWindow(2, -1)),
    ("window must be a SlidingWindow", lambda: MultiHeadAttention(12, 3, window=2)),
    ("window must be a", lambda: MultiHeadAttention(12, 3, window=TWO, score=ALiBi(3))),
    ("position", lambda: MADE.project(X).extend(MADE.project(X[:, :1]))),
    ("more", lambda: MADE.project(X).extend(PLAIN.project(X))),
    ("projected must be a", lambda: MADE(X, projected=PLAIN.project(X))),
    ("projected must be a", lambda: MADE(X, projected=PAGES.extend(PLAIN.project(X[:1])))),
    ("projected must have", lambda: PLAIN(X, projected=ONE_HEAD.project(X))),
    ("projected must be what", lambda: PLAIN(X, projected=(X, X))),
)


@pytest.mark.parametrize("sinks", [0, 1])
def test_queries_see_from_where_they_stand(sinks):
    """Whatever the keys are: their own, given ones from 0 on, or projected ones."""
    made, x = layer(2, sinks), inputs()
    whole = made(x)
    given = made(x[:, 5:7], x, position=5)
    assert_same(given.context, whole.context[:, 5:7])
    assert_same(given.weights, whole.weights[..., 5:7, :])
    with pytest.raises(ValueError, match=f"position must be {N - 2}, .* got 5"):
        made(x[:, 5:7], projected=made.project(x), position=5)
    own = made(x[:, 5:], position=5)
    cached = made(x[:, 5:], projected=made.project(x[:, 5:], position=5), position=5)
    assert_same(own.context, cached.context)


def test_a_padded_text_has_its_sinks_behind_the_padding():
    made, x, pad = layer(2, 1), inputs(), torch.arange(B) * 2
    mask = (torch.arange(N) >= pad[:, None])[:, None]
    got = made(x, mask=mask, position=-pad)
    cached = made(x, mask=mask, position=-pad, projected=made.project(x, position=-pad))
    assert_same(got.weights, cached.weights)
    alone = made(x[1:, 2:])
    assert_same(got.context[1:2, 2:], alone.context[:1])


@pytest.mark.parametrize(
    ("position", "words"),
    [
        (1.5, "position"),
        (-1, "position"),
        (torch.tensor([0.0, 1.0]), "position must be a"),
        (torch.tensor([0, 1, 2, 3, 4]), "position"),
    ],
)
def test_a_position_that_does_not_fit_is_named(position, words):
    made, x = layer(2), inputs()
    for call in (lambda: made(x, position=position), lambda: made.project(x, position=position)):
        assert_refused(words, call)
