"""token_loss against a NumPy loop in float64, and against the ways in which it goes wrong."""

import numpy as np
import pytest
import torch
from assertions import refusals
from training_doubles import PAD, CopyBatches, Decoded, make_model

from attnbook.training import token_loss


def by_hand(model, batch, smoothing):
    """Σ over tokens that are not PAD of the cross-entropy with the smoothed target."""
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


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_logits_are_summed_in_single_precision(dtype):
    class Half(torch.nn.Module):
        def forward(self, source, lengths, target_in):
            return Decoded(torch.zeros(*target_in.shape, 7, dtype=dtype), None)

    total, count = token_loss(Half(), CopyBatches(rows=500).batch(0))
    assert total.dtype == torch.float32
    assert total.item() / count.item() == pytest.approx(np.log(7), rel=1e-5)


class Short(torch.nn.Module):
    def forward(self, source, lengths, target_in):
        return Decoded(torch.zeros(len(source), 1, 7), None)


test_bad_input_is_named = refusals(
    ("label_smoothing", lambda: token_loss(make_model(), CopyBatches().batch(0), -0.1)),
    ("label_smoothing", lambda: token_loss(make_model(), CopyBatches().batch(0), 1.0)),
    ("logits", lambda: token_loss(Short(), CopyBatches().batch(0))),
)
