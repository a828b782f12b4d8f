"""Masks say who may attend to whom: boolean, True = may attend, broadcastable to (…, queries,
keys).
"""

import torch
from torch import Tensor
from torch.nn.functional import pad

from ...kernels.visible import ALL_BEFORE, Visible
from ...validate import (
    check_integer,
    check_last,
    check_mask,
    check_values,
    check_whole,
    describe,
    is_readable,
    masks_by_name,
    require,
)

__all__ = [
    "causal_mask",
    "check_reading",
    "check_visible",
    "document_mask",
    "masked_softmax",
    "masks_by_name",
    "padding_mask",
    "softmax_over_allowed",
]


def padding_mask(lengths: Tensor, max_length: int | None = None) -> Tensor:
    """Mark the real positions of padded sequences.

    ``mask[b, j] = j < lengths[b]``

    Args:
        lengths: whole numbers ``(batch,)``; how many positions of each row are real. Zero is an
            empty row.
        max_length: n, the padded length; the longest of ``lengths`` when not given.

    Returns:
        Boolean ``(batch, n)`` on the device of ``lengths``. For attention add a dimension for the
        queries: ``padding_mask(lengths)[:, None, :]``.

    The values of ``lengths`` are checked on a CPU only.
    """
    lengths = check_whole("lengths", lengths)
    require(lengths.dim() == 1, f"lengths must be a vector (batch,), got {describe(lengths)}")
    if max_length is None:
        max_length = max(0, int(lengths.max())) if lengths.numel() else 0
    check_values("lengths", lengths, 0, check_integer("max_length", max_length, 0))
    return torch.arange(max_length, device=lengths.device) < lengths[:, None]


def document_mask(documents: Tensor) -> Tensor:
    """Keep documents that are packed into one row apart.

    ``mask[b, i, j] = documents[b, i] = documents[b, j]``

    Args:
        documents: whole numbers ``(…, n)``, which document each position belongs to.

    Returns:
        Boolean ``(…, n, n)``; with ``is_causal`` a token attends to those before it in its own
        document.

    Source: Raffel et al. 2020, section 3.1.1, packs without it; Krell et al. 2021, section 3.2.
    """
    documents = check_whole("documents", documents)
    require(documents.dim() >= 1, f"documents must be (…, n), got {describe(documents)}")
    return documents.unsqueeze(-1) == documents.unsqueeze(-2)


def causal_mask(m: int, n: int | None = None, device: torch.device | str | None = None) -> Tensor:
    """Let query t attend to keys up to and including its own position, and to none after it.

    ``mask[t, j] = j ≤ t + (n − m)``: with more keys than queries the queries are the last m
    positions, as they are when a decoder runs with a cache.

    Args:
        m: number of queries.
        n: number of keys, at least m; ``m`` when not given.
        device: where the mask lies.

    Returns:
        Boolean ``(m, n)``.
    """
    check_integer("m", m)
    n = m if n is None else check_integer("n", n)
    if n < m:
        check_last(m, n)
    return torch.ones(m, n, dtype=torch.bool, device=device).tril(n - m)


@masks_by_name("mask")
def masked_softmax(
    scores: Tensor, *, mask: Tensor | None = None, sink: Tensor | None = None
) -> Tensor:
    """Turn scores into weights over the keys that the mask allows.

    ``α_j = exp(e_j) / Σ_{i allowed} exp(e_i)`` for allowed j, exactly 0 for the others. A row with
    nothing allowed gives zeros, with zero gradient, not NaN.

    With a sink ``α_j = exp(e_j) / (exp(sink) + Σ_{i allowed} exp(e_i))``: what goes to the sink
    goes nowhere. A sink of 0 is softmax with one more in its denominator.

    Args:
        scores: ``(…, m, n)``.
        mask: boolean, broadcastable to ``scores``; True = may attend.
        sink: numbers broadcastable to ``(…, m)``, a score for each row that belongs to no key.

    Returns:
        Weights ``(…, m, n)``; each row sums to 1, or to 0 where nothing is allowed; to less than 1
        with a sink.

    Source: the sink, Agarwal et al. 2025 (gpt-oss), section 2.1; of 0, Miller 2023.
    """
    if not isinstance(scores, Tensor) or not scores.is_floating_point():
        raise ValueError(
            f"scores must be a tensor of floating point numbers, got {describe(scores)}"
        )
    check_mask(mask, tuple(scores.shape))
    if sink is not None:
        sink = check_sink(sink, tuple(scores.shape[:-1]))
    return softmax_over_allowed(scores, mask, sink)


