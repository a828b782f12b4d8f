"""The experiments by name, and what a recorded run is: one JSON with figures, settings,
versions, device, seed, commit.
"""

from __future__ import annotations

import importlib
import inspect
import json
import os
import platform
import shlex
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

from .. import resources
from .language.narang import TABLE

__all__ = ["EXPERIMENTS", "Experiment", "read_setting", "reproduce", "took"]


@dataclass(frozen=True)
class Experiment:
    """One recorded run.

    run       ``module:function`` under attnbook.experiments; called with ``seed``, ``folder``
              (where it may leave a checkpoint), the settings, and ``device`` if it has one (else it
              runs on the CPU); returns its figures as a dict that JSON can hold
    title     one line for the list
    needs     data sets it reads, "" when the book makes them
    settings  keyword arguments of the function
    minutes   about how long, and on what
    """

    run: str
    title: str
    needs: str
    settings: dict[str, Any]
    minutes: str


EXPERIMENTS: dict[str, Experiment] = {}


def _add(name: str, run: str, title: str, minutes: str, needs: str = "", **settings: Any) -> None:
    EXPERIMENTS[name] = Experiment(run, title, needs, settings, minutes)


for _language, _long in (("de", "German"), ("fr", "French")):
    for _model in ("bahdanau", "seq2seq"):
        _add(
            f"multi30k-en-{_language}-{_model}",
            "translation:multi30k",
            f"Multi30k English to {_long} with "
            f"{'attention' if _model == 'bahdanau' else 'a fixed vector'}: BLEU",
            "6 minutes on one GPU",
            needs="multi30k"
            + (", alibi-alignments" if (_language, _model) == ("fr", "bahdanau") else ""),
            target=_language,
            model=_model,
        )
for _language in ("de", "fr"):
    for _model in ("bahdanau", "seq2seq"):
        _add(
            f"multi30k-en-{_language}-{_model}-small",
            "translation:multi30k",
            f"The same, small and short enough for one CPU core, {_model}",
            "12 minutes on one CPU core",
            needs="multi30k"
            + (", alibi-alignments" if (_language, _model) == ("fr", "bahdanau") else ""),
            target=_language,
            model=_model,
            pieces=4000,
            d_embed=128,
            hidden_size=192,
            dropout=0.2,
            steps=1500,
            learning_rate=2e-3,
        )
for _language, _long in (("de", "German"), ("fr", "French")):
    _add(
        f"multi30k-en-{_language}-transformer",
        "transformer_translation:multi30k",
        f"Multi30k English to {_long} by a Transformer, mean of the last five checkpoints: BLEU",
        "20 minutes on one GPU",
        needs="multi30k",
        target=_language,
        precision="bf16",
    )
    _add(
        f"multi30k-en-{_language}-transformer-small",
        "transformer_translation:multi30k",
        "The same, as long as the small run of chapter 2's model on one CPU core, with its "
        "checkpoint",
        "20 minutes on one CPU core",
        needs="multi30k",
        target=_language,
        pieces=2600,
        d_model=128,
        d_feed_forward=256,
        num_layers=2,
        dropout=0.1,
        batch_size=64,
        steps=4300,
        learning_rate=4.4e-3,
        warmup=400,
        averaged=8,
        save_every=75,
        rival=dict(
            steps=1500, batch_size=128, pieces=4000, d_embed=128, hidden_size=192, dropout=0.2
        ),
        checkpoint=f"multi30k-en-{_language}-transformer-small",
    )
_add(
    "transformer-recipe",
    "translation.recipe:recipe",
    "The recipe of the Transformer on 3,000 phrases, and each part of it changed",
    "4 minutes on one CPU core",
)
_add(
    "tatoeba-en-fr",
    "translation.real_sentences:tatoeba",
    "A small attention model of everyday English and French, with its checkpoint; alignment "
    "error rate on Alibi",
    "30 minutes on one CPU core",
    needs="tatoeba-fra-eng, alibi-alignments",
)
_add(
    "tatoeba-en-fr-alignment",
    "translation.real_sentences:alibi",
    "Alignment error rate of the recorded tatoeba-en-fr model on Alibi, by length",
    "1 minute on one CPU core",
    needs="alibi-alignments",
)
for _model in ("seq2seq", "seq2seq-reversed", "bahdanau"):
    _add(
        f"length-{_model}",
        "translation.length:by_length",
        f"Exact answers against source length, {_model}",
        "6 minutes on one CPU core",
        model=_model,
    )
