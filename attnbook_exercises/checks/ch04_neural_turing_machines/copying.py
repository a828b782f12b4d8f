"""Checks of the section on copying: a cost on paper, a list without a delimiter, the task, its cost
in bits, who follows whom, the best predictor, a machine by hand.
"""

import numpy as np
import torch

from ..context import array
from ..gradient_check import check_gradients
from ..registry import exercise
from ..slips import Slips, on_paper


@on_paper(
    "04.confident",
    "the cost of the vector in bits",
    title="What confidence costs",
    difficulty=1,
    minutes=4,
    within=0.01,
)
def confident():
    return 7, {
        "the last bit is a 0, and the model gave 1 − ⅞ to that": 4 + np.log2(8 / 7),
        "the last bit was left out: it is the dearest of all": 4,
        "the four bits at ½ were left out: a guess costs 1 bit each": 3,
        "these are nats: take the logarithm to base 2": 7 * np.log(2),
        "this is the mean over the eight bits: expected their sum": 7 / 8,
        "this is what guessing all eight would cost": 8,
        "a bit that got probability 1 costs 0, not 1": 10,
        "the wrong bit was counted, not charged: it costs −log₂ ⅛": 5,
        "the sign is wrong: −log₂ of a probability is never negative": -7,
    }


@exercise("04.no_delimiter", title="Predict: A list without a delimiter", difficulty=1, minutes=3)
def no_delimiter(answer, ctx):
    return ctx.predicted(
        answer, "wait for ever", "say the list one step late", "say the list on time"
    )


@exercise("04.copy_task", title="Write down the copy task", difficulty=1, minutes=5)
def copy_task(answer, ctx):
    batch, n, bits = ctx.sizes(batch=(1, 3), n=(1, 6), bits=(1, 5))
    vectors = ctx.integers(0, 2, batch, n, bits).float()
    if n > 1:
        vectors[0, -1] = 0  # a vector like any other
    inputs, targets, mask = ctx.parts(ctx.call(answer, vectors), ("inputs", "targets", "mask"))
    steps = 2 * n + 1
    inputs = ctx.floats(
        inputs,
        "inputs",
        (batch, steps, bits + 1),
        mention="n vectors, the delimiter, n steps of zeros; one channel more",
    )
    targets = ctx.floats(
        targets, "targets", (batch, steps, bits), mention="as many steps as inputs"
    )
    mask = ctx.tensor(mask, "mask", (batch, steps), dtype=torch.bool)
    given, nothing = array(vectors), np.zeros((batch, n, bits))
    gap = np.zeros((batch, 1, bits))
    plain = np.concatenate((given, gap, nothing), 1)
    lead, delimiter = np.zeros((batch, steps, 1)), np.zeros((batch, steps, 1))
    delimiter[:, n] = 1
    lead[:, n - 1] = 1

    def join(values, channel):
        return np.concatenate((values, channel), -1)

    shown = np.concatenate((given, gap, given), 1)
    rest = delimiter.copy()
    rest[:, n:] = 1
    expected = join(plain, delimiter)
    ctx.close(
        inputs,
        expected,
        "inputs",
        {
            "the vectors are shown again while they are to be said: the inputs after the "
            "delimiter are zeros": join(shown, delimiter),
            "there is no delimiter: expected a 1 on the last channel at step n": join(
                plain, 0 * delimiter
            ),
            "the delimiter comes together with the last vector: expected a step of its own, "
            "step n": join(plain, lead),
            "the delimiter is the first channel: expected the last one": np.concatenate(
                (delimiter, plain), -1
            ),
            "the delimiter stays on while the vectors are to be said: expected a 1 at step n "
            "alone": join(plain, rest),
            "the vectors come after the delimiter: expected before it": join(
                np.concatenate((nothing, gap, given), 1), delimiter
            ),
        },
    )
    expected = np.concatenate((nothing, gap, given), 1)
    ctx.close(
        targets,
        expected,
        "targets",
        {
            "the targets stand beside the inputs: they are due after the delimiter": plain,
            "the targets begin at the delimiter: expected at the step after it": np.concatenate(
                (nothing, given, gap), 1
            ),
            "the targets run backwards: the same order was asked for": np.concatenate(
                (nothing, gap, given[:, ::-1]), 1
            ),
            "the targets are there before the delimiter, too: those steps have none": shown,
        },
    )
    expected = np.broadcast_to(np.arange(steps) > n, (batch, steps))
    ctx.close(
        mask,
        expected,
        "mask",
        {
            "all steps count: only those after the delimiter should": np.ones((batch, steps), bool),
            "the step of the delimiter counts: expected from the step after it on": np.broadcast_to(
                np.arange(steps) >= n, (batch, steps)
            ),
            "the mask is the wrong way round: True at the steps that count": ~expected,
            "the mask is read off the targets: a vector of zeros has to be said, too, and "
            "counts": array(targets).any(-1),
        },
    )


