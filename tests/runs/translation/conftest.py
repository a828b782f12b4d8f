import random

import pytest

from attnbook.tasks.translation import corpora


@pytest.fixture
def captions(monkeypatch):
    """Multi30k with sentences of eight words each way."""

    def made(source, target, split):
        choose = random.Random(split)
        words = {
            "en": "a man dog red runs sits house on".split(),
            "de": "ein mann hund rot rennt sitzt haus auf".split(),
        }
        rows = [
            [choose.randrange(8) for _ in range(choose.randrange(2, 7))]
            for _ in range({"train": 60}.get(split, 8))
        ]
        return [
            corpora.Sentences(
                " ".join(words[source][i] for i in row), " ".join(words[target][i] for i in row)
            )
            for row in rows
        ]

    monkeypatch.setattr(corpora, "multi30k", made)
