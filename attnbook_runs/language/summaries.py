"""Summaries of long reports by decoder-only Transformers: by length of the source, by
compression, with experts.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial

import torch

from attnbook import double_backward
from attnbook.decoding import greedy
from attnbook.mechanisms import (
    FeedForward,
    LocalAttention,
    MemoryCompressedAttention,
    MixtureOfExperts,
    PreNorm,
    balance_loss,
)
from attnbook.models import TransformerLM, alternating, paper_parts
from attnbook.modules import device_of
from attnbook.tasks import TOKEN_IDS
from attnbook.tasks.text import reports
from attnbook.training import exact_match
from attnbook.training.losses.prompted import one_text, prompted_loss
from attnbook.validate import check_choice

from ..common import train, training_figures
from ..registry import register

__all__ = [
    "MODELS",
    "by_compression",
    "by_length",
    "make_model",
    "quality",
    "saved_mb",
    "summary_loss",
]

MODELS = ("full", "local", "L-M-L", "L-M-L-M-L")
_LAYERS = {"full": 3, "local": 3, "L-M-L": 3, "L-M-L-M-L": 5}


def make_model(
    kind: str,
    *,
    d_model: int = 64,
    num_heads: int = 4,
    block_length: int = 24,
    stride: int = 3,
    experts: int | None = None,
) -> TransformerLM:
    """A decoder-only model for reports, by the kind of its attention.

    Args:
        kind: "full" or "local" for all blocks; "L-M-L" and "L-M-L-M-L" for local and
            memory-compressed attention in turn.
        stride: Stride and kernel size of the compression.
        experts: Number of experts of a mixture, two active per position, in the place of the
            feed-forward layer of every memory-compressed block; None: no mixture.
    """
    check_choice("kind", kind, MODELS)
    base = paper_parts(d_model, num_heads, 2 * d_model, dropout=0.0, residual=PreNorm)
    local = replace(
        base, attention=partial(LocalAttention, d_model, num_heads, block_length=block_length)
    )
    compressed = replace(
        base,
        attention=partial(
            MemoryCompressedAttention, d_model, num_heads, kernel_size=stride, stride=stride
        ),
    )
    if experts is not None:
        compressed = replace(
            compressed,
            feed_forward=partial(
                MixtureOfExperts,
                d_model,
                experts,
                lambda: FeedForward(d_model, 2 * d_model),
                importance_weight=0.01,
                load_weight=0.01,
            ),
        )
    parts = {"full": base, "local": local}.get(kind) or replace(
        base, stack=alternating(local, compressed)
    )
    return TransformerLM(
        len(reports.vocabulary()), parts, num_layers=_LAYERS[kind], token_ids=TOKEN_IDS
    )


def summary_loss(model, batch, everything: bool = False):
    """The loss of the summary, or of all of the text, plus the balance loss of the experts."""
    total, count = prompted_loss(model, batch, everything)
    return total + balance_loss(model) * count, count


def quality(
    model, sentences: int, *, count: int = 400, seed: int = 1, batch_size: int = 50
) -> dict:
    """The quality of greedy summaries of new reports: the share of facts that are right, and of
    summaries that are exact.
    """
    summaries, targets, facts = [], [], []
    batches = reports.ReportBatches(sentences, batch_size, seed=seed)
    for step in range(count // batch_size):
        drawn = batches.reports(step)
        batch = reports.as_batch(drawn)
        outputs = greedy(model, batch.source, batch.lengths, drawn.target.shape[1] + 2).tokens
        summaries += outputs
        targets += drawn.target.tolist()
        facts += reports.facts_right(outputs, drawn)
    return {
        "facts": round(sum(facts) / len(facts), 4),
        "exact": round(exact_match(summaries, targets), 4),
        "reports": len(summaries),
    }


def saved_mb(model, sentences: int, *, weights: bool = True) -> float:
    """What one forward pass over a report saves for the backward pass where attention keeps its
    ``weights``, or where it computes them anew, in MB: each storage counted once, without the
    parameters.
    """
    parameters = {p.untyped_storage().data_ptr() for p in model.parameters()}
    sizes = {}

    def pack(tensor):
        sizes[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    text = one_text(reports.ReportBatches(sentences, 1).batch(0))
    hooks = torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor)
    with double_backward() if weights else nullcontext(), hooks:
        logits = model(text.input_ids.to(device_of(model))).logits
    del logits
    return round(sum(size for place, size in sizes.items() if place not in parameters) / 1e6, 3)


def _train(model, sentences: int, settings, *, seed: int, device, everything: bool = False) -> dict:
    history = train(
        model,
        reports.ReportBatches(sentences, settings.batch_size, seed=1000 + seed),
        partial(summary_loss, everything=everything),
        settings,
        seed=seed,
        device=device,
        warmup=50,
    )
    every = max(1, settings.steps // 40)
    blocks = range(0, settings.steps - every + 1, every)
    return {
        **quality(model, sentences),
        "losses": [round(sum(history.losses[k : k + every]) / every, 4) for k in blocks],
        "every": every,
        **training_figures(model, history),
    }


@dataclass(frozen=True)
class ReportSettings:
    """Settings of every training on reports."""

    steps: int = 500  # training steps
    batch_size: int = 16  # examples per step
    learning_rate: float = 3e-3  # peak learning rate


@dataclass(frozen=True)
class LengthSettings(ReportSettings):
    models: Sequence[str] = ("full", "local", "L-M-L")  # models to compare
    lengths: Sequence[int] = (8, 16, 32, 64)  # sentences per report


def by_length(settings: LengthSettings, *, seed: int = 0, device: str = "cpu") -> dict:
    """Train every kind of model at every length, in sentences, on equally many reports."""
    rows = []
    for sentences, kind in itertools.product(settings.lengths, settings.models):
        torch.manual_seed(seed)
        figures = _train(make_model(kind), sentences, settings, seed=seed, device=device)
        words = sentences * reports.SENTENCE
        rows.append({"model": kind, "sentences": sentences, "words": words, **figures})
    return {"rows": rows}


@dataclass(frozen=True)
class CompressionSettings(ReportSettings):
    strides: Sequence[int] = (3, 6, 12, 24)  # compression factors to compare
    sentences: int = 32  # sentences per report


def by_compression(settings: CompressionSettings, *, seed: int = 0, device: str = "cpu") -> dict:
    """Train L-M-L with increasing compression; and with the first one with a loss on all of the
    text.
    """
    rows = []
    sentences = settings.sentences
    variants = [(stride, "summary") for stride in settings.strides]
    for stride, loss_on in [*variants, (settings.strides[0], "all")]:
        torch.manual_seed(seed)
        model, everything = make_model("L-M-L", stride=stride), loss_on == "all"
        figures = _train(
            model, sentences, settings, seed=seed, device=device, everything=everything
        )
        row = {"stride": stride, "loss_on": loss_on, "sentences": sentences}
        rows.append({**row, **figures})
    return {"rows": rows}


register(
    "reports-by-length",
    by_length,
    LengthSettings(),
    title="Summaries of long reports: full, local and memory-compressed attention, by length",
    minutes="60 minutes on one CPU core",
)
register(
    "reports-by-length-long",
    by_length,
    LengthSettings(models=("full", "L-M-L"), lengths=(32,), steps=3000),
    title="Summaries of 32 sentences with six times the updates, full and memory-compressed",
    minutes="20 minutes on one CPU core",
)
register(
    "reports-by-compression",
    by_compression,
    CompressionSettings(),
    title="The same by compression, and with a loss on all of the text",
    minutes="18 minutes on one CPU core",
)
