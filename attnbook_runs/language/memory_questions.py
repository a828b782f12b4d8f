"""Questions about stories by the end-to-end memory network, by hops."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from attnbook.models import MemoryNetwork
from attnbook.modules import device_of
from attnbook.tasks.text import questions

from ..common import train
from ..registry import register

__all__ = ["agreement", "answer_accuracy", "answer_loss", "question_tasks"]


def answer_loss(model, batch) -> tuple[Tensor, int]:
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


def agreement(weights: Tensor, stories) -> list[list[float]]:
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
    "memory-network-questions",
    question_tasks,
    QuestionSettings(),
    title="Synthetic questions by the end-to-end memory network, by hops",
    minutes="4 minutes on one CPU core",
)
