"""Additive attention on a GPU: the kernels in Triton beside the operations of PyTorch, in time and
in memory, forward and with the backward pass.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

import torch
from common import alternate, environment, save, summary

from attnbook import AdditiveScore, attend

SHAPES = {
    "one step of a decoder": (128, 1, 50, 256),
    "a batch of sentences": (32, 50, 50, 256),
    "long": (8, 512, 512, 256),
    "very long": (1, 2048, 2048, 256),
}


def compared(batch: int, queries: int, keys: int, width: int, blocks: int) -> dict:
    torch.manual_seed(0)
    query = torch.randn(batch, queries, width, device="cuda", requires_grad=True)
    key = torch.randn(batch, keys, width, device="cuda", requires_grad=True)
    score = AdditiveScore(width, width, width).cuda()
    wanted = [query, key, *score.parameters()]
    given: dict[str, list] = {}

    def run(asked: str, backward: bool):
        os.environ["ATTNBOOK_TRITON"] = asked
        context = attend(score, query, key, need_weights=False).context
        found = torch.autograd.grad(context.square().mean(), wanted) if backward else ()
        torch.cuda.synchronize()
        return context.detach(), *found

    record = {}
    for name, backward in (("forward", False), ("forward and backward", True)):
        peaks = {}
        for side, asked in (("Triton", "1"), ("PyTorch", "0")):
            run(asked, backward)
            torch.cuda.reset_peak_memory_stats()
            before = torch.cuda.memory_allocated()
            given[side] = list(run(asked, backward))
            peaks[side] = round((torch.cuda.max_memory_allocated() - before) / 2**20, 1)
        # sums of many rounded terms: compared by the norm
        apart = [
            float((a - b).norm() / b.norm()) for a, b in zip(given["Triton"], given["PyTorch"])
        ]
        assert max(apart) < 1e-4, f"the two sides must give the same numbers, got {apart}"
        sides = {"Triton": lambda: run("1", backward), "PyTorch": lambda: run("0", backward)}
        record[name] = {
            side: {**figures, "peak_mb": peaks[side]}
            for side, figures in summary(alternate(sides, blocks, 10), "Triton").items()
        }
    return record


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--blocks", type=int, default=15, help="alternating blocks per side")
    parser.add_argument("--json", type=Path, help="where the figures are saved")
    options = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = False
    found = {**environment(), "gpu": torch.cuda.get_device_name(), "cuda": torch.version.cuda}
    for name, shape in SHAPES.items():
        record = {"shape": shape, **compared(*shape, options.blocks)}
        found["runs"].append({"part": name, **record})
        print(name, json.dumps(record), flush=True)
    save(found, options.json)


if __name__ == "__main__":
    main()
