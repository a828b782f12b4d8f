"""How well attention weights agree with known alignments."""

from collections.abc import Collection, Iterable, Sequence

import numpy as np

from ...validate import check_choice, require

Link = tuple[int, int]

SYMMETRISATIONS = ("intersection", "union", "grow-diag-final-and")
"""How :func:`symmetrise` makes one alignment of two."""


def _matrix(weights, name: str = "weights") -> np.ndarray:
    """A weight matrix (target positions, source positions) as float64."""
    if hasattr(weights, "detach"):
        weights = weights.detach().cpu().double().numpy()
    matrix = np.asarray(weights, dtype=np.float64)
    require(
        matrix.ndim == 2 and matrix.shape[1] > 0,
        f"{name} must be a matrix (target positions, source positions), got shape {matrix.shape}",
    )
    require(bool(np.isfinite(matrix).all()), f"{name} must be finite, got NaN or infinity")
    return matrix


def links_from_weights(weights) -> set[Link]:
    """For each target position the source position of the largest weight: (source, target).

    Args:
        weights: (m, n); a row of zeros (nothing to attend to) gives no link; the first of equal
            weights counts
    """
    matrix = _matrix(weights)
    return {(int(row.argmax()), target) for target, row in enumerate(matrix) if row.max() > 0}


def symmetrise(
    forward: Collection[Link], backward: Collection[Link], method: str = "grow-diag-final-and"
) -> set[Link]:
    """One alignment of two that were made in opposite directions, both as links (source, target).

    Each direction gives a link to every word of one side alone. "intersection" keeps what both
    say, "union" what one says. "grow-diag-final-and" begins with the intersection; it adds links
    of the union beside a link that is there, horizontally, vertically or diagonally, where one of
    the two words has none yet, until nothing changes; then links of either direction between words
    that both have none.

    Source: Och and Ney 2003; Koehn, Och and Marcu 2003, with the final step and the order of Moses.
    """
    check_choice("method", method, SYMMETRISATIONS)
    both, either = {*forward} & {*backward}, {*forward} | {*backward}
    if method != "grow-diag-final-and":
        return both if method == "intersection" else either
    links, sources, targets = set(both), {i for i, _ in both}, {j for _, j in both}

    def add(link: Link) -> None:
        links.add(link)
        sources.add(link[0])
        targets.add(link[1])

    size = 0
    while size != len(links):
        size = len(links)
        for i, j in sorted(either):
            for a, b in _NEIGHBOURS if (i, j) in links else ():
                new = (i + a, j + b)
                if new in either - links and (new[0] not in sources or new[1] not in targets):
                    add(new)
    for direction in (forward, backward):
        for link in sorted(direction):
            if link[0] not in sources and link[1] not in targets:
                add(link)
    return links


_NEIGHBOURS = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))


def alignment_error_rate(
    predicted: Sequence[Iterable[Link]],
    sure: Sequence[Collection[Link]],
    possible: Sequence[Collection[Link]],
) -> float:
    """Alignment error rate over a corpus: 0 is perfect, 1 is nothing right.

    ``AER = 1 − (|A ∩ S| + |A ∩ P|) / (|A| + |S|)``, each count summed over all sentences.

    Args:
        predicted: one collection A of links (source, target) per sentence
        sure: one collection S per sentence
        possible: one collection P per sentence; the sure links count as possible too

    Source: Och and Ney (2003), where the evaluation of alignments is defined.
    """
    n, came = len(predicted), f"{len(predicted)}, {len(sure)} and {len(possible)}"
    wanted = "predicted, sure and possible must have one entry per sentence"
    require(n == len(sure) == len(possible), f"{wanted}, got {came}")
    right = total = 0
    for a, s, p in zip(map(set, predicted), map(set, sure), map(set, possible)):
        right += len(a & s) + len(a & (p | s))
        total += len(a) + len(s)
    require(total > 0, "predicted and sure hold no link at all, so no error rate is defined")
    return 1 - right / total


def alignment_accuracy(
    weights: Sequence,
    gold: Sequence[Sequence[Collection[int]]],
    content: Sequence[Sequence[bool]] | None = None,
) -> float:
    """The share of target tokens whose largest weight is on a source token that they come from.

    Args:
        weights: one matrix (m, n) per sentence, a row of zeros being on none; rows beyond the gold
            ones (that of EOS) and columns beyond the source (padding) are allowed
        gold: one alignment per sentence, as `Pair.alignment`: for each target token the source
            positions; tokens that come from nothing are not counted
        content: one list of flags per sentence, as `Pair.content`: only tokens marked True are
            counted; None: all
    """
    sizes = [len(each) for each in (weights, gold, content) if each is not None]
    same = len(set(sizes)) == 1
    require(same, f"weights, gold and content must have one entry per sentence, got {sizes}")
    right = counted = 0
    for index, positions in enumerate(gold):
        matrix = _matrix(weights[index], f"weights[{index}]")
        flags = [True] * len(positions) if content is None else content[index]
        require(
            len(matrix) >= len(positions) == len(flags),
            f"sentence {index} has {len(positions)} target tokens, but {len(matrix)} rows of "
            f"weights and {len(flags)} content flags",
        )
        for row, sources, flag in zip(matrix, positions, flags):
            if flag and sources:
                last, n = max(sources), matrix.shape[1]
                require(last < n, f"gold[{index}] names source {last}, weights have {n}")
                counted += 1
                right += bool(row.max() > 0) and int(row.argmax()) in sources
    require(counted > 0, "gold marks no target token to count")
    return right / counted


def word_weights(weights, source_words: Sequence[int], target_words: Sequence[int]) -> np.ndarray:
    """Weights between subwords summed up to weights between words.

    A source word gets the sum of the weights on its pieces; a target word the mean over its pieces;
    so rows that sum to 1 still do.

    Args:
        weights: (m, n), m and n counted in pieces; more rows (EOS) and columns (padding) are cut
            off
        source_words: the word of each source piece, as `Subwords.split_words` gives it
        target_words: the word of each target piece

    Returns:
        (target words, source words); a word without a piece has a row or column of zeros.
    """
    matrix = _matrix(weights)
    sides = {"source_words": source_words, "target_words": target_words}
    for (name, owners), size in zip(sides.items(), reversed(matrix.shape)):
        fits, came = 0 < len(owners) <= size and min(owners) >= 0, list(owners)[:8]
        require(fits, f"{name} must name a word for each of 1..{size} pieces, got {came}")
    source = np.zeros((len(source_words), max(source_words) + 1))
    source[np.arange(len(source_words)), list(source_words)] = 1
    target = np.zeros((max(target_words) + 1, len(target_words)))
    target[list(target_words), np.arange(len(target_words))] = 1
    target /= np.maximum(target.sum(axis=1, keepdims=True), 1)
    return target @ matrix[: len(target_words), : len(source_words)] @ source
