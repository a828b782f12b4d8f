"""Checks of the section on steady training of a GAN: hinge losses, a slope by hand, a game with
norm and memory, a projection on the class, the spectral norm of a convolution.
"""

import numpy as np
import torch

from ..context import array, softmax
from ..gradient_check import check_gradients
from ..registry import exercise
from ..slips import on_paper
from ..verdict import Mistake


@exercise("08.hinge_losses", title="Two losses with a margin", difficulty=1, minutes=5)
def hinge_losses(answer, ctx):
    real_size, fake_size = ctx.sizes(real=(1, 8), fake=(1, 8))
    fake_size += real_size == fake_size  # or a mean over both is half of the sum
    for n, m, size in ((real_size, fake_size, 1.5), (fake_size, fake_size, 3.0)):
        arguments = size * ctx.normal(n), size * ctx.normal(m)
        # one mean beyond the margin and one before it, with scores on both sides of both: tells
        # most mistakes apart
        if size == 1.5:
            arguments = tuple(s - s.mean() + to for s, to in zip(arguments, (1.3, -0.4)))
        real, fake = (array(t) for t in arguments)
        got = ctx.parts(
            ctx.call(answer, *arguments), ("loss of the discriminator", "loss of the generator")
        )
        got = [
            ctx.floats(value, name, ())
            for value, name in zip(
                got, ("the loss of the discriminator", "the loss of the generator")
            )
        ]
        below = lambda s, margin=1.0: np.maximum(0, margin - s)  # noqa: E731
        right = below(real).mean() + below(-fake).mean()
        wrong = {
            "the loss of the generator comes first: return that of the discriminator first": -(
                fake.mean()
            ),
            "the signs of real and fake have changed places: the discriminator wants real scores "
            "above 1 and fake ones below −1": below(-real).mean() + below(fake).mean(),
            "the part of the fakes has the sign of that of the real ones: fakes should be below "
            "−1": below(real).mean() + below(fake).mean(),
            "the real ones pay above 1: a real score costs below 1, max(0, 1 − s)": below(
                -real, -1.0
            ).mean()
            + below(-fake).mean(),
            "the margin lies on the wrong side: a real score costs below 1, a fake one above "
            "−1": below(real, -1.0).mean() + below(-fake, -1.0).mean(),
            "the signs are turned round on both sides: a real score costs below 1, max(0, 1 − s), "
            "a fake one above −1, max(0, 1 + s)": below(-real, -1.0).mean()
            + below(fake, -1.0).mean(),
            "the part of the fakes is missing": below(real).mean(),
            "the part of the real ones is missing": below(-fake).mean(),
            "the maximum is taken of the mean: it belongs to each score": max(0, 1 - real.mean())
            + max(0, 1 + fake.mean()),
            "these are sums: means over the batch": below(real).sum() + below(-fake).sum(),
            "one mean over both: add the mean over the real ones and that over the fakes": (
                below(real).sum() + below(-fake).sum()
            )
            / (n + m),
            "the sum of both parts is divided by 2": right / 2,
            "the margin is 0: it is 1": below(real, 0).mean() + below(-fake, 0).mean(),
            "the maximum with 0 is missing: beyond the margin a score costs nothing": (
                1 - real
            ).mean()
            + (1 + fake).mean(),
            "this is the logistic loss, softplus: the hinge is max(0, 1 − s)": np.logaddexp(
                0, -real
            ).mean()
            + np.logaddexp(0, fake).mean(),
            "the sign is wrong: a loss falls when the discriminator gets better": -right,
        }
        ctx.close(got[0], right, "the loss of the discriminator", wrong)
        wrong = {
            "the generator has a margin: its loss is linear, −D": below(fake).mean(),
            "the generator has a hinge: its loss is linear, −D": below(fake, 0).mean(),
            "the sign is wrong: the generator wants its scores up": fake.mean(),
            "the loss of the generator is a sum: a mean": -fake.sum(),
            "the generator looks at the real scores: only its own count": -real.mean(),
            "the real scores are in the loss of the generator: it cannot change them": real.mean()
            - fake.mean(),
            "this is the logistic loss of the generator": np.logaddexp(0, -fake).mean(),
        }
        ctx.close(got[1], -fake.mean(), "the loss of the generator", wrong)
        check_gradients(
            ctx,
            answer,
            arguments,
            {0: "real", 1: "fake"},
            lambda r, f: np.maximum(0, 1 - r).mean() + np.maximum(0, 1 + f).mean(),
            part=0,
        )
        check_gradients(ctx, answer, arguments, {1: "fake"}, lambda f: -f.mean(), part=1)


