"""Adding and multiplication: what is marked, where, and what the target is."""

import pytest
import torch
from assertions import refusals
from hypothesis import given
from hypothesis import strategies as st
from task_data import seeded

from attnbook.tasks.algorithms import adding_problem


def draw(kind="adding", length=50, count=400, seed=0):
    return adding_problem.draw(kind, length, count, seeded(seed))


@given(st.sampled_from(adding_problem.KINDS), st.integers(10, 60), st.integers(0, 5))
def test_markers_lengths_and_targets_hold_for_every_sequence(kind, length, seed):
    batch = draw(kind, length, 30, seed)
    for x, n, target, marked in zip(
        batch.inputs.tolist(), batch.lengths.tolist(), batch.target.tolist(), batch.marked.tolist()
    ):
        assert length <= n <= length + length // 10
        assert marked[0] < marked[1] < n - 1  # the last step has its own marker
        assert marked[0] < 10 and marked[1] < max(10, length // 2 - 1)
        for t, (number, marker) in enumerate(x):
            if t >= n:
                assert (number, marker) == (0, 0)
                continue
            assert (0 if kind == "multiplication" else -1) <= number <= 1
            assert marker == (-1 if t in (0, n - 1) else 1 if t in marked else 0)
        neutral = 1.0 if kind == "multiplication" else 0.0
        a, b = (neutral if t == 0 else x[t][0] for t in marked)
        wanted = {"adding": 0.5 + (a + b) / 4, "multiplication": a * b, "order": 0.5 + (a - b) / 4}
        assert abs(target - wanted[kind]) < 1e-6


@pytest.mark.parametrize("kind", adding_problem.KINDS)
def test_in_the_shortest_sequences_both_numbers_are_marked(kind):
    batch = draw(kind, 10, 400)
    markers = batch.inputs[..., 1].gather(1, batch.marked)
    assert (markers == torch.where(batch.marked == 0, -1.0, 1.0)).all()
    assert set(batch.marked.flatten().tolist()) == set(range(9))


def test_where_the_marks_lie():
    batch = draw(length=100, count=5000)
    first, second = batch.marked[:, 0], batch.marked[:, 1]
    assert set(batch.lengths.tolist()) == set(range(100, 111))
    # the first 49 of 100 // 2 − 1
    assert set(first.tolist()) == set(range(10)) and int(second.max()) == 48
    counts = torch.bincount(second[second >= 10], minlength=49)[10:]
    assert counts.min() > 0.6 * counts.float().mean() and counts.max() < 1.4 * counts.float().mean()


test_wrong_arguments_are_named = refusals(
    ("kind", lambda: draw("subtracting")),
    ("length", lambda: draw(length=9)),
    ("count", lambda: draw(count=-1)),
)
