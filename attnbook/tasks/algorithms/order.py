"""Targets that depend on order alone: the letter three positions earlier, or the text reversed."""

from typing import NamedTuple

import torch
from torch import Tensor

from ...validate import check_choice, check_integer, check_range
from ..endless_batches import GeneratedBatches
from ..sequences.vocabulary import PAD

BACK = 3
ORDERS = ("before", "reverse")


class OrderBatch(NamedTuple):
    """tokens ``(B, n)``, letters from 1 on; target ``(B, n)``, the answer to each or PAD = 0."""

    tokens: Tensor
    target: Tensor


def order_answers(order: str, tokens: Tensor) -> Tensor:
    """The answer at each letter of texts ``(B, n)``.

    "before": ``target_p = token_{p−3}``, and none at the first three;  "reverse":
    ``target_p = token_{n−1−p}``, p = 0 … n − 1.

    Both are defined for any length. The first needs relative positions, the second positions from
    both ends.
    """
    if check_choice("order", order, ORDERS) == "reverse":
        return tokens.flip(-1)
    none = tokens.new_full((*tokens.shape[:-1], min(BACK, tokens.shape[-1])), PAD)
    return torch.cat([none, tokens[..., :-BACK]], dim=-1)


class OrderBatches(GeneratedBatches[OrderBatch]):
    """Endless batches of random letters and their answers.

    Args:
        order: one of :data:`ORDERS`.
        length: (least, most) letters, both included, drawn anew for each batch; or one number.
        letters: how many different letters.
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
        low, high = check_range("length", length)
        check_integer("letters", letters)

        def draw(count: int, generator: torch.Generator) -> OrderBatch:
            n = int(torch.randint(low, high + 1, (1,), generator=generator))
            tokens = torch.randint(1, letters + 1, (count, n), generator=generator)
            return OrderBatch(tokens, order_answers(order, tokens))

        super().__init__(draw, batch_size, seed)
