"""A small Transformer that has to translate it and they: which heads attend to the antecedent, and
which ones the gender depends on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from attnbook.mechanisms.layers.residual import PreNorm
from attnbook.models.transformer.encoder_decoder import HeadWeights, Transformer
from attnbook.models.transformer.parts import paper_parts
from attnbook.modules import map_tensors
from attnbook.tasks import TOKEN_IDS
from attnbook.tasks.sequences.batches import Batch, collate
from attnbook.tasks.sequences.pairs import Pair
from attnbook.tasks.sequences.task import Task
from attnbook.tasks.sequences.vocabulary import PAD
from attnbook.tasks.translation import pronouns
from attnbook.training import token_loss

from ..common import rounded, select, train, training_figures
from ..registry import register
from .evaluation import training_batches

__all__ = [
    "KINDS",
    "MASKED_EDGES",
    "PronounQueries",
    "attentions",
    "follows",
    "head_weights",
    "make_model",
    "masked_edge",
    "measure",
    "pair_share",
    "pronoun_heads",
    "pronoun_queries",
    "right_genders",
    "without_head",
]

KINDS = ("encoder", "decoder", "cross")
"""The three attentions of the model: within the source, within the target, from target to
source.
"""


def make_model(
    task: Task, *, d_model: int = 64, num_heads: int = 4, num_layers: int = 2
) -> Transformer:
    """A Transformer for the task, with the norm before each sublayer and no dropout."""
    parts = paper_parts(d_model, num_heads, 4 * d_model, dropout=0.0, residual=PreNorm)
    return Transformer(
        len(task.source_vocab),
        len(task.target_vocab),
        parts,
        num_layers=num_layers,
        token_ids=TOKEN_IDS,
    )


class PronounQueries(NamedTuple):
    """Sentences as one batch, with the positions in question; all but ``batch`` are
    ``(sentences,)``.

    Attributes:
        batch: As :func:`attnbook.tasks.collate` makes it.
        query: By kind of attention the position of the query.
        antecedent, other: By kind the positions of the two nouns among the keys.
        adjective: Position of the English adjective.
        step: Decoder step that writes the pronoun.
        right, wrong: Ids of the right pronoun and of the one of the other gender.
    """

    batch: Batch
    query: dict[str, Tensor]
    antecedent: dict[str, Tensor]
    other: dict[str, Tensor]
    adjective: Tensor
    step: Tensor
    right: Tensor
    wrong: Tensor


def pronoun_queries(
    task: Task, sentences: Sequence[pronouns.PronounSentence], device: torch.device | str = "cpu"
) -> PronounQueries:
    """A batch of sentences with the positions of their nouns. The query is *it* in the encoder, and
    in the decoder the step that writes the French pronoun. The decoder reads the target after BOS,
    so positions of French nouns are one larger there."""
    batch = collate([s.pair for s in sentences], task.source_vocab, task.target_vocab)

    def numbers(values: Iterable[int]) -> Tensor:
        return torch.tensor(list(values), device=device)

    def french(position: int, pair: Pair) -> int:
        return 1 + next(t for t, sources in enumerate(pair.alignment or ()) if position in sources)

    def nouns(name: str) -> dict[str, Tensor]:
        english = numbers(getattr(s, name) for s in sentences)
        target = numbers(french(getattr(s, name), s.pair) for s in sentences)
        return {"encoder": english, "decoder": target, "cross": english}

    other_gender = {"il": "elle", "elle": "il", "ils": "elles", "elles": "ils"}
    written = [s.pair.target[s.written] for s in sentences]
    step = numbers(s.written for s in sentences)
    return PronounQueries(
        map_tensors(lambda part: part.to(device), batch),
        {"encoder": numbers(s.pronoun for s in sentences), "decoder": step, "cross": step},
        nouns("antecedent"),
        nouns("other"),
        numbers(s.decides for s in sentences),
        step,
        numbers(task.target_vocab.encode(written)),
        numbers(task.target_vocab.encode([other_gender[word] for word in written])),
    )


@torch.no_grad()
def right_genders(model: Transformer | nn.Module, queries: PronounQueries) -> tuple[Tensor, float]:
    """Under teacher forcing: where the right pronoun beats the one of the other gender
    ``(sentences,)``, and the accuracy of all other tokens."""
    logits = model(*queries.batch[:3]).logits
    rows = torch.arange(len(queries.right), device=logits.device)
    at_step = logits[rows, queries.step]
    others = queries.batch.target_out != PAD
    others[rows, queries.step] = False
    correct = logits.argmax(-1)[others] == queries.batch.target_out[others]
    return at_step[rows, queries.right] > at_step[rows, queries.wrong], float(
        correct.float().mean()
    )


def pair_share(right: Tensor) -> float:
    """Share of pairs, two sentences one after the other, with both right."""
    return float(right.view(-1, 2).all(1).float().mean())


@torch.no_grad()
def head_weights(model: Transformer, queries: PronounQueries) -> HeadWeights:
    """The weights of all heads."""
    return model(*queries.batch[:3], need_weights=True).weights


def follows(weights: Tensor, query: Tensor, antecedent: Tensor, other: Tensor) -> dict[str, Tensor]:
    """How each head of a layer weighs the antecedent at the query, over sentences in pairs.

    Returns:
        ``(h,)`` each. "largest": share of sentences with the largest weight on the antecedent.
        "other": on the other noun. "more": share with more weight on the antecedent than on the
        other noun. "pairs": share of pairs in which both sentences have more.

    Shapes: weights ``(batch, h, m, n)``, positions ``(batch,)``.
    """
    batch = torch.arange(len(query), device=weights.device)
    rows = weights[batch, :, query]  # (batch, h, n)
    more = rows[batch, :, antecedent] > rows[batch, :, other]
    return {
        "largest": (rows.argmax(-1) == antecedent[:, None]).float().mean(0),
        "other": (rows.argmax(-1) == other[:, None]).float().mean(0),
        "more": more.float().mean(0),
        "pairs": more.unflatten(0, (-1, 2)).all(1).float().mean(0),
    }


def attentions(model: Transformer) -> dict[str, list]:
    """The attention modules by kind, first layer to last."""
    encoder: Any = model.encoder.layers
    decoder: Any = model.decoder.layers
    return {
        "encoder": [layer.attention for layer in encoder],
        "decoder": [layer.attention for layer in decoder],
        "cross": [layer.cross_attention for layer in decoder],
    }


@contextmanager
def without_head(attention, head: int) -> Iterator[None]:
    """Within the context, the head's output is 0 at every position; the other heads and the bias
    stay as they are.
    """
    low = head * attention.d_head_value

    def zero(module, inputs):
        heads = inputs[0].clone()
        heads[..., low : low + attention.d_head_value] = 0.0
        return (heads,)

    hook = attention.output_projection.register_forward_pre_hook(zero)
    try:
        yield
    finally:
        hook.remove()


@contextmanager
def masked_edge(model: Transformer, kind: str, rows: Tensor, columns: Tensor) -> Iterator[None]:
    """Within the context, in all layers and heads of one kind of attention, position ``rows[b]`` of
    sentence b may not attend to ``columns[b]``.

    Rows and columns are ``(batch,)``; −1 in rows stands for every position but the masked one
    itself."""

    def add_mask(module, args, kwargs):
        query, mask = args[0], kwargs["mask"]
        m, n = query.shape[1], kwargs["projected"].key.shape[-2]
        i, j = torch.arange(m, device=query.device), torch.arange(n, device=query.device)
        # (batch, m)
        row = torch.where(rows[:, None] < 0, i != columns[:, None], i == rows[:, None])
        edge = row[:, :, None] & (j == columns[:, None])[:, None]
        return args, {**kwargs, "mask": ~edge if mask is None else mask & ~edge}

    with ExitStack() as stack:
        for module in attentions(model)[kind]:
            stack.callback(module.register_forward_pre_hook(add_mask, with_kwargs=True).remove)
        yield


Positions = Callable[[PronounQueries], Tensor]


def _everywhere(queries: PronounQueries) -> Tensor:
    return torch.full_like(queries.adjective, -1)


def _adjective(queries: PronounQueries) -> Tensor:
    return queries.adjective


def _to_antecedent(kind: str) -> tuple[str, Positions, Positions]:
    return kind, lambda queries: queries.query[kind], lambda queries: queries.antecedent[kind]


MASKED_EDGES: dict[str, tuple[tuple[str, Positions, Positions], ...]] = {
    "it → antecedent, in the encoder": (_to_antecedent("encoder"),),
    "adjective → antecedent, in the encoder": (
        ("encoder", _adjective, lambda queries: queries.antecedent["encoder"]),
    ),
    "step that writes → antecedent, in the source": (_to_antecedent("cross"),),
    "step that writes → antecedent, in the target": (_to_antecedent("decoder"),),
    "all three": tuple(map(_to_antecedent, ("encoder", "cross", "decoder"))),
    "anything else → adjective, in the encoder": (("encoder", _everywhere, _adjective),),
    "any step → adjective": (("cross", _everywhere, _adjective),),
    "the adjective from everything": tuple(
        (kind, _everywhere, _adjective) for kind in ("encoder", "cross")
    ),
}
"""Name in the record → edges: kind of attention, query positions, key positions."""


def measure(model: Transformer, queries: PronounQueries) -> dict:
    """Shares of right genders, what every head weighs most, and what remains without each head and
    with masked edges. "told" is the accuracy of the other tokens. Of the encoder two rows are
    looked at, that of the pronoun ("encoder") and that of the adjective at the end ("adjective").
    """
    model.eval()
    right, accuracy = right_genders(model, queries)
    weights, heads = head_weights(model, queries)._asdict(), {}
    for name, kind, query in (
        *((kind, kind, queries.query[kind]) for kind in KINDS),
        ("adjective", "encoder", queries.adjective),
    ):
        tables: dict[str, list] = {}
        positions = query, queries.antecedent[kind], queries.other[kind]
        for layer, attention in zip(weights[kind], attentions(model)[kind]):
            row = {key: _rounded(value) for key, value in follows(layer, *positions).items()}
            ablated = []
            for head in range(attention.num_heads):
                with without_head(attention, head):
                    ablated.append(right_genders(model, queries))
            row["right_without"] = [_mean(genders) for genders, _ in ablated]
            row["told_without"] = [round(rest, 4) for _, rest in ablated]
            for key, value in row.items():
                tables.setdefault(key, []).append(value)
        heads[name] = tables
    hidden = {}
    for name, edges in MASKED_EDGES.items():
        with ExitStack() as stack:
            for kind, rows, columns in edges:
                stack.enter_context(masked_edge(model, kind, rows(queries), columns(queries)))
            genders, rest = right_genders(model, queries)
        hidden[name] = {"right": _mean(genders), "told": round(rest, 4)}
    return {
        "right": _mean(right),
        "pairs": round(pair_share(right), 4),
        "told": round(accuracy, 4),
        "heads": heads,
        "hidden": hidden,
    }


def _mean(right: Tensor) -> float:
    return round(float(right.float().mean()), 4)


def _rounded(values: Tensor) -> list[float]:
    return [round(value, 4) for value in values.tolist()]


@dataclass(frozen=True)
class Settings:
    described: int = 0  # nouns with an adjective of their own; 0: two nouns of different kinds
    train: int = 20_000  # training pairs
    test_pairs: int = 500  # test pairs
    d_model: int = 64  # width of the model
    num_heads: int = 4  # attention heads
    num_layers: int = 2  # layers
    batch_size: int = 64  # examples per step
    steps: int = 500  # training steps
    learning_rate: float = 3e-3  # peak learning rate


def pronoun_heads(settings: Settings, *, seed: int = 0, device: str = "cpu") -> dict:
    """Train on sentences whose pronoun needs its antecedent; measure on minimal pairs, before
    and after.
    """
    task = pronouns.pronoun_task(
        train=settings.train, valid=0, test=0, seed=0, described=settings.described
    )
    pairs = pronouns.minimal_pairs(
        settings.test_pairs,
        seed=1,
        described=settings.described,
        without={pair.source for pair in task.train},
    )
    queries = pronoun_queries(task, [sentence for pair in pairs for sentence in pair], device)
    torch.manual_seed(seed)
    model = make_model(task, **select(settings, "d_model", "num_heads", "num_layers")).to(device)
    untrained = measure(model, queries)
    history = train(
        model,
        training_batches(task, settings.batch_size, seed),
        token_loss,
        settings,
        seed=seed,
        device=device,
        warmup=50,
        evaluate=lambda m: float(right_genders(m, queries)[0].float().mean()),
        evaluations=15,
    )
    return {
        "untrained": untrained,
        "trained": measure(model, queries),
        "curve": rounded(history.evaluations),
        **training_figures(model, history),
    }


register(
    "pronoun-heads",
    pronoun_heads,
    Settings(),
    title="A small Transformer that must find the antecedent of it and they: where its heads "
    "look, and what is left without each of them",
    minutes="2 minutes on one CPU core",
)

register(
    "pronoun-heads-described",
    pronoun_heads,
    Settings(described=5, train=50_000, steps=4000, learning_rate=2e-3),
    title="The same with five nouns, each with one of 32 adjectives, the last of which says one "
    "again: too many to keep them all apart without choosing",
    minutes="20 minutes on one CPU core",
)
