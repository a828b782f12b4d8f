"""A sliding window: attention to the last positions and to a few first ones, with a cache that
keeps only those.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from ...kernels.visible import Visible
from ...validate import check_integer, check_last, is_readable, require
from ..scores.base import Score
from .key_value import ProjectedSource, positions_of

__all__ = ["NearSinks", "RollingSource", "SlidingWindow", "sliding_window_mask"]


def sliding_window_mask(
    m: int,
    n: int | None = None,
    *,
    window: int,
    sinks: int = 0,
    device: torch.device | str | None = None,
) -> Tensor:
    """Let query t attend to itself and the window − 1 positions before it, and to the first
    ``sinks`` positions of the text as well.

    ``mask[t, j] = j ≤ i and (i − j < window or j < sinks)`` with ``i = t + (n − m)``: with more
    keys than queries the queries are the last m positions, as in
    :func:`~attnbook.mechanisms.attention.masks.causal_mask`.

    Through L layers a position learns of those up to L·(window − 1) before it.

    Args:
        m: number of queries.
        n: number of keys, at least m; ``m`` when not given.
        window: at least 1, the position itself.
        sinks: first positions that stay visible; 4 in the paper that names them.
        device: where the mask lies.

    Returns:
        Boolean ``(m, n)``.

    Source: Beltagy et al. 2020, section 3.1, for a decoder; Jiang et al. 2023 (Mistral 7B), section
    2; the sinks, Xiao et al. 2024, section 3.2.
    """
    check_integer("m", m)
    n = m if n is None else check_integer("n", n)
    check_last(m, n)
    check_integer("window", window)
    check_integer("sinks", sinks, 0)
    key = torch.arange(n, device=device)
    return _visible(key[n - m :], key, window, sinks)


def _visible(query: Tensor, key: Tensor, window: int, sinks: int) -> Tensor:
    """Who sees whom, by the positions in the text of queries ``(…, m)`` and keys ``(…, n)``."""
    distance = query.unsqueeze(-1) - key.unsqueeze(-2)
    return (distance >= 0) & ((distance < window) | (key < sinks).unsqueeze(-2))


def _joined(visible: Visible, seen: Tensor, m: int, n: int) -> Visible:
    """What is visible, in heads, of what a window lets be seen, ``(m, n)`` or ``(batch, m, n)``."""
    if seen.dim() == 3:  # texts differ
        seen = seen.unsqueeze(-3)
    mask = visible.matrix(m, n, seen.device)
    return Visible(seen if mask is None else mask & seen)


class SlidingWindow(nn.Module):
    """What of a text a position of a :class:`~attnbook.MultiHeadAttention` sees: itself, the
    ``size − 1`` positions before it, and the first ``sinks``.

    It makes the band of a mask, and the cache that keeps no more. Through L layers
    L·(size − 1) positions are reached.

    Args:
        size: at least 1, the position itself.
        sinks: so many first positions stay visible and cached, for a text that goes on without end.
            Rotary positions are then those in the cache: a query is never further from the sinks
            than sinks + size − 1, as far as it was in the training, while keys in the window keep
            their distance. (Without sinks both are those in the text, as nothing is far.) Where a
            query has come further, a score that is no inner product stores the m×n weights.

    Source: Jiang et al. 2023 (Mistral 7B); sinks, Xiao et al. 2024, section 3.2.
    """

    def __init__(self, size: int, sinks: int = 0) -> None:
        super().__init__()
        self.size, self.sinks = check_integer("size", size), check_integer("sinks", sinks, 0)

    def extra_repr(self) -> str:
        return f"{self.size}, sinks={self.sinks}"

    @property
    def last(self) -> int:
        """The place of the last position in a full cache; from further on no query meets the
        sinks.
        """
        return self.sinks + self.size - 1

    def visible(self, query: Tensor, key: Tensor) -> Tensor:
        """Who sees whom, by the positions in the text of queries ``(…, m)`` and keys ``(…, n)``."""
        return _visible(query, key, self.size, self.sinks)

    def with_near(
        self, turned: Tensor, heads: Tensor, position: int | Tensor, rotary: nn.Module
    ) -> Tensor:
        """Queries ``(…, h, m, d_head)`` that were turned by their positions; where some have gone
        further than the sinks can be, after each what it is for the sinks,
        ``(…, h, m, 2·d_head)``.
        """
        if self.sinks == 0:
            return turned
        rows = positions_of(position, heads)
        if not isinstance(rows, Tensor):
            if rows + heads.shape[-2] - 1 <= self.last:
                return turned
            rows = rows + torch.arange(heads.shape[-2], device=heads.device)
        return torch.cat([turned, rotary(heads, rows.clamp(max=self.last))], dim=-1)

    def near_sinks(
        self, score: Score, source: RollingSource, query: Tensor, keys: Tensor, need_weights: bool
    ) -> tuple[Score, Tensor, bool]:
        """The score of what :meth:`with_near` gives, its keys, and whether weights are stored."""
        far, _ = query.chunk(2, dim=-1)
        if need_weights or far.shape[-2] == 1 or score.fast_path("inner_product")(far) is None:
            return NearSinks(score, source), keys, True
        sink = (source.position < self.sinks).unsqueeze(-1)  # (n, 1) or (batch, n, 1)
        sink = sink if sink.dim() == 2 else sink.unsqueeze(1)
        keys = torch.cat([keys.where(~sink, 0.0), keys.where(sink, 0.0)], dim=-1)
        return _NearProduct(score), keys, False

    def check_rolling(self, source: object) -> None:
        """Raise ``ValueError`` unless ``source`` is a :class:`RollingSource`."""
        if not isinstance(source, RollingSource):
            raise ValueError(
                f"projected must be a RollingSource for an attention with a window, as `project` "
                f"makes it, got {type(source).__name__}"
            )

    def band(
        self, visible: Visible, query: Tensor, n: int, position: int | Tensor, own: bool
    ) -> Visible:
        """What queries ``(…, m, d)`` that begin at ``position``, one number or one for each row of
        the batch, see of n keys: these begin there too if they are the queries' ``own``, else at 0.
        """
        m, start = query.shape[-2], position if own else 0
        if self.sinks == 0 and own:  # only how far apart they are counts
            return Visible(visible.mask, self.size)
        if not isinstance(position, Tensor) and not isinstance(start, Tensor):
            if own or position + m == n:  # the queries are the last of the keys
                return Visible(visible.mask, self.size, max(0, self.sinks - start))
        rows = position.to(query.device)[:, None] if isinstance(position, Tensor) else position
        at = torch.arange(m, device=query.device) + rows
        keys = at if own else torch.arange(n, device=query.device)
        return _joined(visible, self.visible(at, keys), m, n)

    def roll(self, source: ProjectedSource, position: int | Tensor) -> RollingSource:
        """The cache of a source that was projected, the first of its positions standing at
        ``position``.
        """
        made, n = RollingSource(*source), source.key.shape[-2]
        made.window, made.total, made.fresh = self, n, n
        made.index = torch.arange(n, device=source.key.device)
        if isinstance(position, Tensor):
            made.position, made.end = position.to(made.index.device)[:, None] + made.index, None
            made.head = n
        else:
            made.position, made.end = position + made.index, position + n
            made.head = min(self.sinks, n)
        return made


class RollingSource(ProjectedSource):
    """The cache of a layer with a window: what no later position can see is dropped when it grows.

    After a step it holds ``sinks + window`` positions, however long the text is. In a batch of
    texts whose beginnings were padded it holds as many more as the longest padding, since the
    padding stands between the tokens. A mask is over all positions so far, those dropped included.

    Attributes:
        position: of each key in its text, ``(n,)``, or ``(batch, n)`` where texts differ.
        index: of each key among all positions so far, ``(n,)``.
        total: the number of all positions so far.
        end: the position in the text after the last, None where texts differ.
        head: so many of the keys hold all sinks.
        fresh: so many of the last positions can be cut off.
        padding: the longest of a text, None where that is not known yet.
    """

    window: SlidingWindow
    position: Tensor
    index: Tensor
    total: int
    end: int | None
    head: int
    fresh: int
    padding: int | None = None

    def map_rows(self, function: Callable[[Tensor], Tensor]) -> RollingSource:
        """The cache of other texts: ``function`` chooses, repeats or reorders rows of a batch."""
        scored = None if self.scored is None else function(self.scored)
        nonfinite = None if self.nonfinite is None else function(self.nonfinite)
        made = RollingSource(function(self.key), function(self.value), scored, nonfinite)
        vars(made).update(vars(self))
        if self.position.dim() == 2:
            made.position = function(self.position)
        return made

    @property
    def length(self) -> int:
        """The number of positions that a mask covers: all so far."""
        return self.total

    def extend(self, more: ProjectedSource) -> RollingSource:
        if not isinstance(more, RollingSource):
            raise ValueError(f"more must be a RollingSource, got {type(more).__name__}")
        require(
            self.end is None or more.end is None or self.end + more.total == more.end,
            f"position must go on after the cache, at {self.end}, got "
            f"{None if more.end is None else more.end - more.total}",
        )
        # How far the tokens of a text stand after their positions in it: the padding so far.
        padding = 0
        if more.end is None:
            first = more.position[:, 0]
            padding = self.padding if self.padding is not None else self.total
            waits = first.is_cuda and self.padding is None and not torch.compiler.is_compiling()
            if is_readable(first) or waits:  # a GPU is waited for once a text
                padding = self.total - int(first.min())
        head = min(self.window.sinks + padding if self.window.sinks else 0, self.key.shape[-2])
        kept = self.key.shape[-2] - head  # after the sinks, of those so far
        tail = min(self.window.size - 1 + padding, kept)

        def rolled(old: Tensor, new: Tensor, dim: int) -> Tensor:
            if tail == kept:
                return torch.cat([old, new], dim)
            parts = [old.narrow(dim, 0, head), old.narrow(dim, head + kept - tail, tail), new]
            return torch.cat(parts, dim)

        mine, theirs = self.position, more.position
        if mine.dim() < theirs.dim():  # texts differ from here on
            mine = mine.expand(len(theirs), -1)
        elif theirs.dim() < mine.dim():
            theirs = theirs.expand(len(mine), -1)
        scored = None
        if self.scored is not None and more.scored is not None:
            scored = rolled(self.scored, more.scored, -2)
        nonfinite = None
        if self.nonfinite is not None or more.nonfinite is not None:
            nonfinite = rolled(self.nonfinite_rows(), more.nonfinite_rows(), -1)
        made = RollingSource(
            rolled(self.key, more.key, -2), rolled(self.value, more.value, -2), scored, nonfinite
        )
        made.window = self.window
        # A sink may have come with the new positions.
        made.head = min(self.window.sinks + padding if self.window.sinks else 0, made.key.shape[-2])
        made.position = rolled(mine, theirs, -1)
        made.index = rolled(self.index, self.total + more.index, -1)
        made.total, made.end, made.fresh = self.total + more.total, more.end, more.total
        if more.end is None and not torch.compiler.is_compiling():
            made.padding = padding
        return made

    def cut(self, number: int) -> RollingSource:
        """The source without its last ``number`` positions, of those that the last
        :meth:`extend` brought: what stood before these may be dropped.
        """
        check_integer("number", number, 0, self.fresh)
        kept = self.key.shape[-2] - number
        scored = None if self.scored is None else self.scored[..., :kept, :]
        nonfinite = None if self.nonfinite is None else self.nonfinite[..., :kept]
        made = RollingSource(self.key[..., :kept, :], self.value[..., :kept, :], scored, nonfinite)
        made.window, made.head = self.window, min(self.head, kept)
        made.position, made.index = self.position[..., :kept], self.index[:kept]
        made.total, made.fresh = self.total - number, self.fresh - number
        made.padding = self.padding
        made.end = None if self.end is None else self.end - number
        return made

    def with_nonfinite(self, nonfinite: Tensor) -> RollingSource:
        made = RollingSource(*self[:3], nonfinite)
        vars(made).update(vars(self))
        return made

    def check_end(self, position: int | Tensor, m: int) -> None:
        """Raise ``ValueError`` unless m queries from ``position`` on are the last of the text."""
        if self.end is not None and not isinstance(position, Tensor):
            require(
                position + m == self.end,
                f"position must be {self.end - m}, as {m} queries read a window that ends before "
                f"position {self.end}, got {position!r}",
            )

    def visible(self, visible: Visible, m: int) -> Visible:
        """What the last m positions see of the n that are kept: those in the window, and of them
        those that are ``visible`` of all positions so far.
        """
        kept, mask = self.key.shape[-2], visible.mask
        if mask is not None and mask.shape[-1] > 1 and kept < self.total:
            mask = mask.index_select(-1, self.index)
        if m == 1 and self.end is not None and kept <= self.window.last + 1:
            return Visible(mask)  # nothing else was kept
        if self.end is not None and (self.window.sinks == 0 or self.end == self.total):
            return Visible(mask, self.window.size, self.window.sinks)
        seen = self.window.visible(self.position[..., -m:], self.position)
        return _joined(Visible(mask), seen, m, kept)


class NearSinks(Score):
    """A score whose queries meet the sinks from another position than the other keys.

    A query is ``[q; q']``, turned by its position and by the one at which it stands seen from the
    sinks.

    Args:
        score: the score of either.
        source: the keys.
    """

    def __init__(self, score: Score, source: RollingSource) -> None:
        super().__init__()
        self.score, self.head = score, source.head
        sink = (source.position < source.window.sinks)[..., : self.head]  # (head,) or (batch, head)
        self.sink = sink if sink.dim() == 1 else sink[:, None, None]

    def compare(self, query: Tensor, projected: Tensor) -> Tensor:
        far, near = query.chunk(2, dim=-1)
        scores = self.score.compare(far, projected)
        first = self.score.compare(near, projected[..., : self.head, :])
        first = torch.where(self.sink, first, scores[..., : self.head])
        return torch.cat([first, scores[..., self.head :]], dim=-1)


class _NearProduct(Score):
    """The same for a score that is an inner product: a key is ``[k; 0]``, a sink ``[0; k]``."""

    def __init__(self, score: Score) -> None:
        super().__init__()
        self.score = score

    def inner_product(self, query: Tensor) -> tuple[Tensor, float]:
        (far, scale), (near, _) = map(self.score.fast_path("inner_product"), query.chunk(2, dim=-1))
        return torch.cat([far, near], dim=-1), scale