_add(
    "luong-ranking",
    "translation.luong:ranking",
    "Global and local attention, the eight systems of Luong's table 4, on numbers",
    "2 minutes on one CPU core",
    task="numbers-en",
    options={"digits": [1, 9]},
)
_add(
    "luong-ranking-phrases",
    "translation.luong:ranking",
    "The same eight systems on noun phrases",
    "4 minutes on one CPU core",
    task="phrases",
    options={"phrases": [1, 2]},
    steps=1000,
)
_add(
    "luong-local-p-starts",
    "translation.luong:starts",
    "Local-p from one start, with a short and a long warm-up: where its windows go",
    "1 minute on one CPU core",
)
for _attention, _scores in (
    ("global", ("location", "dot", "general", "concat")),
    ("local-m", ("dot", "general")),
    ("local-p", ("dot", "general")),
):
    for _score in _scores:
        _system = f"{_attention} ({_score})"
        _add(
            f"multi30k-luong-{_attention}-{_score}",
            "luong:multi30k",
            f"Multi30k English to German, {_system}: perplexity, BLEU",
            "6 minutes on one GPU",
            needs="multi30k",
            system=_system,
        )
        _add(
            f"multi30k-luong-{_attention}-{_score}-small",
            "luong:multi30k",
            f"The same, small and short enough for one CPU core, {_system}",
            "12 minutes on one CPU core",
            needs="multi30k",
            system=_system,
            pieces=4000,
            d_embed=128,
            hidden_size=192,
            dropout=0.2,
            steps=1500,
            learning_rate=2e-3,
        )
for _name, _model, _steps in (
    ("lstmn-language", "lstmn", 2000),
    ("lstm-language", "lstm", 2000),
    ("lstm-language-equal-time", "lstm", 5000),
):
    _add(
        _name,
        "language.language_models:grammar",
        f"Words that hang on a far one, {_model.upper()} of {_steps} steps",
        "1 minute on one CPU core",
        model=_model,
        steps=_steps,
        checkpoint=_model == "lstmn",
    )
for _model in ("lstmn", "lstm"):
    _add(
        f"{_model}-wikitext-2",
        "language.language_models:wikitext",
        f"Sentences of WikiText-2 by words, {_model.upper()}: perplexity",
        "3 minutes on one CPU core",
        needs="wikitext-2",
        model=_model,
    )

_add(
    "loss-surfaces",
    "cost.loss_landscape:around_minima",
    "Loss around trained stacks of blocks, with residuals and without, in random planes",
    "4 minutes on one CPU core",
)

for _kind in ("adding", "multiplication"):
    _add(
        f"feed-forward-attention-{_kind}",
        "language.documents:long_sums",
        f"Feed-forward attention and its mean on {_kind}, 100 and 1000 steps",
        "10 minutes on one CPU core",
        kind=_kind,
    )
    _add(
        f"feed-forward-attention-{_kind}-long",
        "language.documents:long_sums",
        "The same recipe at 5000 and 10,000 steps, attention only",
        "20 minutes on one CPU core",
        kind=_kind,
        lengths=(5000, 10000),
        poolings=("attention",),
        micro_batch=1,
    )
    _add(
        f"feed-forward-attention-{_kind}-paper",
        "language.documents:long_sums",
        f"Feed-forward attention and its mean on {_kind}, 50 to 10,000 steps, as many updates as "
        f"in the paper",
        "a day on one GPU",
        kind=_kind,
        lengths=(50, 100, 500, 1000, 5000, 10000),
        steps=100_000,
        learning_rate=3e-3,
    )
for _pooling in ("attention", "mean"):
    _add(
        "movie-reviews-hierarchical" + ("" if _pooling == "attention" else "-mean"),
        "language.documents:pooled_film_reviews",
        f"Real film reviews by words and sentences, pooled by {_pooling}: accuracy",
        "6 minutes on one CPU core",
        needs="movie_reviews",
        pooling=_pooling,
    )
_add(
    "memory-network-questions",
    "language.documents:question_tasks",
    "Made questions by the end-to-end memory network, by hops",
    "4 minutes on one CPU core",
)
for _attention in ("soft", "hard", "none"):
    _add(
        f"captions-{_attention}",
        "images.captions:drawn",
        f"Captions of drawn scenes, {_attention} attention, with checkpoint",
        "2 minutes on one CPU core",
        attention=_attention,
    )
    _add(
        f"captions-nlvr-{_attention}",
        "images.captions:human",
        f"Human sentences about NLVR pictures, {_attention} attention",
        "3 minutes on one CPU core",
        needs="nlvr",
        attention=_attention,
    )
_add(
    "captions-soft-overlap",
    "images.captions:drawn",
    "Soft attention over regions that see beyond their edges: where the peak drifts",
    "2 minutes on one CPU core",
    attention="soft",
    overlap=True,
)
_add(
    "score-cost",
    "cost.score_cost:cost",
    "Time and peak memory of plain attention, additive score against dot product",
    "10 seconds on two CPU cores",
)

for _name, _n in (("50", 50), ("5-50", (5, 50))):
    _add(
        f"pointer-hull-{_name}",
        "algorithms.hulls_and_triangulations:hull",
        f"Pointer network on convex hulls of {_name} points, 1M pairs: the paper's table",
        "40 minutes on one GPU",
        n=_n,
        test=(5, 10, 50, 100, 200, 500),
        checkpoint=f"pointer-hull-{_name}.safetensors",
    )
for _n in (5, 10, 50):
    _add(
        f"pointer-delaunay-{_n}",
        "algorithms.hulls_and_triangulations:delaunay",
        f"Pointer network on Delaunay triangulations of {_n} points, 1M pairs",
        f"{'2 hours' if _n == 50 else '30 minutes'} on one GPU",
        n=_n,
        test=(_n,),
    )
