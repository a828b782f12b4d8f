"""FlashAttention in NumPy against PyTorch's derivatives of the plain formula, and its traffic
against formulas for the number of times that each table is read and written.
"""

import importlib.util
import inspect
import math

import numpy as np
import pytest
import torch

from attnbook_runs.cost import flash_attention as flash
from attnbook_runs.cost.standard_attention import standard_backward, standard_forward
from attnbook_runs.cost.two_memories import FastMemory, tile_sizes

EXACT = {"atol": 1e-10, "rtol": 0}
SIZES = [(1, 3, 200), (37, 5, 300), (64, 16, 2048), (50, 8, 50_000)]  # N, d, M
KINDS = ("queries", "backward", "product")


def tables(n, d, count=4, seed=0):
    return np.random.default_rng(seed).normal(size=(count, n, d))


def plain(Q, K, V, dO, causal):
    """Output, log of the sums, and gradients, by automatic differentiation of the whole matrix."""
    q, k, v = (torch.tensor(x, requires_grad=True) for x in (Q, K, V))
    scores = q @ k.T / math.sqrt(Q.shape[1])
    if causal:
        scores = scores.masked_fill(torch.ones_like(scores).triu(1).bool(), -math.inf)
    out = scores.softmax(-1) @ v
    grads = torch.autograd.grad(out, (q, k, v), torch.tensor(dO))
    return [x.detach().numpy() for x in (out, scores.logsumexp(-1, keepdim=True), *grads)]


def both(module, n, d, size, causal, outer="queries", spread=3.0):
    Q, K, V, dO = tables(n, d)
    Q, K = Q * spread, K[K[:, 0].argsort()]  # scores that rise: the maximum changes often
    memory = FastMemory(size)
    O, L = module.flash_forward(memory, Q, K, V, causal=causal, outer=outer)
    grads = module.flash_backward(memory, Q, K, V, O, L, dO, causal=causal)
    return [O, L, *grads], plain(Q, K, V, dO, causal), memory


@pytest.mark.parametrize("outer", ["queries", "keys"])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_output_and_gradients_are_those_of_the_whole_matrix(sizes, causal, outer):
    got, expected, memory = both(flash, *sizes, causal, outer)
    for ours, theirs in zip(got, expected):
        np.testing.assert_allclose(ours, theirs, **EXACT)
    assert memory.peak <= sizes[2] and memory.used == 0


@pytest.mark.parametrize("causal", [False, True])
def test_the_standard_way_is_standard(causal):
    Q, K, V, dO = tables(37, 5)
    memory = FastMemory(300)
    O, P = standard_forward(memory, Q, K, V, causal=causal)
    got = [O, *standard_backward(memory, Q, K, V, P, dO)]
    out, _, *grads = plain(Q, K, V, dO, causal)
    for ours, theirs in zip(got, [out, *grads]):
        np.testing.assert_allclose(ours, theirs, **EXACT)
    assert memory.peak <= 300 and memory.used == 0


def count(function, size, *arrays, **options):
    memory = FastMemory(size)
    return memory, function(memory, *arrays, **options)


def counts(n, d, size, causal=False, outer="queries"):
    """Of the four passes: forward and backward of FlashAttention, and of the standard way."""
    Q, K, V, dO = tables(n, d)
    one, (O, L) = count(flash.flash_forward, size, Q, K, V, causal=causal, outer=outer)
    two, _ = count(flash.flash_backward, size, Q, K, V, O, L, dO, causal=causal)
    three, (_, P) = count(standard_forward, size, Q, K, V, causal=causal)
    four, _ = count(standard_backward, size, Q, K, V, P, dO)
    return one, two, three, four


