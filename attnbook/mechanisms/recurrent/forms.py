"""The gated recurrence of linear attention in its forms: a state a step, chunks, and a matrix.

``S_t = diag(α_t) S_{t−1} + k_t u_tᵀ``,  ``o_t = S_tᵀ q_t``, with ``u_t = v_t``, or under the delta
rule ``u_t = β_t (v_t − (diag(α_t) S_{t−1})ᵀ k_t)``.

Everything here is for arguments that are checked, in one dtype, with zeros where padding is: keys,
values and β of zero write nothing, a decay of one forgets nothing.
"""

from __future__ import annotations

import torch
from torch.nn import functional as F

__all__ = ["by_chunks", "by_steps", "decayed_products"]


def by_steps(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    decay: torch.Tensor | None,
    strength: torch.Tensor | None,
    state: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The recurrence as it is written, position after position: the context ``(…, n, d_v)`` and the
    last state ``(…, d_k, d_v)``.

    Shapes: query, key ``(…, n, d_k)``, value ``(…, n, d_v)``, decay ``(…, n, 1)`` or
    ``(…, n, d_k)`` or None for ones, strength β ``(…, n, 1)`` or None for no delta rule.
    """
    context = []
    for t in range(key.shape[-2]):
        k = key[..., t, :, None]  # (…, d_k, 1)
        added = value[..., t, None, :]  # (…, 1, d_v)
        if decay is not None:
            state = state * decay[..., t, :, None]
        if strength is not None:
            added = strength[..., t, :, None] * (added - k.mT @ state)
        state = state + k * added
        context.append(query[..., t, None, :] @ state)
    return torch.cat(context, dim=-2), state


def by_chunks(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    decay: torch.Tensor | None,
    strength: torch.Tensor | None,
    state: torch.Tensor,
    length: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The same in chunks of that length: matrix products inside of a chunk, for all chunks at once,
    and a loop over the chunks for the state alone. One chunk is the parallel form.

    Inside of a chunk that begins at state S, with ``b_i = Π_{l≤i} α_l``, ``e_j = Π_{l>j} α_l``,
    ``A = decayed_products(q, k)`` and ``L = diag(β) strictly_lower(decayed_products(k, k))``:

    ``o = (q ⊙ b) S + A u``,  ``S' = diag(b_C) S + (k ⊙ e)ᵀ u``,
    ``u = v`` or ``u = (I + L)⁻¹ diag(β) (v − (k ⊙ b) S)``, the WY form of the delta rule.
    """
    n, length = key.shape[-2], min(length, key.shape[-2])
    width = 1 << (length - 1).bit_length() if decay is not None else length  # of the padded chunk
    query, key, value = (_cut(t, length, width) for t in (query, key, value))
    strength = None if strength is None else _cut(strength, length, width)
    decay = None if decay is None else _cut(decay, length, width, 1.0)

    products, entering, leaving, whole = decayed_products(query, key, decay)
    carry = None if whole is None else whole.unsqueeze(-1)  # (…, chunks, 1 or d_k, 1)
    update = None  # u = value − update S
    if strength is not None:
        among, reading, _, _ = decayed_products(key, key, decay)
        # the product with the key itself is on the diagonal, which the solver takes for ones
        rows = (*state.shape[:-2], *value.shape[-3:-1], -1)
        right = strength * torch.cat([value.expand(rows), reading.expand(rows)], -1)
        solved = torch.linalg.solve_triangular(
            strength * among, right, upper=False, unitriangular=True
        )
        value, update = solved.split([value.shape[-1], key.shape[-1]], -1)
        kept = torch.eye(key.shape[-1], dtype=key.dtype, device=key.device)
        carry = (kept if carry is None else kept * carry) - leaving.mT @ update
    added = leaving.mT @ value

    before = []
    steps = (None,) * added.shape[-3] if carry is None else carry.unbind(-3)
    for moved, new in zip(steps, added.unbind(-3), strict=True):
        before.append(state)
        if moved is not None:
            state = moved * state if update is None else moved @ state
        state = state + new
    states = torch.stack(before, dim=-3)  # (…, chunks, d_k, d_v)
    if update is not None:
        value = value - update @ states
    context = (entering @ states + products @ value)[..., :length, :].flatten(-3, -2)
    return context[..., :n, :], state


def decayed_products(
    query: torch.Tensor, key: torch.Tensor, decay: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor | None]:
    """Products of queries with the keys up to their position, less what was forgotten on the way.

    ``A_ij = Σ_c q_ic k_jc Π_{j<l≤i} α_lc`` for j ≤ i, and 0 for j > i

    Quotients of products, ``(q ⊙ b)(k / b)ᵀ``, would overflow where the decay is strong. Here no
    number is ever divided: neighbouring blocks are merged, two of length 1 to one of length 2, and
    so on. A block knows its queries times the decay since its beginning and its keys times the
    decay up to its end; queries of the right block meet keys of the left one in one product.
    Factors are at most 1, and what underflows is forgotten.

    Args:
        query, key: ``(…, n, d_k)``.
        decay: α in [0, 1], ``(…, n, 1)`` for all features or ``(…, n, d_k)``, n a power of 2; or
            None for ones.

    Returns:
        A ``(…, n, n)``; ``q_i Π_{l≤i} α_l``; ``k_j Π_{l>j} α_l``; ``Π_l α_l``, or None.
    """
    if decay is None:
        return (query @ key.mT).tril(), query, key, None
    if decay.shape[-1] == 1 < key.shape[-1]:  # the decay comes out of the sum
        one = torch.ones_like(decay)
        factor, since, until, whole = decayed_products(one, one, decay)
        return query @ key.mT * factor, query * since, key * until, whole
    # Blocks of one position: (…, n, 1, d_k)
    query, key, total = (t.unsqueeze(-2) for t in torch.broadcast_tensors(query, key, decay))
    products = (query * key).sum(-1, keepdim=True)
    query = query * total
    while products.shape[-3] > 1:
        # (…, blocks / 2, 2, s, …): the left and the right one of each pair
        query, key, total, products = (
            t.unflatten(-3, (-1, 2)) for t in (query, key, total, products)
        )
        first, second = products.unbind(-3)
        between = query[..., 1, :, :] @ key[..., 0, :, :].mT
        upper = torch.cat([first, torch.zeros_like(first)], -1)
        products = torch.cat([upper, torch.cat([between, second], -1)], -2)
        left, right = total.unbind(-3)
        one = torch.ones_like(left)
        query = (query * torch.stack([one, left], -3)).flatten(-3, -2)
        key = (key * torch.stack([right, one], -3)).flatten(-3, -2)
        total = left * right
    return products[..., 0, :, :], query[..., 0, :, :], key[..., 0, :, :], total[..., 0, 0, :]


def _cut(rows: torch.Tensor, length: int, width: int, fill: float = 0.0) -> torch.Tensor:
    """``(…, n, d)`` → ``(…, chunks, width, d)``: chunks of that length, filled up to the width."""
    n = rows.shape[-2]
    chunks = -(-n // length)
    if chunks * length > n:
        rows = F.pad(rows, (0, 0, 0, chunks * length - n), value=fill)
    rows = rows.unflatten(-2, (chunks, length))
    return F.pad(rows, (0, 0, 0, width - length), value=fill) if width > length else rows