_add(
    "pointer-hull-5-10-small",
    "algorithms.hulls_and_triangulations:hull",
    "Hulls of 5 to 10 points, small enough for one CPU core, with checkpoint",
    "30 minutes on one CPU core",
    n=(5, 10),
    test=(5, 6, 7, 8, 9, 10, 12, 20, 50),
    hidden_size=128,
    steps=6000,
    learning_rate=3e-3,
    pairs=None,
    checkpoint="pointer-hull-5-10-small.safetensors",
)
_add(
    "pointer-delaunay-5-small",
    "algorithms.hulls_and_triangulations:delaunay",
    "Delaunay triangulations of 5 points, small enough for one CPU core, with checkpoint",
    "4 minutes on one CPU core",
    n=5,
    test=(4, 5, 6, 7),
    hidden_size=128,
    steps=4000,
    learning_rate=3e-3,
    pairs=None,
    checkpoint="pointer-delaunay-5-small.safetensors",
)
# The paper's settings: SGD at rate 1 without decay, U[−0.08, 0.08], clipped at 2, 1M pairs, ten
# times over.
_paper_pointer = dict(
    optimizer="sgd",
    learning_rate=1.0,
    clip_norm=2.0,
    decay=False,
    paper_start=True,
    pairs=1_000_000,
    steps=78_000,
    batch_size=128,
)
_add(
    "pointer-sorting",
    "algorithms.sorting:sorting",
    "Sorting 5 to 10 numbers: pointer network with and without masks, and both baselines",
    "2 minutes on one CPU core",
)
_add(
    "pointer-sorting-paper",
    "algorithms.sorting:sorting",
    "The same with the settings of the paper",
    "1 hour on one GPU",
    hidden_size=256,
    d_embed=64,
    **_paper_pointer,
)
_tours = dict(test=(5, 8, 10, 12, 15, 20, 50))
_add(
    "pointer-tours-10",
    "algorithms.tours:tours",
    "Shortest tours of 10 cities, small enough for one CPU core, with checkpoint",
    "10 minutes on one CPU core",
    checkpoint="pointer-tours-10",
    **_tours,
)
_add(
    "pointer-tours-10-any-form",
    "algorithms.tours:tours",
    "The same with tours that start anywhere and run either way",
    "10 minutes on one CPU core",
    form="any",
    checkpoint="pointer-tours-10-any-form",
    **_tours,
)
_add(
    "tours-10-compared",
    "algorithms.tours:compared",
    "10 cities, short runs: pointer with and without mask, LSTM, LSTM + attention; tours in one "
    "form and any",
    "4 minutes on one CPU core",
)
_add(
    "pointer-tours-5-20",
    "algorithms.tours:tours",
    "Tours of 5 to 20 cities, exact to 12, 2-opt beyond; for one CPU core, with checkpoint",
    "12 minutes on one CPU core",
    n=(5, 20),
    teacher="exact to 12, 2-opt beyond",
    steps=10_000,
    checkpoint="pointer-tours-5-20",
    **_tours,
)
_add(
    "pointer-tours-50",
    "algorithms.tours:tours",
    "Tours of 50 cities as 2-opt gives them, in any form, for one CPU core, with checkpoint",
    "9 minutes on one CPU core",
    n=50,
    teacher="2-opt",
    form="any",
    warm_up=(10, 700),
    steps=1600,
    test=(5, 10, 20, 40, 50),
    checkpoint="pointer-tours-50",
)
_add(
    "pointer-tours-by-size",
    "algorithms.tours:by_size",
    "Our networks for tours on 5 to 50 cities, sizes that they never saw among them",
    "4 minutes on one CPU core",
)
_add(
    "tsplib-tours",
    "algorithms.tsplib:maps",
    "Real maps of at most 80 cities walked by our networks, beside the optimal tours; with a "
    "picture of three",
    "2 minutes on one CPU core",
    needs="tsplib",
    names=(
        "burma14",
        "ulysses16",
        "ulysses22",
        "att48",
        "eil51",
        "berlin52",
        "st70",
        "eil76",
        "pr76",
    ),
)
for _name, _n, _teacher in (
    ("5", 5, "exact"),
    ("10", 10, "exact"),
    ("5-20", (5, 20), "exact to 12, 2-opt beyond"),
    ("50", 50, "farthest insertion"),
):
    _add(
        f"pointer-tours-{_name}-paper",
        "algorithms.tours:tours",
        f"Tours of {_name} cities with the settings of the paper; teacher: {_teacher}",
        f"{'6' if _n == 50 else '2'} hours on one GPU",
        n=_n,
        teacher=_teacher,
        test=(5, 10, 20, 25, 30, 40, 50),
        hidden_size=256,
        **_paper_pointer,
    )

