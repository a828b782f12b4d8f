"""Compare the gradients of an answer with central differences of the oracle."""

import numpy as np
import torch
from torch import Tensor

from ..answers.guarded import StudentError
from .context import array

_STEP, _DIRECTIONS = 1e-5, 3


def check_gradients(ctx, answer, arguments, at, oracle, *, part=None, nan=None, step=_STEP):
    """Fail unless the gradients that autograd computes through the answer are right.

    The results are added up with random factors. The directional derivatives of that sum along
    random directions, one argument at a time, are compared with central differences of the oracle.
    Call it once the values are known to be right.

    Args:
        ctx: the check's context.
        answer: the function to check.
        arguments: the arguments of the call.
        at: {position of an argument: its name in messages}, the arguments of floats that must
            receive a gradient.
        oracle: `oracle(*arrays) -> array`, the right result from the arguments in `at` in NumPy
            float64, differentiable there.
        part: the index of the member to check, where the answer returns a tuple.
        nan: the reason in the message about a gradient that is not finite.
        step: of the central differences; smaller where the oracle is not smooth within 1e-5.
    """
    ctx.differentiated |= set(at)
    if ctx.far:  # the small runs have shown it; what writes entry by entry would take minutes
        return
    inputs = [
        argument.clone().requires_grad_() if i in at else argument
        for i, argument in enumerate(arguments)
    ]
    start = [array(inputs[i]) for i in at]
    factors = ctx.normal(*np.shape(oracle(*start)))
    gradients = {}

    def differentiate(result, copies):
        result = result if part is None else result[part]
        if type(result) is not Tensor or not result.requires_grad:
            return
        try:
            computed = torch.autograd.grad(
                (result * factors).sum(), [copies[i] for i in at], allow_unused=True
            )
        except RuntimeError as error:
            if "inplace" in str(error):
                ctx.fail(
                    "the values are right, but no gradient can go back through them: a tensor is "
                    "changed in place after it was used"
                )
            raise
        gradients.update(zip(at, computed))

    cut = (
        "the values are right, but no gradient {}: a model could not learn through them. detach, "
        "no_grad, item, NumPy and torch.tensor(…) cut the way, and so does what an earlier "
        "call left"
    )
    try:
        ctx.call(answer, *inputs, then=differentiate)
    except StudentError as error:
        if "numpy()" in str(error):
            ctx.fail(cut.format("goes back through them"))
        raise
    slopes = [
        [
            (direction, _directional_derivative(oracle, start, k, direction, array(factors), step))
            for direction in (array(ctx.normal(*one.shape)) for _ in range(_DIRECTIONS))
        ]
        for k, one in enumerate(start)
    ]
    for (i, name), along in zip(at.items(), slopes):
        if gradients.get(i) is None and any(slope for _, slope in along):  # else none is needed
            ctx.fail(cut.format(f"reaches {name}" if gradients else "goes back through them"))
    for (i, name), along, value in zip(at.items(), slopes, start):
        gradient = np.zeros_like(value) if gradients.get(i) is None else array(gradients[i])
        if not np.isfinite(gradient).all():
            why = nan or (
                "a division by 0, an exponential that overflows, a softmax over nothing but −∞, or "
                "a NaN or an infinity that is replaced later, leaves NaN behind in it"
            )
            ctx.fail(f"the values are right, but the gradient at {name} is not finite: {why}")
        got = np.array([(gradient * direction).sum() for direction, _ in along])
        expected = np.array([slope for _, slope in along])
        off = np.abs(got - expected)
        large = np.abs(value, where=np.isfinite(value), out=np.zeros_like(value)).max(initial=0)
        rough = 2e-3 + 2**-22 * large  # an input so large is rounded in float32
        if off.max() > rough * np.abs(expected).max() + 1e-5:
            worst = off.argmax()
            ctx.fail(
                f"the values are right, but the gradient at {name} is not: is a part of the way "
                f"back cut (detach, no_grad, clamp)? (The slope in one direction is "
                f"{got[worst]:.4g}, expected {expected[worst]:.4g}.)"
            )


def check_finite_gradients(ctx, answer, arguments, at, nan):
    """Fail where a gradient is not finite: for inputs whose slopes no difference tells.

    The arguments are those of `check_gradients`, without the oracle.
    """
    inputs = [
        argument.clone().requires_grad_() if i in at else argument
        for i, argument in enumerate(arguments)
    ]

    def differentiate(result, copies):
        found = torch.autograd.grad(result.sum(), [copies[i] for i in at], allow_unused=True)
        for name, gradient in zip(at.values(), found):
            if gradient is not None and not np.isfinite(array(gradient)).all():
                ctx.fail(f"the values are right, but the gradient at {name} is not finite: {nan}")

    ctx.call(answer, *inputs, then=differentiate)


def _directional_derivative(oracle, start, k, direction, factors, step):
    """Of the weighted sum of the oracle's results, when argument k moves along `direction`."""
    plus, minus = (
        (oracle(*start[:k], start[k] + size * direction, *start[k + 1 :]) * factors).sum()
        for size in (step, -step)
    )
    return (plus - minus) / (2 * step)
