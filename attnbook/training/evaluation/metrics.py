"""How good decoded sequences are."""

import importlib
from collections.abc import Sequence
from typing import NamedTuple

from ...extras import extra
from ...validate import require

__all__ = [
    "Bleu",
    "bleu",
    "cider",
    "edit_distance",
    "exact_match",
    "token_accuracy",
    "token_error_rate",
]

_CLASSES = {  # of packages that Colab lacks: module, class, extra
    "bleu": ("sacrebleu.metrics.bleu", "BLEU", "translate"),
    "cider": ("pycocoevalcap.cider.cider", "Cider", "captions"),
}


class Bleu(NamedTuple):
    """Corpus BLEU in percent, and sacrebleu's signature of how it was computed."""

    score: float
    signature: str


def exact_match(predictions: Sequence[Sequence], references: Sequence[Sequence]) -> float:
    """The share of predictions equal to their reference, token by token: a number in [0, 1]."""
    pairs = _pairs(predictions, references)
    return sum(list(p) == list(r) for p, r in pairs) / len(pairs)


def token_accuracy(predictions: Sequence[Sequence], references: Sequence[Sequence]) -> float:
    """``Σ_i |{t : p_it = r_it}| / Σ_i max(|p_i|, |r_i|)``: equal tokens at equal places, in [0, 1].

    The denominator counts the longer of the two, so surplus tokens cost as much as missing ones.
    """
    pairs = _pairs(predictions, references)
    equal = sum(bool(a == b) for p, r in pairs for a, b in zip(p, r, strict=False))
    tokens = sum(max(len(p), len(r)) for p, r in pairs)
    require(tokens > 0, "references must have at least one token, got only empty sequences")
    return equal / tokens


def edit_distance(prediction: Sequence, reference: Sequence) -> int:
    """The least number of insertions, deletions and substitutions (Levenshtein 1966)."""
    row = list(range(len(reference) + 1))
    for i, a in enumerate(prediction, start=1):
        diagonal, row[0] = row[0], i
        for j, b in enumerate(reference, start=1):
            diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, diagonal + bool(a != b))
    return row[-1]


def token_error_rate(predictions: Sequence[Sequence], references: Sequence[Sequence]) -> float:
    """``Σ_i edit_distance(p_i, r_i) / Σ_i |r_i|``: 0 is perfect, above 1 is possible."""
    pairs = _pairs(predictions, references)
    tokens = sum(len(reference) for reference in references)
    require(tokens > 0, "references must have at least one token, got only empty sequences")
    return sum(edit_distance(p, r) for p, r in pairs) / tokens


def bleu(
    hypotheses: Sequence[str], references: Sequence[str] | Sequence[Sequence[str]], **options
) -> Bleu:
    """Corpus BLEU by sacrebleu on detokenised text.

    Args:
        hypotheses: one string per sentence.
        references: one string, or several, per hypothesis.
        options: for `sacrebleu.metrics.BLEU` (lowercase, tokenize, …); they show in the signature,
            without which two scores cannot be compared.

    Raises:
        ImportError: naming the extra, without sacrebleu.

    Source: Papineni et al. 2002; Post 2018.
    """
    several = _check_texts(hypotheses, references)
    counts = {len(row) for row in several}
    if len(counts) != 1:
        raise ValueError(
            f"references must be equally many, at least 1, per hypothesis, got {sorted(counts)}"
        )
    metric = _imported("bleu")(**options)
    streams = [list(stream) for stream in zip(*several, strict=True)]
    result = metric.corpus_score(list(hypotheses), streams)
    return Bleu(float(result.score), str(metric.get_signature()))


def cider(hypotheses: Sequence[str], references: Sequence[str] | Sequence[Sequence[str]]) -> float:
    """CIDEr-D by pycocoevalcap on words separated by spaces: from 0 to 10.

    The mean over n = 1 … 4 of the cosine between n-gram counts, each n-gram weighted by its inverse
    document frequency over the pictures' references; times 10, times a penalty for another length.
    The weights come from the given references, so only scores on the same set can be compared. An
    n-gram that every reference has counts nothing.

    Args:
        hypotheses: one string per picture, at least 2: for one alone all weights are 0.
        references: one string, or several, per hypothesis.

    Raises:
        ImportError: naming the extra, without pycocoevalcap.

    Source: Vedantam, Zitnick and Parikh 2015.
    """
    several = _check_texts(hypotheses, references)
    if len(hypotheses) < 2:
        raise ValueError(
            "hypotheses must be at least 2, because all weights of CIDEr are 0 for one picture, "
            "got 1"
        )
    answers = {i: [text] for i, text in enumerate(hypotheses)}
    return float(_imported("cider")().compute_score(dict(enumerate(several)), answers)[0])


def check_installed(*metrics: str) -> None:
    """Raise an ImportError, before a training, unless these ("bleu", "cider") are there."""
    for metric in metrics:
        _imported(metric)


def _imported(metric: str) -> type:
    module, name, extras = _CLASSES[metric]
    with extra(extras, metric):
        return getattr(importlib.import_module(module), name)


def _check_texts(hypotheses, references) -> list[list[str]]:
    """The references of each hypothesis as lists of text."""
    _pairs(hypotheses, references, "hypotheses")
    for i, one in enumerate(hypotheses):
        came = f"number {i}: {type(one).__name__}"
        require(isinstance(one, str), f"hypotheses must be detokenised text, got {came}")
    several = [[one] if isinstance(one, str) else list(one) for one in references]
    for i, row in enumerate(several):
        texts = all(isinstance(reference, str) for reference in row)
        require(texts, f"references must be detokenised text, got other values in number {i}")
    require(all(several), "references must be at least 1 per hypothesis, got none for one of them")
    return several


def _pairs(predictions: Sequence, references: Sequence, what: str = "predictions") -> list[tuple]:
    for name, value in ((what, predictions), ("references", references)):
        several = not isinstance(value, str)
        require(several, f"{name} must be a list with one entry per sentence, got one string")
    came, wanted = len(predictions), len(references)
    require(came == wanted, f"{what} must be as many as references, {wanted}, got {came}")
    require(wanted > 0, "references must have at least one sentence, got an empty list")
    return list(zip(predictions, references, strict=True))