_COPY = dict(
    task="copy",
    train={"length": (1, 10), "together": True},
    tests=({"together": False}, *({"length": _n} for _n in (10, 20, 30, 40, 60))),
)
_COPY_20 = dict(
    task="copy",
    train={"length": (1, 20), "together": True},
    tests=({"together": False}, *({"length": _n} for _n in (10, 20, 30, 50, 80, 120))),
)
_add(
    "ntm-copy",
    "algorithms.ntm:algorithm",
    "Copy to length 10 by a neural Turing machine, with its checkpoint",
    "1 minute on one CPU core",
    **_COPY,
    sizes={"slots": 64},
    checkpoint="ntm-copy",
)
_add(
    "ntm-copy-lstm-controller",
    "algorithms.ntm:algorithm",
    "The same with an LSTM as controller",
    "2 minutes on one CPU core",
    **_COPY,
    sizes={"slots": 64, "controller": "lstm"},
    steps=2000,
)
_add(
    "lstm-copy",
    "algorithms.ntm:algorithm",
    "The same sequences by three layers of LSTM",
    "2 minutes on one CPU core",
    **_COPY,
    model="lstm",
    learning_rate=1e-3,
)
_add(
    "lstm-copy-long",
    "algorithms.ntm:algorithm",
    "Three layers of LSTM on four times the sequences",
    "8 minutes on one CPU core",
    **_COPY,
    model="lstm",
    learning_rate=1e-3,
    steps=4000,
)
_add(
    "ntm-copy-20",
    "algorithms.ntm:algorithm",
    "Copy to length 20 with the paper's memory, tested to 120",
    "40 minutes on one CPU core",
    **_COPY_20,
    sizes={"slots": 128},
    steps=1500,
    test_sequences=50,
)
_add(
    "lstm-copy-20",
    "algorithms.ntm:algorithm",
    "The same sequences by three layers of LSTM",
    "10 minutes on one CPU core",
    **_COPY_20,
    model="lstm",
    learning_rate=1e-3,
    steps=1500,
    test_sequences=50,
)
_add(
    "ntm-finite",
    "algorithms.ntm:finite",
    "Short runs with every combination of settings from 20 seeds: are all numbers finite?",
    "10 minutes on one CPU core",
)
# The four other tasks of the paper at its sizes, and as many sequences as 30 minutes of one CPU
# core take.
for _task, _minutes, _train, _tests, _machine, _shared, _size in (
    (
        "repeat-copy",
        (6, 20),
        {"together": True},
        [
            {"together": False},
            *(
                {"length": _n, "repeats": _r}
                for _n, _r in ((10, 10), (10, 15), (10, 20), (15, 10), (20, 10))
            ),
        ],
        dict(sizes={"slots": 64}, learning_rate=3e-3),
        dict(steps=6000),
        256,
    ),
    (
        "associative-recall",
        (8, 6),
        {"together": True},
        [{"together": False}, *({"items": _n} for _n in (6, 8, 10, 12, 15))],
        dict(sizes={"slots": 64, "heads": 4, "hidden_size": 256}, learning_rate=1e-3),
        dict(steps=6000),
        256,
    ),
    (
        "n-grams",
        (25, 15),
        {"n": 6},
        [{}, *({"n": _n} for _n in (3, 4, 5))],
        dict(sizes={"slots": 64}, learning_rate=5e-3, backward_clip=3e-3),
        dict(steps=5000, grow=2000),
        128,
    ),
    (
        "priority-sort",
        (15, 8),
        {},
        [{}],
        dict(
            sizes={"slots": 64, "heads": 5, "hidden_size": 256},
            learning_rate=3e-3,
            backward_clip=3e-3,
        ),
        dict(steps=8_000),
        128,
    ),
):
    _shared = dict(task=_task, train=_train, tests=_tests, **_shared)
    _add(
        f"ntm-{_task}",
        "algorithms.ntm:algorithm",
        f"{_task.replace('-', ' ').replace('n gr', 'dynamic n-gr').capitalize()} by a neural "
        f"Turing machine, with its checkpoint",
        f"{_minutes[0]} minutes on one CPU core",
        **_shared,
        **_machine,
        compiled=True,
        checkpoint=f"ntm-{_task}",
    )
    _add(
        f"lstm-{_task}",
        "algorithms.ntm:algorithm",
        "The same sequences by three layers of LSTM",
        f"{_minutes[1]} minutes on one CPU core",
        **_shared,
        learning_rate=1e-3,
        model="lstm",
        sizes={"hidden_size": _size},
    )
