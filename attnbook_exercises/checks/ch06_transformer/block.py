"""Checks of the section on the block: a stream by hand, one block less, layer norm, directions
scaled filter by filter, an encoder block in both orders.
"""

from math import erf

import numpy as np
import torch

from ..context import CheckContext, a, array, softmax
from ..gradient_check import check_gradients
from ..registry import exercise
from ..slips import Slips, on_paper


def _norm(x, g, b, eps):
    centred = x - x.mean(-1, keepdims=True)
    variance = (centred**2).mean(-1, keepdims=True)
    return g * centred / np.sqrt(variance + eps) + b


_NORM = Slips(
    _norm,
    {
        "the variance is divided by d - 1, as torch.var and torch.std do by themselves: expected "
        "d": "(variance + eps) → (variance * len(g) / max(1, len(g) - 1) + eps)",
        "eps is added to the standard deviation: it stands inside the root, √(σ² + "
        "ε)": "np.sqrt(variance + eps) → (np.sqrt(variance) + eps)",
        "eps is added to the standard deviation, which is also divided by d - 1: expected √(σ² + "
        "ε) with "
        "d": "np.sqrt(variance + eps) → (np.sqrt(variance * len(g) / max(1, len(g) - 1)) + eps)",
        "the eps that is given is not used: it decides what a small variance is": "+ eps →",
        "mean and variance run over the positions: expected over the features of each position "
        "(dim=-1)": ("x.mean(-1 → x.mean(-2", "(centred**2).mean(-1 → (centred**2).mean(-2"),
        "mean and variance run over positions and features: expected over the features of each "
        "position (dim=-1)": (
            "x.mean(-1 → x.mean((-1, -2)",
            "(centred**2).mean(-1 → (centred**2).mean((-1, -2)",
        ),
        "mean and variance run over the whole tensor: expected over the features of each position "
        "(dim=-1)": ("x.mean(-1 → x.mean(None", "(centred**2).mean(-1 → (centred**2).mean(None"),
        "the mean is not subtracted: that is RMS norm": "x - x.mean(-1, keepdims=True) → x",
        "the mean is in the variance, but it is not subtracted above the "
        "root": "g * centred → g * x",
        "the root is missing: "
        "divide by √(σ² + ε), not by the variance": "np.sqrt(variance + eps) → (variance + eps)",
        "the scale g is not used": "g * →",
        "the shift b is not added": "+ b →",
        "b is subtracted: expected it to be added": "+ b → - b",
        "g and b are not used: scale and shift at the end": ("g * →", "+ b →"),
        "b is multiplied by g: it is added last": "+ b → + g * b",
    },
)


@on_paper(
    "06.growing_stream",
    "the first feature",
    title="a stream that grows",
    difficulty=1,
    minutes=4,
    within=0.01,
)
def growing_stream():
    return 24, {
        "that is 1, the norm of any such word: the stream itself goes through no norm in "
        "pre-norm": 1,
        "the word that came in is missing: the ten branches are added to it": 20,
        "that is nine sublayers: expected ten": 22,
        "that is eleven sublayers: expected ten": 26,
        "the norms are missing: each sublayer doubles what its norm gives it, not the stream": 4
        * 3.0**10,
        "the residual is missing, and the norms: the stream is added to what is found": 4 * 2.0**10,
        "the residual is missing: the stream is added to what is found": 2,
        "the residual adds the norm of the stream: in pre-norm the stream itself is added": 3,
        "the branch adds what its norm gives it: the sublayer doubles that": 14,
        "that is the second feature: expected the first": -20,
        "that is twenty sublayers: the ten are sublayers, not blocks": 44,
        "that is the stream after the first sublayer: expected ten": 6,
    }


@exercise("06.one_block_less", title="Predict: one block less", difficulty=1, minutes=3)
def one_block_less(answer, ctx: CheckContext):
    return ctx.predicted(answer, "the first", "one in the middle", "the last")


