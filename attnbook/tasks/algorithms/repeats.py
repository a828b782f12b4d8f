"""Random symbols that repeat: what comes next can be known from the text itself alone."""

from typing import NamedTuple

import torch
from torch import Tensor

from ...validate import check_integer, check_range, require
from ..endless_batches import GeneratedBatches
from ..sequences.vocabulary import SPECIAL

FIRST = len(SPECIAL)  # the id of the first symbol


class Repeats(NamedTuple):
    """A batch for ``language_loss``: ``target_in (B, n)`` and ``target_out (B, n)``, one position
    later; and ``period (B,)``, after how many symbols each text begins again.
    """

    target_in: Tensor
    target_out: Tensor
    period: Tensor

    def is_repeated(self) -> Tensor:
        """Where the next symbol can be known: the symbol read has been read before, ``(B, n)``."""
        return torch.arange(self.target_in.shape[1]) >= self.period[:, None]


class RepeatBatches(GeneratedBatches[Repeats]):
    """Endless texts of a stretch of different random symbols, again and again.

    The stretches differ in length, so that how far back the answer stands has to be found by what
    was read, and cannot be learned as a distance.

    Args:
        length: n, symbols that are read.
        period: (shortest, longest) stretch.
        symbols: how many there are; their ids begin at :data:`FIRST`.

    Source: Olsson et al. 2022, "In-context learning and induction heads", repeated random tokens.
    """

    def __init__(
        self,
        length: int = 32,
        period: tuple[int, int] | int = (8, 16),
        symbols: int = 60,
        batch_size: int = 32,
        seed: int = 0,
    ) -> None:
        self.length, self.period = check_integer("length", length), check_range("period", period, 2)
        self.symbols = check_integer("symbols", symbols)
        longest = self.period[1]
        require(
            longest < length and longest <= symbols,
            f"period must be shorter than length and at most symbols, got {longest} with {length} "
            f"and {symbols}",
        )
        super().__init__(self._texts, batch_size, seed)

    def _texts(self, count: int, generator: torch.Generator) -> Repeats:
        low, high = self.period
        period = torch.randint(low, high + 1, (count,), generator=generator)
        order = torch.rand(count, self.symbols, generator=generator).argsort(dim=1)
        place = torch.arange(self.length + 1) % period[:, None]
        tokens = FIRST + order.gather(1, place)
        return Repeats(tokens[:, :-1], tokens[:, 1:], period)
