"""Checks of arguments, so that every part of the library reports bad input in the same words."""

import functools
import inspect
import sys
import warnings
from collections.abc import Callable, Iterable
from numbers import Integral, Real
from typing import Any, ParamSpec, TypeVar

import torch
from torch import Tensor

__all__ = [
    "require",
    "check_dtypes",
    "check_ids",
    "check_lengths",
    "check_maker",
    "check_mask",
    "check_integer",
    "check_last",
    "check_number",
    "check_range",
    "check_seed",
    "check_choice",
    "check_tensor",
    "check_value",
    "check_values",
    "check_whole",
    "common_shape",
    "describe",
    "is_transforming",
    "masks_by_name",
    "is_readable",
    "plain_number",
]


P = ParamSpec("P")
T = TypeVar("T")


def require(condition: bool, message: str) -> None:
    """Raise ``ValueError(message)`` unless ``condition`` holds."""
    if not condition:
        raise ValueError(message)


def check_integer(name: str, value: object, least: int = 1, most: int | None = None) -> int:
    """Return ``value``, an integer from ``least`` to ``most``, as Python's, or raise a
    ``ValueError``.

    ``np.int64(2)`` is an integer. ``True`` is none, and neither is ``2.0``: both are slips where a
    size is asked for.
    """
    number = value if type(value) is int else plain_number(value)
    if isinstance(number, int) and least <= number <= (sys.maxsize if most is None else most):
        return number
    expected = f">= {least}" if most is None else f"from {least} to {most}"
    if isinstance(number, int) and most is None and number > sys.maxsize:
        expected += " and of 64 bits"
    raise ValueError(f"{name} must be an integer {expected}, got {value!r}")


def check_seed(seed: object) -> int:
    """Return ``seed``, an integer that PyTorch's generators take, or raise a ``ValueError``."""
    return check_integer("seed", seed, -(2**63), 2**64 - 1)


def check_number(
    name: str,
    value: object,
    *,
    least: float | None = None,
    most: float | None = None,
    above: float | None = None,
    below: float | None = None,
) -> float:
    """Return ``value``, a finite number within the bounds (``above`` and ``below`` are excluded),
    as Python's, or raise a ``ValueError``. An integer beyond the range of a float is not finite."""
    number = plain_number(value)
    bounds = [
        (">=", least, lambda bound: number >= bound),
        (">", above, lambda bound: number > bound),
        ("<=", most, lambda bound: number <= bound),
        ("<", below, lambda bound: number < bound),
    ]
    if (
        number is None
        or not -sys.float_info.max <= number <= sys.float_info.max
        or not all(holds(bound) for _, bound, holds in bounds if bound is not None)
    ):
        expected = " and ".join(f"{sign} {bound}" for sign, bound, _ in bounds if bound is not None)
        raise ValueError(f"{name} must be a finite number {expected}".rstrip() + f", got {value!r}")
    return number


def plain_number(value: object) -> int | float | None:
    """A number as Python's own int or float, from NumPy or pandas, too; None for anything else,
    ``True`` among them.
    """
    if type(value) is int or type(value) is float:
        return value
    if isinstance(value, bool):
        return None
    if isinstance(value, Integral):
        return int(value)
    return float(value) if isinstance(value, Real) else None


def check_range(name: str, value: object, least: int = 1) -> tuple[int, int]:
    """Return ``value`` as a pair (low, high) of integers from ``least`` on, both ends included, or
    raise a ``ValueError``. One integer k stands for (k, k).
    """
    pair = value if isinstance(value, tuple | list) and len(value) == 2 else (value, value)
    low, high = map(plain_number, pair)
    if isinstance(low, int) and isinstance(high, int) and least <= low <= high:
        return low, high
    raise ValueError(
        f"{name} must be an integer >= {least}, or (low, high) of such with low <= high, got "
        f"{value!r}"
    )


def check_choice(name: str, value: object, choices: Iterable) -> Any:
    """Return ``value``, one of ``choices``, or raise a ``ValueError`` that lists them."""
    choices = list(choices)
    if value not in choices:
        listed = ", ".join(map(repr, choices))
        raise ValueError(f"{name} must be one of {listed}, got {value!r}")
    return value


