"""What a computation makes on its way."""

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class LargestTensor(TorchDispatchMode):
    """Inside the block every operation is watched, of the backward pass too; `numel` is the size
    of the largest result.
    """

    numel = 0

    def __torch_dispatch__(self, function, types, arguments=(), options=None):
        out = function(*arguments, **(options or {}))
        self.numel = max(
            [self.numel, *(t.numel() for t in tree_leaves(out) if isinstance(t, torch.Tensor))]
        )
        return out
