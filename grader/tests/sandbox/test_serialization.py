"""Values as data: what goes through, what does not, and what a hostile message cannot do."""

import json
import math
from collections import OrderedDict

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attnbook_grader.protocol.serialization import (
    DEPTH,
    ProtocolError,
    decode,
    encode,
    pack,
    tensors_in,
    unpack,
)


def through(value):
    tensors = []

    def keep(tensor):
        tensors.append(tensor)
        return len(tensors) - 1

    head, found = unpack(pack({"value": encode(value, keep, None)}, tensors))
    return decode(head["value"], found, None)


def same(one, other):
    if isinstance(one, float) and math.isnan(one):
        return isinstance(other, float) and math.isnan(other)
    if type(one) is not type(other):
        return False
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    return one == other


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text() | st.integers() | st.tuples(st.integers()), inner, max_size=4)
        | st.frozensets(st.integers(), max_size=4)
        | st.sets(st.integers(), max_size=4)
    ),
    max_leaves=12,
)


@given(PLAIN)
def test_plain_values_come_back_as_they_were(value):
    assert same(value, through(value))


KINDS = (
    "bool uint8 uint16 uint32 uint64 int8 int16 int32 int64 float16 bfloat16 float32 float64"
).split()
DTYPES = [getattr(torch, kind) for kind in KINDS]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 4), (2, 3, 4)], ids=str)
def test_tensors_come_back_bit_by_bit(dtype, shape):
    value = (4 * torch.randn(shape, generator=torch.Generator().manual_seed(0))).to(dtype)
    (got,) = through([value])
    assert got.dtype == dtype and got.shape == value.shape and torch.equal(got, value)


def test_numbers_that_are_none_come_through():
    value = torch.tensor([float("nan"), float("inf"), -float("inf"), -0.0])
    assert torch.equal(through(value).view(torch.int32), value.view(torch.int32))


def test_views_and_turned_tensors_come_as_they_look():
    value = torch.arange(12.0).reshape(3, 4)
    part = torch.complex(value, value).conj().real
    for view in (value.T, value[:, ::2], value[1], value.expand(2, 3, 4), part):
        assert torch.equal(through(view), view)


def test_columns_first_stay_columns_first():
    """An answer that asks for a view of them stops here as it does in the notebook."""
    turned = torch.arange(24.0).reshape(2, 3, 4).mT
    for value in (turned, turned.contiguous(), turned.clone().requires_grad_()):
        made = through(value)
        assert made.stride() == value.stride() and torch.equal(made, value)
        assert made.is_leaf and made.requires_grad == value.requires_grad


def test_what_hangs_on_a_tensor_comes_too():
    leaf = torch.ones(2, requires_grad=True)
    leaf.grad = torch.ones(2)
    got = through({"a": leaf, "b": torch.nn.Parameter(torch.ones(1)), "c": torch.ones(1)})
    assert got["a"].requires_grad and got["a"].grad is not None
    assert type(got["b"]) is torch.nn.Parameter and got["b"].requires_grad
    assert not got["c"].requires_grad


ARRAYS = [np.arange(6.0).reshape(2, 3), np.zeros((0, 2)), np.arange(4)[::-2]]
ARRAYS += [np.float64(1.5), np.int32(7), np.bool_(True)]


@pytest.mark.parametrize("value", ARRAYS, ids=repr)
def test_arrays_come_back_as_arrays(value):
    got = through(value)
    assert type(got) is type(value) and got.dtype == value.dtype and np.array_equal(got, value)


def test_a_range_comes_as_a_list_and_every_dict_as_one():
    assert through(range(3, 9, 2)) == [3, 5, 7]
    kept = OrderedDict(a=1, b=torch.ones(1))
    assert type(through(kept)) is dict and list(through(kept)) == ["a", "b"]


def test_other_things_come_as_an_empty_object_of_that_name():
    class Bomb:
        def __reduce__(self):
            raise AssertionError("pickled")

        def __eq__(self, other):
            return True

    for value in (Bomb(), object(), range(10**6), 3j, b"x", int, len):
        got = through(value)
        assert type(got).__name__ == type(value).__name__ and not vars(got) and got != 1


@pytest.mark.parametrize("kind", ["complex", "sparse", "meta"])
def test_tensors_of_strange_kinds_say_what_they_are(kind):
    one = torch.ones(2, 2)
    value = {"complex": one.to(torch.complex64), "sparse": one.to_sparse(), "meta": one.to("meta")}
    got, value = through(value[kind]), value[kind]
    for name in ("shape", "dtype", "layout"):
        assert getattr(got, name) == getattr(value, name)
    assert got.device.type == value.device.type


