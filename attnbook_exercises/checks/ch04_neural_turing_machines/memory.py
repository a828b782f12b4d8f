"""Checks of the section on the memory of a Neural Turing Machine: addressing on paper, longer
lists, reading and writing, shifts in both forms, sharpening, all four stages.
"""

import numpy as np
import torch

from ..context import array, softmax
from ..gradient_check import check_gradients
from ..registry import exercise
from ..slips import Slips, on_paper


@on_paper(
    "04.step_back",
    "the weight of slot 3",
    title="Look it up, then step back",
    difficulty=1,
    minutes=5,
    within=0.006,
)
def step_back():
    def weight(g=0.6, move=-1, gamma=2, around=True, divided=True):
        w = g * np.array([0.1, 0.7, 0.1, 0.1]) + (1 - g) * np.array([1.0, 0, 0, 0])
        w = np.roll(w, move)
        w[3] = w[3] if around else 0
        return w[3] ** gamma / ((w**gamma).sum() if divided else 1)

    return weight(), {
        "the move goes the wrong way, or nothing has moved: −1 brings the weight of slot 0 to "
        "slot 3, that of slot 1 to slot 0": weight(move=1),
        "the weights are not sharpened yet: square all four, then divide by the sum of the "
        "squares": weight(gamma=1),
        "the squares are not divided by their sum": weight(divided=False),
        "the gate is the wrong way round: 0.6 is the share of the content weights": weight(g=0.4),
        "the weights of the step before are left out: they have a share of 0.4": weight(g=1),
        "the content weights are left out: they have a share of 0.6": weight(g=0),
        "the slots lie on a ring: what leaves slot 0 downwards comes in at slot 3": weight(
            around=False
        ),
        "γ is a power: the weights are squared, not doubled": 2 * weight(gamma=1),
    }


@exercise("04.longer_list", title="Predict: A list of seven rows", difficulty=1, minutes=5)
def longer_list(answer, ctx):
    return ctx.predicted(answer, "a guess", "about three of seven", "nearly all")


@exercise("04.erase_and_add", title="Erase, then add", difficulty=1, minutes=5)
def erase_and_add(answer, ctx):
    batch, heads, n, m = ctx.sizes(batch=(1, 3), heads=(1, 4), n=(1, 6), d=(1, 4))
    memory, weights = ctx.normal(batch, n, m), ctx.weights(batch, heads, n)
    erase, add = ctx.weights(batch, heads, m) ** 0.3, ctx.normal(batch, heads, m)
    # one head wipes one slot, and nothing else
    weights[0, 0], erase[0, 0] = torch.eye(n)[ctx.integers(0, n)], 1.0
    got = ctx.floats(
        ctx.call(answer, memory, weights, erase, add),
        "memory",
        (batch, n, m),
        mention="as the memory that came in",
    )
    old, w, e, a = (array(part) for part in (memory, weights, erase, add))
    outer = w[..., None] * e[:, :, None]  # (batch, heads, n, m)
    erased, added = (1 - outer).prod(1), np.einsum("bhn,bhm->bnm", w, a)
    one_by_one = old
    for h in range(heads):
        one_by_one = one_by_one * (1 - outer[:, h]) + w[:, h, :, None] * a[:, h, None]
    wrong = {
        "add comes before erase: expected all erasures first": (old + added) * erased,
        "each head erases and adds before the next one does: expected all erasures first, then "
        "all that is added": one_by_one,
        "the erasures of the heads are added up: expected the product of all (1 − w e)": old
        * (1 - outer.sum(1))
        + added,
        "nothing is erased": old + added,
        "nothing is added": old * erased,
        "erase keeps where it should wipe: a slot keeps 1 − w e of what it holds": old
        * outer.prod(1)
        + added,
        "only the first head writes: expected all heads": old * (1 - outer[:, 0])
        + w[:, 0, :, None] * a[:, 0, None],
        "the erase vector is not weighted: every slot is wiped alike": old
        * (1 - e).prod(1)[:, None]
        + added,
        "what is added is not weighted: every slot gets it whole": old * erased + a.sum(1)[:, None],
    }
    ctx.close(got, old * erased + added, "memory", wrong)

    def written(m, w, e, a):
        return m * (1 - w[..., None] * e[:, :, None]).prod(1) + np.einsum("bhn,bhm->bnm", w, a)

    check_gradients(
        ctx,
        answer,
        (memory, weights, erase, add),
        {0: "memory", 1: "weights", 2: "erase", 3: "add"},
        written,
    )


