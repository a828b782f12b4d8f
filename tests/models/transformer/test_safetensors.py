"""The reader of safetensors files gives what the package gives, and takes no file at its word."""

import json
import os
import tracemalloc

import pytest
import torch
from safetensors.torch import save, save_file

from attnbook.models.transformer.safetensors import LONGEST_HEADER, read_json, read_safetensors

TENSORS = {
    "a": torch.arange(6.0).reshape(2, 3),
    "half": torch.tensor([1.5, -2.0, 3.0]).half(),
    "brain": torch.tensor([[1.5], [-2.0]]).bfloat16(),
    "double": torch.tensor(0.1, dtype=torch.float64),
    "empty": torch.empty(0, 4),
    "whole": torch.tensor([-1, 2**40]),
    "yes": torch.tensor([True, False, True]),
}


def equal(found, wanted):
    assert set(found) == set(wanted)
    for name, tensor in wanted.items():
        assert found[name].dtype == tensor.dtype and torch.equal(found[name], tensor), name


def test_what_the_package_wrote_is_read(tmp_path):
    save_file(TENSORS, tmp_path / "m.safetensors", {"format": "pt"})
    equal(read_safetensors(tmp_path / "m.safetensors"), TENSORS)
    save_file({}, tmp_path / "none.safetensors")
    assert read_safetensors(tmp_path / "none.safetensors") == {}


def test_tensors_are_maps_that_leave_the_file_as_it_is(tmp_path):
    path = tmp_path / "m.safetensors"
    path.write_bytes(save({"a": torch.zeros(1000), "b": torch.ones(2)}))
    before = path.read_bytes()
    found = read_safetensors(path)
    assert (
        found["a"].untyped_storage().data_ptr() == found["b"].untyped_storage().data_ptr()
    )  # one map, no copies
    found["a"] += 1
    assert torch.equal(found["a"], torch.ones(1000)) and path.read_bytes() == before


def file_of(header, body=b"", length=None):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return (len(text) if length is None else length).to_bytes(8, "little") + text + body


def entry(dtype="F32", shape=(2,), offsets=(0, 8)):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


def test_what_stands_at_an_odd_address_is_copied(tmp_path):
    numbers = torch.tensor([1.5, -3.0])
    for pad in range(4):
        text = json.dumps({"a": entry()}).encode() + b" " * pad
        (tmp_path / "m").write_bytes(file_of(text, numbers.numpy().tobytes()))
        assert torch.equal(read_safetensors(tmp_path / "m")["a"], numbers)


