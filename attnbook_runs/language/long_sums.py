"""Sums and products over long sequences by feed-forward attention."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from attnbook.models import FeedForwardAttention
from attnbook.models.documents.feed_forward_attention import Regressed
from attnbook.models.rnn.common import make_recurrent, run_packed
from attnbook.modules import device_of
from attnbook.tasks.algorithms import adding_problem

from ..common import rounded, train
from ..registry import register_family

__all__ = ["LastState", "long_sums", "most_weight", "share_solved", "squared_loss"]


class LastState(nn.Module):
    """An LSTM that answers from its last state: the recurrent baseline of the long sums."""

    def __init__(self, d_input: int = 2, hidden_size: int = 100) -> None:
        super().__init__()
        self.network = make_recurrent("lstm", d_input, hidden_size)
        self.readout = nn.Linear(hidden_size, 1)
        nn.init.constant_(self.readout.bias, 0.5)

    def forward(self, inputs: Tensor, lengths: Tensor) -> Regressed:
        _, last = run_packed(self.network, inputs, lengths)
        return Regressed(self.readout(last[0][:, -1])[:, 0], inputs.new_zeros(inputs.shape[:2]))


def squared_loss(model, batch) -> tuple[Tensor, int]:
    """Squared error of the answers to a
    :class:`attnbook.tasks.algorithms.adding_problem.MarkedNumbers`, for ``fit``.
    """
    output = model(batch.inputs, batch.lengths).output
    return (output - batch.target).square().sum(), len(batch.target)


@torch.no_grad()
def share_solved(model, batch, rows: int = 100) -> float:
    """The share of sequences whose answer is off by less than 0.04."""
    device = device_of(model)
    outputs = [
        model(inputs.to(device), lengths.to(device)).output.cpu()
        for inputs, lengths in zip(batch.inputs.split(rows), batch.lengths.split(rows))
    ]
    error = (torch.cat(outputs) - batch.target).abs()
    return int((error < adding_problem.TOLERANCE).sum()) / len(batch.target)


@dataclass(frozen=True)
class SumSettings:
    kind: str = "adding"  # adding or multiplication
    lengths: tuple[int, ...] = (100, 1000)  # steps of the sequences
    poolings: tuple[str, ...] = ("attention", "mean")  # poolings to compare
    hidden_size: int = 100  # units of the recurrent layers
    batch_size: int = 100  # examples per step
    steps: int = 1000  # training steps
    learning_rate: float = 0.01  # peak learning rate
    test: int = 1000  # test sequences
    micro_batch: int | None = None  # sequences per forward pass; None: the batch


def long_sums(settings: SumSettings, *, seed: int = 0, device: str = "cpu") -> dict:
    """Train feed-forward attention anew at each length; the share solved as training goes on, and
    the weight of the two marked steps. Length, batch and size are the paper's; steps and learning
    rate are ours, fixed beforehand."""
    rows, at_a_time = [], settings.micro_batch or 100
    for length, pooling in itertools.product(settings.lengths, settings.poolings):
        test = adding_problem.draw(
            settings.kind, length, settings.test, torch.Generator().manual_seed(10**6 + seed)
        )
        torch.manual_seed(seed)
        model = FeedForwardAttention(2, settings.hidden_size, pooling=pooling)
        history = train(
            model,
            adding_problem.LongMemoryBatches(settings.kind, length, settings.batch_size, seed),
            squared_loss,
            settings,
            seed=seed,
            device=device,
            evaluate=lambda m, test=test: share_solved(m, test, at_a_time),
            evaluations=10,
        )
        with torch.no_grad():
            inputs, lengths, _, marked = (part[:100].to(device) for part in test)
            weight = model(inputs, lengths).weights.gather(1, marked).sum(1).mean()
        rows.append(
            {
                "length": length,
                "pooling": pooling,
                "solved": round(history.evaluations[-1][1], 4),
                "course": rounded(history.evaluations),
                "weight_on_marked": round(float(weight), 5),
                "most_possible": round(most_weight(1.05 * length), 5),
                "training_seconds": round(history.seconds, 1),
            }
        )
    return {"rows": rows, "tolerance": adding_problem.TOLERANCE, "test": settings.test}


def most_weight(length: float) -> float:
    """The largest sum of the weights of two of ``length`` steps when every score lies in [−1, 1]:
    ``2e / (2e + (T − 2)/e)``.
    """
    return 2 * math.e / (2 * math.e + (length - 2) / math.e)


_LONG = dict(poolings=("attention",), micro_batch=1)
_same = "The same recipe at"
register_family(
    long_sums,
    SumSettings(),
    (
        "feed-forward-attention-adding",
        "Feed-forward attention and its mean on adding, 100 and 1000 steps",
        "10 minutes on one CPU core",
        {},
    ),
    *(
        (
            f"feed-forward-attention-{_kind}-long",
            f"{_same} 5000 and 10,000 steps, attention only",
            "20 minutes on one CPU core",
            dict(kind=_kind, lengths=(5000, 10000), **_LONG),
        )
        for _kind in ("adding", "multiplication")
    ),
    (
        "feed-forward-attention-adding-10000",
        f"{_same} 10,000 steps with five times as many updates, attention only",
        "70 minutes on one CPU core",
        dict(lengths=(10_000,), steps=5000, **_LONG),
    ),
    (
        "feed-forward-attention-adding-paper",
        "Feed-forward attention and its mean on adding, 50 to 10,000 steps, as many updates as in "
        "the paper",
        "a day on one GPU",
        dict(lengths=(50, 100, 500, 1000, 5000, 10000), steps=100_000, learning_rate=3e-3),
    ),
)
