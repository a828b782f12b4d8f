"""Checks of the section on the whole model: its parameters from its sizes, a model without blocks
by hand, a prediction, and its parts put together.
"""

import numpy as np
import torch
from torch import Tensor

from ..context import a, array, softmax
from ..gradient_check import check_gradients
from ..registry import exercise
from ..slips import Slips, on_paper


def _size(vocabulary, d, d_ff, layers):
    attention = 4 * d**2
    network = 2 * d * d_ff + d_ff + d
    norm = 2 * d
    encoder = attention + network + 2 * norm
    decoder = 2 * attention + network + 3 * norm
    return vocabulary * d + layers * (encoder + decoder)


_SIZE = Slips(
    _size,
    {
        "the matrix of the embeddings is counted three times: "
        "it is one matrix, used in three places": "vocabulary * d → 3 * vocabulary * d",
        "the matrix of the embeddings is counted twice: "
        "source, target and output share one": "vocabulary * d → 2 * vocabulary * d",
        "the matrix of the embeddings is missing": "vocabulary * d + →",
        "a decoder block is counted like an encoder block: it has a second attention, over the "
        "source, and a third norm": ("2 * attention → attention", "3 * norm → 2 * norm"),
        "the attention over the source is missing in the decoder "
        "blocks": "2 * attention → attention",
        "2·d are missing in each layer: an encoder block has two norms, a decoder block three, and "
        "a network has a second bias, of width d": "3 * norm → 2 * norm",
        "the norms are missing": "norm = 2 * d → norm = 0",
        "a norm has two vectors, a gain and a bias: you count one": "norm = 2 * d → norm = d",
        "the biases of the feed-forward network are missing": "+ d_ff + d →",
        "the projections of an attention have no bias here": "4 * d**2 → 4 * d**2 + 4 * d",
        "an attention has four matrices: "
        "W_q, W_k, W_v and W_o; you count three": "4 * d**2 → 3 * d**2",
        "the decoder's blocks are missing": "+ decoder) →)",
        "there is one block of each kind: expected as many as layers says": "layers * →",
        "there is a bias before the softmax: "
        "the output is the embedding matrix alone": "vocabulary * d → vocabulary * d + vocabulary",
        "a norm stands at the end of each stack: "
        "after post-norm blocks there is none": "vocabulary * d → vocabulary * d + 2 * norm",
    },
)


@exercise("06.model_size", title="Parameters from sizes", difficulty=2, minutes=10)
def model_size(answer, ctx):
    drawn = ctx.sizes(vocabulary=(1, 90), d=(1, 12), filters=(1, 34), layers=(1, 4))
    for vocabulary, d, d_ff, layers in (drawn, (37_000, 512, 2048, 6), (100, 7, 20, 1)):
        got = ctx.number(ctx.call(answer, vocabulary, d, d_ff, layers), "the result")
        right, wrong = _SIZE(vocabulary, d, d_ff, layers)
        # of their differences, which are far smaller than the numbers
        ctx.recognize(got - right, 0, {message: other - right for message, other in wrong.items()})
        if got != right:
            ctx.fail(
                f"for a vocabulary of {vocabulary}, d = {d}, d_ff = {d_ff} and {layers} layers "
                f"the result is {got:,.0f}, "
                f"expected {right:,}"
            )


@on_paper(
    "06.no_blocks",
    "the probability of le",
    title="A model without blocks",
    difficulty=2,
    minutes=5,
    within=0.002,
    otherwise="begin with the four numbers of r_1",
)
def no_blocks():
    rows = np.array([[1, 1, -1, -1], [1, 1, 1, -1], [1, -1, 1, -1]]) / 2  # le, chat, dort
    place = np.array([0, 1, 0, 1])
    logits = rows @ (2 * rows[0] + place)
    right = softmax(logits)
    return right[0], {
        "the factor √d is missing at the input": softmax(rows @ (rows[0] + place))[0],
        "the position is missing": softmax(rows @ (2 * rows[0]))[0],
        "the position is multiplied by √d too": softmax(rows @ (2 * (rows[0] + place)))[0],
        "the logits are multiplied by √d: the factor stands at the input alone": softmax(
            2 * logits
        )[0],
        "that is the logit: the softmax is missing": logits[0],
        "the softmax is missing: you divide the logit by the sum of the logits": logits[0]
        / logits.sum(),
        "that is the probability of chat": right[1],
        "that is the probability of dort": right[2],
    }


@exercise("06.turned_around", title="Predict: Turned around", difficulty=2, minutes=5)
def turned_around(answer, ctx):
    return ctx.predicted(answer, "for none", "for about half", "for nearly all")


