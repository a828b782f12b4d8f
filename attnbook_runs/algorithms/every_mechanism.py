"""Every mechanism of the book on one task: pairs are told, and each key asks for its value."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from attnbook.mechanisms import LinearAttention, PreNorm, RMSNorm, unit_features
from attnbook.models import (
    NTM,
    SNAIL,
    Bahdanau,
    Luong,
    PointerNetwork,
    Seq2Seq,
    Transformer,
    TransformerLM,
    paper_parts,
)
from attnbook.models.snail.network import AttentionPart, TCPart
from attnbook.modules import device_of
from attnbook.tasks import TOKEN_IDS
from attnbook.tasks.algorithms.multi_query_recall import FIRST, Recall, RecallBatches, draw
from attnbook.tasks.sequences.vocabulary import BOS
from attnbook.validate import check_choice

from ..common import train, training_figures
from ..registry import register
from .associative_recall import Neighbour

__all__ = ["ALPHABET", "CONTENDERS", "Contender", "kept", "question", "question_loss", "recalled"]

ALPHABET = {"keys": 32, "values": 16}
SIZE = FIRST + sum(ALPHABET.values())
WIDTH = 32
"""Of embeddings and states in every model."""


class Question(NamedTuple):
    """source ``(B, 2N)``: the pairs; asked ``(B, N)``: the keys once more; answer ``(B, N)``."""

    source: Tensor
    asked: Tensor
    answer: Tensor


def question(batch: Recall) -> Question:
    """The list of a batch that was told once, what is asked, and the answers."""
    told = 2 * batch.tokens.shape[1] // 3
    return Question(batch.tokens[:, :told], batch.tokens[:, told:], batch.target[:, told:])


def _lengths(source: Tensor) -> Tensor:
    return torch.full((len(source),), source.shape[1])


def _decoded(model: nn.Module, source: Tensor, asked: Tensor) -> Tensor:
    """The decoder reads a key and answers."""
    return model(source, _lengths(source), asked).logits


def _decoded_late(model: nn.Module, source: Tensor, asked: Tensor) -> Tensor:
    """The decoder reads a key, then a blank, and answers: Bahdanau's looks at the source before it
    reads.
    """
    blank = torch.full_like(asked, BOS)
    return _decoded(model, source, torch.stack([asked, blank], -1).flatten(1))[:, 1::2]


def _continued(model: nn.Module, source: Tensor, asked: Tensor) -> Tensor:
    """List and keys are one text."""
    return model(torch.cat([source, asked], 1)).logits[:, source.shape[1] :]


def _one_hot(tokens: Tensor) -> Tensor:
    return F.one_hot(tokens, SIZE).float()


def _read(model: nn.Module, source: Tensor, asked: Tensor) -> Tensor:
    """List and keys are one sequence of vectors."""
    result = model(_one_hot(torch.cat([source, asked], 1)))
    return result[0][:, source.shape[1] :]


def _pointed(model: nn.Module, source: Tensor, asked: Tensor) -> Tensor:
    """A question stands after the list, one copy of the list for each; a token gets what points
    at it.
    """
    batch, number = asked.shape
    inputs = torch.cat([source.repeat_interleave(number, 0), asked.reshape(-1, 1)], 1)
    first = inputs.new_zeros(len(inputs), 1)  # what it points at first: read by nobody
    vectors = _one_hot(inputs)
    weights = model(vectors, _lengths(inputs), first, need_weights=True).weights[:, 0, :-1]
    share = (weights[:, None] @ vectors)[:, 0]  # (batch · number, vocabulary)
    return share.clamp(min=1e-9).log().view(batch, number, -1)


@dataclass(frozen=True)
class Contender:
    """A mechanism of the book and how it meets the task.

    Attributes:
        chapter: where the book builds it.
        make: () → the model.
        answers: (model, source, asked) → logits ``(B, N, vocabulary)``.
        learning_rate: the best of those that were tried with seed 0.
    """

    chapter: int
    make: Callable[[], nn.Module]
    answers: Callable[[nn.Module, Tensor, Tensor], Tensor]
    learning_rate: float = 1e-2


_PAIR = SIZE, SIZE
_SIZES: dict[str, Any] = {"d_embed": WIDTH, "hidden_size": WIDTH}
_BLOCK: Any = partial(
    paper_parts, WIDTH, 4, 2 * WIDTH, dropout=0.0, residual=PreNorm, norm=RMSNorm, bias=False
)


_note = partial(Neighbour, WIDTH)


def _state(**options: Any) -> TransformerLM:
    """Two blocks that carry a state of fixed size, and in place of positions the token before."""
    attention = partial(
        LinearAttention, WIDTH, 4, feature_map=unit_features, normalise=False, **options
    )
    parts = replace(_BLOCK(), attention=attention, positions=_note)
    return TransformerLM(SIZE, parts, num_layers=2, token_ids=TOKEN_IDS)


CONTENDERS: dict[str, Contender] = {
    "fixed-vector": Contender(
        1, lambda: Seq2Seq(*_PAIR, context_every_step=True, **_SIZES, token_ids=TOKEN_IDS), _decoded
    ),
    "bahdanau": Contender(
        2, lambda: Bahdanau(*_PAIR, **_SIZES, token_ids=TOKEN_IDS), _decoded_late
    ),
    "local": Contender(
        3,
        lambda: Luong(*_PAIR, attention="local-p", half_width=8, **_SIZES, token_ids=TOKEN_IDS),
        _decoded,
    ),
    "ntm": Contender(
        4,
        lambda: NTM(*_PAIR, controller="lstm", hidden_size=2 * WIDTH, slots=64, slot_width=WIDTH),
        _read,
    ),
    "pointer": Contender(
        5,
        lambda: PointerNetwork(SIZE, WIDTH, ends=False, d_embed=WIDTH),
        _pointed,
        learning_rate=2e-3,
    ),
    "transformer": Contender(
        6,
        lambda: Transformer(*_PAIR, _BLOCK(), num_layers=2, token_ids=TOKEN_IDS),
        _decoded,
        learning_rate=3e-3,
    ),
    "transformer-noting": Contender(
        6,
        lambda: Transformer(
            *_PAIR, replace(_BLOCK(), positions=_note), num_layers=2, token_ids=TOKEN_IDS
        ),
        _decoded,
        learning_rate=5e-3,
    ),
    "snail": Contender(
        7,
        lambda: SNAIL(*_PAIR, length=24, parts=(TCPart(WIDTH), AttentionPart(WIDTH, WIDTH))),
        _read,
        learning_rate=5e-3,
    ),
    "linear": Contender(9, _state, _continued),
    "delta": Contender(9, partial(_state, delta=True), _continued),
}


def question_loss(model: nn.Module, batch: Recall, answers: Callable) -> tuple[Tensor, int]:
    """Cross-entropy of the values that are asked: the sum in nats, and their number."""
    source, asked, answer = (part.to(device_of(model)) for part in question(batch))
    logits = answers(model, source, asked).flatten(0, 1).float()
    return F.cross_entropy(logits, answer.flatten(), reduction="sum"), answer.numel()


@torch.no_grad()
def recalled(model: nn.Module, answers: Callable, pairs: int, count: int = 100) -> float:
    """The share of values recalled in new lists of so many pairs."""
    batch = question(draw(pairs, count, torch.Generator().manual_seed(10**6 + pairs), **ALPHABET))
    source, asked, answer = (part.to(device_of(model)) for part in batch)
    return float((answers(model, source, asked).argmax(-1) == answer).double().mean())


@torch.no_grad()
def kept(model: Any, pairs: int) -> int:
    """How many numbers a model has kept of a list of so many pairs when the first key asks."""
    source = question(draw(pairs, 1, torch.Generator().manual_seed(0), **ALPHABET)).source
    device = device_of(model)
    if isinstance(model, NTM | SNAIL):
        memory = model(_one_hot(source).to(device))[1]
    elif isinstance(model, PointerNetwork):
        memory = model.encode(_one_hot(source).to(device), _lengths(source))
    else:
        memory = model.encode(source.to(device), _lengths(source))
    tensors = [part for part in _tensors(memory) if part.is_floating_point()]
    return sum({part.data_ptr(): part.numel() for part in tensors}.values())


def _tensors(nest: Any) -> Iterator[Tensor]:
    if isinstance(nest, Tensor):
        yield nest
    elif isinstance(nest, tuple):
        for part in nest:
            yield from _tensors(part)


@dataclass(frozen=True)
class Settings:
    mechanism: str  # one of CONTENDERS
    learning_rate: float  # peak learning rate
    pairs: Sequence[int] = (2, 4, 8)  # numbers of pairs in training, each as likely in a batch
    tested: Sequence[int] = (2, 4, 8, 16, 32)  # numbers of pairs in the test
    batch_size: int = 32  # lists per step
    steps: int = 1000  # training steps
    test: int = 100  # lists of each number of pairs


def every_mechanism(settings: Settings, *, seed: int = 0, device: str = "cpu") -> dict:
    """Train one of :data:`CONTENDERS`; the share of values recalled, and the numbers kept, by the
    number of pairs.
    """
    contender = CONTENDERS[check_choice("mechanism", settings.mechanism, CONTENDERS)]
    torch.manual_seed(seed)
    model = contender.make()
    history = train(
        model,
        RecallBatches(settings.pairs, settings.batch_size, 1000 + seed, **ALPHABET),
        partial(question_loss, answers=contender.answers),
        settings,
        seed=seed,
        device=device,
        evaluate=lambda m: recalled(m, contender.answers, max(settings.pairs), 50),
        evaluations=20,
    )
    model.eval()
    rows = []
    for pairs in settings.tested:
        share = recalled(model, contender.answers, pairs, settings.test)
        rows.append({"pairs": pairs, "recalled": round(share, 4), "kept": kept(model, pairs)})
    course = [[step, round(share, 4)] for step, share in history.evaluations]
    figures = training_figures(model, history)
    return {"rows": rows, "course": course, **figures}


@dataclass(frozen=True)
class TimeSettings:
    pairs: int = 8  # in each list
    batch_size: int = 32  # lists per update
    updates: int = 30  # of which the median is taken


def time_of_updates(settings: TimeSettings, *, seed: int = 0) -> dict:
    """The milliseconds of a processor that an update of each of :data:`CONTENDERS` takes, other
    work on the machine not counted.
    """
    generator = torch.Generator().manual_seed(seed)
    batch = draw(settings.pairs, settings.batch_size, generator, **ALPHABET)
    rows = {}
    for name, contender in CONTENDERS.items():
        torch.manual_seed(seed)
        model = contender.make()
        optimizer = torch.optim.Adam(model.parameters(), contender.learning_rate)
        times = []
        for _ in range(settings.updates):
            began = time.process_time()
            total, _ = question_loss(model, batch, contender.answers)
            optimizer.zero_grad()
            total.backward()
            optimizer.step()
            times.append(1000 * (time.process_time() - began))
        rows[name] = round(statistics.median(times), 2)
    return {"milliseconds": rows}


for _name, _contender in CONTENDERS.items():
    register(
        f"every-mechanism-{_name}",
        every_mechanism,
        Settings(_name, _contender.learning_rate),
        title=f"Recall of 2 to 32 pairs by the model of chapter {_contender.chapter}: {_name}",
        minutes="1 minute on one CPU core",
    )

register(
    "every-mechanism-time",
    time_of_updates,
    TimeSettings(),
    title="The time of an update of each of them",
    minutes="a quarter of a minute on one CPU core",
)