@exercise("04.bits", title="What a sequence costs in bits", difficulty=2, minutes=8)
def bits(answer, ctx):
    batch, steps, width = ctx.sizes(batch=(1, 3), T=(1, 6), bits=(1, 5))
    for size in (1.5, 12.0, 300.0):
        logits = size * ctx.normal(batch, steps, width)
        targets = ctx.integers(0, 2, batch, steps, width).float()
        mask = ctx.integers(0, 2, batch, steps).bool()
        mask[:, -1] = False
        mask[:, 0] = True
        # at 24 the sigmoid is 1 in float32, while e^24 is an ordinary number
        logits[0, 0, 0], targets[0, 0, 0] = 2 * size, 0
        large = size > 10
        hint = (
            "a large logit makes the sigmoid exactly 0 or 1, and log(0) is -inf: take the log "
            "of the sigmoid in one step"
        )
        if size > 100:
            hint = (
                "e to the power of some hundreds is inf: take the logarithm of 1 + e^z in one "
                "step, as softplus does"
            )
        got = ctx.floats(
            ctx.call(answer, logits, targets, mask),
            "costs",
            (batch,),
            nan=hint if large else None,
            mention="one number a sequence",
        )
        z, y, counts = array(logits), array(targets), mask.numpy()[..., None]
        nats = np.logaddexp(0, -np.where(y == 1, z, -z))
        each = nats / np.log(2)
        one = np.logaddexp(0, -z) / np.log(2)
        p = np.clip(z, 1e-12, 1 - 1e-12)
        squashed = 1 / (1 + np.exp(-np.clip(z, -500, 500)))
        twice = np.logaddexp(0, -np.where(y == 1, squashed, -squashed)) / np.log(2)
        total = (each * counts).sum((1, 2))
        terms = counts.sum((1, 2)) * width
        wrong = {
            "the costs are in nats: divide by ln 2, or take the logarithm to base 2": (
                nats * counts
            ).sum((1, 2)),
            "all steps are counted: the mask says which count": each.sum((1, 2)),
            "the steps that do not count are counted: the mask is the wrong way round": (
                each * ~counts
            ).sum((1, 2)),
            "the costs are those of one bit on average: expected the sum over the sequence": total
            / terms,
            "the costs are averaged over all steps: expected the sum over those that count": total
            / (steps * width),
            "the sum over the bits of a vector is a mean: expected the sum over the sequence": total
            / width,
            "one number for the batch came back for every row: expected one for each "
            "sequence": np.full(batch, total.sum()),
            "the targets are the wrong way round: a 1 costs −log₂ p": (
                np.logaddexp(0, np.where(y == 1, z, -z)) / np.log(2) * counts
            ).sum((1, 2)),
            "the targets are not looked at: a 0 costs −log₂(1 − p)": (one * counts).sum((1, 2)),
            "the sign is wrong: a cost is −log₂ p, and never negative": -total,
            "the logits go through the sigmoid twice": (twice * counts).sum((1, 2)),
            "the logits are taken for probabilities: p = σ(logit)": (
                -np.log2(np.where(y == 1, p, 1 - p)) * counts
            ).sum((1, 2)),
        }
        if large:
            rounded = torch.sigmoid(logits)  # in float32, where 1 − σ is exactly 0 from 17 on
            capped = -array(
                torch.where(targets == 1, rounded.log(), torch.log1p(-rounded)).clamp(min=-100)
            ) / np.log(2)
            wrong[
                "costs are cut off at 100 nats: PyTorch's loss on probabilities does so; use the "
                "one on logits"
            ] = (capped * counts).sum((1, 2))
        ctx.close(got, total, "costs", wrong)

        def costs(z):
            return (np.logaddexp(0, np.where(y == 1, -z, z)) / np.log(2) * counts).sum((1, 2))

        check_gradients(ctx, answer, (logits, targets, mask), {0: "logits"}, costs)


