"""Linformer beside full attention at equal training: texts with gaps that need one look, or an
average.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

from ...mechanisms import LinformerAttention, PreNorm
from ...models import TransformerEncoderModel, paper_parts
from ...tasks.algorithms.gaps import FIRST, VALUES, GapBatches, best_loss, vocabulary_size
from ...tasks.sequences.vocabulary import PAD
from ...training import cosine_decay, fit
from ..registry import register

__all__ = [
    "PairEmbedding",
    "compared",
    "gap_loss",
    "gaps_filled",
    "make_model",
    "spectrum",
    "train",
]


class PairEmbedding(nn.Module):
    """A name and its value as the sum of two vectors.

    Shapes: ids ``(batch, n)`` of look-ups → ``(batch, n, d_model)``.
    """

    def __init__(self, size: int, d_model: int) -> None:
        super().__init__()
        self.name, self.value = (
            nn.Embedding(-(-(size - FIRST) // (VALUES + 1)), d_model),
            nn.Embedding(VALUES + 1, d_model),
        )

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
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
    """An encoder-only model with full attention (``rank`` None) or with Linformer's to so many
    mixtures.
    """
    parts = paper_parts(d_model, num_heads, 4 * d_model, dropout=0.0, residual=PreNorm)
    if kind == "look-up":
        parts = replace(parts, embedding=lambda size: PairEmbedding(size, d_model))
    if rank is not None:
        parts = replace(
            parts,
            attention=partial(LinformerAttention, d_model, num_heads, length=length, rank=rank),
        )
    return TransformerEncoderModel(
        vocabulary_size(kind, length), parts, num_layers=num_layers, tie=False
    )


def gap_loss(model, batch):
    """Cross-entropy of what stood in the gaps: the sum in nats, and how many there are."""
    device = next(model.parameters()).device
    target = batch.target.to(device)
    asked = target != PAD
    logits = model(batch.tokens.to(device)).logits[asked]
    return F.cross_entropy(logits.float(), target[asked], reduction="sum"), asked.sum()


def gaps_filled(model, kind: str, length: int, *, count: int = 500, seed: int = 1) -> dict:
    """On new texts: the loss a gap, the least possible one, and the share of gaps that are
    filled as they were.
    """
    batch = GapBatches(kind, length, count, seed=seed).batch(0)
    model.eval()
    with torch.no_grad():
        total, gaps = gap_loss(model, batch)
        device = next(model.parameters()).device
        said = model(batch.tokens.to(device)).logits.argmax(-1).cpu()
    asked = batch.target != PAD
    return {
        "loss": round(float(total / gaps), 4),
        "best": round(best_loss(kind, batch), 4),
        "right": round(float((said == batch.target)[asked].double().mean()), 4),
    }


def train(
    model,
    kind: str,
    length: int,
    *,
    steps: int,
    batch_size: int = 32,
    learning_rate: float = 6e-3,
    seed: int = 0,
    device: str | torch.device = "cpu",
):
    """Train in place; returns the history."""
    return fit(
        model,
        GapBatches(kind, length, batch_size, seed=1000 + seed),
        gap_loss,
        steps=steps,
        learning_rate=learning_rate,
        schedule=cosine_decay(steps, 20),
        seed=seed,
        device=device,
    )


def spectrum(model, kind: str, length: int, *, count: int = 50, seed: int = 2) -> list[list[float]]:
    """Singular values of the m×n weights of full attention, divided by the sum, largest first: a
    list a block, mean of heads and texts.
    """
    batch = GapBatches(kind, length, count, seed=seed).batch(0)
    with torch.no_grad():
        weights = model(batch.tokens.to(next(model.parameters()).device), need_weights=True).weights
    found = []
    for w in weights:
        values = torch.linalg.svdvals(w.double())
        found.append((values / values.sum(-1, keepdim=True)).mean((0, 1)).tolist())
    return found


@dataclass(frozen=True)
class Settings:
    kinds: Sequence[str] = ("look-up", "topic")  # tasks to compare
    # ranks of the projection; None: full attention
    ranks: Sequence[int | None] = (None, 4, 8, 16, 32, 64)
    seeds: int = 3  # seeds to average over
    length: int = 64  # length of the sequences
    steps: int = 400  # training steps


def compared(
    settings: Settings, *, seed: int = 0, device: str = "cpu", folder: Path = Path("results")
) -> dict:
    """Train every rank on every kind of texts from several seeds, on equally many texts."""
    rows = []
    for kind in settings.kinds:
        for rank in settings.ranks:
            found = []
            for offset in range(settings.seeds):
                torch.manual_seed(seed + offset)
                model = make_model(kind, rank, length=settings.length)
                history = train(
                    model,
                    kind,
                    settings.length,
                    steps=settings.steps,
                    seed=seed + offset,
                    device=device,
                )
                found.append(
                    {
                        **gaps_filled(model, kind, settings.length),
                        "training_seconds": round(history.seconds, 1),
                    }
                )
            rows.append(
                {
                    "kind": kind,
                    "rank": rank,
                    "seeds": found,
                    "parameters": sum(p.numel() for p in model.parameters()),
                }
            )
    return {"rows": rows, "length": settings.length}


register(
    "linformer-compared",
    compared,
    Settings(),
    title="Linformer beside full attention on look-ups and topics, 3 seeds",
    minutes="30 minutes on one CPU core",
)
