"""The wording of every check of an argument: once, here; callers test that they ask."""

import math

import numpy as np
import pandas as pd
import pytest
import torch

from attnbook.validate import (
    check_choice,
    check_dtypes,
    check_ids,
    check_integer,
    check_lengths,
    check_maker,
    check_mask,
    check_number,
    check_range,
    check_tensor,
    check_value,
    check_values,
    check_whole,
)

MAKER = "norm must be a function or a class that makes modules"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: check_integer("heads", 0), "heads must be an integer >= 1, got 0"),
        (
            lambda: check_integer("n", 2**63),
            "n must be an integer >= 1 and of 64 bits, got 9223372",
        ),
        (lambda: check_integer("heads", True), "heads must be an integer >= 1, got True"),
        (lambda: check_integer("heads", 2.0), "heads must be an integer >= 1, got 2.0"),
        (lambda: check_integer("size", -1, 0), "size must be an integer >= 0, got -1"),
        (lambda: check_integer("arm", 4, 0, 3), "arm must be an integer from 0 to 3, got 4"),
        (
            lambda: check_number("p", 1.0, least=0, below=1),
            "p must be a finite number >= 0 and < 1",
        ),
        (lambda: check_number("rate", 0, above=0), "rate must be a finite number > 0, got 0"),
        (lambda: check_number("rate", 2, most=1), "rate must be a finite number <= 1, got 2"),
        (lambda: check_number("rate", math.nan), "rate must be a finite number, got nan"),
        (lambda: check_number("rate", "1"), "rate must be a finite number, got '1'"),
        (lambda: check_number("rate", True), "rate must be a finite number, got True"),
        (lambda: check_number("base", 10**400), "base must be a finite number, got 1000000"),
        (lambda: check_number("rate", np.float32(np.inf)), "rate must be a finite number, got np"),
        (lambda: check_number("rate", np.True_), "rate must be a finite number, got np.True_"),
        (lambda: check_number("rate", torch.ones(())), "rate must be a finite number, got tensor"),
        (lambda: check_integer("heads", np.int64(0)), "heads must be an integer >= 1, got np.int6"),
        (lambda: check_integer("heads", np.True_), "heads must be an integer >= 1, got np.True_"),
        (lambda: check_integer("heads", np.float64(2)), "heads must be an integer >= 1, got np.fl"),
        (lambda: check_integer("heads", 2j), "heads must be an integer >= 1, got 2j"),
        (lambda: check_range("n", (np.int64(4), 3)), "n must be an integer >= 1, or (low, high)"),
        (lambda: check_range("n", np.arange(2, 4)), "n must be an integer >= 1, or (low, high)"),
        (lambda: check_maker("norm", torch.nn.Identity()), f"{MAKER}, got the module Identity"),
        (lambda: check_maker("norm", "layer"), f"{MAKER}, got str"),
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
        (lambda: check_whole("heads", [1]), "heads must be a tensor of whole numbers, got list"),
        (lambda: check_whole("heads", torch.ones(2)), "heads must be a tensor of whole numbers"),
        (lambda: check_whole("ids", torch.ones(2) > 0), "ids must be a tensor of whole numbers"),
        (
            lambda: check_lengths(torch.tensor([1, 2]), 3, "source"),
            "lengths must be a vector of 3 whole numbers, one per row of source, got shape (2,) of",
        ),
        (lambda: check_lengths([1, 2], 2, "source"), "lengths must be a vector of 2 whole numbers"),
        (lambda: check_lengths(torch.ones(2), 2, "source"), "lengths must be a vector of 2 whole"),
        (
            lambda: check_lengths(torch.tensor([1, 5]), 2, "source", 1, 4),
            "lengths must be between 1 and 4, got numbers from 1 to 5",
        ),
        (
            lambda: check_ids("source", torch.tensor([[3, 0], [8, 1]]), 8),
            "source must be between 0 and 7, got numbers from 0 to 8",
        ),
        (
            lambda: check_ids("story", torch.ones(2, 3).long(), 8, "(batch, sentences, words)"),
            "story must be token ids (batch, sentences, words), at least one of each, got shape",
        ),
        (
            lambda: check_ids("source", torch.ones(2, 0).long(), 8),
            "source must be token ids (batch",
        ),
        (lambda: check_ids("text", torch.ones(2, 3), 8), "text must be token ids (batch, length)"),
        (lambda: check_ids("text", [[1]], 8), "text must be token ids (batch, length), at least"),
        (
            lambda: check_values("gate", torch.tensor([0.5, 1.25]), 0, 1),
            "gate must be between 0 and 1, got numbers from 0.5 to 1.25",
        ),
        (
            lambda: check_values("gamma", torch.tensor([0.5, 2.0]), 1),
            "gamma must be at least 1, got numbers from 0.5 to 2",
        ),
        (
            lambda: check_value(torch.ones(2, 3), torch.ones(4, 3)),
            "value must have as many positions as key (4), got shape (2, 3)",
        ),
        (
            lambda: check_dtypes(torch.ones(2), torch.ones(2), torch.ones(2).double()),
            "query, key and value must have one dtype, got torch.float32, torch.float32 and",
        ),
        (lambda: check_mask(torch.ones(2, 3), (2, 3)), "mask must be a boolean tensor (True = may"),
        (
            lambda: check_mask([True], (2, 3)),
            "mask must be a boolean tensor (True = may attend), got",
        ),
        (
            lambda: check_mask(torch.ones(4, 7).bool(), (4, 3, 7)),
            "mask must be broadcastable to (…, queries, keys) = (4, 3, 7), got shape (4, 7); a "
            "padding mask (batch, keys) needs a dimension for the queries: mask[:, None, :], or is "
            "given as key_mask",
        ),
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
    assert check_maker("norm", torch.nn.Identity) is torch.nn.Identity
    assert check_mask(None, (2, 3)) is None
    ids = torch.tensor([[0, 7]])
    check_ids("ids", ids, 8)
    check_values("ids", ids, 0, 7)
    assert check_whole("ids", ids) is ids and check_lengths(ids[0], 2, "x", 0, 7).equal(ids[0])


@pytest.mark.parametrize("kind", [np.int64, np.int32, np.uint8, np.intp])
def test_an_integer_of_numpy_is_an_integer_and_comes_back_as_pythons(kind):
    """So that a size goes into JSON, into a checkpoint and into a message as any other."""
    given = kind(3)
    ranges = *check_range("n", given), *check_range("n", [given, 3])
    for got in (check_integer("n", given), *ranges, check_number("n", given, least=1)):
        assert got == 3 and type(got) is int


def test_numbers_of_numpy_and_pandas_come_back_as_pythons():
    table = pd.DataFrame({"size": [2, 3], "rate": [0.5, 0.25]})
    assert type(check_integer("size", table["size"].max())) is int
    for value in (table["rate"][1], np.float32(0.25), np.float16(0.25)):
        got = check_number("rate", value, above=0, below=1)
        assert got == 0.25 and type(got) is float
    assert type(check_number("n", 2)) is int and type(check_number("n", 2.0)) is float