@exercise("04.shift", title="Move along the slots", difficulty=2, minutes=10)
def shift(answer, ctx):
    drawn = ctx.sizes(batch=(1, 3), heads=(1, 3), n=(3, 9), R=(0, 3))
    for batch, heads, n, reach in (drawn, (2, 2, 2, 5)):  # and once round more than once
        weights, kernel = ctx.weights(batch, heads, n), ctx.weights(batch, heads, 2 * reach + 1)
        got = ctx.floats(
            ctx.call(answer, weights, kernel),
            "weights",
            (batch, heads, n),
            mention="as the weights that came in",
        )
        w, s = array(weights), array(kernel)

        def moved(w, s, sign=1, first=-reach, around=True):
            out = np.zeros_like(w)
            for j in range(s.shape[-1]):
                k = sign * (j + first)
                part = np.roll(w, k, -1)
                if not around and k > 0:
                    part[..., :k] = 0
                if not around and k < 0:
                    part[..., k:] = 0
                out += s[..., j, None] * part
            return out

        wrong = {
            "the shift goes the wrong way: entry j of the kernel is the shift j − R, and a "
            "positive shift moves to higher slots": moved(w, s, sign=-1),
            "the shifts start at 0: entry j of the kernel is the shift j − R": moved(w, s, first=0),
            "weight is lost at the ends: the slots go round, the last one is followed by the "
            "first": moved(w, s, around=False),
            "weight is lost at the ends, and the shift goes the wrong way": moved(
                w, s, sign=-1, around=False
            ),
            "every head moves by the kernel of the first head": moved(
                w, np.repeat(s[:, :1], heads, 1)
            ),
            "every row moves by the kernel of the first row of the batch": moved(
                w, np.repeat(s[:1], batch, 0)
            ),
            "only the likeliest shift is made: expected the sum over all shifts": moved(
                w, s == s.max(-1, keepdims=True)
            ),
        }
        ctx.close(got, moved(w, s), "weights", wrong)
        check_gradients(ctx, answer, (weights, kernel), {0: "weights", 1: "kernel"}, moved)


@exercise("04.scalar_shift", title="A shift from one number", difficulty=2, minutes=10)
def scalar_shift(answer, ctx):
    reach, count = ctx.sizes(R=(1, 4), count=(1, 11))
    u = (2 * reach - 0.2) * (ctx.weights(count, 2)[:, 0] - 0.5)
    u[:4] = torch.tensor([reach - 0.3, -0.3, -reach, reach])[:count]
    got = ctx.floats(
        ctx.call(answer, u, reach),
        "kernel",
        (count, 2 * reach + 1),
        mention="one row a number, one column a shift",
    )
    numbers, shifts = array(u)[:, None], np.arange(-reach, reach + 1)

    def spread(low, down, up):
        return (shifts == low) * down + (shifts == low + 1) * up

    low = np.floor(numbers)
    part = numbers - low
    toward_zero = np.trunc(numbers)
    wrong = {
        "the two masses are swapped: 6.7 means 0.3 on 6 and 0.7 on 7": spread(low, part, 1 - part),
        "the number is rounded to one whole shift: its fraction is what the gradient needs": 1.0
        * (shifts == np.round(numbers)),
        "all mass lies on the lower shift": 1.0 * (shifts == low),
        "negative numbers are cut toward 0: the whole shift below −0.3 is −1": spread(
            toward_zero, 1 - abs(numbers - toward_zero), abs(numbers - toward_zero)
        ),
        "the columns run from R down to −R: expected from −R up": spread(low, 1 - part, part)[
            :, ::-1
        ],
        "the first column is taken for shift 0: it is shift −R": (shifts + reach == low)
        * (1 - part)
        + (shifts + reach == low + 1) * part,
        "negative shifts are lost: the columns run from −R to R": spread(low, 1 - part, part)
        * (shifts >= 0),
        "the kernel of u = R is empty: there is no shift R + 1, and its mass, 0, must not "
        "overwrite that of shift R": spread(low, 1 - part, part) * (numbers < reach),
    }
    ctx.close(got, spread(low, 1 - part, part), "kernel", wrong)
    # no integers: there it has a corner
    between = ctx.integers(-reach, reach, count) + 0.1 + 0.8 * ctx.weights(count, 2)[:, 0]
    check_gradients(
        ctx,
        answer,
        (between, reach),
        {0: "u"},
        lambda u: np.maximum(0, 1 - abs(u[:, None] - shifts)),
    )


