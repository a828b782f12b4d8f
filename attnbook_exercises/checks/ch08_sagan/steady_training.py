"""Checks of the section on steady training of a GAN: a slope by hand, a game with norm and memory,
the curves of four games, a projection on the class, the spectral norm of a convolution.
"""

import numpy as np
import torch

from ..context import array, shape_of
from ..gradient_check import check_gradients
from ..registry import exercise
from ..slips import Slips, on_paper, read_the_curve
from ..verdict import Mistake


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


@read_the_curve("08.four_games", title="four games without names", difficulty=2, minutes=6)
def four_games():
    """A has the norm and 20 times the rate, B 4 times, C neither norm nor memory, D the memory."""
    steep = "its slopes are far above 1, which the norm does not allow"
    bounded = "its slopes are below 1: that is the norm"
    return {
        "the letter of the usual memory": (
            "D",
            {
                "A": bounded,
                "B": bounded,
                "C": "its forgers keep what they have found: with the memory they leave it again",
            },
        ),
        "the letter of the norm at 4 times the rate": (
            "B",
            {
                "A": "fewer of its points lie in a heap than of B's: the larger rate does worse",
                "C": steep,
                "D": steep,
            },
        ),
        "the letter of the norm at 20 times the rate": (
            "A",
            {
                "B": "more of its points lie in a heap than of A's: the larger rate does worse",
                "C": steep,
                "D": steep,
            },
        ),
    }


def _projected(h, w, b, E, labels):
    rows = E[labels]
    return h @ w + b + (rows * h).sum(-1)


_PROJECTED = Slips(
    _projected,
    {
        "the projection is missing: the class does not count": "+ (rows * h).sum(-1) →",
        "w·h + b is missing: there is a part that asks for any real picture": "h @ w + b + →",
        "b is missing": "+ b + → +",
        "b is added twice": "+ b → + 2 * b",
        "each picture is projected on the vectors of all pictures, and that is added up: only the "
        "vector of its own class": "rows * h → rows.sum(0) * h",
        "all classes are added up: "
        "only the vector of the picture's own class": "rows * h → E.sum(0) * h",
        "the largest projection is added: that of the picture's own class was asked "
        "for": "(rows * h).sum(-1) → (h @ E.T).max(1)",
        "the vector of the class is summed, not multiplied with h": "rows * h → rows",
        "the label is added, not looked up": "(rows * h).sum(-1) → labels",
        "the vector of the class is added to h before w: "
        "this is no projection of h on it": "h @ w + b + (rows * h).sum(-1) → (h + rows) @ w + b",
        "the sum over the features is a mean": "sum → mean",
        "labels are counted from 0": "[labels] → [(labels - 1) % len(E)]",
        "labels are counted from 0: row label + 1 was taken": "[labels] → [(labels + 1) % len(E)]",
        "this is the probability of the class among all: a projection has no "
        "softmax": "(rows * h).sum(-1) → np.exp((rows * h).sum(-1)) / np.exp(h @ E.T).sum(1)",
        "the class has no w·h: w is multiplied with its vector": "rows * h → rows * h * w",
        "w·h is missing, and w is multiplied with the vector of the class: both are sums of "
        "their own": ("h @ w + →", "rows * h → rows * h * w"),
    },
)


@exercise("08.class_scores", title="Shape error: a score for each pair", difficulty=2, minutes=8)
def class_scores(answer, ctx):
    size, width, few = ctx.sizes(pictures=(1, 8), width=(1, 5), classes=(1, 6))
    few += few == size  # or the shapes of two mistakes are the same
    for batch, classes in ((size, few), (size, size + 2)):
        labels = ctx.integers(0, classes, batch)
        if batch > classes:  # every class, and not in their order
            labels[:classes] = torch.arange(classes).roll(1)
        given = (
            ctx.normal(batch, width),
            ctx.normal(width),
            ctx.normal(1)[0],
            ctx.normal(classes, width),
            labels,
        )
        got = ctx.call(answer, *given)
        if shape_of(got) == (batch, batch) and batch > 1:
            ctx.fail(
                "the shape is (batch, batch), expected one score for each picture: is each picture "
                "projected on the vectors of all pictures, or a column (batch, 1) added to a row?"
            )
        if shape_of(got) == (batch, classes) != (batch,):
            ctx.fail("the shape is (batch, classes): only the class of the picture counts")
        got = ctx.floats(got, "the scores", (batch,), mention="one score for each picture")
        right, wrong = _PROJECTED(*map(array, given))
        ctx.close(got, right, "the scores", wrong)
        names = {0: "h", 1: "w", 2: "b", 3: "E"}
        rows = array(labels)
        check_gradients(
            ctx, answer, given, names, lambda *now, rows=rows: _projected(*now, labels=rows)
        )
    many = ctx.normal(600, width), *given[1:4], ctx.integers(0, len(given[3]), 600)
    ctx.without_loop(answer, *many, over="pictures")


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


def _scaled(weight, u, steps, transposed):
    matrix = _matrix(weight, transposed)
    new, v = _power(matrix, u, steps)
    return weight / (new @ matrix @ v)


