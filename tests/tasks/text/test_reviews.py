"""Made reviews in which one word decides; the loader on a small archive, then on real ones."""

import io
import zipfile

import pytest
import torch
from assertions import refusals
from task_data import real

from attnbook.tasks import Vocabulary
from attnbook.tasks.text import reviews


def test_the_deciding_word_decides_and_no_other_adjective_does():
    documents = reviews.generate(1000, seed=0, sentences=(6, 9), others=(2, 4))
    agree = total = 0
    for document in documents:
        s, w = document.deciding
        assert document.sentences[s][w] in (reviews.BAD, reviews.GOOD)[document.label]
        assert set(document.sentences[s]) & set(reviews.FILMS) and 6 <= len(document.sentences) <= 9
        about_films = [row for row in document.sentences if set(row) & set(reviews.FILMS)]
        assert len(about_films) == 1
        rest = document.sentences[:s] + document.sentences[s + 1 :]
        others = [w for row in rest for w in row if w in reviews.GOOD + reviews.BAD]
        assert 2 <= len(others) <= 4
        agree += sum((w in reviews.GOOD) == bool(document.label) for w in others)
        total += len(others)
    assert 0.45 < agree / total < 0.55 and 0.45 < sum(d.label for d in documents) / 1000 < 0.55
    assert len({d.deciding[0] for d in documents}) >= 8  # it may stand anywhere
    assert reviews.generate(5, seed=1) == reviews.generate(5, seed=1) != reviews.generate(5, seed=2)


def _zip(files):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return buffer.getvalue()


def test_the_loader_reads_one_sentence_a_line_and_the_class_from_the_folder(mirror):
    files = {
        "movie_reviews/": "",
        "movie_reviews/README": "about",
        "movie_reviews/pos/cv001.txt": "a fine film . \n\n i liked it . \n",
        "movie_reviews/neg/cv000.txt": "dull \x85 and long .\n",
        "movie_reviews/neg/cv002.txt": "\n",
    }
    mirror("movie_reviews", "movie_reviews.zip", _zip(files))
    negative, positive = reviews.movie_reviews()
    assert (negative.label, positive.label) == (0, 1) and positive.deciding is None
    assert positive.sentences == (("a", "fine", "film", "."), ("i", "liked", "it", "."))


def test_an_archive_without_reviews_is_named(mirror):
    mirror("movie_reviews", "movie_reviews.zip", _zip({"movie_reviews/README": "about"}))
    with pytest.raises(ValueError, match="holds no review"):
        reviews.movie_reviews()


def test_sentences_with_a_class_are_documents_of_one_sentence(mirror):
    mirror("rt-polarity", "rt-polarity.neg", b"dull .\n")
    mirror("rt-polarity", "rt-polarity.pos", b"a caf\xe9 of a film \x85 .\n\nfine .\n")
    negative, *positive = reviews.sentence_polarity()
    assert negative == reviews.Document((("dull", "."),), 0)
    assert [d.label for d in positive] == [1, 1]
    assert positive[0].sentences == (("a", "café", "of", "a", "film", "…", "."),)


@real
def test_the_real_reviews_are_all_there():
    sentences = reviews.sentence_polarity()
    assert len(sentences) == 10_662 and sum(d.label for d in sentences) == 5331
    documents = reviews.movie_reviews()
    assert len(documents) == 2000 and sum(d.label for d in documents) == 1000
    assert 25 < sum(len(d.sentences) for d in documents) / 2000 < 40


def test_the_split_is_even_apart_and_fixed_by_the_seed():
    documents = reviews.generate(200, seed=0)
    parts = reviews.split(documents, (60, 20, 40), seed=0)
    assert [len(p) for p in parts] == [60, 20, 40]
    assert [sum(d.label for d in p) for p in parts] == [30, 10, 20]
    places = [{id(d) for d in p} for p in parts]
    assert not places[0] & places[1] and not places[0] & places[2] and not places[1] & places[2]
    again, other = (reviews.split(documents, (60, 20, 40), seed=seed) for seed in (0, 1))
    assert again == parts != other
    for sizes, words in (((3,), "even numbers"), ((400,), "there are")):
        with pytest.raises(ValueError, match=words):
            reviews.split(documents, sizes)


def test_a_batch_holds_every_word_in_its_place_and_cuts_what_is_too_long():
    documents = reviews.generate(6, seed=3)
    vocab = Vocabulary.from_sequences(row for d in documents for row in d.sentences)
    batch = reviews.collate_documents(documents, vocab)
    for b, document in enumerate(documents):
        lengths = [len(row) for row in document.sentences]
        assert batch.lengths[b].tolist() == lengths + [0] * (batch.lengths.shape[1] - len(lengths))
        assert int(batch.label[b]) == document.label
        for i, row in enumerate(document.sentences):
            assert vocab.decode(batch.documents[b, i].tolist()) == list(row)
    cut = reviews.collate_documents(documents, vocab, max_sentences=2, max_words=3)
    assert cut.documents.shape == (6, 2, 3)
    assert torch.equal(cut.documents, batch.documents[:, :2, :3])
    assert int(cut.lengths.max()) == 3


def test_batches_show_each_document_once_an_epoch_bucketed_or_not():
    documents = reviews.generate(25, seed=4)
    vocab = Vocabulary.from_sequences(row for d in documents for row in d.sentences)
    for bucket in (False, True):
        batches = reviews.DocumentBatches(documents, vocab, 8, seed=2, bucket=bucket)
        assert len(batches) == 4
        rows = [row for step in range(4) for row in batches.batch(step).documents.tolist()]
        stripped = sorted(str([[w for w in r if w] for r in row if any(r)]) for row in rows)
        assert stripped == sorted(str([vocab.encode(r) for r in d.sentences]) for d in documents)
    counts = (reviews.DocumentBatches(documents, vocab, 8, bucket=True).batch(0).lengths > 0).sum(1)
    assert int(counts.max() - counts.min()) <= 3


test_wrong_arguments_are_named = refusals(
    ("count", lambda: reviews.generate(-1, seed=0)),
    ("others", lambda: reviews.generate(1, seed=0, others=(3, 2))),
    ("sentences", lambda: reviews.generate(1, seed=0, sentences=(3, 5), others=(1, 3))),
    ("sentences", lambda: reviews.generate(1, seed=0, sentences=(4, 15), others=(1, 3))),
    ("documents", lambda: reviews.collate_documents([], Vocabulary([]))),
)
