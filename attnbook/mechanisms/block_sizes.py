"""How a problem of batch × queries × keys × width is cut into blocks that fit a cache."""

from __future__ import annotations

from collections.abc import Iterator

import torch

__all__ = ["BLOCK_ELEMENTS", "blocks"]

BLOCK_ELEMENTS = 2**20
"""Elements of a block on a CPU: 4 MB in float32. It stays in the cache, and below the size at which
the C library gives buffers back to the kernel."""
_ACCELERATOR_ELEMENTS = 2**25  # many small kernels would leave it idle


def blocks(
    query: torch.Tensor, key: torch.Tensor, elements: int | None = None
) -> Iterator[tuple[slice, slice, slice]]:
    """Yield ranges of (first dimension, queries, keys) for ``query (b, …, m, d)`` and
    ``key (b, …, n, d)``.

    A block is long in keys first, as the softmax reads whole rows, then in queries. ``elements`` is
    the upper bound of b × … × queries × keys × width in a block; it can be exceeded only by a
    single query and a single key."""
    if elements is None:
        elements = BLOCK_ELEMENTS if query.device.type == "cpu" else _ACCELERATOR_ELEMENTS
    size, m, n = query.shape[0], query.shape[-2], key.shape[-2]
    per_pair = max(1, query.shape[1:-2].numel() * max(query.shape[-1], key.shape[-1]))
    keys = max(1, min(n, elements // per_pair))
    queries = max(1, min(m, elements // (per_pair * keys)))
    rows = max(1, min(size, elements // (per_pair * keys * queries)))
    for b in range(0, size, rows):
        for i in range(0, m, queries):
            for j in range(0, n, keys):
                yield (
                    slice(b, min(b + rows, size)),
                    slice(i, min(i + queries, m)),
                    slice(j, min(j + keys, n)),
                )
