"""Checks of the section on decoding: the greedy loop, one step of a beam, the choice among
hypotheses.
"""

import numpy as np
import torch

from ...answers.guarded import StudentError
from ..context import a, array
from ..registry import exercise


def _scripted_model(ctx, script, size):
    """A `step` that says `script` when it is fed its own words and its own state, and something
    else otherwise.

    The state is the list of tokens read so far. `calls` collects (token, how many were read
    before)."""
    calls = []
    noise = ctx.normal(len(script) + 12, size)

    def step(token, state):
        if type(token) is torch.Tensor or type(token) in (np.int64, np.int32):
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
        logits[script[place] if place < len(script) else 5] += 12.0
        return torch.log_softmax(logits, dim=-1), read

    return step, calls


def _multiplies_by_alpha(answer, ctx, hypotheses):
    """Whether log p is divided by alpha · length: a negative alpha then turns the order of log p
    / length round.
    """
    try:
        got = ctx.call(answer, hypotheses, -1.0)
    except StudentError:
        return False
    return type(got) is list and got == min(hypotheses, key=lambda pair: pair[1] / len(pair[0]))[0]


ALPHAS = (1.0, 0.8, 0.5, 0.0)


def _best(scores):
    """Where the largest score is; None where the next one is too near to tell."""
    first, second = np.sort(scores)[:-3:-1]
    return int(scores.argmax()) if first - second > 5e-3 else None


def _telling_hypotheses(ctx):
    """Hypotheses of which each mistake picks another one, and so do the right choices at the first
    three alphas.
    """
    for _ in range(5000):
        length = np.array([2, 3, 4, 6, 12, 5]) + ctx.integers(0, 3, 6).numpy()
        a_token = np.array([1.5, 0.83, 1.7, 0.667, 0.625, 1.1]) * (
            0.9 + 0.2 * torch.rand(6, generator=ctx.generator).double().numpy()
        )
        log_p = -a_token * length
        right = {_best(log_p / length**alpha) for alpha in ALPHAS[:3]}
        slips = {_best(log_p / length), _best(log_p), _best(log_p * length), _best(-log_p / length)}
        if len(set(length)) == 6 and len(right - {None}) == 3 and len(slips - {None}) == 4:
            break
    return _hypotheses(ctx, length, log_p)


def _hypotheses(ctx, length, log_p):
    """Pairs (tokens, log p) in any order."""
    return [
        ([*ctx.integers(3, 99, int(length[i]) - 1).tolist(), 2], float(log_p[i]))
        for i in ctx.order(len(length))
    ]


@exercise("01.beam_by_hand", title="On paper: a beam of two", difficulty=1, minutes=4)
def beam_by_hand(answer, ctx):
    got = ctx.number(ctx.call(answer), "the probability")
    slips = {
        "that is what greedy search returns": 0.16,
        "that answer begins with c, which a beam of 2 has dropped after the first step": 0.25,
        "that is the last step alone: an answer's probability is the product of its steps": 0.6,
        "that is 0.35 · 0.4: the better continuation of b is d": 0.14,
        "the probabilities of an answer's steps multiply": 0.95,
        "that is percent: give a number between 0 and 1": 21.0,
    }
    for words, slip in slips.items():
        if abs(got - slip) < 2e-3:
            ctx.fail(words)
    if abs(got - 0.21) > 2e-3:
        ctx.fail(f"{got:g} is not what a beam of 2 returns: continue both beginnings that are left")


@exercise("01.sampling", title="Predict: answers drawn at random", difficulty=1, minutes=3)
def sampling(answer, ctx):
    return ctx.predicted(answer, "more", "about as many", "clearly fewer")


@exercise("01.best_hypothesis", title="Long and short hypotheses", difficulty=1, minutes=3)
def best_hypothesis(answer, ctx):
    any_length = 2 + np.array(ctx.order(12)[:7])
    for hypotheses in (
        _telling_hypotheses(ctx),
        _hypotheses(ctx, any_length, -np.sqrt(any_length) * (1 + array(ctx.normal(7)) ** 2)),
    ):
        _picks_the_best(answer, ctx, hypotheses)


