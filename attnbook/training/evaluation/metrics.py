"""How good decoded sequences are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Bleu(NamedTuple):
    """Corpus BLEU in percent, and sacrebleu's signature of how it was computed."""

    score: float
    signature: str


def exact_match(predictions: Sequence[Sequence], references: Sequence[Sequence]) -> float:
    """The share of predictions equal to their reference, token by token: a number in [0, 1].

    Raises ValueError when the two lists are empty or differ in length.
    """
    _check_pairs(predictions, references)
    return sum(list(p) == list(r) for p, r in zip(predictions, references, strict=True)) / len(
        references
    )


def token_accuracy(predictions: Sequence[Sequence], references: Sequence[Sequence]) -> float:
    """Σ_i |{t : p_it = r_it}| / Σ_i max(|p_i|, |r_i|): equal tokens at equal places, in [0, 1].

    The longer of the two counts below the line, so tokens too many cost as much as tokens missing.
    Raises ValueError when the lists are empty, differ in length, or hold no token at all.
    """
    _check_pairs(predictions, references)
    pairs = list(zip(predictions, references, strict=True))
    equal = sum(a == b for p, r in pairs for a, b in zip(p, r, strict=False))
    tokens = sum(max(len(p), len(r)) for p, r in pairs)
    if tokens == 0:
        raise ValueError("references: got only empty sequences, expected at least one token")
    return equal / tokens


def edit_distance(prediction: Sequence, reference: Sequence) -> int:
    """The least number of insertions, deletions and substitutions that turn one into the other
    (Levenshtein 1966).
    """
    row = list(range(len(reference) + 1))
    for i, a in enumerate(prediction, start=1):
        diagonal, row[0] = row[0], i
        for j, b in enumerate(reference, start=1):
            diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, diagonal + (a != b))
    return row[-1]


def token_error_rate(predictions: Sequence[Sequence], references: Sequence[Sequence]) -> float:
    """Σ_i edit_distance(p_i, r_i) / Σ_i |r_i|: 0 is perfect, above 1 is possible.

    Raises ValueError when the lists are empty, differ in length, or the references hold no token.
    """
    _check_pairs(predictions, references)
    tokens = sum(len(reference) for reference in references)
    if tokens == 0:
        raise ValueError("references: got only empty sequences, expected at least one token")
    return sum(edit_distance(p, r) for p, r in zip(predictions, references, strict=True)) / tokens


def bleu(
    hypotheses: Sequence[str], references: Sequence[str] | Sequence[Sequence[str]], **options
) -> Bleu:
    """Corpus BLEU by sacrebleu on detokenised text.

    `references` holds one string, or several, for each hypothesis. `options` go to
    `sacrebleu.metrics.BLEU` (lowercase, tokenize, …) and show in the signature, without which two
    scores cannot be compared. Raises ValueError for token lists, empty or unequal lists;
    ImportError, naming the extra, without sacrebleu. Source: Papineni et al. 2002; Post 2018."""
    several = _check_texts(hypotheses, references)
    counts = {len(row) for row in several}
    if len(counts) != 1:
        raise ValueError(
            f"references: got {sorted(counts)} for a hypothesis, expected the same number, at "
            f"least 1, for all"
        )
    try:
        from sacrebleu.metrics import BLEU
    except ImportError as error:
        raise ImportError("bleu needs sacrebleu: pip install 'attnbook[translate]'") from error
    metric = BLEU(**options)
    result = metric.corpus_score(
        list(hypotheses), [list(stream) for stream in zip(*several, strict=True)]
    )
    return Bleu(float(result.score), str(metric.get_signature()))


def cider(hypotheses: Sequence[str], references: Sequence[str] | Sequence[Sequence[str]]) -> float:
    """CIDEr-D by pycocoevalcap on text of words between spaces: 10 is the best for captions that
    differ, 0 the least.

    The mean over n = 1 … 4 of the cosine between n-gram counts, each n-gram weighted by the
    logarithm of how few of the pictures have it in a reference; times 10, times a penalty for
    another length. The weights come from the references given here, so only scores on the same set
    can be compared. An n-gram that every reference has counts nothing.

    `references` holds one string, or several, for each hypothesis.
    Raises ValueError for token lists, empty or unequal lists, and fewer than 2 pictures, where all
    weights are 0; ImportError, naming the extra, without pycocoevalcap. Source: Vedantam, Zitnick
    and Parikh 2015."""
    several = _check_texts(hypotheses, references)
    if len(hypotheses) < 2:
        raise ValueError(
            "hypotheses: got 1, expected at least 2: with one picture all weights of CIDEr are 0"
        )
    try:
        from pycocoevalcap.cider.cider import Cider
    except ImportError as error:
        raise ImportError("cider needs pycocoevalcap: pip install 'attnbook[captions]'") from error
    score, _ = Cider().compute_score(
        dict(enumerate(several)), {i: [text] for i, text in enumerate(hypotheses)}
    )
    return float(score)


def _check_texts(hypotheses, references) -> list[list[str]]:
    """The references of each hypothesis as lists of text."""
    _check_pairs(hypotheses, references, "hypotheses")
    for i, hypothesis in enumerate(hypotheses):
        if not isinstance(hypothesis, str):
            raise ValueError(
                f"hypotheses: number {i} is {type(hypothesis).__name__}, expected detokenised text"
            )
    several = [
        [reference] if isinstance(reference, str) else list(reference) for reference in references
    ]
    for i, row in enumerate(several):
        if not all(isinstance(reference, str) for reference in row):
            raise ValueError(
                f"references: those of number {i} are not all text, expected detokenised strings"
            )
    if not all(several):
        raise ValueError("references: got none for some hypothesis, expected at least 1 for each")
    return several


def _check_pairs(predictions: Sequence, references: Sequence, said: str = "predictions") -> None:
    for name, value in ((said, predictions), ("references", references)):
        if isinstance(value, str):
            raise ValueError(
                f"{name}: got one string, expected a list with one entry for each sentence"
            )
    if len(predictions) != len(references):
        raise ValueError(
            f"{said}: got {len(predictions)}, expected {len(references)}, as many as references"
        )
    if len(references) == 0:
        raise ValueError("references: got an empty list, expected at least one sentence")
