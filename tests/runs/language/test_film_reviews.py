"""Film reviews, small: the baseline, the interval, and the record of a run."""

import io
import zipfile

from attnbook.tasks import datasets
from attnbook.tasks.text import reviews
from attnbook_runs.language import film_reviews

SIZES = dict(test=40, d_embed=16, hidden_size=8, batch_size=20, dropout=0.0, min_count=1)
SIZES |= dict(valid=20, learning_rate=0.01)


def test_wilson_and_naive_bayes():
    low, high = film_reviews.wilson(0.8, 400)
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
    assert abs(film_reviews.naive_bayes(train, test) - 2 / 3) < 1e-12


def test_what_is_learned_from_single_sentences_is_kept(tmp_path, monkeypatch, figures_of):
    """One step on the reviews teaches nothing: what came before decides."""
    labels = {"dreadful": 0, "superb": 1, "boring": 0, "moving": 1}
    before = [reviews.Document((("very", w),), label) for w, label in labels.items()] * 40
    after = [
        reviews.Document((("not", "long"), ("it", "is", d.sentences[0][1])), d.label)
        for d in before
    ]
    monkeypatch.setattr(reviews, "sentence_polarity", lambda: before)
    monkeypatch.setattr(reviews, "movie_reviews", lambda: after)
    options = dict(train=40, steps=1, **SIZES)
    name = "movie-reviews-hierarchical"
    assert figures_of(f"{name}-pretrained", **options, pretraining_steps=60)["accuracy"] == 1.0
    assert figures_of(name, **options)["accuracy"] < 0.8


def test_film_reviews_are_trained_tested_and_shown(tmp_path, monkeypatch, figures_of):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for i, d in enumerate(reviews.generate(240, seed=0)):
            text = "\n".join(" ".join(row) for row in d.sentences)
            archive.writestr(f"movie_reviews/{('neg', 'pos')[d.label]}/cv{i}.txt", text)
    (tmp_path / "movie_reviews.zip").write_bytes(buffer.getvalue())
    monkeypatch.setattr(datasets, "fetch", lambda *names: tmp_path / "movie_reviews.zip")
    figures = figures_of("movie-reviews-hierarchical", train=160, steps=90, **SIZES)
    assert figures["interval"][0] < figures["accuracy"] < figures["interval"][1] or figures[
        "accuracy"
    ] in (0, 1)
    assert figures["accuracy"] > 0.6
    assert figures["valid"] == max(share for _, share in figures["course"])
    assert sum(n for _, n in figures["most_picked_words"]) <= 40
    assert figures["top_sentence_over_uniform"] >= 1
    for row in figures["example"]["sentences"]:
        assert len(row["words"]) == len(row["weights"]) and abs(sum(row["weights"]) - 1) < 1e-2
