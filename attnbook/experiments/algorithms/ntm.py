"""The neural Turing machine and a stacked LSTM on the five tasks: cost in bits, errors beyond
the trained lengths, the heads.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn

from ...models import NTM
from ...models.rnn.common import make_recurrent
from ...tasks.algorithms import ntm_tasks
from ...tasks.algorithms.ntm_tasks import AlgorithmBatches
from ...training import cosine_decay, fit, save_model
from ...training.losses.bits import bit_loss, score_bits
from ...training.optim.recurrent_gradients import clipped_backward
from ...training.optim.rmsprop import GravesRMSProp

__all__ = ["Logits", "StackedLSTM", "algorithm", "finite", "make_model", "read_write_match"]


class Logits(NamedTuple):
    """``logits (batch, T, d_output)``."""

    logits: torch.Tensor


class StackedLSTM(nn.Module):
    """Layers of LSTM with a linear readout at every step: the baseline of the paper, 3 layers of
    128 to 512 units.

    Shapes: inputs ``(batch, T, d_input)`` → logits ``(batch, T, d_output)``.
    On copy, 3 × 256 units have 1,328,136 parameters here; the paper counts 1,352,969 and does not
    say how the layers hang together."""

    def __init__(
        self, d_input: int, d_output: int, *, hidden_size: int = 256, num_layers: int = 3
    ) -> None:
        super().__init__()
        self.network = make_recurrent("lstm", d_input, hidden_size, num_layers=num_layers)
        self.readout = nn.Linear(hidden_size, d_output)

    def forward(self, inputs: torch.Tensor) -> Logits:
        return Logits(self.readout(self.network(inputs)[0]))


def make_model(model: str, d_input: int, d_output: int, **sizes: Any) -> nn.Module:
    """``"ntm"`` or ``"lstm"``; sizes as in :class:`attnbook.NTM` and :class:`StackedLSTM`, and
    ``heads`` for as many read as write heads."""
    if model == "lstm":
        return StackedLSTM(d_input, d_output, **sizes)
    if model != "ntm":
        raise ValueError(f"model must be 'ntm' or 'lstm', got {model!r}")
    heads = sizes.pop("heads", 1)
    return NTM(d_input, d_output, **{"read_heads": heads, "write_heads": heads, **sizes})


@torch.no_grad()
def read_write_match(net: NTM, batch: ntm_tasks.AlgorithmBatch) -> dict[str, float]:
    """How a machine with one read and one write head copies: where its heads peak, on a batch of
    the copy task.

    ``same``      how often, at the step when vector t is to be said, the read head peaks at the
    slot where the write head peaked
                  when vector t came
    ``ahead``     the same one step earlier: what a head reads reaches the controller a step later,
    so this is as good ``forward``   how often the write head peaks one slot further (modulo N) for
    a vector than for the one before ``backward``  how often one slot back ``weight``    the mean of
    the largest weight: of the write head while vectors come, of the read head while they are said
    """
    if net.read_heads != 1 or net.write_heads != 1:
        raise ValueError(
            f"net must have one read head and one write head, got {net.read_heads} and "
            f"{net.write_heads}"
        )
    device = next(net.parameters()).device
    weights = net(batch.inputs.to(device), need_weights=True).weights.cpu()
    found = dict.fromkeys(("same", "ahead", "forward", "backward", "weight"), 0.0)
    vectors = moves = 0
    # rows of different lengths, and a few dozen of them
    for row, n in zip(weights, batch.mask.sum(1).tolist()):
        written, read = row[:n, 1].argmax(-1), row[:, 0].argmax(-1)
        found["same"] += int((read[n + 1 : 2 * n + 1] == written).sum())
        found["ahead"] += int((read[n : 2 * n] == written).sum())
        for name, by in (("forward", 1), ("backward", -1)):
            found[name] += int((written[1:] == (written[:-1] + by) % net.slots).sum())
        found["weight"] += (
            float(row[:n, 1].amax(-1).sum() + row[n + 1 : 2 * n + 1, 0].amax(-1).sum()) / 2
        )
        vectors, moves = vectors + n, moves + n - 1
    return {
        name: value / max(1, moves if "ward" in name else vectors) for name, value in found.items()
    }


def algorithm(
    *,
    seed: int = 0,
    device: str = "cpu",
    folder: Path = Path("results"),
    task: str = "copy",
    model: str = "ntm",
    sizes: Mapping[str, Any] = {},
    train: Mapping[str, Any] = {},
    tests: Sequence[Mapping[str, Any]] = ({},),
    test_sequences: int = 100,
    grow: int = 0,
    batch_size: int = 16,
    steps: int = 1000,
    optimizer: str = "adam",
    learning_rate: float = 1e-2,
    decay: bool = True,
    clip: float = 0.5,
    backward_clip: float | None = None,
    evaluations: int = 20,
    compiled: bool = False,
    checkpoint: str = "",
) -> dict:
    """Train one model on one task, and measure it on other sizes of the task too.

    sizes      of the model, as in :func:`make_model`
    train      settings of the task in training; in each of ``tests`` some of them are changed
    optimizer  "adam", with the norm of the gradient cut at ``clip``, or "rmsprop", the paper's,
               with its entries cut
    backward_clip  of the machine: cut at every step what flows back, as in
                   :func:`attnbook.training.optim.recurrent_gradients.clipped_backward`
    compiled   the step of the machine by torch.compile
    checkpoint name of the weights that are left in ``folder``; none without

    The bits of the curve are those of the training sequences to come, so every one is a test. A
    loss or a gradient that is not finite ends the run with an error
    (:class:`attnbook.training.NonFiniteError`): a record means that there was none."""
    if optimizer not in ("adam", "rmsprop"):
        raise ValueError(f"optimizer must be 'adam' or 'rmsprop', got {optimizer!r}")
    torch.manual_seed(seed)
    net = make_model(model, *ntm_tasks.widths(task, **train), **sizes)
    if compiled and model == "ntm":
        net.cell = torch.compile(net.cell, fullgraph=True)
    held = [
        ntm_tasks.draw(
            task,
            test_sequences,
            torch.Generator().manual_seed(10**6 + seed),
            **{**train, **changed},
        )
        for changed in tests
    ]
    cut = (
        clipped_backward(net, backward_clip) if backward_clip and model == "ntm" else nullcontext()
    )
    with cut:
        history = fit(
            net,
            AlgorithmBatches(task, batch_size, seed, grow=grow, **train),
            bit_loss,
            steps=steps,
            seed=seed,
            device=device,
            schedule=cosine_decay(steps, min(20, steps)) if decay else None,
            learning_rate=learning_rate,
            clip_norm=clip if optimizer == "adam" else None,
            optimizer="adam"
            if optimizer == "adam"
            else lambda p: GravesRMSProp(p, lr=learning_rate, clip=clip),
        )
    figures = {
        "parameters": sum(p.numel() for p in net.parameters()),
        "sequences": steps * batch_size,
        "curve": [
            [int(step) * batch_size, round(value, 5)]
            for step, value in _means(history.losses, evaluations)
        ],
        "tests": [
            {**changed, **{k: round(v, 5) for k, v in score_bits(net, batch).items()}}
            for changed, batch in zip(tests, held)
        ],
        "largest_gradient": round(max(history.grad_norms), 3),
        "training_seconds": round(history.seconds, 1),
    }
    if task == "n-grams":
        figures["optimal"] = [
            round(_optimal(batch, {**train, **changed}), 5) for changed, batch in zip(tests, held)
        ]
    if task == "copy" and model == "ntm" and net.read_heads == net.write_heads == 1:
        figures["heads"] = {k: round(v, 4) for k, v in read_write_match(net, held[0]).items()}
    if checkpoint:
        save_model(net, folder / f"{checkpoint}.seed{seed}.safetensors")
    return figures


def _means(losses: Sequence[float], parts: int) -> list[tuple[int, float]]:
    """The mean of each of so many stretches of the run, at the step where it ends."""
    edges = [round(k * len(losses) / parts) for k in range(parts + 1)]
    return [(b, sum(losses[a:b]) / (b - a)) for a, b in zip(edges, edges[1:]) if b > a]


def _optimal(batch, settings) -> float:
    """What the sequences cost, in bits, when the best possible predictor is told their bits."""
    bits = batch.targets[..., 0].double()
    p = ntm_tasks.optimal_n_grams(bits, settings.get("n", 6))
    return float(-(bits * p.log2() + (1 - bits) * (1 - p).log2()).sum(1).mean())


def finite(
    *,
    seed: int = 0,
    device: str = "cpu",
    folder: Path = Path("results"),
    seeds: int = 20,
    steps: int = 20,
    batch_size: int = 8,
    learning_rates: Sequence[float] = (1e-2,),
    settings: Mapping[str, Sequence[Any]] = {
        "controller": ("feedforward", "lstm"),
        "shift": ("softmax", "scalar"),
        "memory_start": ("constant", "learned"),
        "heads": (1, 2),
    },
    slots: int = 32,
    slot_width: int = 12,
    hidden_size: int = 50,
) -> dict:
    """Short runs of copy, lengths 1 to 10, with every combination of the settings, from seeds on:
    are all losses and gradients finite? The cost of the first and of the last tenth of each run,
    the mean over the seeds, says that it trains."""
    rows = []
    for values in itertools.product(*settings.values(), learning_rates):
        sizes, rate = dict(zip(settings, values)), values[-1]
        runs = [
            algorithm(
                seed=seed + k,
                device=device,
                sizes={
                    **sizes,
                    "slots": slots,
                    "slot_width": slot_width,
                    "hidden_size": hidden_size,
                },
                train={"length": (1, 10), "together": True},
                tests=({"length": 10},),
                test_sequences=10,
                batch_size=batch_size,
                steps=steps,
                learning_rate=rate,
                evaluations=10,
            )
            for k in range(seeds)
        ]
        rows.append(
            {
                **sizes,
                "learning_rate": rate,
                "runs": len(runs),
                "largest_gradient": max(r["largest_gradient"] for r in runs),
                **{
                    which: round(sum(r["curve"][at][1] for r in runs) / len(runs), 4)
                    for which, at in (("first", 0), ("last", -1))
                },
            }
        )
    return {"rows": rows, "runs": sum(row["runs"] for row in rows)}