@on_paper(
    "08.steepness",
    "the slope",
    title="how steep after the norm",
    difficulty=1,
    minutes=4,
    within=0.004,
)
def steepness():
    return 1 / 3, {
        "1 is the bound, and here the slope stays below it: what the first layer lengthens most, "
        "the second does not read (W is divided too)": 1,
        "that is the slope before the norm: divide both weights by their σ": 2,
        "that is the product of the two σ, a bound on the slope before the norm": 6,
        "only W is divided: w has a σ as well, its length": 2 / 3,
        "D reads the second of the hidden numbers alone, and W has 1 there, not 3: write down "
        "D(x) once": 3,
        "that is divided by the product of the σ, but where is w = 2?": 1 / 6,
        "divided by the trace of W: σ is the largest singular value alone": 0.25,
        "the slope is divided by the sum of the σ: each weight is divided by its own": 0.4,
        "the slope is divided by the squares of the σ": 1 / 18,
        "w is not 0 in its second entry, so D depends on x": 0,
    }


@exercise(
    "08.norm_and_memory", title="Predict: the norm against the memory", difficulty=1, minutes=3
)
def norm_and_memory(answer, ctx):
    return ctx.predicted(answer, "all eight", "about half", "one or none")


@exercise("08.class_scores", title="Ask for the class", difficulty=2, minutes=8)
def class_scores(answer, ctx):
    size, width, few = ctx.sizes(batch=(1, 8), width=(1, 5), classes=(1, 6))
    few += few == size  # or the shapes of two mistakes are the same
    for batch, classes in ((size, few), (size, size + 2)):
        labels = ctx.integers(0, classes, batch)
        if batch > classes:  # every class, and not in their order
            labels[:classes] = torch.arange(classes).roll(1)
        arguments = (
            ctx.normal(batch, width),
            ctx.normal(width),
            ctx.normal(1)[0],
            ctx.normal(classes, width),
            labels,
        )
        h, w, b, E = (array(t) for t in arguments[:4])
        rows = array(labels)
        got = ctx.call(answer, *arguments)
        if getattr(got, "shape", None) == (batch, batch) and batch > 1:
            ctx.fail(
                "the shape is (batch, batch), expected one score for each picture: is each picture "
                "projected on the vectors of all pictures, or a column (batch, 1) added to a row?"
            )
        if getattr(got, "shape", None) == (batch, classes) != (batch,):
            ctx.fail("the shape is (batch, classes): only the class of the picture counts")
        got = ctx.floats(got, "the scores", (batch,), mention="one score for each picture")
        plain = h @ w + b
        right = plain + (E[rows] * h).sum(-1)
        wrong = {
            "the projection is missing: the class does not count": plain,
            "w·h + b is missing: there is a part that asks for any real picture": (E[rows] * h).sum(
                -1
            ),
            "b is missing": right - b,
            "b is added twice": right + b,
            "all classes are added up: only the vector of the picture's own class": plain
            + h @ E.sum(0),
            "the largest projection is added: that of the picture's own class was asked for": plain
            + (h @ E.T).max(1),
            "the vector of the class is summed, not multiplied with h": plain + E[rows].sum(-1),
            "the label is added, not looked up": plain + rows,
            "the vector of the class is added to h before w: this is no projection of h on it": (
                h + E[rows]
            )
            @ w
            + b,
            "the sum over the features is a mean": plain + (E[rows] * h).mean(-1),
            "labels are counted from 0": plain + (E[(rows - 1) % classes] * h).sum(-1),
            "labels are counted from 0: row label + 1 was taken": plain
            + (E[(rows + 1) % classes] * h).sum(-1),
            "this is the probability of the class among all: a projection has no softmax": plain
            + softmax(h @ E.T)[np.arange(batch), rows],
            "the class has no w·h: w is multiplied with its vector": plain
            + (E[rows] * h * w).sum(-1),
            "w·h is missing, and w is multiplied with the vector of the class: both are sums of "
            "their own": (E[rows] * h * w).sum(-1) + b,
        }
        ctx.close(got, right, "the scores", wrong)

        def oracle(h, w, b, E):
            return h @ w + b + (E[rows] * h).sum(-1)

        check_gradients(ctx, answer, arguments, {0: "h", 1: "w", 2: "b", 3: "E"}, oracle)


@exercise("08.normalised", title="The norm of a convolution", difficulty=3, minutes=12)
def normalised(answer, ctx):
    first, second, height, width, most = ctx.sizes(
        first=(1, 4), second=(1, 6), height=(1, 3), width=(1, 4), iterations=(1, 3)
    )
    second += second == first  # or the matrix on its side has the same shape
    kernel = (first, second, height, width)
    for shape, transposed, steps in (
        (kernel, True, most),
        (kernel, False, 1),
        (kernel, False, most),
        (kernel, True, 1),
        ((first, 1, 1, 1), False, most),  # a single column
    ):
        weight, outputs = ctx.normal(*shape), shape[int(transposed)]
        u = ctx.normal(outputs)
        u = u / u.norm()
        got = ctx.parts(ctx.call(answer, weight, u, steps, transposed), ("weight", "u"))
        W0, u0 = array(weight), array(u)
        _compare(ctx, got, W0, u0, steps, transposed)
        left, right = _power(_matrix(W0, transposed), u0, steps)
        arguments = (weight, u, steps, transposed), {0: "weight"}
        try:
            check_gradients(
                ctx,
                answer,
                *arguments,
                lambda w: w / (left @ _matrix(w, transposed) @ right),
                part=0,
            )
        except Mistake as mistake:
            if "gradient at weight is not:" not in str(mistake):
                raise
            slips = {
                "the values are right, but σ is a constant in the gradient: only u and v are, σ "
                "= uᵀWv is made outside of no_grad": lambda w: (
                    w / (left @ _matrix(W0, transposed) @ right)
                ),
                "the values are right, but the gradient runs through u and v: they count as "
                "constants, so the rounds stand under no_grad": lambda w: (
                    w / _sigma(_matrix(w, transposed), u0, steps)
                ),
            }
            for message, oracle in slips.items():
                try:
                    check_gradients(ctx, answer, *arguments, oracle, part=0)
                except Mistake:
                    continue
                ctx.fail(message)
            raise


