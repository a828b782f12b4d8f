"""Tatoeba on a made-up corpus: what is split, measured and saved; two directions of alignment."""

import pytest

from attnbook.tasks.text.subwords import Subwords
from attnbook.tasks.translation import corpora
from attnbook.training import read_metadata
from attnbook_runs import NoSettings
from attnbook_runs.translation import tatoeba

WORDS = ("the", "dog", "runs"), ("le", "chien", "court")


@pytest.mark.parametrize(("source", "target"), [("en", "fr"), ("fr", "en")])
def test_sentences_with_several_translations_are_held_out_together(
    tmp_path, monkeypatch, figures_of, source, target
):
    """A test sentence that came back in training would give BLEU for memory."""
    read = []

    def made(*languages):
        read.append(languages)
        return [
            corpora.Sentences(f"the dog {k}", f"{article} chien {k}")
            for k in range(2300)
            for article in ("le", "un")
        ]

    monkeypatch.setattr(corpora, "tatoeba", made)
    monkeypatch.setattr(
        tatoeba, "alibi_figures", lambda *given: read.append(given[-2:]) or {"aer_alibi": 0.5}
    )
    name = f"tatoeba-{source}-{target}"
    figures = figures_of(name, pieces=60, d_embed=4, hidden_size=4, steps=2)
    assert figures["train_pairs"] == 2 * 300 and read == [(source, target)] * 2
    assert figures["bleu_greedy_one_reference"] <= figures["bleu_greedy_up_to_four_references"]
    assert read_metadata(tmp_path / f"{name}.seed0.safetensors")["hidden_size"] == "4"
    pieces = [Subwords.load(tmp_path / f"{name}.seed0.{side}.json") for side in (source, target)]
    assert all(len(side) <= 60 for side in pieces)
    assert pieces[0].split("the dog") != pieces[1].split("the dog"), "each side has its own pieces"


def test_the_error_of_the_diagonal_is_that_of_the_links(monkeypatch):
    """Links on the diagonal have no error by it; links on the other diagonal have all but the
    middle wrong."""
    straight = {(0, 0), (1, 1), (2, 2)}
    crossed = {(0, 2), (1, 1), (2, 0)}
    for links, error in ((straight, 0.0), (crossed, round(2 / 3, 4))):
        gold = [corpora.AlignedSentences(*WORDS, links, links)] * 4
        longer = [corpora.AlignedSentences(WORDS[0] * 4, ("le",), {(0, 0)}, {(0, 0)})]
        monkeypatch.setattr(corpora, "alibi", lambda *_: gold + longer)  # noqa: B023
        monkeypatch.setattr(tatoeba, "LENGTHS", ((1, 10), (11, 20)))
        short, long = tatoeba.alibi(NoSettings())["by_words"]
        assert short["diagonal"] == error and short["sentences"] == 4
        assert long == {"words": [11, 20], "sentences": 1, "diagonal": 0.0} | {
            "attention": long["attention"]
        }


def test_both_directions_are_read_the_same_way_round(monkeypatch):
    """Each direction links every word of its target: forward the French words, backward the
    English ones, whose links are turned."""
    links = {
        WORDS[1]: {(0, 0), (1, 1), (0, 2)},  # (English, French)
        WORDS[0]: {(0, 0), (1, 1), (1, 2)},  # (French, English)
    }
    sure, possible = {(0, 0), (1, 1)}, {(0, 0), (1, 1), (2, 1)}
    monkeypatch.setattr(
        corpora, "alibi", lambda *_: [corpora.AlignedSentences(*WORDS, sure, possible)]
    )
    monkeypatch.setattr(tatoeba, "LENGTHS", ((1, 3),))
    monkeypatch.setattr(tatoeba, "_load", lambda source, seed, device: (source, None, None))
    monkeypatch.setattr(
        tatoeba, "attention_links", lambda sentences, *_: [links[s.target] for s in sentences]
    )
    found = tatoeba.symmetrised(NoSettings())
    assert found["by_words"] == [{"words": [1, 3], **found["all"]}]
    rows = {name: row for name, row in found["all"].items() if name != "sentences"}
    assert rows["en-fr"] == {"error": 0.2, "precision": 0.6667, "recall": 1.0, "links": 3}
    assert rows["fr-en"] == {"error": 0.0, "precision": 1.0, "recall": 1.0, "links": 3}
    assert rows["intersection"] == {"error": 0.0, "precision": 1.0, "recall": 1.0, "links": 2}
    assert rows["union"]["links"] == rows["grow-diag-final-and"]["links"] == 4
    assert rows["diagonal"]["links"] == 3
