"""Check of the section on translation: from weights between subwords to weights between words."""

import numpy as np

from .registry import exercise
from .trial import array


@exercise("02.merge_subwords", title="From pieces to words", difficulty=3, minutes=20)
def merge_subwords(answer, trial):
    for target_words, source_words in (([0, 0, 1, 2, 2, 2], [0, 1, 1, 2, 3, 3, 3]), ([0, 1, 1, 2], [0, 0, 0, 1, 2, 2])):
        weights = trial.weights(len(target_words), len(source_words))
        w = array(weights)
        rows = np.array(target_words)[None] == np.arange(max(target_words) + 1)[:, None]
        columns = np.array(source_words)[None] == np.arange(max(source_words) + 1)[:, None]
        mean_rows, mean_columns = rows / rows.sum(-1, keepdims=True), columns / columns.sum(-1, keepdims=True)
        got = trial.call(answer, weights, target_words, source_words)
        got = trial.tensor(got, "weights", (len(rows), len(columns)), mention="one row a target word, one column a source word")
        first = [target_words.index(i) for i in range(len(rows))]
        last = [len(target_words) - 1 - target_words[::-1].index(i) for i in range(len(rows))]
        peak = np.array([[w[np.ix_(r, c)].max() for c in columns] for r in rows])
        wrong = {
            "the pieces of a source word are averaged: the weight of a word is the sum over its pieces": mean_rows @ w @ mean_columns.T,
            "the pieces of a target word are added up: its row has to add up to 1, take their mean": rows @ w @ columns.T,
            "sum and mean are swapped: add up over source pieces, average over target pieces": rows @ w @ mean_columns.T,
            "the largest weight of a block is taken: add up over source pieces, average over target pieces": peak,
            "only the first piece of a target word is used": w[first] @ columns.T,
            "only the last piece of a target word is used": w[last] @ columns.T,
        }
        trial.recognize(got, mean_rows @ w @ columns.T, wrong)
        sums = array(got).sum(-1)
        if not np.allclose(sums, 1, atol=1e-4):
            row = int(np.abs(sums - 1).argmax())
            trial.fail(f"the row of target word {row} adds up to {sums[row]:.3g}: the weights of a word over the source add up to 1")
        trial.close(got, mean_rows @ w @ columns.T, "weights")
