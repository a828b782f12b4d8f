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
from ..registry import register

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


@dataclass(frozen=True)
class Settings:
    train_pairs: int = 3000  # training pairs
    test_pairs: int = 500  # test pairs
    phrases: tuple[int, int] = (1, 3)  # noun phrases per sentence, (least, most)
    d_model: int = 64  # width of the model
    num_heads: int = 4  # attention heads
    d_feed_forward: int = 128  # width of the feed-forward layers
    num_layers: int = 2  # layers
    batch_size: int = 64  # examples per step
    steps: int = 500  # training steps
    learning_rate: float = 3e-3  # peak learning rate
    warmup: int = 100  # steps until the peak learning rate
    averaged: int = 5  # checkpoints in the final average
    save_every: int = 20  # steps between two checkpoints of the average


def recipe(
    settings: Settings, *, seed: int = 0, device: str = "cpu", folder: Path = Path("results")
) -> dict:
    """Train on few phrases with the recipe and with each part changed; measure the last weights
    and the mean of the last ones.
    """
    task = make_task(
        "phrases",
        train=settings.train_pairs,
        valid=0,
        test=settings.test_pairs,
        seed=0,
        phrases=settings.phrases,
    )
    batches = SequenceBatches(
        task.train, task.source_vocab, task.target_vocab, settings.batch_size, seed=seed
    )
    rows = []
    for name, how in CHANGES.items():
        torch.manual_seed(seed)
        net = Transformer(
            len(task.source_vocab),
            len(task.target_vocab),
            paper_parts(
                settings.d_model, settings.num_heads, settings.d_feed_forward, dropout=how.dropout
            ),
            num_layers=settings.num_layers,
        )
        with tempfile.TemporaryDirectory() as kept:
            history = fit(
                net,
                batches,
                lambda m, b: token_loss(m, b, how.label_smoothing),
                steps=settings.steps,
                optimizer=lambda p: torch.optim.Adam(
                    p, lr=settings.learning_rate, betas=how.betas, eps=how.eps
                ),
                learning_rate=settings.learning_rate,
                schedule=inverse_sqrt(settings.warmup)
                if how.rise
                else without_rise(settings.warmup),
                seed=seed,
                device=device,
                checkpoint_dir=kept,
                save_every=settings.save_every,
                keep_checkpoints=settings.averaged,
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


register(
    "transformer-recipe",
    recipe,
    Settings(),
    title="The recipe of the Transformer on 3,000 phrases, and each part of it changed",
    minutes="4 minutes on one CPU core",
)
