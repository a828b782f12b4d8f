"""Calls that somebody gets wrong on a Monday and that no module's own rows hold."""

import pytest
import torch
from assertions import refusals

from attnbook import (
    AdditiveScore,
    LSTMLanguageModel,
    Transformer,
    TransformerLM,
    beam_search,
    decoder_parts,
    generate,
    greedy,
    paper_parts,
)
from attnbook.decoding import TokenIds, score_targets, speculative_sample
from attnbook.tasks import TOKEN_IDS, Pair, Vocabulary, collate
from attnbook.training import (
    language_loss,
    load_model_weights,
    perplexity,
    smoothed_cross_entropy,
    token_loss,
)

IDS = torch.tensor([[1, 2, 3], [4, 5, 0]])
LENGTHS = torch.tensor([3, 2])
WORDS = Vocabulary(["a", "b", "c"])
MUTE = TokenIds(forbidden=range(8))


def lm(size=8, **options):
    return TransformerLM(size, paper_parts(8, 2, 16), num_layers=1, **options)


def translator(**options):
    return Transformer(8, 8, paper_parts(8, 2, 16), num_layers=1, **options)


def search(size):
    return beam_search(translator(token_ids=TOKEN_IDS), IDS, LENGTHS, beam_size=size, max_length=3)


class Nothing:
    def batch(self, step):
        raise AssertionError("there is none")

    def __len__(self):
        return 0


test_a_wrong_call_is_answered_with_the_argument = refusals(
    ("d_hidden", lambda: AdditiveScore(8, 8, 0)),
    ("d_hidden", lambda: decoder_parts(8, 2, 0).feed_forward()),
    ("d_model", lambda: decoder_parts(18, 4, 32)),
    ("vocabulary_size", lambda: lm(0)),
    ("token must have 2 rows", lambda: lm().step(IDS[0, :1], lm().encode(IDS, LENGTHS))),
    ("dropout", lambda: LSTMLanguageModel(8, dropout=1)),
    ("token_ids", lambda: translator(token_ids=2)),
    ("model must say with which id", lambda: greedy(translator(), IDS, LENGTHS, 4)),
    ("model must read", lambda: score_targets(lm(), collate([Pair(("a",), ("b",))], WORDS, WORDS))),
    ("model must be a language", lambda: generate(translator(), [[3]], max_new_tokens=3)),
    ("beam_size", lambda: search(0)),
    ("draft", lambda: speculative_sample(lm(), lm(9), IDS[0], 3)),
    ("token_ids must leave", lambda: generate(lm(token_ids=MUTE), [[1]], max_new_tokens=1)),
    ("logits and target", lambda: smoothed_cross_entropy(torch.zeros(3, 4), IDS[0, :2])),
    ("batch must have target_in", lambda: language_loss(lm(), IDS)),
    ("batch must have source", lambda: token_loss(translator(), {"source": IDS})),
    ("batches must have a length", lambda: perplexity(lm(), IDS)),
    ("batches must have at least", lambda: perplexity(lm(), Nothing())),
)


def test_weights_from_nowhere():
    with pytest.raises(FileNotFoundError, match="nowhere.safetensors"):
        load_model_weights(lm(), "nowhere.safetensors")