@exercise("04.sharpen", title="Sharpen without NaN", difficulty=2, minutes=15)
def sharpen(answer, ctx):
    # two slots at least: one that is 0, one that is not
    batch, heads, n = ctx.sizes(batch=(1, 3), heads=(1, 4), n=(2, 7))
    weights, gamma = ctx.weights(batch, heads, n), 1 + ctx.weights(batch, heads) * 4
    weights[0, 0, -1], weights[-1, -1, 1:] = 0, 0
    gamma[0, -1] = 1.0

    def compare(weights, gamma, name, nan=None):
        got = ctx.floats(ctx.call(answer, weights, gamma), name, (batch, heads, n), nan=nan)
        w, g = array(weights), array(gamma)[..., None]
        with np.errstate(all="ignore"):
            powers = np.where(
                w > 0,
                np.exp(g * np.log(np.where(w > 0, w, 1)) - (g * np.log(w.max(-1, keepdims=True)))),
                0,
            )
            powers_alone = np.where(w > 0, w, 0) ** g
            # float32, where they underflow
            single = (weights ** gamma[..., None]).numpy().astype(float)
            total = single.sum(-1, keepdims=True)
            wrong = {
                "where all powers have become 0 everything lies on the largest weight: equal "
                "weights have to share it, near ones nearly": np.where(
                    total > 0, single / np.where(total > 0, total, 1), np.eye(n)[w.argmax(-1)]
                ),
                **{
                    f"{epsilon:g} is added to the weights, and all could be as small: raise only "
                    f"what is below the smallest positive number": softmax(g * np.log(w + epsilon))
                    for epsilon in (1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-10)
                },
                "the weights are raised to 1e-6 or more, and all could be as small: raise only "
                "what is below the smallest positive number": softmax(
                    g * np.log(np.maximum(w, 1e-6))
                ),
                "all powers have become 0, and a small number under them leaves 0: stay with γ "
                "log w until the softmax": 0 * w,
                "the powers are not divided by their sum": powers_alone,
                "the softmax takes the weights themselves: expected γ log w": softmax(g * w),
                "the powers are divided by their largest: expected by their sum": powers_alone
                / powers_alone.max(-1, keepdims=True),
                "γ is not used, or the division takes it out again": w / w.sum(-1, keepdims=True),
                "the powers are added up over the heads: expected over the slots": powers_alone
                / powers_alone.sum(1, keepdims=True),
                "the weights are taken to the power 1/γ: that blurs": softmax(
                    np.log(np.maximum(w, 1e-38)) / g
                ),
            }
        ctx.close(got, powers / powers.sum(-1, keepdims=True), name, wrong)

    compare(
        weights,
        gamma,
        "weights",
        nan="log 0 is −∞ and 0 · −∞ is NaN: keep the zeros out of the logarithm",
    )
    underflow = "all powers have become 0, and 0/0 is NaN: stay with γ log w until the softmax"
    compare(0.02 * ctx.weights(batch, heads, n), 30 * gamma, "weights for a large γ", nan=underflow)
    compare(
        1e-6 * ctx.weights(batch, heads, n), gamma, "weights, all of them small,", nan=underflow
    )
    ties = ctx.weights(batch, heads, n) / 4
    ties[..., ctx.order(n)[:2]] = 0.4
    compare(ties, 0 * gamma + 2000, "weights for γ = 2000 and two equal ones", nan=underflow)
    gamma = 2 + 2 * ctx.weights(batch, heads)  # the gradient at a weight of 0 is 0 then
    there = array(weights) > 0

    def sharpened(w, g):
        powers = np.where(there, np.abs(w) ** g[..., None], 0)
        return powers / powers.sum(-1, keepdims=True)

    check_gradients(
        ctx,
        answer,
        (weights, gamma),
        {0: "weights", 1: "gamma"},
        sharpened,
        nan="log 0 is −inf: the value is right, its slope is NaN. Raise the weights to the "
        "smallest positive number first",
    )


