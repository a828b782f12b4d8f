"""Checks of the section on scaled dot-product attention: one row by hand, a forgotten mask, a mask
of two conditions, rows that see nothing, a search for leaks.
"""

import numpy as np
import torch
from torch import Tensor

from ..context import array, softmax
from ..gradient_check import check_gradients
from ..registry import exercise
from ..slips import Slips, on_paper


@on_paper(
    "06.row_by_hand",
    "the weight",
    title="one row under the mask",
    difficulty=1,
    minutes=4,
    within=0.002,
)
def row_by_hand():
    return 1 / 4, {
        "that is the weight without a mask, or masked after the softmax: the later tokens must "
        "leave the sum, too": 2 / 32,
        "one token too many: token 2 sees the tokens 0, 1 and 2, and not token 3": 2 / 16,
        "a forbidden score counts as 0, and exp(0) is 1: it is minus infinity, so that exp is 0": 2
        / 10,
        "token 2 does not see itself: expected j ≤ t": 2 / 3,
        "the products are not divided by the root of the width": 8 / 134,
        "the products are divided by the width: expected its root": 2 ** (1 / 3)
        / (2 ** (1 / 3) + 1 + 5 ** (1 / 3)),
        "the scores are divided by their sum: the softmax takes their exponentials": np.log(2)
        / np.log(10),
        "that is the exponential of the score: divide it by the sum of those that are left": 2,
        "that is the score of token 0: the softmax makes the weight of it": np.log(2),
        "that is the weight of token 2 on itself": 5 / 8,
    }


@exercise(
    "06.forgotten_padding", title="Predict: a forgotten padding mask", difficulty=1, minutes=2
)
def forgotten_padding(answer, ctx):
    return ctx.predicted(answer, "not at all", "a little", "a lot")


def _left_padded(lengths, n):
    t, j = np.arange(n)[:, None], np.arange(n)
    real = j >= n - lengths[:, None, None]
    return (j <= t) & real


_LEFT_PADDED = Slips(
    _left_padded,
    {
        "the mask is upside down: "
        "True means may attend": "return (j <= t) & real → return ~((j <= t) & real)",
        "the padding is taken to stand on the right: "
        "the tokens of a text are its last positions": "j >= n - lengths → j < lengths",
        "there is no causal mask: a position sees the ones after it": "j <= t → t >= 0 * j",
        "the padding is not masked: "
        "a position sees the ones on the left that hold no token": "& real → & (real | True)",
        "the two masks are joined with or: a pair must be allowed by both": "& real → | real",
        "a position does not see itself: expected j ≤ t": "j <= t → j < t",
        "a position sees the one after it: expected j ≤ t": "j <= t → j <= t + 1",
        "the causal mask is turned round: "
        "a position sees the ones after it and not those before": "j <= t → j >= t",
        "rows and columns are swapped: rows are queries, "
        "columns are keys": "return (j <= t) & real → return ((j <= t) & real).swapaxes(1, 2)",
        "the padding masks queries (rows): expected keys (columns)": "real = j → real = t",
        "one position too many counts as a token: "
        "the first one is n - length": "j >= n → j + 1 >= n",
        "one position too few counts as a token: the first one is n - length": "j >= n → j > n",
        "a padded position sees itself: there is no token at it": "& real → & real | (j == t)",
    },
)


@exercise(
    "06.left_padded_mask", title="A mask for texts padded on the left", difficulty=2, minutes=5
)
def left_padded_mask(answer, ctx):
    for _ in range(2):
        batch, n = ctx.sizes(batch=(1, 8), n=(1, 9))
        lengths = ctx.lengths(batch, n)
        got = ctx.call(answer, lengths, n)
        if type(got) is Tensor and got.dtype != torch.bool:
            ctx.fail(
                f"the mask: the dtype is {str(got.dtype).removeprefix('torch.')}: a mask of the "
                f"book is boolean, True = may attend"
            )
        mention = "one matrix of queries and keys for each text"
        got = ctx.tensor(got, "the mask", (batch, n, n), dtype=torch.bool, mention=mention)
        right, wrong = _LEFT_PADDED(array(lengths), n)
        ctx.close(got, right, "the mask", wrong)


