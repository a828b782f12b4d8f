"""Checks of the section on the memory of a Neural Turing Machine: addressing on paper, shifts,
longer lists, two heads that write, sharpening, content weights that are cheap, and free slots.
"""

import numpy as np
import torch

from ...answers.flop_counter import largest
from ..context import array, softmax
from ..gradient_check import check_finite_gradients, check_gradients
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


def _moved(weights, kernel):
    shifts = np.arange(kernel.shape[-1]) - kernel.shape[-1] // 2
    moved = [np.roll(weights, k, -1) for k in shifts]
    return sum(kernel[..., j, None] * part for j, part in enumerate(moved))


_MOVED = Slips(
    _moved,
    {
        "the shift goes the wrong way: entry j of the kernel is the shift j − R, and a positive "
        "shift moves to higher slots": "weights, k → weights, -k",
        "the "
        "shifts start at 0: entry j of the kernel is the shift j − R": "- kernel.shape[-1] // 2 →",
        "weight is lost at the ends: the slots go round, the last one is followed by the first": (
            "np.roll(weights, k, -1) → np.pad(weights, ((0, 0), (0, 0), (9, 9)))[..., 9 - k :]"
            "[..., : weights.shape[-1]]"
        ),
        "weight is lost at the ends, and the shift goes the wrong way": (
            "np.roll(weights, k, -1) → np.pad(weights, ((0, 0), (0, 0), (9, 9)))[..., 9 + k :]"
            "[..., : weights.shape[-1]]"
        ),
        "every head moves by the kernel of the first head": "kernel[..., j, → kernel[:, :1, j,",
        "every row "
        "moves by the kernel of the first row of the batch": "kernel[..., j, → kernel[:1, :, j,",
        "only the likeliest shift is made: expected the "
        "sum over all shifts": "kernel[..., j, → (kernel == kernel.max(-1, keepdims=True))[..., j,",
    },
)


@exercise("04.shift", title="Move along the slots", difficulty=2, minutes=10)
def shift(answer, ctx):
    drawn = ctx.sizes(batch=(1, 3), heads=(1, 3), n=(3, 9), R=(0, 3))
    for batch, heads, n, reach in (drawn, (2, 2, 2, 5)):  # and once round more than once
        weights, kernel = ctx.weights(batch, heads, n), ctx.weights(batch, heads, 2 * reach + 1)
        got = ctx.call(answer, weights, kernel)
        mention = "as the weights that came in"
        got = ctx.floats(got, "weights", (batch, heads, n), mention=mention)
        right, wrong = _MOVED(array(weights), array(kernel))
        ctx.close(got, right, "weights", wrong)
        check_gradients(ctx, answer, (weights, kernel), {0: "weights", 1: "kernel"}, _moved)


@exercise("04.longer_list", title="Predict: A list of seven rows", difficulty=1, minutes=5)
def longer_list(answer, ctx):
    return ctx.predicted(answer, "a guess", "about three of seven", "nearly all")


def _written(memory, weights, erase, add):
    w, e = weights[..., None], erase[:, :, None]
    kept, added = (1 - w * e).prod(1), np.einsum("bhn,bhm->bnm", weights, add)
    return memory * kept + added


_WRITTEN = Slips(
    _written,
    {
        "add comes before "
        "erase: expected all erasures first": "memory * kept + added → (memory + added) * kept",
        "each head erases and adds before the next one does: expected all erasures first, then "
        "all that is added": (
            "return memory * kept + added → for h in range(w.shape[1]):\n        memory = memory * "
            "(1 - w[:, h] * e[:, h]) + w[:, h] * add[:, h, None]\n    return memory"
        ),
        "the erasures of the heads are added "
        "up: expected the product of all (1 − w e)": "(1 - w * e).prod(1) → 1 - (w * e).sum(1)",
        "it runs, but what is left of a slot is added up over the heads: one that wipes nothing "
        "doubles it. Expected the product of all (1 − w e)": "(1 - w * e).prod(1) → (1 - w * e)"
        ".sum(1)",
        "it runs, but what is left of a slot is the mean over the heads: of two that wipe it all "
        "and nothing, half is left. Expected the product of all (1 − w e)": (
            "(1 - w * e).prod(1) → (1 - w * e).mean(1)"
        ),
        "nothing is erased": "* kept →",
        "nothing is added": "+ added →",
        "erase "
        "keeps where it should wipe: a slot keeps 1 − w e of what it holds": "1 - w * e → w * e",
        "only the first head writes: expected all heads": (
            "(1 - w * e) → (1 - w * e)[:, :1]",
            "weights, add) → weights[:, :1], add[:, :1])",
        ),
        "the erase vector is not weighted: every slot is wiped alike": "1 - w * e → 1 - e",
        "what "
        "is added is not weighted: every slot gets it whole": "+ added → + add.sum(1)[:, None]",
    },
)


