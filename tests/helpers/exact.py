"""Two ways to one result in float64: equal but for rounding."""

from __future__ import annotations

import torch

__all__ = ["assert_exact"]


def assert_exact(found: object, expected: object) -> None:
    """Tensors, or nests of them, that differ by 1e-10 at most."""
    torch.testing.assert_close(found, expected, atol=1e-10, rtol=0)
