"""What a GPU is worth most for: its tests, then recorded runs, in so many minutes.

    attnbook gpu --minutes 25

The list stands in the order of what a run is worth for the minutes that it takes. A run that has a
result from a GPU is passed over, one that was stopped goes on.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from attnbook.validate import check_number

__all__ = ["RUNS", "GpuRun", "run_list"]


class GpuRun(NamedTuple):
    """A run of the list.

    Attributes:
        name: Of :func:`load_experiments`.
        minutes: About how long it takes on a GPU of 2022, with other runs beside it.
        seed: Of the run.
        changes: Settings to change, ``KEY=VALUE`` each: to try the list with short runs.
    """

    name: str
    minutes: float
    seed: int = 0
    changes: tuple[str, ...] = ()


_LUONG = ("global-dot", "global-general", "local-p-general", "local-m-general", "global-concat")

RUNS: tuple[GpuRun, ...] = (
    GpuRun("multi30k-en-de-transformer", 10),
    GpuRun("multi30k-en-de-bahdanau", 7),
    GpuRun("multi30k-en-de-seq2seq", 2),
    GpuRun("pointer-delaunay-5", 10),
    GpuRun("snail-omniglot-small-5-way-1-shot-paper", 3),
    *(GpuRun(f"multi30k-luong-{system}", 7) for system in _LUONG),
    GpuRun("multi30k-en-fr-transformer", 10),
    GpuRun("multi30k-en-fr-bahdanau", 7),
    GpuRun("pointer-hull-50", 11),
    GpuRun("pointer-hull-5-50", 11),
    GpuRun("pointer-delaunay-10", 16),
    GpuRun("snail-omniglot-small-5-way-5-shot-paper", 15),
    GpuRun("snail-omniglot-small-20-way-1-shot-paper", 15),
    GpuRun("processes-lstm-10-paper", 25),
    GpuRun("gan-cifar-10-none", 20),
    GpuRun("gan-cifar-10-attention-16", 20),
)
"""The most worth for its minutes first. What needs more than an hour stands in no list: start it by
its name.
"""


def run_list(
    minutes: float,
    *,
    device: str = "cuda",
    out: Path = Path("results"),
    runs: Sequence[GpuRun] = RUNS,
    say: Callable[[str], None] = print,
) -> list[GpuRun]:
    """Run the ``gpu`` tests, then the list, for so many minutes; tell what was done and what is
    left.

    A run is started where it is expected to fit into the time that is left, and stopped when the
    time is over: its checkpoints stay in ``out``, and the next call goes on with it.

    Returns:
        The runs that have no result yet, the next one first.
    """
    end = time.monotonic() + 60 * check_number("minutes", minutes, above=0)
    say(_tests(end))
    left = []
    for run in runs:
        remaining = (end - time.monotonic()) / 60
        if _has_result(out, run):
            say(f"{run.name}: has a result")
        elif remaining < run.minutes and not _was_begun(out, run):
            left.append(run)
        elif not _finished(run, device, out, remaining, say):
            left.append(run)
    if left:
        say("next: " + ", ".join(f"{run.name} (about {run.minutes:g} min)" for run in left))
    return left


def _has_result(out: Path, run: GpuRun) -> bool:
    path = out / f"{run.name}.seed{run.seed}.json"
    return path.exists() and " CPU," not in json.loads(path.read_text(encoding="utf-8"))["device"]


def _was_begun(out: Path, run: GpuRun) -> bool:
    return any(out.glob(f".{run.name}.seed{run.seed}.*"))


def _finished(run: GpuRun, device: str, out: Path, minutes: float, say) -> bool:
    command = [sys.executable, "-m", "attnbook", "reproduce", run.name]
    command += ["--seed", str(run.seed), "--device", device, "--out", str(out)]
    command += [word for change in run.changes for word in ("--set", change)]
    begin = time.monotonic()
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=max(1, 60 * minutes))
    except subprocess.TimeoutExpired:
        say(f"{run.name}: stopped after {minutes:.0f} min; the next call goes on with it")
        return False
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["no message"])[-1]
        say(f"{run.name}: failed, {reason}")
        return False
    say(f"{run.name}: done in {(time.monotonic() - begin) / 60:.1f} min")
    return True


def _tests(end: float) -> str:
    """The outcome of the ``gpu`` tests, where this is a checkout of the book."""
    folder = Path(__file__).resolve().parents[2] / "tests"
    if not folder.is_dir():
        return "gpu tests: only a checkout of the book has them"
    command = [sys.executable, "-m", "pytest", "-q", "-m", "gpu", str(folder)]
    try:
        done = subprocess.run(
            command,
            cwd=folder.parent,
            capture_output=True,
            text=True,
            timeout=max(1, end - time.monotonic()),
        )
    except subprocess.TimeoutExpired:
        return "gpu tests: the time was over before they ended"
    lines = done.stdout.strip().splitlines() or ["no output"]
    failed = [line for line in lines if line.startswith(("FAILED", "ERROR"))]
    return "\n".join([f"gpu tests: {lines[-1].strip('= ')}", *failed])
