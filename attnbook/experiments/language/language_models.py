"""Language models with and without attention to their own past: perplexity, and the words that
hang on a far one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from ...models import LSTMN, LSTMLanguageModel
from ...tasks.sequences.batches import SequenceBatches, collate
from ...tasks.text import sentences
from ...training import cosine_decay, fit, save_model
from ...training.loop.temporary_state import temporary_mode
from ...training.losses.language_model import language_loss, perplexity
from ..registry import register

__all__ = ["DISTANCES", "far_words", "grammar", "make_model", "parameters", "wikitext"]

DISTANCES = ((2, 3), (4, 6), (7, 9), (10, 12), (13, 15), (16, 19), (20, 24))
"""Distances in words between a word and the one that decides it, as they are grouped; a
neighbour decides by itself.
"""

MODELS: dict[str, Callable] = {"lstmn": LSTMN, "lstm": LSTMLanguageModel}


def parameters(model) -> int:
    """How many numbers a model has to learn."""
    return sum(p.numel() for p in model.parameters())


def make_model(
    name: str, vocabulary_size: int, *, d_embed: int, hidden_size: int, dropout: float = 0.0
):
    """``"lstmn"`` with ``hidden_size`` units, or ``"lstm"`` with as many as give it equally many
    parameters.
    """
    if name not in MODELS:
        raise ValueError(f"model must be one of {sorted(MODELS)}, got {name!r}")
    options = dict(d_embed=d_embed, dropout=dropout)
    if name == "lstm":
        with torch.random.fork_rng(devices=[]):  # only to count
            wanted = parameters(LSTMN(vocabulary_size, hidden_size=hidden_size, **options))

        def size(h):  # embeddings, four gates with two biases each, output
            return vocabulary_size * d_embed + 4 * h * (d_embed + h + 2) + (h + 1) * vocabulary_size

        hidden_size = min(
            range(hidden_size, 2 * hidden_size + 1), key=lambda h: abs(size(h) - wanted)
        )
    return MODELS[name](vocabulary_size, hidden_size=hidden_size, **options)


def far_words(
    model, pairs: Sequence, vocabulary, distances=DISTANCES, batch_size: int = 200
) -> list[dict]:
    """How often the words that hang on a far one come out right, by kind of sentence and distance.

    A verb is right when it is more probable than the same verb in the other number; a name when it
    is the most probable word of all. For a model with weights also how often the largest weight
    lies on the deciding word: at the step that predicts (``peak_writing``), and one step later,
    when the word itself is read (``peak_reading``).

    Returns:
        Rows of ``kind``, ``distance`` [low, high], ``words``, ``right`` and the two peaks, where
        there are weights.
    """
    forms = {
        a: b for one in sentences.INTRANSITIVE + sentences.TRANSITIVE for a, b in (one, one[::-1])
    }
    device, attends, found = next(model.parameters()).device, isinstance(model, LSTMN), {}
    for start in range(0, len(pairs), batch_size):
        some = pairs[start : start + batch_size]
        batch = collate(some, vocabulary, vocabulary)
        with torch.no_grad(), temporary_mode(model, False):
            out = model(
                batch.target_in.to(device),
                batch.lengths + 1,
                **({"need_weights": True} if attends else {}),
            )
        logits, peaks = out.logits.cpu(), out.weights.argmax(-1).tolist() if attends else None
        for b, pair in enumerate(some):
            for t, (word, sources) in enumerate(zip(pair.source, pair.alignment)):
                group = next((g for g in distances for j in sources if g[0] <= t - j <= g[1]), None)
                if group is None:
                    continue
                own = vocabulary.encode([word])[0]
                if word in forms:
                    right = logits[b, t, own] > logits[b, t, vocabulary.encode([forms[word]])[0]]
                else:
                    right = logits[b, t].argmax() == own
                (j,) = sources  # column j + 1: the first column is the token of the beginning
                looks = [peaks[b][t] == j + 1, peaks[b][t + 1] == j + 1] if attends else []
                found.setdefault(("agreement" if word in forms else "name", group), []).append(
                    [bool(right), *looks]
                )
    rows = []
    for (kind, group), answers in sorted(found.items()):
        shares = [round(sum(column) / len(answers), 4) for column in zip(*answers)]
        rows.append(
            {
                "kind": kind,
                "distance": list(group),
                "words": len(answers),
                **dict(zip(("right", "peak_writing", "peak_reading"), shares)),
            }
        )
    return rows


def _batches(pairs, vocabulary, batch_size, seed):
    return SequenceBatches(pairs, vocabulary, vocabulary, batch_size, seed=seed)


@dataclass(frozen=True)
class GrammarSettings:
    model: str = "lstmn"  # lstmn or lstm
    train_sentences: int = 20000  # training sentences
    test_sentences: int = 1000  # test sentences
    insertions: int = 3  # most insertions in training
    longer: int = 5  # insertions of the longer test sentences
    d_embed: int = 32  # width of the embeddings
    hidden_size: int = 64  # units of the recurrent layers
    batch_size: int = 64  # examples per step
    steps: int = 2000  # training steps
    learning_rate: float = 8e-3  # peak learning rate
    checkpoint: bool = False  # save the weights


def grammar(
    settings: GrammarSettings, *, seed: int = 0, device: str = "cpu", folder: Path = Path("results")
) -> dict:
    """Train on sentences with 0 to ``insertions`` phrases between; test on new ones, and on ones
    with up to ``longer``.
    """
    task = sentences.language_task(
        train=settings.train_sentences,
        valid=500,
        test=settings.test_sentences,
        seed=0,
        insertions=(0, settings.insertions),
    )
    vocabulary = task.source_vocab
    beyond = sentences.generate(
        settings.test_sentences, seed=1, insertions=(settings.insertions + 1, settings.longer)
    )
    torch.manual_seed(seed)
    net = make_model(
        settings.model, len(vocabulary), d_embed=settings.d_embed, hidden_size=settings.hidden_size
    )
    test = _batches(task.test, vocabulary, 200, seed)
    history = fit(
        net,
        _batches(task.train, vocabulary, settings.batch_size, seed),
        language_loss,
        steps=settings.steps,
        learning_rate=settings.learning_rate,
        schedule=cosine_decay(settings.steps, 20),
        seed=seed,
        device=device,
        evaluate=lambda m: perplexity(m, test),
        evaluate_every=max(1, settings.steps // 20),
    )
    if settings.checkpoint:
        save_model(
            net,
            folder / f"{settings.model}-language.seed{seed}.safetensors",
            d_embed=str(settings.d_embed),
            hidden_size=str(settings.hidden_size),
        )
    return {
        "parameters": parameters(net),
        "perplexity": round(perplexity(net, test), 4),
        "perplexity_longer": round(perplexity(net, _batches(beyond, vocabulary, 200, seed)), 4),
        "curve": [[step, round(value, 4)] for step, value in history.evaluations],
        "far_words": far_words(net, task.test, vocabulary),
        "far_words_longer": far_words(net, beyond, vocabulary),
        "training_seconds": round(history.seconds, 1),
    }


@dataclass(frozen=True)
class WikitextSettings:
    model: str = "lstmn"  # lstmn or lstm
    max_words: int = 30  # longest sentence in words
    min_count: int = 3  # least occurrences of a word in the vocabulary
    d_embed: int = 64  # width of the embeddings
    hidden_size: int = 96  # units of the recurrent layers
    dropout: float = 0.3  # dropout rate
    batch_size: int = 64  # examples per step
    steps: int = 400  # training steps
    learning_rate: float = 5e-3  # peak learning rate


def wikitext(
    settings: WikitextSettings,
    *,
    seed: int = 0,
    device: str = "cpu",
    folder: Path = Path("results"),
) -> dict:
    """Train on the sentences of WikiText-2's validation file, as the small set at hand;
    perplexity on its test file.
    """
    task = sentences.wikitext(max_words=settings.max_words, min_count=settings.min_count)
    vocabulary = task.source_vocab
    torch.manual_seed(seed)
    net = make_model(
        settings.model,
        len(vocabulary),
        d_embed=settings.d_embed,
        hidden_size=settings.hidden_size,
        dropout=settings.dropout,
    )
    valid = _batches(task.valid, vocabulary, 100, seed)
    history = fit(
        net,
        _batches(task.train, vocabulary, settings.batch_size, seed),
        language_loss,
        steps=settings.steps,
        learning_rate=settings.learning_rate,
        schedule=cosine_decay(settings.steps, 20),
        seed=seed,
        device=device,
        evaluate=lambda m: perplexity(m, valid),
        evaluate_every=max(1, settings.steps // 4),
    )
    test = _batches(task.test, vocabulary, 100, seed)
    return {
        "parameters": parameters(net),
        "vocabulary": len(vocabulary),
        "train_sentences": len(task.train),
        "train_words": sum(len(pair.source) + 1 for pair in task.train),
        "test_sentences": len(task.test),
        "unknown_share_of_test": round(_unknown(task.test, vocabulary), 4),
        "validation": [[step, round(value, 2)] for step, value in history.evaluations],
        "perplexity": round(perplexity(net, test), 2),
        "training_seconds": round(history.seconds, 1),
    }


def _unknown(pairs, vocabulary) -> float:
    ids = [i for pair in pairs for i in vocabulary.encode(pair.source)]
    return ids.count(vocabulary.encode(["<unk>"])[0]) / len(ids)


for _name, _model, _steps in (
    ("lstmn-language", "lstmn", 2000),
    ("lstm-language", "lstm", 2000),
    ("lstm-language-equal-time", "lstm", 5000),
):
    register(
        _name,
        grammar,
        GrammarSettings(model=_model, steps=_steps, checkpoint=_model == "lstmn"),
        title=f"Words that hang on a far one, {_model.upper()} of {_steps} steps",
        minutes="1 minute on one CPU core",
    )
for _model in ("lstmn", "lstm"):
    register(
        f"{_model}-wikitext-2",
        wikitext,
        WikitextSettings(model=_model),
        title=f"Sentences of WikiText-2 by words, {_model.upper()}: perplexity",
        minutes="3 minutes on one CPU core",
        needs="wikitext-2",
    )