def _compare(ctx, got, W0, u0, steps, transposed):
    matrix = _matrix(W0, transposed)
    left, right = _power(matrix, u0, steps)
    sigma = left @ matrix @ right
    new = ctx.floats(got[0], "the weight", W0.shape, mention="the weight keeps its shape")
    later = getattr(got[1], "shape", None)
    if later == (matrix.shape[1],) != (matrix.shape[0],):
        ctx.fail(
            f"u has {matrix.shape[1]} entries: v came back instead of u, which has one for each "
            f"output"
        )
    scales = {
        "divided by the Frobenius norm: σ is the largest singular value": np.linalg.norm(matrix),
        "divided by σ²: u is not brought to length 1 in the steps, or the product is squared": sigma
        ** 2,
        "divided by σ times the length of Wᵀ u: v ← Wᵀ u / ‖Wᵀ u‖ is brought to length 1, "
        "too": sigma * np.linalg.norm(matrix.T @ _power(matrix, u0, steps - 1)[0]),
        "divided by the root of σ": np.sqrt(sigma),
        "multiplied by σ: it is divided by it": 1 / sigma,
        "not divided": 1.0,
        "divided by the exact σ: it is followed by the power method, with the steps that were "
        "asked for": np.linalg.svd(matrix, compute_uv=False)[0],
        "divided with one step of the power method too many": _sigma(matrix, u0, steps + 1),
        "divided by the largest entry": np.abs(matrix).max(),
    }
    if steps > 1:
        scales["divided with one step of the power method, whatever `iterations` says"] = _sigma(
            matrix, u0, 1
        )
    other = matrix.shape[0] != W0.shape[0] if transposed else False
    wrong = {f"the weight is {message}": W0 / value for message, value in scales.items()}
    wrong["u is what it was before: σ needs the new one, u ← W v / ‖W v‖"] = W0 / (
        u0 @ matrix @ right
    )
    wrong["v is made of the new u: in each round v ← Wᵀ u / ‖Wᵀ u‖ comes first, then u"] = (
        W0 / np.linalg.norm(matrix.T @ left)
    )
    if transposed:
        wrong[
            "the dimensions are renamed by reshape: exchange the first two with transpose, then "
            "flatten"
        ] = W0 / _sigma(W0.reshape(matrix.shape), u0, steps)
        flat = W0.reshape(len(W0), -1)
        message = (
            "the outputs of a transposed convolution stand in dimension 1: the matrix is "
            "(outputs, everything else)"
        )
        wrong[message] = W0 / np.linalg.svd(flat, compute_uv=False)[0]
        if flat.shape[0] == len(u0):
            wrong[f"{message} "] = W0 / _sigma(flat, u0, steps)
        if other:
            start = np.resize(u0, len(W0))
            wrong[f"{message}  "] = W0 / _sigma(flat, start / np.linalg.norm(start), steps)
    wrong["the matrix has outputs · inputs rows: it is (outputs, everything else)"] = (
        W0 / np.linalg.svd(W0.reshape(W0.shape[0] * W0.shape[1], -1), compute_uv=False)[0]
    )
    ctx.close(new, W0 / sigma, "the weight", wrong)
    ctx.close(
        ctx.floats(got[1], "u", u0.shape),
        left,
        "u",
        {
            "u came back as it was: the next step of the training goes on from where this one "
            "ended": u0,
            "u is not of length 1: u ← W v / ‖W v‖": left * np.linalg.norm(matrix @ right),
            "u has the wrong sign": -left,
        },
    )


def _matrix(weight, transposed):
    weight = weight.swapaxes(0, 1) if transposed else weight
    return weight.reshape(len(weight), -1)


def _power(matrix, u, steps):
    v = matrix.T @ u
    for _ in range(steps):
        v = matrix.T @ u
        v = v / np.linalg.norm(v)
        u = matrix @ v
        u = u / np.linalg.norm(u)
    return u, v


def _sigma(matrix, u, steps):
    u, v = _power(matrix, u, steps)
    return u @ matrix @ v
