"""A small Transformer that has to translate it and they: which heads look at the antecedent, and
which the gender needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch

from ...mechanisms.layers.residual import PreNorm
from ...models.transformer.encoder_decoder import HeadWeights, Transformer
from ...models.transformer.parts import paper_parts
from ...tasks.sequences.batches import Batch, SequenceBatches, collate
from ...tasks.sequences.vocabulary import PAD
from ...tasks.translation import pronouns
from ...training import cosine_decay, fit, token_loss
from ..registry import register

__all__ = [
    "HIDINGS",
    "KINDS",
    "PronounQueries",
    "ask",
    "attentions",
    "follows",
    "hiding",
    "make_model",
    "measure",
    "pronoun_heads",
    "right_genders",
    "without_head",
]

KINDS = ("encoder", "decoder", "cross")
"""The three attentions of the model: within the source, within the target, from target to
source.
"""


def make_model(task, *, d_model: int = 64, num_heads: int = 4, num_layers: int = 2) -> Transformer:
    """A Transformer for the task, with the norm before each sublayer and no dropout."""
    parts = paper_parts(d_model, num_heads, 4 * d_model, dropout=0.0, residual=PreNorm)
    return Transformer(len(task.source_vocab), len(task.target_vocab), parts, num_layers=num_layers)


class PronounQueries(NamedTuple):
    """Sentences as one batch, and where to look in them; all but ``batch`` are ``(sentences,)``.

    Attributes:
        batch: as :func:`attnbook.tasks.collate` makes it
        looks, antecedent, other: by kind of attention: the position that looks, and those of the
            two nouns that it may look at
        decides: position of the English adjective
        written: step that writes the pronoun
        own, wrong: ids of the right pronoun and of the one of the other gender
    """

    batch: Batch
    looks: dict[str, torch.Tensor]
    antecedent: dict[str, torch.Tensor]
    other: dict[str, torch.Tensor]
    decides: torch.Tensor
    written: torch.Tensor
    own: torch.Tensor
    wrong: torch.Tensor


def ask(task, referring: Sequence[pronouns.PronounSentence], device="cpu") -> PronounQueries:
    """A batch of sentences. In the encoder *it* looks, in the decoder the step that writes the
    French pronoun; the target that it looks at begins with BOS, so a French noun stands one place
    further there."""
    batch = Batch(
        *(
            part.to(device)
            for part in collate([r.pair for r in referring], task.source_vocab, task.target_vocab)
        )
    )

    def numbers(values):
        return torch.tensor(list(values), device=device)

    def french(position, pair):
        return 1 + next(t for t, source in enumerate(pair.alignment) if position in source)

    turned = {"il": "elle", "elle": "il", "ils": "elles", "elles": "ils"}
    said = [r.pair.target[r.written] for r in referring]
    written = numbers(r.written for r in referring)
    nouns = {name: numbers(getattr(r, name) for r in referring) for name in ("antecedent", "other")}
    in_french = {
        name: numbers(french(getattr(r, name), r.pair) for r in referring) for name in nouns
    }
    return PronounQueries(
        batch,
        {"encoder": numbers(r.pronoun for r in referring), "decoder": written, "cross": written},
        *(
            {"encoder": nouns[name], "decoder": in_french[name], "cross": nouns[name]}
            for name in nouns
        ),
        numbers(r.decides for r in referring),
        written,
        numbers(task.target_vocab.encode(said)),
        numbers(task.target_vocab.encode([turned[word] for word in said])),
    )


@torch.no_grad()
def right_genders(model: Transformer, asked: PronounQueries) -> tuple[torch.Tensor, float]:
    """Under teacher forcing: where the right pronoun beats the one of the other gender
    ``(sentences,)``, and the share of all other tokens that are told."""
    logits = model(*asked.batch[:3]).logits
    at = torch.arange(len(asked.own), device=logits.device)
    rows = logits[at, asked.written]
    others = asked.batch.target_out != PAD
    others[at, asked.written] = False
    told = logits.argmax(-1)[others] == asked.batch.target_out[others]
    return rows[at, asked.own] > rows[at, asked.wrong], float(told.float().mean())


def both(right: torch.Tensor) -> float:
    """Share of pairs, two sentences one after the other, with both right."""
    return float(right.view(-1, 2).all(1).float().mean())


@torch.no_grad()
def read(model: Transformer, asked: PronounQueries) -> HeadWeights:
    """The weights of all heads."""
    return model(*asked.batch[:3], need_weights=True).weights


def follows(
    weights: torch.Tensor, looks: torch.Tensor, antecedent: torch.Tensor, other: torch.Tensor
) -> dict[str, torch.Tensor]:
    """What one layer's heads do, ``(h,)`` each, for weights ``(batch, h, m, n)`` and positions
    ``(batch,)``.

    largest: share of sentences whose largest weight lies on the antecedent;  other: on the other
    noun;
    more: share with more weight on the antecedent than on the other noun;  pairs: share of pairs
    with both so.
    """
    at = torch.arange(len(looks), device=weights.device)
    rows = weights[at, :, looks]  # (batch, h, n)
    more = rows[at, :, antecedent] > rows[at, :, other]
    return {
        "largest": (rows.argmax(-1) == antecedent[:, None]).float().mean(0),
        "other": (rows.argmax(-1) == other[:, None]).float().mean(0),
        "more": more.float().mean(0),
        "pairs": more.unflatten(0, (-1, 2)).all(1).float().mean(0),
    }


def attentions(model: Transformer) -> dict[str, list]:
    """The attention modules by kind, first layer to last."""
    return {
        "encoder": [layer.attention for layer in model.encoder.layers],
        "decoder": [layer.attention for layer in model.decoder.layers],
        "cross": [layer.cross_attention for layer in model.decoder.layers],
    }


@contextmanager
def without_head(attention, head: int) -> Iterator[None]:
    """Inside, this head's context is 0 at every position; the others, and the bias, stay as they
    are.
    """
    low = head * attention.d_head_value

    def blank(module, given):
        heads = given[0].clone()
        heads[..., low : low + attention.d_head_value] = 0.0
        return (heads,)

    hook = attention.output_projection.register_forward_pre_hook(blank)
    try:
        yield
    finally:
        hook.remove()


@contextmanager
def hiding(
    model: Transformer, kind: str, rows: torch.Tensor, columns: torch.Tensor
) -> Iterator[None]:
    """Inside, in all layers and heads of one kind of attention, position ``rows[b]`` of sentence b
    may not look at ``columns[b]``.

    Rows and columns are ``(batch,)``; −1 in rows stands for every position but the hidden one
    itself."""

    def narrowed(module, args, kwargs):
        query, mask = args[0], kwargs["mask"]
        m, n = query.shape[1], kwargs["projected"].key.shape[-2]
        at, to = torch.arange(m, device=query.device), torch.arange(n, device=query.device)
        # (batch, m)
        row = torch.where(rows[:, None] < 0, at != columns[:, None], at == rows[:, None])
        cut = row[:, :, None] & (to == columns[:, None])[:, None]
        return args, {**kwargs, "mask": ~cut if mask is None else mask & ~cut}

    with ExitStack() as stack:
        for module in attentions(model)[kind]:
            stack.callback(module.register_forward_pre_hook(narrowed, with_kwargs=True).remove)
        yield


Edge = tuple[
    str, Callable[[PronounQueries], torch.Tensor], Callable[[PronounQueries], torch.Tensor]
]
HIDINGS: dict[str, tuple[Edge, ...]] = {
    "it → antecedent, in the encoder": (
        ("encoder", lambda a: a.looks["encoder"], lambda a: a.antecedent["encoder"]),
    ),
    "step that writes → antecedent, in the source": (
        ("cross", lambda a: a.written, lambda a: a.antecedent["cross"]),
    ),
    "step that writes → antecedent, in the target": (
        ("decoder", lambda a: a.written, lambda a: a.antecedent["decoder"]),
    ),
    "all three": (
        ("encoder", lambda a: a.looks["encoder"], lambda a: a.antecedent["encoder"]),
        ("cross", lambda a: a.written, lambda a: a.antecedent["cross"]),
        ("decoder", lambda a: a.written, lambda a: a.antecedent["decoder"]),
    ),
    "anything else → adjective, in the encoder": (
        ("encoder", lambda a: torch.full_like(a.decides, -1), lambda a: a.decides),
    ),
    "any step → adjective": (
        ("cross", lambda a: torch.full_like(a.decides, -1), lambda a: a.decides),
    ),
    "the adjective from everything": (
        ("encoder", lambda a: torch.full_like(a.decides, -1), lambda a: a.decides),
        ("cross", lambda a: torch.full_like(a.decides, -1), lambda a: a.decides),
    ),
}
"""What is hidden → edges (kind of attention, who looks, at what)."""


def measure(model: Transformer, asked: PronounQueries) -> dict:
    """All that a model is asked: genders right, what every head looks at, what is left without
    it, and without edges.
    """
    model.eval()
    right, told = right_genders(model, asked)
    weights, heads = read(model, asked)._asdict(), {}
    for kind in KINDS:
        tables: dict[str, list] = {}
        for layer, attention in zip(weights[kind], attentions(model)[kind]):
            found = {
                k: _rounded(v)
                for k, v in follows(
                    layer, asked.looks[kind], asked.antecedent[kind], asked.other[kind]
                ).items()
            }
            left = []
            for head in range(attention.num_heads):
                with without_head(attention, head):
                    left.append(right_genders(model, asked))
            found["right_without"] = [round(float(r.float().mean()), 4) for r, _ in left]
            found["told_without"] = [round(t, 4) for _, t in left]
            for key, value in found.items():
                tables.setdefault(key, []).append(value)
        heads[kind] = tables
    hidden = {}
    for name, edges in HIDINGS.items():
        with ExitStack() as stack:
            for kind, rows, columns in edges:
                stack.enter_context(hiding(model, kind, rows(asked), columns(asked)))
            without, rest = right_genders(model, asked)
        hidden[name] = {"right": round(float(without.float().mean()), 4), "told": round(rest, 4)}
    return {
        "right": round(float(right.float().mean()), 4),
        "pairs": round(both(right), 4),
        "told": round(told, 4),
        "heads": heads,
        "hidden": hidden,
    }


def _rounded(values: torch.Tensor) -> list[float]:
    return [round(value, 4) for value in values.tolist()]


@dataclass(frozen=True)
class Settings:
    train: int = 20_000  # training pairs
    test_pairs: int = 500  # test pairs
    d_model: int = 64  # width of the model
    num_heads: int = 4  # attention heads
    num_layers: int = 2  # layers
    batch_size: int = 64  # examples per step
    steps: int = 500  # training steps
    learning_rate: float = 3e-3  # peak learning rate


def pronoun_heads(
    settings: Settings, *, seed: int = 0, device: str = "cpu", folder: Path = Path("results")
) -> dict:
    """Train on sentences whose pronoun needs its antecedent; measure on minimal pairs, before
    and after.
    """
    task = pronouns.pronoun_task(train=settings.train, valid=0, test=0, seed=0)
    pairs = pronouns.minimal_pairs(
        settings.test_pairs, seed=1, without={pair.source for pair in task.train}
    )
    asked = ask(task, [one for two in pairs for one in two], device)
    torch.manual_seed(seed)
    model = make_model(
        task, d_model=settings.d_model, num_heads=settings.num_heads, num_layers=settings.num_layers
    ).to(device)
    before = measure(model, asked)
    history = fit(
        model,
        SequenceBatches(
            task.train, task.source_vocab, task.target_vocab, settings.batch_size, seed=seed
        ),
        token_loss,
        steps=settings.steps,
        learning_rate=settings.learning_rate,
        schedule=cosine_decay(settings.steps, 50),
        seed=seed,
        device=device,
        evaluate=lambda m: float(right_genders(m, asked)[0].float().mean()),
        evaluate_every=max(1, settings.steps // 15),
    )
    return {
        "parameters": sum(p.numel() for p in model.parameters()),
        "untrained": before,
        "trained": measure(model, asked),
        "curve": [[step, round(value, 4)] for step, value in history.evaluations],
        "training_seconds": round(history.seconds, 1),
    }


register(
    "pronoun-heads",
    pronoun_heads,
    Settings(),
    title="A small Transformer that must find the antecedent of it and they: where its heads "
    "look, and what is left without each of them",
    minutes="2 minutes on one CPU core",
)
