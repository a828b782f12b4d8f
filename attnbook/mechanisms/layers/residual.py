"""How a sublayer is wired into the stream of a block: where the residual sum, the norm and the
dropout stand.

A block asks its wiring twice: ``h = wiring.enter(x)`` is what the sublayer reads, and
``wiring.leave(x, sublayer(h))`` is what
goes on. So a block is written once, and post-norm, pre-norm and what came after are modules passed
into it."""

from __future__ import annotations

import torch
from torch import nn

__all__ = ["NoResidual", "PostNorm", "PreNorm", "ReZero", "Wiring"]


class Wiring(nn.Module):
    """Base class of the wirings.

    Args:
        norm: a normalisation of the width of x.
        dropout: what the result of the sublayer goes through.
    """

    leaves_a_sum = False
    """True where the stream leaves the last block as a sum that no norm has seen: a stack of
    blocks then ends with a norm.
    """

    def __init__(self, norm: nn.Module, dropout: nn.Module) -> None:
        super().__init__()
        self.norm, self.dropout = norm, dropout

    def enter(self, x: torch.Tensor) -> torch.Tensor:
        """What the sublayer reads: ``(…, d)`` → ``(…, d)``."""
        return x

    def leave(self, x: torch.Tensor, found: torch.Tensor) -> torch.Tensor:
        """What goes on to the next sublayer, from x and what the sublayer found."""
        raise NotImplementedError(f"{type(self).__name__} must define leave(x, found)")


class PostNorm(Wiring):
    """The wiring of the paper: ``LayerNorm(x + dropout(sublayer(x)))``.

    Source: Vaswani et al. 2017, section 3.1 and 5.4.
    """

    def leave(self, x: torch.Tensor, found: torch.Tensor) -> torch.Tensor:
        return self.norm(x + self.dropout(found))


class PreNorm(Wiring):
    """The norm inside the branch: ``x + dropout(sublayer(LayerNorm(x)))``. From the first block to
    the last runs a path of sums alone; after the last one stands a norm. Source: Xiong et al. 2020,
    section 3."""

    leaves_a_sum = True

    def enter(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(x)

    def leave(self, x: torch.Tensor, found: torch.Tensor) -> torch.Tensor:
        return x + self.dropout(found)


class ReZero(PreNorm):
    """A learned number, 0 at the start, scales the branch: ``x + α · dropout(sublayer(norm(x)))``,
    so that a block begins as the identity. The paper has no norm: give ``torch.nn.Identity()``.
    Source: Bachlechner et al. 2021, equation 3."""

    leaves_a_sum = False  # nor at the end of the stack

    def __init__(self, norm: nn.Module, dropout: nn.Module) -> None:
        super().__init__(norm, dropout)
        self.scale = nn.Parameter(torch.zeros(()))  # α

    def leave(self, x: torch.Tensor, found: torch.Tensor) -> torch.Tensor:
        return x + self.scale * self.dropout(found)


class NoResidual(Wiring):
    """No sum at all: ``LayerNorm(dropout(sublayer(x)))``, to see what the residual is good for."""

    def leave(self, x: torch.Tensor, found: torch.Tensor) -> torch.Tensor:
        return self.norm(self.dropout(found))
