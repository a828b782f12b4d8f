"""The recipe of the Transformer trains a small one; the same run with a leak has the better loss
and translates nothing.
"""

import pytest
import torch

from attnbook import Transformer, paper_parts
from attnbook.decoding import greedy
from attnbook.tasks import TOKEN_IDS, SequenceBatches, collate, make_task
from attnbook.training import average_checkpoints, exact_match, fit, inverse_sqrt, token_loss
from attnbook_runs.translation.transformer import paper_adam


class Reads:
    """Batches in which the decoder reads something else."""

    def __init__(self, batches, read):
        self.batches, self.read = batches, read

    def batch(self, step):
        given = self.batches.batch(step)
        return given._replace(target_in=self.read(given))


@pytest.fixture(scope="module")
def task():
    return make_task("reverse", train=900, valid=0, test=200, seed=0, symbols=4, length=(2, 5))


def trained(task, folder, read=lambda given: given.target_in):
    torch.manual_seed(0)
    size = len(task.source_vocab)
    net = Transformer(
        size, size, paper_parts(32, 2, 64, dropout=0.0), num_layers=1, token_ids=TOKEN_IDS
    )
    batches = Reads(SequenceBatches(task.train, task.source_vocab, task.target_vocab, 64), read)
    history = fit(
        net,
        batches,
        lambda m, b: token_loss(m, b, 0.1),
        steps=200,
        optimizer=paper_adam(4e-3),
        schedule=inverse_sqrt(50),
        device="cpu",
        progress=False,
        checkpoint_dir=folder,
        save_every=25,
        keep_checkpoints=4,
    )
    average_checkpoints(net, folder)
    batch = collate(task.test, task.source_vocab, task.target_vocab)
    result = greedy(net, batch.source, batch.lengths, 12).tokens
    return sum(history.losses[-20:]) / 20, exact_match(
        result, [task.target_vocab.encode(pair.target) for pair in task.test]
    )


def test_the_recipe_trains_and_a_leak_only_looks_better(task, tmp_path):
    loss, exact = trained(task, tmp_path / "sound")
    leak_loss, leak_exact = trained(task, tmp_path / "leak", lambda given: given.target_out)
    assert exact > 0.15  # the leak has 0: what it read in training is not there
    assert leak_loss < loss and leak_exact < 0.02
