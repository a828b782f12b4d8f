"""Checks of the section on looking back: how many convolutions, how wide the vectors grow, the
curves of four runs, what convolutions reach, and a dense block.
"""

import math

import numpy as np

from ..context import array, shape_of
from ..gradient_check import check_gradients
from ..registry import exercise
from ..slips import Slips, on_paper, read_the_curve


def _dilations(length):
    reach = 1
    layers = math.ceil(math.log2(length))
    return [reach * 2**i for i in range(layers)]


_DILATIONS = Slips(
    _dilations,
    {
        "the list of the paper, which begins with 2: "
        "no odd number of steps back is ever read": "reach = 1 → reach = 2",
        "that many layers come from the natural logarithm: "
        "each layer doubles the reach, so it is log2": "math.log2 → math.log",
        "one layer too few: the logarithm is rounded down, and the first position is out of "
        "reach": "ceil → floor",
        "one layer too many": "range(layers) → range(layers + 1)",
        "all dilations are 1: they double from layer to layer": "2**i → 1",
        "these are the dilations turned round: the smallest comes first": "range(layers) → "
        "reversed(range(layers))",
        "the dilations grow by 1: they double": "2**i → (i + 1)",
        "these are the exponents: the dilation is 2 to their power": "2**i → i",
        "the dilations are squares: they double": "2**i → i * i",
        "a layer for every position: "
        "the reach doubles with each layer": "range(layers) → range(length - 1)",
    },
)


@exercise("07.dilations", title="How many convolutions", difficulty=1, minutes=8)
def dilations(answer, ctx):
    drawn = ctx.integers(1000, 5000), 2 ** ctx.integers(8, 13)  # and one more than such a power
    for length in (17, 26, 9, 8, 2, 3, 101, ctx.sizes(positions=(1, 60)), *drawn, drawn[1] + 1, 1):
        got = ctx.ids(ctx.call(answer, length), f"the dilations for {length} positions")
        if length == 1 and got:
            ctx.fail(
                f"one position has nothing to look back to, so there is no layer: expected an "
                f"empty list, got {got}"
            )
        expected, wrong = _DILATIONS(length) if length < 6000 else (_dilations(length), {})
        ctx.recognize(got, expected, wrong)
        if got != expected:
            below = "a dilation is below 1" if any(d < 1 for d in got) else "wrong dilations"
            ctx.fail(f"{below} (for {length} positions: {got}, expected {expected})")


@on_paper("07.width", "the width", title="How wide the vectors grow", difficulty=1, minutes=5)
def width():
    def total(blocks=7, *, start=10, filters=16, values=8):
        return start + blocks * filters + values + blocks * filters

    return total(), {
        "6 dense blocks see only 64 positions: the logarithm is rounded up": total(6),
        "5 layers come from the natural logarithm: each layer doubles the reach, so it is "
        "log2": total(5),
        "one layer too many: 7 dense blocks see 128 positions": total(8),
        "a TC block is more than one dense block: how many see 100 positions?": total(1),
        "a dense block for every position: the reach doubles with each": total(100),
        "the keys are only compared: the attention block puts its values beside the input": total(
            values=12
        ),
        "keys are not put beside the input, only the sum of values is": total(values=20),
        "the input is missing: it stands at every level": total(start=0),
        "the attention block is missing: it adds the width of its values": total(values=0),
        "f and g are joined to D numbers: a dense block adds 16, not 32": total(filters=32),
        "nothing is overwritten: the last TC block stands beside all that was before": total()
        - 130,
        "the first TC block is missing, or the second": total() - 112,
    }


