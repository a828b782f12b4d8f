"""Checks of the section on decoding: the greedy loop, a score for hypotheses, one step of a
beam.
"""

import numpy as np
import torch
from torch import Tensor

from ..context import a, array
from ..registry import exercise
from ..slips import Slips, on_paper


def _scripted_model(ctx, bos, script, size):
    """A `step` that says `script` when it is fed its own words and its own state, and something
    else otherwise.

    The state is the list of tokens read so far. `calls` collects (token, how many were read
    before)."""
    calls = []
    noise = ctx.normal(len(script) + 12, size)

    def step(token, state):
        if type(token) is Tensor or type(token) in (np.int64, np.int32):
            token = int(token)
        if type(token) is not int or not isinstance(state, tuple):
            given = f"{a(token)} and {a(state)}"
            ctx.fail(
                f"step(token, state) got {given}: expected a token id and the state of the step "
                f"before"
            )
        if len(calls) == len(noise):
            ctx.fail(
                f"step was called {len(calls)} times and more: stop at eos, or after max_length "
                f"tokens"
            )
        calls.append((token, len(state)))
        read = (*state, token)
        logits = noise[len(calls) - 1].clone()
        place = len(read) - 1
        if place < len(script) and token == (bos, *script)[place]:
            logits[script[place]] = logits.max() + 1e-3
        return torch.log_softmax(logits, dim=-1), read

    return step, calls


@exercise("01.greedy", title="Greedy decoding", difficulty=2, minutes=8)
def greedy(answer, ctx):
    size = ctx.sizes(vocabulary=(4, 12, 300))  # bos, eos, and two words
    bos, eos, *others = ctx.order(size)
    length = ctx.sizes(length=(0, 6))  # before eos
    words = [others[i] for i in ctx.integers(0, len(others), length).tolist()] if length else []
    words[1:2] = [bos][: length - 1]  # a decoder may say it, as any token
    step, calls = _scripted_model(ctx, bos, [*words, eos], size)
    limit = length + ctx.integers(1, 6)
    got = ctx.ids(ctx.call(answer, step, (), bos, eos, limit), "the result")
    if calls and calls[0][0] != bos:
        ctx.fail(f"the first token that the decoder reads is {calls[0][0]}, expected bos")
    if len(calls) > 1 and all(read == 0 for _, read in calls):
        ctx.fail("every step starts from the first state: pass on the state that step returns")
    if len(calls) > 1 and all(token == bos for token, _ in calls):
        ctx.fail(
            "the decoder reads bos at every step: it must read the token that it has just said"
        )
    if got[-1:] == [eos] and got[:-1] == words:
        ctx.fail("eos is in the result: it ends the sequence and is not part of it")
    if got == [bos, *words]:
        ctx.fail("bos is in the result: it starts the decoder and is not part of the sequence")
    if got[:length] == words and len(calls) > length + 1:
        ctx.fail(
            f"the loop goes on after eos: step was called {len(calls)} times, {length + 1} "
            f"are enough"
        )
    if got != words:
        ctx.fail(f"the result is {got}, expected {words}: the most likely token of each step")
    limit = ctx.sizes(max_length=(0, 8))
    words = [others[i] for i in ctx.integers(0, len(others), limit + 4).tolist()]
    step, calls = _scripted_model(ctx, bos, words, size)
    got = ctx.ids(ctx.call(answer, step, (), bos, eos, limit), "the result")
    if len(got) != limit:
        ctx.fail(f"without an eos the result has {len(got)} tokens, expected max_length = {limit}")
    if got != words[:limit]:
        ctx.fail(
            f"the result is {got}, expected {words[:limit]}: the most likely token of each step"
        )
    if len(calls) > limit:
        ctx.fail(f"step was called {len(calls)} times: after max_length = {limit} tokens stop")


@exercise("01.sampling", title="Predict: answers drawn at random", difficulty=1, minutes=3)
def sampling(answer, ctx):
    return ctx.predicted(answer, "more", "about as many", "clearly fewer")