def _log_softmax(logits, axis=-1):
    shifted = logits - logits.max(axis, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis, keepdims=True))


def _transformer(E, P, source, target, mix, words):
    """Log-probabilities (B, m, V)."""
    factor, m = np.sqrt(E.shape[1]), target.shape[1]
    x = factor * E[source] + P[: words.shape[1]]
    memory = x + _average(np.tanh(x @ mix[0]), words[:, None])
    read = np.insert(target, 0, 1, axis=1)[:, :m]
    y = factor * E[read] + P[:m]
    y = y + _average(np.tanh(y @ mix[1]), np.tri(m)[None])
    y = np.tanh(y @ mix[2] + _average(memory @ mix[3], words[:, None]))
    return _log_softmax(y @ E.T)


_TRANSFORMER = Slips(
    _transformer,
    {
        "the embeddings are not multiplied by √d": "np.sqrt(E.shape[1]) → 1.0",
        "the embeddings are multiplied by d: expected √d": "np.sqrt(E.shape[1]) → E.shape[1]",
        "the embeddings are divided by √d: "
        "expected multiplied": "np.sqrt(E.shape[1]) → E.shape[1] ** -0.5",
        "the positions are multiplied by √d too: the factor belongs to the embeddings alone": (
            "+ P[: words → + factor * P[: words",
            "+ P[:m] → + factor * P[:m]",
        ),
        "no positions are added": ("+ P[: words.shape[1]] →", "+ P[:m] →"),
        "the decoder's input has no positions": "+ P[:m] →",
        "the encoder's input has no positions": "+ P[: words.shape[1]] →",
        "the positions of the decoder's input start at row 1 of P: "
        "BOS stands at position 0": "P[:m] → P[1 : m + 1]",
        "the positions start at row 1 of P: position 0 is row 0": (
            "P[:m] → P[1 : m + 1]",
            "P[: words.shape[1]] → P[1 : words.shape[1] + 1]",
        ),
        "the positions of the target go on after those of the source: they start "
        "anew": "P[:m] → P[min(words.shape[1], len(P) - m) :][:m]",
        "the decoder reads the target itself: row t sees the token that it has to predict; put BOS "
        "in front and leave out the last": "np.insert(target, 0, 1, axis=1)[:, :m] → target",
        "the decoder reads the target from its second token on: it has to read BOS and all but the "
        "last": "np.insert(target, 0, 1, axis=1)[:, :m] → np.insert(target, m, 1, axis=1)[:, 1:]",
        "the first token that the decoder reads is padding (0): "
        "expected BOS (1)": "target, 0, 1 → target, 0, 0",
        "the logits are multiplied by √d: "
        "the factor belongs to the embeddings at the input": "y @ E.T → factor * y @ E.T",
        "the logits came back: "
        "take their log_softmax over the vocabulary": "_log_softmax(y @ E.T) → y @ E.T",
        "probabilities came back: "
        "expected their logarithms": "_log_softmax(y @ E.T) → softmax(y @ E.T)",
        "the softmax runs over the positions: "
        "expected over the vocabulary, the last dimension": "y @ E.T → y @ E.T, 1",
        "the decoder does not get what the encoder made: "
        "its memory is the embedded source": "memory = x + → memory = x + 0 *",
    },
)


