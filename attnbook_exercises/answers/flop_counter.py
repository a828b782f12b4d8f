"""The cost of an answer: its matrix products, the largest tensor that it creates, the numbers in
all of them, and its calls of PyTorch.

For an answer that runs in another process, the grader's `rpc` counts there and adds the result to
the counters here. The count over there is within reach of the student's code and misses other
threads, so a check that counts also measures the cost from outside.
"""

from __future__ import annotations

import math

from torch import Tensor
from torch.overrides import TorchFunctionMode

__all__ = ["Calls", "Products", "counters", "largest", "written"]

counters: list = []
"""The active counters, innermost last."""


class Calls(TorchFunctionMode):
    """Counts the calls of PyTorch's functions: many where a loop takes the rows one by one."""

    kind = "calls"

    def __init__(self):
        super().__init__()
        self.count = 0

    def __enter__(self):
        counters.append(self)
        return super().__enter__()

    def __exit__(self, *error):
        counters.remove(self)
        return super().__exit__(*error)

    def add(self, count):
        self.count += count

    def __torch_function__(self, function, types, inputs=(), options=None):
        self.count += 1
        return function(*inputs, **(options or {}))


class Products(Calls):
    """Counts the multiplications and additions of matrix products, however they are written.

    Not a TorchDispatchMode, which sees every product in one form but takes seconds to import.
    """

    kind = "products"

    def __torch_function__(self, function, types, inputs=(), options=None):
        result = function(*inputs, **(options or {}))
        name = getattr(function, "__name__", "")
        if name in ("matmul", "__matmul__", "mm", "bmm", "mv", "linear", "inner"):
            self.count += 2 * result.numel() * inputs[0].shape[-1]
        elif name == "__rmatmul__":
            self.count += 2 * result.numel() * inputs[1].shape[-1]
        elif name in ("addmm", "baddbmm"):
            self.count += 2 * result.numel() * inputs[1].shape[-1]
        elif name == "einsum" and isinstance(inputs[0], str):
            operands = inputs[1] if isinstance(inputs[1], (list, tuple)) else inputs[1:]
            terms = inputs[0].replace(" ", "").split("->")[0].split(",")
            sizes = {}
            for term, operand in zip(terms, operands):
                letters = term.replace("...", "")
                sizes.update(zip(reversed(letters), reversed(operand.shape)))
            self.count += 2 * math.prod(sizes.values())
        return result


def largest():
    """A context whose `count` is the size in bytes of the largest tensor created inside."""
    return _of_tensors("largest", lambda tensor: tensor.untyped_storage().nbytes(), max)


def written():
    """A context whose `count` is the numbers in all tensors together that are created inside."""
    return _of_tensors("written", Tensor.numel, int.__add__)


def _of_tensors(name, size, join):
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_leaves

    class Sizes(TorchDispatchMode):
        kind, count = name, 0

        def __enter__(self):
            counters.append(self)
            return super().__enter__()

        def __exit__(self, *error):
            counters.remove(self)
            return super().__exit__(*error)

        def add(self, count):
            self.count = join(self.count, count)

        def __torch_dispatch__(self, function, types, arguments=(), options=None):
            result = function(*arguments, **(options or {}))
            for value in tree_leaves(result):
                if type(value) is Tensor:
                    self.add(size(value))
            return result

    return Sizes()


KINDS = {"calls": Calls, "products": Products, "largest": largest, "written": written}
