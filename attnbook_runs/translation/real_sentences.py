"""Translation of real sentences: Multi30k with BLEU, and the word alignments of the attention."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from attnbook.decoding import beam_search, greedy
from attnbook.models import Bahdanau, Seq2Seq
from attnbook.modules import device_of
from attnbook.tasks import TOKEN_IDS
from attnbook.tasks.sequences.batches import SequenceBatches, collate
from attnbook.tasks.sequences.pairs import Pair
from attnbook.tasks.text import subwords
from attnbook.tasks.translation import corpora
from attnbook.tasks.translation.alignments import (
    alignment_error_rate,
    links_from_weights,
    word_weights,
)
from attnbook.training import bleu, token_loss
from attnbook.training.evaluation.metrics import check_installed

from ..common import rounded, select, train, training_figures
from ..registry import register

__all__ = [
    "aer_of_links",
    "alibi_figures",
    "align",
    "attention_links",
    "bleu_figures",
    "diagonal_links",
    "multi30k",
    "read_multi30k",
    "train_on_multi30k",
    "train_on_pieces",
    "translate",
    "validation_loss",
]

BLEU_LENGTHS = ((1, 8), (9, 11), (12, 14), (15, 18), (19, 99))
"""Lengths of the source in words, as BLEU is grouped."""


def translate(
    model,
    sentences,
    pieces_in,
    pieces_out,
    *,
    beam_size: int = 1,
    batch_size: int = 256,
    max_length: int = 80,
) -> list[str]:
    """Translate sentences, greedily or with a beam (scores divided by the length), in order."""
    order = sorted(range(len(sentences)), key=lambda i: len(sentences[i]))
    translations: list[str] = [""] * len(sentences)
    beam: dict[str, Any] = dict(beam_size=beam_size, max_length=max_length, length_penalty=1.0)
    for start in range(0, len(order), batch_size):
        chosen = order[start : start + batch_size]
        pairs = [Pair(pieces_in.split(sentences[i]), ()) for i in chosen]
        batch = collate(pairs, pieces_in.vocab, pieces_out.vocab)
        if beam_size == 1:
            tokens = greedy(model, batch.source, batch.lengths, max_length).tokens
        else:
            beams = beam_search(model, batch.source, batch.lengths, **beam)
            tokens = [hypotheses[0].tokens for hypotheses in beams]
        for i, ids in zip(chosen, tokens):
            translations[i] = pieces_out.decode(ids)
    return translations


def align(model, source_words, target_words, pieces_in, pieces_out):
    """Attention of a given translation, between words: ``(target words, source words)``."""
    device = device_of(model)
    source, source_owner = pieces_in.split_words(source_words)
    target, target_owner = pieces_out.split_words(target_words)
    batch = collate([Pair(source, target)], pieces_in.vocab, pieces_out.vocab)
    with torch.no_grad():
        output = model(
            batch.source.to(device), batch.lengths, batch.target_in.to(device), need_weights=True
        )
    return word_weights(output.weights[0], source_owner, target_owner)


def attention_links(
    sentences: Sequence[corpora.AlignedSentences], model, pieces_in, pieces_out
) -> list[set[tuple[int, int]]]:
    """The links (source word, target word) of the model's largest weights, for each sentence."""
    return [
        links_from_weights(align(model, pair.source, pair.target, pieces_in, pieces_out))
        for pair in sentences
    ]


def diagonal_links(sentences: Sequence[corpora.AlignedSentences]) -> list[set[tuple[int, int]]]:
    """The links of the plain diagonal, which depends on the two lengths alone."""
    return [
        {
            (round(j * (len(p.source) - 1) / max(1, len(p.target) - 1)), j)
            for j in range(len(p.target))
        }
        for p in sentences
    ]


def aer_of_links(predicted, gold: Sequence[corpora.AlignedSentences]) -> float:
    """Alignment error rate of some links, rounded for a record."""
    sure, possible = [pair.sure for pair in gold], [pair.possible for pair in gold]
    return round(alignment_error_rate(predicted, sure, possible), 4)


def alibi_figures(
    model, pieces_in, pieces_out, source: str = "en", target: str = "fr"
) -> dict[str, float]:
    """Alignment error rate of a model and of the diagonal on Alibi."""
    gold = corpora.alibi(source, target)
    model.eval()
    return {
        "aer_alibi": aer_of_links(attention_links(gold, model, pieces_in, pieces_out), gold),
        "aer_alibi_diagonal": aer_of_links(diagonal_links(gold), gold),
        "sentences": len(gold),
    }


def validation_loss(pairs: Sequence[Pair], pieces_in, pieces_out) -> Callable[[nn.Module], float]:
    """A function of a model: its loss on pairs of pieces, without smoothing, in nats per piece."""
    batches = SequenceBatches(pairs, pieces_in.vocab, pieces_out.vocab, 256)

    @torch.no_grad()
    def evaluate(model: nn.Module) -> float:
        total = count = 0.0
        for k in range(len(batches)):
            summed, terms = token_loss(model, batches.batch(k))
            total, count = total + float(summed), count + float(terms)
        return total / count

    return evaluate


@dataclass(frozen=True)
class RecurrentSettings:
    """Settings of every recurrent model of Multi30k.

    They are ours, not those of the papers (Adadelta with a bound of 1 on the gradient in
    Bahdanau's, SGD at a rate of 1 with a bound of 5 in Luong's): Adam on the mean over pieces,
    where the bound of ``fit``, 1, cuts one in five of the first steps.
    """

    target: str = "de"  # target language
    pieces: int = 6000  # size of the subword vocabulary
    d_embed: int = 256  # width of the embeddings
    hidden_size: int = 512  # units of the recurrent layers
    dropout: float = 0.4  # dropout rate
    label_smoothing: float = 0.1  # mass that label smoothing spreads
    batch_size: int = 128  # examples per step
    steps: int = 6000  # training steps
    learning_rate: float = 1e-3  # peak learning rate
    precision: str = "no"  # no, bf16 or fp16


