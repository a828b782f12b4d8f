"""Whether a measurement leaves a model in the modes that it found."""

from collections.abc import Callable

import pytest
import torch


def modes_are_kept(model: torch.nn.Module, measure: Callable[[], object]) -> bool:
    """After a measurement, and after one that ends in an error of the model, whose other part
    was in evaluation mode.
    """
    model.train()
    model.part = torch.nn.Dropout().eval()
    found = []

    def watched(*_):
        found.append(model.training)
        if len(found) > calls:
            raise RuntimeError("broken off")

    calls = float("inf")
    model.register_forward_pre_hook(watched)
    measure()
    kept = model.training and not model.part.training
    calls = len(found)
    with pytest.raises(RuntimeError, match="broken off"):
        measure()
    return not any(found) and kept and model.training and not model.part.training
