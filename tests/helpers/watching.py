"""What a computation makes on its way and what it keeps for the way back; and in which modes it
leaves a model.
"""

from collections.abc import Callable

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class LargestTensor(TorchDispatchMode):
    """Inside the block every operation is watched, of the backward pass too; `numel` is the size
    of the largest tensor that is made, and `total` of all of them. A view makes nothing.
    """

    numel = total = 0

    def __torch_dispatch__(self, function, types, arguments=(), options=None):
        out = function(*arguments, **(options or {}))
        given = [t for t in tree_leaves((arguments, options)) if isinstance(t, torch.Tensor)]
        shared = {t.untyped_storage().data_ptr() for t in given}
        for t in tree_leaves(out):
            if isinstance(t, torch.Tensor) and t.untyped_storage().data_ptr() not in shared:
                self.numel, self.total = max(self.numel, t.numel()), self.total + t.numel()
        return out


def saved_bytes(run):
    """What `run` keeps for the backward pass: the size in bytes of each storage by its address."""
    kept = []  # so that no address is used twice
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t) or t, lambda t: t):
        run()
    return {s.data_ptr(): s.nbytes() for s in (t.untyped_storage() for t in kept)}


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
