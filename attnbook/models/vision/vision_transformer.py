"""The vision transformer: a picture cut into patches, which a Transformer reads like words."""

from functools import partial

import torch
from torch import Tensor, nn

from ...kernels.layers import Linear
from ...mechanisms.layers.residual import PreNorm
from ...mechanisms.positions.absolute import LearnedPositions
from ...validate import check_integer, describe, require
from ..transformer.layers import Stacked
from ..transformer.parts import Parts, check_parts, paper_parts

__all__ = ["VisionTransformer", "check_pictures", "patches_of", "pre_norm_parts"]

pre_norm_parts = partial(paper_parts, residual=PreNorm, activation="gelu")
"""Parts of the blocks that vision transformers use: the norm inside the branch, GELU."""


def patches_of(pictures: Tensor, side: int) -> Tensor:
    """Cut pictures into squares and write out each as one vector.

    Args:
        pictures: ``(…, colors, height, width)``.
        side: P, pixels each way of a patch; it divides height and width.

    Returns:
        ``(…, N, colors · P²)``, N = height · width / P² patches in reading order, row by row; in a
        vector the colors come first, then rows, then columns.

    Source: Dosovitskiy et al. 2021, section 3.1.
    """
    check_integer("side", side)
    require(
        isinstance(pictures, Tensor)
        and pictures.dim() >= 3
        and pictures.shape[-2] % side == 0
        and pictures.shape[-1] % side == 0,
        f"pictures must be (…, colors, height, width) with sides that divide by {side}, got "
        f"{describe(pictures)}",
    )
    # (…, C, rows, P, columns, P)
    cut = pictures.unflatten(-1, (-1, side)).unflatten(-3, (-1, side))
    return cut.movedim((-4, -2), (-5, -4)).flatten(-3).flatten(-3, -2)


def check_pictures(pictures: object, *shape: int) -> Tensor:
    """Return pictures ``(batch, *shape)``, floats, or raise a ``ValueError``."""
    require(
        isinstance(pictures, Tensor)
        and pictures.is_floating_point()
        and tuple(pictures.shape[1:]) == shape,
        f"pictures must be floats (batch, {', '.join(map(str, shape))}), got {describe(pictures)}",
    )
    assert isinstance(pictures, Tensor)
    return pictures


class VisionTransformer(nn.Module):
    """A classifier of pictures made of the encoder of the Transformer: patches are its words.

    ``x_0 = dropout([c; p_1 E; …; p_N E] + P)``, blocks of self-attention and feed-forward network,
    ``logits = W x_L[0] + b``

    with the patches p (see :func:`patches_of`), a learned vector c in front of them, whose place
    the answer is read from, and learned positions P. Nothing else knows that a picture has two
    dimensions.

    Args:
        size: pixels of a picture each way.
        side: of a patch, which divides the size.
        num_classes: ``K``.
        parts: what the blocks are built of; when not given, ViT-Base: 768 wide, 12 heads, pre-norm,
            GELU. Its embedding, positions and output are not used.
        colors: channels of a picture.
        num_layers: blocks.

    Shapes: pictures ``(batch, colors, size, size)`` → logits ``(batch, K)``; :meth:`read` gives x
    ``(batch, 1 + N, d_model)`` and the weights of each block, ``(batch, h, 1 + N, 1 + N)``.

    Source: Dosovitskiy et al. 2021, equations 1 to 4.
    """

    def __init__(
        self,
        size: int,
        side: int,
        num_classes: int,
        parts: Parts | None = None,
        *,
        colors: int = 3,
        num_layers: int = 12,
    ) -> None:
        super().__init__()
        self.size, self.side = check_integer("size", size), check_integer("side", side)
        require(size % side == 0, f"side must divide size, got {side} and {size}")
        self.colors = check_integer("colors", colors)
        parts = check_parts(pre_norm_parts(768, 12, 3072) if parts is None else parts)
        self.patch_projection = Linear(colors * side**2, parts.d_model)  # E
        self.class_token = nn.Parameter(torch.zeros(parts.d_model))  # c
        self.positions = LearnedPositions(1 + (size // side) ** 2, parts.d_model)
        nn.init.normal_(self.positions.weight, std=0.02)  # what is found later is learned
        self.dropout = parts.dropout()
        self.stack = parts.make_encoder(num_layers)
        self.output = Linear(parts.d_model, check_integer("num_classes", num_classes))

    def read(self, pictures: Tensor, *, need_weights: bool = False) -> Stacked:
        """What the last block gives at the class token and at each patch."""
        check_pictures(pictures, self.colors, self.size, self.size)
        patches = self.patch_projection(patches_of(pictures, self.side))
        first = self.class_token.expand(len(patches), 1, -1)
        x = self.positions(torch.cat([first, patches], dim=1))
        return self.stack(self.dropout(x), need_weights=need_weights)

    def forward(self, pictures: Tensor) -> Tensor:
        return self.output(self.read(pictures).x[:, 0])
