"""Checks of the project on dictated numbers: batches, the loss, the fixed vector, one step of
attention, a beam that asks for the check digit, errors among messages of one length.
"""

import numpy as np
import torch
from torch import Tensor

from ..context import a, array, softmax
from ..gradient_check import check_gradients
from ..registry import exercise
from ..slips import Slips

_PAD, _BOS, _EOS, _UNKNOWN, _FIRST = range(5)


def _source(pairs, words):
    ids = {word: 4 + k for k, word in enumerate(words)}
    rows = [[ids.get(word, 3) for word in said] for said, _ in pairs]
    width = max(map(len, rows))
    padded = [row + [0] * (width - len(row)) for row in rows]
    return np.array(padded, dtype=np.int64).reshape(len(rows), width)


_SOURCE = Slips(
    _source,
    {
        "a word that is not in the list becomes padding: it has the id 3": "word, 3) → word, 0)",
        "words that are not in the list are left out: each has the id 3": (
            "for word in said] → for word in said if word in ids]"
        ),
        "the first word of the list has the id 0: 0 to 3 are taken, the words begin at 4": (
            "4 + k → k"
        ),
        "the first word of the list has the id 3, that of unknown words: the words begin at 4": (
            "4 + k → 3 + k"
        ),
        "the words are numbered in the order of the alphabet: the list has an order of its own": (
            "enumerate(words) → enumerate(sorted(words))"
        ),
        "the source is padded at the left: padding comes after the last word": (
            "row + [0] * (width - len(row)) → [0] * (width - len(row)) + row"
        ),
        "the source is padded with 2, the end of a number: padding is 0": "[0] → [2]",
    },
)


def _lengths(pairs):
    return np.array([len(said) for said, _ in pairs])


_LENGTHS = Slips(
    _lengths,
    {
        "the lengths count one token more than there are words": "len(said) → len(said) + 1",
        "these are the lengths of the numbers: expected those of the messages": (
            "len(said) for said, _ → len(said) for _, said"
        ),
        "all lengths are that of the longest message": (
            "len(said) for → max(len(pair[0]) for pair in pairs) for"
        ),
    },
)


def _target_in(pairs, digits):
    rows = [[1, *(4 + digits.index(digit) for digit in number)] for _, number in pairs]
    width = max(map(len, rows))
    return np.array([row + [0] * (width - len(row)) for row in rows])


_TARGET_IN = Slips(
    _target_in,
    {
        "target_in is what the decoder writes: it reads the number one step later, 1 first": (
            ("1, * → *", "in number)] → in number), 2]")
        ),
        "target_in ends with 2 in the shorter rows: the decoder never reads the end": (
            "row + [0] * (width - len(row)) → (row + [2] + [0] * width)[:width]"
        ),
        "target_in is padded at the left: padding comes after the last digit": (
            "row + [0] * (width - len(row)) → [0] * (width - len(row)) + row"
        ),
    },
)


def _target_out(pairs, digits):
    rows = [[*(4 + digits.index(digit) for digit in number), 2] for _, number in pairs]
    width = max(map(len, rows))
    return np.array([row + [0] * (width - len(row)) for row in rows])


_TARGET_OUT = Slips(
    _target_out,
    {
        "target_out is what the decoder reads: it writes the next token each time": (
            ("[*( → [1, *(", "), 2] → )]")
        ),
        "2 stands at the end of the padded row: it belongs right after the last digit": (
            "row + [0] * (width - len(row)) → row[:-1] + [0] * (width - len(row)) + [2]"
        ),
        "target_out is padded with 2: one end is enough, padding is 0": "[0] → [2]",
        "target_out is padded at the left: padding comes after the end": (
            "row + [0] * (width - len(row)) → [0] * (width - len(row)) + row"
        ),
    },
)


