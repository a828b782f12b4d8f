"""Associative recall of many pairs: keys with values, then keys alone that ask for theirs."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ...validate import check_integer, require
from ..endless_batches import GeneratedBatches, drawn
from ..sequences.vocabulary import PAD, UNK

KEYS, VALUES = 64, 64
FIRST = UNK + 1
VOCABULARY_SIZE = FIRST + KEYS + VALUES


class Recall(NamedTuple):
    """tokens ``(B, n)`` and target ``(B, n)``: at a key that asks its value, PAD elsewhere."""

    tokens: Tensor
    target: Tensor


class RecallBatches(GeneratedBatches[Recall]):
    """Endless batches of :func:`draw`; each draws its number of pairs from ``pairs``."""

    def __init__(
        self, pairs: Sequence[int], batch_size: int, seed: int = 0, **options: int
    ) -> None:
        require(len(pairs) > 0, "pairs must hold at least one number, got none")

        def any_size(count: int, generator: torch.Generator) -> Recall:
            size = pairs[int(torch.randint(len(pairs), (), generator=generator))]
            return draw(size, count, generator, **options)

        super().__init__(any_size, batch_size, seed)


@drawn
def draw(
    pairs: int,
    count: int,
    generator: torch.Generator,
    *,
    told: int = 1,
    keys: int = KEYS,
    values: int = VALUES,
) -> Recall:
    """Lists of keys, each followed by its value, and then every key once more, in another order.

    ``k_1 v_1 k_2 v_2 … k_N v_N  k_π(1) … k_π(N)``; the keys of a row differ, the values need not.
    With ``told`` of two or more the whole list is told so often, in new orders and with new values,
    and the last value of a key is the right one: a memory must forget the others.

    Args:
        pairs: N, at most ``keys``.
        count: ``B``.
        told: how often every key is given a value.
        keys, values: how many different ones there are.

    Shapes: :class:`Recall` of ``n = (2 told + 1) N`` tokens; keys are the ids from :data:`FIRST`,
    values those after the keys.

    Source: Arora et al. 2023, section 3.1, where gaps stand between the queries; keys that are told
    again: Schlag et al. 2021, section 6.1.
    """
    check_integer("pairs", pairs, 1, check_integer("keys", keys))
    check_integer("values", values)
    check_integer("count", count)

    def order(of: int) -> Tensor:
        return torch.rand(count, of, generator=generator).argsort(1)

    chosen = order(keys)[:, :pairs]
    parts = []
    held = torch.zeros(count, keys, dtype=torch.long)  # the value of each key
    for _ in range(check_integer("told", told)):
        shown = chosen.gather(1, order(pairs))
        value = torch.randint(values, (count, pairs), generator=generator)
        held = held.scatter(1, shown, value)
        parts.append(torch.stack([shown, keys + value], -1).flatten(1))
    asked = chosen.gather(1, order(pairs))
    parts.append(asked)
    tokens = FIRST + torch.cat(parts, 1)
    blank = torch.full((count, 2 * told * pairs), PAD)
    return Recall(tokens, torch.cat([blank, FIRST + keys + held.gather(1, asked)], 1))
