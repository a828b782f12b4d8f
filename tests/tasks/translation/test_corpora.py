"""Loaders of real sentences: on small files made here and, where they are at hand, on real ones."""

import gzip
import io
import zipfile

import pytest
from assertions import assert_refused
from task_data import real

from attnbook.tasks import UNK, make_task
from attnbook.tasks.translation import corpora
from attnbook.tasks.translation.alignments import alignment_error_rate


def put_tatoeba(mirror, lines):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("fra.txt", "".join(f"{english}\t{french}\n" for english, french in lines))
        archive.writestr("_about.txt", "about")
    mirror("tatoeba-fra-eng", "fra-eng.zip", buffer.getvalue())


def test_multi30k_lines_correspond_and_only_newlines_end_them(mirror):
    texts = {"en": 'One\u2028dog.\n"Two" cats.\n', "de": "Ein Hund.\nZwei\u00a0Katzen.\n"}
    for language, text in texts.items():
        mirror("multi30k", f"val.{language}.gz", gzip.compress(text.encode("utf-8"), mtime=0))
    expected = [("One dog.", "Ein Hund."), ('"Two" cats.', "Zwei Katzen.")]
    assert corpora.multi30k("en", "de", "valid") == expected
    assert corpora.multi30k("de", "en", "valid") == [pair[::-1] for pair in expected]
    mirror("multi30k", "val.fr.gz", gzip.compress(b"Un.\n", mtime=0))
    with pytest.raises(ValueError, match="2 lines of en but 1 of fr"):
        corpora.multi30k("en", "fr", "valid")


def test_multi30k_arguments_are_named():
    assert_refused("target", corpora.multi30k, "en", "it")
    assert_refused("source", corpora.multi30k, "xx", "en")
    assert_refused("source and target must differ", corpora.multi30k, "de", "de")
    assert_refused("split", corpora.multi30k, split="test")
    assert_refused("split 'mscoco2017' has no Czech", corpora.multi30k, "en", "cs", "mscoco2017")


def test_words():
    assert corpora.words("I don’t know, Tom!") == ("i", "don't", "know", ",", "tom", "!")
    assert corpora.words("J’ai vu l'homme\u202f!", "fr") == ("j'", "ai", "vu", "l'", "homme", "!")
    assert corpora.words("A-t-il 20 €\u00a0?", "fr") == ("a", "-", "t", "-", "il", "20", "€", "?")
    assert corpora.words("e\u0301te\u0301", "fr") == ("été",)  # composed


def test_tatoeba_reads_both_ways(mirror):
    put_tatoeba(mirror, [("Go.", "Va\u202f!"), ("I'm cold.", "J’ai froid.")])
    assert corpora.tatoeba() == [("Go.", "Va !"), ("I'm cold.", "J'ai froid.")]
    assert corpora.tatoeba("fr", "en") == [("Va !", "Go."), ("J'ai froid.", "I'm cold.")]
    with pytest.raises(ValueError, match="either order"):
        corpora.tatoeba("en", "de")


LETTERS = [chr(ord("a") + i) + chr(ord("a") + j) for i in range(10) for j in range(10)]


def leaks(task):
    """Sentences, without case and punctuation, that stand on the same side of two splits."""
    shared = set()
    for side in (0, 1):
        train, valid, test = (
            {tuple(t for t in pair[side] if t[0].isalnum()) for pair in pairs}
            for pairs in (task.train, task.valid, task.test)
        )
        shared |= train & test | train & valid | valid & test
    return shared


def test_the_split_leaks_nothing(mirror):
    # Sentences that differ in punctuation alone, several translations each, and French shared
    # between English ones.
    lines = []
    for n, word in enumerate(LETTERS):
        lines += [
            (f"see {word}", f"vu {n // 2}"),
            (f"see {word}.", f"vois {word}."),
            (f"See {word}!", f"regarde {word} !"),
            (f"SEE {word}.", f"Vois {word}."),  # the same pair once more, but for case
        ]
    put_tatoeba(mirror, lines)
    sizes = dict(valid=15, test=20)
    task = make_task("tatoeba", train=120, seed=3, **sizes)
    assert (len(task.train), len(task.valid), len(task.test)) == (120, 15, 20)
    assert leaks(task) == set()
    assert len(set(task.train)) == 120
    again = make_task("tatoeba", train=90, seed=3, **sizes)
    assert (again.test, again.valid, again.train) == (task.test, task.valid, task.train[:90])
    assert make_task("tatoeba", train=120, seed=4, **sizes).test != task.test
    assert task.attribution == "by the makers of tatoeba-fra-eng"
    with pytest.raises(ValueError, match="fixed collection"):
        task.unseen(1, seed=0)