SMALL = dict[str, Any](
    pieces=4000, d_embed=128, hidden_size=192, dropout=0.2, steps=1500, learning_rate=2e-3
)
"""Small and short enough for one CPU core."""


@dataclass(frozen=True)
class Multi30kSettings(RecurrentSettings):
    model: str = "bahdanau"  # bahdanau or seq2seq


def multi30k(settings: Multi30kSettings, *, seed: int = 0, device: str = "cpu") -> dict:
    """Train on Multi30k English to ``target``; BLEU of greedy and of beam 5 on the test of 2016."""

    def make(source_size: int, target_size: int) -> nn.Module:
        sizes = select(settings, "d_embed", "hidden_size", "dropout")
        if settings.model == "bahdanau":
            return Bahdanau(source_size, target_size, **sizes, token_ids=TOKEN_IDS)
        # the fixed vector gets the help it has in the literature: the context at every step, the
        # source reversed
        return Seq2Seq(
            source_size,
            target_size,
            context_every_step=True,
            reverse_source=True,
            **sizes,
            token_ids=TOKEN_IDS,
        )

    figures, model, pieces_in, pieces_out = train_on_multi30k(
        make, settings, seed=seed, device=device
    )
    if settings.model == "bahdanau" and settings.target == "fr":
        figures.update(alibi_figures(model, pieces_in, pieces_out))
    return figures


def train_on_multi30k(
    make: Callable[[int, int], nn.Module], settings: RecurrentSettings, *, seed: int, device: str
):
    """Train ``make(source_size, target_size)`` on Multi30k.

    Returns:
        The figures, the model, and the pieces of both languages.
    """
    parts, pieces_in, pieces_out = read_multi30k(settings.target, settings.pieces)
    pairs = subwords.to_pairs(parts["train"], pieces_in, pieces_out, 80)
    valid = subwords.to_pairs(parts["valid"], pieces_in, pieces_out)
    torch.manual_seed(seed)
    model = make(len(pieces_in), len(pieces_out))
    history = train_on_pieces(
        model, pairs, valid, pieces_in, pieces_out, settings, seed=seed, device=device, warmup=200
    )
    figures = {
        "validation_loss": rounded(history.evaluations),
        **training_figures(model, history),
        **bleu_figures(model, parts["test2016"], pieces_in, pieces_out),
    }
    return figures, model, pieces_in, pieces_out


def train_on_pieces(model, pairs, valid, pieces_in, pieces_out, settings, *, seed, **options):
    """Train with label smoothing, and take the loss on the validation pairs twelve times."""
    return train(
        model,
        SequenceBatches(pairs, pieces_in.vocab, pieces_out.vocab, settings.batch_size, seed=seed),
        lambda m, b: token_loss(m, b, label_smoothing=settings.label_smoothing),
        settings,
        seed=seed,
        evaluate=validation_loss(valid, pieces_in, pieces_out),
        evaluations=12,
        **options,
    )


def read_multi30k(target: str, pieces: int, joint: bool = False):
    """The three parts of Multi30k English to ``target``, and the pieces of both languages;
    ``joint``: one vocabulary learned from both.
    """
    check_installed("bleu")  # which is computed after hours
    parts = {
        split: corpora.multi30k("en", target, split) for split in ("train", "valid", "test2016")
    }
    sides = [[pair.source for pair in parts["train"]], [pair.target for pair in parts["train"]]]
    if joint:
        both = subwords.Subwords.train(sides[0] + sides[1], pieces)
        return parts, both, both
    return parts, *(subwords.Subwords.train(side, pieces) for side in sides)


def bleu_figures(model, sentences, pieces_in, pieces_out) -> dict:
    """BLEU of greedy translations, all and by length, and of those with a beam of 5."""
    sources, references = zip(*sentences)
    figures = {}
    for name, beam_size in (("greedy", 1), ("beam5", 5)):
        translations = translate(model, sources, pieces_in, pieces_out, beam_size=beam_size)
        score = bleu(translations, list(references))
        figures[f"bleu_{name}"], figures["bleu_signature"] = round(score.score, 2), score.signature
        if name == "greedy":
            figures["bleu_by_words"] = _bleu_by_length(sources, translations, references)
    return figures


def _bleu_by_length(sources, translations, references) -> list[dict]:
    rows = []
    for low, high in BLEU_LENGTHS:
        chosen = [i for i, s in enumerate(sources) if low <= len(s.split()) <= high]
        if chosen:
            score = bleu([translations[i] for i in chosen], [references[i] for i in chosen]).score
            rows.append({"words": [low, high], "sentences": len(chosen), "bleu": round(score, 2)})
    return rows


for _language, _long in (("de", "German"), ("fr", "French")):
    for _model, _title in (("bahdanau", "attention"), ("seq2seq", "a fixed vector")):
        _alignments = ", alibi-alignments" if (_language, _model) == ("fr", "bahdanau") else ""
        register(
            f"multi30k-en-{_language}-{_model}",
            multi30k,
            Multi30kSettings(target=_language, model=_model),
            title=f"Multi30k English to {_long} with {_title}: BLEU",
            minutes="6 minutes on one GPU",
            needs=f"multi30k{_alignments}",
        )
        register(
            f"multi30k-en-{_language}-{_model}-small",
            multi30k,
            Multi30kSettings(target=_language, model=_model, **SMALL),
            title=f"The same, small and short enough for one CPU core, {_model}",
            minutes="12 minutes on one CPU core",
            needs=f"multi30k{_alignments}",
        )
