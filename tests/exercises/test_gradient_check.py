"""The comparison of the gradients of an answer with those of the oracle."""

import numpy as np
import pytest
import torch

from attnbook_exercises.answers.guarded import StudentError
from attnbook_exercises.checks.context import CheckContext
from attnbook_exercises.checks.gradient_check import check_gradients
from attnbook_exercises.checks.verdict import Mistake

AT = {0: "x", 1: "y"}


def oracle(x, y):
    return np.sin(x) * y[:, None]


def right(x, y, k):
    assert k == 7
    return torch.sin(x) * y[:, None]


def judge(answer, **options):
    ctx = CheckContext()
    check_gradients(ctx, answer, (ctx.normal(3, 2), ctx.normal(3), 7), AT, oracle, **options)


def test_right_gradients_pass_and_the_arguments_stay_as_they_were():
    judge(right)
    judge(lambda x, y, k: (right(x, y, k).detach(), right(x, y, k)), part=1)
    judge(lambda *given: torch.stack([torch.sin(row) * s for row, s in zip(*given[:2])]))
    ctx = CheckContext()
    x, y = ctx.normal(3, 2), ctx.normal(3)
    check_gradients(ctx, right, (x, y, 7), AT, oracle)
    assert not x.requires_grad and x.grad is None


def test_right_gradients_of_any_size():
    """The tolerance is relative: steep and flat answers pass, one percent off does not."""
    for size in (1e-2, 1.0, 1e4):
        ctx = CheckContext()
        given = ctx.normal(3, 2), ctx.normal(3)
        check_gradients(
            ctx,
            lambda x, y: size * torch.sin(x) * y[:, None],
            given,
            AT,
            lambda x, y: size * oracle(x, y),
        )
        with pytest.raises(Mistake, match="the gradient at y is not"):
            off = torch.tensor(0.99)
            check_gradients(
                ctx,
                lambda x, y: size * torch.sin(x) * (off * y + (1 - off) * y.detach())[:, None],
                given,
                AT,
                lambda x, y: size * oracle(x, y),
            )


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda x, y, k: right(x, y, k).detach(), "no gradient goes back through them"),
        (
            lambda x, y, k: torch.nn.Parameter(right(x, y, k)),
            "no gradient goes back through them|no gradient reaches x",
        ),
        (lambda x, y, k: right(x, y, k).detach().requires_grad_(), "no gradient reaches x"),
        (
            lambda x, y, k: torch.from_numpy(right(x, y, k).numpy()),
            "no gradient goes back through them",
        ),
        (
            lambda x, y, k: torch.tensor(right(x, y, k).tolist()),
            "no gradient goes back through them",
        ),
        (lambda x, y, k: right(x, y.detach(), k), "no gradient reaches y"),
        (lambda x, y, k: right(x.detach(), y, k), "no gradient reaches x"),
        (
            lambda x, y, k: right(x, y, k) + 0 * x.detach() - 0.5 * x + 0.5 * x.detach(),
            "the gradient at x is not",
        ),
        (
            lambda x, y, k: (
                (torch.sin(x) + torch.where(y[:, None] > 99, y[:, None] / 0, 0)) * y[:, None]
            ),
            "the gradient at y is not finite",
        ),
        (
            lambda x, y, k: torch.exp(right(x, y, k)).mul_(0).add_(1),
            "changed in place after it was used",
        ),
    ],
)
def test_wrong_gradients_are_named(answer, words):
    with pytest.raises(Mistake, match=words):
        judge(answer)


def test_an_error_that_only_gradients_cause_is_the_reader_s():
    def refuses(x, y, k):
        if x.requires_grad:
            raise RuntimeError("no, thanks")
        return right(x, y, k)

    with pytest.raises(StudentError, match="no, thanks"):
        judge(refuses)
