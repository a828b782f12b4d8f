"""Files of tensors are read as they were written, and none is taken at its word."""

import json
import os
import tracemalloc

import pytest
import torch
from safetensors.torch import save, save_file

from attnbook.pretrained.config import LONGEST_JSON, read_json
from attnbook.pretrained.tensors import read_tensors, write_tensors

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
    equal(read_tensors(tmp_path / "m.safetensors"), TENSORS)
    save_file({}, tmp_path / "none.safetensors")
    assert read_tensors(tmp_path / "none.safetensors") == {}


def test_tensors_are_maps_that_leave_the_file_as_it_is(tmp_path):
    path = tmp_path / "m.safetensors"
    path.write_bytes(save({"a": torch.zeros(1000), "b": torch.ones(2)}))
    before = path.read_bytes()
    read_tensors(path)["a"].add_(1)
    assert path.read_bytes() == before


def file_of(header, body=b"", length=None):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return (len(text) if length is None else length).to_bytes(8, "little") + text + body


def entry(dtype="F32", shape=(2,), offsets=(0, 8)):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


TWO = {"a": entry(), "b": entry(offsets=(8, 16))}
WRONG = {
    "nothing": b"",
    "half a length": b"\0\0\0",
    "cut in the header": file_of(TWO)[:40],
    "cut in a tensor": file_of(TWO, bytes(15)),
    "more than the header says": file_of(TWO, bytes(17)),
    "a huge header": file_of({}, length=2**63),
    "a pickle": b"\x80\x04\x95" + bytes(50),
    "no JSON": file_of(b"{'a': 1}"),
    "no UTF-8": file_of(b'{"\xff": 1}'),
    "nested without end": file_of(b"[" * 100_000),
    "a number without end": file_of(b'{"a":' + b"9" * 5000 + b"}"),
    "a list": file_of([1]),
    "metadata of numbers": file_of({"__metadata__": {"a": 1}}),
    "an entry that is none": file_of({"a": 3}),
    "an entry that lacks": file_of({"a": {"dtype": "F32"}}),
    "an unknown dtype": file_of({"a": entry("F7")}, bytes(8)),
    "a dtype that is a list": file_of({"a": entry([])}, bytes(8)),
    "a negative width": file_of({"a": entry(shape=(-1, -2))}, bytes(8)),
    "a width that is no integer": file_of({"a": entry(shape=(2.0,))}, bytes(8)),
    "a product that overflows": file_of({"a": entry(shape=(2**32, 2**32), offsets=(0, 0))}),
    "nothing, but wide": file_of({"a": entry(shape=(0, 2**40, 2**40), offsets=(0, 0))}),
    "a shape that is larger": file_of({"a": entry(shape=(3,))}, bytes(8)),
    "offsets beyond the file": file_of({"a": entry(shape=(2**40,), offsets=(0, 2**42))}, bytes(8)),
    "offsets backwards": file_of({"a": entry(offsets=(8, 0))}, bytes(8)),
    "negative offsets": file_of({"a": entry(offsets=(-8, 0))}, bytes(8)),
    "offsets that overlap": file_of({"a": entry(), "b": entry(offsets=(4, 12))}, bytes(12)),
    "one place for two": file_of({"a": entry(), "b": entry()}, bytes(8)),
    "a gap": file_of({"a": entry(), "b": entry(offsets=(12, 20))}, bytes(20)),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_file_that_lies_is_refused(tmp_path, name):
    path = tmp_path / "hostile.safetensors"
    path.write_bytes(WRONG[name])
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="must be a complete|must hold tensors") as raised:
            read_tensors(path)
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
            read_tensors(path)
    for content in flips:
        path.write_bytes(content)
        try:
            found = read_tensors(path)
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
    equal(read_tensors(shards(tmp_path / "several", where, one=one, two=two)), one | two)
    (tmp_path / "single").mkdir()
    with pytest.raises(FileNotFoundError, match="neither"):
        read_tensors(tmp_path / "single")
    save_file(one, tmp_path / "single" / "model.safetensors")
    equal(read_tensors(tmp_path / "single"), one)


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
        read_tensors(shards(tmp_path, where, one={"a": torch.ones(2)}))


def test_an_endless_json_file_is_not_read_to_its_end(tmp_path):
    (tmp_path / "config.json").write_bytes(b" " * (LONGEST_JSON + 1))
    with pytest.raises(ValueError, match="at most 16,777,216 bytes"):
        read_json(tmp_path / "config.json")


def test_what_is_written_is_read_whole_or_in_shards(tmp_path):
    from safetensors.torch import load_file

    tensors = {"a": torch.arange(6.0).view(2, 3).T, "b": torch.ones(5).half(), "c": torch.ones(1)}
    tensors["again"] = tensors["b"]  # the same memory
    for most, files in ((10**9, 1), (30, 2), (1, 4)):
        folder = tmp_path / str(most)
        folder.mkdir()
        names = write_tensors(tensors, folder, most)
        assert len(list(folder.glob("*.safetensors"))) == files
        assert sorted(names) == sorted(path.name for path in folder.iterdir())
        equal(read_tensors(folder), tensors)
    assert load_file(tmp_path / "30" / "model-00001-of-00002.safetensors").keys() == {"a"}
    index = json.loads((tmp_path / "30" / "model.safetensors.index.json").read_text())
    assert index["metadata"]["total_size"] == sum(t.nbytes for t in tensors.values())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": 1, "a": 2}', "a name comes twice"),
        ("[1]", r"must be an object, got \[1\]"),
        ("{'a': 1}", "must be JSON"),
        ('{"a": ' + "9" * 400 + "}", "a number has 400 digits"),
        ("[" * 100_000, "must be JSON"),
    ],
)
def test_a_json_file_that_lies_is_refused(tmp_path, text, message):
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(ValueError, match=message):
        read_json(tmp_path / "config.json")
