"""Random numbers that are put back as they were."""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch


def get_random_state() -> dict[str, Any]:
    """Python's, NumPy's and PyTorch's generators, as values that a checkpoint can hold."""
    numpy: Any = np.random.get_state()
    name, keys, position, has_gauss, gauss = numpy
    version, internal, gauss_next = random.getstate()
    state = {
        "python": [version, list(internal), gauss_next],
        "numpy": [name, torch.from_numpy(keys.astype(np.int64)), position, has_gauss, gauss],
        "torch": torch.get_rng_state(),
    }
    if torch.cuda.is_available():
        state["cuda"] = torch.cuda.get_rng_state_all()
    return state


def set_random_state(state: dict[str, Any]) -> None:
    """Restore what `get_random_state` returned, but for GPUs that are absent now."""
    version, internal, gauss_next = state["python"]
    random.setstate((version, tuple(internal), gauss_next))
    name, keys, position, has_gauss, gauss = state["numpy"]
    np.random.set_state((name, keys.numpy().astype(np.uint32), position, has_gauss, gauss))
    torch.set_rng_state(state["torch"])
    if "cuda" in state and torch.cuda.is_available():
        for index, value in enumerate(state["cuda"][: torch.cuda.device_count()]):
            torch.cuda.set_rng_state(value, index)


@contextmanager
def temporary_seed(seed: int) -> Iterator[None]:
    """Seed every global generator inside the block and restore the caller's states after it."""
    before = get_random_state()
    try:
        random.seed(seed)
        np.random.seed(seed % 2**32)
        # without another device PyTorch's own function takes a millisecond, to note its caller
        every_device = torch.accelerator.is_available()
        (torch.manual_seed if every_device else torch.default_generator.manual_seed)(seed)
        yield
    finally:
        set_random_state(before)