TWO = {"a": entry(), "b": entry(offsets=(8, 16))}
WRONG = {
    "nothing": (b"", "8 bytes, it has 0"),
    "half a length": (b"\0\0\0", "8 bytes, it has 3"),
    "cut in the header": (file_of(TWO)[:40], "it has 40 in all"),
    "cut in a tensor": (file_of(TWO, bytes(15)), "must hold 16 bytes of tensors.*has 15"),
    "more than the header says": (file_of(TWO, bytes(17)), "must hold 16 bytes.*has 17"),
    "a huge header": (file_of({}, length=2**63), "at most 16,777,216 bytes, got 9,223,372,036"),
    "a pickle": (b"\x80\x04\x95" + bytes(50), "header of 9,766,016 bytes, it has 53"),
    "no JSON": (file_of(b"{'a': 1}"), "must be JSON"),
    "no UTF-8": (file_of(b'{"\xff": 1}'), "must be JSON"),
    "nested without end": (file_of(b"[" * 100_000), "must be JSON"),
    "a number without end": (file_of(b'{"a":' + b"9" * 5000 + b"}"), "must be JSON"),
    "a list": (file_of([1]), "must be an object, got \\[1\\]"),
    "a name twice": (file_of(b'{"a":1,"a":2}'), "a name comes twice"),
    "metadata of numbers": (file_of({"__metadata__": {"a": 1}}), "must map names to text"),
    "metadata of metadata": (file_of({"__metadata__": []}), "must map names to text, got \\[\\]"),
    "an entry that is none": (file_of({"a": 3}), "a in .* data_offsets, got 3"),
    "an entry that lacks": (file_of({"a": {"dtype": "F32"}}), "must have dtype, shape"),
    "an entry with more": (file_of({"a": entry() | {"code": "x"}}), "must have dtype, shape"),
    "an unknown dtype": (file_of({"a": entry("F8_E4M3")}, bytes(8)), "dtype of a .*'F8_E4M3'"),
    "a dtype that is a list": (file_of({"a": entry([])}, bytes(8)), "dtype of a .*got \\[\\]"),
    "a negative width": (file_of({"a": entry(shape=(-1, -2))}, bytes(8)), "shape of a .*-1, -2"),
    "a width that is no integer": (file_of({"a": entry(shape=(2.0,))}, bytes(8)), "2.0"),
    "a width that is a truth": (file_of({"a": entry(shape=(True, 2))}, bytes(8)), "True"),
    "a product that overflows": (
        file_of({"a": entry(shape=(2**32, 2**32), offsets=(0, 0))}),
        "shape of a .*4294967296",
    ),
    "nothing, but wide": (file_of({"a": entry(shape=(0, 2**40, 2**40), offsets=(0, 0))}), "shape"),
    "a shape that is larger": (file_of({"a": entry(shape=(3,))}, bytes(8)), "12 bytes apart"),
    "offsets beyond the file": (
        file_of({"a": entry(shape=(2**40,), offsets=(0, 2**42))}, bytes(8)),
        "must hold 4,398,046,511,104 bytes of tensors.*has 8: truncated",
    ),
    "offsets backwards": (file_of({"a": entry(offsets=(8, 0))}, bytes(8)), "got \\[8, 0\\]"),
    "negative offsets": (file_of({"a": entry(offsets=(-8, 0))}, bytes(8)), "got \\[-8, 0\\]"),
    "offsets that overlap": (
        file_of({"a": entry(), "b": entry(offsets=(4, 12))}, bytes(12)),
        "b in .* at 8, got 4",
    ),
    "one place for two": (file_of({"a": entry(), "b": entry()}, bytes(8)), "at 8, got 0"),
    "a gap": (file_of({"a": entry(), "b": entry(offsets=(12, 20))}, bytes(20)), "at 8, got 12"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_file_that_lies_is_refused(tmp_path, name):
    content, message = WRONG[name]
    path = tmp_path / "hostile.safetensors"
    path.write_bytes(content)
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=message) as raised:
            read_safetensors(path)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert "hostile.safetensors" in str(raised.value)
    assert len(str(raised.value)) < 600 and peak < 10e6


def test_every_cut_and_every_flipped_byte_of_the_header_is_an_error_or_a_file(tmp_path):
    """Nothing else than ``ValueError``, and no tensor larger than the file."""
    path, whole = tmp_path / "m.safetensors", save(TENSORS)
    cuts = [whole[:k] for k in range(0, len(whole), 7)]
    flips = [
        whole[:k] + bytes([whole[k] ^ bit]) + whole[k + 1 :]
        for k in range(0, len(whole) - 60, 2)
        for bit in (1, 16)
    ]
    for content in cuts:
        path.write_bytes(content)
        with pytest.raises(ValueError, match="safetensors"):
            read_safetensors(path)
    for content in flips:
        path.write_bytes(content)
        try:
            found = read_safetensors(path)
        except ValueError:
            continue
        assert sum(t.nbytes for t in found.values()) <= len(content)


def shards(folder, weight_map, **files):
    for name, tensors in files.items():
        save_file(tensors, folder / f"{name}.safetensors")
    index = {"metadata": {"total_size": 8}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return folder


def test_a_folder_is_one_file_or_an_index_of_several(tmp_path):
    one, two = {"a": torch.ones(2)}, {"b": torch.zeros(3), "c": torch.ones(1)}
    where = {"a": "one.safetensors", "b": "two.safetensors", "c": "two.safetensors"}
    (tmp_path / "several").mkdir()
    equal(read_safetensors(shards(tmp_path / "several", where, one=one, two=two)), one | two)
    (tmp_path / "single").mkdir()
    with pytest.raises(FileNotFoundError, match="neither"):
        read_safetensors(tmp_path / "single")
    save_file(one, tmp_path / "single" / "model.safetensors")
    equal(read_safetensors(tmp_path / "single"), one)


@pytest.mark.parametrize(
    ("where", "error", "message"),
    [
        ({"a": "../secret.safetensors"}, ValueError, "of its folder, got '../secret"),
        ({"a": "/etc/passwd"}, ValueError, "of its folder, got '/etc/passwd'"),
        ({"a": "..\\one.safetensors"}, ValueError, "of its folder"),
        ({"a": "code.py"}, ValueError, "got 'code.py'"),
        ({"a": 1}, ValueError, "weight_map from tensors to files"),
        (["a"], ValueError, "weight_map from tensors to files"),
        ({"a": "one.safetensors", "z": "one.safetensors"}, ValueError, "must hold the tensor z"),
        ({"a": "three.safetensors"}, FileNotFoundError, "three.safetensors"),
        ({"a": "pipe.safetensors"}, FileNotFoundError, "pipe.safetensors"),
    ],
)
def test_an_index_that_lies_is_refused(tmp_path, where, error, message):
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe.safetensors")
    with pytest.raises(error, match=message):
        read_safetensors(shards(tmp_path, where, one={"a": torch.ones(2)}))


def test_an_endless_json_file_is_not_read_to_its_end(tmp_path):
    (tmp_path / "config.json").write_bytes(b" " * (LONGEST_HEADER + 1))
    with pytest.raises(ValueError, match="at most 16,777,216 bytes"):
        read_json(tmp_path / "config.json")
