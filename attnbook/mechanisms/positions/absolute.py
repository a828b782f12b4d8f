"""Absolute positions: vectors that are added to the embeddings, sinusoidal or learned."""

import math

import torch
from torch import Tensor, nn

from ...kernels.precision import finest_dtype
from ...validate import check_integer, check_tensor, check_values, check_whole, is_readable, require

__all__ = ["LearnedPositions", "NoPositions", "SinusoidalPositions", "shift_matrix", "sinusoids"]


def sinusoids(
    length: int,
    d_model: int,
    *,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str | None = None,
) -> Tensor:
    """The sinusoidal position vectors: sines in the even columns, cosines in the odd ones.

    ``PE[p, 2k] = sin(p · ω_k)``,  ``PE[p, 2k + 1] = cos(p · ω_k)``,  ``ω_k = 10000^(−2k/d)``,  k =
    0 … d/2 − 1,  p = 0 … n − 1

    The first pair turns by ω_0 = 1 radian a position, the last by nearly 1/10000: with k counted
    from 1, as some copies have it, the fastest would be missing. Computed in float64 and rounded
    once.

    Args:
        length: n, at least 1.
        d_model: d, an even number.

    Returns:
        ``(n, d)``.

    Source: Vaswani et al. 2017, section 3.5.
    """
    check_integer("length", length)
    position = torch.arange(length, dtype=torch.float64, device="cpu")
    return _waves(position, frequencies(d_model)).to(dtype).to(device)


def shift_matrix(shift: int, d_model: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """The matrix that moves every sinusoidal position vector by ``shift``:
    ``M PE[p] = PE[p + shift]`` for all p.

    It is made of d/2 rotations, by ``shift · ω_k`` in the plane of pair k.

    Returns:
        ``(d, d)``; its inverse is its transpose.
    """
    angle = shift * frequencies(d_model)
    sin, cos = angle.sin(), angle.cos()
    return torch.block_diag(*torch.stack([cos, sin, -sin, cos], dim=-1).view(-1, 2, 2)).to(dtype)


def wave_vectors(position: Tensor, d_model: int) -> Tensor:
    """:func:`sinusoids` of any numbers ``(…)``: ``(…, d_model)`` in the device's finest dtype."""
    finest = finest_dtype(position.device)
    return _waves(position.to(finest), frequencies(d_model, device=position.device))


def _waves(position: Tensor, frequencies: Tensor) -> Tensor:
    angle = position[..., None] * frequencies  # (…, d / 2)
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(-2)  # (…, d)


def frequencies(d_model: int, base: float = 10_000.0, device: torch.device | str = "cpu") -> Tensor:
    """``ω_k = base^(−2k/d)``, ``(d_model / 2,)`` in the finest dtype of the device."""
    device = torch.device(device)
    check_integer("d_model", d_model)
    require(d_model % 2 == 0, f"d_model must be even (a sine and a cosine each), got {d_model}")
    require(base > 1, f"base must be above 1, got {base!r}")
    twice = torch.arange(0, d_model, 2, dtype=finest_dtype(device), device=device)  # 2k
    return torch.exp(twice * (-math.log(base) / d_model))


def _check_offset(x: Tensor, offset: int | Tensor, d_model: int) -> None:
    check_tensor("x", x, width=d_model)
    if isinstance(offset, Tensor):
        check_whole("offset", offset)
        require(
            x.dim() == 3 and offset.shape == x.shape[:1],
            f"offset must be an integer, or one for each row of x {tuple(x.shape)}, got "
            f"shape {tuple(offset.shape)}",
        )
        check_values("offset", offset, 0)
    else:
        check_integer("offset", offset, 0)


class SinusoidalPositions(nn.Module):
    """Add sinusoidal position vectors: ``x + PE``, see :func:`sinusoids`. No longest length.

    Args:
        d_model: width of x.

    Shapes: x ``(…, n, d_model)``, ``offset`` the position of its first row → as x. The offset is
    one number, or ``(batch,)`` for x ``(batch, n, d_model)``.

    Source: Vaswani et al. 2017, section 3.5.
    """

    def __init__(self, d_model: int) -> None:
        super().__init__()
        frequencies(d_model)  # refuses an odd width
        self.d_model = d_model
        # no buffer: float32 made double would not be the float64 table
        self._table: Tensor | None = None

    def forward(self, x: Tensor, offset: int | Tensor = 0) -> Tensor:
        _check_offset(x, offset, self.d_model)
        n = x.shape[-2]
        # computed, not looked up: a table's length would have to wait for the GPU
        if isinstance(offset, Tensor):
            position = offset[:, None] + torch.arange(n, device=x.device)
            return x + wave_vectors(position, self.d_model).to(x.dtype)
        table = self._table
        if (
            table is None
            or table.shape[0] < offset + n
            or table.dtype != x.dtype
            or table.device != x.device
        ):
            length = max(64, 1 << (offset + n - 1).bit_length())
            table = sinusoids(length, self.d_model, dtype=x.dtype, device=x.device)
            if type(table) is Tensor:  # and not one without values, of a tracer
                self._table = table
        return x + table[offset : offset + n]

    def __getstate__(self) -> dict:
        return {**self.__dict__, "_table": None}  # a copy, or a file, makes its own


class LearnedPositions(nn.Module):
    """Add a learned vector for each of ``max_length`` positions: ``x + P``.

    Args:
        max_length: number of positions.
        d_model: width of x.

    Shapes: x ``(…, n, d_model)``, ``offset`` the position of its first row → as x. The offset is
    one number, or ``(batch,)`` for x ``(batch, n, d_model)``. Positions beyond ``max_length`` are
    refused, with an offset for each row on a CPU alone.

    Source: Gehring et al. 2017, section 3.1; Vaswani et al. 2017, table 3, row E.
    """

    def __init__(self, max_length: int, d_model: int) -> None:
        super().__init__()
        self.max_length = check_integer("max_length", max_length)
        self.d_model = check_integer("d_model", d_model)
        self.weight = nn.Parameter(torch.randn(max_length, d_model) * d_model**-0.5)  # P

    def forward(self, x: Tensor, offset: int | Tensor = 0) -> Tensor:
        _check_offset(x, offset, self.d_model)
        n = x.shape[-2]
        if not isinstance(offset, Tensor):
            self._check_end(offset + n)
            return x + self.weight[offset : offset + n]
        if is_readable(offset):
            self._check_end(int(offset.max()) + n)
        return x + self.weight[offset[:, None] + torch.arange(n, device=x.device)]

    def _check_end(self, end: int) -> None:
        require(
            end <= self.max_length,
            f"x must end before position max_length = {self.max_length}, got position {end - 1}",
        )


class NoPositions(nn.Module):
    """Add nothing: x as it is, for models that know of positions otherwise, or not at all."""

    def forward(self, x: Tensor, offset: int | Tensor = 0) -> Tensor:
        return x
