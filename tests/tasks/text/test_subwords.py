import os
import subprocess
import sys

import pytest
import torch
from assertions import assert_refused
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from attnbook.tasks import BOS, EOS, PAD, UNK, SequenceBatches
from attnbook.tasks.text.subwords import Subwords, join_words, to_pairs

TEXT = [
    "the lower tower is lower than the tallest tower .",
    "l'homme et l'eau : l'homme lowers the tower, isn't it?",
    "the widest house is wider than the wide tower (or so)!",
] * 3


@pytest.fixture(scope="module")
def subwords():
    return Subwords.train(TEXT, 64)


def test_special_ids_and_size(subwords):
    assert subwords.vocab.tokens[:4] == ("<pad>", "<bos>", "<eos>", "<unk>")
    assert (PAD, BOS, EOS, UNK) == (0, 1, 2, 3)
    assert len(subwords) == len(subwords.vocab) == 64 and subwords.vocab.unknown == "unk"
    ids = subwords.encode("the tower")
    assert ids == subwords.vocab.encode(subwords.split("the tower"))
    assert subwords.decode([BOS, *ids, EOS, 9, PAD]) == "the tower"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(words=st.lists(st.text("thelowras.,'!é(", min_size=1, max_size=8), min_size=1, max_size=8))
def test_joined_pieces_are_the_sentence(subwords, words):
    text = " ".join(words)
    if "é" not in text:  # which the training text lacks
        assert subwords.join(subwords.split(text)) == text
        assert subwords.decode(subwords.encode(text)) == text
    else:
        assert UNK in subwords.encode(text)


def test_pieces_are_the_most_frequent_pairs_one_after_the_other():
    """Of seven words: a b seven times, then x ab five times, ▁ xab four, ▁ y three, ▁y ab two."""
    corpus = " ".join(["xab"] * 4 + ["yxab"] + ["yab"] * 2)
    found = Subwords.train([corpus], 4 + 5 + 5).vocab.tokens
    assert set(found[4:9]) == set("abxy▁")
    assert found[9:] == ("ab", "xab", "▁xab", "▁y", "▁yab")


def test_saved_and_loaded_is_the_same(subwords, tmp_path):
    path = subwords.save(tmp_path / "deep" / "subwords.json")
    loaded = Subwords.load(path)
    assert loaded.vocab == subwords.vocab
    assert [loaded.split(text) for text in TEXT] == [subwords.split(text) for text in TEXT]
    assert os.listdir(path.parent) == ["subwords.json"]
    path.write_text("{}")
    assert_refused("path", Subwords.load, path)


def test_training_twice_gives_the_same_pieces(subwords, tmp_path):
    script = (
        "import sys; from attnbook.tasks.text.subwords import Subwords; "
        f"Subwords.train({TEXT!r}, 64).save(sys.argv[1])"
    )
    environment = {**os.environ, "RAYON_NUM_THREADS": "1", "PYTHONHASHSEED": "7"}
    command = [sys.executable, "-c", script, str(tmp_path / "there.json")]
    subprocess.run(command, env=environment, check=True)
    here = subwords.save(tmp_path / "here.json")
    assert (tmp_path / "there.json").read_bytes() == here.read_bytes()


WORDS = st.sampled_from("the tower l' d' , . ( ) isn't n't 's lower ! est-il 'n".split())


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(words=st.lists(WORDS, min_size=1, max_size=10))
def test_the_pieces_of_a_word_make_the_word(subwords, words):
    text, spans = join_words(words)
    assert [text[a:b] for a, b in spans] == words
    assert "".join(text.split()) == "".join(words)
    pieces, owners = subwords.split_words(words)
    assert set(owners) == set(range(len(words)))
    for index, word in enumerate(words):
        mine = [p for p, owner in zip(pieces, owners) if owner == index]
        if UNK not in subwords.vocab.encode(pieces):
            assert "".join(mine).replace("▁", "") == word


def test_running_text():
    assert join_words("L' eau , c' est « bon » !".split())[0] == "L'eau, c'est « bon »!"
    assert join_words("I do n't ( really ) .".split())[0] == "I don't (really)."
    assert join_words([]) == ("", [])


def test_pairs_of_pieces_go_into_batches(subwords):
    sentences = [("the tower", "l'homme"), ("", "x"), ("the widest tower is wider", "l'eau")]
    pairs = to_pairs(sentences, subwords, subwords)
    assert len(pairs) == 2 and subwords.join(pairs[0].source) == "the tower"
    longest = max(len(pairs[1].source), len(pairs[1].target))
    assert len(to_pairs(sentences, subwords, subwords, max_pieces=longest - 1)) == 1
    batch = SequenceBatches(pairs, subwords.vocab, subwords.vocab, 2).batch(0)
    assert {subwords.decode(row) for row in batch.target_out} == {"l'homme", "l'eau"}
    assert batch.source.dtype == torch.int64


def test_the_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(ModuleNotFoundError, match=r"attnbook\[translate\]"):
        Subwords.train(TEXT, 64)


def test_wrong_arguments_are_named(subwords):
    assert_refused("size", Subwords.train, TEXT, 4)
    assert_refused("size", Subwords.train, TEXT, 9)
    assert_refused("sentences", Subwords.train, [""], 64)
    assert_refused("words", subwords.split_words, "the tower")
