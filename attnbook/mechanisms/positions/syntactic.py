"""Positions in a dependency tree: how deep a word stands, how far apart two of them are."""

import torch
from torch import Tensor, nn

from ...kernels.precision import without_autocast
from ...kernels.visible import Visible
from ...validate import check_integer, check_tensor, check_values, check_whole, is_readable, require
from ..attention.masks import masks_by_name
from ..attention.soft_attention import Attended
from ..caches.key_value import ProjectedSource
from .absolute import wave_vectors
from .relative import RelativeMultiHeadAttention, attend_with_relations, relation_table

__all__ = ["StructuralPositions", "SyntacticMultiHeadAttention", "tree_depth", "tree_distance"]
__all__ += ["tree_offset"]


def tree_depth(heads: Tensor, lengths: Tensor | None = None) -> Tensor:
    """The depth of every word: how many branches lie between it and the root, which has depth 0.

    ``depth_i = |{j ≠ i : j is above i}|``

    Args:
        heads: whole numbers ``(…, n)``: of each word the position of its head, counted from 0; −1
            for the root.
        lengths: ``(…)``, number of words of each sentence; n for all when not given. What stands
            after is not looked at.

    Returns:
        int64 ``(…, n)``, 0 at the padding.

    Raises:
        ValueError: if a sentence has no root or two, a head lies outside of its sentence, or words
            hang in a ring.

    Source: Wang, Tu, Wang and Shi 2019, the absolute structural position.
    """
    return (_above(heads, lengths).sum(-1) - 1).clamp(min=0)


def tree_distance(heads: Tensor, lengths: Tensor | None = None) -> Tensor:
    """How many branches the way from word to word has:
    ``depth_i + depth_j − 2 depth(lowest common ancestor)``.

    Args:
        heads, lengths: as in :func:`tree_depth`.

    Returns:
        int64 ``(…, n, n)``, symmetric, 0 on the diagonal and wherever one of the two is padding.

    Source: Wang, Tu, Wang and Shi 2019, the relative structural position.
    """
    return _distance(_above(heads, lengths))


def tree_offset(heads: Tensor, lengths: Tensor | None = None) -> Tensor:
    """The distance in the tree with a sign for its direction, seen from word i (row) to word j
    (column).

    Below 0 if j is above i, above 0 if it is below. Of two words of which neither is above the
    other, the one that comes later in the sentence counts as below. So the offset changes its sign
    when i and j change places.

    Args:
        heads, lengths: as in :func:`tree_depth`.

    Returns:
        int64 ``(…, n, n)``.

    Source: Wang, Tu, Wang and Shi 2019, the relative structural position. Where neither word is
    above the other, theirs is the sum of the two depths, with a sign by order; the way over the
    lowest common ancestor is the book's."""
    above = _above(heads, lengths)
    up, down = above, above.transpose(-1, -2)  # j above i; j below i
    place = torch.arange(heads.shape[-1], device=heads.device)
    later = place > place[:, None]
    return _distance(above) * torch.where(down | (later & ~up), 1, -1)


def _distance(above: Tensor) -> Tensor:
    with without_autocast(above):  # counts: half precision would round them
        # common ancestors: depth of the lowest one + 1
        common = above.float() @ above.float().transpose(-1, -2)
    depth, real = above.sum(-1), above.any(-1)
    distance = depth[..., None] + depth[..., None, :] - 2 * common.long()
    return distance * (real[..., None] & real[..., None, :])


def _above(heads: Tensor, lengths: Tensor | None) -> Tensor:
    """Which words j are word i or above it: boolean ``(…, n, n)``; nothing at the padding."""
    check_whole("heads", heads)
    require(
        heads.dim() > 0 and heads.shape[-1] > 0,
        f"heads must be (…, n) with at least one word, got shape {tuple(heads.shape)}",
    )
    n = heads.shape[-1]
    if lengths is None:
        lengths = torch.full(heads.shape[:-1], n, device=heads.device)
    check_whole("lengths", lengths)
    require(
        lengths.shape == heads.shape[:-1],
        f"lengths must have the shape {tuple(heads.shape[:-1])}, one number a sentence, got "
        f"{tuple(lengths.shape)}",
    )
    check_values("lengths", lengths, 1, n)
    lengths = lengths.to(heads.device)
    place = torch.arange(n, device=heads.device)
    real = place < lengths[..., None]
    root = (heads == -1) & real
    if is_readable(heads):
        roots, inside = root.sum(-1), (heads >= 0) & (heads < lengths[..., None])
        require(
            bool((roots == 1).all()),
            f"heads must have one root (−1) a sentence, got {roots.tolist()}",
        )
        require(
            bool((inside | root | ~real).all()),
            "heads must be positions of words of the same sentence, or −1 for the root, got "
            f"{heads[real & ~inside & ~root].tolist()} in sentences of lengths {lengths.tolist()}",
        )
    child = real & ~root
    above = (heads.where(child, place)[..., None] == place) | (place[:, None] == place)
    with without_autocast(heads):
        for _ in range((n - 1).bit_length()):  # 1, 2, 4, … branches up
            above = (above.float() @ above.float()) > 0
    if is_readable(heads):
        rooted = (above & root[..., None, :]).any(-1) | ~real
        require(
            bool(rooted.all()),
            f"heads must lead to the root, got words in a ring: {(~rooted).nonzero().tolist()}",
        )
    return above & real[..., None]


