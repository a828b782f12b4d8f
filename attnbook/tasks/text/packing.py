"""Documents of different lengths, one after the other in rows of one length: no padding is read."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ...validate import check_integer, require

__all__ = ["NOT_COUNTED", "PackedText", "pack_documents"]

NOT_COUNTED = -100
"""The target where the next token begins another document, which nothing before it tells."""


class PackedText(NamedTuple):
    """B rows of n tokens, a batch for ``language_loss``.

    Attributes:
        target_in, target_out: ``(B, n)`` ids, the second one token later; :data:`NOT_COUNTED`
            where the next token begins another document.
        documents: ``(B, n)``, which document of its row a token belongs to, for
            :func:`~attnbook.document_mask`.
    """

    target_in: Tensor
    target_out: Tensor
    documents: Tensor


def pack_documents(documents: Iterable[Sequence[int]], length: int) -> PackedText:
    """Pack documents into rows of ``length`` tokens, in their order.

    A document that does not fit goes on in the next row, where it begins anew; what is left at the
    end and fills no row is dropped.

    Args:
        documents: token ids, each of one document.
        length: n, the tokens in a row.

    Source: Raffel et al. 2020, section 3.1.1; that no token attends to another document, Krell et
    al. 2021, section 3.2.
    """
    check_integer("length", length)
    tokens: list[int] = []
    number: list[int] = []
    for k, document in enumerate(documents):
        tokens += document
        number += [k] * len(document)
    rows = (len(tokens) - 1) // length
    require(rows >= 1, f"documents must fill a row of {length} tokens and the next one")
    ids = torch.tensor(tokens[: rows * length + 1])
    part = torch.tensor(number[: rows * length + 1])
    target_in, target_out = ids[:-1].view(rows, length), ids[1:].view(rows, length)
    before, after = part[:-1].view(rows, length), part[1:].view(rows, length)
    return PackedText(
        target_in, target_out.masked_fill(before != after, NOT_COUNTED), before - before[:, :1]
    )
