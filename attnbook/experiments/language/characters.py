"""Language models of Shakespeare by characters: a decoder-only Transformer, and an LSTM in the
same time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import torch

from ...mechanisms.layers.residual import PreNorm
from ...models.transformer.language_model import TransformerLM
from ...models.transformer.parts import paper_parts
from ...tasks.text import characters
from ...training import cosine_decay, fit, save_model
from ...training.decoding.sampling import sample
from ...training.losses.language_model import language_loss, perplexity
from ..registry import register
from .language_models import MODELS, parameters

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
    """``"transformer"``, or ``"lstm"`` with as many parameters (one layer, characters as vectors of
    half the width).

    Raises:
        ValueError: for another kind.
    """

    def transformer():
        parts = paper_parts(
            d_model, num_heads, 4 * d_model, dropout=dropout, residual=PreNorm, activation="gelu"
        )
        return TransformerLM(vocabulary_size, parts, num_layers=num_layers)

    if kind == "transformer":
        return transformer()
    if kind != "lstm":
        raise ValueError(f"kind must be 'transformer' or 'lstm', got {kind!r}")
    with torch.random.fork_rng(devices=[]):  # only to count
        wanted = parameters(transformer())
    d_embed = d_model // 2

    def size(h):  # embeddings, four gates with two biases each, output
        return vocabulary_size * d_embed + 4 * h * (d_embed + h + 2) + (h + 1) * vocabulary_size

    hidden_size = min(range(8, 4096), key=lambda h: abs(size(h) - wanted))
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
    """Train on the first nine tenths of Tiny Shakespeare; loss on the last tenth, nats a character.

    Windows are drawn at random; the held-out text is read in windows end to end, so early
    characters of a window have little before them, as in training."""
    kept, held = characters.split_text(characters.shakespeare())
    vocabulary = characters.character_vocabulary(kept + held)
    ids, test = characters.encode_text(kept, vocabulary), characters.encode_text(held, vocabulary)
    torch.manual_seed(seed)
    net = make_model(
        settings.model,
        len(vocabulary),
        d_model=settings.d_model,
        num_heads=settings.num_heads,
        num_layers=settings.num_layers,
        dropout=settings.dropout,
    )
    windows = characters.CharacterWindows(test, settings.length, 64, cover=True)
    some = characters.CharacterWindows(
        test[: 64 * settings.length * 4 + 1], settings.length, 64, cover=True
    )
    history = fit(
        net,
        characters.CharacterWindows(ids, settings.length, settings.batch_size, seed),
        language_loss,
        steps=settings.steps,
        optimizer="adamw",
        learning_rate=settings.learning_rate,
        schedule=cosine_decay(settings.steps, settings.warmup),
        seed=seed,
        device=device,
        precision=settings.precision,
        evaluate=lambda m: math.log(perplexity(m, some)),
        evaluate_every=max(1, settings.steps // 20),
    )
    loss = math.log(perplexity(net, windows))
    train_loss = math.log(
        perplexity(
            net, characters.CharacterWindows(ids[: len(test)], settings.length, 64, cover=True)
        )
    )
    if settings.checkpoint:
        save_model(
            net.half(),
            folder / f"{settings.checkpoint}.seed{seed}.safetensors",
            kind=settings.model,
            d_model=str(settings.d_model),
            num_heads=str(settings.num_heads),
            num_layers=str(settings.num_layers),
            characters="".join(vocabulary.tokens[4:]),
        )
        net.float()
    figures = {
        "parameters": parameters(net),
        "vocabulary": len(vocabulary),
        "held_out_loss": round(loss, 4),
        "training_loss": round(train_loss, 4),
        "characters_seen": settings.steps * settings.batch_size * settings.length,
        "curve": [[step, round(value, 4)] for step, value in history.evaluations],
        "training_seconds": round(history.seconds, 1),
    }
    if settings.model == "transformer":
        prompt = characters.encode_text("\n", vocabulary)[None]
        drawn = sample(
            net,
            prompt,
            torch.tensor([1]),
            settings.length,
            temperature=0.8,
            generator=torch.Generator().manual_seed(seed),
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
register(
    "shakespeare-characters-paper",
    shakespeare,
    Settings(
        length=256,
        d_model=384,
        num_heads=6,
        num_layers=6,
        dropout=0.2,
        batch_size=64,
        steps=5000,
        learning_rate=1e-3,
        precision="bf16",
    ),
    title="Tiny Shakespeare by characters, six layers of width 384",
    minutes="10 minutes on one GPU",
    needs="tinyshakespeare",
)
