import errno
import os

import pytest
from assertions import assert_refused, refusals
from hypothesis import given
from hypothesis import strategies as st

from attnbook.tasks import BOS, EOS, PAD, UNK, Vocabulary

WORDS = st.text(min_size=1, max_size=4).filter(lambda t: not t.startswith("<"))


def test_special_tokens_come_first_and_others_by_frequency_then_code_point():
    vocabulary = Vocabulary.from_sequences([["b", "a", "c"], ["c", "b", "c"]])
    assert vocabulary.tokens == ("<pad>", "<bos>", "<eos>", "<unk>", "c", "b", "a")
    assert (PAD, BOS, EOS, UNK) == (0, 1, 2, 3)
    assert len(vocabulary) == 7
    assert Vocabulary.from_sequences([["z", "é", "a"]]).tokens[4:] == ("a", "z", "é")
    assert Vocabulary.from_sequences([list("aaabbc")], min_count=2).tokens[4:] == ("a", "b")


@given(st.lists(st.lists(WORDS, max_size=8), max_size=8))
def test_decode_turns_encode_around(sequences):
    vocabulary = Vocabulary.from_sequences(sequences)
    for sequence in sequences:
        ids = vocabulary.encode(sequence)
        assert all(4 <= i < len(vocabulary) for i in ids)
        assert vocabulary.decode(ids) == sequence
        assert vocabulary.decode([BOS, *ids, EOS, PAD, PAD]) == sequence


def test_decode_stops_at_the_first_eos():
    assert Vocabulary(["a", "b"]).decode([BOS, 4, UNK, EOS, 5]) == ["a", "<unk>"]


def test_unknown_tokens_are_named_or_mapped():
    vocabulary = Vocabulary(["a"])
    with pytest.raises(ValueError, match="'x', 'y'"):
        vocabulary.encode(["x", "a", "y", "x"])
    assert Vocabulary(["a"], unknown="unk").encode(["x", "a"]) == [UNK, 4]
    with pytest.raises(ValueError, match="and 3 more"):
        vocabulary.encode(list("qrstuvwx"))


test_wrong_arguments_are_named = refusals(
    ("ids", lambda: Vocabulary(["a"]).decode([7])),
    ("ids", lambda: Vocabulary(["a"]).decode([-1])),
    ("tokens", lambda: Vocabulary(list("abc")).encode("abc")),
    ("sequences", lambda: Vocabulary.from_sequences("abc")),
    ("tokens", lambda: Vocabulary(["a", "b", "a"])),
    ("tokens", lambda: Vocabulary(["<eos>"])),
    ("unknown", lambda: Vocabulary(["a"], unknown="skip")),
)


def test_special_tokens_of_a_text_are_not_learned():
    assert Vocabulary.from_sequences([["<pad>", "a"]]).tokens[4:] == ("a",)


def test_saved_and_loaded_is_equal(tmp_path):
    vocabulary = Vocabulary(["b", "à", "\n", "'"], unknown="unk")
    path = vocabulary.save(tmp_path / "deep" / "vocabulary.json")
    assert Vocabulary.load(path) == vocabulary
    assert hash(Vocabulary.load(path)) == hash(vocabulary)
    assert Vocabulary.load(path) != Vocabulary(["b", "à", "\n", "'"])
    assert os.listdir(path.parent) == ["vocabulary.json"]


def test_a_strange_file_is_refused(tmp_path):
    for text in ("{", "[]", '{"tokens": ["a"]}'):
        (tmp_path / "v.json").write_text(text)
        assert_refused("path", Vocabulary.load, tmp_path / "v.json")


@pytest.mark.skipif(
    not os.path.exists("/dev/full"), reason="needs the device /dev/full, which Linux has"
)
def test_no_space_leaves_the_old_file_and_nothing_else(tmp_path):
    path = Vocabulary(["a"]).save(tmp_path / "v.json")
    before = path.read_bytes()
    (tmp_path / f".v.json.{os.getpid()}.tmp").symlink_to("/dev/full")
    with pytest.raises(OSError) as caught:
        Vocabulary(["b"]).save(path)
    assert caught.value.errno == errno.ENOSPC
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["v.json"]
