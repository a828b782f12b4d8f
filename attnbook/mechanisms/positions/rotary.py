"""Rotary position embedding (RoPE): queries and keys are turned by an angle, by their position."""

import torch
from torch import Tensor, nn

from ...kernels.precision import finest_dtype, wide_dtype
from ...validate import (
    check_choice,
    check_integer,
    check_number,
    check_tensor,
    check_whole,
    require,
)
from .rotary_scaling import RotaryScaling

__all__ = ["RotaryPositions", "convert_rotary_layout"]

LAYOUTS = ("half", "interleaved")
_STRETCH = 256  # so many positions are computed together, at least


class RotaryPositions(nn.Module):
    """Turn each pair of components of a vector by an angle in proportion to its position.

    ``(R_p x)_k = (a cos(p ω_k) − b sin(p ω_k), a sin(p ω_k) + b cos(p ω_k))`` for the k-th pair
    (a, b) of x,  ``ω_k = base^(−2k/d)``,  k = 0 … d/2 − 1

    Since ``R_pᵀ R_r = R_{r − p}``, the inner product of a query turned by its position p and a key
    turned by its position r depends on r − p alone: ``⟨R_p q, R_r k⟩ = ⟨q, R_{r − p} k⟩``. Values
    are not turned. There are no parameters, and lengths of vectors do not change.

    Which two components make a pair is a convention, and a checkpoint of one read as the other is
    wrong without an error; :func:`convert_rotary_layout` brings the weights of one to the other.

    Angles are computed in float64, and their sines and cosines are rounded once, to float32 at
    least: in bfloat16 the position 100,000 itself would be off by hundreds. (Apple's GPUs have no
    float64; there positions that differ from row to row make their angles in float32.)

    Args:
        d_head: d, even: the width of queries and keys in a head.
        base: 10,000 in the paper; larger where texts are long, as 500,000 in Llama 3.
        layout: ``"half"``, pairs (k, k + d/2), as in checkpoints of ``transformers``;
            ``"interleaved"``, pairs (2k, 2k + 1), as in the paper.
        d_rotary: so many first components are turned, with ω_k of this width, and the others stay
            as they are: partial rotary positions, as in GPT-NeoX and Phi-4-mini. d when not given.
        scaling: other frequencies for texts longer than those of the training, one of
            :mod:`~attnbook.mechanisms.positions.rotary_scaling`.

    Shapes: x ``(…, n, d_head)``, position an integer, that of the first row, or whole numbers
    broadcastable to ``(…, n)``, one for each row → as x.

    Source: Su et al. 2021, section 3.2.2, equations 14 to 16 and 34; a part of the width, Black et
    al. 2022 (GPT-NeoX-20B), section 2.1.1.
    """

    def __init__(
        self,
        d_head: int,
        *,
        base: float = 10_000.0,
        layout: str = "half",
        d_rotary: int | None = None,
        scaling: RotaryScaling | None = None,
    ) -> None:
        super().__init__()
        self.d_head = check_integer("d_head", d_head)
        name = "d_head" if d_rotary is None else "d_rotary"
        self.d_rotary = d_head if d_rotary is None else check_integer(name, d_rotary, 2, d_head)
        require(
            self.d_rotary % 2 == 0,
            f"{name} must be even (it is turned in pairs), got {self.d_rotary}",
        )
        self.base = check_number("base", base, above=1)
        self.layout = check_choice("layout", layout, LAYOUTS)
        require(
            scaling is None or isinstance(scaling, RotaryScaling),
            f"scaling must be a RotaryScaling, got {type(scaling).__name__}",
        )
        self.scaling = scaling
        by = RotaryScaling() if scaling is None else scaling
        # ω in float64: no buffer, which .half() would round
        self.frequencies, self.magnitude = by.frequencies(self.d_rotary, base), by.magnitude
        self._limit = by.limit  # of the length for which these are the frequencies
        self._table: tuple[int, Tensor, Tensor] | None = None  # of which first position

    def forward(self, x: Tensor, position: int | Tensor = 0) -> Tensor:
        check_tensor("x", x, width=self.d_head)
        if self.d_rotary < self.d_head:
            turned, rest = x.split([self.d_rotary, self.d_head - self.d_rotary], dim=-1)
            return torch.cat([self._turn(turned, position), rest], dim=-1)
        return self._turn(x, position)

    def _turn(self, x: Tensor, position: int | Tensor) -> Tensor:
        cos, sin = self._cos_and_sin(x, position)  # (…, n, d)
        wide = x.to(cos.dtype)
        if self.layout == "half":
            other = wide.roll(self.d_rotary // 2, -1)  # of each component the other of its pair
        else:
            other = wide.unflatten(-1, (-1, 2)).flip(-1).flatten(-2)
        return torch.addcmul(wide * cos, other, sin).to(x.dtype)

    def _cos_and_sin(self, x: Tensor, position: int | Tensor) -> tuple[Tensor, Tensor]:
        n, dtype, device = x.shape[-2], wide_dtype(x), x.device
        if isinstance(position, Tensor):
            check_whole("position", position)
            shape, rows = position.shape, x.shape[:-1]
            require(
                len(shape) <= len(rows)
                and all(a in (1, b) for a, b in zip(reversed(shape), reversed(rows))),
                f"position must be an integer, or broadcastable to (…, n) = {tuple(rows)}, got "
                f"shape {tuple(shape)}",
            )
            return self._compute(position.to(device), dtype)
        position = check_integer("position", position, 0)
        longer = self._limit is not None and position + n > self._limit
        if longer or torch.compiler.is_compiling():
            return self._compute(position + torch.arange(n, device=device), dtype)
        table = self._table
        if (
            table is None
            or not table[0] <= position <= position + n <= table[0] + len(table[1])
            or table[1].dtype != dtype
            or table[1].device != device
        ):
            # a stretch of text with these positions, so that a step in it finds its own
            size = max(_STRETCH, 1 << (n - 1).bit_length())
            first = position - position % size
            length = size if position + n <= first + size else 2 * size
            with torch.inference_mode(False):  # a training may read it next
                every = torch.arange(first, first + length, device="cpu")
                made = self._compute(every, dtype, self.frequencies)
                table = first, made[0].to(device), made[1].to(device)
            if type(table[1]) is Tensor:  # and not one without values, of a tracer
                self._table = table
        rows = slice(position - table[0], position - table[0] + n)
        return table[1][rows], table[2][rows]

    def _frequencies_of(self, position: Tensor) -> Tensor:
        """ω_k for positions ``(…, n)``: ``(d / 2,)``; ``(…, 1, d / 2)`` if by the length."""
        if self.scaling is None or self._limit is None or not position.numel():
            return self.frequencies
        length = position.amax(-1, keepdim=True) + 1
        return self.scaling.frequencies_at(self.d_rotary, self.base, length)

    def _compute(
        self, position: Tensor, dtype: torch.dtype, frequencies: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Factors of a component and of its pair's other: (cos, cos), (−sin, sin) if turned."""
        finest = finest_dtype(position.device)
        frequencies = self._frequencies_of(position) if frequencies is None else frequencies
        angle = position.to(finest).unsqueeze(-1) * frequencies.to(finest).to(position.device)
        cos, sin = self.magnitude * angle.cos(), self.magnitude * angle.sin()
        own, other = torch.stack([cos, cos], -1), torch.stack([-sin, sin], -1)  # (…, d / 2, 2)
        if self.layout == "half":
            own, other = own.mT, other.mT
        return own.flatten(-2).to(dtype), other.flatten(-2).to(dtype)

    def extra_repr(self) -> str:
        part = "" if self.d_rotary == self.d_head else f", d_rotary={self.d_rotary}"
        scaling = "" if self.scaling is None else f", scaling={self.scaling}"
        return f"{self.d_head}, base={self.base:g}, layout={self.layout!r}{part}{scaling}"

    def __getstate__(self) -> dict:
        return {**self.__dict__, "_table": None}  # a copy, or a file, makes its own


def convert_rotary_layout(weight: Tensor, num_heads: int, *, to: str) -> Tensor:
    """Put the rows of W_q or W_k of one layout in the order of the other, so that all scores stay.

    Within each head, rows 0, 1, 2, … of ``"interleaved"`` are rows 0, d/2, 1, d/2 + 1, … of
    ``"half"``. Queries and keys have both to be converted; values and W_o stay.

    Args:
        weight: ``weight`` or ``bias`` of a projection, ``(num_heads · d_head, …)``; that of a norm
            of queries or keys with ``num_heads=1``.
        num_heads: number of heads side by side in it: of a projection of keys those of the keys.
        to: ``"half"``, from interleaved, or ``"interleaved"``, from half.

    Returns:
        A tensor of the same shape.
    """
    check_choice("to", to, LAYOUTS)
    rows = check_tensor("weight", weight, least=1).shape[0]
    require(
        rows % (2 * check_integer("num_heads", num_heads)) == 0,
        f"weight must have {num_heads} heads of one even width as rows, got shape "
        f"{tuple(weight.shape)}",
    )
    half = rows // num_heads // 2
    pairs = (half, 2) if to == "half" else (2, half)
    return weight.unflatten(0, (num_heads, *pairs)).transpose(1, 2).flatten(0, 2)
