"""What tests of tasks share: random numbers from a seed, and the mark of those on real data."""

from __future__ import annotations

import os

import pytest
import torch

__all__ = ["real", "seeded"]

real = pytest.mark.skipif(
    not os.environ.get("ATTNBOOK_DATA"), reason="needs real data: ATTNBOOK_DATA is not set"
)


def seeded(seed: int = 0) -> torch.Generator:
    """A generator of random numbers."""
    return torch.Generator().manual_seed(seed)