@pytest.mark.parametrize(("n", "d", "size"), [(128, 8, 1024), (200, 16, 4096), (200, 4, 512)])
def test_each_table_passes_as_often_as_the_formula_says(n, d, size):
    one, two, three, four = counts(n, d, size)
    passes = {k: math.ceil(n / tile_sizes(size, d, k)[0]) for k in KINDS}
    # q and o once; k and v for each stripe of queries
    assert one.reads == n * d + 2 * n * d * passes["queries"] and one.writes == n * d + n
    # o, do; k, v; and for each stripe of keys q, do, dq and two numbers per row
    assert two.reads == 2 * n * d + 2 * n * d + passes["backward"] * (3 * n * d + 2 * n)
    assert two.writes == n + 2 * n * d + passes["backward"] * n * d
    # the matrix: written, read and written by the softmax, read; k, and v, for each stripe
    stripes = passes["product"] * n * d
    assert three.traffic == 4 * n * n + 2 * (n * d + stripes)
    # dv, dq, dk read a matrix; dp is written; the softmax reads two and writes one
    assert four.traffic == 7 * n * n + 4 * (n * d + stripes)


def test_with_keys_outside_the_output_passes_each_time():
    n, d, size = 128, 8, 1024
    one, *_ = counts(n, d, size, outer="keys")
    passes = math.ceil(n / tile_sizes(size, d, "keys")[0])
    state = n * d + 2 * n  # output, maximum, sum
    assert one.reads == 2 * n * d + passes * n * d + (passes - 1) * state
    assert one.writes == (passes - 1) * state + n * d + n


def test_traffic_is_n_squared_d_squared_over_m_against_n_squared():
    """Constants near 8 and 4 over the whole grid, and what doubling one of the three does."""

    def passes(n, d, size):
        ours, theirs = (
            count(way, size, *tables(n, d, 3))[0] for way in (flash.flash_forward, standard_forward)
        )
        stripes = math.ceil(n / tile_sizes(size, d, "queries")[0])
        assert abs(ours.traffic / (2 * n * d * (stripes + 1)) - 1) < 0.05
        assert 7 < ours.traffic / (n * n * d * d / size) < 13
        assert 4 < theirs.traffic / (n * n) < 5.5
        return ours.reads

    base, wide, long, roomy = (
        passes(*sizes)
        for sizes in [(512, 16, 4096), (512, 32, 4096), (1024, 16, 4096), (512, 16, 8192)]
    )
    assert 3.5 < long / base < 4.1
    assert 1.8 < base / roomy < 2.3
    # d² in the limit; the small tiles of the wider have half the rows
    assert 2.7 < wide / base < 5


def test_it_keeps_little_and_calculates_more():
    for n in (128, 256):
        Q, K, V, _ = tables(n, 8)
        kept = flash.flash_forward(FastMemory(1024), Q, K, V)
        assert sum(x.size for x in kept) == n * (8 + 1)
        assert standard_forward(FastMemory(1024), Q, K, V)[1].size == n * n
    one, two, three, four = counts(512, 16, 4096)
    flash_way, standard = one.operations + two.operations, three.operations + four.operations
    assert 1 < one.operations / three.operations < 1.05  # rescaling
    assert 1.1 < flash_way / standard < 7 / 6 + 0.05  # seven products for six
    assert standard > 6 * 2 * 512**2 * 16  # an operation is a multiplication or an addition


@pytest.mark.parametrize("outer", ["queries", "keys"])
def test_tiles_of_the_future_are_skipped_and_the_order_is_that_of_the_loops(outer):
    n, d, size = 96, 8, 1024
    memory, _ = count(flash.flash_forward, size, *tables(n, d, 3), causal=True, outer=outer)
    everything, _ = count(flash.flash_forward, size, *tables(n, d, 3), outer=outer)
    seen = np.zeros((n, n), int)
    for rows, columns in memory.visited:
        assert columns.start <= rows.stop - 1
        seen[rows, columns] += 1
    assert (seen[np.tril_indices(n)] == 1).all() and seen.max() == 1
    starts = [(r.start, c.start)[:: 1 if outer == "queries" else -1] for r, c in memory.visited]
    assert starts == sorted(starts)
    assert 0.45 < len(memory.visited) / len(everything.visited) < 0.75
    assert memory.reads < 0.8 * everything.reads


