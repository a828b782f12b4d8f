"""Translation of real sentences on a made-up corpus: what is split, measured and saved."""

import json

import pytest

from attnbook.experiments import NoSettings, reproduce
from attnbook.experiments.translation.real_sentences import alibi
from attnbook.tasks.text.subwords import Subwords
from attnbook.tasks.translation import corpora
from attnbook.training import read_metadata


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


def test_sentences_with_several_translations_are_held_out_together(
    tmp_path, monkeypatch, figures_of
):
    """A test sentence that came back in training would give BLEU for memory."""
    pairs = [
        corpora.Sentences(f"the dog {k}", f"{article} chien {k}")
        for k in range(2300)
        for article in ("le", "un")
    ]
    monkeypatch.setattr(corpora, "tatoeba", lambda *_: pairs)
    monkeypatch.setattr(corpora, "alibi", lambda *_: [])
    monkeypatch.setattr(
        "attnbook.experiments.translation.real_sentences._aer", lambda *_: {"aer_alibi": 0.5}
    )
    figures = figures_of("tatoeba-en-fr", pieces=60, d_embed=4, hidden_size=4, steps=2)
    assert figures["train_pairs"] == 2 * 300
    assert figures["bleu_greedy_one_reference"] <= figures["bleu_greedy_up_to_four_references"]
    stem = "tatoeba-en-fr.seed0"
    assert read_metadata(tmp_path / f"{stem}.safetensors")["hidden_size"] == "4"
    assert len(Subwords.load(tmp_path / f"{stem}.fr.json")) <= 60


def test_the_error_of_the_diagonal_is_that_of_the_links(monkeypatch):
    """Links on the diagonal have no error by it; links on the other diagonal have all but the
    middle wrong."""
    words = ("the", "dog", "runs")
    straight = {(0, 0), (1, 1), (2, 2)}
    crossed = {(0, 2), (1, 1), (2, 0)}
    for links, error in ((straight, 0.0), (crossed, round(2 / 3, 4))):
        gold = [corpora.AlignedSentences(words, ("le", "chien", "court"), links, links)] * 4
        longer = [corpora.AlignedSentences(words * 4, ("le",), {(0, 0)}, {(0, 0)})]
        monkeypatch.setattr(corpora, "alibi", lambda *_: gold + longer)  # noqa: B023
        monkeypatch.setattr(
            "attnbook.experiments.translation.real_sentences.LENGTHS", ((1, 10), (11, 20))
        )
        short, long = alibi(NoSettings())["by_words"]
        assert short["diagonal"] == error and short["sentences"] == 4
        assert long == {"words": [11, 20], "sentences": 1, "diagonal": 0.0} | {
            "attention": long["attention"]
        }