@exercise("06.whole_model", title="Put the model together", difficulty=3, minutes=15)
def whole_model(answer, ctx):
    batch, n, m, d = ctx.sizes(batch=(1, 3), n=(1, 6), m=(1, 5), d=(1, 9))
    n += n == m + 1  # a memory is no target with one row more
    size = d + ctx.integers(4, 7)
    E, P = 0.5 * ctx.normal(size, d), ctx.normal(max(n, m) + 3, d)
    source, target = ctx.integers(3, size - 1, batch, n), ctx.integers(3, size - 1, batch, m)
    lengths = ctx.lengths(batch, n)
    source[torch.arange(n) >= lengths[:, None]] = 0
    mix = [0.7 * ctx.normal(d, d) for _ in range(4)]
    words = np.arange(n) < array(lengths)[:, None]
    calls = []

    def encoder(x, mask):
        _stream(ctx, x, "encoder(x, mask): x", (batch, n, d))
        _mask(ctx, mask, "encoder(x, mask): mask", np.broadcast_to(words[:, None], (batch, n, n)))
        calls.append("encoder")
        return x + _mean(torch.tanh(x @ mix[0].to(x)), mask.expand(batch, n, n))

    def decoder(y, memory, mask, source_mask):
        if type(y) is Tensor and tuple(y.shape) == (batch, m + 1, d):
            ctx.fail(
                "decoder(y, …): y has one row more than the target: it reads BOS and all tokens "
                "but the last"
            )
        _stream(ctx, y, "decoder(y, …): y", (batch, m, d))
        _stream(ctx, memory, "decoder(y, memory, …): memory", (batch, n, d))
        _mask(ctx, mask, "decoder(…): mask", np.broadcast_to(np.tri(m, dtype=bool), (batch, m, m)))
        _mask(
            ctx,
            source_mask,
            "decoder(…): source_mask",
            np.broadcast_to(words[:, None], (batch, m, n)),
        )
        calls.append("decoder")
        y = y + _mean(torch.tanh(y @ mix[1].to(y)), mask.expand(batch, m, m))
        source = _mean(memory @ mix[3].to(y), source_mask.expand(batch, m, n))
        return torch.tanh(y @ mix[2].to(y) + source)

    given = (E, P, encoder, decoder, source, lengths, target)
    got = ctx.call(answer, *given)
    if calls.count("encoder") > 1 and calls.count("decoder") > 1:
        ctx.fail(
            "the encoder is called more than once: the target is read at once, one call of each "
            "is enough"
        )
    if "decoder" not in calls:
        ctx.fail("decoder was never called")
    if type(got) is Tensor and tuple(got.shape) == (batch, m, d):
        ctx.fail(
            "the vectors of the decoder came back: multiply them by the transpose of E, and take "
            "the logarithm of the softmax"
        )
    got = ctx.floats(
        got,
        "the result",
        (batch, m, size),
        mention="a distribution over the vocabulary at each position",
    )
    numbers = [array(part) for part in (E, P)]
    rest = array(source), array(target), [*map(array, mix)], words
    right, wrong = _TRANSFORMER(*numbers, *rest)
    ctx.close(got, right, "the result", wrong)
    check_gradients(ctx, answer, given, {0: "E", 1: "P"}, lambda E, P: _transformer(E, P, *rest))

    large, what = E.clone(), "the result for logits of some hundreds"
    large[-1] *= 500  # of a word that no text has
    got = ctx.floats(ctx.call(answer, large, *given[1:]), what, (batch, m, size))
    ctx.close(got, _transformer(array(large), numbers[1], *rest), what, size=1000.0)


def _stream(ctx, value, name, shape):
    if type(value) is not Tensor:
        ctx.fail(f"{name} is {a(value)}, expected a torch.Tensor")
    if tuple(value.shape) != shape:
        ctx.fail(f"{name} has the shape {tuple(value.shape)}, expected {shape}")


def _mask(ctx, mask, name, right):
    """Whether a mask is right, whatever shape it is broadcast from."""
    if type(mask) is not Tensor or mask.dtype != torch.bool:
        what = (
            f"of dtype {str(mask.dtype).removeprefix('torch.')}"
            if type(mask) is Tensor
            else a(mask)
        )
        ctx.fail(f"{name} is {what}, expected a boolean tensor, True = may attend")
    try:
        mine = np.broadcast_to(mask.numpy(), right.shape)
    except ValueError:
        hint = (
            ": put in a dimension for the queries"
            if mask.dim() == 2 and len(mask) == len(right)
            else ""
        )
        ctx.fail(
            f"{name} has the shape {tuple(mask.shape)}, which does not broadcast to "
            f"{right.shape}{hint}"
        )
    if (mine == right).all():
        return
    if (mine == ~right).all():
        ctx.fail(f"{name} is upside down: True means may attend")
    if mine.all():
        ctx.fail(
            f"{name} lets everything through: expected "
            + ("no padding" if "source" in name or "encoder" in name else "no later position")
        )
    if right.shape[1] == right.shape[2] and (mine == right.transpose(0, 2, 1)).all():
        ctx.fail(f"{name} is transposed: a row is a query, and it sees the columns up to itself")
    if right.shape[1] == right.shape[2] and (right == np.tri(right.shape[1], dtype=bool)).all():
        if (mine == np.tri(right.shape[1], k=-1, dtype=bool)).all():
            ctx.fail(
                f"{name} hides each position from itself: it sees the columns up to itself, with "
                f"the diagonal"
            )
        if (mine == np.tri(right.shape[1], k=1, dtype=bool)).all():
            ctx.fail(
                f"{name} lets each position see the one after it: the diagonal is one column too "
                f"far right"
            )
    ctx.fail(
        f"{name} is not the one that was asked for: {int((mine != right).sum())} of {right.size} "
        f"entries differ"
    )


def _mean(rows, mask):
    share = mask.to(rows.dtype)
    return share @ rows / share.sum(-1, keepdim=True)


def _average(rows, allowed):
    return allowed @ rows / allowed.sum(-1, keepdims=True)
