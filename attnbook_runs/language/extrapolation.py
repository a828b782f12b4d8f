"""Reading further than in the training: a small language model with every way of telling positions,
trained at one length and read at twice and four times as much.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import partial

import torch
from torch import Tensor, nn

from attnbook.mechanisms.attention.multi_head import MultiHeadAttention
from attnbook.mechanisms.layers.residual import PreNorm
from attnbook.mechanisms.positions.absolute import LearnedPositions, NoPositions
from attnbook.mechanisms.positions.alibi import ALiBi
from attnbook.mechanisms.positions.relative import RelativeMultiHeadAttention
from attnbook.mechanisms.positions.rotary import RotaryPositions
from attnbook.mechanisms.positions.rotary_scaling import NTK, Interpolation, RotaryScaling, YaRN
from attnbook.models.transformer.language_model import TransformerLM
from attnbook.models.transformer.parts import Parts, paper_parts
from attnbook.modules import device_of
from attnbook.tasks import TOKEN_IDS
from attnbook.tasks.text import facts
from attnbook.training import language_loss
from attnbook.validate import check_choice

from ..common import rounded, train, training_figures
from ..registry import register

__all__ = [
    "POSITIONS",
    "SCALINGS",
    "extrapolation",
    "losses",
    "make_model",
    "scale",
    "weights_by_distance",
]

POSITIONS = ("sinusoids", "learned", "relative", "rotary", "alibi", "none")
"""Ways of telling positions: added to the embeddings, as vectors of a distance (Shaw et al. 2018),
by rotation, as a penalty on the distance, or by the causal mask alone."""

SCALINGS: dict[str, Callable[[float, int], RotaryScaling | None]] = {
    "as trained": lambda factor, length: None,
    "interpolation": lambda factor, length: Interpolation(factor),
    "ntk": lambda factor, length: NTK(factor),
    "yarn": lambda factor, length: YaRN(factor, length),
}
"""What a trained rotary model may read longer texts with."""


@dataclass(frozen=True)
class Settings:
    positions: str = "rotary"  # how positions are told: one of POSITIONS
    length: int = 64  # words of a text in the training
    factors: tuple[int, ...] = (1, 2, 4)  # lengths at which it is read, in lengths of the training
    d_model: int = 64  # width of the model
    num_heads: int = 4  # attention heads
    num_layers: int = 2  # layers
    batch_size: int = 32  # texts per step
    steps: int = 2000  # training steps
    learning_rate: float = 4e-3  # peak learning rate
    warmup: int = 100  # steps until the peak learning rate
    updates: int = 50  # further steps on the longest texts, of rotary models
    update_rate: float = 1e-3  # learning rate of these
    texts: int = 256  # texts on which the loss is measured


def make_model(settings: Settings) -> TransformerLM:
    """The language model; all kinds are of one size but for what tells the positions."""
    d, heads, length = settings.d_model, settings.num_heads, settings.length
    parts = paper_parts(d, heads, 4 * d, dropout=0.0, residual=PreNorm, activation="gelu")
    heads_of = partial(MultiHeadAttention, d, heads)
    nothing_added = replace(parts, positions=NoPositions)
    kinds: dict[str, Parts] = {
        "sinusoids": parts,
        "learned": replace(parts, positions=lambda: LearnedPositions(length, d)),
        "relative": replace(
            nothing_added,
            attention=partial(RelativeMultiHeadAttention, d, heads, max_distance=length // 4),
        ),
        "rotary": replace(
            nothing_added, attention=lambda: heads_of(rotary=RotaryPositions(d // heads))
        ),
        "alibi": replace(nothing_added, attention=lambda: heads_of(score=ALiBi(heads))),
        "none": nothing_added,
    }
    chosen = kinds[check_choice("positions", settings.positions, POSITIONS)]
    return TransformerLM(
        len(facts.vocabulary()),
        chosen,
        num_layers=settings.num_layers,
        tie=False,
        token_ids=TOKEN_IDS,
    )


def scale(model: TransformerLM, scaling: RotaryScaling | None) -> TransformerLM:
    """A copy of a rotary model that reads with other frequencies."""
    model = copy.deepcopy(model)
    for layer in model.stack.layers:
        old = layer.attention.rotary
        layer.attention.rotary = RotaryPositions(old.d_head, base=old.base, scaling=scaling)
    return model


@torch.no_grad()
def losses(model: nn.Module, batch: facts.Facts, rows: int = 32) -> Tensor:
    """The loss at every word of a batch, ``(B, n)``, in nats."""
    device = device_of(model)
    found = []
    for inputs, targets in zip(batch.target_in.split(rows), batch.target_out.split(rows)):
        logits = model(inputs.to(device)).logits.log_softmax(-1)
        found.append(-logits.gather(-1, targets.to(device).unsqueeze(-1)).squeeze(-1).cpu())
    return torch.cat(found)


def _figures(model: nn.Module, batch: facts.Facts, length: int) -> dict:
    """Mean losses of texts: all words, those of the last stretch as long as the training, and there
    the qualities that were told."""
    found, last = losses(model, batch), slice(-length, None)
    told = batch.told[:, last]
    return {
        "loss": round(found.mean().item(), 4),
        "last": round(found[:, last].mean().item(), 4),
        "told": round(found[:, last][told].mean().item(), 4),
        "by_position": [
            round(block.mean().item(), 4) for block in found.split(max(1, length // 4), dim=1)
        ],
    }


@torch.no_grad()
def weights_by_distance(model: TransformerLM, tokens: Tensor) -> Tensor:
    """How far back a model looks: the mean weight of the last of n words at each distance from
    itself, 0 to n − 1, ``(layers, heads, n)``, of texts ``(B, n)``.
    """
    weights = model(tokens.to(device_of(model)), need_weights=True).weights or ()
    return torch.stack([w[:, :, -1].mean(0).flip(-1) for w in weights]).cpu()


def extrapolation(settings: Settings, *, seed: int = 0, device: str = "cpu") -> dict:
    """Train at one length; the loss at each length, and of rotary models with other frequencies,
    before and after a few updates.

    The texts are those of :mod:`attnbook.tasks.text.facts`; the least possible loss of each length
    is recorded beside. Every model reads the same texts.

    Returns:
        "lengths": for each length that the model is defined at, loss, "last" and "told" over the
        last stretch as long as the training, and loss by position, a quarter of the trained length
        each. "weights_by_distance" at the trained length. "curve": the loss at what was told, over
        the training. "scaled": for rotary models, the same at longer texts by the name of the
        scaling, with the factor of the length, and "updated" after a few updates at the longest.
    """
    length = settings.length
    tests = {
        f: facts.FactBatches(f * length, settings.texts, seed=10_007).batch(0)
        for f in sorted({1, *settings.factors})
    }
    longest = max(settings.factors)
    torch.manual_seed(seed)
    model = make_model(settings)
    history = train(
        model,
        facts.FactBatches(length, settings.batch_size, seed),
        language_loss,
        settings,
        seed=seed,
        device=device,
        warmup=settings.warmup,
        optimizer="adamw",
        evaluate=lambda m: _figures(m, tests[1], length)["told"],
        evaluations=10,
    )
    figures = {
        "least": {
            str(f * length): {
                "loss": round(test.least.mean().item(), 4),
                "last": round(test.least[:, -length:].mean().item(), 4),
                "told": round(test.least[:, -length:][test.told[:, -length:]].mean().item(), 4),
            }
            for f, test in tests.items()
        },
        "lengths": {
            str(f * length): _figures(model, test, length)
            for f, test in tests.items()
            if f == 1 or settings.positions != "learned"
        },
        "weights_by_distance": [
            [[round(w, 4) for w in head] for head in layer]
            for layer in weights_by_distance(model, tests[1].target_in).tolist()
        ],
        "curve": rounded(history.evaluations),
        **training_figures(model, history),
    }
    if settings.positions == "rotary":
        figures["scaled"] = {
            name: _scaled(model, make, settings, tests, longest, seed, device)
            for name, make in SCALINGS.items()
        }
    return figures


def _scaled(model, make, settings, tests, longest, seed, device) -> dict:
    """A rotary model with a scaling, before and after a few updates on the longest texts."""
    length = settings.length
    before = {
        str(f * length): _figures(scale(model, make(float(f), length)), test, length)
        for f, test in tests.items()
        if f > 1
    }
    updated = scale(model, make(float(longest), length))
    train(
        updated,
        facts.FactBatches(longest * length, max(1, settings.batch_size // longest), seed + 1),
        language_loss,
        settings,
        seed=seed,
        device=device,
        warmup=5,
        optimizer="adamw",
        steps=settings.updates,
        learning_rate=settings.update_rate,
    )
    after = {str(f * length): _figures(updated, test, length) for f, test in tests.items()}
    return {"before": before, "updated": after}


@dataclass(frozen=True)
class AllSettings(Settings):
    positions: str = "all"  # every one of POSITIONS
    seeds: int = 3  # trainings of each, with seeds from the given one on


def every_kind(settings: AllSettings, *, seed: int = 0, device: str = "cpu") -> dict:
    """:func:`extrapolation` for every way of telling positions and several seeds: of each name a
    list with the figures of a seed."""
    shared = {f.name: getattr(settings, f.name) for f in fields(Settings)}
    return {
        kind: [
            extrapolation(Settings(**{**shared, "positions": kind}), seed=run, device=device)
            for run in range(seed, seed + settings.seeds)
        ]
        for kind in POSITIONS
    }


register(
    "extrapolation",
    every_kind,
    AllSettings(),
    title="Trained at one length and read at four times: every kind, three seeds",
    minutes="35 minutes on one CPU core",
)
