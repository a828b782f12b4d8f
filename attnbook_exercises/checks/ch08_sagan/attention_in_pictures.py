"""Checks of the section on attention in pictures: one output by hand, a wider picture, the reach of
a stack, where one place looks, the cost of the layer.
"""

from contextlib import nullcontext

import numpy as np

from ...answers.flop_counter import Products, largest
from ..context import array, overflows, shape_of, softmax
from ..gradient_check import check_gradients
from ..registry import exercise
from ..slips import Slips, on_paper

ALL_PLACES = (
    "the map is right, but the weights of all places were computed for it: only one place asks, so "
    "its query alone meets the keys"
)


@on_paper("08.one_place", "y_3", title="what one place finds", difficulty=1, minutes=4, within=0.01)
def one_place():
    return 8.5, {
        "that is what the place finds, o_3: scale it by γ and add x_3": 15,
        "x_3 is missing: what was found is added to what stood there": 7.5,
        "γ is missing: it scales what was found": 16,
        "γ scales what was found alone: x_3 goes in whole": 8,
        "the weights do not add up to 1: divide by the sum of the exponentials": 76,
        "the scores stand where the weights should: take their exponentials first": 1
        + (10 * np.log(6) + 30 * np.log(3)) / 2,
        "the scores are divided by their sum: the softmax takes their exponentials": 1
        + (10 * np.log(6) + 30 * np.log(3)) / np.log(18) / 2,
        "that is from the plain mean of the values": 1 + 20 / 3,
        "the largest weight takes all here: the softmax leaves the others their part": 6,
        "the weights meet x: they belong to the values": 1 + (4 * 0.6 + 0.1) / 2,
        "the value is added to x_1: place 3 asks, and keeps x_3": 11.5,
    }


@exercise("08.wider", title="Predict: a picture four times as wide", difficulty=1, minutes=3)
def wider(answer, ctx):
    return ctx.predicted(answer, "nearly all", "about half", "a guess")


def _reach(layers):
    wide, apart = 1, 1
    for kernel, stride, dilation in layers:
        wide += (kernel - 1) * dilation * apart
        apart *= stride
    return wide


_REACH = Slips(
    _reach,
    {
        "kernels are added up: a layer of k places adds k − 1 to the reach, one of them was seen "
        "already": ("wide, apart = 1, 1 → wide, apart = 0, 1", "(kernel - 1) → kernel"),
        "the whole span of a kernel is added: one of its places was seen "
        "already": "(kernel - 1) * dilation → ((kernel - 1) * dilation + 1)",
        "the reach starts at 0: "
        "without any layer a place depends on itself, that is 1": "= 1, 1 → = 0, 1",
        "the reach of no layers is 1: "
        "a place depends on itself": "return wide → return wide if layers else 0",
        "the dilation is ignored": "* dilation →",
        "the stride is ignored: after a stride of s neighbours stand s places apart, and each "
        "later layer reaches that much further": "* apart →",
        "the stride of a layer widens its own kernel: it moves its neighbours apart for the layers "
        "after it only": "* apart → * apart * stride",
        "a dilation moves the neighbours of later layers apart: a stride does, a dilation only "
        "widens its own kernel": "apart *= stride → apart *= stride * dilation",
        "w places that stand s apart span (w − 1) · s + 1 places, not w · s": (
            "in layers → in reversed(layers)",
            "wide += (kernel - 1) * dilation * apart → wide = wide * stride + (kernel - 1) * "
            "dilation",
        ),
        "strides are added: they multiply": "apart *= stride → apart += stride - 1",
        "only the stride of one layer counts: all strides before a layer "
        "multiply": "apart *= → apart =",
        "layers are taken from the output to the input: "
        "the list begins at the input": "in layers → in reversed(layers)",
        "this is the reach to one side: "
        "count from the first to the last place": "return wide → return wide // 2",
        "that is a square: the reach along one side was asked for": "return wide → return wide**2",
        "a dilation of d puts d − 1 places between neighbours of the kernel, "
        "not d": "* dilation → * (dilation + 1)",
    },
)