@exercise("04.erase_and_add", title="Shape error: Two heads that write", difficulty=2, minutes=8)
def erase_and_add(answer, ctx):
    batch, heads, n, m = ctx.sizes(batch=(1, 3), heads=(1, 4), n=(1, 6), d=(1, 4))
    memory, weights = ctx.normal(batch, n, m), ctx.weights(batch, heads, n)
    erase, add = ctx.weights(batch, heads, m) ** 0.3, ctx.normal(batch, heads, m)
    # one head wipes one slot, and nothing else
    weights[0, 0], erase[0, 0] = torch.eye(n)[ctx.integers(0, n)], 1.0
    given = memory, weights, erase, add
    got = ctx.call(answer, *given)
    got = ctx.floats(got, "memory", (batch, n, m), mention="as the memory that came in")
    right, wrong = _WRITTEN(*map(array, given))
    ctx.close(got, right, "memory", wrong)
    names = dict(enumerate(("memory", "weights", "erase", "add")))
    check_gradients(ctx, answer, given, names, _written)


def _sharpened(w, gamma):
    g, some = gamma[..., None], w > 0
    logs = g * np.log(np.where(some, w, 1))
    result = softmax(np.where(some, logs, -np.inf))
    return result


def _patched(w, g):
    """In float32, where all powers may be 0; then the largest weight has it all."""
    powers = (w.astype(np.float32) ** g.astype(np.float32)).astype(float)
    total = powers.sum(-1, keepdims=True)
    ahead = np.eye(w.shape[-1])[w.argmax(-1)]
    return np.where(total > 0, powers / np.where(total > 0, total, 1), ahead)


_SHARPENED = Slips(
    _sharpened,
    {
        "where all powers have become 0 everything lies on the largest weight: equal weights "
        "have to share it, near ones nearly": "return result → return _patched(w, g)",
        **{
            f"{epsilon:g} is added to the weights, and all could be as small: raise only what is "
            f"below the smallest positive number": "return result → return softmax(g * np.log(w + "
            f"{epsilon}))"
            for epsilon in (1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-10)
        },
        "the weights are raised to 1e-6 or more, and all could be as small: raise only what is "
        "below the smallest "
        "positive number": "return result → return softmax(g * np.log(np.maximum(w, 1e-6)))",
        "all powers have become 0, and the weights stay 0: stay with γ log w "
        "until the softmax": "return result → return 0 * w",
        "the powers are not divided by their sum": "return result → return w**g",
        "the softmax "
        "takes the weights themselves: expected γ log w": "return result → return softmax(g * w)",
        "the powers are divided by their largest: "
        "expected by their sum": "return result → return w**g / (w**g).max(-1, keepdims=True)",
        "γ is not used, "
        "or the division takes it out again": "return result → return w / w.sum(-1, keepdims=True)",
        "the powers are added up over the heads: "
        "expected over the slots": "return result → return w**g / (w**g).sum(1, keepdims=True)",
        "the weights are taken to the "
        "power 1/γ: that blurs": "return result → return softmax(np.log(np.maximum(w, 1e-38)) / g)",
    },
)


