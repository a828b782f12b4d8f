"""A figure to touch: the addressing of a Neural Turing Machine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.figure import Figure

from ...validate import require
from ..canvas import as_array
from .figure import InteractiveFigure

__all__ = ["addressing_steps"]


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

    Raises:
        ValueError: for shapes that do not fit, or values outside their range.

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