@exercise("06.empty_rows", title="Attention that survives an empty row", difficulty=3, minutes=10)
def empty_rows(answer, ctx):
    batch, m, n, d, d_v = ctx.sizes(batch=(1, 4), m=(1, 5), n=(1, 7), d=(1, 4), d_v=(1, 9))
    mask = ctx.integers(0, 2, batch * m, n).bool()
    mask[:, ctx.integers(0, n)] = True
    empty = ctx.order(batch * m)[: max(1, batch * m // 4)]
    mask[empty] = False
    q, k, v = ctx.normal(batch, m, d), ctx.normal(batch, n, d), ctx.normal(batch, n, d_v)
    _attends(answer, ctx, (q, k, v), mask.view(batch, m, n))

    # Where exp overflows, and underflows in a row whose largest score is a forbidden one.
    large = 300 / (q @ k.mT / d**0.5).abs().max() * q
    scores = (large @ k.mT).view(batch * m, n)
    rows = [row for row in ctx.order(batch * m) if row not in empty]
    for row in rows[: len(rows) // 2]:
        mask[row] = scores[row] == scores[row].min()
    mask = mask.view(batch, m, n)
    _attends(answer, ctx, (large, k, v), mask)

    def oracle(q, k, v):
        return _weights(q @ k.swapaxes(1, 2) / np.sqrt(d), mask.numpy()) @ v

    at = dict(enumerate(("query", "key", "value")))
    nan = (
        "a row without any key, or an exp that overflows, leaves NaN behind: 0 times NaN is NaN, "
        "so do not make one, not even where it is replaced later"
    )
    check_gradients(ctx, answer, (q, k, v, mask), at, oracle, part=0, nan=nan)

    def finite(result, copies):
        gradients = torch.autograd.grad(result[0].sum(), copies[:3])
        for name, gradient in zip(at.values(), gradients):
            if not torch.isfinite(gradient).all():
                ctx.fail(f"for scores of a few hundred the gradient at {name} is not finite: {nan}")

    leaves = (x.clone().requires_grad_() for x in (large, k, v))
    ctx.call(answer, *leaves, mask, then=finite)


def _weights(scores, allowed, axis=-1):
    return softmax(np.where(allowed, scores, -np.inf), axis)


def _attends(answer, ctx, given, mask):
    (batch, m, d), (_, n, _), (_, _, d_v) = (x.shape for x in given)
    q, k, v = (array(x) for x in given)
    scores, allowed = q @ k.swapaxes(1, 2) / np.sqrt(d), mask.numpy()
    some = allowed.any(-1)
    got_context, got = ctx.parts(
        ctx.call(answer, *given, mask), ("context", "weights"), ((batch, m, d_v), (batch, m, n))
    )
    complete = (
        type(got) is Tensor and got.shape == (batch, m, n) and bool(torch.isfinite(got[some]).all())
    )
    if np.abs(scores).max() > 60 and not complete:
        ctx.fail(
            "scores of a few hundred give weights that are not finite: exp overflows, or leaves "
            "0/0. Subtract the largest allowed score "
            "of a row first; torch.softmax does, if the mask comes before it"
        )
    nan = (
        f"row {np.argwhere(~some)[0].tolist()} may attend to nothing, and a softmax over "
        f"nothing but -inf is 0/0"
        if complete
        else "rows that may attend to something must not hold it"
    )
    got_context = ctx.floats(
        got_context,
        "context",
        (batch, m, d_v),
        nan=nan,
        mention="one row a query, as wide as the values",
    )
    got = ctx.floats(
        got, "weights", (batch, m, n), nan=nan, mention="one row a query, one column a key"
    )
    expected = _weights(scores, allowed)
    lost = np.argwhere((array(got).sum(-1) < 0.5) & some)
    if np.abs(scores).max() > 60 and len(lost):  # smaller scores were weighted rightly
        ctx.fail(
            f"scores of a few hundred leave row {lost[0].tolist()} without its weight, where they "
            f"lie far below 0 or below a forbidden one: put −∞ at forbidden keys and subtract the "
            f"largest score that is left"
        )
    unmasked = softmax(scores)
    flat, bare = (np.where(some[..., None], expected, other) for other in (1 / n, unmasked))
    wrong = {
        "a row that may attend to nothing spreads its weight over all keys, forbidden ones too: "
        "expected zeros": flat,
        "a row that may attend to nothing ignores its mask: expected zeros": bare,
        "the mask is not used": unmasked,
        "the mask is upside down: True means may attend": _weights(scores, ~allowed),
        "the mask comes after the softmax: the weights of a row no longer add up to 1": unmasked
        * allowed,
        "the mask is multiplied into the scores: a score of 0 still gets weight, since exp(0) "
        "is 1": softmax(scores * allowed),
        "the mask is multiplied into the scores: forbidden keys take their share of the sum, "
        "since exp(0) is 1": softmax(scores * allowed) * allowed,
        "the mask is added to the scores as 0 and 1: a forbidden pair has a score of -inf": softmax(
            scores + allowed
        ),
        "the softmax runs over the queries (dim=-2): expected over the keys": _weights(
            scores, allowed, -2
        ),
        "the softmax runs over the batch (dim=0): expected over the keys": _weights(
            scores, allowed, 0
        ),
        "the scores are not divided by the root of the width of the keys": _weights(
            scores * np.sqrt(d), allowed
        ),
        "the scores are divided by the width of the keys: expected its root": _weights(
            scores / np.sqrt(d), allowed
        ),
        "the scores are divided by the root of the width of the values: expected that of the "
        "keys": _weights(scores * np.sqrt(d / d_v), allowed),
        "the scores are divided by the root of the number of keys: expected that of their "
        "width": _weights(scores * np.sqrt(d / n), allowed),
    }
    ctx.close(got, expected, "weights", wrong)
    wrong = {
        "the context of a row without any key is not 0: the weights are, but the context was "
        "made before": flat @ v,
        "the context of a row without any key is not 0: it was made with weights that do not "
        "know the mask": bare @ v,
        "the context is made with weights that do not know the mask": unmasked @ v,
    }
    ctx.close(got_context, expected @ v, "context", wrong)


@exercise("06.leaks", title="A detector of leaks", difficulty=3, minutes=15)
def leaks(answer, ctx):
    # the slopes of all entries of 201 words by one another take half a minute
    n, d = ctx.sizes(n=(1, 7, 20), d=(1, 8, 33))
    # small: with scores far apart a weight, and with it a leak, would be lost in rounding
    x = 0.4 * ctx.normal(n, d)
    matrices = [ctx.normal(d, d) / d**0.5 for _ in range(3)]
    for layer, expected, what in _layers(x, matrices, ctx):
        got = ctx.call(answer, layer, x)
        if type(got) is Tensor and got.dtype != torch.bool:
            ctx.fail(
                f"the leaks: the dtype is {str(got.dtype).removeprefix('torch.')}, expected "
                f"bool: True where there is a leak"
            )
        got = array(
            ctx.tensor(got, "the leaks", (n, n), dtype=torch.bool, mention="row t, column j")
        )
        later = ~np.tri(n, dtype=bool)
        if (got == expected).all():
            continue
        if (got == expected.T).all():
            ctx.fail(
                "the matrix is transposed: [t, j] says that result t depends on row j, and a "
                "leak lies above the diagonal"
            )
        if (got & ~later).any():
            t, j = np.argwhere(got & ~later)[0]
            ctx.fail(
                f"[{t}, {j}] is no leak: result {t} may depend on row {j}, which is not after "
                f"it. Leaks lie above the diagonal"
            )
        t, j = np.argwhere(got != expected)[0]
        if expected[t, j]:
            ctx.fail(
                f"{what}, result {t} depends on row {j}, and you say it does "
                f"not{_why(got, expected, what)}"
            )
        ctx.fail(
            f"{what}, result {t} does not depend on row {j}, and you say it does: are "
            f"differences that are only rounding counted, is "
            "the result compared with something else than that of x, or are rows and columns "
            "swapped?"
        )


def _why(got, expected, what):
    if "has mean 0" in what and not got.any():
        return (
            ": the entries of each row of the result add up to 0, whatever x is, so look at "
            "the entries and not at their sum"
        )
    if "length 1" in what and not got.any():
        return (
            ": a row that is only made longer or shorter is the same row to this layer, so change "
            "its direction, too"
        )
    if "before" in what and not got.any():
        return (
            ": adding one number to a whole row is taken out again by the norm, so change its "
            "entries by different numbers"
        )
    near = expected & np.eye(len(got), k=1, dtype=bool)
    if near.any() and (got == near).all():
        return ": look at all later rows, not only at the next one"
    if "adds up all words" in what and not got.any():
        return ": is the change you make too small to be seen, or the bound too high?"
    return ""


def _layers(given, matrices, ctx):
    """Self-attentions (…, n, d) -> (…, n, d), where they leak, and what to call them."""
    (n, d), (w_q, w_k, w_v) = given.shape, matrices
    causal = torch.ones(n, n, dtype=torch.bool).tril()
    triangle, none = ~np.tri(n, dtype=bool), np.zeros((n, n), dtype=bool)

    def two_ahead():
        """A mask that leaks in some places, others at each call, and where it does."""
        leaky = ctx.order(n - 2)[: ctx.integers(1, n - 2)] if n > 2 else []
        ahead = causal.clone()
        ahead[leaky, [t + 2 for t in leaky]] = True
        return ahead, (ahead & ~causal).numpy()

    def scores(x):
        return (x @ w_q.to(x)) @ (x @ w_k.to(x)).transpose(-1, -2) / d**0.5

    def layer(weigh, norm_in=False, norm_out=False, unit=False, reads=lambda x: x):
        def run(x):
            if type(x) is not Tensor or x.shape[-2:] != (n, d):
                message = f"shape {tuple(x.shape)}" if isinstance(x, Tensor) else type(x).__name__
                ctx.fail(f"layer was called with {message}: it takes a whole text, ({n}, {d})")
            if norm_in:
                x = torch.nn.functional.layer_norm(x, (d,))
            if unit:
                x = torch.nn.functional.normalize(x, dim=-1)
            seen = reads(x)
            out = weigh(scores(seen)) @ (seen @ w_v.to(seen))
            return torch.nn.functional.layer_norm(out, (d,)) if norm_out else out

        return run

    def before(mask):
        return lambda e: e.masked_fill(~mask, float("-inf")).softmax(-1)

    shares = (0.5 + torch.rand(n, n, generator=ctx.generator)) * ctx.normal(n, n).sign()

    def shared(mask):
        return lambda e: (shares * mask).to(e)

    def mix(mask):
        return layer(shared(mask))

    def leaking(what, weigh=before, **options):
        mask, where = two_ahead()
        return layer(weigh(mask), **options), where, what

    def in_one_head(which):
        mask, where = two_ahead()
        masks, half = (mask, causal) if which == "first" else (causal, mask), d // 2
        one, other = (layer(before(m)) for m in masks)
        what = f"in a layer of two heads whose {which} sees two words ahead in some places"
        return lambda x: torch.cat((one(x)[..., :half], other(x)[..., half:]), -1), where, what

    of_any_width = (
        (mix(torch.ones_like(causal)), triangle, "in a layer that adds up all words"),
        (mix(causal), none, "in a layer that adds up the words up to each"),
        leaking("in a layer that adds up words, in some places two words ahead", shared),
    )
    if d == 1:  # a row of one number has no direction, and one slope may be 0
        return of_any_width
    layers = (
        *of_any_width,
        (layer(before(causal)), none, "in a layer with the right mask"),
        (layer(before(torch.ones_like(causal))), triangle, "in a layer without a mask"),
        leaking("in a layer that sees two words ahead in some places"),
        in_one_head("first"),
        in_one_head("second"),
        leaking("in a layer whose result has mean 0", norm_out=True),
        leaking("in a layer with a norm before the attention", norm_in=True),
        leaking("in a layer that gives each row the length 1", unit=True),
        leaking(
            "in a layer that does not read the first entry of a row",
            reads=lambda x: torch.cat((0 * x[..., :1], x[..., 1:]), -1),
        ),
        leaking("in a layer that reads squares", reads=torch.square),
        leaking(
            "in a layer that takes the rows of x for zeros, but not what is near them",
            reads=lambda x: x * (x - given.to(x)),
        ),
        (
            # with a norm in these two: a row put in at random seldom leaves a sum as it was
            layer(lambda e: e.softmax(-1) * causal, norm_in=True),
            triangle,
            "in a layer that masks after the softmax",
        ),
        (
            layer(lambda e: e.masked_fill(~causal, float("-inf")).softmax(-2), norm_in=True),
            triangle,
            "in a layer with the softmax over the queries",
        ),
    )
    # among many words a leak through the sum of the softmax alone is small
    return layers[:-2] if n > 9 else layers
