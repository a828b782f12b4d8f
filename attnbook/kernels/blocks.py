"""How a problem of batch × queries × keys × width is cut into blocks that fit a cache, and what
scores a block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch

__all__ = ["BLOCK_ELEMENTS", "BlockKernel", "blocks", "check_projected_width"]

Gradients = Sequence[torch.Tensor | None]
Pullback = Callable[[torch.Tensor], Gradients]

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


class BlockKernel:
    """Scores of a block of queries and keys, and their gradient by automatic differentiation.

    Args:
        compare: ``(queries, projected keys) -> scores``.
        query: what :func:`compare` takes as queries, ``(…, m, width)``.
        parameters: what else the scores depend on, and whose gradients are wanted.
    """

    def __init__(
        self,
        compare: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
        query: torch.Tensor,
        parameters: tuple[torch.Tensor, ...],
    ) -> None:
        self.compare, self.query, self.parameters = compare, query, parameters

    def compare_with_pullback(
        self, query: torch.Tensor, projected: torch.Tensor
    ) -> tuple[torch.Tensor, Pullback]:
        """Compare, and keep what the backward pass needs.

        Returns:
            The scores, detached, and a function from their gradient ``(…, m, n)`` to the gradients
            of ``query``, of ``projected`` and of each of the parameters; None where there is none.
            It is called once.
        """
        with torch.enable_grad():
            q, k = query.detach().requires_grad_(), projected.detach().requires_grad_()
            scores = self.compare(q, k)

        def pullback(grad: torch.Tensor) -> Gradients:
            inputs = [q, k, *self.parameters]
            wanted = [t for t in inputs if t.requires_grad]
            grads = iter(
                torch.autograd.grad(scores, wanted, grad.to(scores.dtype), allow_unused=True)
            )
            return [next(grads) if t.requires_grad else None for t in inputs]

        return scores.detach(), pullback


def check_projected_width(width: int, projected: torch.Tensor) -> None:
    """Raise a ``ValueError`` unless projected keys are as wide as what they are compared with."""
    if projected.shape[-1] != width:
        raise ValueError(
            f"projected_keys must have width {width}, as project_keys(key) has, got shape "
            f"{tuple(projected.shape)}"
        )
