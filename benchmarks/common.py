"""Shared by the benchmarks: the command line, parts in processes of their own with both settings of
the allocator, alternating sides, ratios of medians, and a calibration.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

__all__ = [
    "TUNED",
    "alternate",
    "calibration",
    "command_line",
    "environment",
    "run_parts",
    "save",
    "summary",
]

TUNED = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": "8589934592"}
"""glibc keeps large buffers instead of returning them to the kernel."""


def command_line(description: str, *, blocks: int, parts: Sequence[str]) -> argparse.ArgumentParser:
    """A parser with ``--blocks``, ``--json``, and ``--part`` for the child processes."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--blocks", type=int, default=blocks, help="alternating blocks per side")
    parser.add_argument("--json", type=Path, help="where the figures are saved")
    parser.add_argument("--part", choices=parts, help=argparse.SUPPRESS)
    return parser


def environment() -> dict:
    """What a record says of the machine, and its empty list of runs."""
    import torch

    return {
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "machine": platform.machine(),
        "runs": [],
    }


def run_parts(script: str, parts: Iterable[str], *options: object) -> Iterator[dict]:
    """Run ``script --part PART`` for each part with both settings of the allocator.

    Each is a process of its own, whose last line is JSON with a ``calibration``. Prints a heading
    and yields the record of the run; ends with the child's error if it fails.
    """
    for allocator, extra in (("default allocator", {}), ("tuned allocator", TUNED)):
        for part in parts:
            done = subprocess.run(
                [sys.executable, script, "--part", part, *map(str, options)],
                env={**os.environ, **extra},
                capture_output=True,
                text=True,
            )
            if done.returncode:
                sys.exit(done.stderr)
            record = json.loads(done.stdout.splitlines()[-1])
            print(f"\n{part}, {allocator}   calibration {record['calibration']}")
            yield {"part": part, "allocator": allocator, **extra, **record}


def save(found: dict, path: Path | None) -> None:
    """Write a record as JSON, if a path is given."""
    if path:
        path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def alternate(
    sides: dict, blocks: int, repeats: int = 2, clock=time.perf_counter
) -> dict[str, list[float]]:
    """Milliseconds per call, one number per block; the sides take turns, so that all meet the same
    machine.

    On a machine that does other work, ``clock=time.process_time`` counts the processor's time of
    this process alone: of all its threads."""
    for call in sides.values():
        call()
    found = {name: [] for name in sides}
    for _ in range(blocks):
        for name, call in sides.items():
            started = clock()
            for _ in range(repeats):
                call()
            found[name].append((clock() - started) / repeats * 1e3)
    return found


def summary(found: dict[str, list[float]], ours: str) -> dict:
    median = {name: statistics.median(values) for name, values in found.items()}
    ratios = {
        name: statistics.median(a / b for a, b in zip(values, found[ours]))
        for name, values in found.items()
    }
    return {
        name: {"ms": round(median[name], 1), "times_ours": round(ratios[name], 2)} for name in found
    }


def calibration() -> dict:
    import torch

    a, b = torch.randn(2048, 2048), torch.randn(8 * 2**20)
    sides = {"matmul": lambda: a @ a, "copy": b.clone, "tanh": lambda: torch.tanh_(b)}
    found = {name: min(values) / 1e3 for name, values in alternate(sides, 5).items()}
    return {
        "gflops": round(2 * 2048**3 / found["matmul"] / 1e9),
        "copy_gb_s": round(2 * 4 * b.numel() / found["copy"] / 1e9, 1),
        "tanh_gelem_s": round(b.numel() / found["tanh"] / 1e9, 2),
    }