def _picks_the_best(answer, ctx, hypotheses):
    length, log_p = (
        np.array([len(tokens) for tokens, _ in hypotheses]),
        np.array([log_p for _, log_p in hypotheses]),
    )
    for alpha in ALPHAS:
        best = int((log_p / length**alpha).argmax())
        got = ctx.call(answer, hypotheses, alpha)
        if type(got) in (tuple, list) and len(got) == 2 and type(got[0]) is list:
            ctx.fail("the whole pair (tokens, log p) came back: return the tokens alone")
        got = ctx.ids(got, "the result")
        picked = [i for i, (tokens, _) in enumerate(hypotheses) if tokens == got]
        if not picked:
            ctx.fail(f"{got} is none of the hypotheses: expected the tokens of the best one")
        slips = {
            "log p is divided by the whole length: expected length ** alpha": log_p / length,
            "log p is not normalized: every further token lowers it, so long hypotheses never "
            "win": log_p,
            "log p is multiplied: it is negative, so that punishes length twice": log_p
            * length**alpha,
            "the worst hypothesis is picked: log p is negative, the largest is nearest to 0": -log_p
            / length**alpha,
        }
        if picked[0] != best:
            scores = log_p / length**alpha
            if picked[0] == int((log_p / length).argmax()) and _multiplies_by_alpha(
                answer, ctx, hypotheses
            ):
                ctx.fail(
                    f"at alpha = {alpha:g}: log p is divided by alpha · length: alpha is an "
                    f"exponent, expected length ** alpha"
                )
            for message, slip in slips.items():
                if int(slip.argmax()) == picked[0]:
                    ctx.fail(f"at alpha = {alpha:g}: {message}")
            ctx.fail(
                f"at alpha = {alpha:g} the hypothesis of length {length[picked[0]]} (score "
                f"{scores[picked[0]]:.3g}) is picked, "
                f"expected that of length {length[best]} (score {scores[best]:.3g})"
            )


@exercise("01.greedy", title="Greedy decoding", difficulty=2, minutes=8)
def greedy(answer, ctx):
    bos, eos, size = 1, 2, 12
    words = ctx.integers(3, size, 5).tolist()
    step, calls = _scripted_model(ctx, [*words, eos], size)
    got = ctx.ids(ctx.call(answer, step, (), bos, eos, 10), "the result")
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
    step, calls = _scripted_model(ctx, words * 2, size)
    got = ctx.ids(ctx.call(answer, step, (), bos, eos, 7), "the result")
    if len(got) != 7:
        ctx.fail(f"without an eos the result has {len(got)} tokens, expected max_length = 7")
    if got != (words * 2)[:7]:
        ctx.fail(
            f"the result is {got}, expected {(words * 2)[:7]}: the most likely token of each step"
        )


@exercise("01.beam_step", title="One step of a beam", difficulty=4, minutes=12)
def beam_step(answer, ctx):
    names = ("scores", "parents", "tokens")
    for beam, size, k in ((3, 8, 3), (ctx.integers(2, 5), 7, 4), (1, 9, 4)):
        so_far = -3 * torch.rand(beam, generator=ctx.generator) - 0.5
        if beam == k:
            # nothing that continues the last one is good enough
            so_far[:3] = torch.tensor([-0.5, -0.6, -20.0])
        following = torch.log_softmax(2 * ctx.normal(beam, size), dim=-1)
        total = array(so_far)[:, None] + array(following)
        order = np.argsort(-total, axis=None)[:k]
        right = (total.reshape(-1)[order], order // size, order % size)
        got = ctx.parts(ctx.call(answer, so_far, following, k), names)
        scores = ctx.tensor(
            got[0], "scores", (k,), mention="the beam_size best of all continuations together"
        )
        parents = ctx.tensor(got[1], "parents", (k,), dtype=torch.long)
        tokens = ctx.tensor(got[2], "tokens", (k,), dtype=torch.long)
        alone = np.argsort(-array(following), axis=None)[:k]
        ctx.recognize(
            scores,
            right[0],
            {
                "the scores so far are not added: a hypothesis is worth its whole log p": array(
                    following
                ).reshape(-1)[alone],
                "log p is multiplied: probabilities multiply, so their logarithms add up": np.sort(
                    array(so_far)[:, None] * array(following), axis=None
                )[::-1][:k],
                "the scores are sorted from worst to best: expected the best first": right[0][::-1],
                "these are the worst continuations: log p is negative, the largest is "
                "best": np.sort(total, axis=None)[:k],
                "probabilities are mixed with log-probabilities: add two logarithms": np.sort(
                    (array(so_far)[:, None] + np.exp(array(following))), axis=None
                )[::-1][:k],
            },
        )
        if beam == k:
            each = total.max(-1)
            ctx.recognize(
                np.sort(array(scores)),
                np.sort(right[0]),
                {
                    "every hypothesis keeps its own best continuation: the best of all of them "
                    "together may share a parent": np.sort(each)
                },
            )
        ctx.close(scores, right[0], "scores")
        ctx.close(
            parents,
            right[1],
            "parents",
            {
                "parents holds the tokens: index // V is the hypothesis, index % V the "
                "token": right[2],
                "parents holds indices into all K·V continuations: divide by V": order,
                "parents is index // K: every hypothesis has V continuations, so its number is "
                "index // V": order // beam,
                "parents is index % K: the flattened index runs over the vocabulary first, so it "
                "is index // V": order % beam,
            },
        )
        ctx.close(
            tokens,
            right[2],
            "tokens",
            {
                "tokens holds indices into all K·V continuations: take the remainder by V": order,
                "tokens is index % K: every hypothesis has V continuations, so the token is "
                "index % V": order % beam,
                "tokens is index // K: the flattened index runs over the vocabulary first, so it "
                "is index % V": order // beam,
            },
        )
