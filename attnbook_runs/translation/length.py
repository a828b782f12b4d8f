"""Exact answers by length of the source: what a fixed vector forgets and attention keeps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from attnbook.models import Bahdanau, Seq2Seq
from attnbook.tasks import TOKEN_IDS, make_task
from attnbook.tasks.sequences.pairs import Pair
from attnbook.tasks.sequences.task import Task
from attnbook.training import exact_match, token_accuracy, token_loss
from attnbook.validate import check_choice

from ..common import select, train, training_figures
from ..registry import register
from .evaluation import greedy_outputs, training_batches

__all__ = ["by_length", "curve_of", "make_model"]

MODELS = ("seq2seq", "seq2seq-reversed", "bahdanau")
EDGES = ((2, 4), (5, 7), (8, 10), (11, 13), (14, 16), (17, 20), (21, 25), (26, 32), (33, 40))
"""Source lengths in words, as they are grouped in the curve; longer ones are too few to count."""


def make_model(name: str, task: Task, *, d_embed: int, hidden_size: int) -> Bahdanau | Seq2Seq:
    """One of the three models that the book compares, for the vocabularies of ``task``."""
    check_choice("model", name, MODELS)
    sizes = (len(task.source_vocab), len(task.target_vocab))
    if name == "bahdanau":
        return Bahdanau(*sizes, d_embed=d_embed, hidden_size=hidden_size, token_ids=TOKEN_IDS)
    return Seq2Seq(
        *sizes,
        d_embed=d_embed,
        hidden_size=hidden_size,
        context_every_step=True,
        reverse_source=name == "seq2seq-reversed",
        token_ids=TOKEN_IDS,
    )


def curve_of(
    model, pairs: Sequence[Pair], task: Task, edges: Sequence[tuple[int, int]] = EDGES
) -> list[dict]:
    """Exact and token accuracy of greedy decoding for each group of source lengths that occurs."""
    rows = []
    for low, high in edges:
        group = [pair for pair in pairs if low <= len(pair.source) <= high]
        if not group:
            continue
        outputs, targets = greedy_outputs(model, group, task)
        rows.append(
            {
                "words": [low, high],
                "sentences": len(group),
                "exact": round(exact_match(outputs, targets), 4),
                "token": round(token_accuracy(outputs, targets), 4),
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


def by_length(settings: Settings, *, seed: int = 0, device: str = "cpu") -> dict:
    """Train on 1 to ``train_phrases`` noun phrases, test on sources of up to ``test_phrases``, by
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
    model = make_model(settings.model, task, **select(settings, "d_embed", "hidden_size"))
    batches = training_batches(task, settings.batch_size, seed)
    history = train(model, batches, token_loss, settings, seed=seed, device=device)
    overall = curve_of(model, task.test, task, [(1, 10**6)])[0]
    return {
        "trained_to_words": max(len(pair.source) for pair in task.train),
        "exact": overall["exact"],
        "token": overall["token"],
        "curve": curve_of(model, longer, task),
        "last_losses": [round(x, 4) for x in history.losses[-5:]],
        **training_figures(model, history),
    }


for _model in MODELS:
    register(
        f"length-{_model}",
        by_length,
        Settings(model=_model),
        title=f"Exact answers against source length, {_model}",
        minutes="6 minutes on one CPU core",
    )
