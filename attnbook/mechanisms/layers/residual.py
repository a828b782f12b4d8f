"""Residual connections around a sublayer: where the sum, the norm and the dropout stand.

A block calls ``residual(x, sublayer)`` and is written once for post-norm, pre-norm and what came
after: each is a module that is passed in."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

__all__ = ["NoResidual", "PostNorm", "PreNorm", "ReZero", "ResidualConnection", "SandwichNorm"]


class ResidualConnection(nn.Module):
    """Base class: ``combine(x, sublayer(sublayer_input(x)))``.

    Subclasses define :meth:`combine` and, unless the sublayer reads x, :meth:`sublayer_input`.

    Args:
        norm: a normalisation of the width of x.
        dropout: applied to the output of the sublayer.
    """

    needs_final_norm = False
    """True where a block's output is a sum that no norm has seen: a stack then ends with a norm."""

    def __init__(self, norm: nn.Module, dropout: nn.Module) -> None:
        super().__init__()
        self.norm, self.dropout = norm, dropout

    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Any]) -> Any:
        """Apply a sublayer and the connection around it.

        Args:
            x: ``(…, d)``.
            sublayer: a function from ``(…, d)`` to ``(…, d)``, or to a tuple that begins with it,
                as attention returns its weights too.

        Returns:
            The output ``(…, d)``, or the tuple with the output in the first place.
        """
        output = sublayer(self.sublayer_input(x))
        if isinstance(output, tuple):
            return self.combine(x, output[0]), *output[1:]
        return self.combine(x, output)

    def sublayer_input(self, x: Tensor) -> Tensor:
        """What the sublayer reads: ``(…, d)`` → ``(…, d)``."""
        return x

    def combine(self, x: Tensor, output: Tensor) -> Tensor:
        """Combine x with the output of the sublayer, both ``(…, d)``."""
        raise NotImplementedError(f"{type(self).__name__} must define combine(x, output)")


class PostNorm(ResidualConnection):
    """The connection of the paper: ``LayerNorm(x + dropout(sublayer(x)))``.

    Source: Vaswani et al. 2017, section 3.1 and 5.4.
    """

    def combine(self, x: Tensor, output: Tensor) -> Tensor:
        return self.norm(x + self.dropout(output))


class PreNorm(ResidualConnection):
    """The norm inside the branch: ``x + dropout(sublayer(LayerNorm(x)))``.

    From the first block to the last runs a path of sums alone; after the last one stands a norm.

    Source: Xiong et al. 2020, section 3.
    """

    needs_final_norm = True

    def sublayer_input(self, x: Tensor) -> Tensor:
        return self.norm(x)

    def combine(self, x: Tensor, output: Tensor) -> Tensor:
        return x + self.dropout(output)


class SandwichNorm(PreNorm):
    """A norm on either side of the sublayer: ``x + dropout(norm_after(sublayer(norm(x))))``.

    Args:
        norm: of what the sublayer reads.
        dropout: applied to what is added.
        norm_after: of what the sublayer gives.

    Source: Ding et al. 2021 (CogView), section 3.4; Gemma 2 (Riviere et al. 2024), section 2.
    """

    def __init__(self, norm: nn.Module, dropout: nn.Module, norm_after: nn.Module) -> None:
        super().__init__(norm, dropout)
        self.norm_after = norm_after

    def combine(self, x: Tensor, output: Tensor) -> Tensor:
        return x + self.dropout(self.norm_after(output))


class ReZero(PreNorm):
    """A learned number, 0 at the start, scales the branch: ``x + α · dropout(sublayer(norm(x)))``.

    A block begins as the identity. The paper has no norm: give ``torch.nn.Identity()``.

    Source: Bachlechner et al. 2021, equation 3.
    """

    needs_final_norm = False  # nor at the end of the stack

    def __init__(self, norm: nn.Module, dropout: nn.Module) -> None:
        super().__init__(norm, dropout)
        self.scale = nn.Parameter(torch.zeros(()))  # α

    def combine(self, x: Tensor, output: Tensor) -> Tensor:
        return x + self.scale * self.dropout(output)


class NoResidual(ResidualConnection):
    """No sum at all: ``LayerNorm(dropout(sublayer(x)))``, to see what the residual is good for."""

    def combine(self, x: Tensor, output: Tensor) -> Tensor:
        return self.norm(self.dropout(output))