def test_a_fast_memory_counts_and_refuses():
    slow, memory = np.arange(12.0).reshape(3, 4), FastMemory(20)
    tile = memory.load(slow)
    assert (memory.reads, memory.used) == (12, 12)
    assert tile.T.shape == (4, 3) and memory.used == 12  # a view
    with pytest.raises(MemoryError, match="12 numbers do not fit: 12 of the 20"):
        tile * 2
    assert memory.used == 12
    product = tile @ memory.full((4, 1), 1.0)
    assert product.array.tolist() == [[6.0], [22.0], [38.0]]
    assert (memory.operations, memory.peak, memory.reads) == (24, 19, 12)
    assert memory.used == 15  # the four ones are gone
    tile *= 2
    assert memory.operations == 36 and memory.used == 15
    assert tile.sum().array.tolist() == [[12.0], [44.0], [76.0]] and memory.operations == 48
    memory.store(tile, slow)
    assert slow[2, 3] == 22 and memory.writes == 12
    with pytest.raises(TypeError, match="must be loaded"):
        tile + slow
    with pytest.raises(ValueError, match="tile must have the shape of its target"):
        memory.store(product, slow)
    del tile, product
    assert memory.used == 0 and memory.peak == 19


def test_errors_name_the_argument():
    Q, K, V = tables(8, 4, 3)
    with pytest.raises(ValueError, match="size must be an integer"):
        FastMemory(2.5)
    with pytest.raises(ValueError, match="size must be at least .* for width 4, got 20"):
        flash.flash_forward(FastMemory(20), Q, K, V)
    with pytest.raises(ValueError, match="outer must be one of"):
        flash.flash_forward(FastMemory(400), Q, K, V, outer="rows")
    with pytest.raises(ValueError, match=r"one shape \(N, d\)"):
        flash.flash_forward(FastMemory(400), Q, K[:4], V)
    with pytest.raises(MemoryError):
        standard_forward(FastMemory(100), *tables(200, 4, 3))


WRONG = {
    "the output is not rescaled": [("    out *= top\n", "")],
    "the sum is not rescaled": [("    total *= top\n", "")],
    "the maximum is not carried on": [("np.maximum(top, p.max())", "p.max()")],
    "rescaled the wrong way round": [("    np.exp(top, out=top)", "    np.exp(-top, out=top)")],
    "no root of the width": [("s *= q.shape[-1] ** -0.5", "s *= 1.0")],
    "the last output is not divided": [("    out /= total\n", "")],
    "the maximum is kept for the sum": [("top + np.log(total)", "top + 0")],
    "tiles are not masked": [("        s.hide(_later(rows, columns))", "        pass")],
    "the diagonal is hidden": [
        ("columns.stop) > np.arange(rows", "columns.stop) >= np.arange(rows")
    ],
    "tiles on the diagonal are skipped": [
        ("columns.start < rows.stop", "columns.stop < rows.stop")
    ],
    "a tile that is masked as a whole comes first": [
        ("not causal or columns.start < rows.stop", "True"),
        ("for columns in cut(n, small)", "for columns in [*cut(n, small)][::-1]"),
    ],
    "backward without D": [("    ds -= memory.load(D[rows])\n", "")],
    "D of the gradient alone": [("        o *= memory.load(dO[rows])\n", "")],
    "backward without the root": [("    ds *= p\n    ds *= q.shape[-1] ** -0.5", "    ds *= p")],
    "the gradient of queries is overwritten": [
        ("dq = memory.load(dQ[rows])\n    dq += ds @ k", "dq = ds @ k")
    ],
}


def edited(changes):
    """The module with some of its code replaced."""
    source = inspect.getsource(flash)
    for old, new in changes:
        assert old in source, old
        source = source.replace(old, new)
    spec = importlib.util.find_spec(flash.__name__)
    module = importlib.util.module_from_spec(spec)
    exec(compile(source, "wrong", "exec"), module.__dict__)
    return module


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("wrong", [None, *WRONG])
def test_known_wrong_versions_are_told_apart(wrong):
    got, expected, _ = both(edited(WRONG.get(wrong, [])), 64, 8, 1024, causal=True)
    agrees = all(np.allclose(a, b, **EXACT) for a, b in zip(got, expected))
    assert agrees == (wrong is None)
