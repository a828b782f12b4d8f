"""The Transformer on Multi30k: with the recipe of the paper on a GPU, and small, in the time of
chapter 2's model, on one CPU core.
"""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from attnbook.mechanisms import (
    LearnedPositions,
    MultiHeadAttention,
    NoPositions,
    RelativeMultiHeadAttention,
)
from attnbook.mechanisms.layers.residual import PostNorm, PreNorm
from attnbook.models import Bahdanau
from attnbook.models.transformer.encoder_decoder import Transformer
from attnbook.models.transformer.parts import Parts, paper_parts
from attnbook.tasks import TOKEN_IDS
from attnbook.tasks.sequences.batches import SequenceBatches, collate
from attnbook.tasks.text import subwords
from attnbook.training import average_checkpoints, inverse_sqrt, load_model_weights, token_loss
from attnbook.validate import check_choice, require

from ..common import checkpoint_folder, rounded, save_checkpoint, train, training_figures
from ..registry import register
from .real_sentences import SMALL, bleu_figures, read_multi30k, validation_loss

__all__ = ["alternating", "make_parts", "multi30k", "paper_adam"]


def paper_adam(learning_rate: float):
    """The optimizer of the paper (section 5.3), as an argument of :func:`attnbook.fit`: Adam with
    β₁ = 0.9, β₂ = 0.98 and ε = 10⁻⁹.
    """
    return lambda parameters: torch.optim.Adam(
        parameters, lr=learning_rate, betas=(0.9, 0.98), eps=1e-9
    )


@dataclass(frozen=True)
class Settings:
    target: str = "de"  # target language
    pieces: int = 10_000  # size of the subword vocabulary
    joint: bool = True  # one vocabulary for both languages
    train_pairs: int | None = None  # training pairs; None: all
    d_model: int = 256  # width of the model
    num_heads: int = 4  # attention heads
    d_key: int | None = None  # width of queries and keys in a head; None: d_model / num_heads
    d_feed_forward: int = 1024  # width of the feed-forward layers
    num_layers: int = 4  # layers
    pre_norm: bool = False  # norm before each sublayer, else after it
    positions: str = "sinusoidal"  # sinusoidal, learned or relative
    max_distance: int = 16  # largest distance that relative positions tell apart
    dropout: float = 0.3  # dropout rate
    label_smoothing: float = 0.1  # mass that label smoothing spreads
    batch_size: int = 256  # examples per step
    steps: int = 10_000  # training steps
    # peak learning rate; the bound of ``fit`` on the gradient, 1, of which the paper says nothing,
    # cuts about one in fifteen of the first steps
    learning_rate: float = 1e-3
    warmup: int = 2000  # steps until the peak learning rate
    averaged: int = 5  # checkpoints in the final average
    save_every: int = 250  # steps between two checkpoints of the average
    precision: str = "no"  # no, bf16 or fp16
    rival: dict[str, Any] | None = None  # settings of the model to compare with
    checkpoint: str = ""  # name of the saved weights; empty: none are saved