_add(
    "ntm-n-grams-long",
    "algorithms.ntm:algorithm",
    "Dynamic n-grams from three times as many sequences",
    "30 minutes on one CPU core",
    **{
        **EXPERIMENTS["ntm-n-grams"].settings,
        "steps": 15_000,
        "grow": 6000,
        "checkpoint": "ntm-n-grams-long",
    },
)
# The paper's settings: heads, controller and rate of each task (feed-forward; LSTM as controller;
# three layers of LSTM alone).
for _task, _ff, _lstm, _alone, _tests in (
    (
        "copy",
        (1, 100, 1e-4),
        (1, 100, 1, 1e-4),
        (256, 3e-5),
        [{"length": _n} for _n in (10, 20, 30, 50, 80, 120)],
    ),
    (
        "repeat-copy",
        (1, 100, 1e-4),
        (1, 100, 1, 1e-4),
        (512, 3e-5),
        [{"length": _n, "repeats": _r} for _n, _r in ((10, 10), (10, 20), (20, 10))],
    ),
    (
        "associative-recall",
        (4, 256, 1e-4),
        (1, 100, 1, 1e-4),
        (256, 1e-4),
        [{"items": _n} for _n in (6, 8, 10, 12, 15)],
    ),
    ("n-grams", (1, 100, 3e-5), (1, 100, 1, 3e-5), (128, 1e-4), [{}]),
    ("priority-sort", (8, 512, 3e-5), (5, 100, 2, 3e-5), (128, 3e-5), [{}]),
):
    _paper = dict(
        task=_task,
        tests=_tests,
        batch_size=1,
        steps=1_000_000,
        optimizer="rmsprop",
        decay=False,
        clip=10.0,
        evaluations=100,
    )
    _add(
        f"ntm-{_task}-paper",
        "algorithms.ntm:algorithm",
        f"The paper's run of {_task}, feed-forward controller",
        "a day or two on one GPU",
        **_paper,
        sizes={"heads": _ff[0], "hidden_size": _ff[1]},
        learning_rate=_ff[2],
        compiled=True,
        checkpoint=f"ntm-{_task}-paper",
    )
    _add(
        f"ntm-{_task}-lstm-controller-paper",
        "algorithms.ntm:algorithm",
        f"The paper's run of {_task}, LSTM as controller",
        "a day or two on one GPU",
        **_paper,
        learning_rate=_lstm[3],
        compiled=True,
        sizes={
            "controller": "lstm",
            "heads": _lstm[0],
            "hidden_size": _lstm[1],
            "num_layers": _lstm[2],
        },
    )
    _add(
        f"lstm-{_task}-paper",
        "algorithms.ntm:algorithm",
        f"The paper's run of {_task}, three layers of LSTM",
        "3 hours on one GPU",
        **_paper,
        model="lstm",
        sizes={"hidden_size": _alone[0]},
        learning_rate=_alone[1],
    )
_add(
    "heads-by-number",
    "translation.number_of_heads:by_number",
    "One to 32 heads in one width: English to French noun phrases by a Transformer of one layer",
    "15 minutes on one CPU core",
)
_add(
    "pronoun-heads",
    "translation.pronoun_heads:pronoun_heads",
    "A small Transformer that must find the antecedent of it and they: where its heads look, and "
    "what is left without each of them",
    "2 minutes on one CPU core",
)
_add(
    "winogender-heads",
    "language.masked_words:winogender_heads",
    "A masked language model of real sentences, with checkpoint: whom it takes Winogender's "
    "pronouns for, and where its heads look",
    "12 minutes on one CPU core",
    needs="tatoeba-fra-eng, multi30k, wikitext-2, winogender",
)
for _name, _kind, _minutes in (
    ("shakespeare-characters", "transformer", 15),
    ("shakespeare-characters-lstm", "lstm", 15),
):
    _add(
        _name,
        "language.characters:shakespeare",
        f"Tiny Shakespeare by characters, "
        f"{'a decoder-only Transformer' if _kind != 'lstm' else 'an LSTM'}",
        f"{_minutes} minutes on one CPU core",
        needs="tinyshakespeare",
        model=_kind,
        **({"checkpoint": "shakespeare-characters"} if _kind != "lstm" else {}),
    )
_add(
    "shakespeare-characters-paper",
    "language.characters:shakespeare",
    "Tiny Shakespeare by characters, six layers of width 384",
    "10 minutes on one GPU",
    needs="tinyshakespeare",
    length=256,
    d_model=384,
    num_heads=6,
    num_layers=6,
    dropout=0.2,
    batch_size=64,
    steps=5000,
    learning_rate=1e-3,
    precision="bf16",
)
for _name, _row in TABLE.items():
    _add(
        f"modification-{_name}",
        "language.modifications:compare",
        f"{_row.label[0].upper()}{_row.label[1:]}: denoising WikiText-2, three seeds",
        "3 minutes on one CPU core",
        needs="wikitext-2",
        modification=_name,
    )

_add(
    "positions-before",
    "translation.positions:extrapolation",
    "The letter three places before: kinds of positions on short texts, tested on longer ones",
    "1 minute on one CPU core",
    order="before",
    steps=600,
    kinds=(
        "none",
        "sinusoidal",
        "learned",
        "relative",
        "sinusoidal, random start",
        "learned, random start",
    ),
)
_add(
    "positions-reverse",
    "translation.positions:extrapolation",
    "The text backwards: kinds of positions on short texts, tested on longer ones",
    "2 minutes on one CPU core",
    order="reverse",
    steps=1800,
)
_add(
    "positions-trees",
    "translation.positions:agreement",
    "Verbs that agree with their subjects: positions in the sentence and in the tree",
    "1 minute on one CPU core",
)

_add(
    "attention-cost",
    "cost.attention_cost:cost",
    "Time and memory of self-attention, Linformer and an RNN over the length",
    "1 minute on one CPU core",
)
_add(
    "linformer-compared",
    "language.linformer:compared",
    "Linformer beside full attention on look-ups and topics, 3 seeds",
    "30 minutes on one CPU core",
)
_add(
    "reports-by-length",
    "language.summaries:by_length",
    "Summaries of long reports: full, local and memory-compressed attention, by length",
    "60 minutes on one CPU core",
)
_add(
    "reports-by-compression",
    "language.summaries:by_compression",
    "The same by compression, and with a loss on all of the text",
    "18 minutes on one CPU core",
)
_add(
    "reports-experts",
    "language.summaries:with_experts",
    "The five layers of Liu et al. with and without experts, with checkpoint",
    "2 minutes on one CPU core",
    checkpoint="reports-experts",
)

