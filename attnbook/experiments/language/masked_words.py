"""A small masked language model of real English sentences, and what it and its heads make of
Winogender's pronouns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from ...mechanisms.layers.residual import PreNorm
from ...models.transformer.language_model import TransformerEncoderModel
from ...models.transformer.parts import paper_parts
from ...tasks.text import sentences, subwords, winogender
from ...tasks.text.masking import MASK, MaskedBatches, pad
from ...tasks.translation import corpora
from ...tasks.translation.alignments import word_weights
from ...training import cosine_decay, fit, save_model
from ...training.losses.masked_language import hidden_logits, masked_loss
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
    return TransformerEncoderModel(vocabulary_size, parts, num_layers=num_layers)


def _told(model, batches: MaskedBatches, count: int) -> dict[str, float]:
    """Loss and share of hidden pieces that the model tells."""
    total = right = terms = 0.0
    for step in range(count):
        with torch.no_grad():
            logits, wanted = hidden_logits(model, batches.batch(step))
        total += float(torch.nn.functional.cross_entropy(logits, wanted, reduction="sum"))
        right, terms = right + float((logits.argmax(-1) == wanted).sum()), terms + len(wanted)
    return {"loss": round(total / terms, 4), "told": round(right / terms, 4)}


def preferences(
    model, pieces, schemas: Sequence[winogender.Schema], batch_size: int = 128
) -> list[bool]:
    """For each sentence: is the rest more probable with the right person in the place of the
    pronoun than with the wrong one?

    ``Σ_t log p(w_t | all other pieces)`` over the pieces behind the pronoun, each hidden on its
    own, for the sentence in which "the NOUN" (or "the NOUN 's") replaces the pronoun. Scoring the
    rest and not the noun keeps frequent nouns from winning.

    Source: the partial score of Trinh and Le 2018, with the pseudo-log-likelihood of a masked
    model.
    """
    rows, owner = [], []
    for index, schema in enumerate(schemas):
        for candidate, place in enumerate((schema.referent, schema.other)):
            stands_for = ["the", schema.words[place], *(["'s"] if schema.possessive else [])]
            text = [
                *schema.words[: schema.pronoun],
                *stands_for,
                *schema.words[schema.pronoun + 1 :],
            ]
            tokens, owners = pieces.split_words(text)
            ids = pieces.vocab.encode(tokens)
            first = schema.pronoun + len(stands_for)
            for t, word in enumerate(owners):
                if word >= first:
                    rows.append(([*ids[:t], MASK, *ids[t + 1 :]], t, ids[t]))
                    owner.append((index, candidate))
    scores = torch.zeros(len(schemas), 2, dtype=torch.float64)
    device = next(model.parameters()).device
    for start in range(0, len(rows), batch_size):
        some = rows[start : start + batch_size]
        tokens, lengths = pad([ids for ids, _, _ in some])
        with torch.no_grad():
            states = model.encode(tokens.to(device), lengths.to(device))
            log_p = (
                model.output(states[torch.arange(len(some)), [t for _, t, _ in some]])
                .double()
                .log_softmax(-1)
                .cpu()
            )
        for k, (_, _, wanted) in enumerate(some):
            scores[owner[start + k]] += log_p[k, wanted]
    return [bool(a > b) for a, b in scores.tolist()]


def read_words(model, pieces, words: Sequence[str]) -> torch.Tensor:
    """Weights of all heads between the words of one text, ``(layers, h, n, n)``: summed over the
    pieces of the word that is looked at, averaged over those of the word that looks."""
    tokens, owners = pieces.split_words(words)
    ids = torch.tensor([pieces.vocab.encode(tokens)], device=next(model.parameters()).device)
    with torch.no_grad():
        layers = model(ids, need_weights=True).weights
    return torch.stack(
        [
            torch.stack(
                [torch.from_numpy(word_weights(head.cpu(), owners, owners)) for head in layer[0]]
            )
            for layer in layers
        ]
    )


def head_shares(model, pieces, genders: Sequence[str] = winogender.GENDERS) -> dict:
    """Per layer and head: on how many sentences the pronoun gives the referent more weight than the
    other person.

    Returns:
        ``more (layers, h)``: share of sentences; ``pairs``: share of pairs with both sentences
        right, for all 60 pairs and for the even and the odd ones; ``largest``: share whose largest
        weight lies on the referent. Means over the genders.
    """
    more, largest = [], []
    for gender in genders:
        of_more, of_largest = [], []
        for schema in winogender.schemas(gender):
            row = read_words(model, pieces, schema.words)[:, :, schema.pronoun]  # (layers, h, n)
            of_more.append(row[..., schema.referent] > row[..., schema.other])
            of_largest.append(row.argmax(-1) == schema.referent)
        more.append(torch.stack(of_more))
        largest.append(torch.stack(of_largest))
    # (genders, 120, layers, h)
    more, largest = torch.stack(more).double(), torch.stack(largest).double()
    pairs = more[:, ::2] * more[:, 1::2]

    def table(values: torch.Tensor) -> list:
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
    """English sentences, lower case, each once: Tatoeba, captions of Multi30k, WikiText-2's
    validation file where nothing is <unk>.
    """
    found = [s.source for s in corpora.tatoeba("en", "fr")] + [
        s.source for s in corpora.multi30k("en", "de", "train")
    ]
    wiki = [
        pair.source for pair in sentences.wikitext(min_count=1).train if "<unk>" not in pair.source
    ]
    found += [
        " ".join(words).replace(" @-@ ", "-").replace(" @,@ ", ",").replace(" @.@ ", ".")
        for words in wiki
    ]
    texts = [subwords.join_words(corpora.words(text))[0] for text in found]
    return sorted(set(filter(None, texts)))


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
    """Train on real sentences, keep the model (under 2 MB), and ask it and each of its heads
    about Winogender's pairs.
    """
    texts = _texts()
    split = subwords.Subwords.train(texts, settings.pieces)
    ids = [one for one in map(split.encode, texts) if 3 <= len(one) <= settings.max_pieces]
    order = torch.randperm(len(ids), generator=torch.Generator().manual_seed(seed)).tolist()
    held, kept = [ids[i] for i in order[:2000]], [ids[i] for i in order[2000:]]
    sizes = dict(
        d_model=settings.d_model, num_heads=settings.num_heads, num_layers=settings.num_layers
    )
    torch.manual_seed(seed)
    net = make_model(len(split), dropout=settings.dropout, **sizes).to(device)
    untrained = head_shares(net.eval(), split)
    valid = MaskedBatches(held, len(split), 128, seed=seed + 1)
    history = fit(
        net,
        MaskedBatches(kept, len(split), settings.batch_size, seed=seed),
        masked_loss,
        steps=settings.steps,
        learning_rate=settings.learning_rate,
        schedule=cosine_decay(settings.steps, max(1, settings.steps // 20)),
        seed=seed,
        device=device,
        evaluate=lambda m: _told(m, valid, 8)["loss"],
        evaluate_every=max(1, settings.steps // 10),
    )
    net.eval()
    schemas = winogender.schemas("neutral")
    right = preferences(net, split, schemas)
    later = [schema.referent > schema.other for schema in schemas]
    save_model(
        net,
        folder / f"winogender-heads.seed{seed}.safetensors",
        half=True,
        **{k: str(v) for k, v in sizes.items()},
        data="Tatoeba (CC BY 2.0), Multi30k, WikiText-2 (CC BY-SA)",
    )
    split.save(folder / f"winogender-heads.seed{seed}.en.json")
    return {
        "parameters": sum(p.numel() for p in net.parameters()),
        "sentences": len(kept),
        "pieces": sum(map(len, kept)),
        "validation_loss": [[step, value] for step, value in history.evaluations],
        "validation": _told(net, valid, 16),
        "preferred": _share(right),
        "preferred_pairs": _share(_both(right)),
        "nearest": _share(later),
        "nearest_pairs": _share(_both(later)),
        "heads": head_shares(net, split),
        "heads_untrained": untrained,
        "training_seconds": round(history.seconds, 1),
    }


register(
    "winogender-heads",
    winogender_heads,
    Settings(),
    title="A masked language model of real sentences, with checkpoint: whom it takes "
    "Winogender's pronouns for, and where its heads look",
    minutes="12 minutes on one CPU core",
    needs="tatoeba-fra-eng, multi30k, wikitext-2, winogender",
)
