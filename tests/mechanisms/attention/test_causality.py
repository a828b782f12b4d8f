"""`is_causal` and `key_mask` say what a mask of pairs says, and no such mask is made."""

import json
import math
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
import torch
from assertions import assert_exact, refusals
from patience import HANGS
from watching import LargestTensor

from attnbook import (
    SCORES,
    AdditiveScore,
    LatentAttention,
    LocalAttention,
    MemoryCompressedAttention,
    MultiHeadAttention,
    RelativeMultiHeadAttention,
    RotaryPositions,
    ScaledDotScore,
    SlidingWindow,
    attend,
    causal_mask,
    make_score,
    sliding_window_mask,
)
from attnbook.mechanisms.attention import soft_attention
from attnbook.mechanisms.attention.synthesizer import SynthesizerAttention

from ..agreement import slopes

B, N, D = 2, 6, 8
LONG = 140
KEYS = torch.tensor([[1, 1, 1, 1, 0, 1], [0, 0, 1, 1, 1, 1]]).bool()

HEADS = {
    "plain": partial(MultiHeadAttention, D, 2),
    "grouped": partial(MultiHeadAttention, D, 4, num_kv_heads=2),
    "sink": partial(MultiHeadAttention, D, 2, learned_sink=True),
    "rotary": partial(MultiHeadAttention, D, 2, rotary=RotaryPositions(4)),
    "window": partial(MultiHeadAttention, D, 2, window=SlidingWindow(3)),
    "window and sinks": partial(MultiHeadAttention, D, 2, window=SlidingWindow(2, sinks=1)),
    "latent": partial(LatentAttention, D, 2, d_latent=6, d_head=4, rotary=RotaryPositions(2)),
    "window, sink": partial(MultiHeadAttention, D, 2, window=SlidingWindow(3), learned_sink=True),
    "window, sinks, rotary": partial(
        MultiHeadAttention, D, 2, window=SlidingWindow(2, sinks=1), rotary=RotaryPositions(4)
    ),
    "window, sinks, grouped, sink": partial(
        MultiHeadAttention,
        D,
        4,
        num_kv_heads=2,
        learned_sink=True,
        window=SlidingWindow(3, sinks=2),
    ),
    "window, sinks, additive": partial(
        MultiHeadAttention, D, 2, window=SlidingWindow(3, sinks=2), score=AdditiveScore(4, 4)
    ),
    "relative": partial(RelativeMultiHeadAttention, D, 2, max_distance=2),
    "local": partial(LocalAttention, D, 2, block_length=4),
    "local, additive": partial(LocalAttention, D, 2, block_length=4, score=AdditiveScore(4, 4)),
    "compressed": partial(MemoryCompressedAttention, D, 2),
    "compressed, overlapping": partial(MemoryCompressedAttention, D, 2, kernel_size=4, stride=3),
    "synthesizer": partial(SynthesizerAttention, D, 2, length=LONG, mix="alpha"),
    "random synthesizer": partial(SynthesizerAttention, D, 2, length=LONG, kind="random"),
}
LINEAR = [name for name in HEADS if name != "random synthesizer"]  # whose parameters are n×n


def made(name):
    torch.manual_seed(0)
    layer = HEADS[name]().double()
    if getattr(layer, "sink", None) is not None:
        torch.nn.init.normal_(layer.sink)
    return layer


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("with_keys", [False, True])
@pytest.mark.parametrize("name", HEADS)
def test_heads(name, with_keys, need_weights):
    layer = made(name)
    x = torch.randn(B, N, D, dtype=torch.float64, requires_grad=True)
    key_mask = KEYS if with_keys else None
    pairs = causal_mask(N) & KEYS[:, None] if with_keys else causal_mask(N)
    results = []
    for given in ({"is_causal": True, "key_mask": key_mask}, {"mask": pairs}):
        out = layer(x, **given, need_weights=need_weights).context
        results.append((out, slopes(out, [x, *layer.parameters()])))
    assert_exact(*results)
    # a text in two parts: the queries are the last of the keys
    first = layer.read(x[:, :4], is_causal=True)
    second = layer.read(x[:, 4:], is_causal=True, cache=first.cache, position=4)
    whole = layer.read(x, is_causal=True)
    assert_exact(torch.cat([first.context, second.context], dim=1), whole.context)