_OMNIGLOT = dict(data="omniglot-small", steps=2500)
for _name, _kind, _title in (
    ("", "snail", "SNAIL"),
    ("-no-attention", "no attention", "its TC blocks alone"),
    ("-no-tc", "no TC", "its attention blocks alone"),
    ("-prototypes", "prototypes", "prototypes of the embedding"),
):
    _add(
        f"snail-omniglot{_name}",
        "images.few_shot:few_shot",
        f"Small Omniglot, 5 classes of one example, small enough for one CPU core: {_title}",
        "5 minutes on one CPU core",
        needs="omniglot",
        kind=_kind,
        **_OMNIGLOT,
    )
    _add(
        f"snail-strokes{_name}",
        "images.few_shot:few_shot",
        f"Letters that the book draws, 5 classes of one example: {_title}",
        "15 minutes on one CPU core",
        kind=_kind,
        steps=1000,
        **({} if _name else dict(checkpoint="snail-strokes")),
    )
_add(
    "snail-omniglot-long",
    "images.few_shot:few_shot",
    "Small Omniglot, 5 classes of one example: SNAIL, four times as long, with checkpoint",
    "20 minutes on one CPU core",
    needs="omniglot",
    data="omniglot-small",
    steps=10_000,
    checkpoint="snail-omniglot-long",
)
_add(
    "snail-omniglot-bent",
    "images.few_shot:few_shot",
    "The same, with every picture of the training bent a little",
    "20 minutes on one CPU core",
    needs="omniglot",
    data="omniglot-small",
    steps=10_000,
    bend=0.15,
)
_add(
    "snail-omniglot-mirrored",
    "images.few_shot:few_shot",
    "The same, longer, with the classes of the training in the mirror as well",
    "25 minutes on one CPU core",
    needs="omniglot",
    data="omniglot-small",
    steps=12_000,
    bend=0.15,
    mirrored=True,
)
for _ways, _shots in ((5, 1), (5, 5), (20, 1), (20, 5)):
    for _data, _where in (("omniglot", "full"), ("omniglot-small", "small")):
        _add(
            f"snail-{_data}-{_ways}-way-{_shots}-shot-paper",
            "images.few_shot:few_shot",
            f"The {_where} Omniglot with the network of the paper, {_ways} classes of {_shots}, "
            f"K drawn from 1 to 5 in training",
            "2 hours on one GPU",
            needs="omniglot",
            data=_data,
            network="paper",
            ways=_ways,
            shots=_shots,
            shots_to_train=(1, 5) if _shots == 5 else 1,
            batch_size=32,
            steps=60_000,
            learning_rate=1e-3,
        )

for _set, _needs in (
    ("digits", ""),
    ("far-parts", ""),
    ("mnist", "mnist, mnist-t10k"),
    ("cifar-10", "cifar-10-images"),
    ("emoji", "noto-emoji"),
):
    _add(
        f"judge-{_set}",
        "images.gan:judge",
        f"A small classifier of {_set}: judge of samples and feature network of their scores, "
        f"with checkpoint",
        "1 minute on one CPU core" if _needs == "" else "10 minutes on one CPU core",
        needs=_needs,
        data=_set,
    )
_add(
    "far-parts-alone",
    "images.gan:discriminators_alone",
    "Discriminators that are to tell far parts that agree from others: which of them can?",
    "2 minutes on one CPU core",
)
for _variant in ("attention", "residual block", "scaled residual block", "none"):
    _add(
        f"far-parts-{_variant.replace(' ', '-')}",
        "images.gan:adversarial",
        f"Drawn pictures with far parts that agree, by a SAGAN, {_variant} at side 8",
        "3 minutes on one CPU core",
        data="far-parts",
        variant=_variant,
        last_side=8,
        max_channels=32,
        d_key=16,
        d_value=32,
        steps=1200,
        generator_rate=1e-3,
        discriminator_rate=3e-3,
        samples=2000,
        evaluations=6,
        checkpoint=f"far-parts-{_variant.replace(' ', '-')}",
    )
    _add(
        f"gan-digits-{_variant.replace(' ', '-')}",
        "images.gan:adversarial",
        f"Digits by class, by a SAGAN, {_variant} at side 8",
        "4 minutes on one CPU core",
        data="digits",
        variant=_variant,
        max_channels=48,
        steps=1500,
        generator_rate=1e-3,
        discriminator_rate=3e-3,
        samples=450,
        evaluations=6,
        checkpoint="gan-digits-attention" if _variant == "attention" else "",
    )
