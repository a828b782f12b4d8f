"""The neural Turing machine and a stacked LSTM on the five tasks: cost in bits, errors beyond the
trained lengths, and what the heads do.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from attnbook.models import NTM
from attnbook.models.rnn.common import make_recurrent
from attnbook.modules import device_of
from attnbook.tasks.algorithms import ntm_tasks
from attnbook.tasks.algorithms.ntm_tasks import AlgorithmBatches
from attnbook.training import save_model
from attnbook.training.losses.bits import bit_loss, score_bits
from attnbook.training.optim.recurrent_gradients import clipped_backward
from attnbook.validate import check_choice, require

from ..common import select, train, training_figures
from ..registry import register, register_family
from .rmsprop import GravesRMSProp

__all__ = ["Logits", "StackedLSTM", "algorithm", "finite", "make_model", "read_write_match"]


class Logits(NamedTuple):
    """``logits (batch, T, d_output)``."""

    logits: Tensor


class StackedLSTM(nn.Module):
    """Layers of LSTM with a linear readout at every step: the baseline of the paper, 3 layers of
    128 to 512 units.

    On copy, 3 × 256 units have 1,328,136 parameters here; the paper counts 1,352,969 and does not
    say how the layers are connected.

    Shapes:
        inputs ``(batch, T, d_input)`` → logits ``(batch, T, d_output)``.
    """

    def __init__(
        self, d_input: int, d_output: int, *, hidden_size: int = 256, num_layers: int = 3
    ) -> None:
        super().__init__()
        self.network = make_recurrent("lstm", d_input, hidden_size, num_layers=num_layers)
        self.readout = nn.Linear(hidden_size, d_output)

    def forward(self, inputs: Tensor) -> Logits:
        return Logits(self.readout(self.network(inputs)[0]))


def make_model(model: str, d_input: int, d_output: int, **sizes: Any) -> NTM | StackedLSTM:
    """``"ntm"`` or ``"lstm"``; sizes as in :class:`attnbook.NTM` and :class:`StackedLSTM`, and
    ``heads`` for equally many read and write heads."""
    if check_choice("model", model, ("ntm", "lstm")) == "lstm":
        return StackedLSTM(d_input, d_output, **sizes)
    heads = sizes.pop("heads", 1)
    return NTM(d_input, d_output, **{"read_heads": heads, "write_heads": heads, **sizes})


@torch.no_grad()
def read_write_match(net: NTM, batch: ntm_tasks.AlgorithmBatch) -> dict[str, float]:
    """How a machine with one read and one write head copies: where its heads peak, on a batch of
    the copy task.

    Returns:
        same: How often, at the step that outputs vector t, the read head peaks at the slot where
            the write head peaked at the input of vector t.
        ahead: The same one step earlier: what a head reads reaches the controller a step later, so
            this is as good.
        forward: How often the write head peaks one slot further (modulo N) for a vector than for
            the one before.
        backward: How often one slot back.
        weight: The mean of the largest weight: of the write head at the inputs, of the read head at
            the outputs.
    """
    require(
        net.read_heads == net.write_heads == 1,
        f"net must have one read head and one write head, got {net.read_heads} and "
        f"{net.write_heads}",
    )
    weights = net(batch.inputs.to(device_of(net)), need_weights=True).weights.cpu()
    totals: dict[str, float] = dict.fromkeys(("same", "ahead", "forward", "backward", "weight"), 0)
    vectors = moves = 0
    # rows of different lengths, and a few dozen of them
    for row, n in zip(weights, batch.mask.sum(1).tolist()):
        written, read = row[:n, 1].argmax(-1), row[:, 0].argmax(-1)
        totals["same"] += int((read[n + 1 : 2 * n + 1] == written).sum())
        totals["ahead"] += int((read[n : 2 * n] == written).sum())
        for name, shift in (("forward", 1), ("backward", -1)):
            totals[name] += int((written[1:] == (written[:-1] + shift) % net.slots).sum())
        largest = row[:n, 1].amax(-1).sum() + row[n + 1 : 2 * n + 1, 0].amax(-1).sum()
        totals["weight"] += float(largest) / 2
        vectors, moves = vectors + n, moves + n - 1
    return {
        name: value / max(1, moves if "ward" in name else vectors) for name, value in totals.items()
    }


def nat_loss(model: NTM | StackedLSTM, batch: ntm_tasks.AlgorithmBatch) -> tuple:
    """:func:`attnbook.training.losses.bits.bit_loss` in nats, the unit of the paper's gradients:
    the constants of RMSProp depend on it.
    """
    total, count = bit_loss(model, batch)
    return total * math.log(2), count


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
    reduction: str = "mean"  # of the loss: mean over bits, or their sum over a sequence
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
    """Train a model on a task, and measure it on other sizes of the task too.

    The bits of the curve are those of new training sequences, so every one is a test. A loss or a
    gradient that is not finite ends the run with an error
    (:class:`attnbook.training.NonFiniteError`): a record means that there was none.
    """
    adam = check_choice("optimizer", settings.optimizer, ("adam", "rmsprop")) == "adam"
    torch.manual_seed(seed)
    model = make_model(
        settings.model, *ntm_tasks.widths(settings.task, **settings.train), **settings.sizes
    )
    machine = model if isinstance(model, NTM) else None
    if settings.compiled and machine:
        machine.cell = torch.compile(cast(nn.Module, machine.cell), fullgraph=True)
    generators = (torch.Generator().manual_seed(10**6 + seed) for _ in settings.tests)
    variants = [{**settings.train, **test} for test in settings.tests]
    batches = [
        ntm_tasks.draw(settings.task, settings.test_sequences, generator, **variant)
        for generator, variant in zip(generators, variants)
    ]
    loss, nats = (bit_loss, 1.0) if adam else (nat_loss, math.log(2))
    limit = settings.backward_clip if machine else None
    with clipped_backward(model, limit) if limit else nullcontext():
        history = train(
            model,
            AlgorithmBatches(
                settings.task, settings.batch_size, seed, grow=settings.grow, **settings.train
            ),
            loss,
            settings,
            seed=seed,
            device=device,
            warmup=min(20, settings.steps),
            clip_norm=settings.clip if adam else None,
            optimizer="adam"
            if adam
            else lambda p: GravesRMSProp(p, lr=settings.learning_rate, clip=settings.clip),
        )
    figures = {
        "sequences": settings.steps * settings.batch_size,
        "curve": [
            [int(step) * settings.batch_size, round(value / nats, 5)]
            for step, value in _means(history.losses, settings.evaluations)
        ],
        "tests": [
            {**test, **{name: round(bits, 5) for name, bits in score_bits(model, batch).items()}}
            for test, batch in zip(settings.tests, batches)
        ],
        "largest_gradient": round(max(history.grad_norms), 3),
        **training_figures(model, history),
    }
    if settings.task == "n-grams":
        figures["optimal"] = [
            round(_optimal(batch, variant), 5) for batch, variant in zip(batches, variants)
        ]
    if settings.task == "copy" and machine and machine.read_heads == machine.write_heads == 1:
        match = read_write_match(machine, batches[0])
        figures["heads"] = {name: round(share, 4) for name, share in match.items()}
    if settings.checkpoint:
        save_model(model, folder / f"{settings.checkpoint}.seed{seed}.safetensors")
    return figures


def _means(losses: Sequence[float], parts: int) -> list[tuple[int, float]]:
    """The mean loss of each of so many equal parts of the run, with its last step."""
    edges = [round(k * len(losses) / parts) for k in range(parts + 1)]
    return [(b, sum(losses[a:b]) / (b - a)) for a, b in zip(edges, edges[1:]) if b > a]


def _optimal(batch, settings) -> float:
    """The cost of the sequences, in bits, under the optimal predictor."""
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


def finite(settings: FiniteSettings, *, seed: int = 0, device: str = "cpu") -> dict:
    """Short runs of copy, lengths 1 to 10, with every combination of the settings, over several
    seeds: are all losses and gradients finite? That the models learn is seen in the mean cost of
    the first and of the last tenth of the runs.
    """
    fixed = select(settings, "slots", "slot_width", "hidden_size")
    rows = []
    for *values, rate in itertools.product(*settings.settings.values(), settings.learning_rates):
        sizes = dict(zip(settings.settings, values))
        short = replace(
            COPY,
            sizes={**sizes, **fixed},
            tests=({"length": 10},),
            test_sequences=10,
            learning_rate=rate,
            evaluations=10,
            **select(settings, "batch_size", "steps"),
        )
        runs = [algorithm(short, seed=seed + k, device=device) for k in range(settings.seeds)]
        rows.append(
            {
                **sizes,
                "learning_rate": rate,
                "runs": len(runs),
                "largest_gradient": max(run["largest_gradient"] for run in runs),
                **{
                    name: round(sum(run["curve"][at][1] for run in runs) / len(runs), 4)
                    for name, at in (("first", 0), ("last", -1))
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
_controller = "Dynamic n-grams with a controller that has a state, at a rate of"
register_family(
    algorithm,
    replace(N_GRAMS, sizes={"slots": 64}, learning_rate=5e-3, backward_clip=3e-3, compiled=True),
    (
        "ntm-n-grams-long",
        "Dynamic n-grams from three times as many sequences",
        "30 minutes on one CPU core",
        dict(steps=15_000, grow=6000, checkpoint="ntm-n-grams-long"),
    ),
    # Is it the controller that cannot keep the last five bits, not the memory that cannot count?
    (
        "ntm-n-grams-lstm-controller",
        f"{_controller} 0.005",
        "20 minutes on one CPU core",
        dict(sizes={"slots": 64, "controller": "lstm"}),
    ),
    (
        "ntm-n-grams-lstm-controller-slow",
        f"{_controller} 0.001",
        "20 minutes on one CPU core",
        dict(sizes={"slots": 64, "controller": "lstm"}, learning_rate=1e-3),
    ),
)
# Or is it the rate at which the LSTM was trained?
register(
    "lstm-n-grams-fast",
    algorithm,
    replace(N_GRAMS, learning_rate=5e-3, model="lstm", sizes={"hidden_size": 128}),
    title="Dynamic n-grams by three layers of LSTM, at the rate of the machines",
    minutes="15 minutes on one CPU core",
)
# The settings of the paper: one sequence per step, its loss summed over the sequence, RMSProp,
# feed-forward controller of 100 units.
PAPER = AlgorithmSettings(
    batch_size=1,
    steps=1_000_000,
    optimizer="rmsprop",
    decay=False,
    clip=10.0,
    reduction="sequence",
    evaluations=100,
    sizes={"heads": 1, "hidden_size": 100},
    compiled=True,
)
for _task, _rate, _tests in (
    ("copy", 1e-4, [{"length": _n} for _n in (10, 20, 30, 50, 80, 120)]),
    ("n-grams", 3e-5, [{}]),
):
    _name = f"ntm-{_task}-paper"
    register(
        _name,
        algorithm,
        replace(PAPER, task=_task, tests=_tests, learning_rate=_rate, checkpoint=_name),
        title=f"The paper's run of {_task}, feed-forward controller",
        minutes="a day or two on one GPU",
    )
