"""SNAIL: temporal convolutions and attention in turn, over a sequence of past experience."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from torch import Tensor, nn

from ...mechanisms.layers.temporal import AttentionBlock, PastKeys, TCBlock
from ...validate import check_integer, check_tensor, require

__all__ = ["ATTENTION_ONLY", "PAPER_PARTS", "TC_ONLY"]
__all__ += ["SNAIL", "AttentionPart", "Experience", "TCPart"]


class AttentionPart(NamedTuple):
    """An attention block of a :class:`SNAIL`: widths, and how queries and keys start."""

    d_key: int
    d_value: int
    alike: float | None = None

    def build(self, d_in: int, length: int) -> AttentionBlock:
        """The module for inputs of width ``d_in``."""
        return AttentionBlock(d_in, self.d_key, self.d_value, self.alike)


class TCPart(NamedTuple):
    """A TC block of a :class:`SNAIL`: its filters, and the dilation that it begins with."""

    filters: int
    first: int = 1

    def build(self, d_in: int, length: int) -> TCBlock:
        """The module for inputs of width ``d_in`` and sequences of ``length`` positions."""
        return TCBlock(d_in, length, self.filters, self.first)


PAPER_PARTS = (
    AttentionPart(64, 32),
    TCPart(128),
    AttentionPart(256, 128),
    TCPart(128),
    AttentionPart(512, 256),
)
"""The network for classification; the sizes are those that its published implementations share
(unconfirmed).
"""
TC_ONLY = tuple(part for part in PAPER_PARTS if isinstance(part, TCPart))
"""The same without its attention blocks."""
ATTENTION_ONLY = tuple(part for part in PAPER_PARTS if isinstance(part, AttentionPart))
"""The same without its TC blocks."""


class Experience(NamedTuple):
    """The result of :class:`SNAIL` for m positions.

    Attributes:
        output: ``(…, m, d_output)``
        past: what the next call needs to go on after them, one entry per part
        weights: for each part ``(…, m, n)``, or None where it is a TC block or weights were not
            asked for
    """

    output: Tensor
    past: tuple[Any, ...]
    weights: tuple[Tensor | None, ...]


class SNAIL(nn.Module):
    """Temporal convolutions, for the recent past, and attention, which selects from all, in turn.

    Each part puts its result beside its input, so the width grows from part to part;
    ``output_t = W [x_t; …] + b`` from all of it. Output t depends on inputs 1 … t only.

    Args:
        d_input: width of x.
        d_output: width of the output.
        length: T, how far back a TC block looks. In longer sequences only attention sees more.
        parts: what it is made of, in order: :data:`PAPER_PARTS`, :data:`TC_ONLY`,
            :data:`ATTENTION_ONLY`, or a sequence of :class:`AttentionPart` and :class:`TCPart` (or
            anything else with ``build(d_in, length)``).

    Source: Mishra et al. 2018, section 3.
    """

    def __init__(
        self, d_input: int, d_output: int, length: int, parts: Sequence[Any] = PAPER_PARTS
    ) -> None:
        super().__init__()
        require(len(parts) > 0, "parts must name at least one part, got none")
        self.d_input, width, built = check_integer("d_input", d_input), d_input, []
        self.length = check_integer("length", length)
        for part in parts:
            require(
                hasattr(part, "build"),
                f"parts must be AttentionPart and TCPart, got {type(part).__name__}",
            )
            built.append(part.build(width, length))
            width = built[-1].d_out
        self.parts = nn.ModuleList(built)
        self.output = nn.Linear(width, check_integer("d_output", d_output))

    def forward(
        self, x: Tensor, past: tuple[Any, ...] | None = None, *, need_weights: bool = False
    ) -> Experience:
        """Read m positions ``x (…, m, d_input)``, the first, or those that follow a ``past``."""
        check_tensor("x", x, width=self.d_input)
        require(
            past is None or len(past) == len(self.parts),
            f"past must have {len(self.parts)} entries, one per part",
        )
        pasts, weights = [], []
        for part, before in zip(self.parts, past or [None] * len(self.parts)):
            # (…, m, width), wider after each part
            x, now, seen = part(x, before, need_weights=need_weights)
            pasts.append(now)
            weights.append(seen)
        return Experience(self.output(x), tuple(pasts), tuple(weights))

    @staticmethod
    def branch(past: Any, count: int) -> Any:
        """A past for ``count`` separate continuations: ``(batch, …)`` → ``(batch, count, …)``."""
        if isinstance(past, Tensor):
            return past.unsqueeze(1).expand(-1, count, *past.shape[1:])
        branched = [SNAIL.branch(entry, count) for entry in past]
        return PastKeys(*branched) if isinstance(past, PastKeys) else tuple(branched)
