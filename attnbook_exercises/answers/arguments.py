"""Arguments of a reader's function: copies that it may change, and a description of the changes.

What an answer may do with them is the same in the notebook and in the grader's sandbox, where the
functions that a check hands over are called across the border of a process.
"""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = [
    "Given",
    "PLAIN_TENSORS",
    "copied",
    "is_named_tuple",
    "overwrite",
    "refuse_transforms",
    "spoiled",
]

PLAIN_TENSORS = (Tensor, torch.nn.Parameter)
"""The types that count as tensors: a subclass could run code whenever it is read."""


_OF_CHECKS = ("attnbook_exercises", "torch")
"""The packages of the functions that checks hand over; an answer may hand over its own."""


def is_named_tuple(value) -> bool:
    """Whether a value is a NamedTuple, which counts as a tuple."""
    return isinstance(value, tuple) and hasattr(type(value), "_fields")


def refuse_transforms() -> None:
    """Raise RuntimeError inside of torch.func and vmap, which reach into no other process."""
    if torch._C._are_functorch_transforms_active():
        raise RuntimeError(
            "this function is the check's own, and torch.func and vmap do not reach into it: use "
            "torch.autograd.grad, or backward, or torch.autograd.functional.jacobian"
        )


class Given:
    """A function that a check hands to an answer: it can be called, and nothing else."""

    def __init__(self, function):
        self.function = function
        self.__code__ = getattr(function, "__code__", None)  # for the names of the arguments
        self.argument_names = getattr(function, "argument_names", [])

    def __call__(self, *arguments, **keywords):
        refuse_transforms()
        return self.function(*arguments, **keywords)


def copied(value):
    """A deep copy of tensors, lists, tuples, sets and dicts; a function of a check as `Given`; any
    other object itself.
    """
    if type(value) in PLAIN_TENSORS:
        return value.detach().clone().requires_grad_(value.requires_grad)
    if type(value) in (list, tuple):
        return type(value)(copied(entry) for entry in value)
    if type(value) is dict:
        return {key: copied(entry) for key, entry in value.items()}
    if type(value) is set:
        return set(value)
    home = str(getattr(value, "__module__", "")).partition(".")[0]
    if callable(value) and not isinstance(value, (type, Given)) and home in _OF_CHECKS:
        return Given(value)
    return value


def spoiled(name: str, before, after) -> str | None:
    """A sentence about how an argument changed; None if it did not."""
    in_place = f"your function changes its argument {name} in place"
    if isinstance(before, Tensor) != isinstance(after, Tensor):
        return f"{in_place}: there is another kind of value in it now"
    if isinstance(before, Tensor):
        alike = (before.shape, before.dtype, before.device) == (
            after.shape,
            after.dtype,
            after.device,
        )
        if not alike or not torch.equal(before, after.detach()):
            return f"{in_place}: the caller's tensor is different now"
        if after.requires_grad != before.requires_grad:
            done = "asks for gradients" if after.requires_grad else "no longer asks for gradients"
            return f"{in_place}: it {done} now; work on a detached copy of it"
        if after.is_leaf and after.grad is not None:
            return (
                f"your function leaves gradients on its argument {name}: work on a detached "
                f"copy of it"
            )
    elif isinstance(before, (list, tuple)):
        if not isinstance(after, (list, tuple)) or len(before) != len(after):
            return (
                f"{in_place}: it has {len(after) if isinstance(after, (list, tuple)) else 0} "
                f"entries now"
            )
        return next(
            filter(None, (spoiled(name, one, other) for one, other in zip(before, after))), None
        )
    elif isinstance(before, dict):
        if not isinstance(after, dict) or before.keys() != after.keys():
            return f"{in_place}: it has other keys now"
        return next(
            filter(None, (spoiled(name, one, after[key]) for key, one in before.items())), None
        )
    elif isinstance(before, (set, int, float, str)) and before != after and before == before:
        # NaN is no change
        return in_place
    return None


def overwrite(value, after) -> None:
    """Give `value` the content of `after`, in place: the changes that a function in another process
    made to its copy of the arguments.
    """
    if isinstance(value, Tensor) and isinstance(after, Tensor):
        if value.shape == after.shape and value.dtype == after.dtype:
            with torch.no_grad():
                Tensor.copy_(value, after.detach())
        else:
            value.data = after.detach()
        if value.is_leaf:
            value.requires_grad_(after.requires_grad)
            value.grad = after.grad
    elif isinstance(value, (list, tuple)) and isinstance(after, (list, tuple)):
        if type(value) is list:
            value[:] = [
                one if type(one) is type(other) else other for one, other in zip(value, after)
            ] + list(after[len(value) :])
        for one, other in zip(value, after):
            overwrite(one, other)
            if type(value) is list and not isinstance(one, (Tensor, list, tuple, dict, set)):
                value[:] = after
    elif type(value) is dict and type(after) is dict:
        value.clear()
        value.update(after)
    elif type(value) is set and type(after) is set:
        value.clear()
        value.update(after)