@exercise("10.message_batches", title="Batches of messages", difficulty=2, minutes=25)
def message_batches(answer, ctx):
    names = ("source", "lengths", "target_in", "target_out")
    for _ in range(2):
        batch, n, m, known = ctx.sizes(batch=(1, 5), n=(0, 7), m=(1, 6), words=(1, 8))
        words = [f"{chr(97 + k % 26)}{k}" for k in ctx.order(known)]
        digits = [str(digit) for digit in ctx.order(10)]
        heard = [*words, "um", "erm"]
        pairs = []
        for said, written in zip(ctx.lengths(batch, n, 0), ctx.lengths(batch, m)):
            known_ones = 1 < said == n  # so that the width is that of the words in the list
            tokens = words if known_ones else heard
            message = [tokens[i] for i in ctx.integers(0, len(tokens), int(said)).tolist()]
            if message and not known_ones:
                message[ctx.integers(0, len(message))] = "um"
            number = [digits[i] for i in ctx.integers(0, 10, int(written)).tolist()]
            pairs.append((tuple(message), tuple(number)))
        columns = max(len(said) for said, _ in pairs)
        steps = 1 + max(len(number) for _, number in pairs)
        shapes = ((batch, columns), (batch,), (batch, steps), (batch, steps))
        got = ctx.parts(ctx.call(answer, pairs, words, digits), names)
        hints = (
            "as wide as the longest message",
            "one length a message",
            "a number of m digits takes m + 1 steps",
            "a number of m digits takes m + 1 steps",
        )
        got = [
            ctx.tensor(part, name, shape, dtype=torch.long, mention=hint)
            for part, name, shape, hint in zip(got, names, shapes, hints)
        ]
        slips = ((_SOURCE, words), (_LENGTHS,), (_TARGET_IN, digits), (_TARGET_OUT, digits))
        for part, name, (oracle, *tokens) in zip(got, names, slips):
            right, wrong = oracle(pairs, *tokens)
            ctx.close(part, right, name, wrong)


def _total(logits, target):
    shifted = logits - logits.max(-1, keepdims=True)
    log_p = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
    said = np.take_along_axis(log_p, target[..., None], -1)[..., 0]
    return -(said * (target != 0)).sum()


_TOTAL = Slips(
    _total,
    {
        "the padding is in the sum: what comes after the end is no part of a number": (
            "(said * (target != 0)) → said"
        ),
        "this is the mean over the tokens: expected the sum, fit divides it by the count": (
            ".sum() → .sum() / (target != 0).sum()"
        ),
        "this is log p, which is negative: a loss is -log p": "return - → return ",
        "the end is left out: it has to be learned, too": "target != 0 → target > 2",
        "the logits themselves are added up: take their log-softmax first": (
            "log_p, target → logits, target"
        ),
        "the log-softmax runs over the steps: expected over the tokens, the last dimension": (
            "np.exp(shifted).sum(-1, → np.exp(shifted).sum(1,",
            "logits.max(-1, → logits.max(1,",
        ),
    },
)


def _count(target):
    return (target != 0).sum()


_COUNT = Slips(
    _count,
    {
        "the count has the padding in it": "(target != 0).sum() → target.size",
        "the count leaves the ends out": "!= 0 → > 2",
        "this counts the messages: expected the tokens": "(target != 0).sum() → len(target)",
    },
)


def _exact(logits, target):
    right = (logits.argmax(-1) == target) | (target == 0)
    return right.all(-1).sum()


_EXACT = Slips(
    _exact,
    {
        "this asks for the right token in the padding, too: nothing is written there": (
            "| (target == 0) →"
        ),
        "this counts the tokens that are right: a number is right if all of its tokens are": (
            "right.all(-1).sum() → (right & (target != 0)).sum()"
        ),
        "a number counts here if one of its tokens is right: all have to be": (
            "right.all(-1) → (right & (target != 0)).any(-1)"
        ),
        "a number counts here whatever its end is: the end has to come at the right step": (
            "(target == 0) → (target <= 2)"
        ),
    },
)


