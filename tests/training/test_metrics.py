"""Metrics on cases worked by hand."""

import sys

import pytest

from attnbook.training import bleu, edit_distance, exact_match, token_accuracy, token_error_rate


def test_exact_match():
    assert exact_match([[1, 2], [3], []], [[1, 2], [3, 4], []]) == pytest.approx(2 / 3)
    assert exact_match([(1, 2)], [[1, 2]]) == 1
    assert exact_match(["12", "13"], ["12", "14"]) == 0.5


def test_token_accuracy_counts_tokens_too_many_and_missing():
    assert token_accuracy([[1, 2, 3]], [[1, 9, 3]]) == pytest.approx(2 / 3)
    assert token_accuracy([[1, 2, 3, 4]], [[1, 2]]) == pytest.approx(1 / 2)
    assert token_accuracy([[1]], [[1, 2]]) == pytest.approx(1 / 2)
    # Over all tokens, not the mean of sentence accuracies (which would be 0.5).
    assert token_accuracy([[1], [0, 0, 0]], [[1], [1, 1, 1]]) == pytest.approx(1 / 4)


def test_edit_distance():
    assert edit_distance("kitten", "sitting") == 3
    assert edit_distance("", "abc") == edit_distance("abc", "") == 3
    assert edit_distance([1, 2, 3], [1, 2, 3]) == 0
    assert token_error_rate(["kitten", "a"], ["sitting", "b"]) == pytest.approx(4 / 8)


@pytest.mark.parametrize("metric", [exact_match, token_accuracy, token_error_rate])
def test_bad_lists(metric):
    with pytest.raises(ValueError, match="predictions: got 1, expected 2"):
        metric([[1]], [[1], [2]])
    with pytest.raises(ValueError, match="empty list"):
        metric([], [])
    with pytest.raises(ValueError, match="one string"):
        metric("ab", [[1], [2]])
    if metric is not exact_match:
        with pytest.raises(ValueError, match="only empty sequences"):
            metric([[]], [[]])


def test_bleu_is_sacrebleus():
    sacrebleu = pytest.importorskip("sacrebleu")
    hypotheses = ["the cat sat on the mat .", "a dog runs over the green grass"]
    references = ["the cat sat on a mat .", "a dog runs over the grass"]
    result = bleu(hypotheses, references)
    assert result.score == pytest.approx(sacrebleu.corpus_bleu(hypotheses, [references]).score)
    assert 0 < result.score < 100
    assert "version:" in result.signature and "nrefs:1" in result.signature
    assert bleu(references, references).score == pytest.approx(100)
    assert "case:lc" in bleu(hypotheses, references, lowercase=True).signature


def test_bleu_with_several_references():
    pytest.importorskip("sacrebleu")
    result = bleu(["a b c d e"], [["x y z u v", "a b c d e"]])
    assert result.score == pytest.approx(100)
    assert "nrefs:2" in result.signature


def test_bleu_rejects_tokens_and_uneven_references():
    with pytest.raises(ValueError, match="hypotheses: number 0 is list"):
        bleu([["a", "b"]], ["a b"])
    with pytest.raises(ValueError, match="references: got"):
        bleu(["a", "b"], [["a"], ["a", "b"]])
    with pytest.raises(ValueError, match="not all text"):
        bleu(["a"], [[["a"]]])


def test_bleu_without_sacrebleu_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "sacrebleu", None)
    monkeypatch.setitem(sys.modules, "sacrebleu.metrics", None)
    with pytest.raises(ImportError, match=r"attnbook\[translate\]"):
        bleu(["a"], ["a"])
