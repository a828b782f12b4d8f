"""Self-attention over the positions of a feature map, added to the map with a learned scale."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ...validate import check_integer, require
from ..scores.functions import DotScore
from .soft_attention import Attended, attend

__all__ = ["PictureAttention", "PooledPictureAttention", "check_map"]


def check_map(name: str, value: object, channels: int | None = None) -> Tensor:
    """Return ``value``, a floating point tensor ``(batch, channels, height, width)``, or raise a
    ``ValueError`` that names it.
    """
    shape = f"(batch, {'channels' if channels is None else channels}, height, width)"
    if not isinstance(value, Tensor):
        raise ValueError(f"{name} must be a tensor {shape}, got {type(value).__name__}")
    require(
        value.is_floating_point(), f"{name} must hold floating point numbers, got {value.dtype}"
    )
    require(
        value.dim() == 4 and channels in (None, value.shape[1]),
        f"{name} must have the shape {shape}, got {tuple(value.shape)}",
    )
    return value


class PictureAttention(nn.Module):
    """Self-attention over the N = height · width positions of a feature map, exactly as the
    equations of the paper.

    ``s_ij = f(x_i)·g(x_j)``,  ``β_ji = exp(s_ij) / Σ_i exp(s_ij)``,  ``o_j = v(Σ_i β_ji h(x_i))``,
    ``y_j = x_j + γ o_j``

    f, g, h and v are 1×1 convolutions without bias, that is, one matrix each, the same at every
    position. Position j asks with the query g(x_j); position i answers to the key f(x_i) with the
    value h(x_i). The softmax runs over the **attended** positions i. There is no 1/√d. γ is one
    learned number that starts at 0, so the layer starts as the identity.

    Args:
        channels: C, of x and of y.
        d_key: width of keys and queries; C/8 when not given (1 at least).
        d_value: width of the values h; C/8 when not given. Many implementations keep C there and
            leave v out.

    Shapes: x ``(batch, C, height, width)`` → y, the same, in the memory format of x.

    Source: Zhang, Goodfellow, Metaxas and Odena 2019, section 3, equations 1 to 3. The authors'
    code computes something else: :class:`PooledPictureAttention`.
    """

    def __init__(
        self, channels: int, *, d_key: int | None = None, d_value: int | None = None
    ) -> None:
        super().__init__()
        self.channels = check_integer("channels", channels)
        self.d_key = check_integer("d_key", max(1, channels // 8) if d_key is None else d_key)
        self.d_value = check_integer(
            "d_value", self._usual_d_value(channels) if d_value is None else d_value
        )
        self.key = nn.Conv2d(channels, self.d_key, 1, bias=False)  # f
        self.query = nn.Conv2d(channels, self.d_key, 1, bias=False)  # g
        self.value = nn.Conv2d(channels, self.d_value, 1, bias=False)  # h
        self.output = nn.Conv2d(self.d_value, channels, 1, bias=False)  # v
        self.gamma = nn.Parameter(torch.zeros(()))
        self.score = DotScore()
        for layer in (self.key, self.query, self.value, self.output):
            nn.init.xavier_uniform_(layer.weight)

    @staticmethod
    def _usual_d_value(channels: int) -> int:
        return max(1, channels // 8)

    def attended(self, x: Tensor, *, need_weights: bool = True) -> Attended:
        """What the positions find, before it is scaled and added.

        Returns:
            :class:`Attended`: ``context``, o of shape ``(batch, C, height, width)``, and
            ``weights`` β ``(batch, N, n)`` or None: row j holds the weights of the query at
            position j, row by row of the picture, over the n attended positions.
        """
        check_map("x", x, self.channels)
        query, key, value = (
            _positions(t)
            for t in (self.query(x), self._attended(self.key(x)), self._attended(self.value(x)))
        )
        # (batch, N, d_value)
        context, weights = attend(self.score, query, key, value, need_weights=need_weights)
        context = context.mT.unflatten(-1, x.shape[-2:])
        return Attended(self.output(context), weights)

    def forward(self, x: Tensor) -> Tensor:
        """Add to every position what it finds in the others, times γ.

        No matrix of N × N is stored.
        """
        return x + self.gamma * self.attended(x, need_weights=False).context

    def _attended(self, t: Tensor) -> Tensor:
        """The keys or values that can be attended to."""
        return t

    def extra_repr(self) -> str:
        return f"channels={self.channels}, d_key={self.d_key}, d_value={self.d_value}"


class PooledPictureAttention(PictureAttention):
    """The layer that the authors' code computes: keys and values are pooled, and values are wider.

    ``key = maxpool_2(f(x))``,  ``value = maxpool_2(h(x))``, each over squares of 2×2 positions;
    else as :class:`PictureAttention`. ``d_value`` is C/2 when not given. There are n = ⌊height/2⌋ ·
    ⌊width/2⌋ attended positions, a quarter.

    Source: ``non_local.py`` of the authors' code, github.com/brain-research/self-attention-gan.
    """

    @staticmethod
    def _usual_d_value(channels: int) -> int:
        return max(1, channels // 2)

    def _attended(self, t: Tensor) -> Tensor:
        require(
            min(t.shape[-2:]) >= 2,
            f"x must have 2×2 positions at least to be pooled, got {tuple(t.shape[-2:])}",
        )
        return F.max_pool2d(t, 2)


def _positions(t: Tensor) -> Tensor:
    """``(batch, d, height, width)`` → ``(batch, N, d)``, a view."""
    return t.flatten(2).mT
