"""Windows of characters: what they hold, and that held-out text is scored once."""

import numpy as np
import pandas as pd
import pytest
import torch
from assertions import refusals
from task_data import real

from attnbook.tasks.text.characters import (
    CharacterWindows,
    character_vocabulary,
    encode_text,
    shakespeare,
    split_text,
    to_text,
)

TEXT = "to be, or not to be"


def test_a_text_goes_to_ids_and_back():
    vocabulary = character_vocabulary(TEXT)
    ids = encode_text(TEXT, vocabulary)
    assert to_text(ids, vocabulary) == TEXT and list(vocabulary.tokens[4:]) == sorted(set(TEXT))
    assert to_text([0, 1, 2, *ids.tolist()], vocabulary) == TEXT
    assert encode_text("z", vocabulary).tolist() == [3]
    assert split_text("abcdefghij") == ("abcdefghi", "j")


def test_windows_are_pieces_of_the_text_one_character_apart():
    windows = CharacterWindows(torch.arange(4, 104), 7, 5, seed=1)
    starts = set()
    for step in range(200):
        batch = windows.batch(step)
        assert batch.target_in.shape == batch.target_out.shape == (5, 7)
        assert torch.equal(batch.target_out, batch.target_in + 1)
        assert torch.equal(batch.target_in[:, 1:], batch.target_out[:, :-1])
        starts |= set((batch.target_in[:, 0] - 4).tolist())
    assert starts == set(range(93))  # the last window ends at the last character


def test_covering_windows_score_each_character_once():
    windows = CharacterWindows(torch.arange(4, 4 + 43), 5, 3, cover=True)
    assert len(windows) == 3  # eight windows of five
    scored = torch.cat([windows.batch(k).target_out.flatten() for k in range(3)])
    assert scored.tolist() == list(range(5, 45))


@pytest.mark.parametrize(
    "kind",
    [list, np.array, lambda ids: np.array(ids, np.uint16), lambda ids: pd.Series(ids[::-1])[::-1]],
)
def test_ids_may_come_from_elsewhere(kind):
    ids = list(range(4, 30))
    (got, target), expected = CharacterWindows(kind(ids), 5, 3, 1).batch(2), None
    expected = CharacterWindows(torch.tensor(ids), 5, 3, 1).batch(2)
    assert torch.equal(got, expected.target_in) and torch.equal(target, expected.target_out)
    assert got.dtype == torch.int64
    vocabulary = character_vocabulary("abcdefghijklmnopqrstuvwxyz")
    assert to_text(kind(ids), vocabulary) == "".join(vocabulary.decode(kind(ids)))


test_bad_input_is_named = refusals(
    ("ids must hold", lambda: CharacterWindows(torch.arange(5), 5, 2)),
    ("length", lambda: CharacterWindows(torch.arange(9), 0, 2)),
    ("ids must be a", lambda: CharacterWindows("to be", 2, 2)),
    ("ids must be a", lambda: CharacterWindows(np.ones(9), 2, 2)),
    ("ids must be a", lambda: CharacterWindows(torch.ones(9), 2, 2)),
    ("ids must be those", lambda: CharacterWindows([[4, 5], [6, 7]], 1, 2)),
)


def test_tiny_shakespeare_is_read_as_it_is(mirror):
    mirror("tinyshakespeare", "input.txt", b"First Citizen:\nSpeak, speak.\n")
    assert shakespeare() == "First Citizen:\nSpeak, speak.\n"


@real
def test_tiny_shakespeare():
    text = shakespeare()
    assert len(text) == 1_115_394 and len(set(text)) == 65 and text.startswith("First Citizen:\n")
