"""A small masked language model of real English sentences, and how it and its heads resolve the
pronouns of Winogender.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from attnbook.mechanisms.layers.residual import PreNorm
from attnbook.models.transformer.language_model import TransformerEncoderModel
from attnbook.models.transformer.parts import paper_parts
from attnbook.modules import device_of
from attnbook.tasks import TOKEN_IDS
from attnbook.tasks.text import sentences, subwords, winogender
from attnbook.tasks.text.masking import MASK, MaskedBatches, pad
from attnbook.tasks.translation import corpora
from attnbook.tasks.translation.alignments import word_weights
from attnbook.training.losses.masked_language import hidden_logits, masked_loss

from ..common import save_checkpoint, select, train, training_figures
from ..registry import register

__all__ = ["head_shares", "make_model", "preferences", "read_words", "winogender_heads"]


def make_model(
    vocabulary_size: int,
    *,
    d_model: int = 96,
    num_heads: int = 4,
    num_layers: int = 4,
    dropout: float = 0.0,
) -> TransformerEncoderModel:
    """An encoder-only Transformer with the norm before each sublayer."""
    parts = paper_parts(
        d_model, num_heads, 4 * d_model, dropout=dropout, residual=PreNorm, activation="gelu"
    )
    return TransformerEncoderModel(
        vocabulary_size, parts, num_layers=num_layers, token_ids=TOKEN_IDS
    )


@torch.no_grad()
def _scores(model, batches: MaskedBatches, count: int) -> dict[str, float]:
    """Loss on the masked pieces, and the share of them that are predicted right ("told")."""
    total = right = terms = 0.0
    for step in range(count):
        logits, target = hidden_logits(model, batches.batch(step))
        total += float(F.cross_entropy(logits, target, reduction="sum"))
        right, terms = right + float((logits.argmax(-1) == target).sum()), terms + len(target)
    return {"loss": round(total / terms, 4), "told": round(right / terms, 4)}


@torch.no_grad()
def preferences(
    model, pieces, schemas: Sequence[winogender.Schema], batch_size: int = 128
) -> list[bool]:
    """For each sentence: is the rest more probable with the right person in the place of the
    pronoun than with the wrong one?

    ``Σ_t log p(w_t | all other pieces)`` over the pieces after the pronoun, each masked in turn,
    for the sentence in which "the NOUN" (or "the NOUN 's") replaces the pronoun. Scoring the rest
    and not the noun keeps frequent nouns from winning.

    Source: the partial score of Trinh and Le 2018, with the pseudo-log-likelihood of a masked
    model.
    """
    rows, sources = [], []
    for index, schema in enumerate(schemas):
        for candidate, place in enumerate((schema.referent, schema.other)):
            noun = ["the", schema.words[place], *(["'s"] if schema.possessive else [])]
            before, after = schema.words[: schema.pronoun], schema.words[schema.pronoun + 1 :]
            tokens, owners = pieces.split_words([*before, *noun, *after])
            ids = pieces.vocab.encode(tokens)
            for t, word in enumerate(owners):
                if word >= schema.pronoun + len(noun):
                    rows.append(([*ids[:t], MASK, *ids[t + 1 :]], t, ids[t]))
                    sources.append((index, candidate))
    scores = torch.zeros(len(schemas), 2, dtype=torch.float64)
    device = device_of(model)
    for start in range(0, len(rows), batch_size):
        part = rows[start : start + batch_size]
        tokens, lengths = pad([ids for ids, _, _ in part])
        states = model.encode(tokens.to(device), lengths.to(device))
        states = states[torch.arange(len(part)), [t for _, t, _ in part]]
        log_p = model.output(states).double().log_softmax(-1).cpu()
        for k, (_, _, target) in enumerate(part):
            scores[sources[start + k]] += log_p[k, target]
    return [bool(a > b) for a, b in scores.tolist()]


def read_words(model, pieces, words: Sequence[str]) -> Tensor:
    """Weights of all heads between the words of a text, ``(layers, h, n, n)``: summed over the
    pieces of the key's word, averaged over those of the query's word."""
    tokens, owners = pieces.split_words(words)
    ids = torch.tensor([pieces.vocab.encode(tokens)], device=device_of(model))
    with torch.no_grad():
        layers = model(ids, need_weights=True).weights
    heads = [[word_weights(head.cpu(), owners, owners) for head in layer[0]] for layer in layers]
    return torch.from_numpy(np.array(heads))


def head_shares(model, pieces, genders: Sequence[str] = winogender.GENDERS) -> dict:
    """For each layer and head: in how many sentences the pronoun gives the referent more weight
    than the other person.

    Returns:
        ``(layers, h)`` each, means over the genders. "more": share of sentences. "largest": share
        with the largest weight on the referent. "pairs": share of pairs with both sentences right,
        of all 60 pairs; "pairs_even", "pairs_odd": of every second one.
    """
    more, largest = [], []
    for gender in genders:
        for schema in winogender.schemas(gender):
            row = read_words(model, pieces, schema.words)[:, :, schema.pronoun]  # (layers, h, n)
            more.append(row[..., schema.referent] > row[..., schema.other])
            largest.append(row.argmax(-1) == schema.referent)
    # (genders, 120, layers, h)
    more = torch.stack(more).unflatten(0, (len(genders), -1)).double()
    largest = torch.stack(largest).unflatten(0, (len(genders), -1)).double()
    pairs = more[:, ::2] * more[:, 1::2]

    def table(values: Tensor) -> list:
        return [[round(x, 4) for x in row] for row in values.mean((0, 1)).tolist()]

    return {
        "more": table(more),
        "largest": table(largest),
        "pairs": table(pairs),
        "pairs_even": table(pairs[:, ::2]),
        "pairs_odd": table(pairs[:, 1::2]),
    }


def _share(right: Sequence[bool]) -> float:
    return round(sum(right) / len(right), 4)


def _both(right: Sequence[bool]) -> list[bool]:
    """Whether both sentences of a pair are right."""
    return [a and b for a, b in zip(right[::2], right[1::2])]


def _texts() -> list[str]:
    """English sentences without duplicates, in lower case: Tatoeba, captions of Multi30k, and
    those of WikiText-2's validation file without <unk>.
    """
    texts = [pair.source for pair in corpora.tatoeba("en", "fr")]
    texts += [pair.source for pair in corpora.multi30k("en", "de", "train")]
    for pair in sentences.wikitext(min_count=1).train:
        if "<unk>" not in pair.source:
            text = " ".join(pair.source)
            for mark in "-,.":
                text = text.replace(f" @{mark}@ ", mark)
            texts.append(text)
    joined = (subwords.join_words(corpora.words(text))[0] for text in texts)
    return sorted(set(filter(None, joined)))


@dataclass(frozen=True)
class Settings:
    pieces: int = 4000  # size of the subword vocabulary
    d_model: int = 96  # width of the model
    num_heads: int = 4  # attention heads
    num_layers: int = 4  # layers
    dropout: float = 0.1  # dropout rate
    batch_size: int = 64  # examples per step
    steps: int = 3500  # training steps
    learning_rate: float = 2e-3  # peak learning rate
    max_pieces: int = 48  # longest sentence in pieces


def winogender_heads(
    settings: Settings, *, seed: int = 0, device: str = "cpu", folder: Path = Path("results")
) -> dict:
    """Train on real sentences, save the model (under 2 MB), and measure how it and each of its
    heads resolve Winogender's pairs.
    """
    texts = _texts()
    pieces = subwords.Subwords.train(texts, settings.pieces)
    ids = [row for row in map(pieces.encode, texts) if 3 <= len(row) <= settings.max_pieces]
    order = torch.randperm(len(ids), generator=torch.Generator().manual_seed(seed)).tolist()
    held_out, training = [ids[i] for i in order[:2000]], [ids[i] for i in order[2000:]]
    sizes = select(settings, "d_model", "num_heads", "num_layers")
    torch.manual_seed(seed)
    model = make_model(len(pieces), dropout=settings.dropout, **sizes).to(device)
    untrained = head_shares(model.eval(), pieces)
    valid = MaskedBatches(held_out, len(pieces), 128, seed=seed + 1)
    history = train(
        model,
        MaskedBatches(training, len(pieces), settings.batch_size, seed=seed),
        masked_loss,
        settings,
        seed=seed,
        device=device,
        warmup=max(1, settings.steps // 20),
        evaluate=lambda m: _scores(m, valid, 8)["loss"],
        evaluations=10,
    )
    model.eval()
    schemas = winogender.schemas("neutral")
    right = preferences(model, pieces, schemas)
    nearest = [schema.referent > schema.other for schema in schemas]
    licences = "Tatoeba (CC BY 2.0), Multi30k, WikiText-2 (CC BY-SA)"
    save_checkpoint(model, "winogender-heads", folder, seed, **sizes, data=licences)
    pieces.save(folder / f"winogender-heads.seed{seed}.en.json")
    return {
        "sentences": len(training),
        "pieces": sum(map(len, training)),
        "validation_loss": [[step, value] for step, value in history.evaluations],
        "validation": _scores(model, valid, 16),
        "preferred": _share(right),
        "preferred_pairs": _share(_both(right)),
        "nearest": _share(nearest),
        "nearest_pairs": _share(_both(nearest)),
        "heads": head_shares(model, pieces),
        "heads_untrained": untrained,
        **training_figures(model, history),
    }


register(
    "winogender-heads",
    winogender_heads,
    Settings(),
    title="A masked language model of real sentences, with checkpoint: how it and its heads "
    "resolve Winogender's pronouns",
    minutes="12 minutes on one CPU core",
    needs="tatoeba-fra-eng, multi30k, wikitext-2, winogender",
)
