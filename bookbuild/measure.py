"""What a notebook takes: of its reader, counted, and of a machine, measured."""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import threading
import time
from pathlib import Path
from typing import NamedTuple

from nbformat import NotebookNode

from .promise import GET_GPU, LINE, Need
from .source import OPTIONAL

# How far a run of the tests may pass the declared memory: other versions and machines take more.
LARGER = 1.5

FOLDED = frozenset({"hide-input", "hide-cell", "remove-input"})
"""Tags of cells whose code the website, JupyterLab and Colab show folded."""


WORDS, LINES, FIGURES = 150, 10, 1
"""What a reader takes in within a minute, of a text with formulas, of code, and of figures. With
the minutes of the exercises most sections come to 45 to 70, which is what readers took."""


class MainPath(NamedTuple):
    """What stands open before a reader from the title to the exercises."""

    words: int
    cells: int
    lines: int
    figures: int


def main_path(nb: NotebookNode) -> MainPath:
    """Words, code cells, lines of code and figures up to the exercises, without captions, what is
    folded, what stands under a heading that begins with "Closer look", and exercises that stand
    earlier, as a project's milestones do.
    """
    words = cells = lines = figures = 0
    closer = False
    for cell in nb.cells:
        tags = {*cell.metadata.get("tags", [])}
        if "caption" in tags:
            continue
        if cell.cell_type == "markdown":
            text = _SMALL.sub("", _FOLD.sub("", cell.source))
            text, exercises, _ = f"\n{text}".partition("\n## Exercises")
            for part in re.split(r"(?=^#{1,3} )", text, flags=re.MULTILINE):
                if part.startswith(("# ", "## ")):
                    closer = part.startswith("## Closer look")
                apart = closer or part.startswith("### Exercise")
                words += 0 if apart else len(_WORD.findall(_FORMULA.sub("x", part)))
            if exercises:
                break
        elif not closer and not {"exercise", "check"} & tags:
            figures += "alt" in cell.metadata or "image" in cell.metadata.get("mystnb", {})
            if not FOLDED & tags:
                cells += 1
                lines += sum(bool(line.strip()) for line in cell.source.splitlines())
    return MainPath(words, cells, lines, figures)


def reading_minutes(nb: NotebookNode) -> int:
    """Minutes that a section takes with its exercises, to the next five: those of its main path at
    `WORDS`, `LINES` and `FIGURES` a minute, and those that its exercises state.
    """
    path = main_path(nb)
    exercises = sum(
        int(minutes)
        for cell in nb.cells
        if cell.cell_type == "markdown"
        for minutes in _EXERCISE.findall(cell.source)
    )
    total = path.words / WORDS + path.lines / LINES + path.figures / FIGURES + exercises
    return 5 * math.ceil(total / 5)


_EXERCISE = re.compile(r"^\*[●○]+ · (\d+) minutes\*$", re.MULTILINE)
_SMALL = re.compile(
    rf"{LINE.pattern}|^{re.escape(OPTIONAL)}.*$|^{re.escape(GET_GPU)}$|(?<=^# )[\d.]+ ",
    re.MULTILINE,
)
_FOLD = re.compile(r"<details>.*?</details>", re.DOTALL)
_FORMULA = re.compile(r"\$\$.*?\$\$|\$[^$]+\$|(?<=\])\([^)\s]*\)", re.DOTALL)  # and addresses
_WORD = re.compile(r"[^\s|]*\w[^\s|]*")


def too_large(promise: Need, peak_mb: float) -> str:
    """How a run on any machine broke the promise of memory; "" when it held.

    Time is no part of it: a machine may be slow, or busy. It is compared where it is measured, by
    tools/build_notebooks.py --measure.
    """
    if peak_mb <= LARGER * promise.peak_mb:
        return ""
    return f"used {peak_mb:.0f} MB, declared {promise.peak_mb:.0f} MB (limit {LARGER:g} times that)"


def untrue_promise(promise: Need, seconds: float, peak_mb: float) -> list[str]:
    """How the declared line and the recorded run disagree: too little is declared, or far too
    much; empty when they agree.
    """
    faults = []
    if seconds > promise.seconds:
        faults.append(
            f"the recorded run took {seconds:.0f} s, declared are {promise.seconds:.0f} s"
        )
    if peak_mb > promise.peak_mb:
        faults.append(
            f"the recorded run used {peak_mb:.0f} MB, declared are {promise.peak_mb:.0f} MB"
        )
    if promise.seconds > max(30, 4 * seconds):
        faults.append(
            f"declared are {promise.seconds:.0f} s, the recorded run took {seconds:.0f} s"
        )
    if promise.peak_mb > max(1000, 3 * peak_mb):
        faults.append(
            f"declared are {promise.peak_mb:.0f} MB, the recorded run used {peak_mb:.0f} MB"
        )
    return faults


class PeakMemory:
    """The largest resident memory, in MB, of a process and its children, looked at 20 times a
    second.

    `with PeakMemory(pid) as peak: ...` and then `peak.mb`. Pages that processes share count once
    for each. New children are looked for once a second: that goes through all processes of the
    machine, and would take a quarter of a core otherwise."""

    def __init__(self, pid: int, interval: float = 0.05, children_interval: float = 1.0):
        import psutil

        self._psutil, self._interval, self._stop = psutil, interval, threading.Event()
        self._process, self._thread = (
            psutil.Process(pid),
            threading.Thread(target=self._watch, daemon=True),
        )
        self._children, self._children_interval = [], children_interval
        self._mb = 0.0

    @property
    def mb(self) -> float:
        """The largest so far, now included: a short run may end before the first look."""
        self._look()
        return self._mb

    def __enter__(self) -> PeakMemory:
        self._thread.start()
        return self

    def __exit__(self, *exc) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        found = -math.inf
        while not self._stop.wait(self._interval):
            if time.monotonic() >= found + self._children_interval:
                self._find_children()
                found = time.monotonic()
            self._look()

    def _find_children(self) -> None:
        with contextlib.suppress(self._psutil.Error):
            self._children = self._process.children(recursive=True)

    def _look(self) -> None:
        total = 0
        for process in [self._process, *self._children]:
            with contextlib.suppress(self._psutil.Error):  # ended while we looked
                total += process.memory_info().rss
        self._mb = max(self._mb, total / 1e6)


def write_json(path: Path, value) -> None:
    """Write `value` to `path` as JSON, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        part.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def record(path: Path, rows: list[dict], root: Path) -> None:
    """Put `rows` (dicts with `notebook`, `seconds`, `peak_mb`) into the list in `path`; rows of
    notebooks that are gone go.
    """
    old = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    merged = {row["notebook"]: row for row in old if (root / row["notebook"]).exists()}
    merged.update({row["notebook"]: row for row in rows})
    write_json(path, [merged[name] for name in sorted(merged)])