def _address(memory, previous, key, strength, gate, kernel, gamma):
    kk, mm = (key**2).sum(-1, keepdims=True), (memory**2).sum(-1)[:, None]
    cosine = key @ memory.swapaxes(1, 2) / np.sqrt((kk + 1e-8) * (mm + 1e-8))
    content = softmax(strength[..., None] * cosine)
    mixed = gate[..., None] * content + (1 - gate[..., None]) * previous
    moves = np.arange(kernel.shape[-1]) - kernel.shape[-1] // 2
    shifted = sum(kernel[..., j, None] * np.roll(mixed, k, -1) for j, k in enumerate(moves))
    powers = shifted ** gamma[..., None]
    return powers / powers.sum(-1, keepdims=True)


_ADDRESS = Slips(
    _address,
    {
        "sharpening comes before the shift: it is there to undo the blur of the shift": (
            "moves = → mixed = mixed ** gamma[..., None]\n    mixed = mixed / mixed.sum(-1, "
            "keepdims=True)\n    moves =",
            "shifted ** gamma[..., None] → shifted",
        ),
        "the gate is the wrong way round: g is the share of the content weights": (
            "content + (1 - gate[..., None]) * previous → previous + (1 - gate[..., None]) * "
            "content"
        ),
        "the shift goes the wrong way: "
        "entry j is the shift j − R, positive to higher slots": "mixed, k → mixed, -k",
        "the shift comes before the interpolation": (
            "mixed, k → content, k",
            "powers = shifted → powers = (gate[..., None] * shifted + (1 - gate[..., None]) * "
            "previous)",
        ),
        "the scores are dot products: "
        "expected the cosine": "/ np.sqrt((kk + 1e-8) * (mm + 1e-8)) →",
        "the strength β is not used, or it is multiplied into the key: "
        "the cosine cancels a factor in the key": "strength[..., None] * →",
        "the softmax of the content weights runs over the heads: "
        "expected over the slots": "* cosine) → * cosine, 1)",
        "there is no sharpening": "** gamma[..., None] →",
        "there is no shift": "powers = shifted → powers = mixed",
        "the previous weights are not "
        "used": "gate[..., None] * content + (1 - gate[..., None]) * previous → content",
        "the powers are not divided by their sum": "/ powers.sum(-1, keepdims=True) →",
        "nearly empty slots have a cosine of full size: add 1e-8 under the root, to both squares; "
        "a lower bound of the lengths does not do "
        "it": "np.sqrt((kk + 1e-8) * (mm + 1e-8)) → np.sqrt(np.maximum(kk * mm, 1e-300))",
        "nearly empty slots have a cosine of nearly full size: add 1e-8 under the root, to both "
        "squares, not to the "
        "lengths": "np.sqrt((kk + 1e-8) * (mm + 1e-8)) → (np.sqrt(kk * mm) + 1e-8)",
        "1e-8 is added to the product of the squares: add it to each of them, (k·k + ε)(m·m + "
        "ε)": "np.sqrt((kk + 1e-8) * (mm + 1e-8)) → np.sqrt(kk * mm + 1e-8)",
    },
)


