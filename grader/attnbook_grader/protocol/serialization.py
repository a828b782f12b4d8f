"""Values as data: a JSON tree and a block of tensors, and back. Nothing is pickled, and reading
never runs anything.

What goes through: None, bool, int, float, str, list, tuple, set, frozenset, dict, tensors, NumPy
arrays and numbers, and named tuples, strings of other classes and fractions as what they stand for.
A function goes through as the number of an entry in the sender's table, which the receiver can ask
the sender to call. Anything else, and a tuple or dict of a class of its own, arrives as a `Handle`,
whose class has the same name, so that a message can say what came. When it goes back it is the same
object again: an answer may keep what it likes in a cache that the check only passes on."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from fractions import Fraction

import numpy as np
import torch
from safetensors.torch import load, save

from attnbook_exercises.answers.arguments import is_named_tuple

__all__ = ["Handle", "ProtocolError", "decode", "encode", "pack", "unpack", "tensors_in"]

DEPTH = 32
"""How deep lists may be nested in one another."""
_RANGE = 100_000
"""Numbers of a range that is sent as a list."""
LONG, EQUAL, STRANGE = 1000, 100, 1_000_000
"""In one message: whole numbers of 62 bits and more, whose hashes anybody can choose; entries of a
set or keys of a dict with the same hash, of which a look-up tries each; and entries of tensors of
strange kinds, which cost the sender nothing."""
_PLAIN = (torch.Tensor, torch.nn.Parameter)
_CONTAINERS = {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset}
_DTYPES = {
    str(d).removeprefix("torch."): d for d in vars(torch).values() if isinstance(d, torch.dtype)
}
_CARRIED = {torch.bool, torch.float16, torch.bfloat16, torch.float32, torch.float64} | {
    _DTYPES[f"{sign}int{bits}"] for sign in ("", "u") for bits in (8, 16, 32, 64)
}
_ARRAYS = "biuf"
_GARBLED = (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)


class Handle:
    """What the other side has under this number; None for what is nowhere kept."""

    number: int | None = None
    made_by: tuple = (None, ())


class _Tuple(tuple, Handle):
    _fields = ()  # a named tuple to the checks


class _Dict(dict, Handle):
    pass


class ProtocolError(ValueError):
    """What came over the pipe is not a message of this protocol."""


def encode(value, keep, function, hold=None, back=None, depth: int = 0):
    """`value` as a JSON tree.

    keep: called with every tensor, detached, on the CPU and contiguous; returns its place
    function: called with every callable; returns its number. None: callables are objects like
    others
    hold: called with every object that arrives as a Handle; returns its number. None: nothing is
    to come back
    back: called with every value; returns the number that the other side gave it, or None
    Raises ValueError for what is nested more than DEPTH deep.
    """
    if depth > DEPTH:
        raise ValueError(
            f"value: lists nested more than {DEPTH} deep, or a list that contains itself"
        )

    def inner(entry):
        return encode(entry, keep, function, hold, back, depth + 1)

    def handle():
        return {} if hold is None else {"handle": hold(value), "name": name}

    kind = type(value)
    name = kind.__name__ if isinstance(kind.__name__, str) else "object"
    if back is not None and (number := back(value)) is not None:
        return {"mine": number}
    if value is None or kind in (bool, str):
        return value
    if isinstance(value, str):  # np.str_, a member of an Enum of strings
        return str.__str__(value)
    if kind in (Decimal, Fraction):
        return {"float": float(value).hex()}
    if kind is int:
        return value if abs(value) < 1 << 62 else {"integer": hex(value)}
    if kind is float:
        return {"float": value.hex()}
    if kind is range and len(value) <= _RANGE:
        return {"list": [inner(entry) for entry in value]}
    if kind in _CONTAINERS.values():
        return {kind.__name__: [inner(entry) for entry in value]}
    if is_named_tuple(value):
        return {"tuple": [inner(entry) for entry in tuple.__iter__(value)], **handle()}
    if isinstance(value, dict):  # an OrderedDict, as of state_dict, is one to the checks as well
        pairs = [[inner(key), inner(entry)] for key, entry in dict.items(value)]
        return {"dict": pairs, **(handle() if kind is not dict else {})}
    if kind in _PLAIN:
        return _tensor(value, keep)
    if kind is np.ndarray and value.dtype.kind in _ARRAYS and value.dtype.itemsize <= 8:
        flat = keep(_of_array(value))
        return {"array": flat, "shape": list(value.shape), "dtype": value.dtype.str}
    if isinstance(value, np.generic) and value.dtype.kind in _ARRAYS and value.dtype.itemsize <= 8:
        flat = keep(_of_array(np.asarray(value)))
        return {"array": flat, "shape": None, "dtype": value.dtype.str}
    if function is not None and callable(value) and not isinstance(value, type):
        return {"function": function(value), "names": _names(value)}
    return {"object": name, **handle()}


def decode(tree, tensors, function, own=None):
    """The value of a tree.

    tensors: list of the block's tensors
    function: called with the number and the argument names of a function; returns what stands for
    it here
    own: what was handed over from here, by number, to be given back
    Raises MemoryError, and ProtocolError for anything that `encode` does not write, and for what is
    small here and large or slow once it is read."""
    return _decode(tree, _Block(tensors), function, own, 0)


def _decode(tree, block, function, own, depth):
    if depth > DEPTH + 1:
        raise ProtocolError("nested too deep")

    def inner(entry):
        return _decode(entry, block, function, own, depth + 1)

    if tree is None or type(tree) in (bool, str) or type(tree) is int and abs(tree) < 1 << 62:
        return tree
    if type(tree) is not dict or not tree:
        raise ProtocolError(f"no value: {str(tree)[:60]}")
    try:
        what = next(iter(tree))
        if what == "integer":
            block.count("whole numbers of 62 bits and more", 1, LONG)
            return int(tree["integer"], 16)
        if what == "float":
            return float.fromhex(tree["float"])
        if what in _CONTAINERS:
            entries = [inner(entry) for entry in tree[what]]
            made = _CONTAINERS[what](entries if what in ("list", "tuple") else _apart(entries))
            return _numbered(tree, _Tuple, made) if "handle" in tree else made
        if what == "dict":
            pairs = [(inner(key), inner(entry)) for key, entry in tree["dict"]]
            _apart(key for key, _ in pairs)
            return _numbered(tree, _Dict, dict(pairs)) if "handle" in tree else dict(pairs)
        if what == "tensor":
            return _read_tensor(tree, block)
        if what == "array":
            flat = block.take(tree["array"]).numpy().view(_array_dtype(tree["dtype"]))
            if tree["shape"] is None:
                return flat.copy()[0]
            return flat.copy().reshape(_shape(tree["shape"]))
        if what == "strange":
            return _strange(tree["strange"], tree["shape"], tree["dtype"], block)
        if what == "function":
            names = [str(name)[:40] for name in tree["names"]][:40]
            return function(int(tree["function"]), names)
        if what == "object":
            return _numbered({"name": tree["object"], **tree}, Handle)
        if what == "mine" and own is not None:
            return own[_index(tree["mine"])]
    except ProtocolError:
        raise
    except _GARBLED as error:
        raise ProtocolError(f"no value: {type(error).__name__}") from None
    raise ProtocolError(f"no value: {str(what)[:60]}")


def pack(head, tensors) -> bytes:
    """One message: the length of the JSON, the JSON, the tensors as safetensors."""
    text = json.dumps(head, allow_nan=False).encode()
    _room(3 * sum(tensor.nbytes for tensor in tensors))
    block = save({str(i): tensor for i, tensor in enumerate(tensors)}) if tensors else b""
    return len(text).to_bytes(8, "little") + text + block


def unpack(message: bytes):
    """(head, tensors) of a message. Raises ProtocolError, MemoryError."""
    size = int.from_bytes(message[:8], "little")
    if len(message) < 8 or size > len(message) - 8:
        raise ProtocolError("a message ends early")
    try:
        head = json.loads(message[8 : 8 + size])
        _room(2 * len(message))
        found = load(message[8 + size :]) if len(message) > 8 + size else {}
        tensors = [found[str(i)] for i in range(len(found))]
    except MemoryError:
        raise
    except Exception as error:
        # safetensors raises its own kind; the JSON may be too deep, or no text
        raise ProtocolError(f"no message: {type(error).__name__}") from None
    if type(head) is not dict:
        raise ProtocolError("no message: the head is no object")
    return head, tensors


def tensors_in(value, but: frozenset[int] = frozenset()) -> list[torch.Tensor]:
    """The tensors of floats in a value, down to those inside of lists and dicts, in order.

    but: `id` of objects to leave out
    """
    if id(value) in but:
        return []
    if type(value) in _PLAIN:
        return [value] if value.is_floating_point() else []
    entries = ()
    if type(value) in (list, tuple) or is_named_tuple(value):
        entries = tuple(value) if type(value) is list else tuple.__iter__(value)
    elif isinstance(value, dict):
        entries = dict.values(value)
    return [tensor for entry in entries for tensor in tensors_in(entry, but)]


def _room(size):
    """Raise MemoryError unless there is so much room and some; safetensors ends the process."""
    np.empty(size + 2**22, dtype=np.uint8)


def _tensor(value, keep):
    """A tensor, with what `checks` looks at: whether it asks for gradients, and whether some
    were left on it.
    """
    plain = torch.Tensor.detach(value)
    if plain.layout != torch.strided or plain.device.type == "meta" or plain.dtype not in _CARRIED:
        layout = "meta" if plain.device.type == "meta" else str(plain.layout)
        kind = {"strange": layout.removeprefix("torch."), "shape": list(plain.shape)}
        return {**kind, "dtype": str(plain.dtype).removeprefix("torch.")}
    plain = plain.cpu().resolve_conj().resolve_neg()
    # the order of the numbers in memory is part of what an answer is given
    turned = plain.dim() > 1 and not plain.is_contiguous() and plain.mT.is_contiguous()
    place = keep((plain.mT if turned else plain).clone(memory_format=torch.contiguous_format))
    left, grad = bool(value.is_leaf and value.grad is not None), bool(value.requires_grad)
    parameter = type(value) is torch.nn.Parameter
    own = {"grad": grad, "left": left, "parameter": parameter, "turned": turned}
    return {"tensor": place, **own}


def _read_tensor(tree, block):
    value = block.take(tree["tensor"]).clone()
    value = value.mT if tree.get("turned") is True else value
    if tree["parameter"] is True:
        value = torch.nn.Parameter(value, requires_grad=False)
    if tree["grad"] is True:
        value.requires_grad_()
    if tree["left"] is True:
        value.grad = torch.zeros_like(value)
    return value


def _strange(layout, shape, dtype, block):
    """An empty tensor of the kind that came: enough for a message that says so."""
    dtype, shape = _DTYPES[dtype], _shape(shape)
    if len(shape) > 8:
        raise ProtocolError("a tensor of a strange kind with many dimensions")
    block.count("entries of a strange kind", np.prod(shape, dtype=float), STRANGE)
    if layout == "strided":
        return torch.zeros(shape, dtype=dtype)
    if layout.startswith("sparse") and shape:
        return torch.zeros(shape, dtype=dtype).to_sparse()
    return torch.empty(shape, dtype=dtype, device="meta")


class _Block:
    """The tensors of a message, each to be taken once, and what else its tree asks for."""

    def __init__(self, tensors):
        self._tensors, self._taken, self._counts = tensors, set(), {}

    def take(self, place):
        if type(place) is not int or not 0 <= place < len(self._tensors) or place in self._taken:
            raise ProtocolError("a tensor that is not there, or is there twice")
        self._taken.add(place)
        return self._tensors[place]

    def count(self, what, number, most):
        self._counts[what] = self._counts.get(what, 0) + number
        if self._counts[what] > most:
            raise ProtocolError(f"more than {most:,} {what}")


def _apart(entries):
    """The entries, after it is seen that few of them have the same hash: a set of others takes a
    time that grows with their square.
    """
    entries = list(entries)
    hashes = sorted(map(hash, entries))
    if any(one == other for one, other in zip(hashes, hashes[EQUAL:])):
        raise ProtocolError(
            f"more than {EQUAL} entries of a set, or keys of a dict, with the same hash"
        )
    return entries


def _of_array(value):
    """The numbers of an array as bytes: NumPy has kinds of numbers that tensors lack."""
    content = np.ascontiguousarray(value).tobytes()
    return torch.from_numpy(np.frombuffer(content, dtype=np.uint8).copy())


def _array_dtype(text):
    dtype = np.dtype(str(text))
    if dtype.kind not in _ARRAYS or dtype.itemsize > 8:
        raise ProtocolError("an array of other things than numbers")
    return dtype


def _shape(shape):
    if not all(type(n) is int and n >= 0 for n in shape):
        raise ProtocolError("a shape that is none")
    return tuple(shape)


def _numbered(tree, kind, *content):
    """A Handle with the name of its class and its number."""
    made = type(_word(tree["name"]), (kind,), {})(*content)
    if "handle" in tree:
        made.number = _index(tree["handle"])
    return made


def _index(number):
    if type(number) is not int or number < 0:
        raise ProtocolError("a number that is none")
    return number


def _word(name):
    """A name that may stand in a message."""
    return re.sub(r"\W", "", str(name))[:40] or "object"


def _names(function):
    """The names of a function's positional arguments."""
    code = getattr(function, "__code__", None)
    names = getattr(code, "co_varnames", ())[: getattr(code, "co_argcount", 0)]
    return [str(name) for name in names]
