"""Checks of the section on copying: a list without a delimiter, the task, the bytes of a training
run, the cost of a sequence in bits, who follows whom, the best predictor, a machine by hand.
"""

import numpy as np
import torch

from ..context import array
from ..gradient_check import check_gradients
from ..registry import exercise
from ..slips import Slips, on_paper


@exercise("04.no_delimiter", title="Predict: A list without a delimiter", difficulty=1, minutes=3)
def no_delimiter(answer, ctx):
    return ctx.predicted(
        answer, "wait for ever", "say the list one step late", "say the list on time"
    )


def different(ctx, rows, n, bits):
    """Vectors ``(rows, n, bits)`` of 0 and 1, none of a row all zeros and no two alike, as far as
    the bits allow that.
    """
    coded = min(bits, 10)
    every = max(2**coded - 1, n)
    numbers = torch.tensor([ctx.order(every)[:n] for _ in range(rows)]) + 1
    vectors = ctx.integers(0, 2, rows, n, bits)
    vectors[..., :coded] = numbers[..., None] >> torch.arange(coded) & 1
    return vectors.float()


def exact(value):
    """A tensor of 0 and 1, which are the same numbers in any dtype."""
    floats = type(value) is torch.Tensor and value.is_floating_point()
    return value.double() if floats else value


def _copied(vectors):
    batch, n, bits = vectors.shape
    inputs, targets = np.zeros((batch, 2 * n + 1, bits + 1)), np.zeros((batch, 2 * n + 1, bits))
    inputs[:, :n, :-1] = vectors
    inputs[:, n, -1] = 1
    targets[:, n + 1 :] = vectors
    mask = np.broadcast_to(np.arange(2 * n + 1) > n, (batch, 2 * n + 1))
    return inputs, targets, mask


_COPIED = Slips(
    _copied,
    {
        "the vectors are shown again while they are to be said: the inputs after the delimiter "
        "are zeros": (
            "inputs[:, n, -1] = 1 → inputs[:, n, -1] = 1\n    inputs[:, n + 1 :, :-1] = vectors"
        ),
        "there is no delimiter: "
        "expected a 1 on the last channel at step n": "inputs[:, n, -1] = 1 →",
        "the delimiter comes together with the last vector: "
        "expected a step of its own, step n": "inputs[:, n, → inputs[:, n - 1,",
        "the delimiter is the first channel: "
        "expected the last one": "return inputs → return np.roll(inputs, 1, -1)",
        "the delimiter stays on while the vectors are to be said: "
        "expected a 1 at step n alone": "inputs[:, n, → inputs[:, n:,",
        "the vectors come after the delimiter: "
        "expected before it": "inputs[:, :n, → inputs[:, n + 1 :,",
        "the targets stand beside the inputs: "
        "they are due after the delimiter": "targets[:, n + 1 :] → targets[:, :n]",
        "the targets begin at the delimiter: "
        "expected at the step after it": "targets[:, n + 1 :] → targets[:, n:-1]",
        "the targets run backwards: "
        "the same order was asked for": "n + 1 :] = vectors → n + 1 :] = vectors[:, ::-1]",
        "the targets are there before the delimiter, too: "
        "those steps have none": "targets[:, n + 1 :] → targets[:, :n] = targets[:, n + 1 :]",
        "all steps count: only those after the delimiter should": "> n → > -1",
        "the step of the delimiter counts: expected from the step after it on": "> n → >= n",
        "the mask is the wrong way round: True at the steps that count": "> n → <= n",
        "the mask is read off the targets: a vector of zeros has to be said, "
        "too, and counts": "return inputs, targets, mask → return inputs, targets, targets.any(-1)",
    },
)


