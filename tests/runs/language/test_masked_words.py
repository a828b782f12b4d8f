"""The questions of Winogender's run, put to models whose answers are known."""

from types import SimpleNamespace

import pytest
import torch

from attnbook.tasks import Vocabulary
from attnbook.tasks.text import winogender
from attnbook_runs.language import masked_words
from attnbook_runs.language.masked_words import head_shares, make_model, preferences, read_words

WORDS = "the a told b that he ran slept 's dog . x".split()


class Pieces:
    """Whole words as pieces."""

    vocab = Vocabulary(WORDS)

    def split_words(self, words):
        return tuple(words), tuple(range(len(words)))


class Bag(torch.nn.Module):
    """Whoever is named twice runs, if it is a, and sleeps, if it is b."""

    def __init__(self):
        super().__init__()
        size = len(Pieces.vocab)
        self.matrix = torch.nn.Parameter(torch.zeros(size, size))
        a, b, ran, slept = Pieces.vocab.encode(["a", "b", "ran", "slept"])
        # a frequent name: whoever scored the name itself would always take b
        self.matrix.data[:, b] = 2.0
        self.matrix.data[a, ran] = self.matrix.data[b, slept] = 3.0

    def encode(self, tokens, lengths):
        bag = torch.nn.functional.one_hot(tokens, len(Pieces.vocab)).float().sum(1, keepdim=True)
        return bag.expand(-1, tokens.shape[1], -1)

    def output(self, states):
        return states @ self.matrix


def schema(text, referent, possessive=False):
    words = tuple(text.split())
    other = {"a": "b", "b": "a"}[referent]
    return winogender.Schema(
        words,
        words.index("he"),
        words.index(referent),
        words.index(other),
        "a",
        referent == "a",
        "male",
        possessive,
    )


def test_the_preferred_person_makes_the_rest_more_probable():
    ran, slept = "the a told the b that he ran .", "the a told the b that he slept ."
    asked = [schema(text, name) for text in (ran, slept) for name in "ab"]
    asked.append(schema("the a told the b that he dog ran .", "a", True))
    assert preferences(Bag(), Pieces(), asked, batch_size=4) == [True, False, False, True, True]


def test_words_get_the_weights_of_their_pieces():
    class Halves(Pieces):
        def split_words(self, words):
            return tuple(w for word in words for w in (word, "x")), tuple(
                k for k in range(len(words)) for _ in range(2)
            )

    torch.manual_seed(0)
    model = make_model(len(Pieces.vocab), d_model=16, num_heads=2, num_layers=3).eval()
    words = ["the", "a", "ran"]
    found = read_words(model, Halves(), words)
    assert found.shape == (3, 2, 3, 3)
    assert torch.allclose(found.sum(-1), torch.ones(3, 2, 3).double(), atol=1e-5)
    raw = model(
        torch.tensor([Pieces.vocab.encode(["the", "x", "a", "x", "ran", "x"])]), need_weights=True
    ).weights[1][0, 1]
    assert float(found[1, 1, 2, 1]) == pytest.approx(float(raw[4:6, 2:4].sum() / 2), abs=1e-5)


def test_shares_of_heads_are_counted_in_pairs(monkeypatch):
    # weights on a, on b
    rows = {"ran": (0.6, 0.1), "slept": (0.2, 0.3), "dog": (0.6, 0.1), "x": (0.5, 0.2)}
    four = [schema(f"the a told the b that he {w} .", name) for w, name in zip(rows, "abab")]

    def fake(model, pieces, words):
        out = torch.zeros(1, 2, len(words), len(words), dtype=torch.float64)
        weights = next(weights for key, weights in rows.items() if key in words)
        for name, weight in zip("ab", weights):
            out[0, 0, words.index("he"), words.index(name)] = weight
        out[0, 1] = 1 / len(words)
        return out

    monkeypatch.setattr(winogender, "schemas", lambda gender: four)
    monkeypatch.setattr(masked_words, "read_words", fake)
    found = head_shares(SimpleNamespace(), None)
    assert found["more"] == [[0.75, 0.0]] and found["pairs"] == [[0.5, 0.0]]
    assert found["pairs_even"] == [[1.0, 0.0]] and found["pairs_odd"] == [[0.0, 0.0]]
    assert found["largest"] == [[0.75, 0.0]]
