"""Summaries of long reports by decoder-only Transformers: by length of the source, by
compression, with experts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import torch

from ...mechanisms import (
    FeedForward,
    LocalAttention,
    MemoryCompressedAttention,
    MixtureOfExperts,
    PreNorm,
    balance_loss,
)
from ...models import TransformerLM, alternating, paper_parts
from ...tasks.text import reports
from ...training import cosine_decay, exact_match, fit, greedy, save_model
from ...training.losses.prompted import one_text, prompted_loss
from ...validate import check_choice
from ..registry import register

__all__ = [
    "MODELS",
    "by_compression",
    "by_length",
    "kept_mb",
    "make_model",
    "quality",
    "summary_loss",
    "with_experts",
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
        kind: ``"full"``, ``"local"``: all blocks alike; ``"L-M-L"`` and ``"L-M-L-M-L"``: local and
            memory-compressed in turn
        stride: of the compression, and its kernel
        experts: a mixture of so many experts, two a position, for the feed-forward of every
            memory-compressed block
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
    return TransformerLM(len(reports.vocabulary()), parts, num_layers=_LAYERS[kind])


def summary_loss(model, batch, everything: bool = False):
    """The loss of the summary, or of all of the text, and the balance of the experts, if there
    are any.
    """
    total, count = prompted_loss(model, batch, everything)
    return total + balance_loss(model) * count, count


def quality(
    model, sentences: int, *, count: int = 400, seed: int = 1, batch_size: int = 50
) -> dict:
    """How good greedy summaries of new reports are: the share of facts that are right, and of
    summaries that are exact.
    """
    told, targets, facts = [], [], []
    batches = reports.ReportBatches(sentences, batch_size, seed=seed)
    for step in range(count // batch_size):
        some = batches.reports(step)
        batch = reports.as_batch(some)
        said = greedy(model, batch.source, batch.lengths, some.target.shape[1] + 2).tokens
        told += said
        targets += some.target.tolist()
        facts += reports.facts_right(said, some)
    return {
        "facts": round(sum(facts) / len(facts), 4),
        "exact": round(exact_match(told, targets), 4),
        "reports": len(told),
    }


def kept_mb(model, sentences: int) -> float:
    """What one forward pass over a report keeps for the way back, in MB, each storage counted
    once, weights left out.
    """
    sizes, own = {}, {p.untyped_storage().data_ptr() for p in model.parameters()}

    def keep(tensor):
        sizes[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    text = one_text(reports.ReportBatches(sentences, 1).batch(0))
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        logits = model(text.input_ids.to(next(model.parameters()).device)).logits
    del logits
    return round(sum(size for place, size in sizes.items() if place not in own) / 1e6, 3)


def _train(model, sentences, *, steps, batch_size, learning_rate, seed, device, everything=False):
    history = fit(
        model,
        reports.ReportBatches(sentences, batch_size, seed=1000 + seed),
        partial(summary_loss, everything=everything),
        steps=steps,
        learning_rate=learning_rate,
        schedule=cosine_decay(steps, 50),
        seed=seed,
        device=device,
    )
    every = max(1, steps // 40)
    curve = [
        round(sum(history.losses[k : k + every]) / every, 4)
        for k in range(0, steps - every + 1, every)
    ]
    return {
        **quality(model, sentences),
        "kept_mb": kept_mb(model, sentences),
        "losses": curve,
        "every": every,
        "parameters": sum(p.numel() for p in model.parameters()),
        "training_seconds": round(history.seconds, 1),
    }


@dataclass(frozen=True)
class LengthSettings:
    models: Sequence[str] = ("full", "local", "L-M-L")  # models to compare
    lengths: Sequence[int] = (8, 16, 32, 64)  # sentences per report
    steps: int = 500  # training steps
    batch_size: int = 16  # examples per step
    learning_rate: float = 3e-3  # peak learning rate


def by_length(
    settings: LengthSettings, *, seed: int = 0, device: str = "cpu", folder: Path = Path("results")
) -> dict:
    """Train every kind of model at every length, in sentences, on equally many reports."""
    rows = []
    for sentences in settings.lengths:
        for kind in settings.models:
            torch.manual_seed(seed)
            found = _train(
                make_model(kind),
                sentences,
                steps=settings.steps,
                batch_size=settings.batch_size,
                learning_rate=settings.learning_rate,
                seed=seed,
                device=device,
            )
            rows.append(
                {
                    "model": kind,
                    "sentences": sentences,
                    "words": sentences * reports.SENTENCE,
                    **found,
                }
            )
    return {"rows": rows}


@dataclass(frozen=True)
class CompressionSettings:
    strides: Sequence[int] = (3, 6, 12, 24)  # compression factors to compare
    sentences: int = 32  # sentences per report
    steps: int = 500  # training steps
    batch_size: int = 16  # examples per step
    learning_rate: float = 3e-3  # peak learning rate


def by_compression(
    settings: CompressionSettings,
    *,
    seed: int = 0,
    device: str = "cpu",
    folder: Path = Path("results"),
) -> dict:
    """Train L-M-L with stronger and stronger compression; and at stride 3 with a loss on all of
    the text.
    """
    rows = []
    for stride, everything in [
        *((s, False) for s in settings.strides),
        (settings.strides[0], True),
    ]:
        torch.manual_seed(seed)
        found = _train(
            make_model("L-M-L", stride=stride),
            settings.sentences,
            steps=settings.steps,
            batch_size=settings.batch_size,
            learning_rate=settings.learning_rate,
            seed=seed,
            device=device,
            everything=everything,
        )
        rows.append(
            {
                "stride": stride,
                "loss_on": "all" if everything else "summary",
                "sentences": settings.sentences,
                **found,
            }
        )
    return {"rows": rows}


@dataclass(frozen=True)
class ExpertSettings:
    sentences: int = 32  # sentences per report
    experts: int = 4  # experts of the mixture
    steps: int = 500  # training steps
    batch_size: int = 16  # examples per step
    learning_rate: float = 3e-3  # peak learning rate
    checkpoint: str = ""  # name of the saved weights; empty: none are saved


def with_experts(
    settings: ExpertSettings, *, seed: int = 0, device: str = "cpu", folder: Path = Path("results")
) -> dict:
    """Train the five layers of the paper, L-M-L-M-L, with experts and without; what they read,
    counted on new reports.
    """
    rows = []
    for number in (None, settings.experts):
        torch.manual_seed(seed)
        model = make_model("L-M-L-M-L", experts=number)
        found = _train(
            model,
            settings.sentences,
            steps=settings.steps,
            batch_size=settings.batch_size,
            learning_rate=settings.learning_rate,
            seed=seed,
            device=device,
        )
        rows.append({"experts": number or 1, **found})
    if settings.checkpoint:
        save_model(
            model,
            folder / f"{settings.checkpoint}.seed{seed}.safetensors",
            half=True,
            sentences=str(settings.sentences),
            experts=str(settings.experts),
        )
    return {"rows": rows}


register(
    "reports-by-length",
    by_length,
    LengthSettings(),
    title="Summaries of long reports: full, local and memory-compressed attention, by length",
    minutes="60 minutes on one CPU core",
)
register(
    "reports-by-compression",
    by_compression,
    CompressionSettings(),
    title="The same by compression, and with a loss on all of the text",
    minutes="18 minutes on one CPU core",
)
register(
    "reports-experts",
    with_experts,
    ExpertSettings(checkpoint="reports-experts"),
    title="The five layers of Liu et al. with and without experts, with checkpoint",
    minutes="2 minutes on one CPU core",
)
