"""Attention to a window of 2D + 1 positions: only the keys inside it are read."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ...kernels.precision import wide_dtype, without_autocast
from ...kernels.visible import zero_nonfinite
from ...validate import (
    check_dtypes,
    check_integer,
    check_number,
    check_tensor,
    check_value,
    check_whole,
    describe,
    is_readable,
    is_transforming,
    require,
)
from ..attention.masks import check_visible, masks_by_name, softmax_over_allowed
from ..attention.soft_attention import Attended
from ..scores.base import Score, check_score

__all__ = ["PredictedPosition", "WindowedSource", "attend_window", "monotonic_position"]
__all__ += ["window_index"]


def window_index(position: Tensor, half_width: int) -> Tensor:
    """The 2D + 1 source positions around each centre; those outside the source are in it too.

    ``index[…, k] = ⌊p + ½⌋ − D + k`` for k = 0 … 2D, D = ``half_width``, positions counted from 0.

    The paper writes the window as [p − D, p + D] and gives it 2D + 1 positions. For a real p that
    interval holds only 2D of them, so the centre is rounded, a half upwards.

    Args:
        position: p ``(…, m)``, real or whole.
        half_width: D, at least 1.

    Returns:
        int64 ``(…, m, 2D + 1)``. Some may lie outside the source.

    Source: Luong, Pham and Manning 2015, section 3.2.
    """
    check_integer("half_width", half_width)
    require(
        isinstance(position, Tensor)
        and position.dim() >= 1
        and position.dtype != torch.bool
        and not position.is_complex(),
        f"position must be a tensor (…, m) of numbers, got {describe(position)}",
    )
    centre = position.detach()
    centre = (centre + 0.5).floor().long() if centre.is_floating_point() else centre.long()
    return centre.unsqueeze(-1) + torch.arange(-half_width, half_width + 1, device=position.device)


def monotonic_position(steps: Tensor, lengths: Tensor) -> Tensor:
    """The centre of the window of *local-m*: the source position with the number of the target's.

    ``p_t = min(t, S − 1)``, t counted from 0. The paper has p_t = t and says nothing of targets
    longer than their source; here the window then stays at the last position of the source, so that
    there is something in it.

    Args:
        steps: t, whole numbers ``(m,)`` or ``(…, m)``.
        lengths: S ``(…,)``, at least 1.

    Returns:
        int64 ``(…, m)``.

    Source: Luong, Pham and Manning 2015, section 3.2.
    """
    return torch.minimum(steps.long(), lengths.long().unsqueeze(-1) - 1)


class PredictedPosition(nn.Module):
    """The centre of the window of *local-p*: between 0 and S, predicted from the decoder state.

    ``p_t = S · sigmoid(v·tanh(W s_t))``, a real number: it moves the window by its rounded value
    and the Gaussian by itself, and gradient reaches v and W through the Gaussian alone. Computed in
    float32 or wider, under autocast and in a module of half precision too: in bfloat16 a position
    near 4,096 would be a multiple of 16.

    Args:
        d_query: width of the decoder states, and the number of rows of W.

    Shapes: query ``(…, m, d_query)``, lengths S ``(…,)`` → ``(…, m)``, in positions counted from 0.
    As in the paper p_t may come to lie up to one position after the last, S − 1.

    Source: Luong, Pham and Manning 2015, equation 9.
    """

    def __init__(self, d_query: int) -> None:
        super().__init__()
        self.query_width = check_integer("d_query", d_query)
        self.hidden = nn.Linear(d_query, d_query, bias=False)  # W
        self.vector = nn.Linear(d_query, 1, bias=False)  # v

    def forward(self, query: Tensor, lengths: Tensor) -> Tensor:
        check_tensor("query", query, width=self.query_width)
        check_whole("lengths", lengths)
        with without_autocast(query):
            wide = wide_dtype(self.hidden.weight)
            w, v = self.hidden.weight.to(wide), self.vector.weight.to(wide)
            share = F.linear(F.linear(query.to(wide), w).tanh(), v).squeeze(-1).sigmoid()  # (…, m)
            return share * lengths.unsqueeze(-1)


class WindowedSource:
    """A source of which any number of queries, at once or step by step, read a window each.

    Args, as in :func:`attnbook.attend`: score, ``key (…, n, d_k)``, ``value (…, n, d_v)`` (the keys
    when not given), ``mask``, ``key_mask``, ``projected_keys``. :meth:`attend` does one reading.

    The forward pass copies the windows. In the backward pass all readings add to one buffer of the
    size of the source; a decoder loop would else make such a buffer at each step. So a step costs
    the same for every length, both ways. Only under ``create_graph=True`` each reading makes a
    buffer of its own, through which the gradient can be differentiated again."""

    @masks_by_name("mask")
    def __init__(
        self,
        score: Score,
        key: Tensor,
        value: Tensor | None = None,
        *,
        mask: Tensor | None = None,
        key_mask: Tensor | None = None,
        projected_keys: Tensor | None = None,
    ) -> None:
        check_tensor("key", key, width=check_score(score).key_width)
        require(
            key.shape[-2] >= 1,
            f"key must have at least one position, got shape {tuple(key.shape)}: an empty source",
        )
        value = key if value is None else check_value(value, key)
        if projected_keys is not None:
            score.check_projected(key, projected_keys)
        rows = key if projected_keys is None else projected_keys
        rows, _, value, nonfinite = zero_nonfinite(
            rows, rows, value, score, projects_value=value is rows
        )
        self._nonfinite = None if nonfinite is None else nonfinite.source
        self.score, self.key, self.length = score, key, key.shape[-2]
        self.mask, self.key_mask = mask, key_mask
        self._values = _Rows(value)
        projected_keys = score.project_keys(rows) if projected_keys is None else rows
        self._projected = self._values if projected_keys is value else _Rows(projected_keys)

    def attend(
        self,
        query: Tensor,
        position: Tensor,
        half_width: int,
        *,
        sigma: float | None = None,
        need_weights: bool = True,
    ) -> Attended:
        """One reading, for queries ``(…, m, d_q)``; the rest as in :func:`attend_window`."""
        score, n = self.score, self.length
        score.check(query, self.key)
        index = window_index(position, half_width)  # (…, m, w), w = 2D + 1
        m = query.shape[-2]
        try:
            batch = torch.broadcast_shapes(
                query.shape[:-2], self.key.shape[:-2], self._values.batch
            )
            require(
                position.shape[-1] == m
                and torch.broadcast_shapes(batch, position.shape[:-1]) == batch,
                f"position must hold one number per query, (…, {m}), got shape "
                f"{tuple(position.shape)}",
            )
        except RuntimeError:
            raise ValueError(
                "query, key, value and position must have leading dimensions that broadcast, got "
                f"shapes {tuple(query.shape)}, {tuple(self.key.shape)}, "
                f"{tuple(self._values.shape)} and {tuple(position.shape)}"
            ) from None
        mask = check_visible(self.mask, self.key_mask, False, batch, m, n).mask
        check_dtypes(query, self._projected.flat, self._values.flat)
        if sigma is not None:
            check_number("sigma", sigma, above=0)
            require(
                position.is_floating_point(),
                f"position must be real where there is a Gaussian, got {position.dtype}",
            )
        index = index.expand(*batch, m, index.shape[-1])
        inside = (index >= 0) & (index < n)  # what crosses the ends is left out
        row = index.clamp(0, n - 1)
        allowed = inside
        if mask is not None:
            allowed = inside & mask.expand(*batch, m, n).gather(-1, row)
        query, _, _, nonfinite = zero_nonfinite(query, query, query, score)
        keys = self._projected.take(row)  # (…, m, w, width)
        values = keys if self._projected is self._values else self._values.take(row)
        # one query a window: (…, m, w)
        scores = score.compare(query.unsqueeze(-2), keys).squeeze(-2)
        weights = softmax_over_allowed(scores, allowed).to(values.dtype)
        # the offset in the dtype of the position: half precision cannot count to 4,096
        if sigma is not None:
            offset = index - position.unsqueeze(-1)
            weights = weights * torch.exp(offset.square() * (-0.5 / sigma**2)).to(weights.dtype)
        context = (weights.unsqueeze(-2) @ values).squeeze(-2)  # (…, m, d_v)
        met = None if nonfinite is None else nonfinite.query.unsqueeze(-1) & allowed
        if self._nonfinite is not None:
            there = self._nonfinite.unsqueeze(-2).expand(*batch, m, n).gather(-1, row) & allowed
            met = there if met is None else met | there
        if met is not None:
            met = met.any(-1, keepdim=True)
            context = context.masked_fill(met, math.nan)
            weights = weights.masked_fill(met & allowed, math.nan)
        if not need_weights:
            return Attended(context, None)
        # Places outside the source are clamped onto real ones, with weight 0: they have to be
        # added, not written.
        return Attended(context, weights.new_zeros(*batch, m, n).scatter_add(-1, row, weights))


@masks_by_name("mask")
def attend_window(
    score: Score,
    query: Tensor,
    key: Tensor,
    position: Tensor,
    half_width: int,
    value: Tensor | None = None,
    *,
    mask: Tensor | None = None,
    key_mask: Tensor | None = None,
    sigma: float | None = None,
    need_weights: bool = True,
) -> Attended:
    """Look up every query among the 2D + 1 keys around its position: *local* attention.

    ``α_t = softmax_j(score(query_t, key_j))`` over ``|j − ⌊p_t + ½⌋| ≤ D``, and 0 elsewhere; with
    ``sigma`` ``α_tj ← α_tj · exp(−(j − p_t)² / 2σ²)``; ``context_t = Σ_j α_tj value_j``

    Choices where the paper leaves one: positions count from 0; the softmax runs over the window;
    after the Gaussian the weights are not normalised again, so that they sum to less than 1; what
    of a window lies beyond the ends of the source is left out (as in the paper's footnote), and a
    window wholly outside gives zeros.

    Args:
        score: one of :data:`attnbook.SCORES`.
        query: ``(…, m, d_q)``.
        key: ``(…, n, d_k)`` with n ≥ 1.
        position: p ``(…, m)``, in source positions counted from 0; real where there is a Gaussian.
        half_width: D, at least 1.
        value: ``(…, n, d_v)``; the keys themselves when not given.
        mask, key_mask: as in :func:`attnbook.attend`.
        sigma: σ of the Gaussian, in positions; D / 2 in *local-p*; None for none, *local-m*.
        need_weights: whether to spread the weights over the n positions. Without them time and
            memory of the call do not depend on n, save for the projection of the keys, which a
            :class:`WindowedSource` makes once for any number of calls.

    Returns:
        :class:`Attended`: ``context (…, m, d_v)`` and ``weights (…, m, n)`` or None.

    Source: Luong, Pham and Manning 2015, section 3.2, equation 10.
    """
    if isinstance(position, Tensor) and is_readable(position):
        require(
            bool(position.isfinite().all()),
            "position must hold finite numbers, got infinite ones or NaN",
        )

    source = WindowedSource(score, key, value, mask=mask, key_mask=key_mask)
    return source.attend(query, position, half_width, sigma=sigma, need_weights=need_weights)


class _Rows:
    """Rows ``(…, n, d)`` to copy windows from, with one gradient buffer for all copies."""

    def __init__(self, source: Tensor) -> None:
        self.shape, self.batch = source.shape, source.shape[:-2]
        n, d = self.shape[-2:]
        flat, self._buffer = source.reshape(-1, d), None
        if flat.requires_grad and torch.is_grad_enabled() and not is_transforming():
            self._buffer = _Buffer()
            flat = _Open.apply(flat, self._buffer)
        self.flat = flat
        # row 0 of each source
        self._first = torch.arange(0, flat.shape[0], n, device=flat.device).view(*self.batch, 1, 1)

    def take(self, row: Tensor) -> Tensor:
        """``source[…, row, :]``: ``(…, m, w)`` → ``(…, m, w, d)``."""
        number = (self._first + row).flatten()
        if self._buffer is None:
            taken = self.flat.index_select(0, number)
        else:
            taken = _Take.apply(self.flat, number, self._buffer)
        return taken.view(*row.shape, self.shape[-1])


class _Buffer:
    """The sum of the gradients of all windows that were taken from one source."""

    def __init__(self) -> None:
        self.total = None


class _Open(torch.autograd.Function):
    """The identity. Its backward pass runs after those of all windows taken from it, and hands on
    what they added up in the buffer, and what came along the graph."""

    @staticmethod
    def forward(ctx, flat, buffer):
        ctx.set_materialize_grads(False)
        ctx.buffer = buffer
        return flat.view_as(flat)

    @staticmethod
    def backward(ctx, along):
        total, ctx.buffer.total = ctx.buffer.total, None
        if total is None or along is None:
            return along if total is None else total, None
        return total + along, None


class _Take(torch.autograd.Function):
    """Copy rows; their gradient is added to the buffer, unless it is to have one itself."""

    @staticmethod
    def forward(ctx, flat, number, buffer):
        ctx.buffer, ctx.shape = buffer, flat.shape
        ctx.save_for_backward(number)
        return flat.index_select(0, number)

    @staticmethod
    def backward(ctx, grad):
        (number,) = ctx.saved_tensors
        if torch.is_grad_enabled():  # create_graph=True: what is added in place has no history
            return grad.new_zeros(ctx.shape).index_add(0, number, grad), None, None
        if ctx.buffer.total is None:
            ctx.buffer.total = grad.new_zeros(ctx.shape)
        ctx.buffer.total.index_add_(0, number, grad)
        return None, None, None
