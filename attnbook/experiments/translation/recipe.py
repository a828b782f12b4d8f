"""The recipe of the Transformer, part by part: the same run with one part changed at a time."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from ...models.transformer.encoder_decoder import Transformer
from ...models.transformer.parts import paper_parts
from ...tasks import SequenceBatches, collate, make_task
from ...training import average_checkpoints, exact_match, fit, greedy, inverse_sqrt, token_loss

__all__ = ["CHANGES", "Recipe", "measure", "recipe", "without_rise"]


@dataclass(frozen=True)
class Recipe:
    """How one run is trained; as it stands, the recipe of the paper with a shorter warm-up."""

    betas: tuple[float, float] = (0.9, 0.98)
    eps: float = 1e-9
    rise: bool = True
    label_smoothing: float = 0.1
    dropout: float = 0.1


CHANGES: dict[str, Recipe] = {
    "the whole recipe": Recipe(),
    "Adam as PyTorch sets it": Recipe(betas=(0.9, 0.999), eps=1e-8),
    "no warm-up": Recipe(rise=False),
    "no label smoothing": Recipe(label_smoothing=0.0),
    "no dropout": Recipe(dropout=0.0),
    "neither smoothing nor dropout": Recipe(label_smoothing=0.0, dropout=0.0),
}
"""The runs by what is changed."""


def without_rise(warmup_steps: int) -> Callable[[int], float]:
    """The schedule of the paper without its rise: factor(k) = min(1, √(w / (k + 1))), as large
    as it gets from the first step.
    """
    return lambda step: min(1.0, math.sqrt(warmup_steps / (step + 1)))


def measure(net, pairs, task) -> dict[str, float]:
    """Share of exact translations, and perplexity a word of the right ones (EOS counts as a
    word).
    """
    batch = collate(pairs, task.source_vocab, task.target_vocab)
    with torch.no_grad():
        net.eval()
        total, count = token_loss(net, batch)
    found = greedy(net, batch.source, batch.lengths, batch.target_out.shape[1] + 2).tokens
    return {
        "exact": round(
            exact_match(found, [task.target_vocab.encode(pair.target) for pair in pairs]), 4
        ),
        "perplexity": round(math.exp(float(total) / float(count)), 4),
    }


def recipe(
    *,
    seed: int = 0,
    device: str = "cpu",
    folder: Path = Path("results"),
    train_pairs: int = 3000,
    test_pairs: int = 500,
    phrases: tuple[int, int] = (1, 3),
    d_model: int = 64,
    num_heads: int = 4,
    d_feed_forward: int = 128,
    num_layers: int = 2,
    batch_size: int = 64,
    steps: int = 500,
    learning_rate: float = 3e-3,
    warmup: int = 100,
    averaged: int = 5,
    save_every: int = 20,
) -> dict:
    """Train on few phrases with the recipe and with each part changed; measure the last weights
    and the mean of the last ones.
    """
    task = make_task(
        "phrases", train=train_pairs, valid=0, test=test_pairs, seed=0, phrases=phrases
    )
    batches = SequenceBatches(
        task.train, task.source_vocab, task.target_vocab, batch_size, seed=seed
    )
    rows = []
    for name, how in CHANGES.items():
        torch.manual_seed(seed)
        net = Transformer(
            len(task.source_vocab),
            len(task.target_vocab),
            paper_parts(d_model, num_heads, d_feed_forward, dropout=how.dropout),
            num_layers=num_layers,
        )
        with tempfile.TemporaryDirectory() as kept:
            history = fit(
                net,
                batches,
                lambda m, b: token_loss(m, b, how.label_smoothing),
                steps=steps,
                optimizer=lambda p: torch.optim.Adam(
                    p, lr=learning_rate, betas=how.betas, eps=how.eps
                ),
                learning_rate=learning_rate,
                schedule=inverse_sqrt(warmup) if how.rise else without_rise(warmup),
                seed=seed,
                device=device,
                checkpoint_dir=kept,
                save_every=save_every,
                keep_checkpoints=averaged,
            )
            last = measure(net, task.test, task)
            average_checkpoints(net, kept)
        rows.append(
            {
                "changed": name,
                **last,
                **{
                    f"{key}_averaged": value for key, value in measure(net, task.test, task).items()
                },
                "train_loss": round(sum(history.losses[-20:]) / len(history.losses[-20:]), 4),
            }
        )
    return {"rows": rows}
