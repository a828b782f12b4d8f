"""Documents and memory: film reviews by hierarchical attention, long sums by feed-forward
attention, questions by hops.
"""

from __future__ import annotations

import copy
import itertools
import math
import random
from collections import Counter
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F

from ...models import FeedForwardAttention, HierarchicalAttention, MemoryNetwork
from ...models.documents.feed_forward_attention import Regressed
from ...models.rnn.common import make_recurrent, run_packed
from ...tasks import Vocabulary
from ...tasks.algorithms import adding_problem
from ...tasks.text import questions, reviews
from ...training.losses.token_loss import device_of
from ..common import rounded, select, train, training_figures
from ..registry import register

__all__ = [
    "LastState",
    "agreement",
    "answer_loss",
    "class_accuracy",
    "class_loss",
    "answer_accuracy",
    "long_sums",
    "naive_bayes",
    "pooled_film_reviews",
    "question_tasks",
    "share_solved",
    "squared_loss",
    "wilson",
]


# Long sums
# ------------------------------------------------------------------------------------------------


class LastState(nn.Module):
    """An LSTM that answers from its last state: the recurrent baseline of the long sums."""

    def __init__(self, d_input: int = 2, hidden_size: int = 100) -> None:
        super().__init__()
        self.network = make_recurrent("lstm", d_input, hidden_size)
        self.readout = nn.Linear(hidden_size, 1)
        nn.init.constant_(self.readout.bias, 0.5)

    def forward(self, inputs: torch.Tensor, lengths: torch.Tensor) -> Regressed:
        _, last = run_packed(self.network, inputs, lengths)
        return Regressed(self.readout(last[0][:, -1])[:, 0], inputs.new_zeros(inputs.shape[:2]))


def squared_loss(model, batch) -> tuple[torch.Tensor, int]:
    """Squared error of the answers to a
    :class:`attnbook.tasks.algorithms.adding_problem.MarkedNumbers`, for ``fit``.
    """
    output = model(batch.inputs, batch.lengths).output
    return (output - batch.target).square().sum(), len(batch.target)


@torch.no_grad()
def share_solved(model, batch, rows: int = 100) -> float:
    """The share of sequences whose answer is off by less than 0.04."""
    device = device_of(model)
    outputs = [
        model(inputs.to(device), lengths.to(device)).output.cpu()
        for inputs, lengths in zip(batch.inputs.split(rows), batch.lengths.split(rows))
    ]
    error = (torch.cat(outputs) - batch.target).abs()
    return int((error < adding_problem.TOLERANCE).sum()) / len(batch.target)


@dataclass(frozen=True)
class SumSettings:
    kind: str = "adding"  # adding or multiplication
    lengths: tuple[int, ...] = (100, 1000)  # steps of the sequences
    poolings: tuple[str, ...] = ("attention", "mean")  # poolings to compare
    hidden_size: int = 100  # units of the recurrent layers
    batch_size: int = 100  # examples per step
    steps: int = 1000  # training steps
    learning_rate: float = 0.01  # peak learning rate
    test: int = 1000  # test sequences
    micro_batch: int | None = None  # sequences per forward pass; None: the batch


def long_sums(settings: SumSettings, *, seed: int = 0, device: str = "cpu") -> dict:
    """Train feed-forward attention anew at each length; the share solved as training goes on, and
    the weight of the two marked steps. Length, batch and size are the paper's; steps and learning
    rate are ours, fixed beforehand."""
    rows, at_a_time = [], settings.micro_batch or 100
    for length, pooling in itertools.product(settings.lengths, settings.poolings):
        test = adding_problem.draw(
            settings.kind, length, settings.test, torch.Generator().manual_seed(10**6 + seed)
        )
        torch.manual_seed(seed)
        model = FeedForwardAttention(2, settings.hidden_size, pooling=pooling)
        history = train(
            model,
            adding_problem.LongMemoryBatches(settings.kind, length, settings.batch_size, seed),
            squared_loss,
            settings,
            seed=seed,
            device=device,
            evaluate=lambda m, test=test: share_solved(m, test, at_a_time),
            evaluations=10,
        )
        with torch.no_grad():
            inputs, lengths, _, marked = (part[:100].to(device) for part in test)
            weight = model(inputs, lengths).weights.gather(1, marked).sum(1).mean()
        rows.append(
            {
                "length": length,
                "pooling": pooling,
                "solved": round(history.evaluations[-1][1], 4),
                "course": rounded(history.evaluations),
                "weight_on_marked": round(float(weight), 5),
                "most_possible": round(most_weight(1.05 * length), 5),
                "training_seconds": round(history.seconds, 1),
            }
        )
    return {"rows": rows, "tolerance": adding_problem.TOLERANCE, "test": settings.test}


