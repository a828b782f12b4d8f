"""Kinds of positions on texts longer than those of the training, and what syntax trees add."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from attnbook.mechanisms import (
    LearnedPositions,
    NoPositions,
    RelativeMultiHeadAttention,
    SinusoidalPositions,
)
from attnbook.models import TransformerEncoderModel, paper_parts
from attnbook.models.transformer.syntactic import SyntacticEncoderModel
from attnbook.modules import device_of, temporary_mode
from attnbook.tasks import TOKEN_IDS, Vocabulary
from attnbook.tasks.algorithms.order import OrderBatches
from attnbook.tasks.text.treebank import (
    Tree,
    TreeBatch,
    TreeBatches,
    collate_trees,
    tokens,
    treebank,
)
from attnbook.validate import check_choice, check_range

from ..common import count_parameters, train
from ..registry import register

__all__ = [
    "KINDS",
    "SYNTAX",
    "RandomStart",
    "agreement",
    "answer_loss",
    "extrapolation",
    "order_model",
    "order_scores",
    "tree_model",
    "tree_scores",
]

KINDS = ("none", "sinusoidal", "learned", "relative")
SYNTAX = (
    "sinusoidal",
    "relative",
    "sinusoidal and depth",
    "relative and tree",
    "relative and chain",
)


class RandomStart(nn.Module):
    """Absolute positions with a random offset in training, so that all rows up to ``longest`` are
    trained; in evaluation they start at 0.
    """

    def __init__(self, positions: nn.Module, longest: int) -> None:
        super().__init__()
        self.positions, self.longest = positions, longest

    def forward(self, x: Tensor, offset: int | Tensor = 0) -> Tensor:
        if self.training:
            offset = torch.randint(
                0, self.longest - x.shape[-2] + 1, (x.shape[0],), device=x.device
            )
        return self.positions(x, offset)


def order_model(
    kind: str,
    *,
    letters: int = 10,
    longest: int = 64,
    d_model: int = 32,
    num_heads: int = 4,
    num_layers: int = 2,
    max_distance: int = 8,
) -> TransformerEncoderModel:
    """A small encoder-only Transformer; the kinds differ in their positions alone.

    Args:
        kind: One of :data:`KINDS`, or "sinusoidal" or "learned" with ", random start".
    """
    parts = paper_parts(d_model, num_heads, 2 * d_model, dropout=0.0)
    name, shifted = kind.removesuffix(", random start"), kind.endswith(", random start")

    def learned() -> LearnedPositions:
        positions = LearnedPositions(longest, d_model)
        # as large as sinusoids: the module's initial weights are small, and slow here
        nn.init.normal_(positions.weight, std=0.5**0.5)
        return positions

    makers = {
        "none": NoPositions,
        "relative": NoPositions,
        "sinusoidal": partial(SinusoidalPositions, d_model),
        "learned": learned,
    }
    if name not in makers or (shifted and makers[name] is NoPositions):
        raise ValueError(
            f"kind must be one of {', '.join(KINDS)}, or an absolute one with ', random start', "
            f"got {kind!r}"
        )
    make = (lambda: RandomStart(makers[name](), longest)) if shifted else makers[name]
    parts = dataclasses.replace(parts, positions=make)
    if name == "relative":
        parts = dataclasses.replace(
            parts,
            attention=partial(
                RelativeMultiHeadAttention, d_model, num_heads, max_distance=max_distance
            ),
        )
    return TransformerEncoderModel(letters + 1, parts, num_layers=num_layers, token_ids=TOKEN_IDS)


def answer_loss(model: nn.Module, batch) -> tuple[Tensor, Tensor]:
    """Cross-entropy of the answers of a batch (``tokens``, ``target``, PAD where there is none),
    and their number.
    """
    logits = _logits(model, batch)
    target = batch.target.to(logits.device).flatten()
    total = F.cross_entropy(logits.flatten(0, 1), target, ignore_index=0, reduction="sum")
    return total, (batch.target != 0).sum()


def _logits(model: nn.Module, batch) -> Tensor:
    device = device_of(model)
    inputs = [batch.tokens.to(device)]
    if isinstance(model, SyntacticEncoderModel):
        inputs.append(batch.heads.to(device))
    if isinstance(batch, TreeBatch):
        inputs.append(batch.lengths.to(device))
    return model(*inputs).logits


def _correct(model: nn.Module, batch) -> Tensor:
    with torch.no_grad(), temporary_mode(model, False):
        return _logits(model, batch).argmax(-1).cpu() == batch.target


def order_scores(
    model: nn.Module,
    order: str,
    lengths,
    *,
    letters: int = 10,
    texts: int = 200,
    seed: int = 10_000,
) -> list[float]:
    """The share of right answers at each length, on texts that the training does not draw."""
    scores = []
    for n in lengths:
        batch = OrderBatches(order, n, texts, letters=letters, seed=seed + n).batch(0)
        scores.append(round(float(_correct(model, batch)[batch.target != 0].float().mean()), 4))
    return scores


def _training_record(model: nn.Module, history) -> dict:
    return {
        "loss": round(fmean(history.losses[-20:]), 4),
        "parameters": count_parameters(model),
        "seconds": round(history.seconds, 1),
    }


@dataclass(frozen=True)
class ExtrapolationSettings:
    order: str = "before"  # which letter to give: before or reverse
    kinds: Sequence[str] = KINDS  # kinds to compare
    length: Sequence[int] = (4, 16)  # letters per training text, (least, most)
    lengths: Sequence[int] = (8, 12, 16, 20, 24, 32, 48, 64)  # letters per test text
    batch_size: int = 64  # examples per step
    steps: int = 1800  # training steps
    learning_rate: float = 3e-3  # peak learning rate


def extrapolation(settings: ExtrapolationSettings, *, seed: int = 0, device: str = "cpu") -> dict:
    """Train a model of each kind on short texts, test it on longer ones; the share of right answers
    by length.
    """
    length = check_range("length", settings.length)
    rows = {}
    for kind in settings.kinds:
        torch.manual_seed(seed)
        model = order_model(kind, longest=max(settings.lengths))
        batches = OrderBatches(settings.order, length, settings.batch_size, seed=seed)
        history = train(model, batches, answer_loss, settings, seed=seed, device=device, warmup=50)
        right = order_scores(model, settings.order, settings.lengths)
        rows[kind] = {"right": right, **_training_record(model, history)}
    return {"lengths": list(settings.lengths), "kinds": rows}


def tree_model(
    kind: str,
    vocabulary_size: int,
    *,
    d_model: int = 48,
    num_heads: int = 4,
    num_layers: int = 2,
    max_distance: int = 8,
    max_tree_distance: int = 4,
) -> nn.Module:
    """A small encoder that inflects verbs, without trees or with them; ``kind`` is one of
    :data:`SYNTAX`.
    """
    check_choice("kind", kind, SYNTAX)
    absolute = paper_parts(d_model, num_heads, 2 * d_model, dropout=0.0)
    relative = dataclasses.replace(
        absolute,
        positions=NoPositions,
        attention=partial(
            RelativeMultiHeadAttention, d_model, num_heads, max_distance=max_distance
        ),
    )
    if kind in ("sinusoidal", "relative"):
        return TransformerEncoderModel(
            vocabulary_size,
            absolute if kind == "sinusoidal" else relative,
            num_layers=num_layers,
            tie=False,
            token_ids=TOKEN_IDS,
        )
    if kind == "sinusoidal and depth":
        return SyntacticEncoderModel(
            vocabulary_size,
            absolute,
            num_layers=num_layers,
            max_tree_distance=None,
            token_ids=TOKEN_IDS,
        )
    return SyntacticEncoderModel(
        vocabulary_size,
        relative,
        num_layers=num_layers,
        depth=False,
        max_distance=max_distance,
        max_tree_distance=max_tree_distance,
        token_ids=TOKEN_IDS,
    )


class _ChainBatches(TreeBatches):
    """The same sentences with uninformative trees: the head of each word is the one before it."""

    def batch(self, step: int) -> TreeBatch:
        return _chained(super().batch(step))


def _chained(batch: TreeBatch) -> TreeBatch:
    return batch._replace(heads=(torch.arange(batch.tokens.shape[1]) - 1).expand_as(batch.heads))


def tree_scores(
    model: nn.Module, vocabulary: Vocabulary, trees: list[Tree], *, chain: bool = False
) -> dict:
    """The share of right forms of the main verbs, and of the verbs inside of insertions (None
    where there are none).
    """
    batch = collate_trees(trees, vocabulary)
    right = _correct(model, _chained(batch) if chain else batch)
    inner = batch.target != 0
    rows, main = torch.arange(len(trees)), torch.tensor([tree.main_verb for tree in trees])
    inner[rows, main] = False
    return {
        "main": round(float(right[rows, main].float().mean()), 4),
        "inner": round(float(right[inner].float().mean()), 4) if inner.any() else None,
    }


@dataclass(frozen=True)
class AgreementSettings:
    kinds: Sequence[str] = SYNTAX  # kinds to compare
    insertions: Sequence[int] = (0, 2)  # insertions per training sentence, (least, most)
    tests: Sequence[int] = (0, 1, 2, 3, 4, 6, 8)  # insertions of the test sentences
    sentences: int = 300  # test sentences
    batch_size: int = 32  # examples per step
    steps: int = 800  # training steps
    learning_rate: float = 3e-3  # peak learning rate


def agreement(settings: AgreementSettings, *, seed: int = 0, device: str = "cpu") -> dict:
    """Train on sentences with few insertions, test on more: verbs that agree with their
    subjects, without and with trees.
    """
    vocabulary = Vocabulary(tokens())
    rows = {}
    for kind in settings.kinds:
        torch.manual_seed(seed)
        model, chain = tree_model(kind, len(vocabulary)), kind.endswith("chain")
        batches = (_ChainBatches if chain else TreeBatches)(
            vocabulary, settings.batch_size, seed, insertions=tuple(settings.insertions)
        )
        history = train(model, batches, answer_loss, settings, seed=seed, device=device, warmup=50)
        tests = (
            treebank(settings.sentences, seed=20_000 + k, insertions=k) for k in settings.tests
        )
        scores = [tree_scores(model, vocabulary, trees, chain=chain) for trees in tests]
        rows[kind] = {
            "main": [score["main"] for score in scores],
            "inner": [score["inner"] for score in scores],
            **_training_record(model, history),
        }
    return {"insertions": list(settings.tests), "kinds": rows}


register(
    "positions-before",
    extrapolation,
    ExtrapolationSettings(
        order="before",
        steps=600,
        kinds=(
            "none",
            "sinusoidal",
            "learned",
            "relative",
            "sinusoidal, random start",
            "learned, random start",
        ),
    ),
    title="The letter three places before: kinds of positions on short texts, tested on longer "
    "ones",
    minutes="1 minute on one CPU core",
)
register(
    "positions-reverse",
    extrapolation,
    ExtrapolationSettings(order="reverse", steps=1800),
    title="The text backwards: kinds of positions on short texts, tested on longer ones",
    minutes="2 minutes on one CPU core",
)
register(
    "positions-trees",
    agreement,
    AgreementSettings(),
    title="Verbs that agree with their subjects: positions in the sentence and in the tree",
    minutes="1 minute on one CPU core",
)
