"""Induction heads: a model of attention alone learns to go on with what stood there before."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise

import torch
from torch import Tensor
from torch.nn import functional as F

from attnbook.mechanisms import MultiHeadAttention, NoPositions, PreNorm, RotaryPositions
from attnbook.models.transformer.language_model import TransformerLM
from attnbook.models.transformer.parts import attention_only, paper_parts
from attnbook.tasks import TOKEN_IDS
from attnbook.tasks.algorithms.repeats import FIRST, RepeatBatches, Repeats
from attnbook.training import language_loss
from attnbook.training.evaluation.heads import (
    ablate_heads,
    patch_heads,
    prefix_matching_score,
    previous_token_score,
    record_heads,
    swap_heads,
)

from ..common import select, train, training_figures
from ..registry import register

__all__ = ["induction_heads", "make_model", "patching", "repeated_loss"]


@dataclass(frozen=True)
class Settings:
    num_layers: int = 2  # layers
    d_model: int = 32  # width of the model
    num_heads: int = 2  # attention heads
    symbols: int = 60  # different symbols
    length: int = 32  # length of the sequences
    shortest: int = 8  # shortest stretch that repeats
    longest: int = 16  # longest stretch that repeats
    batch_size: int = 32  # examples per step
    steps: int = 800  # training steps
    learning_rate: float = 2e-3  # learning rate
    decay: bool = False  # whether the learning rate falls
    every: int = 20  # steps between evaluations


def make_model(symbols: int, *, num_layers: int, d_model: int, num_heads: int) -> TransformerLM:
    """Attention alone, with rotary positions."""
    parts = paper_parts(d_model, num_heads, dropout=0.0, residual=PreNorm)
    rotary = RotaryPositions(d_model // num_heads)
    attention = partial(MultiHeadAttention, d_model, num_heads, rotary=rotary)
    parts = attention_only(replace(parts, attention=attention, positions=NoPositions))
    return TransformerLM(
        FIRST + symbols, parts, num_layers=num_layers, tie=False, token_ids=TOKEN_IDS
    )


def _losses(logits: Tensor, batch: Repeats) -> Tensor:
    return F.cross_entropy(logits.transpose(1, 2), batch.target_out, reduction="none")


@torch.no_grad()
def repeated_loss(model: TransformerLM, batch: Repeats) -> tuple[float, float]:
    """The mean loss, in nats, where the text repeats, and where it does not."""
    losses, repeated = _losses(model.eval()(batch.target_in).logits, batch), batch.is_repeated()
    return float(losses[repeated].mean()), float(losses[~repeated].mean())


@torch.no_grad()
def patching(model: TransformerLM, batch: Repeats, symbols: int) -> dict:
    """How far each head alone, ``"share"[layer][head]``, moves the answer of one text to that of
    another; and ``"difference"``, how many nats the whole text moves it.

    The other text has another symbol at one place. When the text comes to that place again, both
    are read to the symbol before it. Patched with what the head found in the other text at that
    last position, the difference of the logits of the two answers goes the share
    ``(patched − own) / (other − own)`` of the way.
    """
    model.eval()
    rows = torch.arange(len(batch.period))
    end = batch.period + 3  # the last position read; the answer stands at 4, and one period later
    own = batch.target_in[:, : int(end.max()) + 1]
    place = torch.arange(own.shape[1])
    again = (place - 4) % batch.period[:, None] == 0
    answer = own[:, 4]
    used = F.one_hot(batch.target_in - FIRST, symbols).any(1)
    other_answer = FIRST + (~used).int().argmax(1)  # a symbol that the text does not have
    other = torch.where(again & (place >= 4), other_answer[:, None], own)

    def difference(tokens: Tensor) -> Tensor:
        logits = model(tokens).logits[rows, end]
        return logits[rows, other_answer] - logits[rows, answer]

    attentions = [layer.attention for layer in model.stack.layers]
    clean = difference(own)
    with ExitStack() as recording:
        calls = [recording.enter_context(record_heads(attention)) for attention in attentions]
        whole = difference(other) - clean
    with ExitStack() as recording:
        calls_own = [recording.enter_context(record_heads(attention)) for attention in attentions]
        difference(own)
    moved = []
    for attention, [found], [kept] in zip(attentions, calls, calls_own):
        at_end = kept.clone()
        at_end[rows, end] = found[rows, end]
        moved.append([])
        for head in range(attention.num_heads):
            with patch_heads(attention, at_end, head):
                moved[-1].append(round(float((difference(own) - clean).sum() / whole.sum()), 3))
    return {"difference": round(float(whole.mean()), 3), "share": moved}


def _scores(score, model: TransformerLM, batch: Repeats) -> list[list[float]]:
    """A score of each head, ``[layer][head]``."""
    with torch.no_grad():
        weights = model.eval()(batch.target_in, need_weights=True).weights
    return [[round(float(x), 3) for x in score(layer)] for layer in weights]


def _drop(curve: list[list[float]]) -> list[int]:
    """Between which evaluations the loss goes from a tenth to nine tenths of its way down."""
    highest, lowest = curve[0][1], min(point[1] for point in curve)
    marks = [highest - share * (highest - lowest) for share in (0.1, 0.9)]
    return [int(next(step for step, loss, *_ in curve if loss <= mark)) for mark in marks]


def induction_heads(settings: Settings, *, seed: int = 0) -> dict:
    """Train on texts that repeat, and watch: the loss where they do, the scores of each head at
    each evaluation; at the end what the model is without each head.
    """
    sizes = select(settings, "num_layers", "d_model", "num_heads")
    period = (settings.shortest, settings.longest)
    shape = settings.length, period, settings.symbols
    torch.manual_seed(seed)
    model = make_model(settings.symbols, **sizes)
    held = RepeatBatches(*shape, 256, seed=1_000_000 + seed).batch(0)
    curve, matching, previous = [], [], []

    def look(model: TransformerLM, step: int) -> float:
        repeated, new = repeated_loss(model, held)
        curve.append([step, round(repeated, 4), round(new, 4)])
        matching.append(_scores(lambda w: prefix_matching_score(w, held.target_in), model, held))
        previous.append(_scores(previous_token_score, model, held))
        return repeated

    look(model, 0)
    history = train(
        model,
        RepeatBatches(*shape, settings.batch_size, seed),
        language_loss,
        settings,
        seed=seed,
        device="cpu",
        optimizer="adamw",
        evaluate=lambda m: look(m, curve[-1][0] + settings.every),
        evaluate_every=settings.every,
    )
    attentions = [layer.attention for layer in model.stack.layers]

    def without(attention, *heads: int) -> float:
        with ablate_heads(attention, *heads):
            return round(repeated_loss(model, held)[0], 4)

    def swapped(attention, first: int, second: int) -> float:
        with swap_heads(attention, first, second):
            return round(repeated_loss(model, held)[0], 4)

    heads = range(settings.num_heads)
    return {
        "curve": curve,
        "prefix_matching": matching,
        "previous_token": previous,
        "repeated_loss": curve[-1][1],
        "new_loss": curve[-1][2],
        "drop": _drop(curve),
        "without_head": [[without(a, head) for head in heads] for a in attentions],
        "without_layer": [without(a, *heads) for a in attentions],
        "swapped": [[swapped(a, *pair) for pair in pairwise(heads)] for a in attentions],
        "patching": patching(model, held, settings.symbols),
        **training_figures(model, history),
    }


register(
    "induction-heads",
    induction_heads,
    Settings(),
    title="Induction heads in two layers of attention alone",
    minutes="1 minute on one CPU core",
)
register(
    "induction-heads-one-layer",
    induction_heads,
    Settings(num_layers=1),
    title="The same with one layer, which cannot",
    minutes="1 minute on one CPU core",
)