@exercise("06.layer_norm", title="Layer norm", difficulty=2, minutes=6)
def layer_norm(answer, ctx):
    batch, heads, n, d = ctx.sizes(batch=(1, 3), heads=(1, 3), n=(1, 5), d=(1, 8))
    for lead, eps in (((n,), 0.3), ((), 0.1), ((batch, n), 1e-5), ((batch, heads, n), 0.5)):
        x = ctx.normal(*lead, d) * 2 + 1.5 * ctx.normal(*lead, 1)
        g, b = 1 + ctx.normal(d), ctx.normal(d)
        got = ctx.floats(
            ctx.call(answer, x, g, b, eps), "the result", tuple(x.shape), mention="the shape of x"
        )
        right, wrong = _NORM(array(x), array(g), array(b), eps)
        ctx.close(got, right, "the result", wrong)
    if ctx.case:  # x² and its mean have no digits left for the variance
        got = ctx.call(answer, x + 1e5, g, b, eps)
        got = ctx.floats(got, "the result", tuple(x.shape), mention="the shape of x")
        ctx.close(
            got, _norm(array(x + 1e5), array(g), array(b), eps), "with a mean of 1e5 the result"
        )
    same = torch.full((2, d), 3.0)
    got = ctx.call(answer, same, g, b, 1e-5)
    nan = "where all features are equal the variance is 0, and eps keeps the division finite"
    ctx.close(
        ctx.floats(got, "the result", (2, d), nan=nan),
        np.broadcast_to(array(b), (2, d)),
        "the result for a position of equal features",
    )
    at = {0: "x", 1: "g", 2: "b"}
    for h in (x, same):
        check_gradients(ctx, answer, (h, g, b, eps), at, lambda x, g, b: _norm(x, g, b, eps))


