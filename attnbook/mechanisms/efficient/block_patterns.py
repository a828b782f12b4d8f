"""Sparse patterns as masks, and what a position knows of after some layers of a mask."""

import torch
from torch import Tensor

from ...validate import check_integer, check_mask, check_seed, describe, require

__all__ = ["bigbird_mask", "receptive_field"]


def bigbird_mask(
    length: int,
    block_length: int = 64,
    *,
    global_blocks: int = 2,
    window_blocks: int = 3,
    random_blocks: int = 3,
    seed: int = 0,
    device: torch.device | str | None = None,
) -> Tensor:
    """The pattern of BigBird: who may attend to whom, in blocks of positions.

    A block attends to the first ``global_blocks``, to the ``window_blocks`` of which it is the
    middle, and to ``random_blocks`` others, drawn once; the global blocks attend to everything. So
    the allowed pairs, ``mask.sum()``, grow with the length and not with its square, and two
    positions are two layers apart at most, through a global block.

    A mask says what may be attended to; an attention that computes the m×n scores saves nothing by
    it. For a decoder take ``bigbird_mask(n, …) & causal_mask(n)``.

    Args:
        length: n; the last block may be shorter.
        block_length: positions in a block.
        global_blocks: g, the first of the positions that are there anyway (in the paper's ITC), not
            tokens that are added (ETC).
        window_blocks: w, an odd number; what lies beyond the ends is left out.
        random_blocks: r, fewer where fewer are left.
        seed: of the draw; layers should differ in it.
        device: where the mask lies.

    Returns:
        Boolean ``(n, n)``, True = may attend.

    Source: Zaheer et al. 2020 (BigBird), section 2, appendix D; 64, 2, 3, 3 as in its base model.
    """
    check_integer("length", length)
    blocks = -(-length // check_integer("block_length", block_length))
    check_integer("global_blocks", global_blocks, 0)
    check_integer("random_blocks", random_blocks, 0)
    require(
        check_integer("window_blocks", window_blocks) % 2 == 1,
        f"window_blocks must be odd (a middle and as many on either side), got {window_blocks}",
    )
    number = torch.arange(blocks, device="cpu")
    seen = (number - number[:, None]).abs() <= window_blocks // 2
    seen[:, :global_blocks] = True
    generator = torch.Generator().manual_seed(check_seed(seed))
    order = torch.rand(
        blocks, blocks, generator=generator, dtype=torch.float32, device="cpu"
    ).masked_fill(seen, 2.0)
    drawn = order.argsort(dim=-1)[:, :random_blocks]  # those that are seen anyway come last
    seen.scatter_(-1, drawn, True)
    seen[:global_blocks] = True
    block = torch.arange(length, device="cpu") // block_length
    return seen[block][:, block].to(device)


def receptive_field(*masks: Tensor) -> Tensor:
    """What each position of the last layer can know of the input, through residual layers of
    self-attention with these masks.

    ``R = (M_L ∨ I) ∘ … ∘ (M_1 ∨ I)``, in products of which "and" multiplies and "or" adds; the
    identity is the residual connection.

    Args:
        masks: of each layer, first to last, boolean ``(…, n, n)``, True = may attend;
            ``*[mask] * 4`` are four layers of one mask.

    Returns:
        Boolean ``(…, n, n)``: ``R[i, j]`` says whether position i can depend on input j.
    """
    require(len(masks) > 0, "masks must be at least one, got none")
    known = None
    for mask in masks:
        require(
            isinstance(mask, Tensor) and mask.dim() >= 2 and mask.shape[-1] == mask.shape[-2],
            f"masks must be square, (…, n, n), got {describe(mask)}",
        )
        check_mask(mask, tuple(mask.shape))
        layer = (mask | torch.eye(mask.shape[-1], dtype=torch.bool, device=mask.device)).float()
        require(
            known is None or known.shape[-1] == layer.shape[-1],
            f"masks must be of one length, got {describe(mask)} after {describe(known)}",
        )
        known = layer if known is None else (layer @ known > 0).float()
    assert known is not None
    return known > 0
