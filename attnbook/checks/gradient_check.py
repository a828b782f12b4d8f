"""Whether a model could learn through an answer: its gradients beside central differences of the
oracle.
"""

import numpy as np
import torch

from ..answers.guarded import StudentError
from .context import array

_STEP, _DIRECTIONS = 1e-5, 3


def check_slopes(trial, answer, arguments, at, oracle, *, part=None, nan=None, step=_STEP):
    """Fail unless the gradients that autograd takes through the answer are right.

    arguments: what the answer is called with
    at:        {place of an argument: its name in messages}, the arguments of floats that have to
    get a gradient
    oracle:    `oracle(*arrays) -> array`, the right result from the arguments in `at`, NumPy
    float64; smooth where they lie
    part:      which member of the result it is, where the answer returns a tuple
    nan:       a sentence for a gradient that is not finite
    step:      of the central differences; smaller where the oracle bends within 1e-5

    The results are added up with random factors. The slope of that sum along random directions is
    asked from autograd, one argument at a time, and compared with the oracle's. Call it when the
    values are known to be right."""
    given = [
        argument.clone().requires_grad_() if i in at else argument
        for i, argument in enumerate(arguments)
    ]
    start = [array(given[i]) for i in at]
    factors = trial.normal(*np.shape(oracle(*start)))
    found = {}

    def ask(result, copies):
        result = result if part is None else result[part]
        if type(result) is not torch.Tensor or not result.requires_grad:
            return
        try:
            slopes = torch.autograd.grad(
                (result * factors).sum(), [copies[i] for i in at], allow_unused=True
            )
        except RuntimeError as error:
            if "inplace" in str(error):
                trial.fail(
                    "the values are right, but no gradient can go back through them: a tensor is "
                    "changed in place after it was used"
                )
            raise
        found.update(zip(at, slopes))

    cut = (
        "the values are right, but no gradient {}: a model could not learn through them. detach, "
        "no_grad, item, NumPy and "
        "torch.tensor(…) cut the way"
    )
    try:
        trial.call(answer, *given, then=ask)
    except StudentError as error:
        if "numpy()" in str(error):
            trial.fail(cut.format("goes back through them"))
        raise
    if not found:
        trial.fail(cut.format("goes back through them"))
    for i, name in at.items():
        if found[i] is None:
            trial.fail(cut.format(f"reaches {name}"))
    for k, (i, name) in enumerate(at.items()):
        slope = array(found[i])
        if not np.isfinite(slope).all():
            why = nan or "a division by 0, or a NaN that is replaced later, leaves NaN behind in it"
            trial.fail(f"the values are right, but the gradient at {name} is not finite: {why}")
        ways = [array(trial.normal(*slope.shape)) for _ in range(_DIRECTIONS)]
        got = np.array([(slope * way).sum() for way in ways])
        expected = np.array([_along(oracle, start, k, way, array(factors), step) for way in ways])
        if np.abs(got - expected).max() > 2e-3 * np.abs(expected).max() + 1e-5:
            trial.fail(
                f"the values are right, but the gradient at {name} is not: is a part of the way "
                f"back cut (detach, no_grad)?"
            )


def _along(oracle, start, k, way, factors, step):
    """The slope of the weighted sum of results when argument k moves along `way`: central
    differences.
    """
    there, back = (
        (oracle(*start[:k], start[k] + size * way, *start[k + 1 :]) * factors).sum()
        for size in (step, -step)
    )
    return (there - back) / (2 * step)