@exercise("04.copy_task", title="Write down the copy task", difficulty=1, minutes=5)
def copy_task(answer, ctx):
    batch, n, bits = ctx.sizes(batch=(1, 3), n=(1, 6), bits=(1, 5))
    vectors = ctx.integers(0, 2, batch, n, bits).float()
    if n > 1:
        vectors[0, -1] = 0  # a vector like any other
    inputs, targets, mask = ctx.parts(ctx.call(answer, vectors), ("inputs", "targets", "mask"))
    steps = 2 * n + 1
    mention = "n vectors, the delimiter, n steps of zeros; one channel more"
    got = (
        ctx.floats(exact(inputs), "inputs", (batch, steps, bits + 1), mention=mention),
        ctx.floats(
            exact(targets), "targets", (batch, steps, bits), mention="as many steps as inputs"
        ),
        ctx.tensor(mask, "mask", (batch, steps), dtype=torch.bool),
    )
    right, wrong = _COPIED(array(vectors))
    for k, name in enumerate(("inputs", "targets", "mask")):
        ctx.close(got[k], right[k], name, {words: parts[k] for words, parts in wrong.items()})


@on_paper(
    "04.training_bill",
    ("the bytes of the weights", "the bytes of the memories", "the minutes"),
    title="What is kept of every step",
    difficulty=2,
    minutes=6,
    kind="Budget",
    within=np.array([1e3, 3e4, 0.02]),
)
def training_bill():
    def bill(copies=4, number=4, steps=41, batch=16, slots=128 * 20, mean=22.0, seconds=0.003):
        memories = number * steps * batch * slots
        return 13_260 * copies * number, memories, 3000 * mean * seconds / 60

    return bill(), {
        "Adam's numbers are left out: two for each weight": bill(copies=2),
        "the gradients are left out, or one of Adam's two numbers": bill(copies=3),
        "the weights alone are counted: each has a gradient, and two numbers of Adam": bill(1),
        "these are numbers and not bytes: four bytes each": bill(number=1),
        "the memory of one step is counted: all steps are kept until the backward pass": bill(
            steps=1
        ),
        "a list is twenty steps long while it comes in, but it is also said": bill(steps=20),
        "the step of the delimiter is left out of the memories: 2n + 1": bill(steps=40),
        "what has to fit is the memory of the longest lists, not that of lists on average": bill(
            steps=22
        ),
        "each of the 16 lists has a memory of its own": bill(batch=1),
        "a slot is 20 numbers wide": bill(slots=128),
        "the minutes are those of the longest lists: lengths from 1 to 20 are 10.5 on "
        "average": bill(mean=41),
        "the mean of 1 to 20 is 10.5, and not 10": bill(mean=21),
        "the answer takes as long as the list: 2n + 1 steps": bill(mean=10.5),
        "a batch is timed as if it were a single step": bill(mean=1),
        "these are seconds: sixty make a minute": bill(seconds=0.18),
        "the 3 ms are those of the whole batch": bill(seconds=0.048),
    }


def _cost(logits, targets, mask):
    z = np.where(targets == 1, logits, -logits)
    nats = np.logaddexp(0, -z)
    return (nats * mask[..., None]).sum((1, 2)) / np.log(2)


_COST = Slips(
    _cost,
    {
        "the costs are in nats: divide by ln 2, or take the logarithm to base 2": "/ np.log(2) →",
        "all steps are counted: the mask says which count": "* mask[..., None] →",
        "the steps that do not count are counted: "
        "the mask is the wrong way round": "mask[..., None] → ~mask[..., None]",
        "the costs are those of one bit on average: "
        "expected the sum over the sequence": "return → return 1 / mask.sum(1) / z.shape[2] *",
        "the costs are averaged over all steps: "
        "expected the sum over those that count": ".sum( → .mean(",
        "the sum over the bits of a vector is a mean: "
        "expected the sum over the sequence": ".sum((1, 2)) → .mean(2).sum(1)",
        "one number for the batch came back for every row: "
        "expected one for each sequence": ".sum((1, 2)) → .sum() * np.ones(len(z))",
        "the targets are the wrong way round: "
        "a 1 costs −log₂ p": "logits, -logits → -logits, logits",
        "the targets are not looked at: a 0 costs −log₂(1 − p)": "targets == 1 → True",
        "the sign is wrong: a cost is −log₂ p, and never negative": "return → return -",
        "the logits go through the "
        "sigmoid twice": "z = → logits = 1 / (1 + np.exp(-np.clip(logits, -500, 500)))\n    z =",
        "the logits are taken for probabilities: p = σ(logit)": (
            "np.logaddexp(0, -z) → -np.log(np.clip(np.where(targets == 1, z, 1 + z), 1e-12, 1 - "
            "1e-12))"
        ),
    },
)


