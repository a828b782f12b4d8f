"""Small models to decode and to train, pictures for a pair that trains against each other, and
settings of a short run.
"""

from __future__ import annotations

import torch

import attnbook
from attnbook.tasks import TOKEN_IDS

__all__ = ["TINY_RUN", "TRANSLATORS", "WORDS", "Pictures"]

WORDS = 40


def parts():
    return attnbook.paper_parts(8, 2, 16)


TRANSLATORS = {
    "seq2seq": lambda: attnbook.Seq2Seq(
        WORDS, WORDS, d_embed=8, hidden_size=8, token_ids=TOKEN_IDS
    ),
    "bahdanau": lambda: attnbook.Bahdanau(
        WORDS, WORDS, d_embed=8, hidden_size=8, token_ids=TOKEN_IDS
    ),
    "luong": lambda: attnbook.Luong(WORDS, WORDS, d_embed=8, hidden_size=8, token_ids=TOKEN_IDS),
    "local": lambda: attnbook.Luong(
        WORDS,
        WORDS,
        d_embed=8,
        hidden_size=8,
        attention="local-p",
        half_width=2,
        token_ids=TOKEN_IDS,
    ),
    "transformer": lambda: attnbook.Transformer(
        WORDS, WORDS, parts(), num_layers=1, token_ids=TOKEN_IDS
    ),
}


class Pictures:
    def batch(self, step):
        return torch.ones(2, 3, 16, 16), torch.tensor([0, 1])


TINY_RUN = {
    "train_pairs": 200,
    "test_pairs": 200,
    "steps": 3,
    "d_embed": 8,
    "hidden_size": 8,
    "batch_size": 8,
}
"""Settings with which a recorded run of translation takes seconds."""
