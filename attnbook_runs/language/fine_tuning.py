"""Pretrain a stack on texts, then teach it a task with few labels: frozen, whole, or by LoRA."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from attnbook import TransformerEncoderModel, TransformerLM, add_lora, decoder_parts, document_mask
from attnbook.tasks import TOKEN_IDS
from attnbook.tasks.endless_batches import GeneratedBatches
from attnbook.tasks.text import invented_nouns
from attnbook.tasks.text.invented_nouns import Comparisons, Nouns, NounTexts
from attnbook.tasks.text.masking import Masked, hide
from attnbook.tasks.text.packing import PackedText
from attnbook.training import linear_decay
from attnbook.training.losses.language_model import language_loss
from attnbook.validate import check_choice

from ..common import train, training_figures
from ..registry import register

__all__ = ["METHODS", "fine_tuning", "label_loss", "pretrained", "share_right"]

METHODS = ("scratch", "frozen", "whole", "lora")


@dataclass(frozen=True)
class Settings:
    objective: str = "causal"  # what is predicted in the texts: causal or masked
    num_layers: int = 2  # layers
    d_model: int = 64  # width of the model
    num_heads: int = 4  # attention heads
    batch_size: int = 32  # rows per step, of texts and of questions
    length: int = 64  # tokens in a row of texts
    steps: int = 300  # training steps on texts
    learning_rate: float = 3e-3  # peak learning rate on texts
    labels: tuple[int, ...] = (16, 64, 256, 1024)  # labelled questions
    rates: tuple[float, ...] = (3e-4, 1e-3, 3e-3, 1e-2, 3e-2)  # peak rates on questions
    updates: int = 200  # training steps on questions
    rank: int = 4  # of the adapters
    ranks: tuple[int, ...] = (1, 2, 4, 8, 16)  # of the adapters, at the third number of labels


def make_model(settings: Settings) -> nn.Module:
    """The stack, with embeddings and an output over the vocabulary."""
    kind = TransformerLM if settings.objective == "causal" else TransformerEncoderModel
    d_model = settings.d_model
    parts = decoder_parts(d_model, settings.num_heads, 2 * d_model)
    size = len(invented_nouns.vocabulary())
    return kind(size, parts, num_layers=settings.num_layers, token_ids=TOKEN_IDS)


class _MaskedTexts:
    """The same rows, each with hidden tokens to predict from both sides."""

    def __init__(self, texts: NounTexts) -> None:
        self.texts = texts

    def batch(self, step: int) -> tuple[PackedText, Masked]:
        packed = self.texts.batch(step)
        generator = torch.Generator().manual_seed(step)
        full = torch.full((len(packed.target_in),), packed.target_in.shape[1])
        size = len(invented_nouns.vocabulary())
        return packed, hide(packed.target_in, full, size, generator, 0.3)


def _masked_loss(model: nn.Module, batch: tuple[PackedText, Masked]) -> tuple[Tensor, Tensor]:
    packed, masked = batch
    logits = model(masked.tokens, mask=document_mask(packed.documents)).logits
    counted = masked.target >= 0
    total = F.cross_entropy(logits[counted], masked.target[counted], reduction="sum")
    return total, counted.sum()


def pretrained(settings: Settings, language: Nouns, *, seed: int, device: str = "cpu"):
    """The model after the texts, its history, and how it is scored on a batch of them."""
    check_choice("objective", settings.objective, ("causal", "masked"))
    torch.manual_seed(seed)
    model = make_model(settings)
    texts = NounTexts(language, settings.batch_size, settings.length, seed)
    held = NounTexts(language, 256, settings.length, seed=10_000 + seed)
    loss: Callable = language_loss
    if settings.objective == "masked":
        texts, held, loss = _MaskedTexts(texts), _MaskedTexts(held), _masked_loss
    history = train(model, texts, loss, settings, seed=seed, device=device, optimizer="adamw")

    @torch.no_grad()
    def text_loss(net: nn.Module) -> float:
        total, count = loss(net.eval(), held.batch(0))
        return round(float(total / count), 4)

    return model, history, text_loss


def label_loss(model: nn.Module, batch: Comparisons) -> tuple[Tensor, int]:
    """Cross-entropy of the answer at the last token of a question, the question mark."""
    device = next(model.parameters()).device
    logits = model(batch.tokens.to(device)).logits[:, -1]
    return F.cross_entropy(logits, batch.label.to(device), reduction="sum"), len(logits)


@torch.no_grad()
def share_right(model: nn.Module, questions: Comparisons) -> float:
    """The share of the questions that are answered right."""
    device = next(model.parameters()).device
    answers = model.eval()(questions.tokens.to(device)).logits[:, -1].argmax(-1)
    return round(float((answers.cpu() == questions.label).float().mean()), 4)


def fine_tuning(settings: Settings, *, seed: int = 0, device: str = "cpu") -> dict:
    """Pretrain once, then answer questions about nouns without labels: from how many labels, by
    which method, at the learning rate that answers best about the nouns for validation.
    """
    language = invented_nouns.nouns(seed)
    model, history, text_loss = pretrained(settings, language, seed=seed, device=device)

    def questions(among: tuple[str, ...], count: int, name: str) -> Comparisons:
        return invented_nouns.compare(language, among, count, random.Random(f"{name}/{seed}"))

    validation = questions(language.validation, 500, "validation")
    test = questions(language.test, 1000, "test")

    def tune(method: str, count: int, rate: float, rank: int) -> dict:
        torch.manual_seed(seed)
        net = make_model(settings) if method == "scratch" else copy.deepcopy(model)
        if method == "frozen":
            net.requires_grad_(False)
        if method == "lora":
            add_lora(net, rank)
        words = net.output
        net.output = nn.Linear(settings.d_model, 2)  # the only new layer
        labelled = questions(language.train, count, f"labels/{count}")

        def draw(number: int, generator: torch.Generator) -> Comparisons:
            rows = torch.randint(count, (number,), generator=generator)
            return Comparisons(labelled.tokens[rows], labelled.label[rows])

        train(
            net,
            GeneratedBatches(draw, settings.batch_size, seed),
            label_loss,
            settings,
            seed=seed,
            device=device,
            steps=settings.updates,
            learning_rate=rate,
            optimizer="adamw",
            schedule=linear_decay(settings.updates, 10),
        )
        found = {
            "rate": rate,
            "validation": share_right(net, validation),
            "test": share_right(net, test),
            "labelled": share_right(net, labelled),
            "trained": sum(p.numel() for p in net.parameters() if p.requires_grad),
        }
        net.output = words
        return found | {"text_loss": text_loss(net)}

    def best(method: str, count: int, rank: int) -> dict:
        tried = [tune(method, count, rate, rank) for rate in settings.rates]
        chosen = max(tried, key=lambda row: row["validation"])
        return chosen | {
            "by_rate": [[row["rate"], row["validation"], row["test"]] for row in tried]
        }

    by_labels = {
        method: [best(method, count, settings.rank) for count in settings.labels]
        for method in METHODS
    }
    some = settings.labels[min(2, len(settings.labels) - 1)]
    return {
        "text_loss": text_loss(model),
        "by_labels": by_labels,
        "by_rank": [[rank, best("lora", some, rank)] for rank in settings.ranks],
        **training_figures(model, history),
    }


register(
    "fine-tuning",
    fine_tuning,
    Settings(),
    title="Pretrain, then fine-tune: few labels on new words",
    minutes="5 minutes on one CPU core",
)
register(
    "fine-tuning-masked",
    fine_tuning,
    Settings(objective="masked", steps=1500),
    title="The same after masked pretraining, which predicts three tokens in ten",
    minutes="6 minutes on one CPU core",
)
