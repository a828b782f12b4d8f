"""Questions by the memory network, small: what is measured, on models that are known."""

import random
from types import SimpleNamespace

import pytest
import torch

from attnbook.tasks.text import questions
from attnbook_runs.language import memory_questions


def test_question_tasks_fill_the_table(figures_of):
    sizes = dict(hops=(1, 2), train=100, test=50, d_embed=8, steps=3)
    rows = figures_of("memory-network-questions", kinds=("one fact", "giving"), **sizes)["rows"]
    plans = [(r["kind"], r["hops"], r["encoding"], r["init_std"]) for r in rows]
    for kind in ("one fact", "giving"):
        assert [p[1:] for p in plans if p[0] == kind] == [
            (1, "position", 0.4),
            (2, "position", 0.4),
            (2, "bag", 0.4),
            (2, "position", 0.1),
            (0, "the commonest answer", 0.0),
        ]
    assert all(0 <= r["accuracy"] <= 1 and len(r["agreement"]) == r["hops"] for r in rows)


def test_agreement_counts_the_peaks_of_each_hop():
    stories = [SimpleNamespace(supporting=(2, 0)), SimpleNamespace(supporting=(1,))]
    weights = torch.tensor(
        [[[0.1, 0.2, 0.7], [0.6, 0.3, 0.1]], [[0.2, 0.7, 0.1], [0.9, 0.05, 0.05]]]
    )
    assert memory_questions.agreement(weights, stories) == [[1.0, 0.0], [0.0, 0.5]]


@pytest.mark.parametrize("kind", questions.KINDS)
def test_a_perfect_model_gets_full_marks(kind):
    vocab, generator = questions.vocabulary(), random.Random(0)
    batch = questions.collate_stories([questions.draw(kind, generator) for _ in range(30)], vocab)

    class Perfect(torch.nn.Linear):
        def forward(self, story, question):
            return SimpleNamespace(
                logits=torch.nn.functional.one_hot(batch.answer, len(vocab)).float()
            )

    assert memory_questions.answer_accuracy(Perfect(1, 1), batch) == 1.0
