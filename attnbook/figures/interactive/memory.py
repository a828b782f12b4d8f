"""Figures to touch: the slots of a Neural Turing Machine, the matrix of a linear attention."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from ...validate import check_choice, check_integer, check_number, require
from ..canvas import as_array
from ..weights.heads import ring
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

    Source: section 3.3.2 and figure 2 of Graves, Wayne and Danihelka 2014.
    """
    rows = as_array("memory", memory, 2)
    wanted = as_array("key", key, rows.shape[1:])
    before = as_array("previous", previous, rows.shape[:1])
    shown = {"strength": strength, "gate": gate, "shift": shift, "gamma": gamma}
    for (name, value), (low, high) in zip(shown.items(), ((0, 20), (0, 1), (-1, 1), (1, 10))):
        check_number(name, value, least=low, most=high)
    n, came = len(rows), len(names)
    require(came in (0, n), f"names must be one for each of the {n} slots, got {came}")
    data = {"memory": rows, "key": wanted, "previous": before, "names": list(map(str, names))}
    data |= {name: float(value) for name, value in shown.items()}
    label = "Weights of the slots before and after each of four steps"
    return InteractiveFigure("addressing", label, data, still)


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
    heads read and write, what the memory holds, what is said.

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

    Source: the idea of figure 6 of Graves, Wayne and Danihelka 2014.
    """
    held = as_array("memory", memory, 3)
    T, N, _ = held.shape
    looks = as_array("weights", weights, (T, len(names), N))
    given, said = as_array("inputs", inputs, 2), as_array("outputs", outputs, 2)
    require(
        len(given) == len(said) == len(titles) == T,
        f"inputs, outputs and titles must be of {T} steps, as memory is, got {len(given)}, "
        f"{len(said)} and {len(titles)}",
    )
    check_integer("step", step, 0, T - 1)
    slots = ring(first, count, N)
    data = {
        "memory": held[:, slots].round(3), "weights": looks[:, :, slots].round(3),
        "inputs": given.round(3), "outputs": said.round(3), "slots": slots, "t": step,
        "names": list(map(str, names)), "titles": list(map(str, titles)),
    }  # fmt: skip
    label = "A machine at work: input, heads, memory and output of each step"
    return InteractiveFigure("machine", label, data, still)


def delta_rule_steps(
    keys: Any,
    values: Any,
    names: Sequence[tuple[str, str]],
    *,
    entries: Sequence[str],
    read: str,
    written: int = 0,
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

    Source: equation 24 of Schlag, Irie and Schmidhuber 2021.
    """
    k, v = as_array("keys", keys, 2), as_array("values", values, (len(keys), len(entries)))
    n, came = len(k), len(names)
    require(came == n > 0, f"names must be one for each of {n} keys, got {came}")
    first: dict[str, np.ndarray] = {}
    pairs = []
    for key, value, (name, other) in zip(k, v, names, strict=True):
        pairs.append({"key": key, "value": value, "names": [str(name), str(other)]})
        same = bool(np.array_equal(first.setdefault(str(name), key), key))
        require(same, f"keys of one name must be equal, got two of {name}")
    check_choice("read", read, first)
    check_integer("written", written, 0, n)
    data = {
        "pairs": pairs, "keys": list(first), "entries": list(map(str, entries)), "read": read,
        "written": written, "strength": 1.0,
    }  # fmt: skip
    label = "Two memories, a sum and one with the delta rule, pair after pair"
    return InteractiveFigure("delta", label, data, still)
