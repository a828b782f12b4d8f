"""The line under the title of a section: what it takes of a reader and of a machine.

A source says what the machine needs, in one of two ways:

    *runs in 80 s · 1 GB · CPU*                                          one preset
    *quick: 80 s · 1 GB · CPU — full: 8 min · 4 GB · one GPU*            two presets

Publishing puts the reader's time before it, which is counted (`measure.reading_minutes`).
"""

from __future__ import annotations

import itertools
import re
from typing import NamedTuple

from nbformat import NotebookNode

_NEED = (
    r"(?P<{0}t>[\d.]+) (?P<{0}u>s|min|h) · (?P<{0}m>[\d.]+) (?P<{0}b>MB|GB) · (?P<{0}d>[^·*—]+?)"
)
LINE = re.compile(
    r"^\*(?:about (?P<reading>\d+) minutes with the exercises · )?"
    rf"(?:runs in {_NEED.format('o')}|quick: {_NEED.format('q')} — full: {_NEED.format('f')})\*$",
    re.MULTILINE,
)
DEVICES = ("CPU", "one GPU", "CPU or GPU")
"""What a preset may run on: "one GPU" where it is meant for one, "CPU or GPU" where one is used if
it is there."""
GET_GPU = "For the full preset on Colab, choose *Runtime → Change runtime type → T4 GPU*."
"""The sentence under the line in a notebook that is meant for one."""
_SECONDS = {"s": 1, "min": 60, "h": 3600}
_MB = {"MB": 1, "GB": 1000}


class Need(NamedTuple):
    """Seconds, peak memory in MB, the device, and the time in the words of the line."""

    seconds: float
    peak_mb: float
    device: str
    time: str


class Declared(NamedTuple):
    """What the line promises: the reader's minutes (None in a source), and what the presets take;
    `full` is None where there is only one.
    """

    minutes: int | None
    quick: Need
    full: Need | None

    @property
    def wants_gpu(self) -> bool:
        """Whether a GPU shows more: the full preset is meant for one."""
        return self.full is not None and self.full.device == "one GPU"


def declared(nb: NotebookNode) -> Declared:
    """The declared line of a notebook or a source, in the text above its first code cell.

    Raises ValueError when there is no such line, or more than one.
    """
    above = itertools.takewhile(lambda cell: cell.cell_type == "markdown", nb.cells)
    found = list(LINE.finditer("\n\n".join(cell.source for cell in above)))
    if len(found) != 1:
        raise ValueError(
            "the text above the first code cell needs one line such as '*runs in 60 s · 1 GB · "
            "CPU*' or '*quick: 60 s · 1 GB · CPU — full: 10 min · 4 GB · one GPU*', found "
            f"{len(found)}"
        )
    said = found[0].groupdict()
    minutes = int(said["reading"]) if said["reading"] else None
    if said["ot"]:
        return Declared(minutes, _need(said, "o"), None)
    return Declared(minutes, _need(said, "q"), _need(said, "f"))


def _need(said: dict[str, str], which: str) -> Need:
    time, unit, memory, size, device = (said[which + part] for part in "tumbd")
    if device not in DEVICES:
        raise ValueError(f"the device of a preset must be one of {DEVICES}, got {device!r}")
    return Need(float(time) * _SECONDS[unit], float(memory) * _MB[size], device, f"{time} {unit}")
