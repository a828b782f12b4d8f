"""Bounds on the grader's own work for a student: a check may be led to compute something large,
or something that takes long.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
import re
import threading
from collections.abc import Callable

import torch
from torch.overrides import TorchFunctionMode

__all__ = ["LARGEST", "SmallResults", "memory_limit", "out_of_memory", "time_limit"]

LARGEST = 2**26
"""Entries of a result that a function handed to a student may compute."""
_PRODUCTS = ("matmul", "__matmul__", "mm", "bmm", "mv", "dot", "linear")


@contextlib.contextmanager
def time_limit(left: Callable[[], float], error: type[BaseException]):
    """Raise `error` in this thread when no time is left, again every second until the block is
    left.

    left: the seconds that are left

    It comes between two steps of Python: one call of PyTorch is waited for.
    """
    thread, done, lock = threading.get_ident(), threading.Event(), threading.Lock()

    def watch():
        wait = left()
        while not done.wait(max(wait, 0)):
            with lock:
                if (wait := left()) <= 0 and not done.is_set():
                    ctypes.pythonapi.PyThreadState_SetAsyncExc(
                        ctypes.c_ulong(thread), ctypes.py_object(error)
                    )
                    wait = 1

    def leave():
        done.set()
        with lock:  # what the watch sends, it has sent
            pass
        for _ in range(2):  # and it comes here: to take it back would slow this interpreter down
            pass

    threading.Thread(target=watch, daemon=True).start()
    try:
        yield
    finally:
        try:
            leave()
        except error:
            leave()
            raise


@contextlib.contextmanager
def memory_limit(mb: float):
    """Let this process take `mb` MB more than it has, no more; what asks for more stops with an
    error that `out_of_memory` knows.
    """
    # not on Windows, where the rest of this package can be imported: launch.require_unix
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    taken = _taken()
    most = taken + int(mb * 2**20)
    if taken and (soft == resource.RLIM_INFINITY or most < soft):
        resource.setrlimit(resource.RLIMIT_DATA, (most, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def out_of_memory(error: BaseException) -> bool:
    """Whether this is what Python, NumPy or PyTorch raise when there is no more memory."""
    if isinstance(error, RuntimeError):
        return "can't allocate memory" in str(error) or "bad_alloc" in str(error)
    return isinstance(error, MemoryError)


class SmallResults(TorchFunctionMode):
    """Refuses, before they are computed, results that tensors broadcast against one another to
    more than LARGEST entries.
    """

    def __torch_function__(self, function, types, inputs=(), options=None):
        shapes = [tuple(one.shape) for one in inputs if isinstance(one, torch.Tensor)]
        if len(shapes) > 1:
            is_product = getattr(function, "__name__", "") in _PRODUCTS
            size = _broadcast(_rows_and_columns(*shapes) if is_product else shapes)
            if size > LARGEST:
                listed = " and ".join(map(str, shapes))
                raise ValueError(
                    f"tensors of the shapes {listed} make a result of {size:,} numbers, expected "
                    f"at most {LARGEST:,}"
                )
        return function(*inputs, **(options or {}))


def _broadcast(shapes):
    """Entries of the shape that holds all of these, the last axes aligned."""
    aligned = [
        [shape[-axis] for shape in shapes if axis <= len(shape)]
        for axis in range(1, 1 + max(map(len, shapes)))
    ]
    return 0 if 0 in map(min, aligned) else math.prod(map(max, aligned))


def _rows_and_columns(one, other, *_):
    """The factors of a matrix product without the axis that is summed over."""
    return [
        (*one[:-1], 1) if len(one) > 1 else (),
        (*other[:-2], 1, other[-1]) if len(other) > 1 else (),
    ]


def _taken():
    """Bytes of this process that RLIMIT_DATA counts; 0 where nobody says."""
    with contextlib.suppress(OSError), open("/proc/self/status") as file:
        found = re.search(r"^VmData:\s*(\d+) kB", file.read(), re.MULTILINE)
        return int(found[1]) * 1024 if found else 0
    return 0
