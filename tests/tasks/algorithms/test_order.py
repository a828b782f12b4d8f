"""Letters and answers that hang on their order alone."""

import torch
from assertions import refusals

from attnbook.tasks.algorithms.order import OrderBatches, order_answers


def test_answers_letter_by_letter():
    for order, expected in (
        ("before", lambda text, p: text[p - 3] if p >= 3 else 0),
        ("reverse", lambda text, p: text[len(text) - 1 - p]),
    ):
        for n in (1, 2, 3, 4, 9):
            batch = OrderBatches(order, n, 5, seed=n).batch(0)
            assert batch.tokens.shape == batch.target.shape == (5, n)
            assert batch.tokens.min() >= 1 and batch.tokens.max() <= 10
            for text, answers in zip(batch.tokens.tolist(), batch.target.tolist()):
                assert answers == [expected(text, p) for p in range(n)]


def test_lengths_and_letters_lie_in_their_range():
    batches = OrderBatches("before", (4, 6), 3, letters=3, seed=1)
    assert {batches.batch(k).tokens.shape[1] for k in range(40)} == {4, 5, 6}
    assert {int(i) for k in range(10) for i in batches.batch(k).tokens.flatten()} == {1, 2, 3}


test_bad_input_is_named = refusals(
    ("order", lambda: order_answers("sort", torch.ones(1, 2).long())),
    ("order", lambda: OrderBatches("sort", 3)),
    ("length", lambda: OrderBatches("before", (5, 3))),
    ("letters", lambda: OrderBatches("before", 5, letters=0)),
)