_add(
    "gan-digits-dcgan",
    "images.gan:adversarial",
    "Digits by class, by DCGAN, the baseline, with the rates that suit it best of five pairs",
    "3 minutes on one CPU core",
    data="digits",
    baseline=True,
    variant="none",
    max_channels=48,
    steps=1500,
    generator_rate=1e-3,
    discriminator_rate=1e-3,
    samples=450,
    evaluations=6,
)
# The comparison of the paper's table 1 at 32 pixels, for a GPU; seeds 0, 1 and 2.
for _set, _needs in (("cifar-10", "cifar-10-images"), ("emoji", "noto-emoji")):
    _full = dict(
        data=_set,
        blocks="residual",
        channels=64,
        max_channels=256,
        d_noise=128,
        steps=50_000,
        batch_size=64,
        generator_rate=1e-4,
        discriminator_rate=4e-4,
        average=0.999,
        precision="bf16",
        samples=10_000 if _set == "cifar-10" else 3000,
    )
    _add(
        f"gan-{_set}-dcgan",
        "images.gan:adversarial",
        f"{_set} by DCGAN, the baseline: FID",
        "1 hour on one GPU",
        needs=_needs,
        **{**_full, "baseline": True},
    )
    _add(
        f"gan-{_set}-none",
        "images.gan:adversarial",
        f"{_set} by a SAGAN without attention: FID",
        "1 hour on one GPU",
        needs=_needs,
        **{**_full, "variant": "none"},
    )
    for _side in (4, 8, 16):
        for _variant in ("attention", "residual block"):
            _add(
                f"gan-{_set}-{_variant.replace(' ', '-')}-{_side}",
                "images.gan:adversarial",
                f"{_set} by a SAGAN, {_variant} at side {_side}: FID",
                "1 hour on one GPU",
                needs=_needs,
                **{**_full, "variant": _variant, "attention_at": _side},
            )
for _kind, _width in (("snail", 32), ("lstm", 64)):
    _label = {"snail": "SNAIL", "lstm": "LSTM"}[_kind]
    _add(
        f"bandits-{_kind}-10",
        "agents:bandits",
        f"Five arms, ten pulls: {_label} by policy gradient, with checkpoint",
        f"{2 if _kind == 'snail' else 1} minutes on one CPU core",
        kind=_kind,
        width=_width,
        checkpoint=f"bandits-{_kind}-10",
    )
    _add(
        f"bandits-{_kind}-100",
        "agents:bandits",
        f"Five arms, a hundred pulls: {_label} by clipped policy gradient, with checkpoint",
        f"{4 * 60 if _kind == 'snail' else 25} minutes on one CPU core",
        kind=_kind,
        width=_width,
        pulls=100,
        batch=512,
        steps=2400,
        reuse=6,
        learning_rate=4e-3,
        entropy=0.003,
        trace=0.9,
        discount=0.99,
        count=5000,
        checkpoint=f"bandits-{_kind}-100",
    )
    _add(
        f"processes-{_kind}-10",
        "agents:processes",
        f"Decision processes, ten episodes: {_label} by policy gradient, with checkpoint",
        f"{6 if _kind == 'snail' else 4} minutes on one CPU core",
        kind=_kind,
        width={"snail": 32, "lstm": 128}[_kind],
        steps=1000,
        batch={"snail": 64, "lstm": 128}[_kind],
        learning_rate=5e-3,
        checkpoint=f"processes-{_kind}-10",
        **({"filters": 32, "order": "tat", "reach": 2} if _kind == "snail" else {}),
    )
    _add(
        f"processes-{_kind}-small",
        "agents:processes",
        f"Decision processes of 4 states and 2 actions, five episodes of 6 steps: {_label} by "
        f"policy gradient, with checkpoint",
        f"{6 if _kind == 'snail' else 3} minutes on one CPU core",
        kind=_kind,
        width=_width,
        episodes=5,
        states=4,
        num_actions=2,
        horizon=6,
        steps=4000,
        batch=256,
        learning_rate=4e-3,
        count=10_000,
        checkpoint=f"processes-{_kind}-small",
        **({"filters": 32, "order": "tat", "reach": 2} if _kind == "snail" else {}),
    )
    for _pulls, _arms in ((10, 5), (10, 10), (10, 50), (100, 5), (100, 10), (100, 50)):
        _add(
            f"bandits-{_kind}-{_pulls}-{_arms}-paper",
            "agents:bandits",
            f"{_arms} arms, {_pulls} pulls: {_label} at the size of the paper",
            "1 hour on one GPU",
            kind=_kind,
            pulls=_pulls,
            arms=_arms,
            width={"snail": 32, "lstm": 256}[_kind],
            filters=32,
            steps=10_000,
            batch=2048 if _pulls == 10 else 1024,
            learning_rate=1e-3,
            count=5000,
        )
    for _episodes in (10, 25, 50):
        _add(
            f"processes-{_kind}-{_episodes}-paper",
            "agents:processes",
            f"Decision processes, {_episodes} episodes: {_label} at the size of the paper",
            "2 hours on one GPU",
            kind=_kind,
            episodes=_episodes,
            width={"snail": 32, "lstm": 256}[_kind],
            filters=32,
            steps=20_000,
            batch=512,
            learning_rate=1e-3,
        )


def took(name: str) -> list[float]:
    """The minutes that each recorded run of an experiment took, the shortest first; empty when
    none is recorded.
    """
    runs = [
        json.loads(path.read_text(encoding="utf-8"))
        for path in resources.path("results").glob(f"{name}.seed*.json")
    ]
    return sorted(run["seconds"] / 60 for run in runs if "seconds" in run)