@exercise("10.number_loss", title="The loss, and how many are right", difficulty=2, minutes=25)
def number_loss(answer, ctx):
    names = ("the total", "the count", "the number of right ones")
    for hard in (False, True):
        batch, m, size = ctx.sizes(batch=(1, 6), m=(1, 6), vocabulary=(5, 9))  # 4 and a digit
        logits = ctx.normal(batch, m, size)
        target = ctx.integers(_FIRST, size, batch, m)
        for row, length in enumerate(ctx.lengths(batch, m).tolist()):
            target[row, length - 1] = _EOS
            target[row, length:] = _PAD
            logits[row, length:, _PAD] -= 9  # of what is never asked something else is likely
            if row % 2:  # some are right, and some but for the end or one digit
                told = torch.nn.functional.one_hot(target[row, :length], size)
                spoiled = ctx.integers(0, 3) and length
                told[spoiled - 1 if spoiled else length :] *= -1
                logits[row, :length] += 9 * told
        if hard:
            logits = 1e3 * logits  # the exponentials overflow
        got = ctx.parts(ctx.call(answer, logits, target), names)
        logs, wanted = array(logits), array(target)
        why = "exp overflows, or a probability becomes 0 before its logarithm: use log_softmax"
        total = ctx.floats(got[0], names[0], (), nan=why)
        right, wrong = _TOTAL(logs, wanted)
        ctx.close(total, right, names[0], wrong, size=float(np.abs(logs).max() * batch * m))
        for value, name, oracle, given in (
            (got[1], names[1], _COUNT, (wanted,)),
            (got[2], names[2], _EXACT, (logs, wanted)),
        ):
            right, wrong = oracle(*given)
            ctx.close(np.array(ctx.number(value, name)), right, name, wrong)
        if not hard:
            check_gradients(
                ctx, answer, (logits, target), {0: "logits"}, lambda x: _total(x, wanted), part=0
            )


def _cell(x, h, unit):
    w, u, b = unit
    return np.tanh(x @ w + h @ u + b)


def _vector(source, lengths, unit):
    state = np.zeros((len(source), len(unit[2])))
    for i in range(source.shape[1]):
        going = (i < lengths)[:, None]
        state = np.where(going, _cell(source[:, i], state, unit), state)
    return state


_VECTOR = Slips(
    _vector,
    {
        "the state after the padding is taken: each message ends at its own length, one "
        "without words at 0": ("np.where(going, → np.where(True | going,"),
        "the encoder reads one word of padding: the words stand at 0 … length - 1": "< → <=",
        "the encoder stops before the last word": "i < lengths → i < lengths - 1",
        "the vector of a message that ends early is 0: it keeps what was read": (
            "unit), state) → unit), 0 * state)"
        ),
        "each word is read from a state of zeros: pass the state on": (
            "source[:, i], state → source[:, i], 0 * state"
        ),
        "the messages are read from right to left": (
            "range(source.shape[1]) → reversed(range(source.shape[1]))"
        ),
    },
)


def _states(source, lengths, target, encoder, decoder):
    vector = _vector(source, lengths, encoder)
    state, states = vector, []
    for y in target.swapaxes(0, 1):
        state = _cell(np.concatenate((y, vector), -1), state, decoder)
        states.append(state)
    return np.stack(states, 1)


_STATES = Slips(
    _states,
    {
        "the decoder starts from zeros: it starts from the vector": (
            "state, states = vector, [] → state, states = 0 * vector, []"
        ),
        "the decoder reads the vector first and the token second: expected [token; vector]": (
            "(y, vector) → (vector, y)"
        ),
        "the decoder reads its own state beside the token: expected the vector, each time": (
            "(y, vector) → (y, state)"
        ),
        "the decoder reads zeros beside the token: expected the vector, each time": (
            "(y, vector) → (y, 0 * vector)"
        ),
        "each step starts from the vector: pass the state on": (
            ", state, decoder → , vector, decoder"
        ),
        "the states are those before each step: expected those after it": (
            "return np.stack(states, 1) → return np.stack([vector, *states[:-1]], 1)"
        ),
    },
)


