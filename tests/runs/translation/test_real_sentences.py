"""Runs on captions that are made up: what is measured and saved."""

import pytest


@pytest.mark.parametrize("model", ["bahdanau", "seq2seq"])
def test_a_run_on_multi30k_has_the_figures_of_the_book(captions, tmp_path, model, figures_of):
    sizes = dict(pieces=60, d_embed=8, hidden_size=8, batch_size=16, steps=12)
    figures = figures_of(f"multi30k-en-de-{model}-small", **sizes)
    assert [step for step, _ in figures["validation_loss"]] == list(range(1, 13))
    assert 0 <= figures["bleu_greedy"] <= 100 and 0 <= figures["bleu_beam5"] <= 100
    assert sum(row["sentences"] for row in figures["bleu_by_words"]) == 8
    assert len(list(tmp_path.iterdir())) == 1
