"""No id is left out by its number: with the vocabulary numbered anew every loss is the same."""

import math
from types import SimpleNamespace
from typing import NamedTuple

import pytest
import torch

from attnbook.decoding import score_targets
from attnbook.tasks.text.masking import Masked
from attnbook.training import language_loss, perplexity, token_loss
from attnbook.training.losses.masked_language import masked_loss
from attnbook.training.losses.prompted import prompted_loss, whole_text_loss

V = 6
NUMBERINGS = [(1, 2, 3, 4, 5, 0), (5, 4, 3, 2, 1, 0), (2, 0, 1, 3, 5, 4)]


class Batch(NamedTuple):
    source: torch.Tensor
    lengths: torch.Tensor
    target_in: torch.Tensor
    target_out: torch.Tensor


class Measured(Batch):
    """A batch that says how long its targets are."""

    target_lengths = torch.tensor([4, 1, 2])


class Once:
    """Batches of which there is one."""

    def __init__(self, given):
        self.given = given

    def __len__(self):
        return 1

    def batch(self, step):
        return self.given


class Table(torch.nn.Module):
    """Logits that depend on the last word alone, for every kind of loss."""

    def __init__(self, numbering=tuple(range(V))):
        super().__init__()
        drawn = torch.randn(V, V, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        order = torch.tensor(numbering).argsort()
        self.weight = torch.nn.Parameter(drawn[order][:, order])

    def forward(self, *arguments):
        words = arguments[0] if len(arguments) == 2 else arguments[2]
        return SimpleNamespace(logits=self.weight[words])

    def encode(self, tokens, lengths):
        return self.weight[tokens]

    def output(self, states):
        return states


def batch(kind, numbering=tuple(range(V))):
    """Every id occurs in a target; what lies behind the lengths is any id."""
    to = torch.tensor(numbering)
    return kind(
        to[torch.tensor([[3, 0, 4], [2, 5, 5], [0, 1, 5]])],
        torch.tensor([3, 1, 2]),
        to[torch.tensor([[1, 0, 5, 2], [1, 3, 3, 3], [1, 4, 0, 0]])],
        to[torch.tensor([[0, 5, 2, 1], [3, 4, 4, 4], [4, 0, 2, 2]])],
    )


def measures(model, given):
    def masked(model, given):
        hidden = torch.tensor([[1, 0, 1], [1, 0, 0], [1, 1, 0]]) == 1
        target = given.source.masked_fill(~hidden, -100)
        return masked_loss(model, Masked(given.source, given.lengths, target))

    found = {}
    for loss in (token_loss, language_loss, prompted_loss, whole_text_loss, masked):
        total, count = loss(model, given)
        found[getattr(loss, "__name__", "whole_text_loss")] = total.item(), int(count)
    found["scores"] = score_targets(model, given).tolist()
    found["perplexity"] = perplexity(model, Once(given))
    return found


@pytest.mark.parametrize("numbering", NUMBERINGS)
@pytest.mark.parametrize("kind", [Batch, Measured])
def test_a_vocabulary_may_be_numbered_anew(kind, numbering):
    wanted = measures(Table(), batch(kind))
    found = measures(Table(numbering), batch(kind, numbering))
    assert found.keys() == wanted.keys()
    for name, value in wanted.items():
        assert found[name] == pytest.approx(value, abs=1e-10), name
    number = {Batch: 12, Measured: 7}[kind]
    assert wanted["token_loss"][1] == wanted["language_loss"][1] == number
    assert wanted["prompted_loss"][1] == number
    assert wanted["whole_text_loss"][1] == number + 6 and wanted["masked"][1] == 5


@pytest.mark.parametrize("ignored", range(V))
@pytest.mark.parametrize("kind", [Batch, Measured])
def test_a_target_that_is_ignored_does_not_count(kind, ignored):
    model, given = Table(), batch(kind)
    lengths = getattr(given, "target_lengths", torch.tensor([4, 4, 4])).tolist()
    log_p = model(given.target_in, None).logits.log_softmax(-1)
    wanted = [
        sum(log_p[b, t, y].item() for t, y in enumerate(row[:n]) if y != ignored)
        for b, (row, n) in enumerate(zip(given.target_out.tolist(), lengths))
    ]
    count = sum(y != ignored for row, n in zip(given.target_out.tolist(), lengths) for y in row[:n])
    for loss in (token_loss, language_loss):
        total, terms = loss(model, given, ignore_index=ignored)
        assert total.item() == pytest.approx(-sum(wanted), abs=1e-10) and terms == count
    scores = score_targets(model, given, ignore_index=ignored)
    assert scores.tolist() == pytest.approx(wanted, abs=1e-10)


def test_a_batch_may_be_a_mapping_and_batches_a_loader_or_a_list():
    model, given = Table(), batch(Batch)
    wanted = language_loss(model, given)
    mapping = {"target_in": given.target_in, "target_out": given.target_out}
    assert language_loss(model, mapping)[0] == wanted[0]
    assert token_loss(model, given._asdict()) == token_loss(model, given)
    rows = [{name: tensor[k] for name, tensor in mapping.items()} for k in range(3)]
    loader = torch.utils.data.DataLoader(rows, batch_size=2)
    mean = wanted[0].item() / int(wanted[1])  # two rows and one have unequal numbers of words
    assert perplexity(model, loader) == pytest.approx(math.exp(mean), rel=1e-12)
    for batches in (loader, [mapping], [given]):
        assert perplexity(model, batches) == pytest.approx(perplexity(model, Once(given)), abs=1e-9)