def test_lists_that_hold_themselves_are_refused():
    value = []
    value.append(value)
    with pytest.raises(ValueError, match="contains itself"):
        through(value)
    deep = []
    for _ in range(DEPTH - 1):
        deep = [deep]
    assert through(deep) == deep


def test_the_tensors_of_a_value_are_found_in_order():
    a, b, c = torch.ones(1), torch.zeros(2), torch.ones(3)
    assert [len(t) for t in tensors_in([a, (b, {"x": c}), torch.ones(4).long()])] == [1, 2, 3]


HOSTILE = [
    [1, 2],
    {"tensor": 0},
    {"tensor": 5, "grad": False, "left": False, "parameter": False},
    {"tensor": "0"},
    {"array": 0, "shape": [2], "dtype": "O"},
    {"array": 0, "shape": [-1], "dtype": "<f4"},
    {"array": 0, "shape": [10**9], "dtype": "<f4"},
    {"array": 0, "shape": None, "dtype": "<U8"},
    {"float": "one"},
    {"integer": 3},
    {"list": 3},
    {"dict": [[{"list": []}, 1]]},
    {"dict": [1]},
    {"set": [{"list": []}]},
    {"function": "x", "names": []},
    {"what": 1},
    {},
    {"strange": "strided", "shape": [10**6, 10**6], "dtype": "float32"},
    {"strange": "strided", "shape": [2], "dtype": "load"},
    {"strange": "strided", "shape": [2, "x"], "dtype": "float32"},
]


@pytest.mark.parametrize("tree", HOSTILE, ids=lambda tree: json.dumps(tree)[:50])
def test_trees_that_nobody_writes_are_refused(tree):
    with pytest.raises(ProtocolError):
        decode(tree, [torch.zeros(4, dtype=torch.uint8)], lambda number, names: None)


TENSOR = {"tensor": 0, "grad": False, "left": False, "parameter": False}
ARRAY = {"array": 0, "shape": [4], "dtype": "|u1"}
COMPLEX = {"strange": "strided", "shape": [900, 1000], "dtype": "complex128"}
LONG = [{"integer": hex(k * (2**61 - 1))} for k in range(2, 40_000)]
SAME_HASH = "with the same hash"
GROWING = {
    "one tensor many times": ({"list": [TENSOR] * 150}, "there twice"),
    "one array many times": ({"list": [ARRAY] * 2}, "there twice"),
    "strange tensors": ({"list": [COMPLEX] * 2}, "entries of a strange kind"),
    "long numbers": ({"list": LONG}, "more than 1,000 whole numbers"),
    "a long number as it is": ({"list": [2**62]}, "no value"),
    "entries of the same hash": ({"set": [{"tuple": [n]} for n in LONG[:200]]}, SAME_HASH),
    "frozen entries of the same hash": ({"frozenset": LONG[:200]}, SAME_HASH),
    "keys of the same hash": ({"dict": [[n, None] for n in LONG[:200]]}, SAME_HASH),
}


@pytest.mark.parametrize("name", GROWING)
def test_what_grows_when_it_is_read_is_refused(name):
    tree, words = GROWING[name]
    with pytest.raises(ProtocolError, match=words):
        decode(tree, [torch.zeros(4, dtype=torch.uint8)], lambda number, names: None)


def test_large_sets_and_a_tensor_in_two_places_come_through():
    x = torch.ones(3)
    large = [set(range(50_000)), {(k, str(k)): k for k in range(5_000)}]
    large += [[2**70 + k for k in range(1000)]]
    _, again, *got = through([x, {"again": x}, *large])
    assert torch.equal(again["again"], x) and got == large


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"123",
        b"\xff" * 8 + b"{}",
        (2).to_bytes(8, "little") + b"[]",
        (2).to_bytes(8, "little") + b"{}" + b"no safetensors",
        (40_000).to_bytes(8, "little") + b"[" * 40_000,
        b"\x80\x04\x95" * 20,
        (4).to_bytes(8, "little") + b"\xff\xfe{}",
    ],
)
def test_bytes_that_are_no_message_are_refused(message):
    with pytest.raises(ProtocolError):
        unpack(message)


@given(st.binary(max_size=200))
def test_no_bytes_do_anything_else(message):
    try:
        head, tensors = unpack(message)
        decode(head.get("value"), tensors, lambda number, names: None)
    except ProtocolError:
        return
    assert type(head) is dict and all(type(tensor) is torch.Tensor for tensor in tensors)


def test_names_of_classes_are_harmless():
    odd = type("<script>alert(1)</script>", (), {})()
    assert type(through(odd)).__name__ == "scriptalert1script"
    assert type(through(type("x" * 1000, (), {})())).__name__ == "x" * 40