@exercise(
    "10.fixed_vector", title="The baseline: all of it in one vector", difficulty=3, minutes=35
)
def fixed_vector(answer, ctx):
    # a call of a cell takes the grader a while
    batch, n, m, d_e, size = ctx.sizes(
        batch=(1, 5), n=(1, 7), m=(1, 5, 70), d_e=(1, 3), size=(1, 4)
    )
    m += m == batch
    source, target = ctx.normal(batch, n, d_e), ctx.normal(batch, m, d_e)
    lengths = ctx.lengths(batch, n, 0 if batch > 1 else 1)  # one without words
    units = [
        (ctx.normal(d, size) / d**0.5, 0.8 * ctx.normal(size, size) / size**0.5, ctx.normal(size))
        for d in (d_e, d_e + size)
    ]

    def cell(unit, name):
        def step(x, h):
            if type(x) is not Tensor or type(h) is not Tensor or x.shape[-1] != len(unit[0]):
                ctx.fail(f"{name}(x, h) takes x (batch, {len(unit[0])}) and h (batch, {size})")
            if x.dtype != h.dtype:
                ctx.fail(
                    f"{name}(x, h) got x in {x.dtype} and h in {h.dtype}: begin with zeros "
                    f"of the dtype of the source"
                )
            w, u, b = (part.to(x) for part in unit)
            return torch.tanh(x @ w + h @ u + b)

        return step

    given = (cell(units[0], "encoder"), cell(units[1], "decoder"), source, lengths, target, size)
    ends, arrays = array(lengths), [tuple(map(array, unit)) for unit in units]
    names, shapes = ("vector", "states"), ((batch, size), (batch, m, size))
    got = ctx.parts(ctx.call(answer, *given), names, shapes)
    vector = ctx.floats(got[0], "the vector", shapes[0], mention="one state a message")
    states = ctx.floats(got[1], "the states", shapes[1], mention="one state a step")
    right, wrong = _VECTOR(array(source), ends, arrays[0])
    ctx.close(vector, right, "the vector", wrong)
    right, wrong = _STATES(array(source), ends, array(target), *arrays)
    ctx.close(states, right, "the states", wrong)
    at = {2: "source", 4: "target"}
    check_gradients(ctx, answer, given, at, lambda x, y: _states(x, ends, y, *arrays), part=1)
    if n < 50:
        check_gradients(
            ctx, answer, given, {2: "source"}, lambda x: _vector(x, ends, arrays[0]), part=0
        )


def _weights(states, annotations, lengths, w, u, v):
    inside = (states @ w.T)[:, :, None] + (annotations @ u.T)[:, None]
    scores = np.tanh(inside) @ v
    real = np.arange(scores.shape[-1]) < lengths[:, None, None]
    return softmax(np.where(real, scores, -np.inf))


_WEIGHTS = Slips(
    _weights,
    {
        "the padding gets weight: the lengths are not used": (
            "np.where(real, scores, -np.inf) → scores"
        ),
        "the weights of the padding are set to 0 after the softmax: those of the words no longer "
        "add up to 1": "np.where(real, scores, -np.inf)) → scores) * real",
        "masked scores become 0, and exp(0) is 1: the padding still gets weight": (
            "np.where(real, scores, -np.inf) → scores * real"
        ),
        "one word of padding is left in: the words stand at 0 … length - 1": "< → <=",
        "the last word is masked, too: the words stand at 0 … length - 1": (
            "lengths[:, None, None] → lengths[:, None, None] - 1"
        ),
        "the softmax runs over the hypotheses: expected over the words": "-np.inf)) → -np.inf), 1)",
        "all hypotheses get the weights of the first: each has its own state": (
            "states @ w.T → (0 * states + states[:, :1]) @ w.T"
        ),
        "the tanh is missing: without it the state shifts all scores of a message alike": (
            "np.tanh(inside) → inside"
        ),
        "a ReLU stands where tanh should": "np.tanh(inside) → np.maximum(inside, 0)",
        "v is not used: the hidden units are added up": "@ v → .sum(-1)",
    },
)


def _contexts(states, annotations, lengths, w, u, v):
    return _weights(states, annotations, lengths, w, u, v) @ annotations