@exercise("04.follow", title="Who follows whom", difficulty=2, minutes=8)
def follow(answer, ctx):
    cases = []
    longest = ctx.integers(5, 8)
    for n, delay in ((longest, ctx.integers(1, longest + 2)), (4, 0)):
        steps, slots = 2 * n + 3, 9
        slot = ctx.order(slots)[:n]
        places = [int(ctx.integers(0, slots)) for _ in range(steps)]
        places[delay : delay + n] = slot
        if delay:
            places[delay + 1] = (slot[1] + 1) % slots  # one miss
        cases.append((slot, places, slots))
    # two delays fit equally well
    cases.append(([1, 2, 1, 2], [0] * ctx.integers(1, 5) + [1, 2, 1, 2, 1, 2, 0], 3))
    cases.append(([0, 1, 2], [5] * ctx.integers(1, 5) + [0, 1, 2], 6))  # the last delay that fits
    cases.append(([0, 1, 2], [0, 1, 3, 4, 0], 6))  # beyond it a single row would fit
    cases.append(([0, 1], [2, 3, 4], 5))  # no hit at all
    # most overlap where the peaks differ
    pairs = [
        [
            torch.tensor([[0.51, 0.49, 0.0], [0.49, 0.51, 0.0]]),
            torch.tensor([[0.4, 0.3, 0.3], [0.3, 0.4, 0.3], [0.49, 0.51, 0.0], [1.0, 0.0, 0.0]]),
        ]
    ]
    pairs += [
        [_reading(ctx, row, slots) for row in (slot, places)] for slot, places, slots in cases
    ]
    seen = []
    for write, read in pairs:
        delay, share = ctx.parts(ctx.call(answer, write, read), ("delay", "share"))
        w, r = array(write), array(read)
        if delay is None and not _delays(w.argmax(1), r.argmax(1)).any():
            ctx.fail(
                "None came back as the delay where nothing hits: all delays are equally good "
                "then, and the earliest is 0"
            )
        delay, share = ctx.number(delay, "delay"), ctx.number(share, "share")
        hits = _delays(w.argmax(1), r.argmax(1))
        best = int(np.argmax(hits))
        last = len(hits) - 1 - int(np.argmax(hits[::-1]))
        beyond = _delays(w.argmax(1), r.argmax(1), beyond=True)
        overlap = np.array([(r[d : d + len(w)] * w).sum(1).mean() for d in range(len(hits))])
        most = int(np.argmax(overlap))
        known = {
            "the share is the number of hits: divide by the number n of written vectors": (
                best,
                hits[best] * len(w),
            ),
            "the share is taken over all steps of the read head: expected over the n written "
            "vectors": (best, hits[best] * len(w) / len(r)),
            "of two delays that fit equally well you return the later one: expected the earlier": (
                last,
                hits[last],
            ),
            "the delay is counted from 1: step 0 of the read head is delay 0": (
                best + 1,
                hits[best],
            ),
            "the delay with the largest overlap of the weights comes back: expected the one with "
            "the most hits of the peaks": (most, hits[most]),
            "the share is the overlap of the weights: expected the hits of the peaks": (
                most,
                overlap[most],
            ),
            "delay 0 is never tried": (1 + int(np.argmax(hits[1:])), hits[1:].max()),
            "the last delay that fits, T − n, is never tried": (
                int(np.argmax(hits[:-1])),
                hits[:-1].max(),
            ),
            "share and delay are swapped: expected (delay, share)": (hits[best], best),
            "delays beyond T − n are tried, where only some of the vectors have a step left": (
                int(np.argmax(beyond)),
                beyond.max(),
            ),
        }
        seen.append(((delay, share), (best, hits[best]), known))
    got, right, known = zip(*seen)
    ctx.recognize(got, right, {words: tuple(one[words] for one in known) for words in known[0]})
    for (delay, share), (best, hits), _ in seen:
        ctx.close(np.array(delay), np.array(float(best)), "delay")
        ctx.close(np.array(share), np.array(hits), "share")


def _reading(ctx, places, slots):
    """Weights ``(len(places), slots)`` that peak at these places, not always by much."""
    weights = ctx.weights(len(places), slots) / 2
    weights[torch.arange(len(places)), torch.tensor(places)] += 0.5
    return weights


def _delays(written, read, beyond=False):
    """The share of hits for every delay that fits; `beyond` it, of the rows that are left."""
    n = len(written)
    steps = len(read) if beyond else max(0, len(read) - n + 1)
    return np.array([(read[d : d + n] == written[: len(read) - d]).mean() for d in range(steps)])