@exercise("04.sharpen", title="Sharpen without NaN", difficulty=2, minutes=15)
def sharpen(answer, ctx):
    # two slots at least: one that is 0, one that is not
    batch, heads, n = ctx.sizes(batch=(1, 3), heads=(1, 4), n=(2, 7))
    weights, gamma = ctx.weights(batch, heads, n), 1 + ctx.weights(batch, heads) * 4
    weights[0, 0, -1], weights[-1, -1, 1:] = 0, 0
    gamma[0, -1] = 1.0
    ties = ctx.weights(batch, heads, n) / 4
    ties[..., ctx.order(n)[:2]] = 0.4
    scales = ctx.weights(batch, heads, n) * 1e-10 ** torch.arange(batch * heads).reshape(
        batch, heads, 1
    ).remainder(3)
    peaked = torch.zeros(batch, heads, n)
    peaked[..., ctx.integers(0, n)] = 1.0
    zeros = "log 0 is −∞ and 0 · −∞ is NaN: keep the zeros out of the logarithm"
    underflow = "all powers have become 0, and 0/0 is NaN: stay with γ log w until the softmax"
    for w, g, name, nan in (
        (weights, gamma, "weights", zeros),
        (0.02 * ctx.weights(batch, heads, n), 30 * gamma, "weights for a large γ", underflow),
        (1e-6 * ctx.weights(batch, heads, n), gamma, "weights, all of them small,", underflow),
        (ties, 0 * gamma + 2000, "weights for γ = 2000 and two equal ones", underflow),
        (scales, gamma, "weights, of rows that differ by a factor of 1e20,", underflow),
        (peaked, 0 * gamma + 1, "weights that are 0 but for one, for γ = 1,", underflow),
    ):
        got = ctx.floats(ctx.call(answer, w, g), name, (batch, heads, n), nan=nan)
        right, wrong = _SHARPENED(array(w), array(g))
        ctx.close(got, right, name, wrong)
    gamma = 2 + 2 * ctx.weights(batch, heads)  # the gradient at a weight of 0 is 0 then
    there = array(weights) > 0

    def sharpened(w, g):
        powers = np.where(there, np.abs(w) ** g[..., None], 0)
        return powers / powers.sum(-1, keepdims=True)

    nan = (
        "log 0 is −inf: the value is right, its slope is NaN. Raise the weights to the smallest "
        "positive number first"
    )
    check_gradients(ctx, answer, (weights, gamma), {0: "weights", 1: "gamma"}, sharpened, nan=nan)


def _content(memory, key, strength):
    lengths = np.linalg.norm(key, axis=-1)[..., None] * np.linalg.norm(memory, axis=-1)[:, None]
    products = key @ memory.swapaxes(1, 2)
    cosine = products / np.where(lengths > 0, lengths, 1)
    return softmax(strength[..., None] * cosine)


_CONTENT = Slips(
    _content,
    {
        "the scores are inner products: expected cosines": "np.where(lengths > 0, lengths, 1) → 1",
        "the inner products are divided by the lengths of the slots alone: the keys have lengths, "
        "too": "np.linalg.norm(key, axis=-1)[..., None] * →",
        "the inner products are divided by the lengths of the keys alone: the slots have lengths, "
        "too": "* np.linalg.norm(memory, axis=-1)[:, None] →",
        "the softmax runs over the heads: expected over the slots": "* cosine) → * cosine, 1)",
        "the strength is not used, or it is multiplied into the key before that is divided by its "
        "length": "strength[..., None] * →",
        "these are the cosines: expected their softmax": "softmax(strength[..., None] * cosine) → "
        "cosine",
        "every head has the key of the first one": "= key @ → = key[:, :1] @",
    },
)


@exercise(
    "04.content_weights",
    title="Make it fast: Every key against every slot",
    difficulty=3,
    minutes=10,
)
def content_weights(answer, ctx):
    # of a single column the cosine is a sign, whose gradient is all rounding
    batch, heads, n, d = ctx.sizes(batch=(1, 3), heads=(1, 4), n=(1, 7), d=(2, 5))
    memory, key = ctx.normal(batch, n, d), 2 * ctx.normal(batch, heads, d)
    strength = 4 * ctx.weights(batch, heads) + 1
    empty, nothing = memory.clone(), key.clone()
    empty[:, ::2], nothing[:, 0] = 0, 0
    for given, name, nan in (
        ((memory, key, strength), "the weights", None),
        (
            (empty, nothing, strength),
            "the weights for empty slots and a key of zeros",
            "a vector of zeros has the length 0, and 0/0 is NaN: give the lengths a lower bound",
        ),
        ((1e-5 * memory, 1e-5 * key, strength), "the weights for short vectors", None),
        (
            (memory, memory[:, :1].expand(-1, heads, -1), 40 + 40 * strength),
            "the weights for a large strength and a key that a slot holds",
            "exp overflows: use softmax, which takes the largest score off first",
        ),
    ):
        got = ctx.floats(ctx.call(answer, *given), name, (batch, heads, n), nan=nan)
        right, wrong = _CONTENT(*map(array, given))
        ctx.close(got, right, name, wrong)
    names = {0: "memory", 1: "key", 2: "strength"}
    check_gradients(ctx, answer, (memory, key, strength), names, _content)
    root = (
        "a memory begins with empty slots, and the root of 0 has no slope: a bound has to stand "
        "below the root, or use PyTorch's norm"
    )
    check_finite_gradients(ctx, answer, (empty, nothing, strength), names, root)
    if ctx.case or min(batch, heads, n) == 1:
        return  # one run with a large memory is enough
    watch = largest()

    def watched(*given):
        with watch:
            return answer(*given)

    ctx.call(watched, ctx.normal(1, 64, 16), ctx.normal(1, 8, 16), ctx.weights(1, 8))
    if watch.count > 2 * 4 * 64 * 16:
        ctx.fail(
            f"the weights are right, but of a memory of {64 * 16} numbers and 8 heads a tensor of "
            f"{watch.count // 4} is made: let a matrix product add up the products of the entries"
        )
    # The same from outside, where no answer can change the count: of these heads and slots
    # H · N · d numbers are 4 GB, which a sandbox does not have.
    heads, n, d = 256, 4096, 1024
    given = ctx.normal(1, n, d), ctx.normal(1, heads, d), 9 * ctx.weights(1, heads)
    got = ctx.floats(ctx.call(answer, *given), "the weights of many heads", (1, heads, n))
    ctx.close(got, _content(*map(array, given)), "the weights of many heads")