_CONTEXTS = Slips(
    _contexts,
    {
        "the contexts are sums of projected annotations: expected of the annotations": (
            "@ annotations → @ np.resize(annotations @ u.T, annotations.shape)"
        ),
        "the contexts are plain means of the annotations": (
            "_weights(states, annotations, lengths, w, u, v) @ annotations → 0 * "
            "_weights(states, annotations, lengths, w, u, v) @ annotations "
            "+ annotations.mean(1, keepdims=True)"
        ),
    },
)


@exercise("10.read_message", title="One step of attention", difficulty=3, minutes=40)
def read_message(answer, ctx):
    names = ("contexts", "weights")
    for case in ("", "hard", "low"):
        batch, k, n, d_s, d_h, d_a = ctx.sizes(
            batch=(1, 5), k=(1, 4), n=(1, 7), d_s=(1, 4), d_h=(1, 5), d_a=(1, 4)
        )
        n += n == d_h
        states, annotations = ctx.normal(batch, k, d_s), ctx.normal(batch, n, d_h)
        lengths = ctx.lengths(batch, n, 0 if batch > 1 else 1)  # one without words
        w, u = ctx.normal(d_a, d_s) / d_s**0.5, ctx.normal(d_a, d_h) / d_h**0.5
        v = (300 if case == "hard" else 1) * ctx.normal(d_a)  # the exponentials overflow
        if case == "low":  # all scores are lower than many a finite number for minus infinity
            states, w, v = torch.ones_like(states), 20 + 0 * w, -3e4 + 0 * v
        floats = (states, annotations, w, u, v)
        got = ctx.call(answer, states, annotations, lengths, w, u, v)
        got = ctx.parts(got, names, ((batch, k, d_h), (batch, k, n)))
        why = (
            "exp overflows or is 0 at every word: subtract the largest score first"
            if case and lengths.min() > 0
            else "exp overflows, or a message without words has only masked scores: its "
            "weights are 0"
        )
        weights = ctx.floats(got[1], "the weights", (batch, k, n), nan=why)
        contexts = ctx.floats(got[0], "the contexts", (batch, k, d_h), nan=why)
        arrays, ends = [array(t) for t in floats], array(lengths)
        of = (*arrays[:2], ends, *arrays[2:])
        right, wrong = _WEIGHTS(*of)
        ctx.recognize(weights, right, {} if case else wrong)
        padding = np.where(np.arange(n) < ends[:, None, None], 0.0, array(weights))
        if padding.any():
            ctx.fail(f"padding gets the weight {padding.max():.2g}: expected exactly 0")
        rough = np.abs(arrays[4]).sum() if case == "hard" else 0.0
        ctx.close(weights, right, "the weights", size=rough)
        right, wrong = _CONTEXTS(*of)
        size = rough * np.abs(arrays[1]).max()
        ctx.close(contexts, right, "the contexts", {} if case else wrong, size=size)
        if case:
            continue
        given = (states, annotations, lengths, w, u, v)
        at = {0: "states", 1: "annotations", 3: "W_s", 4: "W_h", 5: "v"}
        for part, oracle in ((0, _contexts), (1, _weights)):
            check_gradients(
                ctx,
                answer,
                given,
                at,
                lambda s, h, w, u, v, oracle=oracle: oracle(s, h, ends, w, u, v),
                part=part,
                nan="a message without words leaves NaN behind: setting it to 0 afterwards does "
                "not help the gradient, so keep −∞ alone out of the softmax",
            )


def _best(step, state, bos, eos, k, longest, valid):
    beam = [((), 0.0, bos, state)]
    for _ in range(longest):
        candidates = []
        for tokens, log_p, last, state in beam:
            if last == eos:
                candidates.append((tokens, log_p, last, state))
                continue
            following, after = step(last, state)
            candidates += [((*tokens, t), log_p + p, t, after) for t, p in enumerate(following)]
        beam = sorted(candidates, key=lambda one: -one[1])[:k]
    found = [
        (tokens[:-1], log_p)
        for tokens, log_p, last, _ in beam
        if last == eos and valid(tokens[:-1])
    ]
    return _as_numbers(found[0] if found else None, longest)


