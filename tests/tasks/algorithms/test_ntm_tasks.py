"""The tasks of the neural Turing machine against a slow reading of their specification, by rows."""

import itertools
import math

import pytest
import torch
from assertions import refusals
from hypothesis import given
from hypothesis import strategies as st
from task_data import seeded as gen

from attnbook.tasks.algorithms import ntm_tasks
from attnbook.tasks.algorithms.ntm_tasks import AlgorithmBatches, draw, optimal_n_grams


def rows(batch):
    return zip(*(part.tolist() for part in batch))


RECALLED = [
    ("copy", {}),
    ("copy", {"length": (3, 9), "together": True}),
    ("repeat-copy", {"length": (1, 4), "repeats": (1, 5)}),
    ("associative-recall", {}),
    ("priority-sort", {}),
]


@pytest.mark.parametrize(("kind", "settings"), RECALLED)
def test_nothing_is_shown_while_something_is_recalled(kind, settings):
    """Else a model could read its target, or be helped along by it."""
    batch = draw(kind, 60, gen(), **settings)
    assert batch.mask.any(1).all() and not batch.mask[:, 0].any()
    assert (batch.inputs[batch.mask] == 0).all()
    first = batch.mask.int().argmax(1)
    after = torch.arange(batch.mask.shape[1]) >= first[:, None]
    assert (batch.inputs[after] == 0).all(), "nothing comes after the first step that counts"
    assert (batch.targets[~batch.mask] == 0).all(), "a step that does not count has no target"
    ends = (batch.mask.int() * torch.arange(1, batch.mask.shape[1] + 1)).argmax(1)
    assert (batch.mask.sum(1) == ends - first + 1).all(), "one stretch of steps counts"
    assert ((batch.targets == 0) | (batch.targets == 1)).all()


def test_a_bit_of_the_source_is_not_shown_before_it_is_asked_for():
    """n-grams: with the same coins, the inputs up to step t are the bits before t."""
    batch = draw("n-grams", 20, gen(), length=50)
    assert torch.equal(batch.inputs[:, 1:], batch.targets[:, :-1])
    assert (batch.inputs[:, 0] == 0).all() and batch.mask.all()


def test_the_sizes_of_the_paper():
    """Widths, and the steps of the largest example of each task."""
    widths = [ntm_tasks.widths(kind) for kind in ntm_tasks.KINDS]
    assert widths == [(9, 8), (10, 9), (8, 6), (1, 1), (10, 8)]
    longest = [draw(kind, 2000, gen()).mask.shape[1] for kind in ntm_tasks.KINDS]
    assert longest == [41, 112, 32, 200, 37]
    numbers = draw("repeat-copy", 4000, gen(), length=2).inputs[:, 2, 9]
    assert abs(float(numbers.mean())) < 0.05 and abs(float(numbers.var()) - 1) < 0.05


@given(st.integers(1, 5), st.integers(1, 6), st.integers(0, 5), st.booleans())
def test_copy_row_by_row(least, bits, seed, together):
    batch = draw("copy", 20, gen(seed), bits=bits, length=(least, least + 4), together=together)
    lengths = set()
    for x, y, counts in rows(batch):
        n = sum(counts)
        lengths.add(n)
        assert least <= n <= least + 4
        for t, (step, target, counted) in enumerate(zip(x, y, counts)):
            assert counted == (n < t <= 2 * n)
            assert step[bits] == (t == n)
            if t < n:
                assert step[:bits] == y[n + 1 + t]
            else:
                assert step[:bits] == [0] * bits
            assert counted or target == [0] * bits
    assert batch.mask.shape[1] == 2 * max(lengths) + 1
    assert not together or len(lengths) == 1


def test_copy_draws_every_length_and_fair_bits():
    batch = draw("copy", 4000, gen(), length=(1, 20))
    counts = torch.bincount(batch.mask.sum(1), minlength=21)
    assert counts[0] == 0 and counts[1:].min() > 130 and counts.max() < 280
    assert abs(float(batch.targets[batch.mask].mean()) - 0.5) < 0.01
    batches = AlgorithmBatches("copy", 3, length=(1, 4), together=True)
    assert {int(batches.batch(step).mask.sum(1).max()) for step in range(60)} == {1, 2, 3, 4}