@exercise("06.filter_direction", title="A direction, filter by filter", difficulty=2, minutes=8)
def filter_direction(answer, ctx: CheckContext):
    rows, columns, width = ctx.sizes(rows=(1, 5), columns=(1, 8), width=(1, 3))
    shapes = {
        "matrix": (rows, columns),
        "bias": (rows,),
        "kernel": (columns, rows, width),
        "pictures": (rows, 2, width, columns),
        "norm": (columns,),
    }
    weights = {
        name: ctx.normal(*shape)
        * (1 + ctx.integers(1, 5, *shape[:1]).view(-1, *[1] * (len(shape) - 1)))
        for name, shape in shapes.items()
    }
    weights["matrix"][-1] = 0.0
    noise = {name: ctx.normal(*shape) for name, shape in shapes.items()}
    got = ctx.call(answer, weights, noise, new="the dict")
    if got is None:
        ctx.fail("None came back. Does your function return the dict?")
    if not isinstance(got, dict):
        ctx.fail(
            f"your function returns {a(got)}, expected a dict from the names to the directions"
        )
    if set(got) != set(weights):
        ctx.fail(
            f"the dict has the keys {sorted(map(str, got))}, expected {sorted(weights)}: biases "
            f"and norms are in it too, with zeros"
        )
    hint = (
        "a filter of zeros has length 0, and so has its direction: multiply by its length, do "
        "not divide by it"
    )
    directions = {
        name: array(ctx.floats(got[name], name, shapes[name], nan=hint)) for name in shapes
    }
    numbers, drawn = ({name: array(t[name]) for name in shapes} for t in (weights, noise))

    def lengths(t, axes):
        return np.sqrt((t**2).sum(axes, keepdims=True))

    def scaled(vectors=None, per="row", factor=None, root=True):
        result = {}
        for name, w in numbers.items():
            d = drawn[name]
            if w.ndim < 2 and vectors is None:
                result[name] = np.zeros_like(w)
                continue
            if w.ndim < 2:
                result[name] = (
                    d
                    if vectors == "noise"
                    else d / lengths(d, None) * lengths(w, None)
                    if vectors == "whole"
                    else (np.sign(d) * np.abs(w))
                )
                continue
            axes = {
                "row": tuple(range(1, w.ndim)),
                "column": (0,),
                "whole": None,
                "second": (1,),
                "last": (-1,),
            }[per]
            above, below = lengths(w, axes), lengths(d, axes)
            if not root:
                above, below = above**2, below**2
            result[name] = (
                d / below
                if factor == "unit"
                else d * above
                if factor == "long"
                else d / below * above
            )
        return result

    def listed(found):
        return tuple(found[name] for name in shapes)

    expected = scaled()
    wrong = {
        "the noise comes back as it was: scale every row to the length of the row of the "
        "weights": drawn,
        "the whole matrix is scaled as one: expected each row by itself": scaled(per="whole"),
        "the whole matrix is scaled as one, and biases are not 0: expected each row by "
        "itself, and 0 for one dimension": scaled("whole", per="whole"),
        "columns are scaled: a filter is a row, the first dimension": scaled(per="column"),
        "of a kernel only the last dimension is taken for a filter: a filter is all that "
        "stands under one index of the first "
        "dimension": scaled(per="last"),
        "of a kernel only the second dimension is taken for a filter: a filter is all that "
        "stands under one index of the first "
        "dimension": scaled(per="second"),
        "every row has length 1: multiply by the length of the row of the weights": scaled(
            factor="unit"
        ),
        "the rows of the noise are not brought to length 1 first": scaled(factor="long"),
        "squares of lengths are taken for lengths: the root is missing": scaled(root=False),
        "tensors of one dimension are left as noise: biases and norms stay where they are, "
        "their direction is 0": scaled("noise"),
        "tensors of one dimension are scaled too: biases and norms stay where they are, "
        "their direction is 0": scaled("whole"),
        "each number of a bias is taken for a filter: biases and norms stay where they are, "
        "their direction is 0": scaled("each"),
    }
    named = {message: listed(other) for message, other in wrong.items()}
    ctx.recognize(listed(directions), listed(expected), named)
    for name in shapes:
        ctx.close(directions[name], expected[name], name)


def _gelu(s):
    return s * (1 + np.vectorize(erf)(s / np.sqrt(2))) / 2


def _attention(h, mix):
    return softmax(h @ h.swapaxes(-1, -2) / np.sqrt(h.shape[-1])) @ h @ mix


def _block(pre, x, mix, network, norms):
    """The block, `pre`-norm or post-norm."""
    w_1, b_1, w_2, b_2 = network
    first, second = (lambda h, g=g, b=b: _norm(h, g, b, 1e-5) for g, b in norms)

    def feed(h):
        return np.maximum(h @ w_1.T + b_1, 0) @ w_2.T + b_2

    if pre:
        u = x + _attention(first(x), mix)
        return u + feed(second(u))
    u = first(x + _attention(x, mix))
    return second(u + feed(u))