def _as_numbers(found, longest):
    """log p and the tokens, filled up with -1; 1 and -1 alone for None."""
    tokens, log_p = ((), 1.0) if found is None else found
    return np.array([log_p, *tokens, *[-1.0] * (longest + 1 - len(tokens))])


_BEST = Slips(
    _best,
    {
        "valid is not asked: this is the best hypothesis, valid or not": (
            "and valid(tokens[:-1]) →"
        ),
        "only the best hypothesis is asked whether it is valid: go down the beam": (
            "last, _ in beam → last, _ in beam[:1]"
        ),
        "this is the worst of the valid hypotheses: expected the best": "found[0] → found[-1]",
        "one hypothesis is kept at each step: expected beam_size": "[:k] → [:1]",
        "more than beam_size hypotheses are kept, those that have finished among "
        "them": "[:k] → [:k + 1]",
        "a finished hypothesis leaves the beam: it keeps its place": (
            "candidates.append((tokens, log_p, last, state)) → pass"
        ),
        "a hypothesis that has not come to its end counts as a number": (
            "last == eos and valid(tokens[:-1]) → valid(tokens[:-1] if last == eos else tokens)",
            "(tokens[:-1], log_p) → (tokens[:-1] if last == eos else tokens, log_p)",
        ),
        "valid is asked about a number with its end: leave the end out": (
            "valid(tokens[:-1]) → valid(tokens)"
        ),
        "the log-probabilities of the last step alone decide: add them up": "log_p + p → p",
        "all continuations go on from the first state: pass on the one that step returns": (
            "t, after) → t, state)"
        ),
        "the hypotheses are ranked by log p divided by their length: expected by log p": (
            "-one[1] → -one[1] / len(one[0])"
        ),
        "the worst continuations are kept: log p is negative, the largest is best": (
            "-one[1] → one[1]"
        ),
    },
)


class _Speaker:
    """One call of the search: log p of the next token, by the tokens read; the end comes after
    about so many tokens.
    """

    def __init__(self, ctx, size, length, k, nothing):
        self.bos, self.eos = ctx.order(size)[:2]
        self.length, self.k, self.longest = length, k, length + ctx.integers(1, 3)
        self.rest = -1 if nothing else ctx.integers(0, 3)  # of a valid number's sum
        self.tables = [array(1.2 * ctx.normal(*shape)) for shape in ((size, size), (11, size))]

    def step(self, last, read):
        """log p of the next token and the new state, which is how many were read and their sum."""
        written, total = read[0], read[1] + last
        logits = self.tables[0][last] + self.tables[1][(total + 3 * written) % 11]
        ends = written - self.length + (5 if self.length > 50 else 2)  # a long one surely ends
        logits[self.eos] += ends if written >= self.length - 1 else -1e4
        log_probs = logits - np.log(np.exp(logits - logits.max()).sum()) - logits.max()
        return log_probs, (written + 1, total)

    def valid(self, tokens):
        return sum(tokens) % 3 == self.rest

    def log_p_if(self, rest):
        """log p of the right result if that were the rest of a valid number."""
        self.rest = rest
        found = _best(self.step, (0, 0), self.bos, self.eos, self.k, self.longest, self.valid)[0]
        return found if found <= 0 else -np.inf

    def best(self):
        """The right result, and those of the mistakes."""
        return _BEST(self.step, (0, 0), self.bos, self.eos, self.k, self.longest, self.valid)


def _joined(results):
    """The right results of several calls as one, and those of each mistake."""
    right, wrong = zip(*results)
    wrong = {words: np.concatenate([one[words] for one in wrong]) for words in wrong[0]}
    return np.concatenate(right), wrong


def _told_apart(results):
    """How many of the right result and those of the mistakes differ."""
    right, wrong = _joined(results)
    return len({tuple(np.round(value, 5)) for value in (right, *wrong.values())})


