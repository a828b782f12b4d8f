"""Classes of film reviews by hierarchical attention, beside naive Bayes."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass

import torch
from torch.nn import functional as F

from attnbook.models import HierarchicalAttention
from attnbook.modules import device_of
from attnbook.tasks import Vocabulary
from attnbook.tasks.text import reviews
from attnbook.training import cosine_decay

from ..common import Best, checkpoint_folder, rounded, select, train, training_figures
from ..registry import register

__all__ = ["class_accuracy", "class_loss", "naive_bayes", "pooled_film_reviews", "wilson"]


def class_loss(model, batch):
    """Cross-entropy of the classes of a :class:`attnbook.tasks.text.reviews.DocumentBatch`, for
    ``fit``.
    """
    logits = model(batch.documents, batch.lengths).logits
    return F.cross_entropy(logits.float(), batch.label, reduction="sum"), len(batch.label)


@torch.no_grad()
def class_accuracy(model, batches) -> float:
    """The share of documents of some batches whose class is right."""
    device = device_of(model)
    right = total = 0
    for batch in batches:
        labels = model(batch.documents.to(device), batch.lengths.to(device)).logits.argmax(-1)
        right, total = right + int((labels.cpu() == batch.label).sum()), total + len(batch.label)
    return right / total


def wilson(share: float, count: int, z: float = 1.96) -> tuple[float, float]:
    """The 95 % interval of Wilson (1927) of a share of ``count`` cases."""
    middle = (share + z * z / (2 * count)) / (1 + z * z / count)
    spread = math.sqrt(share * (1 - share) / count + z * z / (4 * count * count))
    half = z * spread / (1 + z * z / count)
    return middle - half, middle + half


def naive_bayes(train, test) -> float:
    """Accuracy of multinomial naive Bayes that counts each word once per document (Pang, Lee and
    Vaithyanathan 2002): a baseline without order and without weights."""
    counts: list[Counter] = [Counter(), Counter()]
    for document in train:
        counts[document.label].update({w for row in document.sentences for w in row})
    words = {*counts[0], *counts[1]}
    total = [sum(c.values()) + len(words) for c in counts]
    odds = {
        w: math.log((counts[1][w] + 1) / total[1]) - math.log((counts[0][w] + 1) / total[0])
        for w in words
    }
    right = sum(
        int(sum(odds.get(w, 0.0) for w in {w for row in d.sentences for w in row}) > 0) == d.label
        for d in test
    )
    return right / len(test)


@dataclass(frozen=True)
class ReviewSettings:
    pooling: str = "attention"  # attention or mean
    pretraining_steps: int = 0  # steps on the classes of single sentences, before
    train: int = 1400  # training reviews
    valid: int = 200  # validation reviews
    test: int = 400  # test reviews
    min_count: int = 5  # least occurrences of a word in the vocabulary
    d_embed: int = 64  # width of the embeddings
    hidden_size: int = 50  # units of the recurrent layers
    dropout: float = 0.5  # dropout rate
    max_sentences: int = 40  # sentences read of a review
    max_words: int = 40  # words read of a sentence
    batch_size: int = 32  # examples per step
    steps: int = 440  # training steps
    learning_rate: float = 3e-3  # peak learning rate


def pooled_film_reviews(settings: ReviewSettings, *, seed: int = 0, device: str = "cpu") -> dict:
    """Train :class:`attnbook.HierarchicalAttention` on real film reviews; accuracy with a 95 %
    interval on one split for all seeds. Tested are the weights with the best accuracy on the
    validation part.

    With ``pretraining_steps`` the model first learns the classes of 10,662 single sentences about
    other films, in batches of 64; their words are in the vocabulary, too."""
    parts = reviews.split(
        reviews.movie_reviews(), (settings.train, settings.valid, settings.test), seed=0
    )
    before = reviews.sentence_polarity() if settings.pretraining_steps else []
    vocab = Vocabulary.from_sequences(
        (row for d in (*parts[0], *before) for row in d.sentences),
        min_count=settings.min_count,
        unknown="unk",
    )
    limits = select(settings, "max_sentences", "max_words")
    valid, test = (
        [
            reviews.collate_documents(part[i : i + 50], vocab, **limits)
            for i in range(0, len(part), 50)
        ]
        for part in parts[1:]
    )
    torch.manual_seed(seed)
    sizes = select(settings, "d_embed", "hidden_size", "pooling", "dropout")
    model = HierarchicalAttention(len(vocab), 2, **sizes)
    if before:
        train(
            model,
            reviews.DocumentBatches(before, vocab, 64, seed, max_words=settings.max_words),
            class_loss,
            settings,
            steps=settings.pretraining_steps,
            schedule=cosine_decay(settings.pretraining_steps, 20),
            seed=seed,
            device=device,
        )
    batches = reviews.DocumentBatches(
        parts[0], vocab, settings.batch_size, seed, bucket=True, **limits
    )
    with checkpoint_folder() as kept:
        best = Best(lambda model: class_accuracy(model, valid), kept, largest=True)
        history = train(
            model,
            batches,
            class_loss,
            settings,
            seed=seed,
            device=device,
            evaluate=best,
            evaluate_every=len(batches),
        )
        best.restore(model)
    model.eval()
    share, bayes = class_accuracy(model, test), naive_bayes([*parts[0], *before], parts[2])
    return {
        "accuracy": round(share, 4),
        "interval": [round(x, 4) for x in wilson(share, settings.test)],
        "test": settings.test,
        "valid": round(best.value or 0.0, 4),
        "course": rounded(history.evaluations),
        "naive_bayes": round(bayes, 4),
        "naive_bayes_interval": [round(x, 4) for x in wilson(bayes, settings.test)],
        "vocabulary": len(vocab),
        "last_losses": [round(x, 4) for x in history.losses[-5:]],
        **training_figures(model, history),
        **_weights_of(model, parts[2], vocab, limits),
    }


@torch.no_grad()
def _weights_of(model, documents, vocab: Vocabulary, limits: dict) -> dict:
    """How uneven the weights are, the words with the largest weights, and the three sentences of
    the first document with the largest weights.
    """
    device = device_of(model)
    words, evenness, example = Counter(), [], None
    for start in range(0, len(documents), 50):
        part = documents[start : start + 50]
        batch = reviews.collate_documents(part, vocab, **limits)
        output = model(batch.documents.to(device), batch.lengths.to(device))
        weights, rows = output.word_weights.cpu(), output.sentence_weights.cpu()
        for b, document in enumerate(part):
            i = int(rows[b].argmax())
            words[document.sentences[i][int(weights[b, i].argmax())]] += 1
            evenness.append(float(rows[b].max()) * int((batch.lengths[b] > 0).sum()))
        if example is None:
            example = {
                "label": part[0].label,
                "predicted": int(output.logits[0].argmax()),
                "sentences": [
                    {
                        "place": i,
                        "of": int((batch.lengths[0] > 0).sum()),
                        "weight": round(float(rows[0, i]), 4),
                        "words": list(part[0].sentences[i][: int(batch.lengths[0, i])]),
                        "weights": [
                            round(x, 4) for x in weights[0, i, : int(batch.lengths[0, i])].tolist()
                        ],
                    }
                    for i in rows[0].argsort(descending=True)[:3].sort().values.tolist()
                ],
            }
    return {
        "most_picked_words": words.most_common(20),
        "example": example,
        "top_sentence_over_uniform": round(sum(evenness) / len(evenness), 2),
    }


for _pooling in ("attention", "mean"):
    _name = "movie-reviews-hierarchical" + ("" if _pooling == "attention" else "-mean")
    register(
        _name,
        pooled_film_reviews,
        ReviewSettings(pooling=_pooling),
        title=f"Real film reviews by words and sentences, pooled by {_pooling}: accuracy",
        minutes="6 minutes on one CPU core",
        needs="movie_reviews",
    )
    register(
        f"{_name}-pretrained",
        pooled_film_reviews,
        ReviewSettings(pooling=_pooling, pretraining_steps=800),
        title=f"The same after the classes of single sentences, pooled by {_pooling}",
        minutes="8 minutes on one CPU core",
        needs="movie_reviews, rt-polarity",
    )