@given(st.integers(0, 8))
def test_repeat_copy_row_by_row(seed):
    sizes = dict(bits=3, length=(1, 4), repeats=(1, 7), counted=(1, 6))  # beyond those of training
    for x, y, counts in rows(draw("repeat-copy", 20, gen(seed), **sizes)):
        n = next(t for t, step in enumerate(x) if step[3])
        r = (sum(counts) - 1) / n
        assert r == int(r) and 1 <= r <= 7 and 1 <= n <= 4
        deviation = math.sqrt(sum((k - 3.5) ** 2 for k in range(1, 7)) / 6)
        for t, (step, target, counted) in enumerate(zip(x, y, counts)):
            assert step[3] == (t == n)
            assert abs(step[4] - ((r - 3.5) / deviation if t == n else 0)) < 1e-6
            assert counted == (n < t <= n + n * r + 1)
            if n < t <= n + n * r:
                assert target == x[(t - n - 1) % n][:3] + [0]
            else:
                assert target == [0, 0, 0, float(t == n + n * r + 1)]


@given(st.integers(0, 8), st.integers(1, 3))
def test_associative_recall_row_by_row(seed, item):
    batch = draw("associative-recall", 20, gen(seed), bits=6, item=item, items=(2, 4))
    for x, y, counts in rows(batch):
        starts = [t for t, step in enumerate(x) if step[6]]
        query_start, last = (t for t, step in enumerate(x) if step[7])
        k = len(starts)
        assert 2 <= k <= 4
        assert starts == [i * (item + 1) for i in range(k)]
        assert query_start == k * (item + 1)
        assert last == query_start + item + 1
        items = [[step[:6] for step in x[s + 1 : s + 1 + item]] for s in starts]
        query = [step[:6] for step in x[query_start + 1 : last]]
        told = [y[t] for t in range(last + 1, last + 1 + item)]
        assert any(items[i] == query and items[i + 1] == told for i in range(k - 1))
        recalled = [t for t, counted in enumerate(counts) if counted]
        assert recalled == list(range(last + 1, last + 1 + item))
        for t in (*starts, query_start, last):
            assert x[t][:6] == [0] * 6


def test_every_item_but_the_last_is_asked_for():
    batch = draw("associative-recall", 3000, gen(), items=4)
    items = batch.inputs[:, :16].view(3000, 4, 4, 8)[:, :, 1:, :6]
    matches = (items == batch.inputs[:, None, 17:20, :6]).all(-1).all(-1)
    assert matches.sum(0)[:3].min() > 900 and matches.sum(0)[3] < 10


@given(st.integers(0, 8))
def test_priority_sort_row_by_row(seed):
    batch = draw("priority-sort", 10, gen(seed), bits=4, given=6, wanted=4)
    for x, y, counts in rows(batch):
        order = sorted(range(6), key=lambda i: -x[i][4])
        assert [x[i][:4] for i in order[:4]] == y[7:] and counts == [False] * 7 + [True] * 4
        assert [step[5] for step in x] == [0] * 6 + [1] + [0] * 4
        assert all(-1 <= step[4] < 1 for step in x)
    priorities = draw("priority-sort", 500, gen()).inputs[:, :20, 8]
    assert abs(float(priorities.mean())) < 0.02 and abs(float(priorities.var()) - 1 / 3) < 0.01


def posterior_mean(ones, zeros, points=4000):
    """∫ p · p^ones (1 − p)^zeros Beta(½, ½) dp over the same without the first p, by the midpoint
    rule in θ, p = sin² θ, where Beta(½, ½) is flat."""
    theta = (torch.arange(points, dtype=torch.float64) + 0.5) * (torch.pi / 2 / points)
    p = theta.sin() ** 2
    likelihood = p**ones * (1 - p) ** zeros
    return float((p * likelihood).sum() / likelihood.sum())


@pytest.mark.parametrize("n", [1, 2, 3, 6])
def test_the_optimal_predictor_is_the_posterior_mean_by_brute_force(n):
    bits = torch.randint(0, 2, (3, 60), generator=gen(n))
    told = optimal_n_grams(bits, n)
    assert told.dtype == torch.float64
    for row, p in zip(bits.tolist(), told.tolist()):
        seen = {}
        for t, bit in enumerate(row):
            context = tuple(row[t - n + 1 : t]) if n > 1 else ()
            if t < n - 1:
                assert p[t] == 0.5
                continue
            counts = seen.setdefault(context, [0, 0])
            assert abs(p[t] - posterior_mean(counts[1], counts[0])) < 1e-9
            counts[bit] += 1


