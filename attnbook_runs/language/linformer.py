"""Linformer beside full attention at equal training: texts whose gaps need one position, or an
average.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from attnbook.mechanisms import LinformerAttention, PreNorm
from attnbook.models import TransformerEncoderModel, paper_parts
from attnbook.modules import device_of
from attnbook.tasks import TOKEN_IDS
from attnbook.tasks.algorithms.gaps import FIRST, VALUES, GapBatches, best_loss, vocabulary_size
from attnbook.tasks.sequences.vocabulary import PAD

from ..common import count_parameters, train
from ..registry import register

__all__ = ["PairEmbedding", "compared", "gap_loss", "gaps_filled", "make_model", "spectrum"]


class PairEmbedding(nn.Module):
    """A name and its value as the sum of two vectors.

    Shapes: ids ``(batch, n)`` of look-ups → ``(batch, n, d_model)``.
    """

    def __init__(self, size: int, d_model: int) -> None:
        super().__init__()
        self.name = nn.Embedding(-(-(size - FIRST) // (VALUES + 1)), d_model)
        self.value = nn.Embedding(VALUES + 1, d_model)

    def forward(self, tokens: Tensor) -> Tensor:
        tokens = tokens - FIRST
        return self.name(tokens // (VALUES + 1)) + self.value(tokens % (VALUES + 1))


def make_model(
    kind: str,
    rank: int | None,
    *,
    length: int = 64,
    d_model: int = 32,
    num_heads: int = 2,
    num_layers: int = 2,
) -> TransformerEncoderModel:
    """An encoder-only model with full attention, or with Linformer's of some rank."""
    parts = paper_parts(d_model, num_heads, 4 * d_model, dropout=0.0, residual=PreNorm)
    if kind == "look-up":
        parts = replace(parts, embedding=lambda size: PairEmbedding(size, d_model))
    if rank is not None:
        parts = replace(
            parts,
            attention=partial(LinformerAttention, d_model, num_heads, length=length, rank=rank),
        )
    return TransformerEncoderModel(
        vocabulary_size(kind, length), parts, num_layers=num_layers, tie=False, token_ids=TOKEN_IDS
    )


def gap_loss(model: nn.Module, batch) -> tuple[Tensor, Tensor]:
    """Cross-entropy of the original tokens of the gaps: the sum in nats, and their number."""
    device = device_of(model)
    target = batch.target.to(device)
    gaps = target != PAD
    logits = model(batch.tokens.to(device)).logits[gaps]
    return F.cross_entropy(logits.float(), target[gaps], reduction="sum"), gaps.sum()


@torch.no_grad()
def gaps_filled(
    model: nn.Module, kind: str, length: int, *, count: int = 500, seed: int = 1
) -> dict:
    """On new texts: the loss per gap, the least possible one, and the share of right tokens."""
    batch = GapBatches(kind, length, count, seed=seed).batch(0)
    model.eval()
    total, gaps = gap_loss(model, batch)
    predicted = model(batch.tokens.to(device_of(model))).logits.argmax(-1).cpu()
    right = (predicted == batch.target)[batch.target != PAD]
    return {
        "loss": round(float(total / gaps), 4),
        "best": round(best_loss(kind, batch), 4),
        "right": round(float(right.double().mean()), 4),
    }


@torch.no_grad()
def spectrum(
    model: nn.Module, kind: str, length: int, *, count: int = 50, seed: int = 2
) -> list[list[float]]:
    """Singular values of the m×n weights of full attention, divided by their sum, largest first:
    one list per block, the mean over heads and texts.
    """
    batch = GapBatches(kind, length, count, seed=seed).batch(0)
    layers = model(batch.tokens.to(device_of(model)), need_weights=True).weights
    values = [torch.linalg.svdvals(weights.double()) for weights in layers]
    return [(v / v.sum(-1, keepdim=True)).mean((0, 1)).tolist() for v in values]


@dataclass(frozen=True)
class Settings:
    kinds: Sequence[str] = ("look-up", "topic")  # tasks to compare
    # ranks of the projection; None: full attention
    ranks: Sequence[int | None] = (None, 4, 8, 16, 32, 64)
    seeds: int = 3  # seeds to average over
    length: int = 64  # length of the sequences
    steps: int = 400  # training steps


def compared(settings: Settings, *, seed: int = 0, device: str = "cpu") -> dict:
    """Train every rank on every kind of texts from several seeds, on equally many texts."""
    rows = []
    for kind, rank in itertools.product(settings.kinds, settings.ranks):
        runs = []
        for run in range(seed, seed + settings.seeds):
            torch.manual_seed(run)
            model = make_model(kind, rank, length=settings.length)
            batches = GapBatches(kind, settings.length, 32, seed=1000 + run)
            history = train(
                model, batches, gap_loss, settings, seed=run, device=device, learning_rate=6e-3
            )
            scores = gaps_filled(model, kind, settings.length)
            runs.append({**scores, "training_seconds": round(history.seconds, 1)})
        parameters = count_parameters(make_model(kind, rank, length=settings.length))
        rows.append({"kind": kind, "rank": rank, "seeds": runs, "parameters": parameters})
    return {"rows": rows, "length": settings.length}


register(
    "linformer-compared",
    compared,
    Settings(),
    title="Linformer beside full attention on look-ups and topics, 3 seeds",
    minutes="30 minutes on one CPU core",
)
