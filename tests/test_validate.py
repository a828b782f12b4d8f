"""The wording of every check of an argument: once, here; callers test that they ask."""

import math

import pytest
import torch

from attnbook.validate import (
    check_choice,
    check_integer,
    check_mask,
    check_number,
    check_range,
    check_tensor,
)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: check_integer("heads", 0), "heads must be an integer >= 1, got 0"),
        (lambda: check_integer("heads", True), "heads must be an integer >= 1, got True"),
        (lambda: check_integer("heads", 2.0), "heads must be an integer >= 1, got 2.0"),
        (lambda: check_integer("size", -1, 0), "size must be an integer >= 0, got -1"),
        (lambda: check_integer("arm", 4, 0, 3), "arm must be an integer from 0 to 3, got 4"),
        (
            lambda: check_number("rate", 1.0, least=0, below=1),
            "rate must be a finite number >= 0 and < 1",
        ),
        (lambda: check_number("rate", 0, above=0), "rate must be a finite number > 0, got 0"),
        (lambda: check_number("rate", 2, most=1), "rate must be a finite number <= 1, got 2"),
        (lambda: check_number("rate", math.nan), "rate must be a finite number, got nan"),
        (lambda: check_number("rate", "1"), "rate must be a finite number, got '1'"),
        (lambda: check_number("rate", True), "rate must be a finite number, got True"),
        (lambda: check_range("n", 2, 3), "n must be an integer >= 3, or (low, high) of such with"),
        (lambda: check_range("n", (4, 3)), "n must be an integer >= 1, or (low, high)"),
        (lambda: check_range("n", (1, 2, 3)), "n must be an integer"),
        (lambda: check_range("n", (1, "2")), "n must be an integer"),
        (lambda: check_range("n", True), "n must be an integer"),
        (lambda: check_choice("kind", "x", ("a", "b")), "kind must be one of 'a', 'b', got 'x'"),
        (lambda: check_tensor("key", [1.0]), "key must be a tensor (…, length, width), got list"),
        (lambda: check_tensor("key", torch.ones(3)), "key must have at least two dimensions"),
        (lambda: check_tensor("key", torch.ones(2, 3, dtype=torch.int)), "key must hold floating"),
        (lambda: check_tensor("key", torch.ones(2, 3), width=4), "key must have width 4"),
        (lambda: check_mask(torch.ones(2, 3), (2, 3)), "mask must be a boolean tensor (True = may"),
        (lambda: check_mask(torch.ones(3, 3).bool(), (2, 3)), "mask must be broadcastable to"),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else "",
)
def test_a_wrong_argument_is_named_with_what_came_and_what_was_expected(call, message):
    with pytest.raises(ValueError) as error:
        call()
    assert str(error.value).startswith(message)


def test_what_is_right_comes_back():
    assert check_integer("n", 3) == 3 and check_integer("n", 0, 0, 0) == 0
    assert check_number("p", 0.5, least=0, below=1) == 0.5 and check_number("p", 2) == 2
    assert check_range("n", 3) == (3, 3) and check_range("n", [0, 2], 0) == (0, 2)
    assert check_choice("kind", "b", ("a", "b")) == "b"
    assert check_mask(None, (2, 3)) is None
