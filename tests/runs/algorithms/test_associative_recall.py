import torch
from assertions import assert_refused

from attnbook.decoding import Decoded
from attnbook.tasks.algorithms.multi_query_recall import FIRST, KEYS, VOCABULARY_SIZE, draw
from attnbook_runs.algorithms.associative_recall import (
    KINDS,
    Settings,
    associative_recall,
    make_model,
    recall_loss,
    recalled,
    state_size,
)


class Memory(torch.nn.Module):
    """Holds the last value that followed each key, or the first one; nothing is trained."""

    def __init__(self, first=False):
        super().__init__()
        self.first, self.weight = first, torch.nn.Parameter(torch.zeros(()))

    def forward(self, tokens):
        logits = torch.zeros(*tokens.shape, VOCABULARY_SIZE)
        for row, scores in zip(tokens.tolist(), logits):
            held = {}
            for t, (token, before) in enumerate(zip(row, [0, *row])):
                if token >= FIRST + KEYS and not (self.first and before in held):
                    held[before] = token
                scores[t, held.get(token, 0)] = 9.0
        return Decoded(logits + self.weight, None)


def test_recall_counts_the_last_value_of_each_key():
    assert recalled(Memory(), 5, count=20) == recalled(Memory(), 5, told=2, count=20) == 1.0
    assert recalled(Memory(first=True), 5, told=2, count=20) < 0.1
    total, count = recall_loss(Memory(), draw(5, 20, torch.Generator().manual_seed(0)))
    assert int(count) == 100 and 0 < float(total.detach()) / 100 < 0.05


def test_what_is_kept_is_what_the_model_keeps():
    sizes = {"d_model": 8, "num_heads": 2, "num_layers": 2}
    for kind in KINDS:
        stack = make_model(kind, **sizes).stack(torch.randn(1, 6, 8), is_causal=True)
        tensors = [t for cache in stack.caches for t in cache if isinstance(t, torch.Tensor)]
        kept = {t.data_ptr(): t.numel() for t in tensors}
        assert sum(kept.values()) == state_size(kind, **sizes, length=6), kind


def test_the_models_differ_in_their_attention_alone():
    shared = [
        {name for name, _ in make_model(kind).named_parameters() if ".attention." not in name}
        for kind in KINDS
    ]
    assert all(names == shared[0] for names in shared)
    assert_refused("kind", make_model, "perfect")


def test_a_recorded_run_says_for_each_number_of_pairs_what_is_recalled(figures_of):
    figures = figures_of("associative-recall-delta", steps=8, pairs=(2, 3), test=10, batch_size=4)
    assert [row["pairs"] for row in figures["rows"]] == [2, 3] and len(figures["course"]) == 8
    assert all(0 <= row["recalled"] <= 1 and row["numbers_kept"] == 1024 for row in figures["rows"])


def test_softmax_attention_learns_to_recall():
    (row,) = associative_recall(Settings(pairs=(8,), steps=150, test=50))["rows"]
    assert row["recalled"] > 0.9 > 0.1 > recalled(make_model("softmax"), 8)
