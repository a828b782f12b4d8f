"""What tests assert: two ways to one result that are equal but for rounding; and arguments that are
refused, by the name that the message begins with, and the call.

The wording of the checks stands in `tests/test_validate.py`; a longer beginning than a name is for
calls that are refused for several reasons.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
import torch

__all__ = ["assert_exact", "assert_refused", "refusals"]


def assert_exact(found: object, expected: object) -> None:
    """Tensors in float64, or nests of them, that differ by 1e-10 at most."""
    torch.testing.assert_close(found, expected, atol=1e-10, rtol=0)


def assert_refused(
    begin: str, call: Callable[..., object], *given: object, **named: object
) -> None:
    """The call with what is given is refused with a message that begins so, and in which no blank
    is left over.
    """
    with pytest.raises(ValueError, match=rf"^{re.escape(begin)}(?!\w)") as refused:
        call(*given, **named)
    left_over = re.search(r"\S {2,}|\S? [,;:.](?= |$)|\( | \)| $", str(refused.value))
    assert left_over is None, f"{left_over[0]!r} in: {refused.value}"


def refusals(*rows: tuple[str, Callable[[], object]]):
    """The test of a table: every call is refused with a message that begins so."""

    @pytest.mark.parametrize(("begin", "call"), rows, ids=[begin for begin, _ in rows])
    def test(begin, call):
        assert_refused(begin, call)

    return test
