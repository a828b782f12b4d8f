"""The eight systems of Luong's table 4, global and local attention with each score: a ranking on
numbers, and Multi30k.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from attnbook.models import Luong
from attnbook.modules import device_of
from attnbook.tasks import TOKEN_IDS, make_task
from attnbook.tasks.sequences.batches import collate
from attnbook.tasks.translation.alignments import alignment_accuracy
from attnbook.training import token_loss
from attnbook.validate import check_choice, require

from ..common import select, train, training_figures
from ..registry import register
from .evaluation import exact_share, pair_loss, training_batches
from .real_sentences import SMALL, RecurrentSettings, train_on_multi30k

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
    """Rank correlation: Pearson's correlation of the ranks, where equal values share the mean of
    theirs.

    Source: Spearman 1904.
    """
    require(
        len(a) == len(b) >= 2, f"a and b must have one length of at least 2, got {len(a)}, {len(b)}"
    )

    def ranks(values):
        array = np.asarray(values, dtype=float)
        return (array[:, None] > array).sum(1) + ((array[:, None] == array).sum(1) - 1) / 2

    x, y = (r - r.mean() for r in (ranks(a), ranks(b)))
    require(bool(x.any() and y.any()), "a and b must hold different values, got equal ones")
    return float(x @ y / math.sqrt((x @ x) * (y @ y)))


def _measure(model: Luong, task) -> dict:
    """Perplexity per token on the test pairs, exact answers, and how often the largest weight is
    on the word that the token translates.
    """
    pairs = task.test
    batch = collate(pairs, task.source_vocab, task.target_vocab)
    with torch.no_grad():
        weights = model(*(t.to(device_of(model)) for t in batch[:3]), need_weights=True).weights
    return {
        "perplexity": round(math.exp(pair_loss(model, pairs, task)), 4),
        "exact": exact_share(model, pairs, task),
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


def ranking(settings: RankingSettings, *, seed: int = 0, device: str = "cpu") -> dict:
    """Train all eight systems alike on one of the book's tasks, with its ``options``; measure
    each on unseen pairs.
    """
    task = make_task(
        settings.task,
        train=settings.train_pairs,
        valid=0,
        test=settings.test_pairs,
        seed=0,
        **(settings.options or {}),
    )
    batches = training_batches(task, settings.batch_size, seed)
    longest = max(len(pair.source) for pair in task.train + task.test)
    rows = []
    for name, (attention, score) in SYSTEMS.items():
        torch.manual_seed(seed)
        model = Luong(
            len(task.source_vocab),
            len(task.target_vocab),
            attention=attention,
            score=score,
            max_source=longest,
            **select(settings, "d_embed", "hidden_size", "half_width", "input_feeding"),
            token_ids=TOKEN_IDS,
        )
        history = train(model, batches, token_loss, settings, seed=seed, device=device)
        rows.append({"system": name, **_measure(model, task), **training_figures(model, history)})
    paper = [PAPER_PERPLEXITY[row["system"]] for row in rows]
    return {
        "longest_source": longest,
        "systems": rows,
        "rank_correlation": round(spearman([row["perplexity"] for row in rows], paper), 3),
    }


def _windows(model: Luong, batch, pairs) -> dict:
    """Where the windows of a local-p model stand, beside the positions of the aligned words."""
    device = device_of(model)
    with torch.no_grad():
        memory = model.encode(batch.source.to(device), batch.lengths)
        state, centres = model.start(memory), []
        for token in batch.target_in.to(device).unbind(1):
            t, state = state.t, model.step(token, state, memory).state
            # of the state of the top layer
            centres.append(model.positions(state.recurrent[0][:, -1:], memory, t[:, None]))
        centres = torch.cat(centres, 1).cpu()
    points = [
        (float(centres[b, t]), min(words))
        for b, pair in enumerate(pairs)
        for t, words in enumerate(pair.alignment)
        if words
    ]
    inside = sum(abs(math.floor(p + 0.5) - i) <= model.half_width for p, i in points)
    return {
        "correlation": round(float(np.corrcoef(np.array(points).T)[0, 1]), 3),
        "inside": round(inside / len(points), 3),
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


def starts(settings: StartSettings, *, seed: int = 0, device: str = "cpu") -> dict:
    """Train local-p (general) on numbers from one initialisation, with each length of the warm-up,
    and follow where its windows stand.

    The batches are the same for every seed: only the initial weights differ.
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
    batches = training_batches(task, 64, seed=0)
    pairs = [pair for pair in task.test if len(pair.source) >= 12][:200]
    long_batch = collate(pairs, task.source_vocab, task.target_vocab)
    rows = []
    for warmup in settings.warmups:
        torch.manual_seed(seed)
        model = Luong(
            len(task.source_vocab),
            len(task.target_vocab),
            attention="local-p",
            score="general",
            **select(settings, "d_embed", "hidden_size", "half_width"),
            token_ids=TOKEN_IDS,
        )
        track = []
        steps = itertools.count()

        def loss(model, batch, track=track, steps=steps):
            step = next(steps)
            if step in settings.looks:
                track.append({"step": step, **_windows(model, long_batch, pairs)})
            return token_loss(model, batch)

        train(model, batches, loss, settings, seed=0, device=device, warmup=warmup)
        track.append({"step": settings.steps, **_windows(model, long_batch, pairs)})
        rows.append({"warmup": warmup, "track": track, **_measure(model, task)})
    return {"rows": rows}


@dataclass(frozen=True)
class Multi30kSettings(RecurrentSettings):
    system: str = "global (general)"  # one of SYSTEMS
    half_width: int = 4  # half width D of the local window
    num_layers: int = 1  # layers
    input_feeding: bool = True  # feed the attentional state to the next step


def multi30k(settings: Multi30kSettings, *, seed: int = 0, device: str = "cpu") -> dict:
    """Train one system on Multi30k English to ``target``; perplexity on the validation part, BLEU
    on the test of 2016.

    The captions have about 14 pieces: a window of D = 10, as in the paper, would hold nearly all of
    them, so D is 4.
    """
    check_choice("system", settings.system, SYSTEMS)
    attention, score = SYSTEMS[settings.system]
    sizes = ("d_embed", "hidden_size", "dropout", "half_width", "num_layers", "input_feeding")

    def make(source_size: int, target_size: int) -> Luong:
        return Luong(
            source_size,
            target_size,
            attention=attention,
            score=score,
            max_source=160,
            **select(settings, *sizes),
            token_ids=TOKEN_IDS,
        )

    figures, *_ = train_on_multi30k(make, settings, seed=seed, device=device)
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
for _system in SYSTEMS:
    _name = f"multi30k-luong-{_system.replace(' (', '-').removesuffix(')')}"
    register(
        _name,
        multi30k,
        Multi30kSettings(system=_system),
        title=f"Multi30k English to German, {_system}: perplexity, BLEU",
        minutes="6 minutes on one GPU",
        needs="multi30k",
    )
    register(
        f"{_name}-small",
        multi30k,
        Multi30kSettings(system=_system, **SMALL),
        title=f"The same, small and short enough for one CPU core, {_system}",
        minutes="12 minutes on one CPU core",
        needs="multi30k",
    )
for _system in ("local-m (general)", "local-p (general)"):
    register(
        f"multi30k-luong-{_system.replace(' (', '-').removesuffix(')')}-window-10-small",
        multi30k,
        Multi30kSettings(system=_system, **{**SMALL, "half_width": 10}),
        title=f"The same with the window of the paper, D = 10, {_system}",
        minutes="12 minutes on one CPU core",
        needs="multi30k",
    )
