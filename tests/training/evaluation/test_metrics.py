"""Metrics on cases worked by hand."""

import math
import sys

import pytest
import torch
from assertions import assert_refused

from attnbook.training import (
    bleu,
    cider,
    edit_distance,
    exact_match,
    token_accuracy,
    token_error_rate,
)


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


def test_what_is_counted_on_tensors_is_a_number_too():
    predictions, references = torch.tensor([[1, 2, 3]]), torch.tensor([[1, 2, 9]])
    for metric, value in ((token_accuracy, 2 / 3), (token_error_rate, 1 / 3)):
        result = metric(predictions, references)
        assert type(result) is float and result == value


def test_edit_distance():
    assert edit_distance("kitten", "sitting") == 3
    assert edit_distance("", "abc") == edit_distance("abc", "") == 3
    assert edit_distance([1, 2, 3], [1, 2, 3]) == 0
    assert token_error_rate(["kitten", "a"], ["sitting", "b"]) == pytest.approx(4 / 8)


def test_texts_that_do_not_pair_are_named_as_the_caller_does():
    assert_refused("hypotheses", bleu, ["a"], ["b", "c"])
    assert_refused("hypotheses", bleu, "a", ["b"])


@pytest.mark.parametrize("metric", [exact_match, token_accuracy, token_error_rate])
def test_bad_lists(metric):
    assert_refused("predictions", metric, [[1]], [[1], [2]])
    assert_refused("references", metric, [], [])
    assert_refused("predictions", metric, "ab", [[1], [2]])
    if metric is not exact_match:
        assert_refused("references", metric, [[]], [[]])


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
    assert_refused("hypotheses", bleu, [["a", "b"]], ["a b"])
    assert_refused("references", bleu, ["a", "b"], [["a"], ["a", "b"]])
    assert_refused("references", bleu, ["a"], [[["a"]]])


def _cider_by_hand(hypotheses, references):
    """CIDEr-D of one reference each, from the formula of Vedantam et al.

    2015, with its length penalty (σ = 6) and clipping.
    """

    def grams(text, n):
        words = text.split()
        outcome = {}
        for i in range(len(words) - n + 1):
            gram = tuple(words[i : i + n])
            outcome[gram] = outcome.get(gram, 0) + 1
        return outcome

    scores = []
    for hypothesis, reference in zip(hypotheses, references):
        cosines = []
        for n in (1, 2, 3, 4):
            a, b = grams(hypothesis, n), grams(reference, n)
            idf = {
                g: math.log(len(references) / max(1, sum(g in grams(r, n) for r in references)))
                for g in {*a, *b}
            }
            dot = sum(min(a[g], b[g]) * b[g] * idf[g] ** 2 for g in a if g in b)
            norms = [
                math.sqrt(sum((count * idf[g]) ** 2 for g, count in side.items()))
                for side in (a, b)
            ]
            cosines.append(dot / (norms[0] * norms[1]) if min(norms) > 0 else 0.0)
        delta = len(hypothesis.split()) - len(reference.split())
        scores.append(10 * sum(cosines) / 4 * math.exp(-delta * delta / (2 * 6.0**2)))
    return sum(scores) / len(scores)


def test_cider_is_the_formula():
    references = [
        "a red circle left of a blue square",
        "a green cross right of a red circle",
        "one black square",
    ]
    hypotheses = [
        "a red circle left of a red circle",
        "a green cross right of a red circle",
        "one small square",
    ]
    assert cider(hypotheses, references) == pytest.approx(_cider_by_hand(hypotheses, references))
    assert 0 < cider(hypotheses, references) < cider(references, references)
    assert cider(["x y z", "u v w"], ["a b c d", "e f g h"]) == 0
    assert cider(["a b c d", "e f g h"], ["a b c d", "e f g h"]) == pytest.approx(10)
    assert cider(
        ["a b c d", "e f g h"], [["q r s t", "a b c d"], ["e f g h", "x"]]
    ) == pytest.approx(5)


def test_cider_rejects_tokens_one_picture_and_nothing():
    for hypotheses, references, words in (
        (["a"], ["a"], "at least 2"),
        ([["a"], "b"], ["a", "b"], "detokenised"),
        (["a", "b"], ["a", []], "at least 1 per hypothesis"),
        ([], [], "empty list"),
    ):
        with pytest.raises(ValueError, match=words):
            cider(hypotheses, references)


@pytest.mark.parametrize(
    ("metric", "module", "extra"),
    [
        (bleu, "sacrebleu.metrics.bleu", "translate"),
        (cider, "pycocoevalcap.cider.cider", "captions"),
    ],
)
def test_a_metric_without_its_package_names_the_extra(metric, module, extra, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=rf"attnbook\[{extra}\]"):
        metric(["a", "b"], ["a", "b"])