@exercise("08.reach", title="How far a stack sees", difficulty=1, minutes=8)
def reach(answer, ctx):
    drawn = [
        (ctx.integers(2, 6), 1 if k > 3 else ctx.integers(1, 4), ctx.integers(1, 4))
        for k in range(ctx.sizes(depth=(1, 4)))
    ]
    stacks = (
        [(3, 2, 1), (5, 1, 2), (3, 2, 3), (4, 3, 1)],  # this one tells most mistakes apart
        [(3, 1, 1)] * 4,
        [(3, 2, 1), (3, 1, 1)],
        [(3, 1, 1), (3, 1, 2), (3, 1, 4)],
        [(1, 2, 1), (3, 1, 1)],
        [(7, 3, 2)],
        [],
        drawn,
        [(3, 2, 1)] * 9,
        [(3, 2, 1)] * 26,  # more than float32 counts
    )
    cases = []
    for layers in stacks:
        got = ctx.number(ctx.call(answer, list(layers)), "the reach")
        name = f"the reach of the layers {layers} (kernel, stride, dilation)"
        cases.append((name, got, *_REACH(layers)))
    ctx.close_everywhere(cases)
    for name, got, right, _ in cases:
        if got != right:
            ctx.fail(f"{name} is {got:g}, expected {right}")


