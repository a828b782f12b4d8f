"""Fixup: deep residual networks without any norm, by the way they start."""

import torch
from torch import Tensor, nn

from ..attention.multi_head import MultiHeadAttention
from .feed_forward import FeedForward
from .residual import ResidualConnection

__all__ = ["Fixup", "fixup_start"]


class Fixup(ResidualConnection):
    """No norm: ``x + s · dropout(sublayer(x + b)) + b'`` with learned numbers b = 0, s = 1, b' = 0.

    It works with :func:`fixup_start`, by which a sublayer begins as zero. The norm is not used.

    Source: Zhang, Dauphin and Ma 2019, section 3, rule 3, made shorter: the paper has a shift
    before every linear layer and every activation of a branch, here there is one before the
    sublayer and one after it.
    """

    def __init__(self, norm: nn.Module, dropout: nn.Module) -> None:
        super().__init__(nn.Identity(), dropout)
        # b, b'
        self.before, self.after = nn.Parameter(torch.zeros(1)), nn.Parameter(torch.zeros(1))
        self.scale = nn.Parameter(torch.ones(1))  # s

    def sublayer_input(self, x: Tensor) -> Tensor:
        return x + self.before

    def combine(self, x: Tensor, output: Tensor) -> Tensor:
        return x + self.scale * self.dropout(output) + self.after


@torch.no_grad()
def fixup_start(model: nn.Module) -> nn.Module:
    """Start the branches of a model made with :class:`Fixup` as derived, in place; return it.

    With L residual branches of m weight layers each, the last layer of a branch is set to zero and
    the others are multiplied by ``L^{−1/(2m − 2)}``: then an update of the whole network is of the
    size of the learning rate, whatever L. Here m = 2 in both kinds of branch: values and output of
    an attention, the two maps of a feed-forward network; queries and keys act inside the softmax
    and stay as they are. So does the matrix before the softmax of the model, which rule 1 sets to
    zero as well: with tied weights it is the embedding.

    Source: Zhang, Dauphin and Ma 2019, section 3, rules 1 and 2.
    """
    branches = sum(isinstance(module, Fixup) for module in model.modules())
    if not branches:
        raise ValueError(
            "model must have Fixup as its residual connection, got "
            f"{type(model).__name__} with none"
        )
    kinds = MultiHeadAttention, FeedForward
    sublayers = [module for module in model.modules() if isinstance(module, kinds)]
    if len(sublayers) != branches:
        raise ValueError(
            f"every branch must be a MultiHeadAttention or a FeedForward, got {branches} "
            f"branches with {len(sublayers)} of these"
        )
    for sublayer in sublayers:
        if isinstance(sublayer, MultiHeadAttention):
            first, last = sublayer.value_projection, sublayer.output_projection
        else:
            first, last = sublayer.hidden, sublayer.output
        first.weight.mul_(branches**-0.5)
        nn.init.zeros_(last.weight)
    return model