def _wu(log_p, lengths, weights, alpha, beta):
    real = np.arange(weights.shape[1]) < lengths[:, None]
    seen = np.where(real[..., None], weights, 0).sum(1)
    coverage = np.log(np.minimum(seen, 1.0)).sum(-1)
    penalty = (5 + lengths) ** alpha / (5 + 1) ** alpha
    return log_p / penalty + beta * coverage


_WU = Slips(
    _wu,
    {
        "the padded steps are in the sums over the target": (
            "np.where(real[..., None], weights, 0) → weights"
        ),
        "the sum inside the logarithm runs over the source, where the weights of a step add up to "
        "1 anyway: expected over the target words": (
            "sum(1) → sum(2)",
            "np.log(np.minimum(seen, 1.0)).sum(-1) → (np.log(np.maximum(np.minimum(seen, 1.0), "
            "1e-30)) * real).sum(-1)",
        ),
        "the sum over the steps is not cut off at 1: a source word that is seen twice makes up "
        "for none that was left "
        "out": "np.minimum(seen, 1.0) → seen",
        "the maximum is taken: expected the smaller of the sum and 1": "np.minimum → np.maximum",
        "the logarithm is missing": "np.log(np.minimum(seen, 1.0)) → np.minimum(seen, 1.0)",
        "cp is a mean over the source words: expected their sum": "sum(-1) → mean(-1)",
        "cp is subtracted: it is negative where a word was left out, and is added": (
            "+ beta * → - beta *"
        ),
        "cp is divided by lp as well": (
            "log_p / penalty + beta * coverage → (log_p + beta * coverage) / penalty"
        ),
        "beta is missing": "beta * coverage → coverage",
        "log p is multiplied by lp": "log_p / penalty → log_p * penalty",
        "the denominator of lp is missing": "/ (5 + 1) ** alpha →",
        "lp is the length to the power of alpha: the paper adds 5 to it": (
            "(5 + lengths) ** alpha / (5 + 1) ** alpha → lengths**alpha"
        ),
        "the 5 + 1 of lp is not taken to the power of alpha": "(5 + 1) ** alpha → (5 + 1)",
        "lp takes the padded length of all hypotheses": "5 + lengths → 5 + weights.shape[1]",
        "the logarithm has base 2: it is the natural one": "np.log( → np.log2(",
    },
)


@exercise(
    "01.parts_left_out",
    title="From the formula: parts that were left out",
    difficulty=2,
    minutes=10,
)
def parts_left_out(answer, ctx):
    K, m, n = ctx.sizes(K=(1, 5), m=(1, 8), n=(1, 6))
    weights, lengths = ctx.weights(K, m, n), ctx.lengths(K, m)
    log_p = -0.5 * lengths - ctx.normal(K).abs()
    for alpha, beta in ((0.7, 0.4), (0.0, 0.2), (1.3, 0.0)):
        got = ctx.call(answer, log_p, lengths, weights, alpha, beta)
        got = ctx.floats(got, "the scores", (K,), mention="one score a hypothesis")
        right, wrong = _WU(array(log_p), array(lengths), array(weights), alpha, beta)
        ctx.close(got, right, f"for alpha {alpha} and beta {beta} the scores", wrong)


@on_paper(
    "01.beam_by_hand",
    "the probability",
    title="a beam of two",
    difficulty=1,
    minutes=4,
    within=0.002,
    otherwise="continue both beginnings that are left",
)
def beam_by_hand():
    return 0.21, {
        "that is what greedy search returns": 0.16,
        "that answer begins with c, which a beam of 2 has dropped after the first step": 0.25,
        "that is the last step alone: an answer's probability is the product of its steps": 0.6,
        "that is 0.35 · 0.4: the better continuation of b is d": 0.14,
        "the probabilities of an answer's steps multiply": 0.95,
        "that is percent: give a number between 0 and 1": 21.0,
    }


def _scores(so_far, following, k):
    return np.sort(so_far[:, None] + following, axis=None)[::-1][:k]


