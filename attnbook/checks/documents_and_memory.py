"""Checks of the section on documents and memory: a learned query, position encoding, hops through a memory."""

import numpy as np
import torch

from .registry import exercise
from .trial import array, softmax


@exercise("03.learned_query", title="Pool with a learned query", difficulty=2, minutes=15)
def learned_query(answer, trial):
    batch, n, d, d_a = 3, trial.integers(5, 8), 4, 3
    annotations = trial.normal(batch, n, d)
    w, b, u = trial.normal(d_a, d), trial.normal(d_a), 2 * trial.normal(d_a)
    lengths = torch.tensor([n - 1, 2, 0])
    got = trial.call(answer, annotations, w, b, u, lengths)
    got_pooled, got = trial.parts(got, ("pooled", "weights"))
    if [tuple(getattr(part, "shape", ())) for part in (got_pooled, got)] == [(batch, n), (batch, d)]:
        trial.fail("your function returns (weights, pooled): expected (pooled, weights)")
    empty = "the last sequence has no real position: its weights and its vector are zeros"
    got = trial.tensor(got, "weights", (batch, n), nan=empty)
    got_pooled = trial.tensor(got_pooled, "pooled", (batch, d), nan=empty)
    h, w, b, u = (array(t) for t in (annotations, w, b, u))
    real = np.arange(n)[None] < np.array(lengths.tolist())[:, None]
    inside = h @ w.T + b
    scores = np.tanh(inside) @ u

    def weigh(e, axis=-1):
        return softmax(np.where(real, e, -np.inf), axis)

    expected = weigh(scores)
    filled = array(got)[:2]
    known = {
        "the lengths are not used: the padding gets weight": softmax(scores),
        "the weights of the padding are set to 0 after the softmax: those of the words no longer add up to 1": softmax(scores) * real,
        "masked scores become 0, and exp(0) is 1: the padding still gets weight": softmax(scores * real),
        "the softmax runs over the sequences of the batch (dim=0): expected over the positions": weigh(scores, 0),
        "the tanh is missing: the keys are tanh(W h + b)": weigh(inside @ u),
        "the bias b is not used": weigh(np.tanh(h @ w.T) @ u),
        "the query u is not used: the parts of the key are added up": weigh(np.tanh(inside).sum(-1)),
        "these are equal weights: the query u asks each key": real / np.maximum(real.sum(-1, keepdims=True), 1),
        "the scores are divided by the root of their width: this model does not scale": weigh(scores / d_a**0.5),
        "tanh stands around the whole score: it belongs to the keys": weigh(np.tanh(inside @ u)),
    }
    trial.recognize(filled, expected[:2], {message: other[:2] for message, other in known.items()})
    if trial.same(filled, expected[:2]) and (array(got)[2] != 0).any():
        trial.fail(f"{empty}. Yours has weights that add up to {array(got)[2].sum():.2g}")
    padding = np.where(real, 0.0, array(got))
    if padding.any():
        trial.fail(f"a padding position gets weight {padding.max():.2g}: expected exactly 0")
    trial.close(got, expected, "weights")
    pooled = np.einsum("bn,bnd->bd", expected, h)
    trial.close(got_pooled, pooled, "pooled", {
        "the vector is made with weights that do not know the padding": np.einsum("bn,bnd->bd", softmax(scores), h),
        "the vector is a mean of the annotations: weigh them": h.mean(1),
        "the vector is the mean of the weighted annotations: the weights add up to 1, add them up": pooled / n,
    })


def _scales(count, words, d, start=1):
    """l_kj of a sentence of ``count`` words in ``words`` places, with j and k counted from ``start``."""
    j, k = np.arange(start, words + start)[:, None], np.arange(start, d + start)[None]
    scale = (1 - j / count) - (k / d) * (1 - 2 * j / count)
    return np.where(np.arange(words)[:, None] < count, scale, 0.0)