@pytest.mark.parametrize("m", [1, 131, LONG])
@pytest.mark.parametrize("name", HEADS)
def test_no_weights_of_a_long_text(name, m, monkeypatch):
    """Whatever is read in blocks gives what all weights at once give, under a mask of pairs."""
    monkeypatch.setattr(soft_attention, "STORED_WEIGHTS", 20 * B * LONG)
    layer = made(name)
    x, there = torch.randn(B, LONG, D, dtype=torch.float64), torch.rand(B, LONG) < 0.8
    x.requires_grad_()
    pairs = causal_mask(m, LONG) & there[:, None]
    results = []
    for given in ({"is_causal": True, "key_mask": there, "need_weights": False}, {"mask": pairs}):
        projected = layer.project(x)
        out = layer(x[:, LONG - m :], projected=projected, position=LONG - m, **given).context
        results.append((out, slopes(out, [x, *layer.parameters()])))
    assert_exact(*results)


@pytest.mark.parametrize("bad", [math.nan, -math.inf, 1e308, 1e160])
@pytest.mark.parametrize("stored", [2**20, 20])
@pytest.mark.parametrize("name", HEADS)
def test_a_bad_word_reaches_no_earlier_one(name, stored, bad, monkeypatch):
    """In value and in the gradients of all rows and parameters; nor does one that is not there, nor
    one that is and sees nothing; nor a number that overflows in a projection or a product.
    """
    monkeypatch.setattr(soft_attention, "STORED_WEIGHTS", stored)
    n, last, results = 20, 12, []
    there = torch.ones(1, n, dtype=torch.bool)
    there[0, [0, 1, 5]] = False
    met = None
    for filling in (bad, 0.0):
        layer = made(name)
        x = torch.randn(1, n, D, generator=torch.Generator().manual_seed(1)).double()
        x[0, [0, 5, last]] = filling
        x.requires_grad_()
        context = layer(x, is_causal=True, key_mask=there, need_weights=False).context
        met = context.isnan() if met is None else met
        # whatever comes back to the rows that are NaN
        ways = (
            torch.linspace(-1, 2, context.numel())
            .view_as(context)
            .masked_fill(met, filling and math.nan)
        )
        leaves = [x, *layer.parameters()]
        slopes_of = torch.autograd.grad(context, leaves, ways.double(), materialize_grads=True)
        results.append((context.masked_fill(met, 0.0), slopes_of))
    assert (results[0][0][:, 0] == 0).all() and met[0, last].all()
    assert met[0, 5].all() or "compressed" in name  # no stretch up to it is whole
    assert not met[0, [0, 1, 2, 3, 4, *range(6, last)]].any()
    assert_exact(*results)


@pytest.fixture(scope="module")
def peaks():
    """What each needs for a text of 8,000 words, in MB: in a process of its own, whose buffers of
    more than 32 MB the C library gives back. A matrix of one head takes 64 MB even as a mask.
    """
    script = Path(__file__).parents[2] / "helpers/scripts/peaks.py"
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=HANGS)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="reads /proc of Linux")
@pytest.mark.parametrize("name", LINEAR)
def test_memory_grows_with_the_length_and_not_its_square(name, peaks):
    assert peaks[name] < 50


@pytest.mark.parametrize("m", [1, 4, N])
@pytest.mark.parametrize("sink", [False, True])
@pytest.mark.parametrize("name", SCORES)
def test_scores(name, sink, m, monkeypatch):
    """Also where the problem is so large that it is streamed."""
    torch.manual_seed(0)
    score = make_score(name, D, D, max_length=N).double()
    query, key = (torch.randn(B, n, D, dtype=torch.float64, requires_grad=True) for n in (m, N))
    pairs = causal_mask(m, N) & KEYS[:, None]
    sinks = torch.randn(B, m, dtype=torch.float64) if sink else None
    right = attend(score, query, key, mask=pairs, sink=sinks).context
    flag = {"key_mask": KEYS, "is_causal": True, "need_weights": False}
    for stored in (2**20, 0):
        monkeypatch.setattr(soft_attention, "STORED_WEIGHTS", stored)
        assert_exact(attend(score, query, key, sink=sinks, **flag).context, right)


