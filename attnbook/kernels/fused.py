"""Attention with a score that is an inner product, through PyTorch's fused kernels."""

import torch
from torch import Tensor
from torch.nn import functional as F

from .double_backward import check_once
from .streaming import by_rows
from .visible import Visible, band_mask

__all__ = ["fused_attention", "has_fused_kernel"]


_ROWS = 128  # of a mask that is not built whole


def has_fused_kernel(tensor: Tensor) -> bool:
    """Tell whether PyTorch has a kernel for this device and dtype that does not store the m×n
    matrix.
    """
    kind = tensor.device.type
    return kind == "cpu" or (kind == "cuda" and tensor.dtype != torch.float64)


def fused_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    visible: Visible | None = None,
    scale: float = 1.0,
    sink: Tensor | None = None,
) -> Tensor:
    """Context of attention with ``e_tj = scale · query_t·key_j``, by
    ``scaled_dot_product_attention``.

    The kernels want four dimensions and one width for queries, keys and values, and promise nothing
    for a query that may attend to nothing. So leading dimensions are brought to two, the narrower
    tensors padded with zeros, and such a query may attend to everything inside and gets its zeros
    afterwards. A mask that differs from query to query is kept as numbers for the backward pass, in
    its own shape: what it broadcasts over is not written out. Causality alone needs none; which
    keys there are is then one more column of queries and keys, a window cuts the queries in blocks.

    Args:
        query: ``(…, m, d)``.
        key: ``(…, n, d)``.
        value: ``(…, n, d_v)``; leading dimensions broadcast.
        visible: what the queries see; everything when not given.
        scale: factor of the inner product.
        sink: numbers broadcastable to ``(…, m)``, a score for each query that belongs to no key:
            here of one more key, whose value is zero.

    Returns:
        Context ``(…, m, d_v)``; zeros, with zero gradients, for a query that may attend to nothing.
        Differentiable once: ``create_graph=True`` is a ``RuntimeError``.

    Source: the kernel after Dao et al. 2022; blocks of a window, Beltagy et al. 2020, section 3.1.
    """
    m, n = query.shape[-2], key.shape[-2]
    visible = Visible() if visible is None else visible
    mask, reach, first = visible.mask, visible.reach, visible.first
    is_rule = reach is not None and (mask is None or mask.shape[-2] == 1) and m > 1
    if sink is not None:  # one more of the first keys
        query, key, value = _with_sink(query, key, value, sink / scale)
        if mask is not None:
            mask = F.pad(mask.expand(*mask.shape[:-1], n), (1, 0), value=True)
        if not (is_rule and reach is not None and reach >= n == m):
            return fused_attention(query, key, value, Visible(mask, reach, first + 1), scale)
        query = F.pad(query, (0, 0, 1, 0))  # before the first, for the sink to stand beside
        return fused_attention(query, key, value, Visible(mask, reach), scale)[..., 1:, :]
    # no numbers of float16 have a product that is less than every score
    marks = mask is None or torch.finfo(query.dtype).max > 1e30
    nonempty = visible.rows(m, n)
    if is_rule and marks and reach is not None and reach < n:
        context = _by_windows(query, key, value, visible, reach, scale)
    elif is_rule and marks and m == n:
        if mask is not None:
            query, key = _mask_by_column(query, key, mask)
        context = _by_kernel(query, key, value, None, scale, is_causal=True)
    elif is_rule and m > _ROWS:  # the last m of n

        def read(rows: slice, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
            seen = visible.reached(rows, m, n)
            part = Visible(visible.block(rows, seen, m, n, query.device))
            keys, values = key[..., seen, :], value[..., seen, :]
            return fused_attention(query[..., rows, :], keys, values, part, scale)

        return by_rows(read, (query, key, value), m, _ROWS)
    else:
        if reach is not None:
            mask = visible.matrix(m, n, query.device)
        if mask is not None and nonempty is not None:
            mask = mask | ~nonempty.unsqueeze(-1)
        if mask is not None and mask.shape[-1] == 1:  # a row allows everything or nothing
            mask = None
        context = _by_kernel(query, key, value, mask, scale)
    return context if nonempty is None else context.masked_fill(~nonempty.unsqueeze(-1), 0.0)


def _with_sink(query, key, value, sink) -> tuple[Tensor, Tensor, Tensor]:
    """With one more key before the others, of value zero, whose inner product with a query is its
    sink ``(…, m)``.
    """
    # finite, as ∞ · 0 is NaN: beyond what this allows no key, or no sink, has any weight
    largest = torch.finfo(query.dtype).max / 2
    column = sink.clamp(-largest, largest).to(query.dtype).unsqueeze(-1)
    batch = torch.broadcast_shapes(query.shape[:-2], column.shape[:-2])
    column = column.expand(*batch, query.shape[-2], 1)
    query = torch.cat([query.expand(*batch, -1, -1), column], dim=-1)
    first = F.pad(key.new_ones(1, 1), (key.shape[-1], 0)).expand(*key.shape[:-2], 1, -1)
    return query, torch.cat([first, F.pad(key, (0, 1))], dim=-2), F.pad(value, (0, 0, 1, 0))


def _mask_by_column(query: Tensor, key: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """One column more, and zeros in the others, so that keys that are not there, by a mask
    ``(…, 1, n)``, have a score so small that nothing is left of their weight beside others.
    """
    large = 1e15 if torch.finfo(key.dtype).max > 1e30 else 3e4  # what float16 holds
    mask = mask.mT  # (…, n or 1, 1)
    absent = key.new_full((), -large).masked_fill(mask, 0.0)
    key = key.masked_fill(~mask, 0.0)
    columns = (t.expand(*key.shape[:-1], -1) for t in (key, absent))
    return F.pad(query, (0, 1), value=large), torch.cat([*columns], dim=-1)


def _by_windows(query, key, value, visible: Visible, reach: int, scale: float) -> Tensor:
    """Context of the last m of n positions, each of which sees itself, ``reach − 1`` before it and
    the first: of blocks of queries, each with as many keys as one of them sees.
    """
    m, n, mask = query.shape[-2], key.shape[-2], visible.mask
    block = min(m, max(reach, 128))
    number, width = -(-m // block), block + reach - 1
    before, behind = m + reach - 1 - n, number * block - m  # positions that there are not
    first, skipped, before = min(visible.first, n), max(0, -before), max(0, before)
    key, value = (F.pad(t, (0, 0, before, behind)) for t in (key, value))
    if before > 0 or mask is not None:
        valid = query.new_ones(1, 1, dtype=torch.bool) if mask is None else mask
        valid = F.pad(valid.expand(*valid.shape[:-1], n), (before, behind))
        query, key = _mask_by_column(query, key, valid)
    near = band_mask(slice(0, block), slice(0, width), reach - 1, reach, query.device)

    def windows(rows: Tensor) -> Tensor:  # (…, number, width, d)
        cut = rows[..., skipped:, :].unfold(-2, width, block).mT
        if first == 0:
            return cut
        begin = rows[..., before : before + first, :].unsqueeze(-3)
        return torch.cat([begin.expand(*cut.shape[:-2], -1, -1), cut], dim=-2)

    key, value = windows(key), windows(value)
    query = F.pad(query, (0, 0, 0, behind)).unflatten(-2, (number, block))
    if first:  # those that no window holds
        place = torch.arange(n - m - reach, n - reach + behind, device=query.device)
        far = place.view(number, block, 1) >= torch.arange(first, device=query.device)
        near = torch.cat([far, near.expand(number, -1, -1)], dim=-1)
    return _by_kernel(query, key, value, near, scale).flatten(-3, -2)[..., :m, :]


def _by_kernel(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    scale: float,
    is_causal: bool = False,
) -> Tensor:
    """The context by PyTorch's kernel, for a mask under which every query sees something."""
    batch = query.shape[:-2]
    if not batch == key.shape[:-2] == value.shape[:-2]:
        batch = torch.broadcast_shapes(batch, key.shape[:-2], value.shape[:-2])
    m, d_value = query.shape[-2], value.shape[-1]
    width = max(query.shape[-1], d_value)
    if query.device.type != "cpu":
        width += -width % 8  # GPU kernels want multiples of 8
    ready = []
    for tensor in (query, key, value):
        if tensor.shape[-1] < width:
            tensor = F.pad(tensor, (0, width - tensor.shape[-1]))
        if tensor.stride(-1) != 1:  # the kernels read whole rows
            tensor = tensor.contiguous()
        if len(batch) == 2 and tensor.shape[:-2] == batch:
            ready.append(tensor)
        else:
            ready.append(_with_four_dimensions(tensor, batch))
    if mask is not None and mask.dim() > 2:
        # what was three dimensions and more cannot broadcast, but for the last of them
        written_out = len(batch) > 2 and mask.shape[:-3].numel() > 1
        if len(batch) > 2 and mask.dim() == 3:
            mask = mask.unsqueeze(0)
        if mask.dim() != 4 or written_out:
            mask = _with_four_dimensions(
                mask, batch if written_out or len(batch) < 3 else (), expand=written_out
            )
    context = F.scaled_dot_product_attention(
        *ready, attn_mask=mask, is_causal=is_causal, scale=scale
    )
    if width > d_value:
        context = context[..., :d_value]
    # nobody comes here under a transform
    if not torch.compiler.is_compiling() and (step := context.grad_fn) is not None:
        step.register_prehook(_differentiated_once)
    return context if len(batch) == 2 else context.reshape(*batch, m, d_value)


def _differentiated_once(_: tuple[Tensor, ...]) -> None:
    check_once("attention with need_weights=False")


def _with_four_dimensions(tensor, batch, *, expand=True):
    """``(…, i, j)`` with two leading dimensions."""
    tensor = tensor[(None,) * (len(batch) + 2 - tensor.dim())]
    if expand:
        tensor = tensor.expand(*batch, -1, -1)
    leading = tensor.shape[:-2]
    two = (
        (1, 1)
        if not leading
        else (leading[0], 1)
        if len(leading) == 1
        else (leading[:-1].numel(), leading[-1])
    )
    return tensor.reshape(*two, *tensor.shape[-2:])
