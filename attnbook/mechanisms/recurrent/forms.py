"""The gated recurrence of linear attention in its forms: a state a step, chunks, and a matrix.

``S_t = diag(α_t) S_{t−1} + k_t u_tᵀ``,  ``o_t = S_tᵀ q_t``, with ``u_t = v_t``, or under the delta
rule ``u_t = β_t (v_t − (diag(α_t) S_{t−1})ᵀ k_t)``.

Everything here is for arguments that are checked, in one dtype, with zeros where padding is: keys,
values and β of zero write nothing, a decay of one forgets nothing.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

__all__ = ["by_chunks", "by_steps", "decayed_products"]


def by_steps(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    decay: Tensor | None,
    strength: Tensor | None,
    state: Tensor,
) -> tuple[Tensor, Tensor]:
    """The recurrence as written: context ``(…, n, d_v)``, last state ``(…, d_k, d_v)``.

    Shapes: query, key ``(…, n, d_k)``, value ``(…, n, d_v)``, decay ``(…, n, 1)`` or
    ``(…, n, d_k)`` or None for ones, strength β ``(…, n, 1)`` or None for no delta rule.
    """
    queries, keys, values = (t.unbind(-2) for t in (query, key, value))
    decays = None if decay is None else decay.unbind(-2)
    strengths = None if strength is None else strength.unbind(-2)
    context = []
    for t in range(key.shape[-2]):
        k, added = keys[t].unsqueeze(-1), values[t].unsqueeze(-2)  # (…, d_k, 1), (…, 1, d_v)
        if decays is not None:
            state = state * decays[t].unsqueeze(-1)
        if strengths is not None:
            added = strengths[t].unsqueeze(-1) * (added - k.mT @ state)
        state = state + k * added
        context.append(queries[t].unsqueeze(-2) @ state)
    return torch.cat(context, dim=-2), state


def by_chunks(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    decay: Tensor | None,
    strength: Tensor | None,
    state: Tensor,
    length: int,
) -> tuple[Tensor, Tensor]:
    """The same in chunks of that length: matrix products inside of a chunk, for all chunks at once,
    and a loop over the chunks for the state alone. One chunk is the parallel form.

    Inside of a chunk that begins at state S, with ``b_i = Π_{l≤i} α_l``, ``e_j = Π_{l>j} α_l``,
    ``A = decayed_products(k, α, q)`` and ``L = diag(β) strictly_lower(decayed_products(k, α, k))``:

    ``o = (q ⊙ b) S + A u``,  ``S' = diag(b_C) S + (k ⊙ e)ᵀ u``,
    ``u = v`` or ``u = (I + L)⁻¹ diag(β) (v − (k ⊙ b) S)``, the WY form of the delta rule.
    """
    n, length = key.shape[-2], min(length, key.shape[-2])
    width = 1 << (length - 1).bit_length() if decay is not None else length  # of the padded chunk
    query, key, value = (_cut(t, length, width) for t in (query, key, value))
    strength = None if strength is None else _cut(strength, length, width)
    decay = None if decay is None else _cut(decay, length, width, 1.0)

    # under the delta rule keys are read, too
    queries = (query,) if strength is None else (query, key)
    (products, *among), (entering, *reading), leaving, whole = decayed_products(
        key, decay, *queries
    )
    chunks = value.shape[-3]
    carried = (None,) * chunks if whole is None else whole.unsqueeze(-1).unbind(-3)
    before = []
    if strength is None:
        for kept, new in zip(carried, (leaving.mT @ value).unbind(-3), strict=True):
            before.append(state)
            state = (state if kept is None else kept * state) + new
    else:
        rows = (*state.shape[:-2], *value.shape[-3:-1], -1)
        right = strength * torch.cat([value.expand(rows), reading[0].expand(rows)], -1)
        # Xᵀ (I + L)ᵀ = Bᵀ takes half the time of (I + L) X = B, whose rows LAPACK has to copy. The
        # product of a key with itself is on the diagonal, which the solver takes for ones.
        solved = torch.linalg.solve_triangular(
            (strength * among[0]).mT, right.mT, upper=True, left=False, unitriangular=True
        ).mT
        added, erased = solved.split([value.shape[-1], key.shape[-1]], -1)  # u = added − erased S
        steps = (t.unbind(-3) for t in (added, erased, leaving.mT))
        written = []
        for kept, new, old, keys in zip(carried, *steps, strict=True):
            before.append(state)
            written.append(new - old @ state)
            state = (state if kept is None else kept * state) + keys @ written[-1]
        value = torch.stack(written, dim=-3)
    states = torch.stack(before, dim=-3)  # (…, chunks, d_k, d_v)
    context = (entering @ states + products @ value)[..., :length, :].flatten(-3, -2)
    return context[..., :n, :], state


def decayed_products(
    key: Tensor, decay: Tensor | None, *queries: Tensor
) -> tuple[list[Tensor], list[Tensor], Tensor, Tensor | None]:
    """Products of queries with the keys up to their position, less what was forgotten on the way.

    ``A_ij = Σ_c q_ic k_jc Π_{j<l≤i} α_lc`` for j ≤ i, and 0 for j > i

    Quotients of products, ``(q ⊙ b)(k / b)ᵀ``, would overflow where the decay is strong. Here no
    number is ever divided: neighbouring blocks are merged, two of length 1 to one of length 2, and
    so on. A block knows its queries times the decay since its beginning and its keys times the
    decay up to its end; queries of the right block meet keys of the left one in one product.
    Factors are at most 1, and what underflows is forgotten.

    Args:
        key: ``(…, n, d_k)``.
        decay: α in [0, 1], ``(…, n, 1)`` or ``(…, n, d_k)``, n a power of 2; or None for ones.
        queries: each ``(…, n, d_k)``.

    Returns:
        For each of the queries A ``(…, n, n)``, and ``q_i Π_{l≤i} α_l``; ``k_j Π_{l>j} α_l``;
        ``Π_l α_l``, or None.
    """
    if decay is None:
        return [(query @ key.mT).tril() for query in queries], list(queries), key, None
    if decay.shape[-1] == 1 < key.shape[-1]:  # the decay comes out of the sum
        one = torch.ones_like(decay)
        (factor,), (since,), until, whole = decayed_products(one, decay, one)
        among = [query @ key.mT * factor for query in queries]
        return among, [query * since for query in queries], key * until, whole
    # Blocks of one position: (…, n, 1, d_k)
    key, total, *rest = (t.unsqueeze(-2) for t in torch.broadcast_tensors(key, decay, *queries))
    products = [(query * key).sum(-1, keepdim=True) for query in rest]
    entering = [query * total for query in rest]
    while key.shape[-3] > 1:
        # (…, blocks / 2, 2, s, …): the left and the right one of each pair
        key, (left, right) = _pairs(key), _pairs(total).unbind(-3)
        entering = [_pairs(query) for query in entering]
        products = [
            _joined(_pairs(product), query[..., 1, :, :] @ key[..., 0, :, :].mT)
            for product, query in zip(products, entering, strict=True)
        ]
        one = torch.ones_like(left)
        since, until = torch.stack([one, left], -3), torch.stack([right, one], -3)
        entering = [(query * since).flatten(-3, -2) for query in entering]
        key, total = (key * until).flatten(-3, -2), left * right
    products, entering = ([t[..., 0, :, :] for t in ts] for ts in (products, entering))
    return products, entering, key[..., 0, :, :], total[..., 0, 0, :]


def _pairs(blocks: Tensor) -> Tensor:
    """``(…, blocks, s, d)`` → ``(…, blocks / 2, 2, s, d)``."""
    return blocks.unflatten(-3, (-1, 2))


def _joined(pairs: Tensor, between: Tensor) -> Tensor:
    """Two lower triangles ``(…, 2, s, s)`` and what lies between them ``(…, s, s)`` as one."""
    first, second = pairs.unbind(-3)
    upper = torch.cat([first, torch.zeros_like(first)], -1)
    return torch.cat([upper, torch.cat([between, second], -1)], -2)


def _cut(rows: Tensor, length: int, width: int, fill: float = 0.0) -> Tensor:
    """``(…, n, d)`` → ``(…, chunks, width, d)``: chunks of that length, filled up to the width."""
    n = rows.shape[-2]
    chunks = -(-n // length)
    if chunks * length > n:
        rows = F.pad(rows, (0, 0, 0, chunks * length - n), value=fill)
    rows = rows.unflatten(-2, (chunks, length))
    return F.pad(rows, (0, 0, 0, width - length), value=fill) if width > length else rows