def _squares(grid, pool):
    """(d, height, width) → half of both, by a function over the four of a square."""
    d, height, width = grid.shape
    four = (
        grid.reshape(d, height // 2, 2, width // 2, 2)
        .transpose(0, 1, 3, 2, 4)
        .reshape(d, height // 2, width // 2, 4)
    )
    return pool(four, axis=-1)


def _map(x, W_f, W_g, row, column, pooled):
    keys = np.einsum("dc,chw->dhw", W_f, x)
    keys = _squares(keys, np.max) if pooled else keys
    query = W_g @ x[:, row, column]
    scores = np.einsum("d,dhw->hw", query, keys)
    return softmax(scores.reshape(-1)).reshape(scores.shape)


_MAP = Slips(
    _map,
    {
        "the softmax is missing: "
        "these are the scores": "softmax(scores.reshape(-1)).reshape(scores.shape) → scores",
        "the softmax runs over each row of the map: over all places at "
        "once": "softmax(scores.reshape(-1)).reshape(scores.shape) → softmax(scores, 1)",
        "the softmax runs over each column of the map: over all places at "
        "once": "softmax(scores.reshape(-1)).reshape(scores.shape) → softmax(scores, 0)",
        "there are two softmaxes, one along each side of the map: one, over all places at once": (
            "softmax(scores.reshape(-1)).reshape(scores.shape) → softmax(softmax(scores, 0), 1)"
        ),
        "there are two softmaxes, one along each side of the map: a single one, over all places at "
        "once": (
            "softmax(scores.reshape(-1)).reshape(scores.shape) → softmax(softmax(scores, 1), 0)"
        ),
        "f and g have changed places: W_g makes the query of the one place, W_f the keys": (
            "W_f, x → W_g, x",
            "W_g @ → W_f @",
        ),
        "W_f makes the query and the keys": "W_g @ → W_f @",
        "W_g makes the query and the keys": "W_f, x → W_g, x",
        "there is no 1/√d in this layer": "query, keys → query / np.sqrt(len(query)), keys",
        "this is the column of the weights: it says how much each place looks at the one, not "
        "where the one looks": (
            "return → if pooled:\n        raise ValueError\n    flat, at = x.reshape(len(x), -1), "
            "row * x.shape[2] + column\n    return softmax((W_f @ flat).T @ (W_g @ flat), "
            "0)[at].reshape(x.shape[1:])\n    return"
        ),
        "row and column have changed places": "[:, row, column] → [:, column, row]",
        "queries are pooled as well: the one place asks for itself": (
            'query = W_g @ x[:, row, column] → query = np.einsum("dc,chw->dhw", W_g, x)\n    '
            "query = _squares(query, np.max)[:, row // 2, column // 2] if pooled else query[:, "
            "row, column]"
        ),
        "x is pooled before W_g: the one place asks for itself": (
            "query = W_g @ x[:, row, column] → asked = _squares(x, np.max)[:, row // 2, column // "
            "2] if pooled else x[:, row, column]\n    query = W_g @ asked"
        ),
        "the mean of each square was taken: it is its maximum": "np.max → np.mean",
        "x was pooled before its matrix: keys are pooled, channel by channel": (
            "W_f, x → W_f, _squares(x, np.max) if pooled else x",
            "_squares(keys, np.max) if pooled else →",
        ),
        "scores were pooled: keys are, channel by channel, before they meet the query": (
            "_squares(keys, np.max) if pooled else →",
            "return → scores = _squares(scores[None], np.max)[0] if pooled else scores\n    return",
        ),
        "weights were pooled after the softmax: keys are pooled, before they meet the query": (
            "_squares(keys, np.max) if pooled else →",
            "return → weights =",
            ".reshape(scores.shape) → .reshape(scores.shape)\n    return _squares(weights[None], "
            "np.max)[0] if pooled else weights",
        ),
        "weights were added up in squares after the softmax: keys are pooled, before they meet the "
        "query": (
            "_squares(keys, np.max) if pooled else →",
            "return → weights =",
            ".reshape(scores.shape) → .reshape(scores.shape)\n    return _squares(weights[None], "
            "np.sum)[0] if pooled else weights",
        ),
        "every second place was taken: the maximum over squares of 2×2 was asked "
        "for": "_squares(keys, np.max) → keys[:, ::2, ::2]",
    },
)


@exercise("08.map_of_a_query", title="Make it fast: where one place looks", difficulty=2, minutes=9)
def map_of_a_query(answer, ctx):
    c, few, high, wide = ctx.sizes(C=(1, 6), d=(1, 3), height=(1, 5), width=(1, 6))
    for C, d, height, width, row, column, pooled in (
        (6, 3, 4, 6, 1, 4, False),
        (5, 2, 6, 4, 4, 1, True),
        (c, few, high, wide, ctx.integers(0, high), ctx.integers(0, wide), False),
        (c, few, 2 * high, 2 * wide, ctx.integers(0, 2 * high), ctx.integers(0, 2 * wide), True),
        (3, 2, 1, 1, 0, 0, False),
        (2, 2, 10, 12, 7, 3, False),  # large: the rows of the other places would cost most
    ):
        arguments = (
            ctx.normal(C, height, width),
            0.6 * ctx.normal(d, C),
            0.6 * ctx.normal(d, C),
            row,
            column,
            pooled,
        )
        x, W_f, W_g = (array(t) for t in arguments[:3])
        shape = (height // 2, width // 2) if pooled else (height, width)
        with Products() as counter:
            got = ctx.call(answer, *arguments)
        mention = (
            "keys are pooled over squares of 2×2: one weight for each"
            if pooled
            else "one weight for each place"
        )
        if shape_of(got) == (shape[0] * shape[1],):
            ctx.fail(f"a vector came back: bring it to a map of {shape[0]} by {shape[1]}")
        got = ctx.floats(got, "the map", shape, mention=mention)
        right, wrong = _MAP(x, W_f, W_g, row, column, pooled)
        ctx.close(got, right, "the map", wrong)
        places = height * width
        if counter.count > 3 * 2 * d * (C + C * places + places):
            ctx.fail(ALL_PLACES)
        check_gradients(
            ctx,
            answer,
            arguments,
            {0: "x", 1: "W_f", 2: "W_g"},
            lambda x, f, g: _map(x, f, g, row, column, pooled),
            step=1e-7,
        )
    x, W_f, W_g = ctx.draw(
        lambda: [ctx.integers(-3, 4, *size).float() for size in ((3, 2, 4), (2, 3), (2, 3))],
        lambda drawn: overflows(
            np.einsum("c,dc,de,ehw->hw", drawn[0][:, 1, 2], drawn[2], drawn[1], drawn[0])
        ),
        200,
    )
    overflow = "for large scores, whose exponentials overflow: the map"
    got = ctx.floats(
        ctx.call(answer, x, W_f, W_g, 1, 2, False), overflow, (2, 4), nan="does exp overflow?"
    )
    right = _map(array(x), array(W_f), array(W_g), 1, 2, False)
    ctx.close(got, right, overflow)

    # However it is written: first within reach of the answer, where nothing is lost by it, then for
    # a map whose N² weights are 4 GB, which a sandbox does not have.
    for side in (24, 184):
        watch = largest() if side == 24 else None
        x, W_f, W_g = ctx.normal(2, side, side), ctx.normal(2, 2), ctx.normal(2, 2)

        def watched(*arguments):
            with watch or nullcontext():
                return answer(*arguments)

        got = ctx.call(watched, x, W_f, W_g, 3, 5, False)
        if watch and watch.count >= 2 * side**4:
            ctx.fail(ALL_PLACES)
        got = ctx.floats(got, "a large map", (side, side))
        ctx.close(got, _map(array(x), array(W_f), array(W_g), 3, 5, False), "a large map")


def _multiplications(C, height, width, key, value, pooled):
    N = height * width
    n = N // 4 if pooled else N
    convolutions = 2 * C * key * N + 2 * C * value * N
    pairs = N * n * (key + value)
    return convolutions + pairs


_MULTIPLICATIONS = Slips(
    _multiplications,
    {
        "the 1×1 convolutions are missing": "convolutions + pairs → pairs",
        "the products over pairs are missing": "convolutions + pairs → convolutions",
        "v is missing: "
        "the fourth convolution goes from d_value back to C": "2 * C * value → C * value",
        "only the scores are counted: each weight meets a value as well": "(key + value) → key",
        "only the sums of values are counted: "
        "each score is an inner product of d_key numbers": "(key + value) → value",
        "there are N × N pairs of places, not N": "N * n * → N *",
        "v goes from d_value to C channels, not from C to C": "2 * C * value → C * (value + C)",
        "a pair takes d_key multiplications for its score and d_value for its sum: "
        "they add up": "(key + value) → key * value",
        "sums are counted too: multiplications only": "convolutions + pairs → 2 * convolutions + 2 "
        "* pairs",
        "values are as wide as keys here: h has d_value channels": (
            "2 * C * value → 2 * C * key",
            "(key + value) → 2 * key",
        ),
        "the sums of values take d_value multiplications a pair, "
        "not C": "(key + value) → (key + C)",
        "pooling is ignored: a place asks a quarter of the places": "N // 4 if pooled else N → N",
        "queries are pooled as well: every place asks": "N * n * → n * n *",
        "v is counted for the pooled places alone: "
        "every place has an output": "2 * C * value * N → C * value * (N + n)",
        "pooling over 2×2 leaves a quarter of the places, not half of them": "N // 4 → N // 2",
        "keys and values are pooled before their convolutions: they are pooled "
        "after": "2 * C * key * N + 2 * C * value * N → C * (key + value) * (N + n)",
        "it was not asked to pool": "N // 4 if pooled else N → N // 4",
    },
)


@exercise("08.multiplications", title="Count the multiplications", difficulty=2, minutes=8)
def multiplications(answer, ctx):
    C, height, width, key, value = ctx.sizes(
        C=(1, 64), height=(1, 6), width=(1, 8), d_key=(1, 5), d_value=(1, 12)
    )
    for given in (
        (48, 6, 10, 5, 11),
        (C, 2 * height, 2 * width, key, value),
        (64, 32, 32, 8, 8),
        (16, 4, 4, 2, 8),
    ):
        for pooled in (False, True):
            got = ctx.number(ctx.call(answer, *given, pooled), "the number of multiplications")
            expected, wrong = _MULTIPLICATIONS(*given, pooled)
            # of their differences, which are far smaller than the numbers
            off = {message: other - expected for message, other in wrong.items()}
            ctx.recognize(got - expected, 0, off)
            if got != expected:
                C, height, width, key, value = given
                ctx.fail(
                    f"the number is {got:g}, expected {expected} (C = {C}, {height}×{width}, "
                    f"d_key {key}, d_value {value}, {'pooled' if pooled else 'not pooled'})"
                )