@exercise("04.bits", title="What a sequence costs in bits", difficulty=2, minutes=8)
def bits(answer, ctx):
    batch, steps, width = ctx.sizes(batch=(1, 3), T=(1, 6), bits=(1, 5))
    logarithm = (
        "a large logit makes the sigmoid exactly 0 or 1, and log(0) is -inf: take the log of the "
        "sigmoid in one step"
    )
    power = (
        "e to the power of some hundreds is inf: take the logarithm of 1 + e^z in one step, as "
        "softplus does"
    )
    capped = (
        "costs are cut off at 100 nats: PyTorch's loss on probabilities does so; use the one on "
        "logits"
    )
    for size, nan in ((1.5, None), (12.0, logarithm), (300.0, power)):
        logits = size * ctx.normal(batch, steps, width)
        targets = ctx.integers(0, 2, batch, steps, width).float()
        mask = ctx.integers(0, 2, batch, steps).bool()
        mask[:, -1] = False
        mask[:, 0] = True
        # at 24 the sigmoid is 1 in float32, while e^24 is an ordinary number
        logits[0, 0, 0], targets[0, 0, 0] = 2 * size, 0
        if size < 2:  # where |z| and max(z, 0) have a kink, and an untrained model begins
            logits[0, 0, 0], targets[0, 0, 0] = 0, 1
        given = logits, targets, mask
        got = ctx.call(answer, *given)
        got = ctx.floats(got, "costs", (batch,), nan=nan, mention="one number a sequence")
        arrays = [array(part) for part in given]
        right, wrong = _COST(*arrays)
        if size > 10:
            p = torch.sigmoid(logits)  # in float32, where 1 − σ is exactly 0 from 17 on
            nats = -torch.where(targets == 1, p.log(), torch.log1p(-p)).clamp(min=-100)
            wrong[capped] = (array(nats) * arrays[2][..., None]).sum((1, 2)) / np.log(2)
        ctx.close(got, right, "costs", wrong)
        check_gradients(ctx, answer, given, {0: "logits"}, lambda z: _cost(z, *arrays[1:]))


def _followed(write, read):
    written, looked, n = write.argmax(1), read.argmax(1), len(write)
    delays = range(len(read) - n + 1)
    shares = [(looked[d : d + n] == written).mean() for d in delays]
    best = int(np.argmax(shares))
    return np.array([best, shares[best]])


_FOLLOWED = Slips(
    _followed,
    {
        "the share is the number of hits: "
        "divide by the number n of written vectors": "shares[best]] → shares[best] * n]",
        "the share is taken over all steps of the read head: "
        "expected over the n written vectors": "shares[best]] → shares[best] * n / len(read)]",
        "of two delays that fit equally well you return the later one: expected "
        "the earlier": "int(np.argmax(shares)) → len(shares) - 1 - int(np.argmax(shares[::-1]))",
        "the delay is counted from 1: step 0 of the read head is delay 0": "[best, → [best + 1,",
        "the delay with the largest overlap of the weights comes back: expected the one with the "
        "most hits of the "
        "peaks": "np.argmax(shares) → np.argmax([(read[d : d + n] * write).sum() for d in delays])",
        "the share is the overlap of the weights: expected the hits of the "
        "peaks": "(looked[d : d + n] == written).mean() → (read[d : d + n] * write).sum(1).mean()",
        "delay 0 is never tried": "np.argmax(shares) → np.argmax([-1.0, *shares[1:]])",
        "the last delay "
        "that fits, T − n, is never tried": "np.argmax(shares) → np.argmax([*shares[:-1], -1.0])",
        "share and delay are swapped: "
        "expected (delay, share)": "[best, shares[best]] → [shares[best], best]",
        "delays beyond T − n are tried, where only some of the vectors have a step left": (
            "range(len(read) - n + 1) → range(len(read))",
            "== written → == written[: len(read) - d]",
        ),
    },
)


