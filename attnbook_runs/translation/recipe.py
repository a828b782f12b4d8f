"""The recipe of the Transformer, part by part: the same run with one part changed at a time."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import fmean

import torch

from attnbook.models.transformer.encoder_decoder import Transformer
from attnbook.models.transformer.parts import paper_parts
from attnbook.tasks import TOKEN_IDS, make_task
from attnbook.training import average_checkpoints, inverse_sqrt, token_loss

from ..common import checkpoint_folder, train
from ..registry import register
from .evaluation import exact_share, pair_loss, training_batches

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


def measure(model, pairs, task) -> dict[str, float]:
    """Share of exact translations, and perplexity of the targets per word (EOS counts as one)."""
    model.eval()
    return {
        "exact": exact_share(model, pairs, task),
        "perplexity": round(math.exp(pair_loss(model, pairs, task)), 4),
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


def recipe(settings: Settings, *, seed: int = 0, device: str = "cpu") -> dict:
    """Train on few phrases with the recipe and with each part changed; measure the last weights
    and the mean of the last checkpoints.
    """
    task = make_task(
        "phrases",
        train=settings.train_pairs,
        valid=0,
        test=settings.test_pairs,
        seed=0,
        phrases=settings.phrases,
    )
    batches = training_batches(task, settings.batch_size, seed)
    rows = []
    for name, part in CHANGES.items():
        torch.manual_seed(seed)
        model = Transformer(
            len(task.source_vocab),
            len(task.target_vocab),
            paper_parts(
                settings.d_model, settings.num_heads, settings.d_feed_forward, dropout=part.dropout
            ),
            num_layers=settings.num_layers,
            token_ids=TOKEN_IDS,
        )
        with checkpoint_folder() as checkpoints:
            history = train(
                model,
                batches,
                lambda m, b: token_loss(m, b, part.label_smoothing),
                settings,
                seed=seed,
                device=device,
                optimizer=lambda p: torch.optim.Adam(
                    p, lr=settings.learning_rate, betas=part.betas, eps=part.eps
                ),
                schedule=(inverse_sqrt if part.rise else without_rise)(settings.warmup),
                checkpoint_dir=checkpoints,
                save_every=settings.save_every,
                keep_checkpoints=settings.averaged,
            )
            last = measure(model, task.test, task)
            average_checkpoints(model, checkpoints)
        averaged = measure(model, task.test, task)
        rows.append(
            {
                "changed": name,
                **last,
                **{f"{key}_averaged": value for key, value in averaged.items()},
                "train_loss": round(fmean(history.losses[-20:]), 4),
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
