"""One causal head over a long text beside PyTorch's own call: time and peak memory.

    python benchmarks/causal.py                       # 8,192 positions, width 64, two minutes
    python benchmarks/causal.py --json FILE           # keep the figures

Forward and backward of `attend(ScaledDotScore(), …, is_causal=True, need_weights=False)` and of
`scaled_dot_product_attention(…, is_causal=True)`, in alternating blocks of one process; the peak
memory above the inputs of each in a process of its own, and that of rotary positions from the
1,000,000th on.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys

import torch
from common import alternate, calibration, command_line, environment, run_parts, save, summary
from torch.nn import functional as F

from attnbook import RotaryPositions, ScaledDotScore, attend

LENGTH, WIDTH = 8192, 64


def sides(length: int) -> dict:
    """Forward and backward of one head on the same inputs, ``(1, 1, n, 64)``."""
    torch.manual_seed(0)
    inputs = [torch.randn(1, 1, length, WIDTH, requires_grad=True) for _ in range(3)]

    def ours():
        context = attend(ScaledDotScore(), *inputs, is_causal=True, need_weights=False).context
        return torch.autograd.grad(context.sum(), inputs)

    def theirs():
        context = F.scaled_dot_product_attention(*inputs, is_causal=True)
        return torch.autograd.grad(context.sum(), inputs)

    return {"attnbook": ours, "PyTorch": theirs}


def rotary(position: int) -> None:
    RotaryPositions(128)(torch.randn(1, 1, 1, 128), position)


def peak(name: str, length: int) -> float:
    """MB above what the process holds once a small call has loaded what it needs."""
    if name == "rotary":
        small, call = lambda: rotary(10), lambda: rotary(1_000_000)
    else:
        small, call = sides(64)[name], sides(length)[name]
    small()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    call()
    return round((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024, 1)


def measure(blocks: int, length: int) -> dict:
    made = sides(length)
    for mine, their in zip(*(run() for run in made.values())):
        torch.testing.assert_close(mine, their, rtol=1e-3, atol=1e-4)
    return summary(alternate(made, blocks, repeats=1), "attnbook")


def main() -> None:
    parser = command_line(__doc__, blocks=12, parts=["time"])
    parser.add_argument("--length", type=int, default=LENGTH)
    parser.add_argument("--peak", choices=["attnbook", "PyTorch", "rotary"])
    options = parser.parse_args()
    if options.peak:
        print(peak(options.peak, options.length))
        return
    if options.part:
        figures = measure(options.blocks, options.length)
        print(json.dumps({"calibration": calibration(), "figures": figures}))
        return
    found = environment() | {"length": options.length, "peak_mb": {}}
    for run in run_parts(
        __file__, ["time"], "--blocks", options.blocks, "--length", options.length
    ):
        found["runs"].append(run)
        for name, row in run["figures"].items():
            print(f"    {name:<12}{row['ms']:>9.1f} ms   times ours: {row['times_ours']:.2f}")
    for name in ("attnbook", "PyTorch", "rotary"):
        command = [sys.executable, __file__, "--peak", name, "--length", str(options.length)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        found["peak_mb"][name] = float(done.stdout.splitlines()[-1])
        print(f"    {name:<12}{found['peak_mb'][name]:>9.1f} MB at most above the inputs")
    save(found, options.json)


if __name__ == "__main__":
    main()
