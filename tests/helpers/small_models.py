"""Small models to decode and to train, pictures for a pair that trains against each other, and
settings of a short run.
"""

from __future__ import annotations

import torch

import attnbook
from attnbook.tasks import TOKEN_IDS

__all__ = ["TINY_RUN", "TRANSLATORS", "WORDS", "Pictures"]

WORDS = 40


SIZES = {"d_embed": 8, "hidden_size": 8, "token_ids": TOKEN_IDS}
LOCAL = {"attention": "local-p", "half_width": 2}
TRANSLATORS = {
    "seq2seq": lambda: attnbook.Seq2Seq(WORDS, WORDS, **SIZES),
    "bahdanau": lambda: attnbook.Bahdanau(WORDS, WORDS, **SIZES),
    "luong": lambda: attnbook.Luong(WORDS, WORDS, **SIZES),
    "local": lambda: attnbook.Luong(WORDS, WORDS, **SIZES, **LOCAL),
    "transformer": lambda: attnbook.Transformer(
        WORDS, WORDS, attnbook.paper_parts(8, 2, 16), num_layers=1, token_ids=TOKEN_IDS
    ),
}


class Pictures:
    def batch(self, step):
        return torch.ones(2, 3, 16, 16), torch.tensor([0, 1])


TINY_RUN = {"train_pairs": 200, "test_pairs": 200, "steps": 3, "batch_size": 8}
TINY_RUN |= {"d_embed": 8, "hidden_size": 8}
"""Settings with which a recorded run of translation takes seconds."""
