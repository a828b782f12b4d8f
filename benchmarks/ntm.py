"""A training step of the neural Turing machine beside the naive version and dnc: ratios of
medians from alternating blocks.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch
from common import alternate, calibration, command_line, environment, run_parts, save, summary
from implementations.naive_ntm import NaiveNTM
from torch.nn import functional as F

from attnbook import NTM

BITS, LENGTH, CONTROLLER, SLOTS, WIDTH = 8, 20, 100, 128, 20
STEPS = 2 * LENGTH + 1
BATCHES = (1, 16, 64)
CONTROLLERS = ("lstm", "feedforward")


def copy_batch(batch: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows, a delimiter, silence; and the rows again as targets."""
    rows = torch.randint(0, 2, (batch, LENGTH, BITS)).float()
    inputs = torch.zeros(batch, STEPS, BITS + 1)
    inputs[:, :LENGTH, :BITS], inputs[:, LENGTH, BITS] = rows, 1
    return inputs, rows


def training_step(parameters, forward, batch: int):
    inputs, targets = copy_batch(batch)
    optimizer = torch.optim.RMSprop(parameters, lr=1e-4, momentum=0.9)

    def step():
        loss = F.binary_cross_entropy_with_logits(forward(inputs)[:, -LENGTH:, :BITS], targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


def peer(folder: str = "build/peers"):
    """``dnc.DNC`` of the same size, or None where it is not installed."""
    if not (Path(folder) / "dnc").is_dir():
        return None
    sys.path.append(folder)
    from dnc import DNC

    return DNC(
        input_size=BITS + 1,
        hidden_size=CONTROLLER,
        rnn_type="lstm",
        num_layers=1,
        num_hidden_layers=1,
        nr_cells=SLOTS,
        cell_size=WIDTH,
        read_heads=1,
        batch_first=True,
        gpu_id=-1,
    )


def machine(controller: str) -> NTM:
    torch.manual_seed(0)
    return NTM(
        BITS + 1, BITS, controller=controller, hidden_size=CONTROLLER, slots=SLOTS, slot_width=WIDTH
    )


def compiled(controller: str) -> NTM:
    net = machine(controller)
    net.compile(fullgraph=True)
    return net


def products(controller: str) -> int:
    """Multiplications and additions of the products of one sequence, forward."""
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter, torch.no_grad():
        machine(controller)(torch.zeros(1, STEPS, BITS + 1))
    return counter.get_total_flops()


def measure(controller: str, blocks: int) -> dict:
    found = {}
    for batch in BATCHES:
        ours = machine(controller)
        naive = NaiveNTM(ours)
        inputs, _ = copy_batch(batch)
        with torch.no_grad():
            difference = (ours(inputs).logits - naive(inputs)).abs().max().item()
        assert difference < 1e-4, (
            f"the two sides must compute the same, they differ by {difference}"
        )
        own = [p for name, p in naive.named_parameters() if not name.startswith("model.")]
        sides = {
            "attnbook": training_step(ours.parameters(), lambda x, net=ours: net(x).logits, batch),
            "naive": training_step(own, naive, batch),
        }
        if batch == 16:
            fast = compiled(controller)
            sides["attnbook, compiled cell"] = training_step(
                fast.parameters(), lambda x: fast(x).logits, batch
            )
            if controller == "lstm" and (other := peer()) is not None:
                sides["dnc 1.1.0"] = training_step(other.parameters(), lambda x: other(x)[0], batch)
        rows = summary(alternate(sides, blocks, repeats=1), "attnbook")
        for row in rows.values():
            row["sequences_a_second"] = round(1000 * batch / row["ms"], 1)
        if "attnbook, compiled cell" in rows:
            fastest = rows["attnbook, compiled cell"]
            fastest["naive_times_this"] = round(rows["naive"]["ms"] / fastest["ms"], 2)
        found[f"B = {batch}"] = rows
    return found


def report(blocks: int, path: Path | None) -> None:
    found = environment()
    for run in run_parts(__file__, CONTROLLERS, "--blocks", blocks):
        found["runs"].append(run)
        print(f"  floor at B = 16: {run['floor_ms']:.1f} ms")
        for size, rows in run["figures"].items():
            for name, row in rows.items():
                more = (
                    f"   naive / this: {row['naive_times_this']:.2f}"
                    if "naive_times_this" in row
                    else ""
                )
                print(
                    f"  {size:<8}{name:<26}{row['ms']:>9.1f} "
                    f"ms{row['sequences_a_second']:>9.1f} sequences/s"
                    f"   times ours: {row['times_ours']:.2f}{more}"
                )
    save(found, path)


def main() -> None:
    options = command_line(__doc__, blocks=7, parts=CONTROLLERS).parse_args()
    if not options.part:
        report(options.blocks, options.json)
        return
    rates, flops = calibration(), products(options.part)
    # the backward pass takes twice the forward
    floor = 16 * 3 * flops / (rates["gflops"] * 1e9) * 1e3
    print(
        json.dumps(
            {
                "calibration": rates,
                "mflop_a_sequence": round(flops / 1e6, 2),
                "floor_ms": round(floor, 2),
                "figures": measure(options.part, options.blocks),
            }
        )
    )


if __name__ == "__main__":
    main()
