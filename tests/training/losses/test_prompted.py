import math
from types import SimpleNamespace

import pytest
import torch

from attnbook.tasks import BOS, EOS, PAD
from attnbook.tasks.sequences.batches import Batch
from attnbook.training.losses.prompted import one_text, prompted_loss, whole_text_loss

# Sources of 3, 1 and 2 words, targets of 2, 0 and 1.
BATCH = Batch(
    torch.tensor([[5, 6, 7], [8, 0, 0], [5, 9, 0]]),
    torch.tensor([3, 1, 2]),
    torch.tensor([[BOS, 4, 6], [BOS, 0, 0], [BOS, 7, 0]]),
    torch.tensor([[4, 6, EOS], [EOS, 0, 0], [7, EOS, 0]]),
    torch.tensor([3, 1, 2]),
)
V = 10


class Table(torch.nn.Module):
    """Logits that depend on the word and its place alone: the loss can be added up by hand."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(
            torch.randn(V, V, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        )

    def forward(self, tokens, lengths):
        self.input_ids, self.lengths = tokens, lengths
        return SimpleNamespace(logits=self.weight[tokens])


def test_source_and_target_are_one_text():
    text = one_text(BATCH)
    assert text.input_ids.tolist() == [
        [5, 6, 7, BOS, 4, 6],
        [8, BOS, 0, 0, 0, 0],
        [5, 9, BOS, 7, 0, 0],
    ]
    assert text.labels.tolist() == [
        [6, 7, BOS, 4, 6, EOS],
        [BOS, EOS, 0, 0, 0, 0],
        [9, BOS, 7, EOS, 0, 0],
    ]
    assert text.loss_mask.int().tolist() == [
        [0, 0, 0, 1, 1, 1],
        [0, 1, 0, 0, 0, 0],
        [0, 0, 1, 1, 0, 0],
    ]
    assert text.lengths.tolist() == [6, 2, 4]


@pytest.mark.parametrize("everything", [False, True])
def test_the_loss_is_added_up_over_the_target_or_over_all(everything):
    model = Table()
    total, count = (whole_text_loss if everything else prompted_loss)(model, BATCH)
    texts = [([5, 6, 7, BOS, 4, 6, EOS], 3), ([8, BOS, EOS], 1), ([5, 9, BOS, 7, EOS], 2)]
    expected, terms = 0.0, 0
    for words, n in texts:
        for t in range(0 if everything else n, len(words) - 1):
            row = model.weight[words[t]].tolist()
            expected += math.log(sum(math.exp(v) for v in row)) - row[words[t + 1]]
            terms += 1
    assert total.item() == pytest.approx(expected, abs=1e-10)
    assert count.item() == terms == (12 if everything else 6)
    assert total.requires_grad
    assert (model.input_ids == one_text(BATCH).input_ids).all()
    assert (model.lengths == one_text(BATCH).lengths).all()


def test_on_the_target_alone_the_source_words_get_no_gradient():
    """A text may hold anything before the separator: what is learned there is nothing."""
    model = Table()
    prompted_loss(model, BATCH)[0].backward()
    assert not model.weight.grad[[5, 8, 9]].any()
    assert model.weight.grad[[BOS, 4, 6, 7]].any(-1).all()
    model.weight.grad = None
    whole_text_loss(model, BATCH)[0].backward()
    assert model.weight.grad[[5, 8, 9]].any(-1).all() and not model.weight.grad[PAD].any()