_SIGMA = "(new @ matrix @ v) →"
_SCALED = Slips(
    _scaled,
    {
        "the weight is divided by the Frobenius norm: "
        "σ is the largest singular value": f"{_SIGMA} np.linalg.norm(matrix)",
        "the weight is divided by σ²: u is not brought to length 1 in the steps, or the product is "
        "squared": "@ v) → @ v) ** 2",
        "the weight is divided by σ times the length of Wᵀ u: v ← Wᵀ u / ‖Wᵀ u‖ is brought to "
        "length 1, too": "@ v) → @ v) / np.linalg.norm(matrix.T @ _power(matrix, u, steps - 1)[0])",
        "the weight is divided by the root of σ": "@ v) → @ v) ** 0.5",
        "the weight is multiplied by σ: it is divided by it": "weight / → weight *",
        "the weight is not divided": f"/ {_SIGMA}",
        "the weight is divided by the exact σ: it is followed by the power method, with the steps "
        "that were asked for": f"{_SIGMA} np.linalg.norm(matrix, 2)",
        "the weight is divided with one step of the power method too "
        "many": "u, steps) → u, steps + 1)",
        "the weight is divided by the largest entry": f"{_SIGMA} np.abs(matrix).max()",
        "the weight is divided with one step of the power method, whatever `iterations` "
        "says": "u, steps) → u, 1)",
        "u is what it was before: σ needs the new one, u ← W v / ‖W v‖": "(new @ → (u @",
        "v is made of the new u: in each round v ← Wᵀ u / ‖Wᵀ u‖ comes first, then "
        "u": f"{_SIGMA} np.linalg.norm(matrix.T @ new)",
        "the dimensions are renamed by reshape: exchange the first two with transpose, then "
        "flatten": "_matrix(weight, transposed) → weight.reshape(len(u), -1)",
        "the outputs of a transposed convolution stand in dimension 1: the matrix is "
        "(outputs, everything else)": "_matrix(weight, transposed) → _matrix(weight, False)\n    "
        "u = np.resize(u, len(matrix))",
        "the matrix has outputs · inputs rows: it is (outputs, everything "
        "else)": f"{_SIGMA} np.linalg.norm(weight.reshape(-1, weight[0, 0].size), 2)",
    },
)


def _new_u(weight, u, steps, transposed):
    matrix = _matrix(weight, transposed)
    new, v = _power(matrix, u, steps)
    return new


_NEW_U = Slips(
    _new_u,
    {
        "u came back as it was: "
        "the next step of the training goes on from where this one ended": "return new → return u",
        "u is not of length 1: "
        "u ← W v / ‖W v‖": "return new → return new * np.linalg.norm(matrix @ v)",
        "u has the wrong sign": "return new → return -new",
    },
)


@exercise("08.normalised", title="The norm of a convolution", difficulty=3, minutes=12)
def normalised(answer, ctx):
    first, second, height, width, most = ctx.sizes(
        first=(1, 4), second=(1, 6, 6), height=(1, 3, 3), width=(1, 4), iterations=(1, 3, 30)
    )
    second += second == first  # or the matrix on its side has the same shape
    kernel = (first, second, height, width)
    for shape, transposed, steps, size in (
        (kernel, True, most, 1),
        (kernel, False, 1, 1),
        (kernel, False, most, 1),
        (kernel, True, 1, 1e-4),  # the result has nothing of it, unless a norm gets a constant
        ((first, 1, 1, 1), False, most, 1),  # a single column
    ):
        weight, outputs = size * ctx.normal(*shape), shape[int(transposed)]
        u = ctx.normal(outputs)
        given = weight, u / u.norm(), steps, transposed
        got = ctx.parts(ctx.call(answer, *given), ("weight", "u"))
        W0, u0 = array(given[0]), array(given[1])
        matrix = _matrix(W0, transposed)
        new = ctx.floats(got[0], "the weight", shape, mention="the weight keeps its shape")
        if shape_of(got[1]) == (matrix.shape[1],) != (outputs,):
            ctx.fail(
                f"u has {matrix.shape[1]} entries: v came back instead of u, which has one for "
                f"each output"
            )
        right, wrong = _SCALED(W0, u0, steps, transposed)
        ctx.close(new, right, "the weight", wrong)
        right, wrong = _NEW_U(W0, u0, steps, transposed)
        ctx.close(ctx.floats(got[1], "u", u0.shape), right, "u", wrong)
        if size == 1:
            _through_sigma(ctx, answer, given)


def _through_sigma(ctx, answer, given):
    """The gradient at the weight, with the names of its two mistakes."""
    W0, u0, (steps, transposed) = array(given[0]), array(given[1]), given[2:]
    left, right = _power(_matrix(W0, transposed), u0, steps)
    try:
        check_gradients(
            ctx,
            answer,
            given,
            {0: "weight"},
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
            "constants, so the rounds stand under no_grad": lambda w: _scaled(
                w, u0, steps, transposed
            ),
        }
        for message, oracle in slips.items():
            try:
                check_gradients(ctx, answer, given, {0: "weight"}, oracle, part=0)
            except Mistake:
                continue
            ctx.fail(message)
        raise
