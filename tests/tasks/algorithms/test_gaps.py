import math

import pytest
import torch
from assertions import refusals

from attnbook.tasks import PAD, UNK
from attnbook.tasks.algorithms.gaps import (
    FIRST,
    SYMBOLS,
    TOPICS,
    VALUES,
    GapBatches,
    Gaps,
    best_loss,
    frequencies,
    vocabulary_size,
)


def test_a_look_up_has_every_name_twice_and_its_value_once():
    tokens, target = GapBatches("look-up", 12, 50).batch(0)
    assert tokens.shape == target.shape == (50, 12)
    assert tokens.max() < vocabulary_size("look-up", 12) == FIRST + 6 * (VALUES + 1)
    orders = set()
    for row, answer in zip(tokens.tolist(), target.tolist()):
        told = dict(divmod(token - FIRST, VALUES + 1) for token in row[:6])
        queries = [divmod(token - FIRST, VALUES + 1) for token in row[6:]]
        assert sorted(told) == sorted(name for name, _ in queries) == list(range(6))
        assert all(told[name] > 0 == value for name, value in queries)
        assert answer[:6] == [PAD] * 6
        assert answer[6:] == [FIRST + told[name] - 1 for name, _ in queries]
        orders.add(tuple(told))
    assert len(orders) > 30
    assert set(target[:, 6:].flatten().tolist()) == set(range(FIRST, FIRST + VALUES))


def test_a_topic_has_its_frequencies_and_hides_a_share():
    table = frequencies()
    assert table.shape == (TOPICS, SYMBOLS) and torch.equal(table, frequencies())
    torch.testing.assert_close(table.sum(1), torch.ones(TOPICS).double())
    tokens, target = GapBatches("topic", 40, 2000).batch(0)
    masked = target != PAD
    assert (masked.sum(1) == 6).all() and ((tokens == UNK) == masked).all()
    words = torch.where(masked, target, tokens) - FIRST
    assert words.min() >= 0 and words.max() < SYMBOLS == vocabulary_size("topic", 40) - FIRST
    shares = torch.bincount(words.flatten(), minlength=SYMBOLS) / words.numel()
    torch.testing.assert_close(shares.double(), table.mean(0), atol=0.01, rtol=0)


def test_the_best_loss_is_that_of_bayes_rule():
    batch = GapBatches("topic", 12, 5).batch(0)
    table, total, gaps = frequencies().tolist(), 0.0, 0
    for tokens, target in zip(batch.tokens.tolist(), batch.target.tolist()):
        likelihood = [math.prod(row[t - FIRST] for t in tokens if t != UNK) for row in table]
        for t in target:
            if t != PAD:
                joint = sum(p * row[t - FIRST] for p, row in zip(likelihood, table))
                total, gaps = total - math.log(joint / sum(likelihood)), gaps + 1
    assert best_loss("topic", batch) == pytest.approx(total / gaps, abs=1e-10)
    assert best_loss("look-up", GapBatches("look-up", 4, 3).batch(0)) == 0.0
    # Whoever sees more knows more; nobody who sees nothing beats the mean frequencies by much.
    unseen = Gaps(torch.full_like(batch.tokens, UNK), batch.target)
    hidden = (batch.target - FIRST)[batch.target != PAD]
    marginal = -torch.tensor(table).mean(0).log()[hidden].mean()
    assert best_loss("topic", unseen) == pytest.approx(marginal.item(), abs=1e-6)
    many = GapBatches("topic", 64, 500).batch(0)
    late = torch.arange(64) >= 8
    fewer = Gaps(many.tokens.masked_fill(late, UNK), many.target.masked_fill(late, PAD))
    assert best_loss("topic", many) < best_loss("topic", fewer)


test_wrong_arguments_are_named = refusals(
    ("kind", lambda: GapBatches("echo", 8, 1)),
    ("length", lambda: GapBatches("look-up", 7, 1)),
    ("length", lambda: GapBatches("topic", 1, 1)),
)
