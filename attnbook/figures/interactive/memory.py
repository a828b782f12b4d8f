"""Figures to touch: memories, the slots of a Neural Turing Machine and the matrix of a linear
attention.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from ...validate import check_integer, require
from ..canvas import as_array
from .figure import InteractiveFigure

__all__ = ["addressing_steps", "delta_rule_steps", "machine_steps"]


def addressing_steps(
    memory: Any,
    key: Any,
    previous: Any,
    *,
    strength: float,
    gate: float,
    shift: float,
    gamma: float,
    names: Sequence[str] = (),
    still: Figure,
) -> InteractiveFigure:
    """Show the weights of a head after each step of its addressing (content, gate, shift,
    sharpening), with sliders for what the controller decides.

    Args:
        memory: ``(N, d)``.
        key: ``(d,)``.
        previous: ``(N,)`` weights of the step before, which sum to 1.
        strength, gate, gamma: :math:`β ≥ 0`, :math:`0 ≤ g ≤ 1` and :math:`γ ≥ 1`, shown first.
        shift: between −1 and 1; a fraction is shared between the two whole shifts beside it.
        names: what stands below each slot.
        still: what is shown where no script runs.

    Source: section 3.3.2 and figure 2 of Graves, Wayne and Danihelka 2014.
    """
    rows, wanted = as_array("memory", memory, 2), as_array("key", key, 1)
    before = as_array("previous", previous, 1)
    require(
        len(rows) > 0 and rows.shape[1:] == wanted.shape and before.shape == rows.shape[:1],
        f"memory (N, d), key (d,) and previous (N,) must fit, got shapes {rows.shape}, "
        f"{wanted.shape} and {before.shape}",
    )
    ranges = {
        "strength": (strength, 0, 20),
        "gate": (gate, 0, 1),
        "shift": (shift, -1, 1),
        "gamma": (gamma, 1, 10),
    }
    for name, (value, low, high) in ranges.items():
        require(low <= value <= high, f"{name} must be between {low} and {high}, got {value}")
    require(
        len(names) in (0, len(rows)),
        f"names must be one for each of the {len(rows)} slots, got {len(names)}",
    )
    data = {"memory": rows, "key": wanted, "previous": before, "names": list(map(str, names))}
    data |= {name: float(value) for name, (value, _, _) in ranges.items()}
    return InteractiveFigure(
        "addressing", "Weights of the slots before and after each of four steps", data, still
    )


def machine_steps(
    memory: Any,
    weights: Any,
    inputs: Any,
    outputs: Any,
    *,
    names: Sequence[str],
    titles: Sequence[str],
    first: int = 0,
    count: int | None = None,
    step: int = 0,
    still: Figure,
) -> InteractiveFigure:
    """Show a machine with a memory at work, a step at a time or played: what comes in, where the
    heads look, what the memory holds, what is said.

    Args:
        memory: ``(T, N, M)``, the memory after each step.
        weights: ``(T, heads, N)``.
        inputs: ``(T, channels)``, between 0 and 1.
        outputs: ``(T, channels)``, between 0 and 1.
        names: one for each head.
        titles: what happens in each step, as the end of a sentence.
        first: the slot that is shown first; negative from the end, as on a ring.
        count: how many slots are shown; all when not given.
        step: that is shown first.
        still: what is shown where no script runs.

    Source: the idea of figure 6 of Graves, Wayne and Danihelka 2014.
    """
    held, looks = as_array("memory", memory, 3), as_array("weights", weights, 3)
    given, said = as_array("inputs", inputs, 2), as_array("outputs", outputs, 2)
    T, N, _ = held.shape
    require(
        looks.shape == (T, len(names), N) and len(given) == len(said) == len(titles) == T,
        f"memory of shape {held.shape} needs weights ({T}, {len(names)}, {N}), inputs, outputs and "
        f"titles of {T} steps, got {looks.shape}, {len(given)}, {len(said)} and {len(titles)}",
    )
    check_integer("step", step, 0, T - 1)
    shown = check_integer("count", N if count is None else count, 1, N)
    slots = [(first + k) % N for k in range(shown)]
    data = {
        "memory": held[:, slots].round(3), "weights": looks[:, :, slots].round(3),
        "inputs": given.round(3), "outputs": said.round(3), "slots": slots, "t": step,
        "names": list(map(str, names)), "titles": list(map(str, titles)),
    }  # fmt: skip
    return InteractiveFigure(
        "machine", "A machine at work: input, heads, memory and output of each step", data, still
    )


def delta_rule_steps(
    keys: Any,
    values: Any,
    names: Sequence[tuple[str, str]],
    *,
    entries: Sequence[str],
    read: str,
    written: int = 0,
    strength: float = 1.0,
    still: Figure,
) -> InteractiveFigure:
    r"""Show two memories of one matrix while pairs are written to them one after the other: a sum,
    :math:`S \leftarrow S + k v^\top`, and the delta rule,
    :math:`S \leftarrow S + β k (v - S^\top k)^\top`; and what each gives for a key,
    :math:`S^\top k`.

    Args:
        keys: ``(n, d_k)``, a row for each pair.
        values: ``(n, d_v)``.
        names: of the key and of the value of each pair; keys of one name are equal.
        entries: what the d_v numbers of a value are called.
        read: the name of the key that is read with first.
        written: how many pairs are written first.
        strength: :math:`β`, between 0 and 1, shown first.
        still: what is shown where no script runs.

    Source: equation 24 of Schlag, Irie and Schmidhuber 2021.
    """
    k, v = as_array("keys", keys, 2), as_array("values", values, 2)
    require(
        len(k) == len(v) == len(names) > 0,
        f"keys, values and names must be one for each pair, got {len(k)}, {len(v)} and "
        f"{len(names)}",
    )
    require(
        len(entries) == v.shape[1],
        f"entries must be one for each of the {v.shape[1]} numbers of a value, got {len(entries)}",
    )
    pairs = [
        {"key": key, "value": value, "names": [str(a), str(b)]}
        for key, value, (a, b) in zip(k, v, names, strict=True)
    ]
    first: dict[str, np.ndarray] = {}
    for pair in pairs:
        name = pair["names"][0]
        require(
            bool(np.array_equal(first.setdefault(name, pair["key"]), pair["key"])),
            f"keys of one name must be equal, got two of {name}",
        )
    require(read in first, f"read must be one of {', '.join(first)}, got {read}")
    require(0 <= written <= len(k), f"written must be between 0 and {len(k)}, got {written}")
    require(0 <= strength <= 1, f"strength must be between 0 and 1, got {strength}")
    data = {
        "pairs": pairs, "keys": list(first), "entries": list(map(str, entries)), "read": read,
        "written": written, "strength": float(strength),
    }  # fmt: skip
    return InteractiveFigure(
        "delta", "Two memories, a sum and one with the delta rule, pair after pair", data, still
    )
