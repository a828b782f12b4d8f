import math
from types import SimpleNamespace

import pytest
import torch
from assertions import assert_refused
from watching import modes_are_kept

from attnbook.tasks import EOS, PAD, SequenceBatches
from attnbook.tasks.text import sentences
from attnbook.training import fit, language_loss, perplexity
from attnbook_runs.common import count_parameters
from attnbook_runs.language.language_models import DISTANCES, long_distance_accuracy, make_model

TINY = dict(train_sentences=200, test_sentences=60, steps=3, d_embed=8, hidden_size=8)
TINY |= dict(batch_size=16)


class Knowing(torch.nn.Module):
    """Reads the answer from the batch it will be asked about: right always, never, or equally
    unsure of all words.
    """

    def __init__(self, task, confidence):
        super().__init__()
        self.size, self.confidence = len(task.source_vocab), confidence
        self.register_parameter("none", torch.nn.Parameter(torch.zeros(1)))

    def forward(self, tokens, lengths):
        following = torch.cat([tokens[:, 1:], torch.full_like(tokens[:, :1], PAD)], dim=1)
        # behind the last word comes the end
        following = torch.where(following == PAD, EOS, following)
        following = torch.nn.functional.one_hot(following, self.size).double()
        return SimpleNamespace(logits=self.confidence * following + self.none)


@pytest.fixture(scope="module")
def task():
    return sentences.language_task(train=300, valid=50, test=200, seed=0)


@pytest.mark.parametrize("size", [(60, 32, 64), (62, 48, 48), (4000, 64, 96)])
def test_the_baseline_has_as_many_parameters_within_a_percent(size):
    vocabulary, d_embed, hidden_size = size
    counts = [
        count_parameters(make_model(name, vocabulary, d_embed=d_embed, hidden_size=hidden_size))
        for name in ("lstmn", "lstm")
    ]
    assert abs(counts[1] / counts[0] - 1) < 0.01
    assert_refused("model", make_model, "rnn", 10, d_embed=4, hidden_size=4)


def test_perplexity_is_the_size_of_the_vocabulary_for_a_flat_model_and_one_for_a_perfect_one(task):
    batches = SequenceBatches(task.test, task.source_vocab, task.target_vocab, 64)
    flat = perplexity(Knowing(task, 0.0), batches)
    assert flat == pytest.approx(len(task.source_vocab), rel=1e-6)
    assert perplexity(Knowing(task, 50.0), batches) < 1.0001
    assert perplexity(Knowing(task, -1000.0), batches) == math.inf
    model = Knowing(task, 0.0)
    model.part = torch.nn.Dropout().eval()
    perplexity(model, batches)
    assert model.training and not model.part.training
    assert_refused("batches", perplexity, model, [])


def test_far_words_are_all_right_or_all_wrong_and_counted_once_each(task):
    right, wrong = (
        long_distance_accuracy(Knowing(task, c), task.test, task.source_vocab)
        for c in (50.0, -50.0)
    )
    assert all(row["right"] == 1 for row in right) and all(row["right"] == 0 for row in wrong)
    far = [
        t - min(a)
        for pair in task.test
        for t, a in enumerate(pair.alignment)
        if a and t - min(a) > 1
    ]
    assert sum(row["words"] for row in right) == len(far)
    assert all(tuple(row["distance"]) in DISTANCES for row in right)
    names = sum("says" in pair.source for pair in task.test)
    assert sum(row["words"] for row in right if row["kind"] == "name") == names


def test_far_words_keep_the_modes(task):
    model = Knowing(task, 0.0)
    assert modes_are_kept(
        model, lambda: long_distance_accuracy(model, task.test, task.source_vocab, batch_size=150)
    )


def test_the_peak_is_looked_for_at_the_step_that_predicts_and_at_the_step_that_reads(task):
    model = make_model("lstmn", len(task.source_vocab), d_embed=8, hidden_size=8)
    forward, found = model.forward, {}

    def planted(shift):
        def run(tokens, lengths, need_weights=False):
            out = forward(tokens, lengths, need_weights=need_weights)
            weights = torch.zeros_like(out.weights)
            for row, pair in enumerate(ordered):
                for t, sources in enumerate(pair.alignment):
                    for j in sources:
                        weights[row, t + shift, j + 1] = 1.0
            return out._replace(weights=weights)

        return run

    ordered = [pair for pair in task.test if "says" in pair.source][:50]
    for shift in (0, 1):
        model.forward = planted(shift)
        found[shift] = long_distance_accuracy(model, ordered, task.source_vocab)
    assert all((row["peak_writing"], row["peak_reading"]) == (1, 0) for row in found[0])
    assert all((row["peak_writing"], row["peak_reading"]) == (0, 1) for row in found[1])


@pytest.mark.parametrize("name", ["lstmn-language", "lstm-language"])
def test_a_recorded_run_holds_what_the_book_shows(tmp_path, name, figures_of):
    figures = figures_of(name, seed=1, **TINY)
    assert figures["perplexity"] > 1 and len(figures["curve"]) == 3 and figures["parameters"] > 1000
    assert {row["kind"] for row in figures["far_words"]} == {"agreement", "name"}
    assert (tmp_path / "lstmn-language.seed1.safetensors").exists() == (name == "lstmn-language")
    assert ("peak_writing" in figures["far_words"][0]) == (name == "lstmn-language")


def test_an_lstmn_learns_what_a_tape_that_is_not_read_cannot():
    """The name comes back after four words; with the attention cut off the model keeps no past."""
    task = sentences.language_task(
        train=120, valid=0, test=40, seed=0, kinds=("name",), insertions=(0, 1)
    )
    batches = SequenceBatches(task.train, task.source_vocab, task.target_vocab, 40, seed=0)
    found = {}
    for cut in (False, True):
        torch.manual_seed(0)
        model = make_model("lstmn", len(task.source_vocab), d_embed=16, hidden_size=24)
        if cut:
            advance = model.layer._advance
            model.layer._advance = lambda x, gates, tapes, mask: advance(
                x, gates, tapes, torch.zeros(len(x), 1, dtype=torch.bool)
            )
        fit(model, batches, language_loss, steps=60, learning_rate=1e-2, progress=False)
        found[cut] = perplexity(
            model, SequenceBatches(task.train, task.source_vocab, task.target_vocab, 40)
        )
    assert found[False] < 0.8 * found[True]
