"""Checks of the section on modifications: a gated layer, and a test that makes no assumption."""

from itertools import combinations
from math import erf

import numpy as np

from .registry import exercise
from .slopes import check_slopes
from .trial import array, softmax


def _sigmoid(s):
    return 1 / (1 + np.exp(-s))


def _gelu(s):
    return s * (1 + np.vectorize(erf)(s / np.sqrt(2))) / 2


@exercise("06.swiglu", title="A gate in the feed-forward layer", difficulty=1, minutes=10)
def swiglu(answer, trial):
    batch, n, d, hidden = 2, trial.integers(3, 6), 4, 6
    x, gate, value, output = trial.normal(batch, n, d), trial.normal(d, hidden), trial.normal(d, hidden), trial.normal(hidden, d)
    given = x, gate, value, output
    got = trial.tensor(trial.call(answer, *given), "the result", (batch, n, d), mention="one row a position, as wide as x")
    arrays = [array(t) for t in given]

    def layer(x, g, v, o, through=lambda s: s * _sigmoid(s), join=np.multiply):
        return join(through(x @ g), x @ v) @ o

    x_, g, v, o = arrays
    wrong = {
        "gate and value are exchanged: swish belongs to x gate": layer(x_, v, g, o),
        "this is GLU: its gate goes through a sigmoid, that of SwiGLU through swish(s) = s · sigmoid(s)": layer(*arrays, through=_sigmoid),
        "this is ReGLU: the gate of SwiGLU goes through swish, not relu": layer(*arrays, through=lambda s: np.maximum(s, 0)),
        "this is GeGLU: the gate of SwiGLU goes through swish, not GELU":
            layer(*arrays, through=_gelu),
        "this is LiGLU: the gate of SwiGLU goes through swish before the product": layer(*arrays, through=lambda s: s),
        "the gate goes through tanh, expected swish(s) = s · sigmoid(s)": layer(*arrays, through=np.tanh),
        "the gate goes through a softmax, expected swish(s) = s · sigmoid(s), each number by itself": layer(*arrays, through=softmax),
        "gate and value are added: a gate multiplies": layer(*arrays, join=np.add),
        "there is no gate: x value is to be multiplied by swish(x gate)": layer(*arrays, join=lambda a, b: b * _sigmoid(b)),
        "the value is missing: swish(x gate) is to be multiplied by x value": layer(*arrays, join=lambda a, b: a),
        "swish is taken of the product: it belongs to the gate alone": layer(*arrays, through=lambda s: s, join=lambda a, b: a * b * _sigmoid(a * b)),
        "both go through swish: the value stays as it is": layer(*arrays, join=lambda a, b: a * b * _sigmoid(b)),
    }
    trial.close(got, layer(*arrays), "the result", wrong)
    check_slopes(trial, answer, given, {0: "x", 1: "gate", 2: "value", 3: "output"}, layer)


@exercise("06.chance_of_better", title="Better, or better by chance?", difficulty=3, minutes=20)
def chance_of_better(answer, trial):
    rounded = [[round(float(v), 1) for v in trial.normal(k) + 3] for k in (3, 4)]
    cases = [([3.5, 3.75, 3.25], [3.0, 3.75, 3.375]), ([3.1, 3.2, 3.0], [3.6, 3.5, 3.7]), ([3.6, 3.5, 3.7], [3.1, 3.2, 3.0]), ([3.25, 3.5, 3.0, 3.125], [3.375, 3.25, 3.75]),
             ([2.0, 2.0], [2.0, 2.0, 2.0]), tuple(rounded), (rounded[1], rounded[0][:2]), ([3.0], [3.5, 3.25, 3.75, 4.0])]
    for changed, plain in cases:
        got = trial.number(trial.call(answer, list(changed), list(plain)), f"the chance for {changed} and {plain}")
        right = _chance(changed, plain)
        trial.close(got, right, f"the chance for {changed} and {plain}", {
            "the split that was really found is not counted: it is one of all": _chance(changed, plain, own=False),
            "splits with the same difference are not counted: at least as good, not better": _chance(changed, plain, ties=False),
            "this is the chance of being worse: a loss is better when it is lower": _chance(plain, changed),
            "this counts splits whose difference is as large in either direction: only those in favour of the first list":
                _chance(changed, plain, either=True),
            "this is the difference of the means, expected a share of all splits": float(np.mean(changed) - np.mean(plain)),
            "this is how many splits there are, expected their share among all": _chance(changed, plain) * _number(changed, plain),
            "this is 1 minus the chance": 1 - right,
            "the chosen values are compared with the mean of all: compare them with the mean of the rest": _chance(changed, plain, rest="all"),
            "a value that equals a chosen one is missing from the rest: choose places, not values": _chance(changed, plain, rest="unequal"),
            "this is the share of pairs, one of each list, in which the first is lower: expected splits of all values":
                float(np.mean([a < b for a in changed for b in plain])),
        })


def _number(changed, plain):
    return len(list(combinations(range(len(changed) + len(plain)), len(changed))))


def _chance(changed, plain, own=True, ties=True, either=False, rest="others"):
    values = np.array([*changed, *plain], dtype=float)
    first = len(changed)

    def difference(chosen):
        one = values[list(chosen)]
        others = {"others": np.delete(values, list(chosen)), "all": values, "unequal": values[~np.isin(values, one)]}[rest]
        return one.mean() - (others.mean() if others.size else 0.0)

    found = np.mean(changed) - np.mean(plain)
    count, splits = 0, list(combinations(range(len(values)), first))
    for chosen in splits:
        if not own and chosen == tuple(range(first)):
            continue
        d = difference(chosen)
        equal = abs(d - found) < 1e-9
        if either:
            count += abs(d) > abs(found) - 1e-9
        else:
            count += (d < found and not equal) or (equal and ties)
    return count / len(splits)
