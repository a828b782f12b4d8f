"""A cache in pages: the keys and values of many texts in one pool, as a computer keeps the memory
of many programs.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ...validate import check_integer, require
from .key_value import ProjectedSource

__all__ = ["PagedCache", "PagedSource"]


class PagedCache:
    """A pool of pages, each for the keys and values of ``page_size`` positions in all heads.

    A text has a table of its pages, in any order of the pool, so that no memory is kept for what it
    may still become: at most ``page_size − 1`` positions of a text stay unused. Texts with a common
    beginning share its pages; a page counts the texts that read it, and one that several read is
    copied before one of them writes to it.

    Args:
        num_pages: pages of the pool.
        page_size: positions of a page.
        num_heads: heads of keys and values.
        d_head, d_head_value: widths of keys and of values; the same when the second is not given.
        dtype, device: of the pool.

    Attributes:
        key: ``(num_pages, h, page_size, d_head)``; ``value`` ``(…, d_head_value)``.
        readers: how many texts read each page; 0 where it is free.

    Source: Kwon et al. 2023, section 4.
    """

    def __init__(
        self,
        num_pages: int,
        page_size: int,
        num_heads: int,
        d_head: int,
        *,
        d_head_value: int | None = None,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ) -> None:
        pages = check_integer("num_pages", num_pages), check_integer("num_heads", num_heads)
        self.page_size = check_integer("page_size", page_size)
        check_integer("d_head", d_head)
        d_value = check_integer("d_head_value", d_head if d_head_value is None else d_head_value)
        made = {"dtype": dtype, "device": device}
        self.key = torch.zeros(*pages, page_size, d_head, **made)
        self.value = torch.zeros(*pages, page_size, d_value, **made)
        self.readers = [0] * num_pages
        self._free = list(range(num_pages))[::-1]

    def open(self) -> PagedSource:
        """A text without any positions."""
        return PagedSource(self, [], 0)

    @property
    def pages_in_use(self) -> int:
        """Pages that some text reads."""
        return len(self.readers) - len(self._free)

    @property
    def bytes_in_use(self) -> int:
        """Memory of the pages that some text reads."""
        pool = self.key.nbytes + self.value.nbytes
        return pool // len(self.readers) * self.pages_in_use

    def take(self) -> int:
        """A free page, with one reader."""
        page = self._free.pop()
        self.readers[page] = 1
        return page

    def leave(self, page: int) -> None:
        """One reader less."""
        self.readers[page] -= 1
        if self.readers[page] == 0:
            self._free.append(page)

    def check_free(self, number: int) -> None:
        """Raise a ``RuntimeError`` unless so many pages are free."""
        if number > len(self._free):
            raise RuntimeError(
                f"the cache has {len(self._free)} free pages of {len(self.readers)}, and {number} "
                f"are needed: release a text, or make more pages"
            )


class PagedSource:
    """The keys and values of one text in a :class:`PagedCache`: a source that a layer reads, and
    the cache of a decoder, like :class:`~attnbook.ProjectedSource`; for decoding, so no gradients
    go through it.

    Unlike that one it is changed in place. :meth:`fork` makes a text that goes on otherwise.

    Attributes:
        table: its pages, first positions first.
        length: n, its number of positions.
        nonfinite: ``(1, n)`` or None, as of :class:`~attnbook.ProjectedSource`.
    """

    scored = None

    def __init__(
        self, cache: PagedCache, table: list[int], length: int, nonfinite: Tensor | None = None
    ) -> None:
        self.cache, self.table, self.length, self.nonfinite = cache, table, length, nonfinite

    @property
    def key(self) -> Tensor:
        """``(1, h, n, d_head)``, gathered from the pages; a kernel would read them in place."""
        return self._gather(self.cache.key)

    @property
    def value(self) -> Tensor:
        """``(1, h, n, d_head_value)``."""
        return self._gather(self.cache.value)

    def _gather(self, pool: Tensor) -> Tensor:
        return pool[self.table].transpose(0, 1).flatten(1, 2)[None, :, : self.length]

    @torch.no_grad()
    def extend(self, more: ProjectedSource) -> PagedSource:
        """Write further positions, ``more.key (1, h, m, d_head)``, at the end of the text.

        Raises:
            ValueError: for other shapes, and a score that makes something of its keys.
            RuntimeError: without enough free pages; nothing has been written then.
        """
        size, cache, m = self.cache.page_size, self.cache, more.key.shape[-2]
        for name, new, pool in (("key", more.key, cache.key), ("value", more.value, cache.value)):
            right = (1, pool.shape[1], m, pool.shape[3])
            require(
                new.shape == right and more.scored is None,
                f"more must have a {name} of shape {right} and no scored keys, got "
                f"{tuple(new.shape)}",
            )
        filled = self.length % size  # of the last page, unless that is full
        copies = m > 0 and filled > 0 and cache.readers[self.table[-1]] > 1
        cache.check_free(-(-(self.length + m) // size) - len(self.table) + copies)
        if copies:
            shared, self.table[-1] = self.table[-1], cache.take()
            for pool in (cache.key, cache.value):
                pool[self.table[-1]] = pool[shared]
            cache.leave(shared)
        for done in range(-filled, m, size):  # where the page begins, seen from the new positions
            if done >= 0:
                self.table.append(cache.take())
            first, last = max(done, 0), min(done + size, m)
            place = self.table[-1], slice(None), slice(first - done, last - done)
            cache.key[place] = more.key[0, :, first:last]
            cache.value[place] = more.value[0, :, first:last]
        if self.nonfinite is not None or more.nonfinite is not None:
            self.nonfinite = torch.cat([self.nonfinite_rows(), more.nonfinite_rows()], dim=-1)
        self.length += m
        return self

    def nonfinite_rows(self) -> Tensor:
        """:attr:`nonfinite`, written out."""
        if self.nonfinite is not None:
            return self.nonfinite
        return torch.zeros(1, self.length, dtype=torch.bool, device=self.cache.key.device)

    def fork(self) -> PagedSource:
        """Another text with the same positions so far, in the same pages."""
        for page in self.table:
            self.cache.readers[page] += 1
        return PagedSource(self.cache, list(self.table), self.length, self.nonfinite)

    def cut(self, number: int) -> PagedSource:
        """Take back the last ``number`` positions."""
        self.length -= check_integer("number", number, 0, self.length)
        if self.nonfinite is not None:
            self.nonfinite = self.nonfinite[:, : self.length]
        while self.length <= (len(self.table) - 1) * self.cache.page_size:
            self.cache.leave(self.table.pop())
        return self

    def release(self) -> None:
        """Give all pages back; the text is empty then."""
        self.cut(self.length)
