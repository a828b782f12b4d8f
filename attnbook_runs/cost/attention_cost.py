"""What a layer of self-attention takes beside a recurrent one and beside Linformer: operations,
time, numbers kept.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from attnbook.mechanisms import LinformerAttention, MultiHeadAttention

from ..registry import register

__all__ = ["KINDS", "TUNED", "best_milliseconds", "cost", "kept_numbers", "layers", "operations"]

KINDS = ("attention, weights kept", "attention", "Linformer", "RNN")
TUNED = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": "8589934592", "OMP_NUM_THREADS": "1"}
"""One thread, and an allocator (glibc's) that keeps large buffers instead of giving them back to
the kernel after each use.
"""


def layers(
    length: int,
    width: int = 64,
    num_heads: int = 4,
    rank: int = 32,
    device: str | torch.device = "cpu",
) -> dict[str, Callable[[Tensor], Tensor]]:
    """The layers that are compared, by name: functions of ``(1, length, width)``.

    The RNN is the plain one, tanh of two products.
    """
    full = MultiHeadAttention(width, num_heads).to(device)
    mixed = LinformerAttention(width, num_heads, length=length, rank=min(rank, length)).to(device)
    rnn = nn.RNN(width, width, batch_first=True).to(device)
    return dict(
        zip(
            KINDS,
            (
                lambda x: full(x).context,
                lambda x: full(x, need_weights=False).context,
                lambda x: mixed(x, need_weights=False).context,
                lambda x: rnn(x)[0],
            ),
        )
    )


def best_milliseconds(
    calls: Mapping[str, Callable[[], object]], rounds: int = 7
) -> dict[str, float]:
    """The best processor time of each call. They take turns, so that the load of the machine is
    the same for all; the first round warms up.

    The clock is that of this process, so that other processes matter less; with one thread it
    gives the time of an idle machine."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(rounds + 1):
        for name, call in calls.items():
            started = time.process_time()
            call()
            if turn:
                times[name].append(1e3 * (time.process_time() - started))
    return {name: min(values) for name, values in times.items()}


def kept_numbers(call: Callable[[], object], parameters=()) -> int:
    """How many numbers a forward pass saves for the backward pass: each storage once, without the
    parameters.
    """
    weights = {p.untyped_storage().data_ptr() for p in parameters}
    sizes: dict[int, int] = {}
    alive = []  # or a storage might be freed, and its address used again

    def keep(tensor):
        sizes[tensor.untyped_storage().data_ptr()] = (
            tensor.untyped_storage().nbytes() // tensor.element_size()
        )
        alive.append(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        result = call()
    del result
    return sum(size for place, size in sizes.items() if place not in weights)


def operations(call: Callable[[], object]) -> int:
    """Multiplications and additions of the matrix products in a call, by PyTorch's own counter."""
    with FlopCounterMode(display=False) as counter:
        call()
    return counter.get_total_flops()


def _measure(lengths: list[int], width: int, rounds: int) -> dict:
    """Forward and backward passes of all layers, over the length."""
    torch.set_num_threads(1)
    rows = {"milliseconds": {kind: [] for kind in KINDS}, "kept": {kind: [] for kind in KINDS}}
    for length in lengths:
        x = torch.randn(1, length, width, requires_grad=True)
        compared = layers(length, width)
        times = best_milliseconds(
            {
                kind: lambda layer=layer: layer(x).sum().backward()
                for kind, layer in compared.items()
            },
            rounds,
        )
        for kind, layer in compared.items():
            rows["milliseconds"][kind].append(round(times[kind], 3))
            rows["kept"][kind].append(kept_numbers(lambda: layer(x)))
    return rows


@dataclass(frozen=True)
class Settings:
    lengths: tuple[int, ...] = (64, 128, 256, 512, 1024, 2048)  # lengths to compare
    width: int = 64  # width of the layers
    rounds: int = 20  # timed repetitions


def cost(settings: Settings, *, seed: int = 0, folder: Path = Path("results")) -> dict:
    """Time of a forward and backward pass on the CPU, and numbers kept, over the length; in a
    process with :data:`TUNED`.
    """
    code = (
        "import json, sys, torch; from attnbook_runs.cost.attention_cost import _measure; "
        "lengths, width, rounds, seed = json.loads(sys.argv[1]); torch.manual_seed(seed); "
        "print(json.dumps(_measure(lengths, width, rounds)))"
    )
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            code,
            json.dumps([list(settings.lengths), settings.width, settings.rounds, seed]),
        ],
        env={**os.environ, **TUNED},
        stdout=subprocess.PIPE,
        text=True,
    )
    if done.returncode:
        raise RuntimeError(f"the process that measures ended with status {done.returncode}")
    return {
        "lengths": list(settings.lengths),
        "width": settings.width,
        "allocator": TUNED,
        **json.loads(done.stdout),
    }


register(
    "attention-cost",
    cost,
    Settings(),
    title="Time and memory of self-attention, Linformer and an RNN over the length",
    minutes="1 minute on one CPU core",
)