def most_weight(length: float) -> float:
    """The largest sum of the weights of two of ``length`` steps when every score lies in [−1, 1]:
    ``2e / (2e + (T − 2)/e)``.
    """
    return 2 * math.e / (2 * math.e + (length - 2) / math.e)


# Film reviews
# ------------------------------------------------------------------------------------------------


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
    validation part."""
    parts = reviews.split(
        reviews.movie_reviews(), (settings.train, settings.valid, settings.test), seed=0
    )
    vocab = Vocabulary.from_sequences(
        (row for d in parts[0] for row in d.sentences), min_count=settings.min_count, unknown="unk"
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
    best: dict = {"valid": -1.0}

    def evaluate(model) -> float:
        share = class_accuracy(model, valid)
        if share > best["valid"]:
            best.update(valid=share, weights=copy.deepcopy(model.state_dict()))
        return share

    batches = reviews.DocumentBatches(
        parts[0], vocab, settings.batch_size, seed, bucket=True, **limits
    )
    history = train(
        model,
        batches,
        class_loss,
        settings,
        seed=seed,
        device=device,
        evaluate=evaluate,
        evaluate_every=len(batches),
    )
    model.load_state_dict(best["weights"])
    model.eval()
    share, bayes = class_accuracy(model, test), naive_bayes(parts[0], parts[2])
    return {
        "accuracy": round(share, 4),
        "interval": [round(x, 4) for x in wilson(share, settings.test)],
        "test": settings.test,
        "valid": round(best["valid"], 4),
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


# Questions
# ------------------------------------------------------------------------------------------------


def answer_loss(model, batch) -> tuple[torch.Tensor, int]:
    """Cross-entropy of the answers of a :class:`attnbook.tasks.text.questions.QuestionBatch`,
    for ``fit``.
    """
    logits = model(batch.story, batch.question).logits.float()
    return F.cross_entropy(logits, batch.answer, reduction="sum"), len(batch.answer)


@torch.no_grad()
def answer_accuracy(model, batch) -> float:
    """The share of questions that are answered right."""
    device = device_of(model)
    answers = model(batch.story.to(device), batch.question.to(device)).logits.argmax(-1)
    return float((answers.cpu() == batch.answer).float().mean())


def agreement(weights: torch.Tensor, stories) -> list[list[float]]:
    """For each hop, how often its largest weight is on the first, second, … supporting sentence.

    Returns:
        A row per hop, with as many columns as the largest number of supporting sentences.

    Shapes:
        weights ``(stories, hops, n)``.
    """
    peaks = weights.argmax(-1)
    most = max(len(story.supporting) for story in stories)
    supporting = torch.tensor(
        [[*story.supporting, *[-1] * (most - len(story.supporting))] for story in stories]
    )
    return (peaks[:, :, None] == supporting[:, None]).double().mean(0).tolist()


@dataclass(frozen=True)
class QuestionSettings:
    kinds: tuple[str, ...] = questions.KINDS  # kinds of questions
    hops: tuple[int, ...] = (1, 2, 3)  # numbers of hops to compare
    encodings: tuple[str, ...] = ("position", "bag")  # encodings of a sentence to compare
    # standard deviations of the initial weights to compare
    init_std: tuple[float, ...] = (0.4, 0.1)
    train: int = 10000  # training stories
    test: int = 1000  # test stories
    d_embed: int = 32  # width of the embeddings
    batch_size: int = 64  # examples per step
    steps: int = 600  # training steps
    learning_rate: float = 5e-3  # peak learning rate


def question_tasks(settings: QuestionSettings, *, seed: int = 0, device: str = "cpu") -> dict:
    """Accuracy of :class:`attnbook.MemoryNetwork` on every kind of question: for all hops with the
    first encoding and initialisation, and with the most hops for the others.
    """
    vocab, rows = questions.vocabulary(), []
    (encoding, *encodings), (std, *stds) = settings.encodings, settings.init_std
    most = settings.hops[-1]
    variants = [(hops, encoding, std) for hops in settings.hops]
    variants += [(most, other, std) for other in encodings]
    variants += [(most, encoding, other) for other in stds]
    for kind in settings.kinds:
        generator = random.Random(f"{seed}/{kind}")
        training, test = (
            [questions.draw(kind, generator) for _ in range(count)]
            for count in (settings.train, settings.test)
        )
        batches = questions.QuestionBatches(training, vocab, settings.batch_size, seed)
        batch = questions.collate_stories(test, vocab)
        memories = max(len(story.sentences) for story in (*training, *test))
        for hops, encoding, std in variants:
            torch.manual_seed(seed)
            model = MemoryNetwork(
                len(vocab),
                d_embed=settings.d_embed,
                hops=hops,
                max_memories=memories,
                encoding=encoding,
                init_std=std,
            )
            train(model, batches, answer_loss, settings, seed=seed, device=device)
            model.eval()
            with torch.no_grad():
                weights = model(batch.story.to(device), batch.question.to(device)).weights.cpu()
            rows.append(
                {
                    "kind": kind,
                    "hops": hops,
                    "encoding": encoding,
                    "init_std": std,
                    "accuracy": round(answer_accuracy(model, batch), 4),
                    "agreement": [[round(x, 4) for x in row] for row in agreement(weights, test)],
                }
            )
        commonest = Counter(story.answer for story in training).most_common(1)[0][0]
        rows.append(
            {
                "kind": kind,
                "hops": 0,
                "encoding": "the commonest answer",
                "init_std": 0.0,
                "accuracy": round(sum(s.answer == commonest for s in test) / settings.test, 4),
                "agreement": [],
            }
        )
    return {"rows": rows}


register(
    "feed-forward-attention-adding",
    long_sums,
    SumSettings(kind="adding"),
    title="Feed-forward attention and its mean on adding, 100 and 1000 steps",
    minutes="10 minutes on one CPU core",
)
for _kind in ("adding", "multiplication"):
    register(
        f"feed-forward-attention-{_kind}-long",
        long_sums,
        SumSettings(kind=_kind, lengths=(5000, 10000), poolings=("attention",), micro_batch=1),
        title="The same recipe at 5000 and 10,000 steps, attention only",
        minutes="20 minutes on one CPU core",
    )
register(
    "feed-forward-attention-adding-paper",
    long_sums,
    SumSettings(lengths=(50, 100, 500, 1000, 5000, 10000), steps=100_000, learning_rate=3e-3),
    title="Feed-forward attention and its mean on adding, 50 to 10,000 steps, as many updates as "
    "in the paper",
    minutes="a day on one GPU",
)
for _pooling in ("attention", "mean"):
    register(
        "movie-reviews-hierarchical" + ("" if _pooling == "attention" else "-mean"),
        pooled_film_reviews,
        ReviewSettings(pooling=_pooling),
        title=f"Real film reviews by words and sentences, pooled by {_pooling}: accuracy",
        minutes="6 minutes on one CPU core",
        needs="movie_reviews",
    )
register(
    "memory-network-questions",
    question_tasks,
    QuestionSettings(),
    title="Synthetic questions by the end-to-end memory network, by hops",
    minutes="4 minutes on one CPU core",
)
