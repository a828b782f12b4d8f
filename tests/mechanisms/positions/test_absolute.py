"""Sinusoidal and learned positions: the formula in loops, what the sinusoids promise, and copies
that went wrong.
"""

import copy
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from refusing import refusals

from attnbook.mechanisms import (
    LearnedPositions,
    NoPositions,
    SinusoidalPositions,
    shift_matrix,
    sinusoids,
)

EXACT = {"atol": 1e-10, "rtol": 0}
widths = st.integers(1, 24).map(lambda half: 2 * half)


def formula(length, d):
    """Section 3.5 of the paper, one number at a time."""
    table = np.zeros((length, d))
    for p in range(length):
        for k in range(d // 2):
            table[p, 2 * k] = math.sin(p / 10000 ** (2 * k / d))
            table[p, 2 * k + 1] = math.cos(p / 10000 ** (2 * k / d))
    return torch.tensor(table)


@pytest.mark.parametrize(("length", "d"), [(1, 2), (7, 6), (300, 64)])
def test_sinusoids_equal_the_formula(length, d):
    torch.testing.assert_close(
        sinusoids(length, d, dtype=torch.float64), formula(length, d), **EXACT
    )
    torch.testing.assert_close(sinusoids(length, d), formula(length, d).float(), atol=1e-7, rtol=0)


@settings(max_examples=40, deadline=None)
@given(widths, st.integers(2, 200))
def test_rows_are_bounded_of_one_norm_unique_and_deterministic(d, n):
    table = sinusoids(n, d, dtype=torch.float64)
    assert table.abs().max() <= 1 and torch.equal(table, sinusoids(n, d, dtype=torch.float64))
    torch.testing.assert_close(
        table.norm(dim=1), torch.full((n,), math.sqrt(d / 2), dtype=torch.float64), **EXACT
    )
    # The fastest pair alone tells whole positions apart: p radians, and no two whole numbers differ
    # by a multiple of 2π.
    assert torch.cdist(table, table).fill_diagonal_(9).min() > 1e-3


@settings(max_examples=40, deadline=None)
@given(widths, st.integers(0, 60), st.integers(-40, 40))
def test_a_shift_is_one_rotation_for_all_positions(d, start, shift):
    table = sinusoids(160, d, dtype=torch.float64)
    moved = shift_matrix(shift, d, dtype=torch.float64)
    start = max(start, -shift)
    torch.testing.assert_close(
        table[start : start + 20] @ moved.T, table[start + shift : start + shift + 20], **EXACT
    )
    torch.testing.assert_close(moved @ moved.T, torch.eye(d).double(), **EXACT)
    # So the product of two position vectors depends on their distance alone.
    products = table @ table.T
    torch.testing.assert_close(products[start, start + shift], products[80, 80 + shift], **EXACT)


@pytest.mark.parametrize(
    "make", [lambda: SinusoidalPositions(6), lambda: LearnedPositions(40, 6).double()]
)
def test_an_offset_is_a_later_part_and_may_differ_by_row(make):
    torch.manual_seed(0)
    positions, x = make(), torch.randn(3, 5, 6, dtype=torch.float64)
    table = positions(torch.zeros(1, 30, 6).double())[0]
    torch.testing.assert_close(positions(x), x + table[:5], **EXACT)
    torch.testing.assert_close(positions(x, 7), x + table[7:12], **EXACT)
    torch.testing.assert_close(
        positions(x, torch.tensor([0, 9, 25])),
        x + torch.stack([table[:5], table[9:14], table[25:]]),
        **EXACT,
    )
    torch.testing.assert_close(positions(x[0], 2), x[0] + table[2:7], **EXACT)
    assert positions(x[:0], torch.tensor([], dtype=torch.long)).shape == (0, 5, 6)
    torch.testing.assert_close(copy.deepcopy(positions)(x, 7), x + table[7:12], **EXACT)


def test_a_module_made_double_or_asked_for_more_keeps_all_digits():
    positions = SinusoidalPositions(8)
    positions(torch.zeros(1, 3, 8))
    long = positions.double()(torch.zeros(1, 500, 8).double())[0]
    torch.testing.assert_close(long, formula(500, 8), **EXACT)
    assert positions(torch.zeros(1, 3, 8, dtype=torch.bfloat16)).dtype == torch.bfloat16
    assert not list(positions.parameters()) and not positions.state_dict()


def test_learned_positions_learn_where_they_were_used():
    positions = LearnedPositions(9, 4)
    positions(torch.zeros(2, 3, 4), 2).sum().backward()
    assert positions.weight.grad.sum(1).tolist() == [0, 0, 8, 8, 8, 0, 0, 0, 0]
    x = torch.randn(2, 3, 4)
    assert NoPositions()(x, 5) is x


WRONG = {
    "frequencies from k = 1": lambda p, k, d: (p / 10000 ** (2 * (k + 1) / d), False),
    "2k/d written as k/d": lambda p, k, d: (p / 10000 ** (k / d), False),
    "base to the power, not divided": lambda p, k, d: (p * 10000 ** (2 * k / d), False),
    "positions from 1": lambda p, k, d: ((p + 1) / 10000 ** (2 * k / d), False),
    "cosine first": lambda p, k, d: (p / 10000 ** (2 * k / d), True),
}


@pytest.mark.parametrize("mistake", WRONG)
def test_known_wrong_tables_are_told_apart(mistake):
    table = torch.zeros(9, 6).double()
    for p in range(9):
        for k in range(3):
            angle, swapped = WRONG[mistake](p, k, 6)
            pair = (math.sin(angle), math.cos(angle))
            table[p, 2 * k], table[p, 2 * k + 1] = pair[::-1] if swapped else pair
    assert (table - sinusoids(9, 6, dtype=torch.float64)).abs().max() > 1e-2
    if mistake == "frequencies from k = 1":  # too slow: the first positions run together
        wrong, right = table[0] @ table[1] / 3, formula(9, 6)[0] @ formula(9, 6)[1] / 3
        assert wrong > 0.99 > 0.9 > right


def test_sines_and_cosines_in_halves_are_another_order_of_columns():
    table = sinusoids(9, 6, dtype=torch.float64)
    halves = torch.cat([table[:, 0::2], table[:, 1::2]], 1)
    assert (halves - table).abs().max() > 0.1
    torch.testing.assert_close(halves @ halves.T, table @ table.T, **EXACT)


test_bad_input_is_named = refusals(
    ("length", lambda: sinusoids(0, 4)),
    ("d_model", lambda: sinusoids(3, 5)),
    ("d_model", lambda: SinusoidalPositions(5)),
    ("base", lambda: sinusoids(3, 4, base=1.0)),
    ("x", lambda: SinusoidalPositions(4)(torch.zeros(1, 2, 6))),
    ("offset", lambda: SinusoidalPositions(4)(torch.zeros(1, 2, 4), -1)),
    ("offset", lambda: SinusoidalPositions(4)(torch.zeros(2, 2, 4), torch.tensor([1]))),
    ("x must end before", lambda: LearnedPositions(4, 4)(torch.zeros(1, 5, 4))),
    (
        "x must end before",
        lambda: LearnedPositions(4, 4)(torch.zeros(2, 2, 4), torch.tensor([0, 3])),
    ),
    ("offset", lambda: SinusoidalPositions(4)(torch.zeros(2, 2, 4), torch.tensor([3, -1]))),
    ("offset", lambda: LearnedPositions(9, 4)(torch.zeros(2, 2, 4), torch.tensor([3, -1]))),
    ("offset", lambda: LearnedPositions(9, 4)(torch.zeros(2, 2, 4), torch.tensor([True, False]))),
    ("offset", lambda: LearnedPositions(9, 4)(torch.zeros(2, 2, 4), True)),
    ("max_length", lambda: LearnedPositions(0, 4)),
)
