"""Language models of Shakespeare by characters: a decoder-only Transformer, and an LSTM in the
same time.
"""

from __future__ import annotations

import math
from pathlib import Path

import torch

from ...mechanisms.layers.residual import PreNorm
from ...models.transformer.language_model import TransformerLM
from ...models.transformer.parts import paper_parts
from ...tasks.text import characters
from ...training import cosine_decay, fit, save_model
from ...training.decoding.sampling import sample
from ...training.losses.language_model import language_loss, perplexity
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


def shakespeare(
    *,
    seed: int = 0,
    device: str = "cpu",
    folder: Path = Path("results"),
    model: str = "transformer",
    length: int = 128,
    d_model: int = 128,
    num_heads: int = 4,
    num_layers: int = 4,
    dropout: float = 0.0,
    batch_size: int = 16,
    steps: int = 3000,
    learning_rate: float = 2e-3,
    warmup: int = 200,
    precision: str = "no",
    checkpoint: str | None = None,
) -> dict:
    """Train on the first nine tenths of Tiny Shakespeare; loss on the last tenth, nats a character.

    Windows are drawn at random; the held-out text is read in windows end to end, so early
    characters of a window have little before them, as in training."""
    kept, held = characters.split_text(characters.shakespeare())
    vocabulary = characters.character_vocabulary(kept + held)
    ids, test = characters.encode_text(kept, vocabulary), characters.encode_text(held, vocabulary)
    torch.manual_seed(seed)
    net = make_model(
        model,
        len(vocabulary),
        d_model=d_model,
        num_heads=num_heads,
        num_layers=num_layers,
        dropout=dropout,
    )
    windows = characters.CharacterWindows(test, length, 64, cover=True)
    some = characters.CharacterWindows(test[: 64 * length * 4 + 1], length, 64, cover=True)
    history = fit(
        net,
        characters.CharacterWindows(ids, length, batch_size, seed),
        language_loss,
        steps=steps,
        optimizer="adamw",
        learning_rate=learning_rate,
        schedule=cosine_decay(steps, warmup),
        seed=seed,
        device=device,
        precision=precision,
        evaluate=lambda m: math.log(perplexity(m, some)),
        evaluate_every=max(1, steps // 20),
    )
    loss = math.log(perplexity(net, windows))
    train_loss = math.log(
        perplexity(net, characters.CharacterWindows(ids[: len(test)], length, 64, cover=True))
    )
    if checkpoint:
        save_model(
            net.half(),
            folder / f"{checkpoint}.seed{seed}.safetensors",
            kind=model,
            d_model=str(d_model),
            num_heads=str(num_heads),
            num_layers=str(num_layers),
            characters="".join(vocabulary.tokens[4:]),
        )
        net.float()
    figures = {
        "parameters": parameters(net),
        "vocabulary": len(vocabulary),
        "held_out_loss": round(loss, 4),
        "training_loss": round(train_loss, 4),
        "characters_seen": steps * batch_size * length,
        "curve": [[step, round(value, 4)] for step, value in history.evaluations],
        "training_seconds": round(history.seconds, 1),
    }
    if model == "transformer":
        prompt = characters.encode_text("\n", vocabulary)[None]
        drawn = sample(
            net,
            prompt,
            torch.tensor([1]),
            length,
            temperature=0.8,
            generator=torch.Generator().manual_seed(seed),
        )
        figures["sample"] = characters.to_text(drawn[0], vocabulary)
    return figures
