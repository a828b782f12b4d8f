"""The experiments of the section on documents and memory, small: what they measure, on models
that are known.
"""

import io
import json
import math
import zipfile
from types import SimpleNamespace

import pytest
import torch

from attnbook.experiments import reproduce
from attnbook.experiments.language import documents
from attnbook.tasks.algorithms import adding_problem
from attnbook.tasks.text import questions, reviews


def test_long_sums_say_for_each_length_what_is_solved(tmp_path):
    path = reproduce(
        "feed-forward-attention-adding",
        out=tmp_path,
        device="cpu",
        commit="abc",
        lengths=(12,),
        steps=10,
        test=50,
        hidden_size=8,
        batch_size=10,
    )
    rows = json.loads(path.read_text())["figures"]["rows"]
    assert [(r["length"], r["pooling"]) for r in rows] == [(12, "attention"), (12, "mean")]
    assert all(0 <= r["solved"] <= 1 and len(r["course"]) == 10 for r in rows)
    assert rows[0]["weight_on_marked"] <= 2 * math.e**2 / (2 * math.e**2 + 10)
    assert abs(rows[1]["weight_on_marked"] - 2 / 12.5) < 0.02


def test_solved_counts_answers_off_by_less_than_the_tolerance():
    held = adding_problem.draw("adding", 10, 250, torch.Generator().manual_seed(0))

    class Off(torch.nn.Module):
        def __init__(self, by):
            super().__init__()
            self.by, self.start = torch.nn.Parameter(torch.tensor(by)), 0

        def forward(self, inputs, lengths):
            rows = slice(self.start, self.start + len(inputs))
            self.start += len(inputs)
            return SimpleNamespace(output=held.target[rows] + self.by)

    assert (
        documents.share_solved(Off(0.039), held) == 1
        and documents.share_solved(Off(-0.041), held) == 0
    )


def test_most_weight_is_that_of_two_scores_of_one_among_minus_ones():
    scores = torch.full((50,), -1.0, dtype=torch.float64)
    scores[[3, 20]] = 1.0
    assert abs(documents.most_weight(50) - float(scores.softmax(0)[[3, 20]].sum())) < 1e-12


def test_wilson_and_naive_bayes():
    low, high = documents.wilson(0.8, 400)
    # the roots of (p − 0.8)² = 1.96² p (1 − p) / 400
    assert abs(low - 0.758) < 0.001 and abs(high - 0.8363) < 0.001
    for p in (low, high):
        assert abs((p - 0.8) ** 2 - 1.96**2 * p * (1 - p) / 400) < 1e-9
    train = [reviews.Document((("good", "film"),), 1), reviews.Document((("bad", "film"),), 0)]
    test = [
        reviews.Document((("good",),), 1),
        reviews.Document((("bad", "bad"),), 0),
        reviews.Document((("good",),), 0),
    ]
    assert abs(documents.naive_bayes(train, test) - 2 / 3) < 1e-12


def test_film_reviews_are_trained_tested_and_shown(tmp_path, monkeypatch):
    from attnbook.tasks import datasets

    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for i, d in enumerate(reviews.generate(240, seed=0)):
            text = "\n".join(" ".join(row) for row in d.sentences)
            archive.writestr(f"movie_reviews/{('neg', 'pos')[d.label]}/cv{i}.txt", text)
    (tmp_path / "movie_reviews.zip").write_bytes(buffer.getvalue())
    monkeypatch.setattr(datasets, "fetch", lambda *names: tmp_path / "movie_reviews.zip")
    path = reproduce(
        "movie-reviews-hierarchical",
        out=tmp_path,
        device="cpu",
        commit="abc",
        train=160,
        valid=20,
        test=40,
        d_embed=16,
        hidden_size=8,
        batch_size=20,
        steps=90,
        learning_rate=0.01,
        dropout=0.0,
        min_count=1,
    )
    found = json.loads(path.read_text())["figures"]
    assert found["interval"][0] < found["accuracy"] < found["interval"][1] or found["accuracy"] in (
        0,
        1,
    )
    assert found["accuracy"] > 0.6 and found["valid"] == max(share for _, share in found["course"])
    assert (
        sum(n for _, n in found["most_picked_words"]) <= 40
        and found["top_sentence_over_uniform"] >= 1
    )
    for row in found["example"]["sentences"]:
        assert len(row["words"]) == len(row["weights"]) and abs(sum(row["weights"]) - 1) < 1e-2


def test_question_tasks_fill_the_table(tmp_path):
    path = reproduce(
        "memory-network-questions",
        out=tmp_path,
        device="cpu",
        commit="abc",
        kinds=("one fact", "giving"),
        hops=(1, 2),
        train=100,
        test=50,
        d_embed=8,
        steps=3,
    )
    rows = json.loads(path.read_text())["figures"]["rows"]
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
    assert documents.agreement(weights, stories) == [[1.0, 0.0], [0.0, 0.5]]


def test_the_lstm_answers_from_the_last_real_step():
    torch.manual_seed(0)
    model, x = documents.LastState(2, 4), torch.randn(2, 6, 2)
    lengths = torch.tensor([6, 3])
    alone = model(x[1:, :3], lengths[1:]).output
    torch.testing.assert_close(model(x, lengths).output[1:], alone)


@pytest.mark.parametrize("kind", questions.KINDS)
def test_a_perfect_model_gets_full_marks(kind):
    import random

    vocab, generator = questions.vocabulary(), random.Random(0)
    batch = questions.collate_stories([questions.draw(kind, generator) for _ in range(30)], vocab)

    class Perfect(torch.nn.Linear):
        def forward(self, story, question):
            return SimpleNamespace(
                logits=torch.nn.functional.one_hot(batch.answer, len(vocab)).float()
            )

    assert documents.answer_accuracy(Perfect(1, 1), batch) == 1.0
