"""Language models of Shakespeare by characters: a decoder-only Transformer, and an LSTM in the
same time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from attnbook.decoding import sample
from attnbook.mechanisms.layers.residual import PreNorm
from attnbook.models.transformer.language_model import TransformerLM
from attnbook.models.transformer.parts import paper_parts
from attnbook.tasks import TOKEN_IDS
from attnbook.tasks.text import characters
from attnbook.training import language_loss, perplexity, save_model
from attnbook.validate import check_choice

from ..common import count_parameters, rounded, select, train, training_figures
from ..registry import register
from .language_models import MODELS, lstm_of_size

__all__ = ["make_model", "shakespeare"]


def make_model(
    kind: str,
    vocabulary_size: int,
    *,
    d_model: int = 128,
    num_heads: int = 4,
    num_layers: int = 4,
    dropout: float = 0.0,
):
    """``"transformer"``, or an ``"lstm"`` with as many parameters (one layer, characters as vectors
    of half the width).
    """
    check_choice("kind", kind, ("transformer", "lstm"))
    parts = paper_parts(
        d_model, num_heads, 4 * d_model, dropout=dropout, residual=PreNorm, activation="gelu"
    )
    if kind == "transformer":
        return TransformerLM(vocabulary_size, parts, num_layers=num_layers, token_ids=TOKEN_IDS)
    with torch.random.fork_rng(devices=[]):  # only to count
        transformer = TransformerLM(
            vocabulary_size, parts, num_layers=num_layers, token_ids=TOKEN_IDS
        )
    d_embed = d_model // 2
    hidden_size = lstm_of_size(
        vocabulary_size, d_embed, count_parameters(transformer), range(8, 4096)
    )
    return MODELS["lstm"](
        vocabulary_size, hidden_size=hidden_size, d_embed=d_embed, dropout=dropout
    )


@dataclass(frozen=True)
class Settings:
    model: str = "transformer"  # transformer or lstm
    length: int = 128  # length of the sequences
    d_model: int = 128  # width of the model
    num_heads: int = 4  # attention heads
    num_layers: int = 4  # layers
    dropout: float = 0.0  # dropout rate
    batch_size: int = 16  # examples per step
    steps: int = 3000  # training steps
    learning_rate: float = 2e-3  # peak learning rate
    warmup: int = 200  # steps until the peak learning rate
    precision: str = "no"  # no, bf16 or fp16
    checkpoint: str | None = None  # name of the saved weights; empty: none are saved


def shakespeare(
    settings: Settings, *, seed: int = 0, device: str = "cpu", folder: Path = Path("results")
) -> dict:
    """Train on the first nine tenths of Tiny Shakespeare; loss on the last tenth, in nats per
    character.

    Windows are drawn at random; the held-out text is read in consecutive windows, so the first
    characters of a window have little context, as in training."""
    train_text, test_text = characters.split_text(characters.shakespeare())
    vocabulary = characters.character_vocabulary(train_text + test_text)
    ids = characters.encode_text(train_text, vocabulary)
    test = characters.encode_text(test_text, vocabulary)
    length = settings.length

    def loss_on(model, text: Tensor) -> float:
        windows = characters.CharacterWindows(text, length, 64, cover=True)
        return math.log(perplexity(model, windows))

    torch.manual_seed(seed)
    sizes = select(settings, "d_model", "num_heads", "num_layers")
    model = make_model(settings.model, len(vocabulary), dropout=settings.dropout, **sizes)
    history = train(
        model,
        characters.CharacterWindows(ids, length, settings.batch_size, seed),
        language_loss,
        settings,
        seed=seed,
        device=device,
        warmup=settings.warmup,
        optimizer="adamw",
        evaluate=lambda m: loss_on(m, test[: 64 * length * 4 + 1]),
        evaluations=20,
    )
    figures = {
        "vocabulary": len(vocabulary),
        "held_out_loss": round(loss_on(model, test), 4),
        "training_loss": round(loss_on(model, ids[: len(test)]), 4),
        "characters_seen": settings.steps * settings.batch_size * length,
        "curve": rounded(history.evaluations),
        **training_figures(model, history),
    }
    if settings.checkpoint:
        save_model(
            model.half(),
            folder / f"{settings.checkpoint}.seed{seed}.safetensors",
            half=False,
            kind=settings.model,
            characters="".join(vocabulary.tokens[4:]),
            **{name: str(size) for name, size in sizes.items()},
        )
        model.float()  # the sample is drawn from the weights that are stored
    if settings.model == "transformer":
        generator = torch.Generator().manual_seed(seed)
        prompt = characters.encode_text("\n", vocabulary)[None]
        drawn = sample(
            model, prompt, torch.tensor([1]), length, temperature=0.8, generator=generator
        )
        figures["sample"] = characters.to_text(drawn[0], vocabulary)
    return figures


register(
    "shakespeare-characters",
    shakespeare,
    Settings(checkpoint="shakespeare-characters"),
    title="Tiny Shakespeare by characters, a decoder-only Transformer",
    minutes="15 minutes on one CPU core",
    needs="tinyshakespeare",
)
register(
    "shakespeare-characters-lstm",
    shakespeare,
    Settings(model="lstm"),
    title="Tiny Shakespeare by characters, an LSTM",
    minutes="15 minutes on one CPU core",
    needs="tinyshakespeare",
)