@exercise(
    "04.best_predictor", title="The best predictor of a hidden source", difficulty=3, minutes=12
)
def best_predictor(answer, ctx):
    for n, length in ((3, 40), (1, 12), (4, 3), (1, 1)):
        row = ctx.integers(0, 2, length)
        got = ctx.floats(
            ctx.call(answer, row, n),
            "probabilities",
            (length,),
            nan="with nothing counted yet N1 / (N0 + N1) is 0/0: the prior adds ½ to each count",
        )
        b = row.tolist()
        predicted = _predict(b, n)
        ctx.close(
            got,
            predicted,
            "probabilities",
            {
                "1 is added to each count: that is the prior that holds all probabilities "
                "equally likely; Beta(½, ½) adds ½": _predict(b, n, 1.0),
                "nothing is added to the counts: expected ½ to each": _predict(b, n, 1e-12),
                "the bit that is to be predicted is counted, too: count after you have "
                "predicted": _predict(b, n, peek=True),
                "the context is n bits long: expected n − 1": _predict(b, n + 1),
                "the context is n − 2 bits long: expected n − 1": _predict(b, max(1, n - 1)),
                "the context is not looked at: each context has counts of its own": _predict(b, 1),
                "these are the probabilities of a 0: expected of a 1": 1 - predicted,
                "the probabilities are 0 before the first whole context: those bits are fair "
                "tosses, ½ each": np.where(np.arange(length) < n - 1, 0.0, predicted),
                "the probabilities are shifted: entry t is the prediction of bit t": np.append(
                    predicted[1:], 0.5
                ),
                "every prediction is ½, as if no context came twice: are its counts found again, "
                "and do they grow? A tuple of tensors is a new key each time; make it of numbers, "
                "with .tolist()": np.full(length, 0.5),
                "½ is added to the count of ones alone: the sum below needs both halves": _predict(
                    b, n, 0.5, below=0.5
                ),
            },
        )


def _predict(bits, n, prior=0.5, *, peek=False, below=None):
    counts, predicted = {}, []
    for t, bit in enumerate(bits):
        context = tuple(bits[max(0, t - n + 1) : t])
        full_context = t >= n - 1
        seen = counts.setdefault(context, [0, 0])
        if peek and full_context:
            seen[bit] += 1
        predicted.append(
            (seen[1] + prior) / (sum(seen) + (2 * prior if below is None else below))
            if full_context
            else 0.5
        )
        if not peek and full_context:
            seen[bit] += 1
    return np.array(predicted)


@exercise("04.program", title="Program the machine by hand", difficulty=4, minutes=15)
def program(answer, ctx):
    bits, slots = ctx.sizes(bits=(1, 6), slots=(1, 7))
    for n in (slots, max(1, slots - 1), 1):
        # all different, none of them zeros, as far as the bits allow that
        numbers = torch.tensor(ctx.order(max(2**bits - 1, n))[:n]) + 1
        vectors = (numbers[:, None] >> torch.arange(bits) & 1).float()
        memory = ctx.normal(slots, bits)

        calls = []

        def reader(phase, vector):
            heads = ask(phase, vector)
            calls.append((phase, vector, heads))
            return heads

        def ask(phase, vector):
            read, write = ctx.parts(
                ctx.call(answer, phase, torch.tensor(vector, dtype=torch.float32)),
                ("read", "write"),
            )
            read = ctx.parts(read, ("gate", "shift"))
            write = ctx.parts(write, ("gate", "shift", "erase", "add"))
            out = []
            for head, parts in (("read", read), ("write", write)):
                gate = ctx.number(parts[0], f"the gate of the {head} head")
                kernel = array(
                    ctx.floats(
                        parts[1],
                        f"the shift of the {head} head",
                        (3,),
                        mention="for the moves −1, 0, +1",
                    )
                )
                if not 0 <= gate <= 1:
                    ctx.fail(
                        f"the gate of the {head} head is {gate:g}, expected a number from 0 to 1"
                    )
                if kernel.min() < 0 or abs(kernel.sum() - 1) > 1e-5:
                    ctx.fail(
                        f"the shift of the {head} head is no distribution: it adds up to "
                        f"{kernel.sum():g}, expected 1"
                    )
                out.append([gate, kernel])
            erase = array(
                ctx.floats(write[2], "erase", (bits,), mention="one entry a column of the memory")
            )
            if erase.min() < 0 or erase.max() > 1:
                ctx.fail("erase has to lie between 0 and 1")
            return out[0], [
                *out[1],
                erase,
                array(
                    ctx.floats(write[3], "add", (bits,), mention="one entry a column of the memory")
                ),
            ]

        given, garbage = array(vectors), array(memory)
        output = _machine(reader, given, garbage)
        ctx.recognize(output, *_SAID(given, garbage))
        if ctx.same(output, given):
            # the machine of another time: nothing may be left from the calls before
            for phase, vector, heads in calls[::-1] + calls[-1:]:
                again = ask(phase, vector)
                if not all(
                    ctx.same(one, other) for k in range(2) for one, other in zip(heads[k], again[k])
                ):
                    ctx.fail(
                        f"your program remembers something between calls: called in another "
                        f"order it answers {phase!r} with "
                        "something else. Look at phase and vector alone"
                    )
            continue
        ctx.close(output, given, "the vectors that your machine says")


