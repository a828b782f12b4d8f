"""The neural Turing machine and a stacked LSTM on the five tasks: cost in bits, errors beyond
the trained lengths, the heads.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
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
from ..registry import register

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

    Returns:
        same: how often, at the step when vector t is to be said, the read head peaks at the slot
            where the write head peaked when vector t came.
        ahead: the same one step earlier: what a head reads reaches the controller a step later, so
            this is as good.
        forward: how often the write head peaks one slot further (modulo N) for a vector than for
            the one before.
        backward: how often one slot back.
        weight: the mean of the largest weight: of the write head while vectors come, of the read
            head while they are said.
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


@dataclass(frozen=True)
class AlgorithmSettings:
    task: str = "copy"  # name of the task
    model: str = "ntm"  # ntm or lstm
    sizes: Mapping[str, Any] = field(default_factory=dict)  # sizes of the model
    train: Mapping[str, Any] = field(default_factory=dict)  # task settings in training
    # task settings of each test, on top of those of training
    tests: Sequence[Mapping[str, Any]] = ({},)
    test_sequences: int = 100  # sequences per test
    grow: int = 0  # steps over which the sequences grow to their full size; 0: none
    batch_size: int = 16  # sequences per step
    steps: int = 1000  # training steps
    optimizer: str = "adam"  # adam, or rmsprop as in the paper
    learning_rate: float = 1e-2  # peak learning rate
    decay: bool = True  # let the learning rate decay by a cosine
    clip: float = 0.5  # bound on the norm of the gradient (adam) or on its entries (rmsprop)
    # bound on the gradient that flows back at every step of the NTM; None: none
    backward_clip: float | None = None
    evaluations: int = 20  # evaluations during training
    compiled: bool = False  # compile the cell of the NTM with torch.compile
    checkpoint: str = ""  # name of the saved weights; empty: none are saved


def algorithm(
    settings: AlgorithmSettings,
    *,
    seed: int = 0,
    device: str = "cpu",
    folder: Path = Path("results"),
) -> dict:
    """Train one model on one task, and measure it on other sizes of the task too.

    Args:
        sizes: of the model, as in :func:`make_model`
        train: settings of the task in training; in each of ``tests`` some of them are changed
        optimizer: "adam", with the norm of the gradient cut at ``clip``, or "rmsprop", the paper's,
            with its entries cut
        backward_clip: of the machine: cut at every step what flows back, as in
            :func:`attnbook.training.optim.recurrent_gradients.clipped_backward`
        compiled: the step of the machine by torch.compile
        checkpoint: name of the weights that are left in ``folder``; none without

    The bits of the curve are those of the training sequences to come, so every one is a test. A
    loss or a gradient that is not finite ends the run with an error
    (:class:`attnbook.training.NonFiniteError`): a record means that there was none.
    """
    if settings.optimizer not in ("adam", "rmsprop"):
        raise ValueError(f"optimizer must be 'adam' or 'rmsprop', got {settings.optimizer!r}")
    torch.manual_seed(seed)
    net = make_model(
        settings.model, *ntm_tasks.widths(settings.task, **settings.train), **settings.sizes
    )
    if settings.compiled and settings.model == "ntm":
        net.cell = torch.compile(net.cell, fullgraph=True)
    held = [
        ntm_tasks.draw(
            settings.task,
            settings.test_sequences,
            torch.Generator().manual_seed(10**6 + seed),
            **{**settings.train, **changed},
        )
        for changed in settings.tests
    ]
    cut = (
        clipped_backward(net, settings.backward_clip)
        if settings.backward_clip and settings.model == "ntm"
        else nullcontext()
    )
    with cut:
        history = fit(
            net,
            AlgorithmBatches(
                settings.task, settings.batch_size, seed, grow=settings.grow, **settings.train
            ),
            bit_loss,
            steps=settings.steps,
            seed=seed,
            device=device,
            schedule=cosine_decay(settings.steps, min(20, settings.steps))
            if settings.decay
            else None,
            learning_rate=settings.learning_rate,
            clip_norm=settings.clip if settings.optimizer == "adam" else None,
            optimizer="adam"
            if settings.optimizer == "adam"
            else lambda p: GravesRMSProp(p, lr=settings.learning_rate, clip=settings.clip),
        )
    figures = {
        "parameters": sum(p.numel() for p in net.parameters()),
        "sequences": settings.steps * settings.batch_size,
        "curve": [
            [int(step) * settings.batch_size, round(value, 5)]
            for step, value in _means(history.losses, settings.evaluations)
        ],
        "tests": [
            {**changed, **{k: round(v, 5) for k, v in score_bits(net, batch).items()}}
            for changed, batch in zip(settings.tests, held)
        ],
        "largest_gradient": round(max(history.grad_norms), 3),
        "training_seconds": round(history.seconds, 1),
    }
    if settings.task == "n-grams":
        figures["optimal"] = [
            round(_optimal(batch, {**settings.train, **changed}), 5)
            for changed, batch in zip(settings.tests, held)
        ]
    if (
        settings.task == "copy"
        and settings.model == "ntm"
        and net.read_heads == net.write_heads == 1
    ):
        figures["heads"] = {k: round(v, 4) for k, v in read_write_match(net, held[0]).items()}
    if settings.checkpoint:
        save_model(net, folder / f"{settings.checkpoint}.seed{seed}.safetensors")
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


@dataclass(frozen=True)
class FiniteSettings:
    seeds: int = 20  # seeds per combination
    steps: int = 20  # training steps
    batch_size: int = 8  # examples per step
    learning_rates: Sequence[float] = (1e-2,)  # learning rates to try
    # values to combine, by argument of the model
    settings: Mapping[str, Sequence[Any]] = field(
        default_factory=lambda: {
            "controller": ("feedforward", "lstm"),
            "shift": ("softmax", "scalar"),
            "memory_start": ("constant", "learned"),
            "heads": (1, 2),
        }
    )
    slots: int = 32  # memory slots
    slot_width: int = 12  # width of a memory slot
    hidden_size: int = 50  # units of the recurrent layers


def finite(
    settings: FiniteSettings, *, seed: int = 0, device: str = "cpu", folder: Path = Path("results")
) -> dict:
    """Short runs of copy, lengths 1 to 10, with every combination of the settings, from seeds on:
    are all losses and gradients finite? The cost of the first and of the last tenth of each run,
    the mean over the seeds, says that it trains."""
    rows = []
    for values in itertools.product(*settings.settings.values(), settings.learning_rates):
        sizes, rate = dict(zip(settings.settings, values)), values[-1]
        runs = [
            algorithm(
                AlgorithmSettings(
                    sizes={
                        **sizes,
                        "slots": settings.slots,
                        "slot_width": settings.slot_width,
                        "hidden_size": settings.hidden_size,
                    },
                    train={"length": (1, 10), "together": True},
                    tests=({"length": 10},),
                    test_sequences=10,
                    batch_size=settings.batch_size,
                    steps=settings.steps,
                    learning_rate=rate,
                    evaluations=10,
                ),
                seed=seed + k,
                device=device,
            )
            for k in range(settings.seeds)
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


COPY = AlgorithmSettings(
    task="copy",
    train={"length": (1, 10), "together": True},
    tests=({"together": False}, *({"length": n} for n in (10, 20, 30, 40, 60))),
)
register(
    "ntm-copy",
    algorithm,
    replace(COPY, sizes={"slots": 64}, checkpoint="ntm-copy"),
    title="Copy to length 10 by a neural Turing machine, with its checkpoint",
    minutes="1 minute on one CPU core",
)
register(
    "ntm-copy-lstm-controller",
    algorithm,
    replace(COPY, sizes={"slots": 64, "controller": "lstm"}, steps=2000),
    title="The same with an LSTM as controller",
    minutes="2 minutes on one CPU core",
)
register(
    "lstm-copy",
    algorithm,
    replace(COPY, model="lstm", learning_rate=1e-3),
    title="The same sequences by three layers of LSTM",
    minutes="2 minutes on one CPU core",
)
register(
    "ntm-copy-20",
    algorithm,
    AlgorithmSettings(
        task="copy",
        train={"length": (1, 20), "together": True},
        tests=({"together": False}, *({"length": n} for n in (10, 20, 30, 50, 80, 120))),
        sizes={"slots": 128},
        steps=1500,
        test_sequences=50,
    ),
    title="Copy to length 20 with the paper's memory, tested to 120",
    minutes="40 minutes on one CPU core",
)
register(
    "ntm-finite",
    finite,
    FiniteSettings(),
    title="Short runs with every combination of settings from 20 seeds: are all numbers finite?",
    minutes="10 minutes on one CPU core",
)
# The four other tasks of the paper at its sizes, and as many sequences as 30 minutes of one CPU
# core take.
REPEAT_COPY = AlgorithmSettings(
    task="repeat-copy",
    train={"together": True},
    tests=[
        {"together": False},
        *(
            {"length": n, "repeats": r}
            for n, r in ((10, 10), (10, 15), (10, 20), (15, 10), (20, 10))
        ),
    ],
    steps=6000,
)
ASSOCIATIVE_RECALL = AlgorithmSettings(
    task="associative-recall",
    train={"together": True},
    tests=[{"together": False}, *({"items": n} for n in (6, 8, 10, 12, 15))],
    steps=6000,
)
N_GRAMS = AlgorithmSettings(
    task="n-grams",
    train={"n": 6},
    tests=[{}, *({"n": n} for n in (3, 4, 5))],
    steps=5000,
    grow=2000,
)
PRIORITY_SORT = AlgorithmSettings(task="priority-sort", tests=[{}], steps=8000)
for _title, _settings, _minutes, _machine, _units in (
    ("Repeat copy", REPEAT_COPY, (6, 20), dict(sizes={"slots": 64}, learning_rate=3e-3), 256),
    (
        "Associative recall",
        ASSOCIATIVE_RECALL,
        (8, 6),
        dict(sizes={"slots": 64, "heads": 4, "hidden_size": 256}, learning_rate=1e-3),
        256,
    ),
    (
        "Dynamic n-grams",
        N_GRAMS,
        (25, 15),
        dict(sizes={"slots": 64}, learning_rate=5e-3, backward_clip=3e-3),
        128,
    ),
    (
        "Priority sort",
        PRIORITY_SORT,
        (15, 8),
        dict(
            sizes={"slots": 64, "heads": 5, "hidden_size": 256},
            learning_rate=3e-3,
            backward_clip=3e-3,
        ),
        128,
    ),
):
    _task = _settings.task
    register(
        f"ntm-{_task}",
        algorithm,
        replace(_settings, **_machine, compiled=True, checkpoint=f"ntm-{_task}"),
        title=f"{_title} by a neural Turing machine, with its checkpoint",
        minutes=f"{_minutes[0]} minutes on one CPU core",
    )
    register(
        f"lstm-{_task}",
        algorithm,
        replace(_settings, learning_rate=1e-3, model="lstm", sizes={"hidden_size": _units}),
        title="The same sequences by three layers of LSTM",
        minutes=f"{_minutes[1]} minutes on one CPU core",
    )
register(
    "ntm-n-grams-long",
    algorithm,
    replace(
        N_GRAMS,
        sizes={"slots": 64},
        learning_rate=5e-3,
        backward_clip=3e-3,
        compiled=True,
        steps=15_000,
        grow=6000,
        checkpoint="ntm-n-grams-long",
    ),
    title="Dynamic n-grams from three times as many sequences",
    minutes="30 minutes on one CPU core",
)
# The settings of the paper: heads, controller and rate of each task (feed-forward; LSTM as
# controller; three layers of LSTM alone).
for _task, _ff, _lstm, _alone, _tests in (
    (
        "copy",
        (1, 100, 1e-4),
        (1, 100, 1, 1e-4),
        (256, 3e-5),
        [{"length": _n} for _n in (10, 20, 30, 50, 80, 120)],
    ),
    (
        "repeat-copy",
        (1, 100, 1e-4),
        (1, 100, 1, 1e-4),
        (512, 3e-5),
        [{"length": _n, "repeats": _r} for _n, _r in ((10, 10), (10, 20), (20, 10))],
    ),
    (
        "associative-recall",
        (4, 256, 1e-4),
        (1, 100, 1, 1e-4),
        (256, 1e-4),
        [{"items": _n} for _n in (6, 8, 10, 12, 15)],
    ),
    ("n-grams", (1, 100, 3e-5), (1, 100, 1, 3e-5), (128, 1e-4), [{}]),
    ("priority-sort", (8, 512, 3e-5), (5, 100, 2, 3e-5), (128, 3e-5), [{}]),
):
    _paper = AlgorithmSettings(
        task=_task,
        tests=_tests,
        batch_size=1,
        steps=1_000_000,
        optimizer="rmsprop",
        decay=False,
        clip=10.0,
        evaluations=100,
    )
    register(
        f"ntm-{_task}-paper",
        algorithm,
        replace(
            _paper,
            sizes={"heads": _ff[0], "hidden_size": _ff[1]},
            learning_rate=_ff[2],
            compiled=True,
            checkpoint=f"ntm-{_task}-paper",
        ),
        title=f"The paper's run of {_task}, feed-forward controller",
        minutes="a day or two on one GPU",
    )
    register(
        f"ntm-{_task}-lstm-controller-paper",
        algorithm,
        replace(
            _paper,
            learning_rate=_lstm[3],
            compiled=True,
            sizes={
                "controller": "lstm",
                "heads": _lstm[0],
                "hidden_size": _lstm[1],
                "num_layers": _lstm[2],
            },
        ),
        title=f"The paper's run of {_task}, LSTM as controller",
        minutes="a day or two on one GPU",
    )
    register(
        f"lstm-{_task}-paper",
        algorithm,
        replace(_paper, model="lstm", sizes={"hidden_size": _alone[0]}, learning_rate=_alone[1]),
        title=f"The paper's run of {_task}, three layers of LSTM",
        minutes="3 hours on one GPU",
    )