@read_the_curve("07.four_mistakes", title="four runs, four mistakes", difficulty=2, minutes=6)
def four_mistakes():
    """A has the small rate, B the large one, C the dilations, D the leak."""
    small = "its loss has hardly left that of a guess: its steps are too small"
    large = "its loss goes far above that of a guess first: its steps are too large"
    slow = "it learns slowly, and what it learns is of use for fresh questions"
    leak = "its loss falls to 0, and it answers no fresh question: it reads its answers"
    return {
        "the letter of the leak": ("D", {"A": small, "B": large, "C": slow}),
        "the letter of the large rate": ("B", {"A": small, "C": slow, "D": leak}),
        "the letter of the dilations": ("C", {"A": small, "B": large, "D": leak}),
    }


def _steps(dilations):
    steps = {0}
    for d in dilations:
        steps = {*steps, *(step + d for step in steps)}
    return sorted(steps)


_STEPS = Slips(
    _steps,
    {
        "the own position is missing: "
        "each layer also reads where it stands": "sorted(steps) → sorted(steps - {0})",
        "each layer is looked at alone: "
        "what one layer reads has itself read something": "step + d for → 0 * step + d for",
        "each layer is looked at alone, and the own position is missing": "sorted(steps) → "
        "sorted(set(dilations))",
        "that is how far it reaches, not what it reads": "sorted(steps) → [*range(max(steps) + 1)]",
        "only the farthest": "sorted(steps) → [max(steps)]",
        "a step that two ways lead to is listed twice": (
            "{0} → [0]",
            "{*steps, *(step + d for step in steps)} → [*steps, *(step + d for step in steps)]",
        ),
        "the steps are not in ascending order, or one is listed twice": (
            "{0} → [0]",
            "{*steps, *(step + d for step in steps)} → [*steps, *(step + d for step in steps)]",
            "sorted(steps) → steps",
        ),
        "each layer adds its dilation, and none stays where it "
        "is": "sorted(steps) → [sum(dilations[:k]) for k in range(len(dilations) + 1)]",
        "steps back are counted upwards from 0: "
        "no minus": "sorted(steps) → sorted(-step for step in steps)",
        "it goes back from the own position to the farthest: "
        "ascending order was asked for": "sorted(steps) → sorted(steps)[::-1]",
    },
)


@exercise("07.steps_back", title="What is within reach", difficulty=2, minutes=12)
def steps_back(answer, ctx):
    layers = ctx.sizes(dilations=(0, 7, 12))
    drawn = ctx.integers(1, 20, layers).tolist() if layers else []
    far = [2**k for k in ctx.order(8)], [ctx.integers(200, 300), 300, 7]
    known = [1, 2, 4], [2, 4, 8], [3], [1, 1, 2], [1, 2, 1, 2], [4, 2, 1]
    for given in (*known, drawn, *far, []):
        got = ctx.ids(ctx.call(answer, list(given)), f"the steps back for the dilations {given}")
        expected, wrong = _STEPS(given) if len(given) < 9 else (_steps(given), {})
        if not given and got != expected:
            ctx.fail(f"without a layer an output is its own input: expected [0], got {got}")
        ctx.recognize(got, expected, wrong)
        if got != expected:
            same = sorted(set(got)) == expected
            what = "the right steps, but not each once and in ascending order"
            ctx.fail(
                f"{what if same else 'wrong steps'} "
                f"(for the dilations {given}: {got}, expected {expected})"
            )


def _sigmoid(a):
    return (1 + np.tanh(a / 2)) / 2


def _back(x, steps):
    """x moved so many positions later, zeros in front: (B, n, d)."""
    steps = min(steps, x.shape[1])
    return np.concatenate([np.zeros_like(x[:, :steps]), x[:, : x.shape[1] - steps]], 1)


def _dense(x, far, near, bias, dilation):
    y = _back(x, dilation) @ far + x @ near + bias
    f, g = np.split(y, 2, -1)
    return np.concatenate([x, np.tanh(f) * _sigmoid(g)], -1)