def reproduce(
    name: str,
    *,
    seed: int = 0,
    out: str | os.PathLike = "results",
    device: str | None = None,
    commit: str | None = None,
    **overrides: Any,
) -> Path:
    """Run an experiment and write ``OUT/NAME.seedN.json``, whole or not at all.

    Args:
        name: one of :data:`EXPERIMENTS`.
        seed: of data, weights and order.
        out: folder of the results.
        device: the GPU if there is one and the experiment can use it, else the CPU, when not given.
        commit: recorded beside the figures; asked of git when not given.
        overrides: settings to change, by name; recorded too.

    Returns:
        The path of the JSON.

    Raises:
        ValueError: for an unknown name or setting, a setting of another type than the experiment's,
            and a device that is not there or that the experiment cannot use.
    """
    import torch

    from ..training.loop.checkpoints import write_atomically
    from ..training.loop.processes import check_device

    if name not in EXPERIMENTS:
        raise ValueError(f"name must be one of {', '.join(sorted(EXPERIMENTS))}, got {name!r}")
    experiment = EXPERIMENTS[name]
    module, function = experiment.run.split(":")
    run: Callable[..., dict] = getattr(importlib.import_module(f".{module}", __package__), function)
    settings = {**run.__kwdefaults__, **experiment.settings}
    for fixed in ("seed", "device", "folder"):
        settings.pop(fixed, None)
    unknown = set(overrides) - set(settings)
    if unknown:
        raise ValueError(
            f"settings of {name} are {', '.join(sorted(settings))}; got "
            f"{', '.join(sorted(unknown))}"
        )
    _check_types(run, overrides)
    settings.update(overrides)
    anywhere, given = "device" in run.__kwdefaults__, device
    device = str(
        check_device(device or ("cuda" if anywhere and torch.cuda.is_available() else "cpu"))
    )
    if not anywhere and not device.startswith("cpu"):
        raise ValueError(f"device: got {device!r}, expected 'cpu': {name} runs there alone")
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    started = time.perf_counter()
    figures = run(seed=seed, folder=folder, **({"device": device} if anywhere else {}), **settings)
    record = {
        "name": name,
        "title": experiment.title,
        "seed": seed,
        "settings": settings,
        "figures": figures,
        "seconds": round(time.perf_counter() - started, 1),
        "device": _device_name(device),
        "versions": _versions(),
        "commit": commit or _commit(),
        "command": _command(name, seed, given and device, overrides),
    }
    text = json.dumps(record, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    return write_atomically(folder / f"{name}.seed{seed}.json", text.encode())


def read_setting(text: str) -> Any:
    """The value of a setting that is given as text: a number, a truth value, what JSON says,
    else the text itself.
    """
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    try:
        return json.loads(text)
    except ValueError:
        return text


def _command(name: str, seed: int, device: str | None, overrides: dict[str, Any]) -> str:
    """The command line that gives the run again."""
    words = [
        "attnbook",
        "reproduce",
        name,
        "--seed",
        str(seed),
        *(("--device", device) if device else ()),
    ]
    for key, value in overrides.items():
        plain = isinstance(value, str) and read_setting(value) == value
        words += ["--set", f"{key}={value if plain else json.dumps(value, ensure_ascii=False)}"]
    return shlex.join(words)


def _check_types(run: Callable, settings: dict[str, Any]) -> None:
    """Raise a ValueError for a setting that is not of the type of the argument: as annotated,
    else the type of its default.
    """
    hints = get_type_hints(run)
    for key, value in settings.items():
        kind = hints.get(key, type(run.__kwdefaults__[key]))
        if not _is_of(value, kind):
            raise ValueError(f"{key}: got {value!r}, expected {inspect.formatannotation(kind)}")


def _is_of(value: object, kind: Any) -> bool:
    """Whether a value is of a type; lists and tuples count as one, since JSON knows only lists,
    and a whole number is a float too.
    """
    if isinstance(kind, UnionType):
        return any(_is_of(value, one) for one in get_args(kind))
    plain = get_origin(kind) or kind
    if plain in (tuple, list, Sequence):
        wanted = [one for one in get_args(kind) if one is not ...]
        return isinstance(value, tuple | list) and all(
            any(_is_of(item, one) for one in wanted or [object]) for item in value
        )
    if isinstance(value, bool):
        return plain in (bool, object)
    return isinstance(value, int | float if plain is float else plain)


def _device_name(device: str) -> str:
    import torch

    if device.startswith("cuda"):
        return torch.cuda.get_device_name(device)
    if not device.startswith("cpu"):
        return f"{platform.machine()} {device}"
    return f"{platform.machine()} CPU, {torch.get_num_threads()} threads"


def _versions() -> dict[str, str]:
    from importlib.metadata import PackageNotFoundError, version

    found = {"python": platform.python_version()}
    for package in ("attnbook", "torch", "numpy", "accelerate", "tokenizers", "sacrebleu"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def _commit() -> str:
    here = Path(__file__).resolve().parent
    try:
        shown = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=12"],
            cwd=here,
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return shown.stdout.strip()
