"""How many heads: one width, one task, one budget, and only the number of heads differs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

import torch

from attnbook.models import Transformer, paper_parts
from attnbook.tasks import TOKEN_IDS, make_task
from attnbook.training import token_loss

from ..common import count_parameters, train
from ..registry import register
from .evaluation import exact_share, pair_loss, training_batches

__all__ = ["by_number"]


@dataclass(frozen=True)
class Settings:
    heads: Sequence[int] = (1, 2, 4, 8, 16, 32)  # numbers of heads to compare
    d_model: int = 64  # width of the model
    d_feed_forward: int = 256  # width of the feed-forward layers
    num_layers: int = 1  # layers
    dropout: float = 0.1  # dropout rate
    train_pairs: int = 20_000  # training pairs
    test_pairs: int = 500  # test pairs
    phrases: tuple[int, int] = (1, 2)  # noun phrases per sentence, (least, most)
    batch_size: int = 64  # examples per step
    steps: int = 1000  # training steps
    learning_rate: float = 3e-3  # peak learning rate


def by_number(settings: Settings, *, seed: int = 0, device: str = "cpu") -> dict:
    """Train a Transformer for each number of heads on English to French noun phrases; loss and
    exact answers on unseen ones.

    Every model starts from the same seed and sees the same batches. All have the same number of
    parameters: the heads divide the width between them.

    Source: the rows (A) of table 3 of Vaswani et al. 2017, whose models are of width 512 and
    translate WMT 2014.
    """
    task = make_task(
        "phrases",
        train=settings.train_pairs,
        valid=0,
        test=settings.test_pairs,
        seed=0,
        phrases=settings.phrases,
    )
    sizes = len(task.source_vocab), len(task.target_vocab)
    batches = training_batches(task, settings.batch_size, seed)
    warmup = max(1, settings.steps // 20)
    rows = []
    for number in settings.heads:
        torch.manual_seed(seed)
        model = Transformer(
            *sizes,
            paper_parts(
                settings.d_model, number, settings.d_feed_forward, dropout=settings.dropout
            ),
            num_layers=settings.num_layers,
            token_ids=TOKEN_IDS,
        )
        history = train(
            model, batches, token_loss, settings, seed=seed, device=device, warmup=warmup
        )
        model.eval()
        loss = pair_loss(model, task.test, task)
        rows.append(
            {
                "heads": number,
                "d_head": settings.d_model // number,
                "parameters": count_parameters(model),
                "loss": round(loss, 4),
                "perplexity": round(math.exp(loss), 4),
                "exact": exact_share(model, task.test, task),
                "training_loss": round(fmean(history.losses[-50:]), 4),
            }
        )
    return {
        "rows": rows,
        "train_pairs": len(task.train),
        "test_pairs": len(task.test),
        "steps": settings.steps,
    }


register(
    "heads-by-number",
    by_number,
    Settings(),
    title="One to 32 heads in one width: English to French noun phrases by a Transformer of one "
    "layer",
    minutes="15 minutes on one CPU core",
)