def _allocated(usage, write, reads, free):
    kept = (1 - free[..., None] * reads).prod(1)
    used = (usage + write - usage * write) * kept
    slots = used.argsort(-1)
    ranked = np.take_along_axis(used, slots, -1)
    before = np.cumprod(ranked, -1) / ranked
    result = np.empty_like(used)
    np.put_along_axis(result, slots, (1 - ranked) * before, -1)
    return result


_ALLOCATED = Slips(
    _allocated,
    {
        "the product has the slot's own usage in it: expected those of the slots before it in the "
        "free list": "/ ranked →",
        "the fullest slot comes first: the free list begins with the lowest usage": (
            "used.argsort(-1) → (-used).argsort(-1)"
        ),
        "the weights stand in the order of the free list: slot 0 comes first": (
            "result, slots, → result, np.sort(slots, -1),"
        ),
        "the weights are put back the wrong way round: entry j of what was sorted belongs to slot "
        "φ[j]": "return result → return np.take_along_axis((1 - ranked) * before, slots, -1)",
        "the slots are not sorted: the product runs along the free list": (
            "used.argsort(-1) → np.arange(used.shape[-1]) + 0 * used.argsort(-1)"
        ),
        "what the write head has used is left out: u + w − u · w": "+ write - usage * write →",
        "the usage may rise beyond 1: u + w − u · w": "+ write - usage * write → + write",
        "what the read heads give back is left out": "* kept →",
        "the free gates are left out: a slot that was read is given back as far as its gate says": (
            "free[..., None] * →"
        ),
        "the read heads give back the sum of what each gives back: expected the product of all "
        "(1 − f w)": "(1 - free[..., None] * reads).prod(1) → 1 - (free[..., None] * reads).sum(1)",
        "slots are given back before the last writing counts: expected after it": (
            "(usage + write - usage * write) * kept → usage * kept + write - usage * kept * write"
        ),
        "only the product is there: times 1 − u": "(1 - ranked) * before → before",
        "this is 1 − u: times the usages of all slots before it in the free list": (
            "(1 - ranked) * before → 1 - ranked"
        ),
    },
)


def _spread(given):
    """Whether no two usages are so near that a small step exchanges them in the free list."""
    usage, write, reads, free = map(array, given)
    used = (usage + write - usage * write) * (1 - free[..., None] * reads).prod(1)
    return used.shape[-1] == 1 or np.diff(np.sort(used, -1)).min() > 1e-3


@exercise("04.allocation", title="From the formula: Which slot is free?", difficulty=3, minutes=15)
def allocation(answer, ctx):
    batch, n, heads = ctx.sizes(batch=(1, 3), n=(1, 6), heads=(1, 3))

    def drawn(n):
        # usages near 1 where there are many slots: their product does not vanish
        usage = ctx.weights(batch, n, 2)[..., 0] ** (1 / n)
        return (
            usage,
            ctx.weights(batch, n),
            ctx.weights(batch, heads, n),
            ctx.weights(batch, heads, 2)[..., 0],
        )

    given = drawn(n)
    got = ctx.floats(ctx.call(answer, *given), "the allocation", (batch, n))
    right, wrong = _ALLOCATED(*map(array, given))
    ctx.close(got, right, "the allocation", wrong)
    usage, write, *others = given
    usage[:, 0] = write[:, 0] = 0
    got = ctx.call(answer, usage, write, *others)
    nan = "a usage of 0 is a slot that was never used: do not divide by it, or take its logarithm"
    got = ctx.floats(got, "with an unused slot the allocation", (batch, n), nan=nan)
    ctx.close(got, np.eye(1, n).repeat(batch, 0), "with an unused slot the allocation")
    given = ctx.draw(lambda: drawn(min(n, 6)), _spread, 50)
    names = {0: "usage", 1: "write", 2: "reads", 3: "free"}
    check_gradients(ctx, answer, given, names, _allocated)
