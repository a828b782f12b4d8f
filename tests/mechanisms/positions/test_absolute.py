"""Sinusoidal and learned positions: the formula in loops, and what the sinusoids promise."""

import copy
import math

import numpy as np
import pytest
import torch
from assertions import refusals
from hypothesis import given, settings
from hypothesis import strategies as st
from torch._subclasses.fake_tensor import FakeTensorMode

from attnbook.mechanisms import (
    LearnedPositions,
    NoPositions,
    SinusoidalPositions,
    shift_matrix,
    sinusoids,
)

from ..agreement import assert_same

widths = st.integers(1, 24).map(lambda half: 2 * half)


def formula(length, d, angle=lambda p, k, d: p / 10000 ** (2 * k / d)):
    """Section 3.5 of the paper, one number at a time."""
    table = np.zeros((length, d))
    for p, k in np.ndindex(length, d // 2):
        table[p, 2 * k], table[p, 2 * k + 1] = math.sin(angle(p, k, d)), math.cos(angle(p, k, d))
    return torch.tensor(table)


@pytest.mark.parametrize(("length", "d"), [(1, 2), (7, 6), (300, 64)])
def test_sinusoids_equal_the_formula(length, d):
    assert_same(sinusoids(length, d, dtype=torch.float64), formula(length, d))
    torch.testing.assert_close(sinusoids(length, d), formula(length, d).float(), atol=1e-7, rtol=0)


@settings(max_examples=40, deadline=None)
@given(widths, st.integers(2, 200))
def test_rows_are_bounded_of_one_norm_unique_and_deterministic(d, n):
    table = sinusoids(n, d, dtype=torch.float64)
    assert table.abs().max() <= 1 and torch.equal(table, sinusoids(n, d, dtype=torch.float64))
    assert_same(table.norm(dim=1), torch.full((n,), math.sqrt(d / 2), dtype=torch.float64))
    # The fastest pair alone tells whole positions apart: p radians, and no two whole numbers differ
    # by a multiple of 2π.
    assert torch.cdist(table, table).fill_diagonal_(9).min() > 1e-3


@settings(max_examples=40, deadline=None)
@given(widths, st.integers(0, 60), st.integers(-40, 40))
def test_a_shift_is_one_rotation_for_all_positions(d, start, shift):
    table = sinusoids(160, d, dtype=torch.float64)
    moved = shift_matrix(shift, d, dtype=torch.float64)
    start = max(start, -shift)
    assert_same(table[start : start + 20] @ moved.T, table[start + shift : start + shift + 20])
    assert_same(moved @ moved.T, torch.eye(d).double())
    # So the product of two position vectors depends on their distance alone.
    products = table @ table.T
    assert_same(products[start, start + shift], products[80, 80 + shift])


@pytest.mark.parametrize(
    "make", [lambda: SinusoidalPositions(6), lambda: LearnedPositions(40, 6).double()]
)
def test_an_offset_is_a_later_part_and_may_differ_by_row(make):
    torch.manual_seed(0)
    positions, x = make(), torch.randn(3, 5, 6, dtype=torch.float64)
    table = positions(torch.zeros(1, 30, 6).double())[0]
    assert_same(positions(x), x + table[:5])
    assert_same(positions(x, 7), x + table[7:12])
    each = torch.stack([table[:5], table[9:14], table[25:]])
    assert_same(positions(x, torch.tensor([0, 9, 25])), x + each)
    assert_same(positions(x[0], 2), x[0] + table[2:7])
    assert positions(x[:0], torch.tensor([], dtype=torch.long)).shape == (0, 5, 6)
    assert_same(copy.deepcopy(positions)(x, 7), x + table[7:12])


def test_a_module_made_double_or_asked_for_more_keeps_all_digits():
    positions = SinusoidalPositions(8)
    positions(torch.zeros(1, 3, 8))
    long = positions.double()(torch.zeros(1, 500, 8).double())[0]
    assert_same(long, formula(500, 8))
    assert positions(torch.zeros(1, 3, 8, dtype=torch.bfloat16)).dtype == torch.bfloat16
    assert not list(positions.parameters()) and not positions.state_dict()


def test_a_table_without_values_is_not_kept():
    positions, x = SinusoidalPositions(8), torch.zeros(1, 3, 8)
    with FakeTensorMode() as tracer:
        positions(tracer.from_tensor(x))
    assert torch.equal(positions(x)[0], sinusoids(3, 8))


def test_learned_positions_learn_where_they_were_used():
    positions = LearnedPositions(9, 4)
    positions(torch.zeros(2, 3, 4), 2).sum().backward()
    assert positions.weight.grad.sum(1).tolist() == [0, 0, 8, 8, 8, 0, 0, 0, 0]
    x = torch.randn(2, 3, 4)
    assert NoPositions()(x, 5) is x


WRONG = {  # the angle of position p and pair k
    "frequencies from k = 1": lambda p, k, d: p / 10000 ** (2 * (k + 1) / d),
    "2k/d written as k/d": lambda p, k, d: p / 10000 ** (k / d),
    "base to the power, not divided": lambda p, k, d: p * 10000 ** (2 * k / d),
    "positions from 1": lambda p, k, d: (p + 1) / 10000 ** (2 * k / d),
    "cosine first": lambda p, k, d: math.pi / 2 - p / 10000 ** (2 * k / d),
}


@pytest.mark.parametrize("mistake", WRONG)
def test_known_wrong_tables_are_told_apart(mistake):
    table = formula(9, 6, WRONG[mistake])
    assert (table - sinusoids(9, 6, dtype=torch.float64)).abs().max() > 1e-2
    if mistake == "frequencies from k = 1":  # too slow: the first positions run together
        wrong, right = table[0] @ table[1] / 3, formula(9, 6)[0] @ formula(9, 6)[1] / 3
        assert wrong > 0.99 > 0.9 > right


def offset_of(kind, offset, length=2):
    x = torch.zeros(2, length, 4)
    return lambda: (SinusoidalPositions(4) if kind == "sine" else LearnedPositions(4, 4))(x, offset)


test_bad_input_is_named = refusals(
    ("length", lambda: sinusoids(0, 4)),
    ("d_model", lambda: sinusoids(3, 5)),
    ("d_model", lambda: SinusoidalPositions(5)),
    ("x", lambda: SinusoidalPositions(4)(torch.zeros(1, 2, 6))),
    ("max_length", lambda: LearnedPositions(0, 4)),
    ("offset", offset_of("sine", -1)),
    ("offset", offset_of("sine", torch.tensor([1]))),
    ("offset", offset_of("sine", torch.tensor([3, -1]))),
    ("offset", offset_of("learned", torch.tensor([3, -1]))),
    ("offset", offset_of("learned", torch.tensor([True, False]))),
    ("offset", offset_of("learned", True)),
    ("x must end before", offset_of("learned", 0, length=5)),
    ("x must end before", offset_of("learned", torch.tensor([0, 3]))),
)