_SCORES = Slips(
    _scores,
    {
        "the scores so far are not added: "
        "a hypothesis is worth its whole log p": "so_far[:, None] → 0 * so_far[:, None]",
        "log p is multiplied: "
        "probabilities multiply, so their logarithms add up": "+ following → * following",
        "the scores are sorted from worst to best: expected the best first": "[:k] → [:k][::-1]",
        "these are the worst continuations: log p is negative, the largest is best": "[::-1] →",
        "probabilities are mixed with log-probabilities: "
        "add two logarithms": "+ following → + np.exp(following)",
    },
)


def _parents(order, size, beam):
    return order // size


_PARENTS = Slips(
    _parents,
    {
        "parents holds the tokens: index // V is the hypothesis, index % V the token": "// → %",
        "parents holds indices into all K·V continuations: divide by V": "// size →",
        "parents is index // K: "
        "every hypothesis has V continuations, so its number is index // V": "size → beam",
        "parents is index % K: the flattened index runs over the vocabulary first, so it is index "
        "// V": "// size → % beam",
    },
)


def _tokens(order, size, beam):
    return order % size


_TOKENS = Slips(
    _tokens,
    {
        "tokens holds indices into all K·V continuations: take the remainder by V": "% size →",
        "tokens is index % K: "
        "every hypothesis has V continuations, so the token is index % V": "size → beam",
        "tokens is index // K: the flattened index runs over the vocabulary first, so it is index "
        "% V": "% size → // beam",
    },
)


@exercise("01.beam_step", title="One step of a beam", difficulty=4, minutes=12)
def beam_step(answer, ctx):
    names = ("scores", "parents", "tokens")
    for shift in (0, ctx.integers(200, 400)):  # after many steps exp(so_far) is 0
        beam, size, k = ctx.sizes(beam=(1, 4), vocabulary=(1, 9, 300), beam_size=(1, 12))
        k = min(k, beam * size if shift else beam)

        def sample():
            so_far = -3 * ctx.normal(beam).abs() - 0.5
            following = torch.log_softmax(2 * ctx.normal(beam, size), dim=-1)
            parts = 2 ** (30 if ctx.case else 8)  # a sum has all of its digits, in float64 more
            return [(parts * part).round() / parts for part in (so_far - shift, following)]

        def telling(drawn):  # exact sums, no two alike; a parent has several of the best
            total = drawn[0][:, None] + drawn[1]
            best = total.flatten().topk(min(k + 1, beam * size))
            parents = best.indices[:k] // size
            shared = 0 < parents.max() and len(parents.unique()) < min(beam, k)
            apart = len(best.values.unique()) == len(best.values)
            return apart and (shared or min(beam, size, k) == 1)

        so_far, following = ctx.draw(sample, telling, 100)
        total = array(so_far)[:, None] + array(following)
        order = np.argsort(-total, axis=None)[:k]
        got = ctx.parts(ctx.call(answer, so_far, following, k), names)
        scores = ctx.floats(
            got[0], "scores", (k,), mention="the beam_size best of all continuations together"
        )
        parents = ctx.tensor(got[1], "parents", (k,), dtype=torch.long)
        tokens = ctx.tensor(got[2], "tokens", (k,), dtype=torch.long)
        right, wrong = _SCORES(array(so_far), array(following), k)
        ctx.recognize(scores, right, wrong)
        if beam >= k:
            each = np.sort(total.max(-1))[-k:]
            ctx.recognize(
                np.sort(array(scores)),
                np.sort(right),
                {
                    "every hypothesis keeps its own best continuation: the best of all of them "
                    "together may share a parent": each
                },
            )
        ctx.close(scores, right, "scores")
        right, wrong = _PARENTS(order, size, beam)
        ctx.close(parents, right, "parents", wrong)
        right, wrong = _TOKENS(order, size, beam)
        ctx.close(tokens, right, "tokens", wrong)
    ctx.without_loop(answer, ctx.normal(600), ctx.normal(600, 3), 4, over="hypotheses")
