"""Translation of real sentences: Multi30k with BLEU, Tatoeba with a small checkpoint, alignment
error rate on Alibi.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ... import resources
from ...models import Bahdanau, Seq2Seq
from ...tasks.sequences.batches import SequenceBatches, collate
from ...tasks.sequences.pairs import Pair
from ...tasks.text import subwords
from ...tasks.translation import corpora
from ...tasks.translation.alignments import alignment_error_rate, links_from_weights, word_weights
from ...training import beam_search, bleu, greedy, load_model_weights, read_metadata, token_loss
from ...training.evaluation.metrics import check_installed
from ...training.losses.token_loss import device_of
from ..common import rounded, save_checkpoint, select, train, training_figures
from ..registry import NoSettings, register

__all__ = ["alibi", "align", "multi30k", "tatoeba", "translate"]

LENGTHS = ((1, 10), (11, 20), (21, 30), (31, 999))
"""Lengths of the English sentence in words, as the alignment error rate is grouped."""

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


def _aer(model, pieces_in, pieces_out) -> dict[str, float]:
    figures = _aer_of(corpora.alibi("en", "fr"), model, pieces_in, pieces_out)
    return {
        "aer_alibi": figures["attention"],
        "aer_alibi_diagonal": figures["diagonal"],
        "sentences": figures["sentences"],
    }


def _aer_of(gold, model, pieces_in, pieces_out) -> dict:
    """Alignment error rate of the model's largest weights, and of the plain diagonal, which
    depends on the two lengths alone.
    """
    model.eval()
    predicted = [
        links_from_weights(align(model, pair.source, pair.target, pieces_in, pieces_out))
        for pair in gold
    ]
    diagonal = [
        {
            (round(j * (len(p.source) - 1) / max(1, len(p.target) - 1)), j)
            for j in range(len(p.target))
        }
        for p in gold
    ]
    sure, possible = [p.sure for p in gold], [p.possible for p in gold]
    return {
        "attention": round(alignment_error_rate(predicted, sure, possible), 4),
        "diagonal": round(alignment_error_rate(diagonal, sure, possible), 4),
        "sentences": len(gold),
    }


def alibi(settings: NoSettings, *, seed: int = 0, device: str = "cpu") -> dict:
    """Alignment error rate of the recorded ``tatoeba-en-fr`` model by length of the English
    sentence.
    """
    name = f"results/tatoeba-en-fr.seed{seed}"
    pieces_in, pieces_out = (
        subwords.Subwords.load(resources.path(f"{name}.{side}.json")) for side in ("en", "fr")
    )
    metadata = read_metadata(resources.path(f"{name}.safetensors"))
    model = Bahdanau(
        len(pieces_in),
        len(pieces_out),
        d_embed=int(metadata["d_embed"]),
        hidden_size=int(metadata["hidden_size"]),
    )
    load_model_weights(model, resources.path(f"{name}.safetensors"))
    model.to(device)
    gold, rows = corpora.alibi("en", "fr"), []
    for low, high in LENGTHS:
        chosen = [pair for pair in gold if low <= len(pair.source) <= high]
        rows.append({"words": [low, high], **_aer_of(chosen, model, pieces_in, pieces_out)})
    return {"all": _aer_of(gold, model, pieces_in, pieces_out), "by_words": rows}


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
    """Settings of every recurrent model of Multi30k."""

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
            return Bahdanau(source_size, target_size, **sizes)
        # the fixed vector gets the help it has in the literature: the context at every step, the
        # source reversed
        return Seq2Seq(
            source_size, target_size, context_every_step=True, reverse_source=True, **sizes
        )

    figures, model, pieces_in, pieces_out = train_on_multi30k(
        make, settings, seed=seed, device=device
    )
    if settings.model == "bahdanau" and settings.target == "fr":
        figures.update(_aer(model, pieces_in, pieces_out))
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
    history = _train_on_pieces(
        model, pairs, valid, pieces_in, pieces_out, settings, seed=seed, device=device, warmup=200
    )
    figures = {
        "validation_loss": rounded(history.evaluations),
        **training_figures(model, history),
        **bleu_figures(model, parts["test2016"], pieces_in, pieces_out),
    }
    return figures, model, pieces_in, pieces_out


def _train_on_pieces(model, pairs, valid, pieces_in, pieces_out, settings, *, seed, **options):
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


@dataclass(frozen=True)
class TatoebaSettings:
    pieces: int = 1600  # size of the subword vocabulary
    d_embed: int = 64  # width of the embeddings
    hidden_size: int = 128  # units of the recurrent layers
    dropout: float = 0.1  # dropout rate
    label_smoothing: float = 0.1  # mass that label smoothing spreads
    batch_size: int = 128  # examples per step
    steps: int = 11000  # training steps
    learning_rate: float = 2e-3  # peak learning rate


def tatoeba(
    settings: TatoebaSettings, *, seed: int = 0, device: str = "cpu", folder: Path = Path("results")
) -> dict:
    """Train a small attention model on Tatoeba English to French, save it (under 2 MB), measure
    BLEU and AER.

    The split is by English sentence, so that no test sentence occurs in training with another
    translation.
    """
    check_installed("bleu")
    groups: dict[str, list[corpora.Sentences]] = {}
    for pair in corpora.tatoeba("en", "fr"):
        groups.setdefault(pair.source, []).append(pair)
    keys = sorted(groups)
    order = torch.randperm(len(keys), generator=torch.Generator().manual_seed(seed)).tolist()
    held = {keys[i] for i in order[:2000]}
    train_text = [pair for key in keys if key not in held for pair in groups[key]]
    test = [groups[keys[i]] for i in order[:1000]]
    valid = [groups[keys[i]][0] for i in order[1000:2000]]
    pieces_in = subwords.Subwords.train((s.source for s in train_text), settings.pieces)
    pieces_out = subwords.Subwords.train((s.target for s in train_text), settings.pieces)
    pairs = subwords.to_pairs(train_text, pieces_in, pieces_out, 60)
    valid_pairs = subwords.to_pairs(valid, pieces_in, pieces_out)
    torch.manual_seed(seed)
    sizes = select(settings, "d_embed", "hidden_size", "dropout")
    model = Bahdanau(len(pieces_in), len(pieces_out), **sizes)
    history = _train_on_pieces(
        model,
        pairs,
        valid_pairs,
        pieces_in,
        pieces_out,
        settings,
        seed=seed,
        device=device,
        warmup=500,
    )
    sources = [group[0].source for group in test]
    # sacrebleu wants as many references for every sentence: the first stands in where a sentence
    # has fewer
    several = [[group[k if k < len(group) else 0].target for k in range(4)] for group in test]
    translations = translate(model, sources, pieces_in, pieces_out)
    save_checkpoint(
        model,
        "tatoeba-en-fr",
        folder,
        seed,
        **select(settings, "d_embed", "hidden_size"),
        data="Tatoeba (CC BY 2.0), sentences of tatoeba.org",
    )
    for name, pieces in (("en", pieces_in), ("fr", pieces_out)):
        pieces.save(folder / f"tatoeba-en-fr.seed{seed}.{name}.json")
    one = bleu(translations, [references[0] for references in several])
    four = bleu(translations, several)
    return {
        "train_pairs": len(train_text),
        "bleu_greedy_one_reference": round(one.score, 2),
        "bleu_greedy_up_to_four_references": round(four.score, 2),
        "bleu_signature": four.signature,
        **training_figures(model, history),
        "validation_loss": rounded(history.evaluations),
        **_aer(model, pieces_in, pieces_out),
    }


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
register(
    "tatoeba-en-fr",
    tatoeba,
    TatoebaSettings(),
    title="A small attention model of everyday English and French, with its checkpoint; "
    "alignment error rate on Alibi",
    minutes="30 minutes on one CPU core",
    needs="tatoeba-fra-eng, alibi-alignments",
)
register(
    "tatoeba-en-fr-alignment",
    alibi,
    NoSettings(),
    title="Alignment error rate of the recorded tatoeba-en-fr model on Alibi, by length",
    minutes="1 minute on one CPU core",
    needs="alibi-alignments",
)