@exercise("04.address", title="All four stages", difficulty=3, minutes=20)
def address(answer, ctx):
    # as many slots as the longest shift, or a circular padding is too short; of a single column the
    # cosine is a sign, and its gradient all rounding
    batch, heads, n, m, reach = ctx.sizes(batch=(1, 3), heads=(1, 3), n=(2, 6), d=(2, 5), R=(0, 2))
    given = [
        ctx.normal(batch, n, m),
        ctx.weights(batch, heads, n),
        ctx.normal(batch, heads, m),
        4 * ctx.weights(batch, heads) + 1,
        0.2 + 0.6 * ctx.weights(batch, heads),
        ctx.weights(batch, heads, 2 * reach + 1),
        1 + 3 * ctx.weights(batch, heads),
    ]
    name = "weights"
    for _ in range(2):
        got = ctx.call(answer, *given)
        got = ctx.floats(got, name, (batch, heads, n), mention="one row a head, one column a slot")
        right, wrong = _ADDRESS(*map(array, given))
        ctx.close(got, right, name, wrong)
        given[0] = given[0].clone()
        given[0][:, 1::2] *= 1e-6  # slots that nobody has written to
        name = "weights for a memory with nearly empty slots"
    names = {
        0: "memory",
        1: "previous",
        2: "key",
        3: "strength",
        4: "gate",
        5: "kernel",
        6: "gamma",
    }
    given[0] = ctx.normal(batch, n, m)
    check_gradients(ctx, answer, given, names, _address)
    sure = list(given)  # each head looks for the first slot, and takes nothing else
    sure[2] = given[0][:, :1].expand(-1, heads, -1)
    sure[3] = 100 + 0 * given[3]
    name = "weights for a strength of 100 and a key that a slot holds"
    nan = "exp overflows for a large strength: use softmax, which takes the largest score off"
    got = ctx.floats(ctx.call(answer, *sure), name, (batch, heads, n), nan=nan)
    ctx.close(got, _address(*(array(part) for part in sure)), name)
    shut = list(given)  # each head stands on one slot, does not look, and makes one whole move
    shut[1] = torch.eye(n)[ctx.integers(0, n, batch, heads)]
    shut[4] = 0 * given[4]
    shut[5] = torch.eye(2 * reach + 1)[ctx.integers(0, 2 * reach + 1, batch, heads)]
    shut[6] = 1 + 0 * given[6]  # then a weight that was raised is what it was raised to
    even = list(shut)  # each head is everywhere alike
    even[1], even[6] = torch.full((batch, heads, n), 1 / n), 200 + 0 * given[6]
    numbers, zeros = [array(part) for part in shut], "weights for a gate of 0 and a whole move"
    got = ctx.floats(ctx.call(answer, *shut), zeros, (batch, heads, n))
    ctx.close(got, _address(*numbers), zeros)
    raised = array(got)[_address(*numbers) < 1e-30].max(initial=0.0)
    if raised > 2e-8:
        ctx.fail(
            f"for γ = 1 a weight that is 0 after the shift becomes {raised:.1g}: raise it to the "
            f"smallest positive number, about 1e-38, before the logarithm"
        )
    nan = "all powers have become 0, and 0/0 is NaN: stay with γ log w until the softmax"
    name = "equal weights for γ = 200"
    got = ctx.floats(ctx.call(answer, *even), name, (batch, heads, n), nan=nan)
    ctx.close(got, np.full((batch, heads, n), 1 / n), name)
    memory, previous, key, _, gate, kernel, _ = numbers
    shut[6] = 2 + 0 * given[6]  # what so small a number leaves in the slope is nothing
    check_gradients(
        ctx,
        answer,
        shut,
        {3: "strength", 6: "gamma"},
        lambda strength, gamma: _address(memory, previous, key, strength, gate, kernel, gamma),
        nan="some weights are 0 after the shift, and log 0 has no slope: raise them to the "
        "smallest positive number first",
    )
    given[0], given[2] = 0 * given[0], given[2].clone()
    given[2][:, 0] = 0
    got = ctx.floats(
        ctx.call(answer, *given),
        "weights for an empty memory and a key of zeros",
        (batch, heads, n),
        nan="the norm of a slot of zeros is 0, and 0/0 is NaN: add 1e-8 under the root",
    )
    ctx.close(
        got,
        _address(*(array(part) for part in given)),
        "weights for an empty memory and a key of zeros",
    )
    given[2] = ctx.normal(batch, heads, m)
    numbers = [array(part) for part in given[1:]]
    check_gradients(
        ctx,
        answer,
        given,
        {0: "an empty memory"},
        lambda empty: _address(empty, *numbers),
        step=1e-7,
        nan="the root of 0 has an infinite slope; add 1e-8 to each of the two squares, under the "
        "root",
    )