_DENSE = Slips(
    _dense,
    {
        "it reads later positions: "
        "x at t + R instead of t − R": "_back(x, dilation) → _back(x[:, ::-1], dilation)[:, ::-1]",
        "what leaves the sequence at its end comes in at its beginning: "
        "before the sequence there are zeros": "_back(x, dilation) → np.roll(x, dilation, 1)",
        "before the sequence the first position is repeated: expected "
        "zeros": "_back(x, dilation) → x[:, np.maximum(np.arange(x.shape[1]) - dilation, 0)]",
        "the dilation is not used: it reads the position before": "dilation → 1",
        "it reads less than R steps back": "dilation → dilation - 1",
        "it reads R + 1 steps back": "dilation → dilation + 1",
        "W_far and W_near change places": "@ far + x @ near → @ near + x @ far",
        "the bias is missing": "+ bias →",
        "tanh and sigmoid, or f and g, change places: "
        "the first D columns go through the tanh": "f, g = → g, f =",
        "f and g are read in turns: "
        "the first D columns are f, the others g": "np.split(y, 2, -1) → y[..., ::2], y[..., 1::2]",
        "there is no gate: tanh(f) alone": "* _sigmoid(g) →",
        "the tanh is taken of f · σ(g): "
        "it belongs to f alone": "np.tanh(f) * _sigmoid(g) → np.tanh(f * _sigmoid(g))",
        "the first R positions find nothing: what lies before the sequence is zero, but the "
        "position itself is "
        "read": "* _sigmoid(g) → * _sigmoid(g) * (np.arange(x.shape[1]) >= dilation)[:, None]",
        "there is no tanh": "np.tanh(f) → f",
        "the gate is a tanh: "
        "expected a sigmoid, which lies between 0 and 1": "_sigmoid(g) → np.tanh(g)",
        "tanh(f) and σ(g) are added: expected their product": "* _sigmoid → + _sigmoid",
        "what was found stands in front of the input: "
        "expected after it": "[x, np.tanh(f) * _sigmoid(g)] → [np.tanh(f) * _sigmoid(g), x]",
    },
)


@exercise("07.dense_block", title="A dense block", difficulty=3, minutes=20)
def dense_block(answer, ctx):
    batch, n, d, filters = ctx.sizes(batch=(1, 4), n=(1, 8), d=(1, 5), filters=(1, 5))
    far, near, bias = (ctx.normal(*shape) for shape in ((d, 2 * filters),) * 2 + ((2 * filters,),))
    x = ctx.normal(batch, n, d)
    # whole numbers: no f or g is rounded, all are 0 or so large that their exponentials overflow
    hard = [(2 * tensor).round() for tensor in (x, far, near, bias)]
    hard[0], hard[3] = 1e3 * hard[0], 1e3 * hard[3]
    drawn = n if ctx.far else ctx.integers(2, max(3, n // 2 + 1))
    for dilation, given in (
        *((steps, (x, far, near, bias)) for steps in (drawn, 1, n, n + drawn)),
        (1, hard),
    ):
        raw = ctx.call(answer, *given, dilation)
        shape, name = shape_of(raw), f"the output for {n} positions and dilation {dilation}"
        hints: dict[tuple, str] = {
            (batch, n, filters): "the input is missing: what the layer found is put beside it",
            (batch, n, 2 * filters): "there is no gate: f and g are D numbers each",
            (batch, n, d + 2 * filters): "f and g were not joined to D numbers",
            (
                batch,
                n - dilation,
                d + filters,
            ): "the first positions are missing: before the sequence there are zeros",
        }
        got = array(ctx.floats(raw, name, (batch, n, d + filters), mention=hints.get(shape)))
        right, wrong = _DENSE(*map(array, given), dilation)
        ctx.close(got, right, name, wrong)
        if dilation == drawn < n:
            at, steps = {0: "x", 1: "W_far", 2: "W_near", 3: "b"}, dilation
            check_gradients(
                ctx, answer, (*given, steps), at, lambda *now: _dense(*now, dilation=steps)
            )
