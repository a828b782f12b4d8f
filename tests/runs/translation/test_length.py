"""The curve of exact answers by source length, of models whose answers are known."""

import pytest
import torch

from attnbook.decoding import Step
from attnbook.tasks import EOS, TOKEN_IDS, make_task
from attnbook_runs.translation.length import EDGES, curve_of, make_model


class Reader(torch.nn.Module):
    """Knows the target of every source: what a perfect model would say."""

    token_ids = TOKEN_IDS

    def __init__(self, task, pairs):
        super().__init__()
        self.none, self.size = torch.nn.Parameter(torch.zeros(1)), len(task.target_vocab)
        sources = (tuple(task.source_vocab.encode(pair.source)) for pair in pairs)
        targets = ([*task.target_vocab.encode(pair.target), EOS] for pair in pairs)
        self.answers = dict(zip(sources, targets))

    def encode(self, source, lengths):
        rows = (tuple(row[:n]) for row, n in zip(source.tolist(), lengths.tolist()))
        answers = [torch.tensor(self.answers[row]) for row in rows]
        return torch.nn.utils.rnn.pad_sequence(answers, batch_first=True, padding_value=EOS)

    def start(self, memory):
        return torch.zeros(len(memory), dtype=torch.long)

    def step(self, token, state, memory):
        said = memory.gather(1, state[:, None])[:, 0]
        return Step(torch.nn.functional.one_hot(said, self.size) * 9.0 + self.none, state + 1, None)


@pytest.fixture
def task():
    return make_task("phrases", train=20, valid=0, test=40, seed=0, phrases=(1, 3))


def test_the_curve_counts_exact_answers_of_a_perfect_and_of_a_silent_model(task):
    net = make_model("seq2seq", task, d_embed=4, hidden_size=4)
    assert all(row["exact"] == 0 for row in curve_of(net, task.test, task))
    perfect = Reader(task, task.test)
    assert len(perfect.answers) == 40
    rows = curve_of(perfect, task.test, task)
    counts = {
        edge: sum(edge[0] <= len(pair.source) <= edge[1] for pair in task.test) for edge in EDGES
    }
    assert rows == [
        {"words": list(edge), "sentences": count, "exact": 1.0, "token": 1.0}
        for edge, count in counts.items()
        if count
    ]
    assert len(rows) >= 3 and sum(row["sentences"] for row in rows) == 40


def test_one_wrong_word_costs_one_answer_and_one_token_of_its_row(task):
    model, pair = Reader(task, task.test), task.test[0]
    answer = model.answers[tuple(task.source_vocab.encode(pair.source))]
    answer[-2] = next(
        word for word in task.target_vocab.encode(task.test[1].target) if word != answer[-2]
    )
    for row in curve_of(model, task.test, task):
        low, high = row["words"]
        wrong = low <= len(pair.source) <= high
        tokens = sum(len(other.target) for other in task.test if low <= len(other.source) <= high)
        assert row["exact"] == round(1 - wrong / row["sentences"], 4)
        assert row["token"] == round(1 - wrong / tokens, 4)