class StructuralPositions(nn.Module):
    """Add to each word a mixture of its place in the sentence and its depth in the tree.

    ``x_p + tanh(W [PE(p); PE(depth_p)] + b)`` with the sinusoids PE of both numbers.

    Args:
        d_model: width of x, even.

    Shapes: x ``(…, n, d_model)``, depth ``(…, n)`` → as x.

    Source: Wang, Tu, Wang and Shi 2019, the absolute structural position beside the sequential one;
    the mixture, one layer with tanh, is the book's choice.
    """

    def __init__(self, d_model: int) -> None:
        super().__init__()
        wave_vectors(torch.zeros(1), d_model)  # refuses an odd width
        self.d_model = d_model
        self.mix = nn.Linear(2 * d_model, d_model)  # W, b

    def forward(self, x: Tensor, depth: Tensor) -> Tensor:
        check_tensor("x", x, width=self.d_model)
        check_whole("depth", depth)
        require(
            depth.shape == x.shape[:-1],
            f"depth must be {tuple(x.shape[:-1])}, one per word, got {tuple(depth.shape)}",
        )
        place = torch.arange(x.shape[-2], device=x.device).expand(depth.shape)
        both = torch.cat([wave_vectors(p, self.d_model) for p in (place, depth.to(x.device))], -1)
        return x + torch.tanh(self.mix(both.to(self.mix.weight.dtype)))


class _SourceWithTree(ProjectedSource):
    """A projected source, and the offset of every pair in the tree."""

    offset: Tensor


class SyntacticMultiHeadAttention(RelativeMultiHeadAttention):
    """Multi-head self-attention whose keys and values carry learned vectors of two distances: in
    the sentence and in the tree.

    ``e_ij = q_i·(k_j + a^K_{clip(j − i)} + b^K_{clip(offset_ij)}) / √d_head``,
    ``z_i = Σ_j α_ij (v_j + a^V_{clip(j − i)} + b^V_{clip(offset_ij)})``

    Args:
        d_model, num_heads, max_distance, d_head, d_head_value: as in
            :class:`~attnbook.mechanisms.positions.relative.RelativeMultiHeadAttention`.
        max_tree_distance: offsets in the tree are clipped to so many branches, up and down.

    Source: Wang, Tu, Wang and Shi 2019, the relative structural position beside the sequential one
    of Shaw et al. 2018; that both vectors are added is the book's choice.
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        *,
        max_distance: int,
        max_tree_distance: int,
        d_head: int | None = None,
        d_head_value: int | None = None,
    ) -> None:
        super().__init__(
            d_model, num_heads, max_distance=max_distance, d_head=d_head, d_head_value=d_head_value
        )
        rows = 2 * check_integer("max_tree_distance", max_tree_distance) + 1
        self.max_tree_distance = max_tree_distance
        self.key_offset = relation_table(rows, self.d_head)  # b^K
        self.value_offset = relation_table(rows, self.d_head_value)  # b^V

    @masks_by_name("mask")
    def forward(
        self,
        x: Tensor,
        offset: Tensor,
        *,
        mask: Tensor | None = None,
        key_mask: Tensor | None = None,
        is_causal: bool = False,
        need_weights: bool = True,
    ) -> Attended:
        """Attend within sentences ``(…, n, d_model)``, ``offset (…, n, n)`` in their trees."""
        check_tensor("x", x, width=self.query_width)
        check_whole("offset", offset)
        expected = (*x.shape[:-1], x.shape[-2])
        require(
            tuple(offset.shape) == expected,
            f"offset must be {expected}, one per pair of words, got {tuple(offset.shape)}",
        )
        source = _SourceWithTree(*self.project(x))
        source.offset = offset.to(x.device, torch.int64)
        given = {"mask": mask, "key_mask": key_mask, "is_causal": is_causal}
        return super().forward(x, projected=source, need_weights=need_weights, **given)

    def attend_heads(
        self, query: Tensor, source: _SourceWithTree, visible: Visible, need_weights: bool
    ) -> Attended:
        k = self.max_tree_distance

        def offset(rows: slice, seen: int) -> Tensor:
            return (source.offset[..., rows, :seen].clamp(-k, k) + k).unsqueeze(-3)

        relations = [
            (self.distances(query, source), self.key_distance, self.value_distance),
            (offset, self.key_offset, self.value_offset),
        ]
        return attend_with_relations(
            query * self.d_head**-0.5, source, relations, visible, self.dropout, need_weights
        )
