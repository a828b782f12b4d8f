"""Language models with and without attention to their own past: perplexity, and the words that
depend on a distant one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from attnbook.models import LSTMN, LSTMLanguageModel
from attnbook.modules import device_of, temporary_mode
from attnbook.tasks import TOKEN_IDS, Vocabulary
from attnbook.tasks.sequences.batches import SequenceBatches, collate
from attnbook.tasks.sequences.pairs import Pair
from attnbook.tasks.text import sentences
from attnbook.training import language_loss, perplexity, save_model
from attnbook.validate import check_choice

from ..common import (
    Best,
    checkpoint_folder,
    count_parameters,
    rounded,
    select,
    train,
    training_figures,
)
from ..registry import register

__all__ = [
    "DISTANCES",
    "long_distance_accuracy",
    "grammar",
    "lstm_of_size",
    "make_model",
    "wikitext",
]

DISTANCES = ((2, 3), (4, 6), (7, 9), (10, 12), (13, 15), (16, 19), (20, 24))
"""Distances in words between a word and the one that decides it, as they are grouped; adjacent
words are left out.
"""

MODELS: dict[str, Callable] = {"lstmn": LSTMN, "lstm": LSTMLanguageModel}


def lstm_of_size(vocabulary_size: int, d_embed: int, parameters: int, sizes: Iterable[int]) -> int:
    """The hidden size for which an LSTM language model is closest to a number of parameters."""

    def count(h: int) -> int:  # embeddings, four gates with two biases each, output
        return vocabulary_size * d_embed + 4 * h * (d_embed + h + 2) + (h + 1) * vocabulary_size

    return min(sizes, key=lambda h: abs(count(h) - parameters))


def make_model(
    name: str, vocabulary_size: int, *, d_embed: int, hidden_size: int, dropout: float = 0.0
) -> LSTMN | LSTMLanguageModel:
    """``"lstmn"`` with ``hidden_size`` units, or an ``"lstm"`` with as many parameters."""
    check_choice("model", name, MODELS)
    if name == "lstm":
        with torch.random.fork_rng(devices=[]):  # only to count
            lstmn = LSTMN(
                vocabulary_size, hidden_size=hidden_size, d_embed=d_embed, token_ids=TOKEN_IDS
            )
        sizes = range(hidden_size, 2 * hidden_size + 1)
        hidden_size = lstm_of_size(vocabulary_size, d_embed, count_parameters(lstmn), sizes)
    return MODELS[name](
        vocabulary_size,
        hidden_size=hidden_size,
        d_embed=d_embed,
        dropout=dropout,
        token_ids=TOKEN_IDS,
    )


def long_distance_accuracy(
    model: LSTMN | LSTMLanguageModel,
    pairs: Sequence[Pair],
    vocabulary: Vocabulary,
    distances: Sequence[tuple[int, int]] = DISTANCES,
    batch_size: int = 200,
) -> list[dict]:
    """How often words that depend on a distant one come out right, by kind of sentence and
    distance.

    A verb is right when it is more probable than the same verb in the other number; a name when it
    is the most probable word of all. For a model with weights also how often the largest weight
    is on the deciding word: at the step that predicts (``peak_writing``), and one step later, when
    the word itself is read (``peak_reading``).

    Returns:
        Rows of ``kind``, ``distance`` [low, high], ``words``, ``right`` and the two peaks, where
        there are weights.
    """
    verbs = sentences.INTRANSITIVE + sentences.TRANSITIVE
    other_number = {a: b for verb in verbs for a, b in (verb, verb[::-1])}
    device, attends = device_of(model), isinstance(model, LSTMN)
    options = {"need_weights": True} if attends else {}
    groups: dict[tuple[str, tuple[int, int]], list[list[bool]]] = {}
    for start in range(0, len(pairs), batch_size):
        part = pairs[start : start + batch_size]
        batch = collate(part, vocabulary, vocabulary)
        with torch.no_grad(), temporary_mode(model, False):
            output = model(batch.target_in.to(device), batch.lengths + 1, **options)
        logits = output.logits.cpu()
        peaks = output.weights.argmax(-1).tolist() if attends else []
        for b, pair in enumerate(part):
            for t, (word, sources) in enumerate(zip(pair.source, pair.alignment or ())):
                group = next((g for g in distances for j in sources if g[0] <= t - j <= g[1]), None)
                if group is None:
                    continue
                (target,) = vocabulary.encode([word])
                if word in other_number:
                    (other,) = vocabulary.encode([other_number[word]])
                    right = logits[b, t, target] > logits[b, t, other]
                else:
                    right = logits[b, t].argmax() == target
                (j,) = sources  # column j + 1: the first column is the token of the beginning
                hits = [peaks[b][t] == j + 1, peaks[b][t + 1] == j + 1] if attends else []
                kind = "agreement" if word in other_number else "name"
                groups.setdefault((kind, group), []).append([bool(right), *hits])
    rows = []
    for (kind, group), answers in sorted(groups.items()):
        shares = [round(sum(column) / len(answers), 4) for column in zip(*answers)]
        row = {"kind": kind, "distance": list(group), "words": len(answers)}
        rows.append(row | dict(zip(("right", "peak_writing", "peak_reading"), shares)))
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
    sizes = select(settings, "d_embed", "hidden_size")
    model = make_model(settings.model, len(vocabulary), **sizes)
    test = _batches(task.test, vocabulary, 200, seed)
    history = train(
        model,
        _batches(task.train, vocabulary, settings.batch_size, seed),
        language_loss,
        settings,
        seed=seed,
        device=device,
        evaluate=lambda m: perplexity(m, test),
        evaluations=20,
    )
    if settings.checkpoint:
        save_model(
            model,
            folder / f"{settings.model}-language.seed{seed}.safetensors",
            half=False,
            **{name: str(size) for name, size in sizes.items()},
        )
    longer = _batches(beyond, vocabulary, 200, seed)
    return {
        "perplexity": round(perplexity(model, test), 4),
        "perplexity_longer": round(perplexity(model, longer), 4),
        "curve": rounded(history.evaluations),
        "far_words": long_distance_accuracy(model, task.test, vocabulary),
        "far_words_longer": long_distance_accuracy(model, beyond, vocabulary),
        **training_figures(model, history),
    }


@dataclass(frozen=True)
class WikitextSettings:
    model: str = "lstmn"  # lstmn or lstm
    max_words: int = 30  # longest sentence in words
    min_count: int = 3  # least occurrences of a word in the vocabulary
    d_embed: int = 64  # width of the embeddings
    hidden_size: int = 96  # units of the recurrent layers
    dropout: float = 0.5  # dropout rate
    batch_size: int = 64  # examples per step
    steps: int = 1500  # training steps
    learning_rate: float = 5e-3  # peak learning rate
    evaluations: int = 15  # perplexities on the validation sentences
    early_stopping: bool = True  # test the weights with the best of them


def wikitext(settings: WikitextSettings, *, seed: int = 0, device: str = "cpu") -> dict:
    """Train on the sentences of WikiText-2's validation file, a small set; perplexity on its test
    file.
    """
    task = sentences.wikitext(max_words=settings.max_words, min_count=settings.min_count)
    vocabulary = task.source_vocab
    torch.manual_seed(seed)
    sizes = select(settings, "d_embed", "hidden_size", "dropout")
    model = make_model(settings.model, len(vocabulary), **sizes)
    valid = _batches(task.valid, vocabulary, 100, seed)
    with checkpoint_folder() as kept:
        best = Best(lambda m: perplexity(m, valid), kept)
        history = train(
            model,
            _batches(task.train, vocabulary, settings.batch_size, seed),
            language_loss,
            settings,
            seed=seed,
            device=device,
            evaluate=best,
            evaluations=settings.evaluations,
        )
        if settings.early_stopping:
            best.restore(model)
    test = _batches(task.test, vocabulary, 100, seed)
    return {
        "vocabulary": len(vocabulary),
        "train_sentences": len(task.train),
        "train_words": sum(len(pair.source) + 1 for pair in task.train),
        "test_sentences": len(task.test),
        "unknown_share_of_test": round(_unknown(task.test, vocabulary), 4),
        "validation": rounded(history.evaluations, 2),
        "perplexity": round(perplexity(model, test), 2),
        **training_figures(model, history),
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
        title=f"Words that depend on a distant one, {_model.upper()} of {_steps} steps",
        minutes="1 minute on one CPU core",
    )
for _model in ("lstmn", "lstm"):
    for _ending, _rate in (("", 5e-3), ("-slow", 2e-3), ("-fast", 1e-2)):
        register(
            f"{_model}-wikitext-2-converged{_ending}",
            wikitext,
            WikitextSettings(model=_model, learning_rate=_rate),
            title=f"Sentences of WikiText-2 by words, {_model.upper()}, rate {_rate:g}: perplexity",
            minutes="4 minutes on one CPU core",
            needs="wikitext-2",
        )
