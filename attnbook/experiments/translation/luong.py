"""The eight systems of Luong's table 4, global and local with each score: a ranking on numbers,
and Multi30k.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ...models import Luong
from ...tasks import make_task
from ...tasks.sequences.batches import SequenceBatches, collate
from ...tasks.translation.alignments import alignment_accuracy
from ...training import cosine_decay, exact_match, fit, greedy, token_loss
from ...validate import check_choice
from ..registry import register
from . import real_sentences

__all__ = ["PAPER_BLEU", "PAPER_PERPLEXITY", "SYSTEMS", "multi30k", "ranking", "spearman", "starts"]

SYSTEMS = {
    "global (location)": ("global", "location"),
    "global (dot)": ("global", "dot"),
    "global (general)": ("global", "general"),
    "global (concat)": ("global", "additive"),
    "local-m (dot)": ("local-m", "dot"),
    "local-m (general)": ("local-m", "general"),
    "local-p (dot)": ("local-p", "dot"),
    "local-p (general)": ("local-p", "general"),
}
"""Name in the paper → attention and score of :class:`attnbook.Luong`."""

PAPER_PERPLEXITY = {
    "global (location)": 6.4,
    "global (dot)": 6.1,
    "global (general)": 6.1,
    "global (concat)": 6.7,
    "local-m (dot)": 7.0,
    "local-m (general)": 6.2,
    "local-p (dot)": 6.6,
    "local-p (general)": 5.9,
}
"""English to German, all with input feeding; the paper says "> 7.0" of local-m (dot), and gives
concat in a footnote.

Source: Luong, Pham and Manning 2015, table 4.
"""

PAPER_BLEU = {
    "global (location)": 18.1,
    "global (dot)": 18.6,
    "global (general)": 17.3,
    "local-m (general)": 18.6,
    "local-p (dot)": 18.0,
    "local-p (general)": 19.0,
}
"""Of the systems for which the paper gives one, without the replacement of unknown words.