def check_tensor(name: str, value: object, *, width: int | None = None, least: int = 2) -> Tensor:
    """Return ``value``, a floating point tensor ``(…, length, width)``, or ``(…, width)`` with
    ``least=1``, or raise a ``ValueError``.
    """
    axes, dimensions = (
        ("(…, width)", "one dimension") if least == 1 else ("(…, length, width)", "two dimensions")
    )
    if not isinstance(value, Tensor):
        raise ValueError(f"{name} must be a tensor {axes}, got {type(value).__name__}")
    if value.dim() < least:
        raise ValueError(
            f"{name} must have at least {dimensions} {axes}, got shape {tuple(value.shape)}"
        )
    if not value.is_floating_point():
        raise ValueError(f"{name} must hold floating point numbers, got {value.dtype}")
    if width is not None and value.shape[-1] != width:
        raise ValueError(
            f"{name} must have width {width} (its last dimension), got shape {tuple(value.shape)}"
        )
    return value


def check_value(value: object, key: Tensor, *, width: int | None = None) -> Tensor:
    """Return ``value``, as :func:`check_tensor`, with as many positions as ``key``, or raise a
    ``ValueError``.
    """
    value = check_tensor("value", value, width=width)
    if value.shape[-2] != key.shape[-2]:
        raise ValueError(
            f"value must have as many positions as key ({key.shape[-2]}), got shape "
            f"{tuple(value.shape)}"
        )
    return value


def check_dtypes(query: Tensor, key: Tensor, value: Tensor) -> None:
    """Raise a ``ValueError`` unless all have one dtype, or autocast brings them to one."""
    if not query.dtype == key.dtype == value.dtype and not torch.is_autocast_enabled(
        query.device.type
    ):
        raise ValueError(
            f"query, key and value must have one dtype, got {query.dtype}, {key.dtype} and "
            f"{value.dtype}"
        )


def check_whole(name: str, value: object) -> Tensor:
    """Return ``value``, a tensor of whole numbers, or raise a ``ValueError``."""
    if not isinstance(value, Tensor) or not _is_whole(value):
        came = value.dtype if isinstance(value, Tensor) else type(value).__name__
        raise ValueError(f"{name} must be a tensor of whole numbers, got {came}")
    return value


def check_position(position: object, leading: torch.Size) -> None:
    """Raise a ``ValueError`` unless ``position``, that of the first row of inputs
    ``(*leading, n, width)``, is an integer from 0 on or, for inputs (batch, n, width), a tensor of
    one whole number for each row, negative where padding stands in front.
    """
    if not isinstance(position, Tensor):
        check_integer("position", position, 0)
        return
    check_whole("position", position)
    require(
        len(leading) == 1 and position.shape == leading,
        "position must be an integer, or one for each row of inputs (batch, length, width), "
        f"got shape {tuple(position.shape)}",
    )


def _is_whole(tensor: Tensor) -> bool:
    return not (tensor.is_floating_point() or tensor.is_complex() or tensor.dtype == torch.bool)


def check_lengths(
    lengths: object, rows: int, of: str, least: int | None = None, most: int | None = None
) -> Tensor:
    """Return ``lengths``, a whole number for each of the ``rows`` of a batch, or raise a
    ``ValueError``; its values are checked as by :func:`check_values`.
    """
    if not isinstance(lengths, Tensor) or lengths.shape != (rows,) or not _is_whole(lengths):
        raise ValueError(
            f"lengths must be a vector of {rows} whole numbers, one per row of {of}, got "
            f"{describe(lengths)}"
        )
    check_values("lengths", lengths, least, most)
    return lengths


def check_ids(name: str, ids: object, size: int, axes: str = "(batch, length)") -> None:
    """Raise a ``ValueError`` unless ``ids`` are token ids with these ``axes``, none of them empty,
    of a vocabulary of that ``size``; values are checked as by :func:`check_values`.
    """
    if (
        not isinstance(ids, Tensor)
        or ids.dim() != axes.count(",") + 1
        or ids.dtype not in (torch.int32, torch.int64)
        or ids.numel() == 0
    ):
        raise ValueError(
            f"{name} must be token ids {axes}, at least one of each, got {describe(ids)}"
        )
    check_values(name, ids, 0, size - 1)


def check_values(
    name: str, values: Tensor, least: float | None = None, most: float | None = None
) -> None:
    """Raise a ``ValueError`` unless all values lie from ``least`` to ``most``, where they may be
    looked at, see :func:`is_readable`.
    """
    if (least is None and most is None) or not is_readable(values):
        return
    low, high = (end.item() for end in values.detach().aminmax())
    if (least is not None and low < least) or (most is not None and high > most):
        expected = f"at least {least}" if most is None else f"between {least} and {most}"
        came = " to ".join(str(v) if isinstance(v, int) else f"{v:.3g}" for v in (low, high))
        raise ValueError(f"{name} must be {expected}, got numbers from {came}")


