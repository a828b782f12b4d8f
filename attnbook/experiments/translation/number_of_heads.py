"""How many heads: one width, one task, one budget, and only the number of heads differs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import torch

from ...models import Transformer, paper_parts
from ...tasks import make_task
from ...tasks.text.batches import SequenceBatches, collate
from ...training import cosine_decay, exact_match, fit, greedy, token_loss

__all__ = ["by_number"]


def by_number(
    *,
    seed: int = 0,
    device: str = "cpu",
    folder: Path = Path("results"),
    heads: Sequence[int] = (1, 2, 4, 8, 16, 32),
    d_model: int = 64,
    d_feed_forward: int = 256,
    num_layers: int = 1,
    dropout: float = 0.1,
    train_pairs: int = 20_000,
    test_pairs: int = 500,
    phrases: tuple[int, int] = (1, 2),
    batch_size: int = 64,
    steps: int = 1000,
    learning_rate: float = 3e-3,
) -> dict:
    """Train one Transformer for each number of heads on English to French noun phrases; loss and
    exact answers on unseen ones.

    Every model starts from the same seed and sees the same batches. All have the same number of
    parameters: heads share the width out.

    Source: the rows (A) of table 3 of Vaswani et al. 2017, whose models are of width 512 and
    translate WMT 2014.
    """
    task = make_task(
        "phrases", train=train_pairs, valid=0, test=test_pairs, seed=0, phrases=phrases
    )
    sizes = len(task.source_vocab), len(task.target_vocab)
    batches = SequenceBatches(
        task.train, task.source_vocab, task.target_vocab, batch_size, seed=seed
    )
    test = collate(task.test, task.source_vocab, task.target_vocab)
    wanted = [task.target_vocab.encode(pair.target) for pair in task.test]
    rows = []
    for number in heads:
        torch.manual_seed(seed)
        model = Transformer(
            *sizes,
            paper_parts(d_model, number, d_feed_forward, dropout=dropout),
            num_layers=num_layers,
        )
        history = fit(
            model,
            batches,
            token_loss,
            steps=steps,
            learning_rate=learning_rate,
            schedule=cosine_decay(steps, max(1, steps // 20)),
            seed=seed,
            device=device,
        )
        model.eval()
        with torch.no_grad():
            total, count = token_loss(model, test)
        found = greedy(model, test.source, test.lengths, test.target_out.shape[1] + 2).tokens
        rows.append(
            {
                "heads": number,
                "d_head": d_model // number,
                "parameters": sum(p.numel() for p in model.parameters()),
                "loss": round(float(total / count), 4),
                "perplexity": round(math.exp(float(total / count)), 4),
                "exact": round(exact_match(found, wanted), 4),
                "training_loss": round(sum(history.losses[-50:]) / len(history.losses[-50:]), 4),
            }
        )
    return {
        "rows": rows,
        "train_pairs": len(task.train),
        "test_pairs": len(task.test),
        "steps": steps,
    }