_STAY, _ON, _BACK = np.eye(3)[1], np.eye(3)[2], np.eye(3)[0]


def _machine(program, vectors, memory):
    """Runs a program: (n, bits) and a memory full of anything -> what the read head brings at
    the n steps of recall.
    """
    n, bits = vectors.shape
    slots = len(memory)
    places = [np.eye(slots)[0], np.eye(slots)[0]]
    output = []
    for phase, vector in (
        [("store", v) for v in vectors]
        + [("turn", np.zeros(bits))]
        + [("recall", np.zeros(bits))] * n
    ):
        heads = program(phase, vector)
        for k, (gate, kernel, *_) in enumerate(heads):
            mixed = gate / slots + (1 - gate) * places[k]
            places[k] = sum(kernel[j] * np.roll(mixed, j - 1) for j in range(3))
        _, _, erase, add = heads[1]
        memory = memory * (1 - np.outer(places[1], erase)) + np.outer(places[1], add)
        output.append(places[0] @ memory)
    return np.array(output[n + 1 :])


def _said(vectors, memory):
    """What the machine says with a program that copies."""
    zeros, late = np.zeros(vectors.shape[1]), []

    def program(phase, vector):
        if phase == "store":
            read, write = [0.0, _STAY], [0.0, _ON, zeros + 1, vector]
        elif phase == "turn":
            read, write = [0.0, _STAY], [0.0, _STAY, zeros, zeros]
        else:
            late.append(phase)
            read, write = [0.0, _ON], [0.0, _STAY, zeros, zeros]
        return read, write

    return _machine(program, vectors, memory)


_SAID = Slips(
    _said,
    {
        "the gate is 1: your heads go where the content points, which is nowhere in particular "
        "here; 0 keeps their place": "return read → read[0] = write[0] = 1.0\n        return read",
        "nothing is erased: what lay in a slot before shines through": "zeros + 1 → zeros",
        "your write head adds something after the delimiter: the last vector "
        "changes": 'return read → write[3] = write[3] + (phase != "store")\n        return read',
        "both heads move while the vectors come: your read head has to wait at the "
        "start": "[0.0, _STAY], [0.0, _ON, → [0.0, _ON], [0.0, _ON,",
        "your read head does not move: "
        "it says what lies in the slot where it started": "[0.0, _ON], → [0.0, _STAY],",
        "your write head does not move: "
        "every vector is erased by the next": "[0.0, _ON, → [0.0, _STAY,",
        "your write head does not move, nor does your read head: only the last vector is left": (
            "[0.0, _ON], → [0.0, _STAY],",
            "[0.0, _ON, → [0.0, _STAY,",
        ),
        "your heads go in opposite directions: "
        "the shift is for the moves −1, 0, +1 in this order": "[0.0, _ON], → [0.0, _BACK],",
        "your read head moves at the delimiter already: "
        "it says the second vector first": "[0.0, _STAY], [0.0, _STAY, → [0.0, _ON], [0.0, _STAY,",
        "your write head erases after the delimiter: the last vector is "
        "wiped": 'return read → write[2] = write[2] + (phase != "store")\n        return read',
        "your write head goes on erasing after the delimiter, round the memory: in a full one it "
        "wipes what is still to be said": (
            'return read → if phase != "store":\n            write[1:3] = _ON, zeros + '
            "1\n        return read"
        ),
        "your read head waits a step too long: the first vector it says lies in the slot where it "
        "started": "[0.0, _ON], → [0.0, _ON if len(late) > 1 else _STAY],",
    },
)