@exercise("04.follow", title="Who follows whom", difficulty=2, minutes=8)
def follow(answer, ctx):
    n, more, slots = ctx.sizes(vectors=(1, 7), steps_more=(0, 9), slots=(2, 9))
    cases = []
    for delay in (ctx.integers(0, more + 1), more):
        slot, places = (ctx.integers(0, slots, count).tolist() for count in (n, n + more))
        places[delay : delay + n] = slot
        if n > 2:
            places[delay + 1] = (slot[1] + 1) % slots  # one miss
        cases.append((slot, places, slots))
    cases += [
        # two delays fit equally well
        ([1, 2, 1, 2], [0] * ctx.integers(1, 5) + [1, 2, 1, 2, 1, 2, 0], 3),
        ([0, 1, 2], [5] * ctx.integers(1, 5) + [0, 1, 2], 6),  # the last delay that fits
        ([3, 1, 2, 0], [3, 1, 2, 0, 3, 1, 2], 4),  # the first one
        ([0, 1, 2], [0, 1, 3, 4, 0], 6),  # beyond it a single row would fit
        ([0, 1], [2, 3, 4], 5),  # no hit at all
    ]
    pairs = [[_reading(ctx, row, slots) for row in (slot, places)] for slot, places, slots in cases]
    # most overlap where the peaks differ
    late = torch.tensor([[0.51, 0.49, 0.0], [0.49, 0.51, 0.0]])
    far = torch.tensor([[0.4, 0.3, 0.3], [0.3, 0.4, 0.3], [0.49, 0.51, 0.0], [1.0, 0.0, 0.0]])
    seen = []
    for write, read in [*pairs, (late, far)]:
        delay, share = ctx.parts(ctx.call(answer, write, read), ("delay", "share"))
        right, wrong = _FOLLOWED(array(write), array(read))
        if delay is None and not right[1]:
            ctx.fail(
                "None came back as the delay where nothing hits: all delays are equally good "
                "then, and the earliest is 0"
            )
        delay, share = ctx.number(delay, "delay"), ctx.number(share, "share")
        # a share of whole numbers is as good in float32
        share = right[1] if abs(share - right[1]) < 1e-6 else share
        seen.append((np.array([delay, share]), right, wrong))
    got, expected, wrong = zip(*seen)
    ctx.recognize(got, expected, {words: tuple(one[words] for one in wrong) for words in wrong[0]})
    for mine, right, _ in seen:
        ctx.close(mine[0], right[0], "delay")
        ctx.close(mine[1], right[1], "share")


def _reading(ctx, places, slots):
    """Weights ``(len(places), slots)`` that peak at these places, not always by much."""
    weights = ctx.weights(len(places), slots) / 2
    weights[torch.arange(len(places)), torch.tensor(places)] += 0.5
    return weights


def _predicted(bits, n):
    counts, said = {}, []
    for t, bit in enumerate(bits):
        if t < n - 1:
            said.append(0.5)
            continue
        seen = counts.setdefault(tuple(bits[t - n + 1 : t]), [0, 0])
        said.append((seen[1] + 0.5) / (sum(seen) + 1))
        seen[bit] += 1
    return np.array(said)


_PREDICTED = Slips(
    _predicted,
    {
        "1 is added to each count: that is the prior that holds all probabilities equally "
        "likely; Beta(½, ½) adds ½": ("+ 0.5 → + 1", "(sum(seen) + 1) → (sum(seen) + 2)"),
        "nothing is added to the counts: expected ½ to each": (
            "+ 0.5 → + 1e-12",
            "(sum(seen) + 1) → (sum(seen) + 2e-12)",
        ),
        "the bit that is to be predicted is counted, too: count after you have predicted": (
            "said.append((seen → seen[bit] += 1\n        said.append((seen",
            "+ 1))\n        seen[bit] += 1 → + 1))",
        ),
        "the context is n bits long: "
        "expected n − 1": "counts, said = → n = n + 1\n    counts, said =",
        "the context is n − 2 bits long: "
        "expected n − 1": "counts, said = → n = max(1, n - 1)\n    counts, said =",
        "the context is not looked at: "
        "each context has counts of its own": "counts, said = → n = 1\n    counts, said =",
        "these are the probabilities of a 0: expected of a 1": "seen[1] + → seen[0] +",
        "the probabilities are 0 before the first whole context: "
        "those bits are fair tosses, ½ each": "append(0.5) → append(0.0)",
        "the probabilities are shifted: "
        "entry t is the prediction of bit t": "np.array(said) → np.array([*said[1:], 0.5])",
        "every prediction is ½, as if no context came twice: are its counts found again, and do "
        "they grow? A tuple of tensors is a new key each time; "
        "make it of numbers, with .tolist()": "np.array(said) → np.full(len(said), 0.5)",
        "½ is added to the count of ones alone: "
        "the sum below needs both halves": "(sum(seen) + 1) → (sum(seen) + 0.5)",
    },
)