def test_long_sentences_and_rare_words(mirror, monkeypatch):
    monkeypatch.setattr(corpora, "MOST_WORDS", 3)
    lines = [(f"one {word} two", "un deux") for word in LETTERS]
    put_tatoeba(mirror, lines + [("one two " * 6, "non")] * 3)
    # All translations are the same, so one test sentence would take every training pair with it.
    with pytest.raises(ValueError, match="train asks for 1 pairs"):
        make_task("tatoeba", train=1, valid=0, test=1)
    task = make_task("tatoeba", train=100, valid=0, test=0)
    assert task.source_vocab.tokens[4:] == ("one", "two")
    assert task.target_vocab.tokens[4:] == ("deux", "un")
    assert task.source_vocab.encode(("one", "aa")) == [4, UNK]
    assert max(len(pair.source) for pair in task.train) == 3
    with pytest.raises(ValueError, match="train asks for 500 pairs, but of up to 3 words"):
        make_task("tatoeba", train=500, valid=0, test=0)


def put_alibi(mirror, links="0-0 1p2 2-1 "):
    for french, english in corpora.ALIBI_TEXTS:
        for file, line in (
            (f"{french}_sents", "la maison rouge"),
            (f"{english}_sents", "the red house"),
            (f"ali_w2w_{french}_{english}", links),
        ):
            path = f"ali/{french}_{english}/{file}.txt"
            mirror("alibi-alignments", path, f"0\t{line}\n".encode())


def test_alibi_links_are_turned_around_for_english_sources(mirror):
    put_alibi(mirror)
    sources = corpora.alibi()
    assert len(sources) == 5 and sources[0].source == ("the", "red", "house")
    assert sources[0].target == ("la", "maison", "rouge")
    assert sources[0].sure == {(0, 0), (1, 2)} and sources[0].possible == {(0, 0), (2, 1), (1, 2)}
    french = corpora.alibi("fr", "en")[0]
    assert french.source == ("la", "maison", "rouge")
    assert french.sure == {(0, 0), (2, 1)} and french.possible == {(0, 0), (1, 2), (2, 1)}
    with pytest.raises(ValueError, match="either order"):
        corpora.alibi("en", "en")


@pytest.mark.parametrize(
    ("links", "fault"), [("0-3", "link"), ("3-0", "link"), ("0:1", "a link must")]
)
def test_strange_links_are_refused(mirror, links, fault):
    put_alibi(mirror, links)
    assert_refused(fault, corpora.alibi)


@real
def test_the_real_multi30k():
    for split, size in zip(corpora.MULTI30K_SPLITS, (29000, 1014, 1000, 1000, 461, 1071)):
        pairs = corpora.multi30k("en", "de", split)
        assert len(pairs) == size and all(source and target for source, target in pairs)
    first = corpora.multi30k("en", "fr", "train")[0]
    assert first.source == "Two young, White males are outside near many bushes."
    assert first.target.startswith("Deux jeunes hommes blancs")


@real
def test_the_real_tatoeba():
    assert len(corpora.tatoeba()) == 142787
    task = make_task("tatoeba", train=5000, valid=300, test=300, seed=0)
    assert leaks(task) == set()
    assert "tatoeba.org" in task.attribution
    unknown = [i for pair in task.test for i in task.source_vocab.encode(pair.source)].count(UNK)
    assert unknown / sum(len(pair.source) for pair in task.test) < 0.15


@real
def test_the_real_alibi():
    sentences = corpora.alibi()
    assert len(sentences) == 522
    assert sum(len(s.possible) for s in sentences) == 22599
    assert sum(len(s.possible - s.sure) for s in sentences) == 14147
    gold = [s.sure for s in sentences], [s.possible for s in sentences]
    assert alignment_error_rate(gold[0], *gold) == 0
    sizes = [(len(s.source), len(s.target)) for s in sentences]
    diagonal = [{(j * n // m, j) for j in range(m)} for n, m in sizes]
    # turned around, it would be no better than chance
    assert 0.4 < alignment_error_rate(diagonal, *gold) < 0.9
