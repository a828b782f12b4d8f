"""What the benchmarks share: sides that take turns, ratios of medians, a calibration, the
allocator's two settings.
"""

from __future__ import annotations

import statistics
import time

__all__ = ["TUNED", "alternate", "calibration", "summary"]

TUNED = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": "8589934592"}
"""glibc keeps large buffers instead of returning them to the kernel."""


def alternate(
    sides: dict, blocks: int, repeats: int = 2, clock=time.perf_counter
) -> dict[str, list[float]]:
    """Milliseconds a call, one number a block; the sides take turns, so that all meet the same
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
