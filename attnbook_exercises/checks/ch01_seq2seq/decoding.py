"""Checks of the section on decoding: the greedy loop, one step of a beam, the choice among
hypotheses.
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
            logits[script[place]] = logits.max() + 1.0
        return torch.log_softmax(logits, dim=-1), read

    return step, calls


ALPHAS = (1.0, 0.8, 0.5)


def _picks(log_p, length):
    """Where the best score is for each of the exponents."""
    return np.stack([log_p / length**alpha for alpha in ALPHAS]).argmax(-1)


_PICKS = Slips(
    _picks,
    {
        "log p is divided by the length, or by alpha times the length: "
        "alpha is an exponent, expected length ** alpha": "length**alpha → length",
        "log p is not normalized: "
        "every further token lowers it, so long hypotheses never win": "/ length**alpha →",
        "log p is multiplied: it is negative, so that punishes length twice": "/ length → * length",
        "the worst hypothesis is picked: "
        "log p is negative, the largest is nearest to 0": "argmax → argmin",
        "EOS is left out of the length: it counts": "length**alpha → (length - 1) ** alpha",
        "log p is divided by ((5 + m) / 6) ** alpha: "
        "expected m ** alpha": "length**alpha → ((5 + length) / 6) ** alpha",
    },
)


def _hypotheses(ctx, count):
    """Pairs (tokens, log p) of which each mistake picks others."""

    def sample():
        length = 2.0 + np.array(ctx.order(2 * count)[:count])
        near = 0.7 * np.log(length) + 0.35 * (np.log(length) - 1.8) ** 2  # each may be the best
        return -np.exp(near + 0.04 * array(ctx.normal(count))), length

    def differ(drawn):
        right, wrong = _PICKS(*drawn)
        nearly = [np.sort(drawn[0] / drawn[1] ** alpha)[:-3:-1] for alpha in ALPHAS]
        return len(np.unique([right, *wrong.values()], axis=0)) == 1 + len(wrong) and all(
            first - second > 1e-3 for first, second in nearly
        )

    log_p, length = ctx.draw(sample, differ, 500 if count > 1 else 1)
    tokens = [[*ctx.integers(3, 99, int(m) - 1).tolist(), 2] for m in length]
    return list(zip(tokens, log_p.tolist()))


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


@exercise("01.sampling", title="Predict: answers drawn at random", difficulty=1, minutes=3)
def sampling(answer, ctx):
    return ctx.predicted(answer, "more", "about as many", "clearly fewer")


@exercise("01.best_hypothesis", title="Long and short hypotheses", difficulty=1, minutes=3)
def best_hypothesis(answer, ctx):
    hypotheses = _hypotheses(ctx, ctx.sizes(hypotheses=(1, 9)))
    length = np.array([len(tokens) for tokens, _ in hypotheses], dtype=float)
    log_p = np.array([log_p for _, log_p in hypotheses])

    def pick(alpha):
        got = ctx.call(answer, hypotheses, alpha)
        if type(got) in (tuple, list) and len(got) == 2 and type(got[0]) is list:
            ctx.fail("the whole pair (tokens, log p) came back: return the tokens alone")
        got = ctx.ids(got, "the result")
        found = [i for i, (tokens, _) in enumerate(hypotheses) if tokens == got]
        if not found:
            ctx.fail(f"{got} is none of the hypotheses: expected the tokens of the best one")
        return found[0]

    right, wrong = _PICKS(log_p, length)
    picked = np.array([pick(alpha) for alpha in ALPHAS])
    ctx.recognize(picked, right, wrong)
    if (picked == right).all():
        if pick(0.0) != log_p.argmax():
            ctx.fail("at alpha = 0 not the hypothesis with the largest log p is picked")
        return
    alpha, got, best = next(case for case in zip(ALPHAS, picked, right) if case[1] != case[2])
    scores = log_p / length**alpha
    ctx.fail(
        f"at alpha = {alpha:g} the hypothesis of length {length[got]:g} (score {scores[got]:.3g}) "
        f"is picked, expected that of length {length[best]:g} (score {scores[best]:.3g})"
    )


@exercise("01.greedy", title="Greedy decoding", difficulty=2, minutes=8)
def greedy(answer, ctx):
    size = 12
    bos, eos, *others = ctx.order(size)
    length = ctx.sizes(length=(0, 6))  # before eos
    words = [others[i] for i in ctx.integers(0, len(others), length).tolist()] if length else []
    step, calls = _scripted_model(ctx, bos, [*words, eos], size)
    limit = length + ctx.integers(2, 6)
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
    if len(calls) > len(words) + 1:
        ctx.fail(
            f"the loop goes on after eos: step was called {len(calls)} times, {len(words) + 1} "
            f"are enough"
        )
    if got != words:
        ctx.fail(f"the result is {got}, expected {words}: the most likely token of each step")
    limit = ctx.sizes(max_length=(1, 8))
    words = [others[i] for i in ctx.integers(0, len(others), 12).tolist()]
    step, calls = _scripted_model(ctx, bos, words, size)
    got = ctx.ids(ctx.call(answer, step, (), bos, eos, limit), "the result")
    if len(got) != limit:
        ctx.fail(f"without an eos the result has {len(got)} tokens, expected max_length = {limit}")
    if got != words[:limit]:
        ctx.fail(
            f"the result is {got}, expected {words[:limit]}: the most likely token of each step"
        )


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
        beam, size, k = ctx.sizes(beam=(1, 4), vocabulary=(1, 9), beam_size=(1, 4))
        k = min(k, beam * size)

        def sample():
            so_far = -3 * torch.rand(beam, generator=ctx.generator) - 0.5
            following = torch.log_softmax(2 * ctx.normal(beam, size), dim=-1)
            return [(256 * part).round() / 256 for part in (so_far - shift, following)]

        def telling(drawn):  # exact sums, no two alike; a parent has several of the best
            total = drawn[0][:, None] + drawn[1]
            parents = total.flatten().topk(k).indices // size
            shared = 0 < parents.max() and len(parents.unique()) < min(beam, k)
            return (shared or min(beam, size, k) == 1) and len(total.unique()) == beam * size

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
        if beam == k:
            each = total.max(-1)
            ctx.recognize(
                np.sort(array(scores)),
                np.sort(right),
                {
                    "every hypothesis keeps its own best continuation: the best of all of them "
                    "together may share a parent": np.sort(each)
                },
            )
        ctx.close(scores, right, "scores")
        right, wrong = _PARENTS(order, size, beam)
        ctx.close(parents, right, "parents", wrong)
        right, wrong = _TOKENS(order, size, beam)
        ctx.close(tokens, right, "tokens", wrong)