def _speakers(ctx, length, k, size):
    """Calls that together tell the mistakes apart, with what they give: one for which no number is
    valid, and of some dozens of others those that add to it.
    """
    likely = _Speaker(ctx, size, length, k, False)
    likely.rest = max(range(3), key=likely.log_p_if)
    speakers = [likely, _Speaker(ctx, size, length, k, True)]
    if length > 50:  # each call of step takes the grader a while
        return [likely], [likely.best()]
    results = [speaker.best() for speaker in speakers]
    for _ in range(60 if length > 1 else 0):
        if _told_apart(results) == 1 + len(_BEST.mistaken):
            break
        speaker = _Speaker(ctx, size, length, k, False)
        result = speaker.best()
        if _told_apart([*results, result]) > _told_apart(results):
            speakers.append(speaker)
            results.append(result)
    return speakers, results


@exercise("10.valid_number", title="A beam that asks for the check digit", difficulty=4, minutes=50)
def valid_number(answer, ctx):
    length, k, size = ctx.sizes(length=(1, 6), beam=(1, 9), tokens=(4, 8, 8))
    k = min(k, 2) if length > 50 else k
    speakers, results = _speakers(ctx, length, k, size)
    found = [_found(answer, ctx, speaker) for speaker in speakers]
    right, wrong = _joined(results)
    if length < 50:  # else several mistakes find nothing
        ctx.recognize(np.concatenate(found), right, wrong)
    for got, (expected, _) in zip(found, results):
        if not np.array_equal(got[1:], expected[1:]) or (got[0] > 0) != (expected[0] > 0):
            ctx.fail(f"the result is {_shown(got)}, expected {_shown(expected)}")
        _close_to_the_digit(ctx, got[:1], expected[:1], "log p")


def _close_to_the_digit(ctx, got, expected, name):
    ctx.close(got, expected, name)
    if (np.abs(got - expected) > 1e-5 * np.maximum(1, np.abs(expected))).any():
        ctx.fail(f"{name}: right to some digits only: is it rounded?")


def _shown(numbers):
    """The tokens of a result, of a long one the first."""
    tokens = [int(token) for token in numbers[1:] if token >= 0]
    if numbers[0] > 0:
        return "None"
    return f"{tokens[:8]}" if len(tokens) < 9 else f"{tokens[:3]} and {len(tokens) - 3} more"


def _found(answer, ctx, speaker):
    """What the answer returns for one speaker, as numbers."""
    calls, k, longest = [], speaker.k, speaker.longest

    def step(token, state):
        token = int(token) if type(token) in (Tensor, np.int64) else token
        if type(token) is not int or type(state) not in (tuple, list) or len(state) != 2:
            ctx.fail("step(token, state) takes a token id and the state of the step before")
        if token == speaker.eos:
            ctx.fail("step reads eos: a hypothesis that has ended keeps its place as it is")
        calls.append(token)
        if len(calls) > 2 * k * longest:
            ctx.fail(
                f"step is called more than {2 * k * longest} times: {k} hypotheses and {longest} "
                f"steps need {k * longest} at most"
            )
        log_probs, state = speaker.step(token, state)
        return torch.from_numpy(log_probs).float(), state

    def valid(tokens):
        if type(tokens) not in (list, tuple):
            ctx.fail(f"valid(tokens) takes a list of token ids, got {a(tokens)}")
        return speaker.valid([int(token) for token in tokens])

    got = ctx.call(answer, step, (0, 0), speaker.bos, speaker.eos, k, longest, valid)
    if got is None:
        return _as_numbers(None, longest)
    tokens, log_p = ctx.parts(got, ("tokens", "log_p"))
    tokens = ctx.ids(tokens, "the tokens")
    if len(tokens) > longest:
        ctx.fail(f"there are {len(tokens)} tokens, expected at most longest = {longest}")
    log_p = ctx.number(log_p, "log p")
    if log_p > 0:
        ctx.fail(f"log p is {log_p:.4g}: the logarithm of a probability is negative")
    return _as_numbers((tokens, log_p), longest)


