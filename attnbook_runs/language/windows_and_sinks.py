"""A decoder that reads on beyond its window: what is lost with the first tokens, and what kept
sinks or a learned one give back.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional as F

from attnbook.mechanisms import (
    MultiHeadAttention,
    NoPositions,
    PreNorm,
    RMSNorm,
    RotaryPositions,
    SlidingWindow,
)
from attnbook.models.transformer.language_model import TransformerLM
from attnbook.models.transformer.parts import paper_parts
from attnbook.modules import temporary_mode
from attnbook.tasks import TOKEN_IDS
from attnbook.tasks.endless_batches import GeneratedBatches
from attnbook.tasks.sequences.vocabulary import BOS, SPECIAL
from attnbook.tasks.text import characters
from attnbook.tasks.text.characters import Window
from attnbook.training import language_loss
from attnbook.validate import check_choice

from ..common import select, train, training_figures
from ..registry import register

__all__ = [
    "TEXTS",
    "loss_by_position",
    "make_model",
    "texts_of",
    "weight_on_first",
    "windows_and_sinks",
]

TEXTS = ("shakespeare", "copies")
LETTERS, TRIGGERS = 26, 4
"""Of the letters of the copies, the first few are triggers: after one of them the letter before it
comes again."""


def texts_of(kind: str):
    """Where texts come from: ``(draw, held_out, size)``.

    ``draw(number, length, generator)`` gives texts to learn from, ``held_out(number, length)``
    others, both ``(number, length + 1)`` and with BOS in front, ``size`` is that of the vocabulary.

    ``"shakespeare"``: characters of Tiny Shakespeare. ``"copies"``: letters drawn by chance, but
    after a trigger the letter before it comes again. So one head can do the copying, and has
    nothing to do after all other letters.

    Source: the copies after Guo et al. 2024 ("active-dormant attention heads"), section 2, with
    letters by chance in place of the pairs of a text.
    """
    check_choice("text", kind, TEXTS)
    if kind == "copies":
        return (
            _copies,
            lambda number, length: _copies(number, length, torch.Generator().manual_seed(2**32)),
            len(SPECIAL) + LETTERS,
        )
    text, held = characters.split_text(characters.shakespeare())
    vocabulary = characters.character_vocabulary(text + held)
    ids, test = (characters.encode_text(part, vocabulary) for part in (text, held))

    def windows(source: Tensor, starts: Tensor, length: int) -> Tensor:
        return F.pad(source[starts[:, None] + torch.arange(length)], (1, 0), value=BOS)

    def draw(number: int, length: int, generator: torch.Generator) -> Tensor:
        starts = torch.randint(len(ids) - length, (number,), generator=generator)
        return windows(ids, starts, length)

    def held_out(number: int, length: int) -> Tensor:
        starts = torch.arange(min(number, len(test) // length)) * length
        return windows(test, starts, length)

    return draw, held_out, len(vocabulary)


def _copies(number: int, length: int, generator: torch.Generator) -> Tensor:
    first = len(SPECIAL)
    texts = torch.randint(first, first + LETTERS, (number, length), generator=generator)
    for t in range(2, length):
        again = texts[:, t - 1] < first + TRIGGERS
        texts[:, t] = torch.where(again, texts[:, t - 2], texts[:, t])
    return F.pad(texts, (1, 0), value=BOS)


def make_model(
    size: int,
    *,
    d_model: int = 64,
    num_heads: int = 2,
    num_layers: int = 4,
    learned_sink: bool = False,
    window: int | None = None,
    sinks: int = 0,
) -> TransformerLM:
    """A small decoder with rotary positions, RMSNorm before each sublayer, and the given window."""

    def attention() -> MultiHeadAttention:
        return MultiHeadAttention(
            d_model,
            num_heads,
            bias=False,
            rotary=RotaryPositions(d_model // num_heads),
            learned_sink=learned_sink,
            window=None if window is None else SlidingWindow(window, sinks),
        )

    parts = paper_parts(
        d_model,
        num_heads,
        4 * d_model,
        dropout=0.0,
        residual=PreNorm,
        norm=RMSNorm,
        activation="gelu",
    )
    parts = replace(parts, attention=attention, positions=lambda: NoPositions())
    return TransformerLM(size, parts, num_layers=num_layers, token_ids=TOKEN_IDS)


def loss_by_position(model: TransformerLM, texts: Tensor, batch: int = 8) -> Tensor:
    """The mean loss at each position of texts ``(number, n + 1)``, ``(n,)`` nats.

    All positions are computed at once; a model with a window gives what it gives with its cache,
    token by token."""
    rows = []
    with torch.no_grad(), temporary_mode(model, False):
        for part in texts.split(batch):
            logits = model(part[:, :-1]).logits
            rows.append(F.cross_entropy(logits.mT, part[:, 1:], reduction="none"))
    return torch.cat(rows).mean(0)


def weight_on_first(model: TransformerLM, texts: Tensor) -> dict[str, list[list[float]]]:
    """How much of its weight each head of each layer gives to the first token, and how much to no
    token (a learned sink); means over the second half of texts ``(number, n + 1)``.
    """
    with torch.no_grad(), temporary_mode(model, False):
        weights = model(texts[:, :-1], need_weights=True).weights
    assert weights is not None
    half = texts.shape[1] // 2

    def means(shares: Tensor) -> list[float]:  # (number, heads, queries)
        return [round(float(x), 4) for x in shares[..., half:].double().mean((0, 2))]

    return {
        "first": [means(w[..., 0]) for w in weights],
        "none": [means((1 - w.sum(-1)).clamp(min=0)) for w in weights],
    }


@dataclass(frozen=True)
class Settings:
    text: str = "shakespeare"  # shakespeare or copies
    length: int = 64  # characters of a text in training, after the first token
    d_model: int = 64  # width of the model
    num_heads: int = 2  # attention heads
    num_layers: int = 4  # layers
    batch_size: int = 16  # examples per step
    steps: int = 800  # training steps
    learning_rate: float = 1e-2  # peak learning rate
    times: int = 8  # the texts that are read are so many times as long
    texts: int = 48  # number of these
    windows: tuple[int, ...] = (16, 64)  # positions in the cache; the first is also trained with
    sinks: int = 4  # of these the first ones that are kept


def windows_and_sinks(settings: Settings, *, seed: int = 0) -> dict:
    """Train with the usual softmax and with a learned sink, each with all of a short text in view
    and with a window; read long texts with all in view, with windows, and with kept first tokens.

    Of every way of reading the loss in stretches of ``length``, its mean after the first stretch,
    and how much weight goes to the first token and to none, far beyond the first stretch; of every
    model that share of the weights in texts as it was trained with.
    """
    draw, held_out, size = texts_of(settings.text)
    length, sizes = settings.length, select(settings, "d_model", "num_heads", "num_layers")
    long = held_out(settings.texts, length * settings.times)
    figures: dict = {
        "loss": {},
        "loss_beyond": {},
        "weight": {},
        "weight_beyond": {},
        "training": {},
    }

    def windows(count: int, generator: torch.Generator) -> Window:
        texts = draw(count, length, generator)
        return Window(texts[:, :-1], texts[:, 1:])

    def read(name: str, trained: TransformerLM, **options) -> None:
        model = make_model(size, **sizes, **options)
        model.load_state_dict(trained.state_dict())
        losses = loss_by_position(model, long)
        stretches = losses.view(settings.times, length).mean(1)
        figures["loss"][name] = [round(float(x), 4) for x in stretches]
        figures["loss_beyond"][name] = round(float(losses[length:].mean()), 4)
        figures["weight_beyond"][name] = weight_on_first(model, long[:8])

    near = settings.windows[0]
    for learned, trained_with in itertools.product((False, True), (None, near)):
        torch.manual_seed(seed)
        model = make_model(size, **sizes, learned_sink=learned, window=trained_with)
        history = train(
            model,
            GeneratedBatches(windows, settings.batch_size, seed),
            language_loss,
            settings,
            seed=seed,
            device="cpu",
            warmup=50,
            optimizer="adamw",
        )
        kind = "learned sink" if learned else "softmax"
        if trained_with is not None:
            kind += f" trained in a window of {near}"
        figures["weight"][kind] = weight_on_first(model, long[:, : length + 1])
        figures["training"][kind] = training_figures(model, history)
        if trained_with is not None:
            read(f"{kind}, window {near}", model, learned_sink=learned, window=near)
            continue
        read(f"{kind}, all", model, learned_sink=learned)
        for window in settings.windows:
            read(f"{kind}, window {window}", model, learned_sink=learned, window=window)
            if not learned:
                kept = min(settings.sinks, window // 2)
                name = f"{kind}, {kept} + window {window - kept}"
                read(name, model, window=window - kept, sinks=kept)
    return figures


register(
    "windows-and-sinks",
    windows_and_sinks,
    Settings(),
    title="A window beyond which a text goes on, with sinks and without: Shakespeare by characters",
    minutes="3 minutes on one CPU core",
    needs="tinyshakespeare",
)
register(
    "windows-and-sinks-copies",
    windows_and_sinks,
    Settings(text="copies", d_model=32, num_layers=1, num_heads=1, steps=1500),
    title="The same where one head copies now and then and has nothing to do otherwise",
    minutes="1 minute on one CPU core",
)
