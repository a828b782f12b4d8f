"""A small attention model of Tatoeba in each direction, with its checkpoint, and what the two say
about the word alignments of Alibi.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from attnbook import resources
from attnbook.models import Bahdanau
from attnbook.tasks import TOKEN_IDS
from attnbook.tasks.text import subwords
from attnbook.tasks.translation import corpora
from attnbook.tasks.translation.alignments import SYMMETRISATIONS, symmetrise
from attnbook.training import bleu, load_model_weights, read_metadata
from attnbook.training.evaluation.metrics import check_installed
from attnbook.validate import check_choice

from ..common import rounded, save_checkpoint, select, training_figures
from ..registry import NoSettings, register
from .real_sentences import (
    aer_of_links,
    alibi_figures,
    attention_links,
    diagonal_links,
    train_on_pieces,
    translate,
)

__all__ = ["LENGTHS", "alibi", "symmetrised", "tatoeba"]

LENGTHS = ((1, 10), (11, 20), (21, 30), (31, 999))
"""Lengths of the English sentence in words, as the alignment error rate is grouped."""

OTHER = {"en": "fr", "fr": "en"}


@dataclass(frozen=True)
class TatoebaSettings:
    source: str = "en"  # source language, en or fr; the target is the other
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
    """Train a small attention model on Tatoeba, save it (under 2 MB), measure BLEU and AER.

    The split is by source sentence, so that no test sentence occurs in training with another
    translation.
    """
    check_installed("bleu")
    source = check_choice("source", settings.source, OTHER)
    languages = source, OTHER[source]
    groups: dict[str, list[corpora.Sentences]] = {}
    for pair in corpora.tatoeba(*languages):
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
    model = Bahdanau(len(pieces_in), len(pieces_out), **sizes, token_ids=TOKEN_IDS)
    history = train_on_pieces(
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
    name = "tatoeba-" + "-".join(languages)
    save_checkpoint(
        model,
        name,
        folder,
        seed,
        **select(settings, "d_embed", "hidden_size"),
        data="Tatoeba (CC BY 2.0), sentences of tatoeba.org",
    )
    for language, pieces in zip(languages, (pieces_in, pieces_out)):
        pieces.save(folder / f"{name}.seed{seed}.{language}.json")
    one = bleu(translations, [references[0] for references in several])
    four = bleu(translations, several)
    return {
        "train_pairs": len(train_text),
        "bleu_greedy_one_reference": round(one.score, 2),
        "bleu_greedy_up_to_four_references": round(four.score, 2),
        "bleu_signature": four.signature,
        **training_figures(model, history),
        "validation_loss": rounded(history.evaluations),
        **alibi_figures(model, pieces_in, pieces_out, *languages),
    }


def _load(source: str, seed: int, device: str):
    """The recorded model from one language to the other, and the pieces of both."""
    languages = source, OTHER[source]
    name = f"results/tatoeba-{'-'.join(languages)}.seed{seed}"
    pieces = [
        subwords.Subwords.load(resources.path(f"{name}.{language}.json")) for language in languages
    ]
    metadata = read_metadata(resources.path(f"{name}.safetensors"))
    model = Bahdanau(
        len(pieces[0]),
        len(pieces[1]),
        d_embed=int(metadata["d_embed"]),
        hidden_size=int(metadata["hidden_size"]),
        token_ids=TOKEN_IDS,
    )
    load_model_weights(model, resources.path(f"{name}.safetensors"))
    return model.to(device).eval(), *pieces


def _by_words(gold: Sequence[corpora.AlignedSentences], figures) -> dict:
    """``figures(indices)`` of all sentences, and of each group of lengths."""
    rows = []
    for low, high in LENGTHS:
        chosen = [k for k, pair in enumerate(gold) if low <= len(pair.source) <= high]
        rows.append({"words": [low, high], **figures(chosen)})
    return {"all": figures(range(len(gold))), "by_words": rows}


def alibi(settings: NoSettings, *, seed: int = 0, device: str = "cpu") -> dict:
    """Alignment error rate of the recorded ``tatoeba-en-fr`` model by length of the English
    sentence.
    """
    gold = corpora.alibi("en", "fr")
    links = {
        "attention": attention_links(gold, *_load("en", seed, device)),
        "diagonal": diagonal_links(gold),
    }

    def figures(chosen: Collection[int]) -> dict:
        some = [gold[k] for k in chosen]
        rates = {name: aer_of_links([of[k] for k in chosen], some) for name, of in links.items()}
        return {**rates, "sentences": len(some)}

    return _by_words(gold, figures)


def symmetrised(settings: NoSettings, *, seed: int = 0, device: str = "cpu") -> dict:
    """Alignment of the recorded models of both directions, alone and symmetrised: error rate,
    precision ``|A ∩ P| / |A|``, recall ``|A ∩ S| / |S|`` and the number of links, by length of the
    English sentence.

    Source: Och and Ney 2003, for the measures too; Koehn, Och and Marcu 2003.
    """
    gold = corpora.alibi("en", "fr")
    turned = [
        corpora.AlignedSentences(pair.target, pair.source, frozenset(), frozenset())
        for pair in gold
    ]
    forward = attention_links(gold, *_load("en", seed, device))
    backward = [
        {(i, j) for j, i in links} for links in attention_links(turned, *_load("fr", seed, device))
    ]
    links = {
        "en-fr": forward,
        "fr-en": backward,
        **{
            method: [symmetrise(a, b, method) for a, b in zip(forward, backward)]
            for method in SYMMETRISATIONS
        },
        "diagonal": diagonal_links(gold),
    }

    def figures(chosen: Collection[int]) -> dict:
        some = [gold[k] for k in chosen]
        rows = {name: _measured([of[k] for k in chosen], some) for name, of in links.items()}
        return {**rows, "sentences": len(some)}

    return _by_words(gold, figures)


def _measured(
    predicted: Sequence[set[tuple[int, int]]], gold: Sequence[corpora.AlignedSentences]
) -> dict:
    size = sum(map(len, predicted))
    possible = sum(len(a & pair.possible) for a, pair in zip(predicted, gold))
    sure = sum(len(a & pair.sure) for a, pair in zip(predicted, gold))
    return {
        "error": aer_of_links(predicted, gold),
        "precision": round(possible / size, 4) if size else None,
        "recall": round(sure / sum(len(pair.sure) for pair in gold), 4),
        "links": size,
    }


for _source, _title in (("en", "English and French"), ("fr", "French and English")):
    register(
        f"tatoeba-{_source}-{OTHER[_source]}",
        tatoeba,
        TatoebaSettings(source=_source),
        title=f"A small attention model of everyday {_title}, with its checkpoint; alignment error "
        "rate on Alibi",
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
register(
    "tatoeba-alignment-symmetrised",
    symmetrised,
    NoSettings(),
    title="Alignment error rate of both recorded Tatoeba models on Alibi, alone and symmetrised",
    minutes="1 minute on one CPU core",
    needs="alibi-alignments",
)
