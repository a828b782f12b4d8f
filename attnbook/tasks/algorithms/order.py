"""Letters and an answer at each of them that hangs on their order alone: the letter three places
before, or the text backwards.
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from ..text.vocabulary import PAD
from ..translation.pairs import check_range, check_step

__all__ = ["ORDERS", "OrderBatch", "OrderBatches", "order_answers"]

BACK = 3
ORDERS = ("before", "reverse")


class OrderBatch(NamedTuple):
    """B texts of n letters as CPU tensors of int64, letters numbered from 1.

    tokens   (B, n)  the letters
    target   (B, n)  the answer at each letter, PAD = 0 where there is none
    """

    tokens: torch.Tensor
    target: torch.Tensor


def order_answers(order: str, tokens: torch.Tensor) -> torch.Tensor:
    """The answer at each letter of texts ``(B, n)``.

    "before": ``target_p = token_{p−3}``, and none at the first three;  "reverse":
    ``target_p = token_{n−1−p}``, p = 0 … n − 1.

    Both are defined for any length. The first asks for a distance, the second for a place counted
    from both ends.

    Raises ValueError for another order.
    """
    if order not in ORDERS:
        raise ValueError(f"order must be one of {', '.join(ORDERS)}, got {order!r}")
    if order == "reverse":
        return tokens.flip(-1)
    none = tokens.new_full((*tokens.shape[:-1], min(BACK, tokens.shape[-1])), PAD)
    return torch.cat([none, tokens[..., :-BACK]], dim=-1)


class OrderBatches:
    """Endless batches of random letters: ``batch(step)`` depends on the arguments and the step
    alone.

    order       one of `ORDERS`
    length      (least, most) letters, both included, drawn anew for each batch; or one number
    batch_size  texts a batch
    letters     how many different letters

    Raises ValueError for an unknown order, a range that is none, or numbers below 1.
    """

    def __init__(
        self,
        order: str,
        length: tuple[int, int] | int,
        batch_size: int = 64,
        *,
        letters: int = 10,
        seed: int = 0,
    ) -> None:
        self.low, self.high = check_range("length", length, 1)
        for name, value in (("batch_size", batch_size), ("letters", letters)):
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ValueError(f"{name} must be an integer >= 1, got {value!r}")
        order_answers(order, torch.ones(1, 1, dtype=torch.long))  # names a wrong order
        self.order, self.batch_size, self.letters, self.seed = order, batch_size, letters, seed

    def batch(self, step: int) -> OrderBatch:
        """The batch of a step, counted from 0."""
        generator = torch.Generator().manual_seed(1_000_003 * self.seed + check_step(step))
        n = int(torch.randint(self.low, self.high + 1, (1,), generator=generator))
        tokens = torch.randint(1, self.letters + 1, (self.batch_size, n), generator=generator)
        return OrderBatch(tokens, order_answers(self.order, tokens))