def make_parts(settings: Settings) -> Parts:
    """The parts of the Transformer of some settings."""
    d_model, heads = settings.d_model, settings.num_heads
    parts = paper_parts(
        d_model,
        heads,
        settings.d_feed_forward,
        dropout=settings.dropout,
        residual=PreNorm if settings.pre_norm else PostNorm,
    )
    if settings.d_key is not None:
        widths: dict[str, Any] = {"d_head": settings.d_key, "d_head_value": d_model // heads}
        attention = partial(MultiHeadAttention, d_model, heads, **widths)
        parts = replace(parts, attention=attention, cross_attention=attention)
    kind = check_choice("positions", settings.positions, ("sinusoidal", "learned", "relative"))
    if kind == "learned":
        parts = replace(parts, positions=lambda: _learned(d_model))
    elif kind == "relative":
        require(settings.d_key is None, "d_key must be None with relative positions")
        attention = partial(
            RelativeMultiHeadAttention, d_model, heads, max_distance=settings.max_distance
        )
        parts = replace(parts, attention=attention, positions=NoPositions)
    return parts


def _learned(d_model: int) -> LearnedPositions:
    positions = LearnedPositions(160, d_model)
    # as large as sinusoids
    torch.nn.init.normal_(positions.weight, std=0.5**0.5)
    return positions


def multi30k(
    settings: Settings, *, seed: int = 0, device: str = "cpu", folder: Path = Path("results")
) -> dict:
    """Train a Transformer on Multi30k English to ``target``; BLEU on the test of 2016 of the mean
    of its last checkpoints.

    With a joint vocabulary both embeddings and the output share one matrix, as in the paper. With
    a ``rival`` (``steps``, ``batch_size``, ``pieces``, ``d_embed``, ``hidden_size`` and ``dropout``
    of a run of chapter 2's model) both are timed before training, in alternating blocks, on the
    same sentences.
    """
    parts, pieces_in, pieces_out = read_multi30k(settings.target, settings.pieces, settings.joint)
    pairs = subwords.to_pairs(parts["train"], pieces_in, pieces_out, 80)
    batches = SequenceBatches(
        pairs[: settings.train_pairs],
        pieces_in.vocab,
        pieces_out.vocab,
        settings.batch_size,
        seed=seed,
    )

    def make() -> Transformer:
        torch.manual_seed(seed)
        return Transformer(
            len(pieces_in),
            len(pieces_out),
            make_parts(settings),
            num_layers=settings.num_layers,
            tie="all" if settings.joint else "output",
            token_ids=TOKEN_IDS,
        )

    def loss(model, batch):
        return token_loss(model, batch, label_smoothing=settings.label_smoothing)

    figures = {}
    if settings.rival is not None:
        figures["equal_time"] = _equal_time(
            make(), settings, settings.rival, parts["train"], pieces_in, pieces_out, loss, seed
        )
    model = make()
    evaluate = validation_loss(
        subwords.to_pairs(parts["valid"], pieces_in, pieces_out), pieces_in, pieces_out
    )
    with checkpoint_folder() as checkpoints:
        started = time.process_time()
        history = train(
            model,
            batches,
            loss,
            settings,
            seed=seed,
            device=device,
            optimizer=paper_adam(settings.learning_rate),
            schedule=inverse_sqrt(settings.warmup),
            evaluate=evaluate,
            evaluations=12,
            checkpoint_dir=checkpoints,
            save_every=settings.save_every,
            keep_checkpoints=settings.averaged,
        )
        cpu_seconds = time.process_time() - started
        average_checkpoints(model, checkpoints)
    model.eval()
    if settings.checkpoint:  # what is measured is what is stored
        stem = f"{settings.checkpoint}.seed{seed}"
        save_checkpoint(model, settings.checkpoint, folder, seed, data="Multi30k, task 1")
        load_model_weights(model, folder / f"{stem}.safetensors")
        sides = {"en": pieces_in, settings.target: pieces_out}
        for name, pieces in ({"joint": pieces_in} if settings.joint else sides).items():
            pieces.save(folder / f"{stem}.{name}.json")
    return {
        **figures,
        "validation_loss": rounded(history.evaluations),
        "validation_loss_averaged": round(evaluate(model), 4),
        **training_figures(model, history),
        "training_cpu_seconds": round(cpu_seconds, 1),
        **bleu_figures(model, parts["test2016"], pieces_in, pieces_out),
    }


def alternating(models: dict, rounds: list[dict], loss) -> dict[str, list[float]]:
    """CPU seconds per training step of models that take turns, one number per round, so that
    whatever else the machine does slows all models alike. The weights change.

    Args:
        models: By name.
        rounds: For each round the batches of each model, by name, as many for each.
    """
    optimizers = {
        name: torch.optim.Adam(model.parameters(), lr=1e-4) for name, model in models.items()
    }
    seconds: dict[str, list[float]] = {name: [] for name in models}
    for batches in rounds:
        for name, model in models.items():
            model.train()
            started = time.process_time()
            for batch in batches[name]:
                optimizers[name].zero_grad(set_to_none=True)
                total, count = loss(model, batch)
                (total / count).backward()
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizers[name].step()
            seconds[name].append((time.process_time() - started) / len(batches[name]))
    return seconds


def _equal_time(
    model, settings: Settings, rival: dict, sentences, pieces_in, pieces_out, loss, seed: int
) -> dict:
    """How many steps of the Transformer take as long as the rival's run: from the median ratio of
    twelve rounds of four batches, after one that warms up.

    Each model has batches of its own size, of the same sentences.
    """
    _, rival_in, rival_out = read_multi30k(settings.target, rival["pieces"])
    sizes = {name: rival[name] for name in ("d_embed", "hidden_size", "dropout")}
    models = {
        "transformer": model,
        "rival": Bahdanau(len(rival_in), len(rival_out), **sizes, token_ids=TOKEN_IDS),
    }
    pairs = subwords.to_pairs(sentences, pieces_in, pieces_out)
    batches = SequenceBatches(
        subwords.to_pairs(sentences, rival_in, rival_out),
        rival_in.vocab,
        rival_out.vocab,
        rival["batch_size"],
        seed=seed,
    )
    rounds = []
    for first in range(0, 13 * 4, 4):
        same = []
        for k in range(first, first + 4):
            by_length = sorted(batches.indices(k), key=lambda i: len(pairs[i].source))
            for at in range(0, len(by_length), settings.batch_size):
                part = [pairs[i] for i in by_length[at : at + settings.batch_size]]
                same.append(collate(part, pieces_in.vocab, pieces_out.vocab))
        rival_batches = [batches.batch(k) for k in range(first, first + 4)]
        rounds.append({"rival": rival_batches, "transformer": same})
    seconds = alternating(models, rounds, loss)
    ratios = [b / a for a, b in zip(seconds["transformer"][1:], seconds["rival"][1:])]
    ratio = statistics.median(ratios)
    return {
        "milliseconds_a_step": {
            name: round(1000 * statistics.median(times[1:]), 1) for name, times in seconds.items()
        },
        "ratio": round(ratio, 3),
        "ratio_least_and_largest": [round(min(ratios), 3), round(max(ratios), 3)],
        "rival_steps": rival["steps"],
        "steps_of_equal_time": round(ratio * rival["steps"]),
        "share_of_the_time": round(settings.steps / (ratio * rival["steps"]), 3),
    }


_RIVAL = {name: SMALL[name] for name in ("steps", "pieces", "d_embed", "hidden_size", "dropout")}
for _language, _long in (("de", "German"), ("fr", "French")):
    register(
        f"multi30k-en-{_language}-transformer",
        multi30k,
        Settings(target=_language, precision="bf16"),
        title=f"Multi30k English to {_long} by a Transformer, mean of the last five checkpoints: "
        "BLEU",
        minutes="20 minutes on one GPU",
        needs="multi30k",
    )
    register(
        f"multi30k-en-{_language}-transformer-small",
        multi30k,
        Settings(
            target=_language,
            pieces=2600,
            d_model=128,
            d_feed_forward=256,
            num_layers=2,
            dropout=0.1,
            batch_size=64,
            steps=4300,
            learning_rate=4.4e-3,
            warmup=400,
            averaged=8,
            save_every=75,
            rival={**_RIVAL, "batch_size": 128},
            checkpoint=f"multi30k-en-{_language}-transformer-small",
        ),
        title="The same, as long as the small run of chapter 2's model on one CPU core, with its "
        "checkpoint",
        minutes="20 minutes on one CPU core",
        needs="multi30k",
    )
