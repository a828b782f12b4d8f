"""The Transformer on Multi30k: as in the paper on a GPU, and small, in the time of chapter 2's
model, on one CPU core.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from ...mechanisms.layers.residual import PostNorm, PreNorm
from ...models import Bahdanau
from ...models.transformer.encoder_decoder import Transformer
from ...models.transformer.parts import paper_parts
from ...tasks.sequences.batches import SequenceBatches, collate
from ...tasks.text import subwords
from ...training import average_checkpoints, fit, inverse_sqrt, save_model, token_loss
from ..registry import register
from .real_sentences import bleu_figures, read_multi30k, validation_loss

__all__ = ["alternating", "multi30k", "paper_adam"]


def paper_adam(learning_rate: float):
    """The optimizer of the paper as :func:`fit` wants it: Adam with β₁ 0.9, β₂ 0.98, ε 10⁻⁹
    (section 5.3).
    """
    return lambda parameters: torch.optim.Adam(
        parameters, lr=learning_rate, betas=(0.9, 0.98), eps=1e-9
    )


@dataclass(frozen=True)
class Settings:
    target: str = "de"  # target language
    pieces: int = 10_000  # size of the subword vocabulary
    joint: bool = True  # one vocabulary for both languages
    d_model: int = 256  # width of the model
    num_heads: int = 4  # attention heads
    d_feed_forward: int = 1024  # width of the feed-forward layers
    num_layers: int = 4  # layers
    pre_norm: bool = False  # norm before each sublayer, else after it
    dropout: float = 0.3  # dropout rate
    label_smoothing: float = 0.1  # mass that label smoothing spreads
    batch_size: int = 256  # examples per step
    steps: int = 10_000  # training steps
    learning_rate: float = 1e-3  # peak learning rate
    warmup: int = 2000  # steps until the peak learning rate
    averaged: int = 5  # checkpoints in the final average
    save_every: int = 250  # steps between two checkpoints of the average
    precision: str = "no"  # no, bf16 or fp16
    rival: dict[str, Any] | None = None  # settings of the model to compare with
    checkpoint: str = ""  # name of the saved weights; empty: none are saved


def multi30k(
    settings: Settings, *, seed: int = 0, device: str = "cpu", folder: Path = Path("results")
) -> dict:
    """Train a Transformer on Multi30k English to ``target``; BLEU on the test of 2016 of the mean
    of its last checkpoints.

    Args:
        joint: one set of pieces for both languages, and one matrix for both embeddings and the
            output, as in the paper.
        learning_rate: the largest, at step ``warmup``; after it the rate falls with the root of the
            step.
        averaged, save_every: how many checkpoints are averaged, and the steps between them.
        rival: ``steps``, ``batch_size``, ``pieces``, ``d_embed``, ``hidden_size``, ``dropout`` of a
            run of chapter 2's model; before training both are timed in alternating blocks, on the
            same sentences.
        checkpoint: name of the stored weights; none are stored when empty.
    """
    parts, pieces_in, pieces_out = read_multi30k(settings.target, settings.pieces, settings.joint)
    train = subwords.to_pairs(parts["train"], pieces_in, pieces_out, 80)
    batches = SequenceBatches(
        train, pieces_in.vocab, pieces_out.vocab, settings.batch_size, seed=seed
    )

    def make() -> Transformer:
        torch.manual_seed(seed)
        made = paper_parts(
            settings.d_model,
            settings.num_heads,
            settings.d_feed_forward,
            dropout=settings.dropout,
            residual=PreNorm if settings.pre_norm else PostNorm,
        )
        return Transformer(
            len(pieces_in),
            len(pieces_out),
            made,
            num_layers=settings.num_layers,
            tie="all" if settings.joint else "output",
        )

    def loss(model, batch):
        return token_loss(model, batch, label_smoothing=settings.label_smoothing)

    figures = {}
    if settings.rival is not None:
        figures["equal_time"] = _equal_time(
            make(),
            settings.rival,
            parts["train"],
            settings.target,
            settings.batch_size,
            pieces_in,
            pieces_out,
            loss,
            settings.steps,
            seed,
        )
    net = make()
    evaluate = validation_loss(
        subwords.to_pairs(parts["valid"], pieces_in, pieces_out), pieces_in, pieces_out
    )
    with tempfile.TemporaryDirectory() as kept:
        began = time.process_time()
        history = fit(
            net,
            batches,
            loss,
            steps=settings.steps,
            learning_rate=settings.learning_rate,
            optimizer=paper_adam(settings.learning_rate),
            schedule=inverse_sqrt(settings.warmup),
            seed=seed,
            device=device,
            precision=settings.precision,
            evaluate=evaluate,
            evaluate_every=max(1, settings.steps // 12),
            checkpoint_dir=kept,
            save_every=settings.save_every,
            keep_checkpoints=settings.averaged,
        )
        cpu_seconds = time.process_time() - began
        average_checkpoints(net, kept)
    net.eval()
    if settings.checkpoint:  # what is measured is what is stored
        path = save_model(
            net,
            folder / f"{settings.checkpoint}.seed{seed}.safetensors",
            half=True,
            data="Multi30k, task 1",
        )
        from ...training import load_model_weights

        load_model_weights(net, path)
        for name, made in (
            (("joint", pieces_in),)
            if settings.joint
            else (("en", pieces_in), (settings.target, pieces_out))
        ):
            made.save(folder / f"{settings.checkpoint}.seed{seed}.{name}.json")
    return {
        **figures,
        "parameters": sum(p.numel() for p in net.parameters()),
        "validation_loss": [[step, round(value, 4)] for step, value in history.evaluations],
        "validation_loss_averaged": round(evaluate(net), 4),
        "training_seconds": round(history.seconds, 1),
        "training_cpu_seconds": round(cpu_seconds, 1),
        **bleu_figures(net, parts["test2016"], pieces_in, pieces_out),
    }


def alternating(models: dict, rounds: list[dict], loss) -> dict[str, list[float]]:
    """CPU seconds a step of training, one number a round, for models that take turns.

    Args:
        models: name → model.
        rounds: for each round name → the batches that the model of this name trains on, as many for
            each.

    Whatever else the machine does meets all models alike. The weights move; give models that nobody
    needs any more."""
    optimizers = {
        name: torch.optim.Adam(model.parameters(), lr=1e-4) for name, model in models.items()
    }
    spent: dict[str, list[float]] = {name: [] for name in models}
    for batches in rounds:
        for name, model in models.items():
            model.train()
            began = time.process_time()
            for batch in batches[name]:
                optimizers[name].zero_grad(set_to_none=True)
                total, count = loss(model, batch)
                (total / count).backward()
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizers[name].step()
            spent[name].append((time.process_time() - began) / len(batches[name]))
    return spent


def _equal_time(
    ours,
    rival: dict,
    sentences,
    target,
    batch_size,
    pieces_in,
    pieces_out,
    loss,
    steps,
    seed,
    *,
    rounds=13,
    block=4,
) -> dict:
    """How many steps of ours take as long as the rival's run: from the median ratio of the rounds,
    the first left out.

    The rival gets batches of its own size, and ours the same sentences, cut into batches of our
    size."""
    _, theirs_in, theirs_out = read_multi30k(target, rival["pieces"])
    sizes = {name: rival[name] for name in ("d_embed", "hidden_size", "dropout")}
    models = {"transformer": ours, "rival": Bahdanau(len(theirs_in), len(theirs_out), **sizes)}
    own, their = (
        subwords.to_pairs(sentences, pieces_in, pieces_out),
        subwords.to_pairs(sentences, theirs_in, theirs_out),
    )
    batches = SequenceBatches(
        their, theirs_in.vocab, theirs_out.vocab, rival["batch_size"], seed=seed
    )
    sets = []
    for r in range(rounds):
        chosen = [batches.indices(r * block + k) for k in range(block)]
        cut = [
            sorted(some, key=lambda i: len(own[i].source))[at : at + batch_size]
            for some in chosen
            for at in range(0, len(some), batch_size)
        ]
        sets.append(
            {
                "rival": [batches.batch(r * block + k) for k in range(block)],
                "transformer": [
                    collate([own[i] for i in some], pieces_in.vocab, pieces_out.vocab)
                    for some in cut
                ],
            }
        )
    spent = alternating(models, sets, loss)
    ratios = [b / a for a, b in zip(spent["transformer"][1:], spent["rival"][1:])]
    ratio = statistics.median(ratios)
    return {
        "milliseconds_a_step": {
            name: round(1000 * statistics.median(times[1:]), 1) for name, times in spent.items()
        },
        "ratio": round(ratio, 3),
        "ratio_least_and_largest": [round(min(ratios), 3), round(max(ratios), 3)],
        "rival_steps": rival["steps"],
        "steps_of_equal_time": round(ratio * rival["steps"]),
        "share_of_the_time": round(steps / (ratio * rival["steps"]), 3),
    }


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
            rival=dict(
                steps=1500, batch_size=128, pieces=4000, d_embed=128, hidden_size=192, dropout=0.2
            ),
            checkpoint=f"multi30k-en-{_language}-transformer-small",
        ),
        title="The same, as long as the small run of chapter 2's model on one CPU core, with its "
        "checkpoint",
        minutes="20 minutes on one CPU core",
        needs="multi30k",
    )