def _excess(wrong, lengths, has):
    more, with_it = 0.0, 0
    for length in np.unique(lengths):
        yes, no = wrong[(lengths == length) & has], wrong[(lengths == length) & ~has]
        if len(yes) and len(no):
            more += len(yes) * (yes.mean() - no.mean())
            with_it += len(yes)
    return more / with_it if with_it else np.nan


_EXCESS = Slips(
    _excess,
    {
        "messages of all lengths are compared with one another: compare within each length": (
            "lengths == length) & has] → lengths > -1) & has]",
            "lengths == length) & ~has] → lengths > -1) & ~has]",
        ),
        "each length counts the same: weight it by its messages that have the trait": (
            "more += len(yes) * → more +=",
            "with_it += len(yes) → with_it += 1",
        ),
        "each length is weighted by all of its messages: expected by those that have the trait": (
            "more += len(yes) * → more += (len(yes) + len(no)) *",
            "with_it += len(yes) → with_it += len(yes) + len(no)",
        ),
        "each length is weighted by its messages without the trait: expected by those with it": (
            "more += len(yes) * → more += len(no) *",
            "with_it += len(yes) → with_it += len(no)",
        ),
        "lengths at which all messages have the trait count here: there is nothing to compare "
        "with": (
            "if len(yes) and len(no): → if len(yes):",
            "no.mean() → (no.mean() if len(no) else 0)",
        ),
        "the sign is wrong: more errors with the trait are positive": (
            "yes.mean() - no.mean() → no.mean() - yes.mean()"
        ),
        "these are the error rates of the messages with the trait: subtract those of the others": (
            "- no.mean() →"
        ),
    },
)


@exercise("10.excess_errors", title="What it gets wrong", difficulty=3, minutes=40)
def excess_errors(answer, ctx):
    messages, kinds = ctx.sizes(messages=(1, 90), kinds=(1, 4, 4))
    lengths = ctx.integers(3, 8, messages)
    chance = torch.rand(messages, generator=ctx.generator)
    wrong = chance < lengths / 10
    traits = {}
    for k in range(kinds):
        chance = torch.rand(messages, generator=ctx.generator)
        has = chance < (lengths - 2 + k) / 8
        has[lengths == 4] = True  # nothing to compare with
        traits[f"trait {k}"] = has
    if messages > 10:  # pairs of rare lengths
        lengths[:2], lengths[2:4] = 150, 151
        wrong[:4] = torch.tensor([True, False, True, True])
        for has in traits.values():
            has[:2] = torch.tensor([True, False])
        traits["one of two"] = torch.arange(messages) == 2  # no difference at all
    traits["all of them"] = torch.ones(messages, dtype=torch.bool)
    given = {name: has.tolist() for name, has in traits.items()}
    got = ctx.call(answer, wrong.tolist(), lengths.tolist(), given)
    if type(got) is not dict:
        ctx.fail(f"your function returns a {type(got).__name__}: expected a dict of numbers")
    if list(got) != list(given) and set(got) != set(given):
        ctx.fail(f"the keys are {sorted(map(str, got))}, expected {sorted(given)}")
    right, slips = {}, {}
    for name, has in traits.items():
        right[name], slips[name] = _EXCESS(array(wrong), array(lengths), array(has))
    values = np.array([_excess_of(ctx, got[name], name, right[name]) for name in traits])
    expected = np.array([*right.values()])
    said = {
        sentence: np.array([slips[name][sentence] for name in traits])
        for sentence in slips["all of them"]
    }
    ctx.recognize(values, expected, said)
    for name, value, one in zip(traits, values, expected):
        if np.isnan(one) and not np.isnan(value):
            ctx.fail(f"{name!r}: no length has messages of both kinds, so expected None")
    known = ~np.isnan(expected)
    _close_to_the_digit(ctx, values[known], expected[known], "the excess errors")


def _excess_of(ctx, value, name, right):
    """One excess as a float, NaN for None."""
    if value is None:
        if not np.isnan(right):
            ctx.fail(f"{name!r}: None came back, but some lengths have messages of both kinds")
        return np.nan
    return ctx.number(value, f"the excess of {name!r}")
