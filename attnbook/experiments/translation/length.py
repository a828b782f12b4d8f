"""Exact answers against the length of the source: what a fixed vector forgets and attention
keeps.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch

from ...models import Bahdanau, Seq2Seq
from ...tasks import make_task
from ...tasks.sequences.batches import SequenceBatches, collate
from ...training import cosine_decay, exact_match, fit, greedy, token_accuracy, token_loss
from ..registry import register

__all__ = ["by_length", "curve_of", "make_model"]

EDGES = ((2, 4), (5, 7), (8, 10), (11, 13), (14, 16), (17, 20), (21, 25), (26, 32), (33, 40))
"""Source lengths in words, as they are grouped in the curve; longer ones are too few to count."""


def make_model(name: str, task, *, d_embed: int, hidden_size: int):
    """One of the three models that the book compares, for the vocabularies of ``task``."""
    sizes = (len(task.source_vocab), len(task.target_vocab))
    options = dict(d_embed=d_embed, hidden_size=hidden_size)
    if name == "bahdanau":
        return Bahdanau(*sizes, **options)
    if name in ("seq2seq", "seq2seq-reversed"):
        return Seq2Seq(
            *sizes, **options, context_every_step=True, reverse_source=name == "seq2seq-reversed"
        )
    raise ValueError(f"model must be 'bahdanau', 'seq2seq' or 'seq2seq-reversed', got {name!r}")


def curve_of(model, pairs, task, edges=EDGES) -> list[dict]:
    """Exact and token accuracy of greedy decoding for each group of source lengths that occurs."""
    rows = []
    for low, high in edges:
        chosen = [pair for pair in pairs if low <= len(pair.source) <= high]
        if not chosen:
            continue
        batch = collate(chosen, task.source_vocab, task.target_vocab)
        longest = batch.target_out.shape[1] + 2
        found = greedy(model, batch.source, batch.lengths, longest).tokens
        wanted = [task.target_vocab.encode(pair.target) for pair in chosen]
        rows.append(
            {
                "words": [low, high],
                "sentences": len(chosen),
                "exact": round(exact_match(found, wanted), 4),
                "token": round(token_accuracy(found, wanted), 4),
            }
        )
    return rows


@dataclass(frozen=True)
class Settings:
    model: str = "bahdanau"  # bahdanau, seq2seq or seq2seq-reversed
    train_pairs: int = 30000  # training pairs
    test_pairs: int = 2000  # test pairs
    train_phrases: int = 4  # most noun phrases in training
    test_phrases: int = 8  # most noun phrases in the test
    d_embed: int = 48  # width of the embeddings
    hidden_size: int = 96  # units of the recurrent layers
    batch_size: int = 64  # examples per step
    steps: int = 2000  # training steps
    learning_rate: float = 4e-3  # peak learning rate


def by_length(
    settings: Settings, *, seed: int = 0, device: str = "cpu", folder: Path = Path("results")
) -> dict:
    """Train on 1 to ``train_phrases`` noun phrases, test on sources up to ``test_phrases``, by
    length in words.
    """
    task = make_task(
        "phrases",
        train=settings.train_pairs,
        valid=500,
        test=1000,
        seed=0,
        phrases=(1, settings.train_phrases),
    )
    longer = task.unseen(settings.test_pairs, seed=1, phrases=(1, settings.test_phrases))
    torch.manual_seed(seed)
    net = make_model(
        settings.model, task, d_embed=settings.d_embed, hidden_size=settings.hidden_size
    )
    batches = SequenceBatches(
        task.train, task.source_vocab, task.target_vocab, settings.batch_size, seed=seed
    )
    history = fit(
        net,
        batches,
        token_loss,
        steps=settings.steps,
        learning_rate=settings.learning_rate,
        schedule=cosine_decay(settings.steps, 20),
        seed=seed,
        device=device,
    )
    trained_to = max(len(pair.source) for pair in task.train)
    overall = curve_of(net, task.test, task, [(1, 10**6)])[0]
    return {
        "parameters": sum(p.numel() for p in net.parameters()),
        "trained_to_words": trained_to,
        "exact": overall["exact"],
        "token": overall["token"],
        "curve": curve_of(net, longer, task),
        "last_losses": [round(x, 4) for x in history.losses[-5:]],
        "training_seconds": round(history.seconds, 1),
    }


for _model in ("seq2seq", "seq2seq-reversed", "bahdanau"):
    register(
        f"length-{_model}",
        by_length,
        Settings(model=_model),
        title=f"Exact answers against source length, {_model}",
        minutes="6 minutes on one CPU core",
    )
