"""Runs on captions that are made up: what is measured and saved."""

import json

import pytest

from attnbook_runs import reproduce


@pytest.mark.parametrize("model", ["bahdanau", "seq2seq"])
def test_a_run_on_multi30k_has_the_figures_of_the_book(captions, tmp_path, model):
    path = reproduce(
        f"multi30k-en-de-{model}-small",
        out=tmp_path,
        device="cpu",
        commit="abc",
        pieces=60,
        d_embed=8,
        hidden_size=8,
        batch_size=16,
        steps=12,
    )
    figures = json.loads(path.read_text())["figures"]
    assert [step for step, _ in figures["validation_loss"]] == list(range(1, 13))
    assert 0 <= figures["bleu_greedy"] <= 100 and 0 <= figures["bleu_beam5"] <= 100
    assert sum(row["sentences"] for row in figures["bleu_by_words"]) == 8
    assert list(tmp_path.iterdir()) == [path]
