"""The smoothed cross-entropy against a loop, PyTorch's function, and versions that went wrong."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F
from training_doubles import PAD
from watching import saved_bytes

from attnbook import double_backward
from attnbook.training import smoothed_cross_entropy
from attnbook.training.losses import cross_entropy

EXACT = {"atol": 1e-10, "rtol": 0}


def by_hand(logits, target, smoothing, ignored):
    total = 0.0
    for row, y in zip(logits.tolist(), target.tolist(), strict=True):
        if y == ignored:
            continue
        top = max(row)
        lse = top + math.log(sum(math.exp(z - top) for z in row))
        for v, z in enumerate(row):
            total -= ((1 - smoothing) * (v == y) + smoothing / len(row)) * (z - lse)
    return total


def problem(rows, size, seed, scale=3.0):
    g = torch.Generator().manual_seed(seed)
    logits = scale * torch.randn(rows, size, generator=g, dtype=torch.float64)
    return logits.requires_grad_(), torch.randint(0, size, (rows,), generator=g)


@settings(max_examples=50, deadline=None)
@given(
    st.integers(1, 9),
    st.integers(1, 12),
    st.sampled_from([0.0, 0.1, 0.5, 0.99]),
    st.integers(1, 40),
    st.integers(0, 999),
)
def test_value_and_gradient_equal_the_formula_and_pytorch(rows, size, smoothing, block, seed):
    logits, target = problem(rows, size, seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cross_entropy, "_BLOCK", block)  # several blocks, the last one smaller
        total = smoothed_cross_entropy(logits, target, smoothing, ignore_index=PAD)
        (grad,) = torch.autograd.grad(3 * total, logits)
    theirs = F.cross_entropy(
        logits, target, ignore_index=PAD, reduction="sum", label_smoothing=smoothing
    )
    (expected,) = torch.autograd.grad(3 * theirs, logits)
    torch.testing.assert_close(total, theirs, **EXACT)
    torch.testing.assert_close(grad, expected, **EXACT)
    assert total.item() == pytest.approx(
        by_hand(logits.detach(), target, smoothing, PAD), abs=1e-10
    )
    assert (grad[target == PAD] == 0).all()
    # The gradient of a row that counts is p − q: it sums to zero.
    torch.testing.assert_close(grad.sum(1), torch.zeros(rows).double(), **EXACT)


def test_all_rows_ignored_large_logits_and_a_second_way_back():
    logits, _ = problem(4, 6, 0)
    total = smoothed_cross_entropy(logits, torch.zeros(4, dtype=torch.long), 0.1, ignore_index=0)
    assert total == 0 and (torch.autograd.grad(total, logits)[0] == 0).all()
    logits, target = problem(5, 6, 1, scale=1e4)
    total = smoothed_cross_entropy(logits.float(), target, 0.1)
    assert torch.isfinite(total) and total.dtype == torch.float32
    logits, target = problem(5, 6, 2)
    total = smoothed_cross_entropy(logits, target, 0.1)
    first = torch.autograd.grad(total, logits, retain_graph=True)[0].clone()
    assert torch.equal(first, torch.autograd.grad(total, logits)[0])


def test_nothing_is_kept_but_the_logits():
    logits, target = problem(50, 40, 0)
    sizes = saved_bytes(lambda: smoothed_cross_entropy(logits, target, 0.1))
    assert sizes.pop(logits.data_ptr()) and max(sizes.values()) <= 8 * 50


def smoothed(logits, q):
    return -(q * logits.log_softmax(-1)).sum()


def targets(y, size, eps, others):
    q = torch.full((len(y), size), others).double()
    q[torch.arange(len(y)), y] = 1 - eps
    return q


WRONG = {
    "mass over the other V - 1 tokens": lambda z, y, e: smoothed(
        z, targets(y, z.shape[1], e, e / (z.shape[1] - 1)) * (y != PAD)[:, None]
    ),
    "mass over V - 2 tokens, none on the padding": lambda z, y, e: smoothed(
        z,
        targets(y, z.shape[1], e, e / (z.shape[1] - 2)).index_fill(1, torch.tensor(PAD), 0.0)
        * (y != PAD)[:, None],
    ),
    "padding counted": lambda z, y, e: F.cross_entropy(z, y, label_smoothing=e, reduction="sum"),
    "mean for the sum": lambda z, y, e: F.cross_entropy(z, y, label_smoothing=e, ignore_index=PAD),
    "divergence: the entropy of the target taken off": lambda z, y, e: F.kl_div(
        z.log_softmax(-1),
        targets(y, z.shape[1], e - e / z.shape[1], e / z.shape[1]) * (y != PAD)[:, None],
        reduction="sum",
    ),
    "smoothing left out": lambda z, y, e: F.cross_entropy(z, y, ignore_index=PAD, reduction="sum"),
    "smoothing the wrong way": lambda z, y, e: F.cross_entropy(
        z, y, label_smoothing=1 - e, ignore_index=PAD, reduction="sum"
    ),
    "probabilities for logits": lambda z, y, e: F.cross_entropy(
        z.softmax(-1), y, label_smoothing=e, ignore_index=PAD, reduction="sum"
    ),
}


@pytest.mark.parametrize("mistake", WRONG)
def test_known_wrong_losses_are_told_apart(mistake):
    logits, target = problem(7, 6, 3)
    target[2] = PAD
    right = smoothed_cross_entropy(logits, target, 0.1, ignore_index=PAD)
    assert abs(right - WRONG[mistake](logits, target, 0.1)) > 1e-2


def test_ids_of_any_whole_type_are_those_of_int64():
    logits, target = problem(4, 6, 0)
    expected = smoothed_cross_entropy(logits, target, 0.1)
    for dtype in (torch.int32, torch.int16):
        assert smoothed_cross_entropy(logits, target.to(dtype), 0.1) == expected
        with double_backward():  # PyTorch's function
            total = smoothed_cross_entropy(logits, target.to(dtype), 0.1)
        torch.testing.assert_close(total, expected, **EXACT)


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        (lambda z, y: (z, y, 1.0), ValueError, "label_smoothing must be"),
        (lambda z, y: (z[None], y, 0.1), ValueError, r"got \(1, 4, 6\) and \(4,\)"),
        (lambda z, y: (z.long(), y, 0.1), ValueError, "logits must be floating point"),
        (lambda z, y: (z, y[:3], 0.1), ValueError, "logits and target must"),
        (lambda z, y: (z, y.float(), 0.1), ValueError, "target must be .* whole .* torch.float32"),
        (lambda z, y: (z, y.tolist(), 0.1), ValueError, "target must be .* whole .* list"),
        (lambda z, y: (z, y + 6, 0.1), IndexError, "target must have ids from 0 to 5"),
    ],
)
def test_bad_input_is_named(change, error, words):
    with pytest.raises(error, match=words):
        smoothed_cross_entropy(*change(*problem(4, 6, 0)))
