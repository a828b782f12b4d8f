"""What the parts of a small Transformer are worth: rows of Vaswani's table 3, and the largest
distance of Shaw's relative positions.
"""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from ..registry import register
from .transformer import Settings, multi30k

__all__ = ["BASE", "DISTANCES", "ROWS", "Row", "ablation"]

BASE = Settings(
    pieces=2600,
    train_pairs=10_000,
    d_model=64,
    d_feed_forward=256,
    num_layers=2,
    dropout=0.1,
    batch_size=64,
    steps=3000,
    learning_rate=4.4e-3,
    warmup=400,
    averaged=8,
    save_every=50,
)
"""The model that the rows vary: small enough for about five minutes on one CPU core. It reads every
sentence 19 times, about as often as the paper's (100,000 steps of 25,000 words of 4.5 million
pairs); on all of Multi30k it would be seven times."""


class Row(NamedTuple):
    """A row of the table.

    Attributes:
        label: What it is, with our sizes.
        changes: Settings that differ from :data:`BASE`.
        paper: Row in the paper.
        perplexity: Of the paper, per piece, on newstest2013.
        bleu: Of the paper, on newstest2013.
    """

    label: str
    changes: dict[str, Any]
    paper: str
    perplexity: float
    bleu: float


ROWS: dict[str, Row] = {
    "base": Row("4 heads of 16, 2 layers", {}, "base", 4.92, 25.8),
    "heads-1": Row("1 head of 64", {"num_heads": 1}, "(A) h = 1", 5.29, 24.9),
    "heads-16": Row("16 heads of 4", {"num_heads": 16}, "(A) h = 32", 5.01, 25.4),
    "key-4": Row("keys of 4", {"d_key": 4}, "(B) d_k = 16", 5.16, 25.1),
    "layers-1": Row("1 layer", {"num_layers": 1}, "(C) N = 2", 6.11, 23.7),
    "layers-4": Row("4 layers", {"num_layers": 4}, "(C) N = 8", 4.88, 25.5),
    "width-32": Row("width 32", {"d_model": 32}, "(C) d_model = 256", 5.75, 24.5),
    "dropout-0": Row("no dropout", {"dropout": 0.0}, "(D) P_drop = 0", 5.77, 24.6),
    "dropout-0.2": Row("dropout 0.2", {"dropout": 0.2}, "(D) P_drop = 0.2", 4.95, 25.5),
    "smoothing-0": Row("no label smoothing", {"label_smoothing": 0.0}, "(D) ε = 0", 4.67, 25.3),
    "smoothing-0.2": Row(
        "label smoothing 0.2", {"label_smoothing": 0.2}, "(D) ε = 0.2", 5.47, 25.7
    ),
    "learned": Row("learned positions", {"positions": "learned"}, "(E)", 4.92, 25.7),
}
"""Name → row. Source: Vaswani et al. 2017, table 3."""

DISTANCES: dict[int, float] = {0: 12.5, 1: 25.5, 2: 25.8, 4: 25.9, 16: 25.8}
"""Largest distance k → BLEU of the paper. With k = 0 the model has no positions at all, but for the
mask of the decoder. Source: Shaw, Uszkoreit and Vaswani 2018, table 2."""


def ablation(
    settings: Settings, *, seed: int = 0, device: str = "cpu", folder: Path = Path("results")
) -> dict:
    """Train one row on Multi30k; perplexity per piece on the validation part, BLEU on the test of
    2016.
    """
    figures = multi30k(settings, seed=seed, device=device, folder=folder)
    return {**figures, "perplexity_valid": round(math.exp(figures["validation_loss_averaged"]), 3)}


for _name, _row in ROWS.items():
    register(
        f"transformer-ablation-{_name}",
        ablation,
        replace(BASE, **_row.changes),
        title=f"A small Transformer on a third of Multi30k English to German, {_row.label}",
        minutes="6 minutes on one CPU core",
        needs="multi30k",
    )
for _name in ("base", "layers-4"):
    register(
        f"transformer-ablation-{_name}-long",
        ablation,
        replace(BASE, **ROWS[_name].changes, steps=3 * BASE.steps),
        title=f"The row of {ROWS[_name].label} with three times the updates",
        minutes="20 minutes on one CPU core",
        needs="multi30k",
    )
for _distance in DISTANCES:
    register(
        f"transformer-relative-distance-{_distance}",
        ablation,
        replace(BASE, positions="relative", max_distance=_distance),
        title=f"The same with relative positions up to a distance of {_distance}",
        minutes="6 minutes on one CPU core",
        needs="multi30k",
    )
