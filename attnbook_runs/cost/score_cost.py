"""What plain attention takes with the additive score and with the dot product: time, and the
peak of memory.
"""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import torch

from ..registry import register

__all__ = ["KINDS", "cost", "milliseconds", "peak_mb", "plain_attention"]

KINDS = ("additive", "dot")


def plain_attention(kind, query, key, W_s, W_h, v):
    """The context of attention as the formula stands, for one of the two scores; m×n×d tanh for
    the additive one.
    """
    if kind == "additive":
        e = torch.tanh((query @ W_s)[:, None] + key @ W_h) @ v
    else:
        e = query @ key.T / query.shape[-1] ** 0.5
    return e.softmax(-1) @ key


def milliseconds(
    length: int, width: int, device: str | torch.device = "cpu", repeats: int = 5
) -> dict[str, float]:
    """Best time of a forward and backward pass with m = n = ``length``; the two scores take
    turns on the same machine.
    """
    shapes = (length, width), (length, width), (width, width), (width, width), (width,)
    inputs = [torch.randn(shape, device=device, requires_grad=True) for shape in shapes]

    def wait() -> None:
        if inputs[0].is_cuda:
            torch.cuda.synchronize()

    times_by_kind: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for turn in range(repeats + 1):
        for kind, times in times_by_kind.items():
            wait()
            start = time.perf_counter()
            plain_attention(kind, *inputs).sum().backward()
            wait()
            if turn:  # the first turn warms up
                times.append(1e3 * (time.perf_counter() - start))
    return {kind: min(times) for kind, times in times_by_kind.items()}


_CHILD = """
import json, sys, torch
torch.set_num_threads(1)

def peak():
    if sys.platform == "linux":  # getrusage would go on from the peak of the parent process
        lines = open("/proc/self/status")
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1e3
    if sys.platform == "win32":
        import psutil
        return psutil.Process().memory_info().peak_wset / 1e6
    import resource
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6

kind, sizes = sys.argv[1], json.loads(sys.argv[2])
rows = []
for length, width in [(8, 8), *sizes]:  # the first one loads what is loaded late
    shapes = (length, width), (length, width), (width, width), (width, width), (width,)
    tensors = [torch.randn(shape, requires_grad=True) for shape in shapes]
    plain_attention(kind, *tensors).sum().backward()
    rows.append(peak())
print(json.dumps([row - rows[0] for row in rows[1:]]))
"""


def peak_mb(sizes: list[tuple[int, int]]) -> dict[str, list[float]]:
    """Peak memory on the CPU in MB above the start, for each (length, width) and score; in a
    separate process for each score.

    ``sizes`` go from small to large, since a peak can only rise.
    """
    code = inspect.getsource(plain_attention) + _CHILD
    children = {
        kind: subprocess.Popen(
            [sys.executable, "-c", code, kind, json.dumps(sizes)], stdout=subprocess.PIPE, text=True
        )
        for kind in KINDS
    }
    peaks = {}
    for kind, child in children.items():
        output, _ = child.communicate()
        if child.returncode:
            raise RuntimeError(
                f"the process that measures the memory of {kind!r} ended with status "
                f"{child.returncode}"
            )
        peaks[kind] = json.loads(output)
    return peaks


@dataclass(frozen=True)
class Settings:
    lengths: tuple[int, ...] = (128, 256, 512)  # numbers of queries and keys to compare
    widths: tuple[int, ...] = (16, 64, 256)  # widths to compare
    width: int = 64  # width where the length varies
    length: int = 256  # queries and keys where the width varies


def cost(
    settings: Settings, *, seed: int = 0, device: str = "cpu", folder: Path = Path("results")
) -> dict:
    """Time on ``device`` (forward and backward) and peak memory on the CPU: over the length, at
    ``width``, and over the width, at ``length``."""
    torch.manual_seed(seed)
    figures = {}
    for name, sizes in (
        ("over_length", [(n, settings.width) for n in settings.lengths]),
        ("over_width", [(settings.length, w) for w in settings.widths]),
    ):
        times, peaks = [milliseconds(*size, device) for size in sizes], peak_mb(sizes)
        figures[name] = {
            "sizes": [list(size) for size in sizes],
            "milliseconds": {kind: [round(row[kind], 3) for row in times] for kind in KINDS},
            "peak_mb": {kind: [round(value, 1) for value in peaks[kind]] for kind in KINDS},
        }
    return figures


register(
    "score-cost",
    cost,
    Settings(),
    title="Time and peak memory of plain attention, additive score against dot product",
    minutes="10 seconds on two CPU cores",
)
