"""A small fast memory beside a large slow one, with counters for what moves between them.

A model of a GPU in NumPy: arithmetic happens in a small memory on the chip (SRAM), arrays lie in a
large one beside it (HBM), and the traffic between the two decides how long a kernel takes that does
little arithmetic for each number.

Source: Aggarwal and Vitter 1988 (the model); Dao et al. 2022, section 2.1 and appendix C.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from attnbook.validate import check_choice, check_integer, require

__all__ = ["FastMemory", "Tile", "check_tables", "cut", "tile_sizes"]

# What each pass holds at its fullest, as numbers in terms of the large side B, the small side b and
# the width d: tiles, products before they are added, and a few numbers per row.
_HELD = {
    "queries": lambda B, b, d: B * (3 * d + b + 6) + 2 * b * d,  # q, o, P v; k, v; P
    "keys": lambda B, b, d: 2 * B * d + b * (3 * d + B + 6),  # k, v; q, o, P v; P
    "backward": lambda B, b, d: B * (5 * d + 2 * b) + b * (4 * d + 4),  # k, v, dk, dv; q, do, dq
    "product": lambda B, b, d: B * (2 * d + b) + b * d,  # of a stripe, or into one
}


class FastMemory:
    """Room for ``size`` numbers, in which all arithmetic happens.

    NumPy arrays are the slow memory. :meth:`load` copies a part of one into a :class:`Tile`, and
    whatever is computed from tiles is a tile again, so that intermediate results take room, too.

    Args:
        size: M, how many numbers fit.

    Attributes:
        reads: numbers copied from the slow memory so far.
        writes: numbers copied back.
        operations: additions, multiplications, exponentials, comparisons so far.
        used, peak: numbers held now, and at most so far.
        visited: ``(rows, columns)`` of the tiles of the score matrix, in the order of the visits;
            kept by those who call :meth:`visit`.

    Raises:
        ValueError: if ``size`` is no whole number of at least 1.
        MemoryError: by whatever makes a tile that does not fit.
    """

    def __init__(self, size: int) -> None:
        self.size = check_integer("size", size)
        self.reads = self.writes = self.operations = self.used = self.peak = 0
        self.visited: list[tuple[slice, slice]] = []

    @property
    def traffic(self) -> int:
        """Numbers moved in either direction."""
        return self.reads + self.writes

    def load(self, array: np.ndarray) -> Tile:
        """Copy a part of the slow memory into the fast one."""
        self.reads += array.size
        return Tile(self, array.copy())

    def full(self, shape: tuple[int, ...], value: float) -> Tile:
        """A tile of one value, which need not be read from anywhere."""
        return Tile(self, np.full(shape, value))

    def store(self, tile: Tile, target: np.ndarray) -> None:
        """Copy a tile to its place in the slow memory."""
        require(
            tile.shape == target.shape,
            f"tile must have the shape of its target, {target.shape}, got {tile.shape}",
        )
        self.writes += tile.array.size
        target[...] = tile.array

    def visit(self, rows: slice, columns: slice) -> None:
        """Note that a tile of the score matrix is computed."""
        self.visited.append((rows, columns))

    def take(self, count: int) -> None:
        """Make room for ``count`` numbers more, or raise a ``MemoryError``."""
        if self.used + count > self.size:
            raise MemoryError(
                f"{count} numbers do not fit: {self.used} of the {self.size} of the fast memory "
                "are in use"
            )
        self.used += count
        self.peak = max(self.peak, self.used)

    def give_back(self, count: int) -> None:
        """Free the room of ``count`` numbers."""
        self.used -= count


class Tile(NDArrayOperatorsMixin):
    """An array in a :class:`FastMemory`: NumPy's operators work on it and give tiles. Its room is
    free again when nothing refers to it any more.
    """

    def __init__(self, memory: FastMemory, array: np.ndarray, owner: Tile | None = None) -> None:
        self.memory, self.array, self._owner, self._taken = memory, array, owner, 0
        if owner is None:  # a view needs no room of its own
            memory.take(array.size)
            self._taken = array.size

    def __del__(self) -> None:
        self.memory.give_back(self._taken)

    @property
    def shape(self) -> tuple[int, ...]:
        """As that of an array."""
        return self.array.shape

    @property
    def T(self) -> Tile:  # noqa: N802 (NumPy's name)
        """The same numbers, transposed, in the same place."""
        return Tile(self.memory, self.array.T, self)

    def max(self, axis: int = -1, keepdims: bool = True) -> Tile:
        """The largest number of each row, ``(rows, 1)``."""
        return np.maximum.reduce(self, axis=axis, keepdims=keepdims)  # type: ignore[return-value]

    def sum(self, axis: int = -1, keepdims: bool = True) -> Tile:
        """The sum of each row, ``(rows, 1)``."""
        return np.add.reduce(self, axis=axis, keepdims=keepdims)  # type: ignore[return-value]

    def hide(self, hidden: np.ndarray) -> None:
        """Put −∞ where ``hidden`` is true; a kernel decides that from indices, without a table."""
        self.array[hidden] = -np.inf

    def __array_ufunc__(self, ufunc, method, *inputs, out=None, **options):
        arrays = [x.array if isinstance(x, Tile) else x for x in inputs]
        if any(isinstance(x, np.ndarray) and x.ndim for x in inputs):
            raise TypeError("an array of the slow memory must be loaded before it is used")
        if out is not None:
            options["out"] = tuple(x.array for x in out)
        result = getattr(ufunc, method)(*arrays, **options)
        made = out[0] if out is not None else Tile(self.memory, np.asarray(result))
        if ufunc is np.matmul:
            self.memory.operations += 2 * result.size * arrays[0].shape[-1]
        else:
            self.memory.operations += arrays[0].size if method == "reduce" else result.size
        return made


def tile_sizes(size: int, d: int, kind: str) -> tuple[int, int]:
    """Rows of the large and of the small tiles, so that a pass fits a fast memory of ``size``.

    The small ones have at most d rows, the large ones all that fits: about M / 4d.

    Args:
        size: M, numbers of the fast memory.
        d: width of queries, keys and values.
        kind: "queries" or "keys" (which of them the forward pass holds), "backward" (which holds
            keys), "product" (of the standard way).
    """
    held = _HELD[check_choice("kind", kind, _HELD)]
    small = max(1, min(d, size // (16 * d)))
    fixed = held(0, small, d)
    large = (size - fixed) // (held(1, small, d) - fixed)
    require(large >= 1, f"size must be at least {held(1, small, d)} for width {d}, got {size}")
    return large, small


def cut(n: int, size: int) -> Iterator[slice]:
    """The ranges of ``size`` of 0 … n − 1; the last may be shorter."""
    for start in range(0, n, size):
        yield slice(start, min(start + size, n))


def check_tables(*tables: np.ndarray) -> tuple[int, int]:
    """Return N and d of arrays that all have the shape ``(N, d)``, or raise a ``ValueError``."""
    shapes = [np.shape(table) for table in tables]
    require(
        len(shapes[0]) == 2 and all(shape == shapes[0] for shape in shapes),
        f"Q, K and V (and O, dO) must be arrays of one shape (N, d), got {shapes}",
    )
    return shapes[0]