def test_the_source_follows_its_table():
    """With n = 1 a row's share of ones is its hidden probability, whose law is the arcsine law."""
    bits = draw("n-grams", 3000, gen(), n=1, length=400).targets[..., 0]
    # the first bit is drawn from it too
    assert torch.corrcoef(torch.stack([bits[:, 0], bits[:, 1:].mean(1)]))[0, 1] > 0.6
    share = bits.mean(1).sort().values
    for q in (0.1, 0.25, 0.5, 0.75, 0.9):
        assert abs(float(share[int(q * 3000)]) - math.sin(math.pi / 2 * q) ** 2) < 0.03


def test_a_context_decides_the_next_bit_and_the_first_bits_are_tosses():
    bits = draw("n-grams", 2000, gen(5), n=3, length=60).targets[..., 0]
    assert (bits[:, :2].mean(0) - 0.5).abs().max() < 0.04
    context = 2 * bits[:, :-2] + bits[:, 1:-1]
    shares = torch.stack(
        [(bits[:, 2:] * (context == c)).sum(1) / (context == c).sum(1) for c in range(4)], 1
    )
    known = shares[~shares.isnan().any(1)]
    # the probabilities of the contexts are independent
    assert (torch.corrcoef(known.T) - torch.eye(4)).abs().max() < 0.25
    assert known.std() > 0.3


@pytest.mark.parametrize("length", [1, 4, 5, 6])
def test_short_sequences_have_no_context(length):
    told = optimal_n_grams(draw("n-grams", 2, gen(), length=length).targets[..., 0])
    assert told.shape == (2, length) and (told == 0.5).all()


def test_growing_batches_begin_with_the_least_and_reach_the_most():
    batches = AlgorithmBatches("copy", 200, length=(2, 10), grow=40)
    most = [int(batches.batch(step).mask.sum(1).max()) for step in (0, 10, 20, 39, 40, 1000)]
    assert most == [2, 4, 6, 9, 10, 10]
    # the default range grows as well
    assert int(AlgorithmBatches("copy", 200, grow=19).batch(1).mask.sum(1).max()) == 2
    assert AlgorithmBatches("associative-recall", 100, grow=8).batch(0).mask.shape[1] == 16
    for step, n in ((0, 2), (2, 2), (3, 3), (9, 5), (10, 6), (50, 6)):
        grown = AlgorithmBatches("n-grams", 4, seed=3, grow=10).batch(step)
        expected = draw("n-grams", 4, gen(3 * 1_000_003 + step), n=n)
        assert torch.equal(grown.targets, expected.targets), f"step {step} has n = {n}"


test_wrong_arguments_are_named = refusals(
    ("kind", lambda: draw("sorting", 1, gen())),
    ("length", lambda: draw("copy", 1, gen(), length=0)),
    ("bits", lambda: draw("copy", 1, gen(), bits=0)),
    ("count", lambda: draw("copy", 0, gen())),
    ("count", lambda: draw("n-grams", 0, gen())),
    ("repeats", lambda: draw("repeat-copy", 1, gen(), repeats=(1, 2, 3))),
    ("counted", lambda: draw("repeat-copy", 1, gen(), counted=(4, 4))),
    ("items", lambda: draw("associative-recall", 1, gen(), items=1)),
    ("n", lambda: draw("n-grams", 1, gen(), n=0)),
    ("wanted", lambda: draw("priority-sort", 1, gen(), given=3, wanted=4)),
    ("grow", lambda: AlgorithmBatches("priority-sort", 2, grow=3)),
    ("bits", lambda: optimal_n_grams(torch.tensor([[0.5]]))),
)


def test_all_small_copies_come_up():
    batch = draw("copy", 400, gen(), bits=2, length=2)
    seen = {tuple(map(tuple, y[3:])) for y in batch.targets.tolist()}
    assert seen == set(itertools.product(itertools.product((0.0, 1.0), repeat=2), repeat=2))