def check_sink(sink: Tensor, rows: tuple[int, ...]) -> Tensor:
    """Return ``sink``, numbers for these rows, finite ones for infinite, or raise a
    ``ValueError``: a sink of ∞ leaves no weight for a key, one of −∞ takes none.
    """
    require(
        isinstance(sink, Tensor)
        and sink.is_floating_point()
        and sink.dim() <= len(rows)
        and all(a in (1, b) for a, b in zip(reversed(sink.shape), reversed(rows))),
        f"sink must be floating point numbers broadcastable to (…, queries) = {rows}, got "
        f"{describe(sink)}",
    )
    return finite_sink(sink)


def finite_sink(sink: Tensor) -> Tensor:
    """Finite numbers for infinite ones."""
    largest = torch.finfo(sink.dtype).max / 2
    return sink.clamp(-largest, largest)


def softmax_over_allowed(scores: Tensor, mask: Tensor | None, sink: Tensor | None = None) -> Tensor:
    """:func:`masked_softmax` without its checks, for a mask that is checked already."""
    if sink is not None:
        column = sink.to(scores.dtype).unsqueeze(-1).expand(*scores.shape[:-1], 1)
        if mask is not None:
            mask = pad(mask.expand(*mask.shape[:-1], scores.shape[-1]), (0, 1), value=True)
        return softmax_over_allowed(torch.cat([scores, column], dim=-1), mask)[..., :-1]
    if mask is None:
        return scores.softmax(dim=-1)
    # The most negative finite number instead of −∞: a row without any allowed key stays finite in
    # value and gradient. exp underflows to exactly 0 for masked keys of other rows; the fill after
    # the softmax clears the rest.
    filled = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    return filled.softmax(dim=-1).masked_fill(~mask, 0.0)


def check_visible(
    mask: Tensor | None,
    key_mask: Tensor | None,
    is_causal: bool,
    batch: torch.Size,
    m: int,
    n: int,
    num_heads: int | None = None,
) -> Visible:
    """What m queries see of n keys, in problems with the leading dimensions ``batch``; a mask may
    have one dimension more where there are heads. Or a ``ValueError``.
    """
    with_heads = isinstance(mask, Tensor) and mask.dim() == len(batch) + 3
    heads = (num_heads,) if num_heads and with_heads else ()
    check_mask(mask, (*batch, *heads, m, n))
    if mask is not None and mask.dim() < 2:
        mask = torch.atleast_2d(mask)
    if key_mask is not None:
        check_mask(key_mask, (*batch, n), name="key_mask", axes="(…, keys)", true="is there")
        if not (is_readable(key_mask) and key_mask.all()):
            key_mask = torch.atleast_2d(key_mask).unsqueeze(-2) if batch else key_mask[None]
            if with_heads:
                key_mask = key_mask.unsqueeze(-3)
            mask = key_mask if mask is None else mask & key_mask
    if is_causal is False:
        return Visible(mask)
    require(is_causal is True, f"is_causal must be True or False, got {describe(is_causal)}")
    if n < m:
        raise ValueError(
            f"key must have at least as many positions as query where is_causal ({m}: the queries "
            f"are the last of them), got {n}"
        )
    return Visible(mask, None if m == n == 1 else ALL_BEFORE)


def check_reading(
    query: Tensor,
    leading: torch.Size,
    n: int,
    mask: Tensor | None,
    key_mask: Tensor | None,
    is_causal: bool,
    num_heads: int,
) -> Visible:
    """What queries ``(…, m, d)`` see in heads of a source of n positions, or a ``ValueError``."""
    if n < 1:
        raise ValueError(f"key must have at least one position, got {n}: an empty source")
    batch = query.shape[:-2]
    if batch != leading:
        try:
            batch = torch.broadcast_shapes(batch, leading)
        except RuntimeError:
            raise ValueError(
                "query and key must have leading dimensions that broadcast, got "
                f"{tuple(query.shape[:-2])} and {tuple(leading)}"
            ) from None
    visible = check_visible(mask, key_mask, is_causal, batch, query.shape[-2], n, num_heads)
    return visible.for_heads(len(batch))