@pytest.mark.parametrize("reach", [None, 5, 300])
@pytest.mark.parametrize("m", [700, 130])
def test_long_texts_in_blocks(reach, m):
    torch.manual_seed(0)
    window = None if reach is None else SlidingWindow(reach)
    layer = MultiHeadAttention(D, 2, window=window).double()
    x = torch.randn(B, 700, D, dtype=torch.float64, requires_grad=True)
    there = torch.rand(B, 700) < 0.8
    band = causal_mask(m, 700) if reach is None else sliding_window_mask(m, 700, window=reach)
    start = 700 - m
    given = {"position": start, "is_causal": True, "key_mask": there}
    found, streamed = (
        layer(x[:, start:], projected=layer.project(x), need_weights=need_weights, **given).context
        for need_weights in (True, False)
    )
    plain = MultiHeadAttention(D, 2).double()
    plain.load_state_dict(layer.state_dict())
    right = plain(x[:, start:], x, mask=band & there[:, None]).context
    assert_exact([found, streamed], [right, right])
    leaves = [x, *layer.parameters()]
    assert_exact(slopes(found, leaves), slopes(streamed, leaves))


@pytest.mark.parametrize("window", [None, SlidingWindow(32)])
def test_no_matrix_is_made(window):
    n = 1024
    layer, x = MultiHeadAttention(D, 2, window=window), torch.randn(B, n, D)
    with torch.no_grad(), LargestTensor() as largest:
        layer(x, is_causal=True, key_mask=torch.rand(B, n) < 0.9, need_weights=False)
        attend(ScaledDotScore(), x, x, x, is_causal=True, need_weights=False)
        attend(ScaledDotScore(), x[:, 1:], x, x, is_causal=True, need_weights=False)
    assert largest.numel < n * n / 4


SCORE, X = ScaledDotScore(), torch.randn(B, N, D)
test_wrong_arguments_are_named = refusals(
    ("is_causal must be True", lambda: attend(SCORE, X, X, is_causal=causal_mask(N))),
    ("key must have at least as", lambda: attend(SCORE, X, X[:, :3], is_causal=True)),
    ("key_mask must be a boolean", lambda: attend(SCORE, X, X, key_mask=KEYS.long())),
    ("key_mask must be broadcastable", lambda: attend(SCORE, X, X, key_mask=KEYS.mT)),
    ("key_mask must be broadcastable", lambda: HEADS["plain"]()(X, key_mask=KEYS[:, None])),
    ("is_causal must be True", lambda: HEADS["plain"]()(X, is_causal=1)),
)


@pytest.mark.parametrize("m, n", [(129, 130), (300, 700)])
@pytest.mark.parametrize("there", [None, 0.7])
def test_many_queries_that_are_the_last_of_more_keys(m, n, there):
    """They are read some rows at a time."""
    torch.manual_seed(0)
    inputs = [torch.randn(B, size, D, dtype=torch.float64, requires_grad=True) for size in (m, n)]
    given = {"key_mask": None if there is None else torch.rand(B, n) < there, "is_causal": True}
    found, right = (
        attend(ScaledDotScore(), *inputs, **given, need_weights=way).context
        for way in (False, True)
    )
    assert_exact(found, right)
    assert_exact(slopes(found, inputs), slopes(right, inputs))


@pytest.mark.parametrize("dtype, large", [(torch.float16, 6e4), (torch.float32, 1e30)])
def test_a_hidden_key_of_any_size_has_no_weight(dtype, large):
    query, key = torch.full((1, 3, 64), 300.0, dtype=dtype), torch.zeros(1, 3, 64, dtype=dtype)
    key[0, 1] = large
    value = torch.tensor([1.0, 5.0, 2.0], dtype=dtype)[None, :, None].expand(1, 3, 64).contiguous()
    given = {"key_mask": torch.tensor([[True, False, True]]), "is_causal": True}
    found = attend(ScaledDotScore(), query, key, value, **given, need_weights=False).context
    assert found[0, :, 0].tolist() == [1, 1, 1.5]
