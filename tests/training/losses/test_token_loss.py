"""token_loss against a NumPy loop in float64, and against the ways in which it goes wrong."""

from functools import partial

import numpy as np
import pytest
import torch
from refusing import assert_refused
from torch.nn import functional as F
from training_doubles import PAD, Batch, CopyBatches, Decoded, make_model

from attnbook.decoding import score_targets
from attnbook.training import token_loss


def by_hand(model, batch, smoothing):
    """Σ over tokens that are not PAD of the cross-entropy with the smoothed target, one token at
    a time.
    """
    logits = model(batch.source, batch.lengths, batch.target_in).logits.detach().numpy()
    total, count = 0.0, 0
    for row, targets in zip(logits, batch.target_out.tolist(), strict=True):
        for scores, target in zip(row, targets, strict=True):
            if target == PAD:
                continue
            log_probs = scores - np.log(np.exp(scores).sum())
            wanted = np.full(len(scores), smoothing / len(scores))
            wanted[target] += 1 - smoothing
            total -= (wanted * log_probs).sum()
            count += 1
    return total, count


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_equals_a_loop_over_tokens(smoothing):
    model, batch = make_model(dtype=torch.float64), CopyBatches().batch(0)
    total, count = token_loss(model, batch, smoothing)
    expected_total, expected_count = by_hand(model, batch, smoothing)
    assert count.item() == expected_count
    assert total.item() == pytest.approx(expected_total, rel=1e-12)


def test_equals_cross_entropy_of_the_real_tokens():
    model, batch = make_model(dtype=torch.float64), CopyBatches().batch(3)
    total, count = token_loss(model, batch)
    real = batch.target_out != PAD
    logits = model(batch.source, batch.lengths, batch.target_in).logits
    assert (total / count).item() == pytest.approx(
        F.cross_entropy(logits[real], batch.target_out[real]).item(), rel=1e-12
    )


def test_more_padding_changes_nothing():
    model, batch = make_model(dtype=torch.float64), CopyBatches().batch(0)
    padded = batch._replace(
        target_in=F.pad(batch.target_in, (0, 3)), target_out=F.pad(batch.target_out, (0, 3))
    )
    for first, second in zip(token_loss(model, batch), token_loss(model, padded), strict=True):
        assert first.item() == pytest.approx(second.item(), rel=1e-12)


def test_known_wrong_losses_differ():
    model, batch = make_model(dtype=torch.float64), CopyBatches().batch(0)
    total, count = token_loss(model, batch)
    logits = model(batch.source, batch.lengths, batch.target_in).logits.flatten(0, 1)
    with_pad = F.cross_entropy(logits, batch.target_out.flatten(), reduction="sum")
    softmax_twice = F.cross_entropy(
        logits.softmax(-1), batch.target_out.flatten(), ignore_index=PAD, reduction="sum"
    )
    per_row = batch.target_out.ne(PAD).sum(1)
    mean_of_means = sum(
        F.cross_entropy(row[:n], target[:n])
        for row, target, n in zip(
            logits.unflatten(0, batch.target_out.shape), batch.target_out, per_row, strict=True
        )
    ) / len(per_row)
    assert abs(with_pad - total) > 1e-2
    assert abs(softmax_twice - total) > 1e-2
    assert abs(mean_of_means - total / count) > 1e-4


def test_scores_of_targets_add_up_to_the_loss():
    model, batch = make_model(dtype=torch.float64), CopyBatches().batch(0)
    assert -score_targets(model, batch).sum().item() == pytest.approx(
        token_loss(model, batch)[0].item(), rel=1e-12
    )


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_logits_are_summed_in_single_precision(dtype):
    class Half(torch.nn.Module):
        def forward(self, source, lengths, target_in):
            return Decoded(torch.zeros(*target_in.shape, 7, dtype=dtype), None)

    total, count = token_loss(Half(), CopyBatches(rows=500).batch(0))
    assert total.dtype == torch.float32
    assert total.item() / count.item() == pytest.approx(np.log(7), rel=1e-5)


@pytest.mark.parametrize("smoothing", [-0.1, 1.0])
def test_smoothing_out_of_range(smoothing):
    assert_refused("label_smoothing", token_loss, make_model(), CopyBatches().batch(0), smoothing)


def test_logits_of_another_shape():
    class Short(torch.nn.Module):
        def forward(self, source, lengths, target_in):
            return Decoded(torch.zeros(len(source), 1, 7), None)

    assert_refused("logits", lambda: token_loss(Short(), CopyBatches().batch(0)))


def test_works_as_a_partial():
    batch = CopyBatches().batch(0)
    assert isinstance(batch, Batch)
    assert partial(token_loss, label_smoothing=0.1)(make_model(), batch)[0] > 0