@exercise(
    "04.best_predictor", title="The best predictor of a hidden source", difficulty=3, minutes=12
)
def best_predictor(answer, ctx):
    drawn = ctx.sizes(n=(1, 5, 9), steps=(1, 40))
    for n, length in (drawn, (3, 40), (1, 12), (4, 3), (1, 1)):
        row = ctx.integers(0, 2, length)
        nan = "with nothing counted yet N1 / (N0 + N1) is 0/0: the prior adds ½ to each count"
        got = ctx.floats(ctx.call(answer, row, n), "probabilities", (length,), nan=nan)
        right, wrong = _PREDICTED(row.tolist(), n)
        ctx.close(got, right, "probabilities", wrong)


@exercise("04.program", title="Program the machine by hand", difficulty=4, minutes=15)
def program(answer, ctx):
    bits, slots = ctx.sizes(bits=(1, 6), slots=(1, 7))
    far = slots > 99  # one run of some hundred steps, and a part of it once more, are enough
    for n in (slots,) if far else (slots, max(1, slots - 1), 1):
        vectors, garbage = array(different(ctx, 1, n, bits)[0]), array(ctx.normal(slots, bits))
        calls = []

        def reader(phase, vector):
            heads = _heads(answer, ctx, phase, vector)
            calls.append((phase, vector, heads))
            return heads

        output = _machine(reader, vectors, garbage)
        if not far or not ctx.same(output, vectors):
            ctx.recognize(output, *_SAID(vectors, garbage))
        ctx.close(output, vectors, "the vectors that your machine says")
        # the machine of another time: nothing may be left from the calls before
        for phase, vector, heads in calls[:: -1 - len(calls) // 50] + calls[-1:]:
            again = _heads(answer, ctx, phase, vector)
            if not all(ctx.same(*parts) for k in range(2) for parts in zip(heads[k], again[k])):
                ctx.fail(
                    f"your program remembers something between calls: called in another order it "
                    f"answers {phase!r} with something else. Look at phase and vector alone"
                )


def _heads(answer, ctx, phase, vector):
    """What the program answers at one step: [gate, shift], [gate, shift, erase, add]."""
    width = (len(vector),)
    got = ctx.call(answer, phase, torch.tensor(vector, dtype=torch.float32))
    heads = []
    for name, head in zip(("read", "write"), ctx.parts(got, ("read", "write"))):
        parts = ("gate", "shift", "erase", "add")[: 2 if name == "read" else 4]
        gate, shift, *rest = ctx.parts(head, parts)
        gate = ctx.number(gate, f"the gate of the {name} head")
        of_shift = f"the shift of the {name} head"
        shift = array(ctx.floats(exact(shift), of_shift, (3,), mention="for the moves −1, 0, +1"))
        if not 0 <= gate <= 1:
            ctx.fail(f"the gate of the {name} head is {gate:g}, expected a number from 0 to 1")
        if shift.min() < 0 or abs(shift.sum() - 1) > 1e-5:
            ctx.fail(f"{of_shift} is no distribution: it adds up to {shift.sum():g}, expected 1")
        mention = "one entry a column of the memory"
        rest = [
            array(ctx.floats(exact(part), what, width, mention=mention))
            for part, what in zip(rest, ("erase", "add"))
        ]
        if rest and (rest[0].min() < 0 or rest[0].max() > 1):
            ctx.fail("erase has to lie between 0 and 1")
        heads.append([gate, shift, *rest])
    return heads


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
