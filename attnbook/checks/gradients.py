"""Checks of the section on gradients: the norm of a product of Jacobians, and clipping by the global norm."""

import numpy as np
import torch

from .registry import exercise
from .trial import a, array


@exercise("01.clip_gradients", title="Clip by the global norm", difficulty=2, minutes=10)
def clip_gradients(answer, trial):
    gradients = [3 * trial.normal(2, 3), 0.5 * trial.normal(4), 2 * trial.normal(1)]
    g = [array(one) for one in gradients]
    norms = np.array([np.sqrt((one**2).sum()) for one in g])
    norm = np.sqrt((norms**2).sum())

    def flat(parts):
        return np.concatenate([np.asarray(part).reshape(-1) for part in parts])

    def run(inputs, limit, **texts):
        result = trial.call(answer, inputs, limit)
        if type(result) not in (list, tuple) or len(result) != len(inputs):
            trial.fail(f"your function returns {a(result)}, expected a list of {len(inputs)} tensors")
        return flat([
            array(trial.tensor(one, f"gradient {i}", tuple(was.shape), **texts)) for i, (one, was) in enumerate(zip(result, inputs))
        ])

    limit = 0.4 * float(norm)
    wrong = {
        "nothing is clipped": flat(g),
        "each gradient is clipped by its own norm: that turns the step. Use one norm over all of them": flat(
            [one * min(1.0, limit / size) for one, size in zip(g, norms)]
        ),
        "single entries are cut off at max_norm: that turns the step. Scale all of them by one number": flat(
            [np.clip(one, -limit, limit) for one in g]
        ),
        "the norms are added up: the squares are, and the root comes last": flat([one * limit / norms.sum() for one in g]),
        "the root is missing: the squared norm is used": flat([one * limit / norm**2 for one in g]),
        "the gradients get norm 1: expected max_norm": flat([one / norm for one in g]),
    }
    trial.close(run(gradients, limit), flat([one * limit / norm for one in g]), "large gradients: entry", wrong)
    wrong = {"gradients below max_norm are scaled up: leave them alone": flat([one * 2 for one in g])}
    trial.close(run(gradients, 2.0 * float(norm)), flat(g), "small gradients: entry", wrong)
    zeros = [torch.zeros(3), torch.zeros(2)]
    trial.close(run(zeros, 1.0, nan="gradients of 0 have norm 0: do not divide by it"), np.zeros(5), "zero gradients: entry")


@exercise("01.jacobian_norms", title="What is left of the gradient", difficulty=4, minutes=25)
def jacobian_norms(answer, trial):
    for steps in (3, trial.integers(4, 7)):
        size = trial.integers(3, 5)
        weight, states = trial.normal(size, size), torch.tanh(trial.normal(steps, size))
        w, h = array(weight), array(states)

        def norms(slope=lambda a: 1 - a**2, order=2, flip=False, transpose=False, right=False, norm=np.linalg.norm):
            product, found = np.eye(size), []
            for state in h:
                one = w @ np.diag(slope(state)) if right else np.diag(slope(state)) @ (w.T if transpose else w)
                product = product @ one if flip else one @ product
                found.append(norm(product, order))
            return np.array(found)

        each = np.array([np.linalg.norm(np.diag(1 - state**2) @ w, 2) for state in h])
        got = trial.tensor(trial.call(answer, weight, states), "the norms", (steps,), mention="one norm a step")
        wrong = {
            "the slope of tanh is missing: each Jacobian is diag(1 - h²) W": norms(slope=np.ones_like),
            "the slope of tanh is 1 - h², not 1 - h": norms(slope=lambda a: 1 - a),
            "the slope is not squared right: 1 - tanh(h)² is taken, but h is the tanh already": norms(
                slope=lambda a: 1 - np.tanh(a) ** 2
            ),
            "these are norms of single steps: multiply the Jacobians of all steps up to t": each,
            "norms are multiplied: that is an upper bound. Take the norm of the product": np.cumprod(each),
            "the product is in the wrong order: the newest Jacobian stands on the left": norms(flip=True),
            "this is the Frobenius norm: expected the largest singular value": norms(order="fro"),
            "W and the slope are in the wrong order: h = tanh(W …), so each Jacobian is diag(1 - h²) W, not W diag(1 - h²)": norms(
                right=True
            ),
            "this is the spectral radius, the largest absolute eigenvalue: expected the largest singular value": norms(
                norm=lambda product, _: np.abs(np.linalg.eigvals(product)).max()
            ),
            "W is transposed: the Jacobian of W h is W": norms(transpose=True),
        }
        trial.close(got, norms(), "the norms", wrong)