Source: the same table.
"""


def spearman(a: Sequence[float], b: Sequence[float]) -> float:
    """Rank correlation: Pearson's correlation of the ranks, equal values sharing the mean of
    theirs.

    Raises ValueError for lists of two lengths, or of values that are all equal. Source: Spearman
    1904."""
    if len(a) != len(b) or len(a) < 2:
        raise ValueError(
            f"a and b must hold one value each an item, two items or more, got {len(a)} and "
            f"{len(b)}"
        )

    def ranks(values):
        array = np.asarray(values, dtype=float)
        return (array[:, None] > array).sum(1) + ((array[:, None] == array).sum(1) - 1) / 2

    x, y = (r - r.mean() for r in (ranks(a), ranks(b)))
    if not x.any() or not y.any():
        raise ValueError("a and b must not be constant: equal values have no order")
    return float(x @ y / math.sqrt((x @ x) * (y @ y)))


def _measure(net, pairs, task) -> dict:
    """Perplexity a token, exact answers, and how often the largest weight lies where the token
    comes from.
    """
    device = next(net.parameters()).device
    batch = collate(pairs, task.source_vocab, task.target_vocab)
    with torch.no_grad():
        total, count = token_loss(net, batch)
        weights = net(*(t.to(device) for t in batch[:3]), need_weights=True).weights
    found = greedy(net, batch.source, batch.lengths, batch.target_out.shape[1] + 2).tokens
    return {
        "perplexity": round(math.exp(float(total) / float(count)), 4),
        "exact": round(
            exact_match(found, [task.target_vocab.encode(pair.target) for pair in pairs]), 4
        ),
        "alignment_accuracy": round(
            alignment_accuracy(weights, [pair.alignment for pair in pairs]), 4
        ),
    }


@dataclass(frozen=True)
class RankingSettings:
    task: str = "numbers-en"  # name of the task
    options: Mapping[str, Any] | None = None  # options of the task
    train_pairs: int = 20000  # training pairs
    test_pairs: int = 1000  # test pairs
    d_embed: int = 48  # width of the embeddings
    hidden_size: int = 64  # units of the recurrent layers
    half_width: int = 2  # half width D of the local window
    input_feeding: bool = True  # feed the attentional state to the next step
    batch_size: int = 64  # examples per step
    steps: int = 400  # training steps
    learning_rate: float = 6e-3  # peak learning rate


def ranking(
    settings: RankingSettings, *, seed: int = 0, device: str = "cpu", folder: Path = Path("results")
) -> dict:
    """Train all eight systems alike on one of the book's tasks, with its ``options``; measure
    each on unseen pairs.
    """
    made = make_task(
        settings.task,
        train=settings.train_pairs,
        valid=0,
        test=settings.test_pairs,
        seed=0,
        **(settings.options or {}),
    )
    batches = SequenceBatches(
        made.train, made.source_vocab, made.target_vocab, settings.batch_size, seed=seed
    )
    longest = max(len(pair.source) for pair in made.train + made.test)
    rows = []
    for name, (attention, score) in SYSTEMS.items():
        torch.manual_seed(seed)
        net = Luong(
            len(made.source_vocab),
            len(made.target_vocab),
            d_embed=settings.d_embed,
            hidden_size=settings.hidden_size,
            attention=attention,
            score=score,
            half_width=settings.half_width,
            max_source=longest,
            input_feeding=settings.input_feeding,
        )
        history = fit(
            net,
            batches,
            token_loss,
            steps=settings.steps,
            learning_rate=settings.learning_rate,
            schedule=cosine_decay(settings.steps, 20),
            seed=seed,
            device=device,
        )
        rows.append(
            {
                "system": name,
                "parameters": sum(p.numel() for p in net.parameters()),
                **_measure(net, made.test, made),
                "training_seconds": round(history.seconds, 1),
            }
        )
    paper = [PAPER_PERPLEXITY[row["system"]] for row in rows]
    return {
        "longest_source": longest,
        "systems": rows,
        "rank_correlation": round(spearman([row["perplexity"] for row in rows], paper), 3),
    }


def _windows(net, batch, pairs) -> dict:
    """Where the windows of a local-p model stand: their places against those of the words that
    say the digit.
    """
    device = next(net.parameters()).device
    with torch.no_grad():
        memory = net.encode(batch.source.to(device), batch.lengths)
        state, places = net.start(memory), []
        for token in batch.target_in.to(device).unbind(1):
            t, state = state.t, net.step(token, state, memory).state
            # of the state of the top layer
            places.append(net.positions(state.recurrent[0][:, -1:], memory, t[:, None]))
        places = torch.cat(places, 1).cpu()
    found = [
        (float(places[b, t]), min(words))
        for b, pair in enumerate(pairs)
        for t, words in enumerate(pair.alignment)
        if words
    ]
    inside = sum(abs(math.floor(p + 0.5) - i) <= net.half_width for p, i in found) / len(found)
    return {
        "correlation": round(float(np.corrcoef(np.array(found).T)[0, 1]), 3),
        "inside": round(inside, 3),
    }


@dataclass(frozen=True)
class StartSettings:
    warmups: Sequence[int] = (20, 100)  # lengths of the warm-up to compare
    train_pairs: int = 20000  # training pairs
    test_pairs: int = 1000  # test pairs
    steps: int = 400  # training steps
    learning_rate: float = 6e-3  # peak learning rate
    d_embed: int = 48  # width of the embeddings
    hidden_size: int = 64  # units of the recurrent layers
    half_width: int = 3  # half width D of the local window
    looks: Sequence[int] = (0, 25, 50, 100, 200, 300)  # steps at which the windows are measured


def starts(
    settings: StartSettings, *, seed: int = 0, device: str = "cpu", folder: Path = Path("results")
) -> dict:
    """Train local-p (general) on numbers from one start, with each length of the warm-up, and watch
    where its windows stand.

    The batches are the same for every seed: nothing differs but the numbers that the model starts
    from.
    """
    task = make_task(
        "numbers-en",
        train=settings.train_pairs,
        valid=0,
        test=settings.test_pairs,
        seed=0,
        digits=(1, 9),
        british=True,
    )
    batches = SequenceBatches(task.train, task.source_vocab, task.target_vocab, 64, seed=0)
    pairs = [pair for pair in task.test if len(pair.source) >= 12][:200]
    watched = collate(pairs, task.source_vocab, task.target_vocab)
    rows = []
    for warmup in settings.warmups:
        torch.manual_seed(seed)
        net = Luong(
            len(task.source_vocab),
            len(task.target_vocab),
            d_embed=settings.d_embed,
            hidden_size=settings.hidden_size,
            attention="local-p",
            score="general",
            half_width=settings.half_width,
        )
        track = []

        def loss(model, batch):
            if len(track) < len(settings.looks) and made[0] == settings.looks[len(track)]:
                track.append({"step": made[0], **_windows(model, watched, pairs)})
            made[0] += 1
            return token_loss(model, batch)

        made = [0]
        fit(
            net,
            batches,
            loss,
            steps=settings.steps,
            learning_rate=settings.learning_rate,
            schedule=cosine_decay(settings.steps, warmup),
            device=device,
        )
        track.append({"step": settings.steps, **_windows(net, watched, pairs)})
        rows.append({"warmup": warmup, "track": track, **_measure(net, task.test, task)})
    return {"rows": rows}


@dataclass(frozen=True)
class Multi30kSettings:
    system: str = "global (general)"  # one of SYSTEMS
    target: str = "de"  # target language
    half_width: int = 4  # half width D of the local window
    num_layers: int = 1  # layers
    input_feeding: bool = True  # feed the attentional state to the next step
    pieces: int = 6000  # size of the subword vocabulary
    d_embed: int = 256  # width of the embeddings
    hidden_size: int = 512  # units of the recurrent layers
    dropout: float = 0.4  # dropout rate
    label_smoothing: float = 0.1  # mass that label smoothing spreads
    batch_size: int = 128  # examples per step
    steps: int = 6000  # training steps
    learning_rate: float = 1e-3  # peak learning rate
    precision: str = "no"  # no, bf16 or fp16


def multi30k(
    settings: Multi30kSettings,
    *,
    seed: int = 0,
    device: str = "cpu",
    folder: Path = Path("results"),
) -> dict:
    """Train one system on Multi30k English to ``target``; perplexity on the validation part, BLEU
    on the test of 2016.

    The captions have about 14 pieces: D = 10 as in the paper would hold nearly all of them, so D is
    4.
    """
    check_choice("system", settings.system, SYSTEMS)
    attention, score = SYSTEMS[settings.system]

    def make(source_size, target_size):
        return Luong(
            source_size,
            target_size,
            d_embed=settings.d_embed,
            hidden_size=settings.hidden_size,
            dropout=settings.dropout,
            attention=attention,
            score=score,
            half_width=settings.half_width,
            num_layers=settings.num_layers,
            input_feeding=settings.input_feeding,
            max_source=160,
        )

    figures = real_sentences.train_on_multi30k(
        make,
        seed=seed,
        device=device,
        target=settings.target,
        pieces=settings.pieces,
        label_smoothing=settings.label_smoothing,
        batch_size=settings.batch_size,
        steps=settings.steps,
        learning_rate=settings.learning_rate,
        precision=settings.precision,
    )[0]
    figures["perplexity_valid"] = round(math.exp(figures["validation_loss"][-1][1]), 3)
    return figures


register(
    "luong-ranking",
    ranking,
    RankingSettings(task="numbers-en", options={"digits": [1, 9]}),
    title="Global and local attention, the eight systems of Luong's table 4, on numbers",
    minutes="2 minutes on one CPU core",
)
register(
    "luong-ranking-phrases",
    ranking,
    RankingSettings(task="phrases", options={"phrases": [1, 2]}, steps=1000),
    title="The same eight systems on noun phrases",
    minutes="4 minutes on one CPU core",
)
register(
    "luong-local-p-starts",
    starts,
    StartSettings(),
    title="Local-p from one start, with a short and a long warm-up: where its windows go",
    minutes="1 minute on one CPU core",
)
for _attention, _scores in (
    ("global", ("location", "dot", "general", "concat")),
    ("local-m", ("dot", "general")),
    ("local-p", ("dot", "general")),
):
    for _score in _scores:
        _system = f"{_attention} ({_score})"
        register(
            f"multi30k-luong-{_attention}-{_score}",
            multi30k,
            Multi30kSettings(system=_system),
            title=f"Multi30k English to German, {_system}: perplexity, BLEU",
            minutes="6 minutes on one GPU",
            needs="multi30k",
        )
        register(
            f"multi30k-luong-{_attention}-{_score}-small",
            multi30k,
            Multi30kSettings(
                system=_system,
                pieces=4000,
                d_embed=128,
                hidden_size=192,
                dropout=0.2,
                steps=1500,
                learning_rate=2e-3,
            ),
            title=f"The same, small and short enough for one CPU core, {_system}",
            minutes="12 minutes on one CPU core",
            needs="multi30k",
        )
