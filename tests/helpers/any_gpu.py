"""The GPU of this machine, or the simulated one where there is none: one test for both.

pytestmark = GPU_TOO        # in every run, and by `attnbook gpu`

with any_gpu() as device:
    module.to("cuda")
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
import torch
from simulated_cuda import simulated_cuda

__all__ = ["GPU_TOO", "NIGHTLY_OR_GPU", "REAL", "any_gpu"]

REAL = torch.cuda.is_available()
GPU_TOO = [pytest.mark.gpu] if REAL else []
NIGHTLY_OR_GPU = pytest.mark.gpu if REAL else pytest.mark.nightly


@contextmanager
def any_gpu() -> Iterator:
    """A device "cuda" without TF32; its waits are counted only where it is simulated."""
    if not REAL:
        with simulated_cuda() as device:
            yield device
        return
    parts = torch.backends.cudnn, torch.backends.cuda.matmul
    before = [part.allow_tf32 for part in parts]
    try:
        for part in parts:
            part.allow_tf32 = False
        yield SimpleNamespace(synchronizations=Counter())
    finally:
        for part, value in zip(parts, before, strict=True):
            part.allow_tf32 = value
