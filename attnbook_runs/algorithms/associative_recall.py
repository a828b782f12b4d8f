"""Associative recall of many pairs by a cache that grows, and by states of fixed size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from attnbook.mechanisms import CausalConvolution, LinearAttention, PreNorm, RMSNorm, unit_features
from attnbook.models import TransformerLM, paper_parts
from attnbook.modules import device_of
from attnbook.tasks import TOKEN_IDS
from attnbook.tasks.algorithms.multi_query_recall import VOCABULARY_SIZE, RecallBatches, draw
from attnbook.tasks.sequences.vocabulary import PAD
from attnbook.validate import check_choice

from ..common import select, train, training_figures
from ..registry import register

__all__ = ["KINDS", "Neighbour", "make_model", "recall_loss", "recalled", "state_size"]

_ALIKE: dict[str, Any] = {"feature_map": unit_features, "normalise": False}
KINDS: dict[str, dict[str, Any] | None] = {
    "softmax": None,
    "sum": _ALIKE,
    "gated": {**_ALIKE, "decay": "scalar"},
    "delta": {**_ALIKE, "delta": True},
}
"""The attention of a model: that of the Transformer, or the options of a
:class:`~attnbook.mechanisms.recurrent.multi_head.LinearAttention`; they differ in how the state is
written alone."""


class Neighbour(nn.Module):
    """In place of positions: ``x_t + W_0 x_{t−1} + W_1 x_t + b``, so that a value knows its key.

    No attention has to find the token before its own; what is left to it is to recall. Whole texts
    only: there is no offset.

    Shapes: ``(batch, n, d_model)`` → the same.
    """

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.convolution = CausalConvolution(d_model, d_model, kernel_size=2)

    def forward(self, x: Tensor, offset: int | Tensor = 0) -> Tensor:
        return x + self.convolution(x)


def make_model(
    kind: str, *, d_model: int = 32, num_heads: int = 2, num_layers: int = 2
) -> TransformerLM:
    """A decoder-only model with the attention of one of :data:`KINDS`; the rest is the same."""
    options = KINDS[check_choice("kind", kind, KINDS)]
    parts = paper_parts(
        d_model, num_heads, 2 * d_model, dropout=0.0, residual=PreNorm, norm=RMSNorm, bias=False
    )
    parts = replace(parts, positions=partial(Neighbour, d_model))
    if options is not None:
        attention = partial(LinearAttention, d_model, num_heads, **options)
        parts = replace(parts, attention=attention)
    return TransformerLM(VOCABULARY_SIZE, parts, num_layers=num_layers, token_ids=TOKEN_IDS)


def state_size(kind: str, *, d_model: int, num_heads: int, num_layers: int, length: int) -> int:
    """How many numbers a model keeps of a text of that length: keys and values, or states."""
    if KINDS[check_choice("kind", kind, KINDS)] is None:
        return num_layers * 2 * length * d_model
    return num_layers * d_model * (d_model // num_heads)


def recall_loss(model: nn.Module, batch) -> tuple[Tensor, Tensor]:
    """Cross-entropy of the values that are asked: the sum in nats, and their number."""
    target = batch.target.to(device_of(model))
    asked = target != PAD
    logits = model(batch.tokens.to(target.device)).logits[asked]
    return F.cross_entropy(logits.float(), target[asked], reduction="sum"), asked.sum()


@torch.no_grad()
def recalled(model: nn.Module, pairs: int, *, told: int = 1, count: int = 200) -> float:
    """The share of values recalled in new lists of so many pairs."""
    batch = draw(pairs, count, torch.Generator().manual_seed(10**6), told=told)
    predicted = model(batch.tokens.to(device_of(model))).logits.argmax(-1).cpu()
    return float((predicted == batch.target)[batch.target != PAD].double().mean())


@dataclass(frozen=True)
class Settings:
    kind: str = "softmax"  # one of KINDS
    pairs: Sequence[int] = (4, 8, 16, 32, 64)  # numbers of pairs, each as likely in a batch
    told: int = 1  # how often each key is given a value, of which the last counts
    d_model: int = 32  # width of the model
    num_heads: int = 2  # attention heads
    num_layers: int = 2  # layers
    batch_size: int = 32  # lists per step
    steps: int = 1200  # training steps
    learning_rate: float = 5e-3  # peak learning rate
    optimizer: str = "adamw"  # adam or adamw
    test: int = 200  # lists of each number of pairs


def associative_recall(settings: Settings, *, seed: int = 0, device: str = "cpu") -> dict:
    """Train one kind of attention on lists of all sizes; the share of values recalled, by the
    number of pairs.
    """
    sizes = select(settings, "d_model", "num_heads", "num_layers")
    torch.manual_seed(seed)
    model = make_model(settings.kind, **sizes)
    history = train(
        model,
        RecallBatches(settings.pairs, settings.batch_size, 1000 + seed, told=settings.told),
        recall_loss,
        settings,
        seed=seed,
        device=device,
        evaluate=lambda m: recalled(m, max(settings.pairs), told=settings.told, count=50),
        evaluations=8,
    )
    model.eval()
    rows = []
    for pairs in settings.pairs:
        share = recalled(model, pairs, told=settings.told, count=settings.test)
        length = (2 * settings.told + 1) * pairs
        kept = state_size(settings.kind, **sizes, length=length)
        rows.append({"pairs": pairs, "recalled": round(share, 4), "numbers_kept": kept})
    course = [[step, round(share, 4)] for step, share in history.evaluations]
    return {"rows": rows, "course": course, **training_figures(model, history)}


for _kind in KINDS:
    register(
        f"associative-recall-{_kind}",
        associative_recall,
        Settings(kind=_kind),
        title=f"Recall of 4 to 64 pairs: two layers of {_kind} attention",
        minutes="1 minute on one CPU core",
    )
for _kind in ("softmax", "sum", "delta"):
    register(
        f"associative-recall-told-again-{_kind}",
        associative_recall,
        Settings(kind=_kind, told=2, pairs=(4, 8, 16, 32)),
        title=f"Recall of the last value of each key, told twice: {_kind} attention",
        minutes="1 minute on one CPU core",
    )
