"""The loss of masked prediction, against a loop over the hidden tokens."""

import pytest
import torch

from attnbook import TransformerEncoderModel, paper_parts
from attnbook.tasks.text.masking import Masked, hide, pad
from attnbook.training.losses.masked_language import hidden_logits, masked_loss


@pytest.fixture
def model():
    torch.manual_seed(0)
    return TransformerEncoderModel(12, paper_parts(8, 2, 16, dropout=0.0), num_layers=2).double()


@pytest.fixture
def batch():
    return hide(
        *pad([[4, 7, 5, 9, 11, 6], [8, 5], [10, 10, 4]]), 12, torch.Generator().manual_seed(2), 0.4
    )


def test_it_is_the_cross_entropy_of_the_hidden_tokens(model, batch):
    total, count = masked_loss(model, batch)
    by_hand, terms = 0.0, 0
    for b, n in enumerate(batch.lengths.tolist()):
        log_p = model(batch.tokens[b : b + 1, :n]).logits[0].log_softmax(-1)
        for t in range(n):
            if batch.target[b, t] != -100:
                by_hand, terms = by_hand - log_p[t, batch.target[b, t]].item(), terms + 1
    assert abs(total.item() - by_hand) < 1e-10 and count.item() == terms and terms >= 3


def test_what_is_not_asked_and_padding_do_not_count(model, batch):
    logits, wanted = hidden_logits(model, batch)
    assert logits.shape == (len(wanted), 12)
    assert torch.equal(wanted, batch.target[batch.target >= 0])
    longer = Masked(
        torch.nn.functional.pad(batch.tokens, (0, 3)),
        batch.lengths,
        torch.nn.functional.pad(batch.target, (0, 3), value=-100),
    )
    torch.testing.assert_close(
        masked_loss(model, longer)[0], masked_loss(model, batch)[0], atol=1e-10, rtol=0
    )
    everything = batch._replace(target=batch.tokens)
    assert (
        masked_loss(model, everything)[0] / masked_loss(model, everything)[1]
        - masked_loss(model, batch)[0] / masked_loss(model, batch)[1]
    ).abs() > 1e-3