def check_maker(name: str, value: Any) -> Any:
    """Return ``value``, a function or a class that makes modules, or raise a ``ValueError``; a
    module can be called, too, and makes none.
    """
    if not callable(value) or isinstance(value, torch.nn.Module):
        came = f"the module {type(value).__name__}" if callable(value) else describe(value)
        raise ValueError(f"{name} must be a function or a class that makes modules, got {came}")
    return value


def describe(value: object) -> str:
    """What came, for a message: the shape and the dtype of a tensor, the name of a class, the type
    of anything else.
    """
    if isinstance(value, Tensor):
        return f"shape {tuple(value.shape)} of {value.dtype}"
    return f"the class {value.__name__}" if isinstance(value, type) else type(value).__name__


def check_last(m: int, n: int) -> None:
    """Raise ``ValueError`` unless m queries can be the last of n positions."""
    require(n >= m, f"n must be at least m = {m} (queries are the last m of n positions), got {n}")


def check_mask(
    mask: object,
    shape: tuple[int, ...],
    *,
    name: str = "mask",
    axes: str = "(…, queries, keys)",
    true: str = "may attend",
) -> Tensor | None:
    """Return ``mask`` (boolean, broadcastable to ``shape``, which ``axes`` names), or raise a
    ``ValueError``.
    """
    if mask is None:
        return None
    if not isinstance(mask, Tensor) or mask.dtype != torch.bool:
        came = mask.dtype if isinstance(mask, Tensor) else type(mask).__name__
        additive = isinstance(mask, Tensor) and mask.is_floating_point()
        hint = f"; of an additive {name} give {name} == 0" if additive else ""
        raise ValueError(f"{name} must be a boolean tensor (True = {true}), got {came}{hint}")
    fits = mask.dim() <= len(shape)
    for size, wanted in zip(reversed(mask.shape), reversed(shape)):
        fits = fits and size in (1, wanted)
    if not fits:
        raise ValueError(
            f"{name} must be broadcastable to {axes} = {tuple(shape)}, got shape "
            f"{tuple(mask.shape)}"
            + (
                "; a padding mask (batch, keys) needs a dimension for the queries: "
                "mask[:, None, :], or is given as key_mask"
                if mask.dim() == 2 and len(shape) == 3 and "queries" in axes
                else ""
            )
        )
    return mask


def common_shape(*shapes: torch.Size) -> torch.Size:
    """What ``torch.broadcast_shapes`` gives, without its cost where all are equal, as at every step
    of a decoder."""
    for shape in shapes:
        if shape != shapes[0]:
            return torch.broadcast_shapes(*shapes)
    return shapes[0]


_PLAIN = Tensor, torch.nn.Parameter


def is_readable(tensor: Tensor) -> bool:
    """Whether a check may read values: on a GPU that would synchronise, and neither a compiler nor
    a tracer nor the transforms of ``torch.func`` have any.
    """
    return (
        tensor.device.type == "cpu"
        and type(tensor) in _PLAIN  # those of a tracer are others
        and not torch.compiler.is_compiling()
        and tensor.numel() > 0
        and not torch._C._are_functorch_transforms_active()
    )


def is_transforming() -> bool:
    """Whether a transform of ``torch.func`` (``vmap``, ``grad``, …) is under way."""
    # PyTorch has no public name for it
    return not torch.compiler.is_compiling() and torch._C._are_functorch_transforms_active()


def masks_by_name(*names: str, **renamed: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Masks are given by name. For one version calls in the old form work as before, with a
    warning: with the masks of these ``names`` by position, or by the names that are ``renamed``.
    """

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        kinds = [p.kind for p in inspect.signature(function).parameters.values()]
        places = kinds.count(inspect.Parameter.POSITIONAL_OR_KEYWORD)
        named: Any = function
        level = 4 if function.__name__ == "forward" else 2  # nn.Module calls it in two functions

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> T:
            if len(args) <= places and not renamed:
                return function(*args, **kwargs)
            given = dict(zip(names, args[places:]))
            given |= {new: kwargs.pop(old) for old, new in renamed.items() if old in kwargs}
            if given:
                warnings.warn(
                    f"{function.__qualname__}: give {' and '.join(given)} by name; the next "
                    "version refuses the old form",
                    FutureWarning,
                    stacklevel=level,
                )
            return named(*args[:places], *args[places + len(names) :], **given, **kwargs)

        return call  # type: ignore[return-value]

    return decorate