@exercise("03.position_encoding", title="Words that know their place", difficulty=3, minutes=20)
def position_encoding(answer, trial):
    batch, words, d = 3, trial.integers(5, 8), 6
    embedded = trial.normal(batch, words, d)
    ends = [words - 1, 3, 1]
    got = trial.tensor(trial.call(answer, embedded, torch.tensor(ends)), "the sentence vectors", (batch, d),
                       mention="one vector a sentence")
    x = array(embedded)
    real = np.arange(words)[None] < np.array(ends)[:, None]

    def vectors(scales):
        return np.stack([(scale * row).sum(0) for scale, row in zip(scales, x)])

    expected = vectors([_scales(count, words, d) for count in ends])
    j, k = np.arange(1, words + 1)[:, None], np.arange(1, d + 1)[None]

    def scaled(scale, count):
        return np.where(np.arange(words)[:, None] < count, scale, 0.0)

    wrong = {
        "the words are added up as they are: multiply word j with l_j first": vectors([real[b][:, None] * 1.0 for b in range(batch)]),
        "the words are counted from 0: j and k start at 1": vectors([_scales(count, words, d, 0) for count in ends]),
        "the words j are counted from 0: j starts at 1": vectors(
            [scaled((1 - (j - 1) / c) - (k / d) * (1 - 2 * (j - 1) / c), c) for c in ends]),
        "the components k are counted from 0: k starts at 1": vectors(
            [scaled((1 - j / c) - ((k - 1) / d) * (1 - 2 * j / c), c) for c in ends]),
        "J is the padded length: it is the number of real words of each sentence": vectors(
            [scaled((1 - j / words) - (k / d) * (1 - 2 * j / words), c) for c in ends]),
        "the padding is added as well: leave out the words behind the end of the sentence": vectors(
            [(1 - j / c) - (k / d) * (1 - 2 * j / c) for c in ends]),
        "J is the padded length, and the padding is added as well": vectors(
            [(1 - j / words) - (k / d) * (1 - 2 * j / words) for _ in ends]),
        "the two terms are added: l_kj is their difference": vectors(
            [scaled((1 - j / c) + (k / d) * (1 - 2 * j / c), c) for c in ends]),
        "k/d is missing: each component has a slope of its own": vectors([scaled((1 - j / c) - (1 - 2 * j / c), c) for c in ends]),
        "this is the mean of the words: the sum was asked for": np.stack([e / c for e, c in zip(expected, ends)]),
    }
    trial.close(got, expected, "the sentence vectors", wrong)


@exercise("03.memory_hops", title="Hop by hop", difficulty=3, minutes=20)
def memory_hops(answer, trial):
    batch, n, d, hops = 3, trial.integers(4, 7), 4, 3
    question = trial.normal(batch, d)
    memories = [trial.normal(batch, n, d) for _ in range(hops + 1)]
    lengths = torch.tensor([n, 2, n - 1])
    result = trial.call(answer, question, memories, lengths)
    got, got_weights = trial.parts(result, ("u", "weights"))
    got = trial.tensor(got, "u", (batch, d))
    got_weights = trial.tensor(got_weights, "weights", (batch, hops, n), mention="one row of weights a hop")
    q, ms = array(question), [array(m) for m in memories]
    real = np.arange(n)[None] < np.array(lengths.tolist())[:, None]

    def run(key=lambda k: k, value=lambda k: k + 1, forget=False, freeze=False, masked=True, axis=-1, scale=1.0, soft=True):
        u, rows = q, []
        for k in range(hops):
            e = scale * np.einsum("bd,bnd->bn", q if freeze else u, ms[key(k)])
            p = softmax(np.where(real, e, -np.inf) if masked else e, axis) if soft else e * real
            o = np.einsum("bn,bnd->bd", p, ms[value(k)])
            u = o if forget else u + o
            rows.append(p)
        return u, np.stack(rows, 1)

    expected, weights = run()
    cases = {
        "u is forgotten: the next question is u + o, not o": run(forget=True),
        "every hop asks the first question: ask with u of the hop before": run(freeze=True),
        "the padding gets weight: the lengths are not used": run(masked=False),
        "the values of a hop are its keys: memory k is read by its neighbour, memory k + 1": run(value=lambda k: k),
        "every hop reads the first two memories: hop k has the keys k and the values k + 1": run(lambda k: 0, lambda k: 1),
        "keys and values are swapped: hop k compares with memory k and adds up memory k + 1": run(lambda k: k + 1, lambda k: k),
        "every hop compares with the first memory: the keys of hop k are memory k": run(lambda k: 0),
        "the softmax runs over the stories of the batch (dim=0): expected over the sentences": run(axis=0),
        "the scores are divided by √d: the memory network does not scale": run(scale=d**-0.5),
        "the softmax is missing: scores are no weights": run(soft=False),
    }
    trial.recognize(got_weights, weights, {message: case[1] for message, case in cases.items()})
    padding = np.where(real[:, None], 0.0, array(got_weights))
    if padding.any():
        trial.fail(f"a padded sentence gets weight {padding.max():.2g}: expected exactly 0")
    trial.close(got_weights, weights, "weights")
    outputs = {message: case[0] for message, case in cases.items()}
    last = np.einsum("bn,bnd->bd", weights[:, -1], ms[-1])
    outputs["this is o of the last hop: u + o was asked for"] = last
    outputs["this is u before the last hop: add what the last hop found"] = expected - last
    trial.close(got, expected, "u", outputs)
