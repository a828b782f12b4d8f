"""What each part of Luong's system adds, one after the other: his table 1, small."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

from torch import Tensor, nn

from attnbook.models import Luong, Seq2Seq
from attnbook.models.rnn.common import reverse_padded
from attnbook.models.rnn.luong import Source
from attnbook.tasks import TOKEN_IDS
from attnbook.validate import check_choice, require

from ..common import select
from ..registry import register
from .luong import SYSTEMS
from .real_sentences import SMALL, RecurrentSettings, train_on_multi30k

__all__ = ["ROWS", "Row", "ablation"]


class Row(NamedTuple):
    """A row of the table.

    Attributes:
        label: In the paper.
        changes: Settings that differ from those of the row above.
        perplexity: Of the paper, on newstest2014.
        bleu: Of the paper, tokenised, on newstest2014.
    """

    label: str
    changes: dict[str, Any]
    perplexity: float
    bleu: float


ROWS: dict[str, Row] = {
    "base": Row("base", {}, 10.6, 11.3),
    "reverse": Row("+ reverse", {"reverse_source": True}, 9.9, 12.6),
    "dropout": Row("+ dropout", {"dropout": SMALL["dropout"]}, 8.1, 14.0),
    "attention": Row("+ global attention (location)", {"system": "global (location)"}, 7.3, 16.8),
    "feeding": Row("+ feed input", {"input_feeding": True}, 6.4, 18.1),
    # not added, but in the place of global attention
    "local": Row("local-p attention (general)", {"system": "local-p (general)"}, 5.9, 19.0),
}
"""Name → row; every row has what those above it have.

Source: Luong, Pham and Manning 2015, table 1, without the replacement of unknown words.
"""


class _Reversed(Luong):
    """Reads every source from its end; positions and weights are those of the turned source."""

    def encode(self, source: Tensor, lengths: Tensor) -> Source:
        return super().encode(reverse_padded(source, lengths), lengths)


@dataclass(frozen=True)
class Settings(RecurrentSettings):
    system: str = ""  # one of SYSTEMS; empty: no attention, the last state alone
    reverse_source: bool = False  # read the source from its end
    input_feeding: bool = False  # feed the attentional state to the next step
    half_width: int = 10  # half width D of the local window
    num_layers: int = 1  # layers


def make_model(source_size: int, target_size: int, settings: Settings) -> nn.Module:
    """The system of some settings, for vocabularies of these sizes."""
    sizes = select(settings, "d_embed", "hidden_size", "dropout", "num_layers")
    if not settings.system:
        require(not settings.input_feeding, "input_feeding must be False without attention")
        sizes |= dict(unit="lstm", reverse_source=settings.reverse_source)
        return Seq2Seq(source_size, target_size, **sizes, token_ids=TOKEN_IDS)
    attention, score = SYSTEMS[check_choice("system", settings.system, SYSTEMS)]
    kind = _Reversed if settings.reverse_source else Luong
    sizes |= select(settings, "input_feeding", "half_width") | dict(token_ids=TOKEN_IDS)
    return kind(source_size, target_size, attention=attention, score=score, max_source=160, **sizes)


def ablation(settings: Settings, *, seed: int = 0, device: str = "cpu") -> dict:
    """Train one row on Multi30k English to ``target``; perplexity on the validation part, BLEU on
    the test of 2016.
    """
    figures, *_ = train_on_multi30k(
        lambda source, target: make_model(source, target, settings),
        settings,
        seed=seed,
        device=device,
    )
    figures["perplexity_valid"] = round(math.exp(figures["validation_loss"][-1][1]), 3)
    return figures


_changes: dict[str, Any] = {**SMALL, "dropout": 0.0}
for _name, _row in ROWS.items():
    _changes = {**_changes, **_row.changes}
    register(
        f"luong-ablation-{_name}",
        ablation,
        Settings(**_changes),
        title=f"Luong's table 1, small, on Multi30k English to German: {_row.label}",
        minutes=f"{9 if _changes.get('input_feeding') else 6} minutes on one CPU core",
        needs="multi30k",
    )
