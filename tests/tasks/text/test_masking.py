"""Hidden tokens: how many, of which kind, and that the target holds them and nothing else."""

import torch
from assertions import refusals
from hypothesis import given, settings
from hypothesis import strategies as st
from task_data import seeded

from attnbook.tasks.text.masking import MASK, NOT_HIDDEN, MaskedBatches, hide, pad

SIZE = 50


def texts(number=40, seed=0):
    generator = seeded(seed)
    return [
        torch.randint(4, SIZE, (2 + k % 9,), generator=generator).tolist() for k in range(number)
    ]


@settings(max_examples=30, deadline=None)
@given(share=st.floats(0.01, 0.99), seed=st.integers(0, 99))
def test_targets_are_the_hidden_tokens_and_all_else_is_read_as_it_stands(share, seed):
    tokens, lengths = pad(texts(12, seed))
    found = hide(tokens, lengths, SIZE, seeded(seed), share)
    hidden = found.target != NOT_HIDDEN
    assert torch.equal(found.target[hidden], tokens[hidden])
    assert torch.equal(found.tokens[~hidden], tokens[~hidden])
    assert hidden.any(1).all() and not hidden[tokens == 0].any()
    assert torch.equal(found.lengths, lengths)


def test_a_row_of_padding_is_left_as_it_is():
    found = hide(torch.tensor([[5, 6], [0, 0]]), torch.tensor([2, 0]), SIZE, seeded(), 0.5)
    assert not found.tokens[1].any() and (found.target[1] == NOT_HIDDEN).all()


def test_shares_of_all_kinds():
    tokens = torch.randint(4, SIZE, (400, 100), generator=seeded())
    found = hide(tokens, torch.full((400,), 100), SIZE, seeded(1))
    hidden = found.target != NOT_HIDDEN
    assert abs(hidden.float().mean() - 0.15) < 0.01
    masked, same = (found.tokens == MASK)[hidden], (found.tokens == tokens)[hidden]
    assert abs(masked.float().mean() - 0.8) < 0.02
    # a random token may be the right one
    assert abs(same.float().mean() - (0.1 + 0.1 / (SIZE - 4))) < 0.02
    others = found.tokens[hidden][~masked & ~same]
    assert others.min() >= 4 and others.max() < SIZE and len(others.unique()) > 40


def test_batches_are_of_like_length():
    batches = MaskedBatches(texts(4000), SIZE, 8, seed=3)
    lengths = [batches.batch(step).lengths for step in range(50)]
    assert max(int(n.max() - n.min()) for n in lengths) <= 1
    assert len({int(n[0]) for n in lengths}) > 5


test_bad_input_is_named = refusals(
    ("share", lambda: hide(*pad([[5, 6]]), SIZE, torch.Generator(), 1.0)),
    ("size", lambda: hide(*pad([[5, 6]]), 4, torch.Generator())),
    ("texts", lambda: MaskedBatches([], SIZE, 2)),
    ("texts", lambda: MaskedBatches([[4], []], SIZE, 2)),
    ("size", lambda: MaskedBatches([[4]], 4, 2)),
)
