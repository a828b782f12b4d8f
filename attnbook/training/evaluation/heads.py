"""What a head does: scores of its weights, and a model without its output or with another."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from ...validate import check_integer, check_tensor, require

__all__ = [
    "ablate_heads",
    "edit_heads",
    "patch_heads",
    "prefix_matching_score",
    "previous_token_score",
    "record_heads",
    "swap_heads",
]


def prefix_matching_score(weights: Tensor, tokens: Tensor) -> Tensor:
    """How much of its weight a head gives to what followed when the same token was read before:
    ``mean_i Σ_{j < i, t_j = t_i} α_{i, j+1}`` over all positions i whose token was read before.

    An induction head has almost 1; a head that spreads its weight evenly over the i + 1 positions
    has the share of those.

    Args:
        weights: ``(batch, h, n, n)``.
        tokens: ``(batch, n)``.

    Returns:
        ``(h,)``; NaN where no token comes twice.

    Source: Olsson et al. 2022, the prefix matching score.
    """
    check_tensor("weights", weights, least=4)
    same = tokens[:, :, None] == tokens[:, None, :]
    earlier = same.tril(-1)  # (batch, n, n): j is before i and holds the same token
    after = torch.zeros_like(earlier)
    after[:, :, 1:] = earlier[:, :, :-1]
    found = (weights * after[:, None]).sum(-1)  # (batch, h, n)
    read_before = earlier.any(-1)
    return found.sum((0, 2)) / read_before.sum()


def previous_token_score(weights: Tensor) -> Tensor:
    """The mean weight of the position just before: ``mean_i α_{i, i−1}``.

    Shapes: ``(batch, h, n, n)`` → ``(h,)``.
    """
    check_tensor("weights", weights, least=4)
    return weights.diagonal(-1, -2, -1).mean((0, 2))


@contextmanager
def edit_heads(attention: Any, edit: Callable[[Tensor], Tensor]) -> Iterator[None]:
    """Inside the block, ``edit(found)`` is joined in place of what the heads found.

    Args:
        attention: with ``num_heads`` and ``output_projection``, such as
            :class:`attnbook.MultiHeadAttention`.
        edit: from the contexts of the heads ``(…, m, h, d_head)`` to the same shape.
    """

    def before(module: nn.Module, arguments: tuple) -> tuple:
        found = arguments[0].unflatten(-1, (attention.num_heads, -1))
        return (edit(found).flatten(-2),)

    hook = attention.output_projection.register_forward_pre_hook(before)
    try:
        yield
    finally:
        hook.remove()


def _check_head(attention: Any, head: int) -> int:
    return check_integer("head", head, 0, attention.num_heads - 1)


def ablate_heads(attention: Any, *heads: int):
    """Inside the block, these heads give zeros. See :func:`edit_heads`."""
    keep = torch.ones(attention.num_heads, dtype=torch.bool)
    keep[[_check_head(attention, head) for head in heads]] = False

    def edit(found: Tensor) -> Tensor:
        return found.masked_fill(~keep.to(found.device)[:, None], 0.0)

    return edit_heads(attention, edit)


def swap_heads(attention: Any, first: int, second: int):
    """Inside the block, each of two heads is written as the other. See :func:`edit_heads`."""
    order = list(range(attention.num_heads))
    order[_check_head(attention, first)], order[_check_head(attention, second)] = second, first
    return edit_heads(attention, lambda found: found[..., order, :])


@contextmanager
def record_heads(attention: Any) -> Iterator[list[Tensor]]:
    """Inside the block, a list gets what the heads found at each call, ``(…, m, h, d_head)``."""
    calls: list[Tensor] = []

    def keep(found: Tensor) -> Tensor:
        calls.append(found.detach())
        return found

    with edit_heads(attention, keep):
        yield calls


def patch_heads(attention: Any, found: Tensor, *heads: int):
    """Activation patching: inside the block, these heads give what they found in another text, as
    :func:`record_heads` kept it. See :func:`edit_heads`.

    Source: Vig et al. 2020; Meng et al. 2022, section 2.
    """
    chosen = [_check_head(attention, head) for head in heads]

    def edit(own: Tensor) -> Tensor:
        wanted, came = tuple(own.shape), tuple(found.shape)
        here = f"what the heads find here, {wanted}"
        require(came == wanted, f"found must have the shape of {here}, got {came}")
        patched = own.clone()
        patched[..., chosen, :] = found[..., chosen, :]
        return patched

    return edit_heads(attention, edit)