_BLOCK = Slips(
    _block,
    {
        "no residual around the attention: the stream is added to what it finds": (
            "u = x + _attention(first → u = _attention(first",
            "first(x + → first(",
        ),
        "no residual around the feed-forward network: the stream is added to what it finds": (
            "return u + → return",
            "second(u + → second(",
        ),
        "there are no residuals: the stream is added to what each sublayer finds": (
            "u = x + _attention(first → u = _attention(first",
            "first(x + → first(",
            "return u + → return",
            "second(u + → second(",
        ),
        "the second residual adds the block's input x: expected the stream after the first "
        "sublayer": ("return u + → return x +", "second(u + → second(x +"),
        "the feed-forward network reads the block's input x: expected what comes out of the first "
        "sublayer": ("feed(second(u)) → feed(second(x))", "feed(u) → feed(x)"),
        "the ReLU is missing: "
        "without it two matrices are one": "np.maximum(h @ w_1.T + b_1, 0) → (h @ w_1.T + b_1)",
        "a GELU stands where a ReLU was asked "
        "for": "np.maximum(h @ w_1.T + b_1, 0) → _gelu(h @ w_1.T + b_1)",
        "the norms are not used": "_norm(h, g, b, 1e-5) → h",
        "the two norms are swapped: norm_1 belongs to the attention": "in norms) → in norms[::-1])",
        "norm_1 is used twice: "
        "norm_2 belongs to the feed-forward network": "in norms) → in norms[:1] * 2)",
        "the biases b_1 and b_2 are not added": ("+ b_1 →", ".T + b_2 → .T"),
        "the norm stands on the branch alone: expected LayerNorm(x + f(x)), the norm of the sum": (
            "first(x + _attention(x, mix)) → x + first(_attention(x, mix))",
            "second(u + feed(u)) → u + second(feed(u))",
        ),
        "the sum after the attention is not "
        "normalised": "u = first(x + _attention(x, mix)) → u = x + _attention(x, mix)",
        "the residual adds the normalised stream: in pre-norm x itself is added": (
            "u = x + _attention(first → u = first(x) + _attention(first",
            "return u + → return second(u) +",
        ),
        "the feed-forward network reads the stream without a norm": "feed(second(u)) → feed(u)",
        "pre-norm has no norm at the end of the block: "
        "the stack has one": "return u + feed(second(u)) → return second(u + feed(second(u)))",
    },
)


@exercise("06.encoder_block", title="An encoder block in both orders", difficulty=3, minutes=12)
def encoder_block(answer, ctx):
    batch, n, d, hidden = ctx.sizes(batch=(1, 3), n=(1, 5), d=(1, 5), hidden=(1, 7))
    hidden = d if ctx.case == "double" else hidden  # or the shapes say which way round they go
    x = ctx.normal(batch, n, d)
    mix, w_1, b_1, w_2, b_2 = (
        ctx.normal(*shape) for shape in ((d, d), (hidden, d), (hidden,), (d, hidden), (d,))
    )
    gains = [1 + 0.5 * ctx.normal(d) for _ in range(2)]
    shifts = [ctx.normal(d) for _ in range(2)]

    def attention(h):  # some self-attention: what stands in it is not the exercise's business
        return torch.softmax(h @ h.transpose(-1, -2) / d**0.5, dim=-1) @ h @ mix.to(h)

    def norm(k):
        def apply(h):
            middle = h.mean(-1, keepdim=True)
            return gains[k].to(h) * (h - middle) / (
                (h - middle).square().mean(-1, keepdim=True) + 1e-5
            ).sqrt() + shifts[k].to(h)

        return apply

    rows, mixing, network = array(x), array(mix), [array(t) for t in (w_1, b_1, w_2, b_2)]
    norms = [(array(g), array(s)) for g, s in zip(gains, shifts)]
    for pre in (False, True):
        got = ctx.call(answer, x, attention, norm(0), norm(1), w_1, b_1, w_2, b_2, pre)
        got = ctx.floats(got, "the result", (batch, n, d), mention="the shape of x")
        right, wrong = _BLOCK(pre, rows, mixing, network, norms)
        order = ("post-norm", "pre-norm")
        other = f"with pre_norm={pre} your block is {order[not pre]}: expected {order[pre]}"
        wrong = {other: _block(not pre, rows, mixing, network, norms)} | wrong
        ctx.close(got, right, f"the result with pre_norm={pre}", wrong)

    at = {0: "x", 4: "w_1", 5: "b_1", 6: "w_2", 7: "b_2"}
    for pre in (False, True):
        check_gradients(
            ctx,
            answer,
            (x, attention, norm(0), norm(1), w_1, b_1, w_2, b_2, pre),
            at,
            lambda x, *network: _block(pre, x, mixing, network, norms),
            step=1e-6,
        )
