"""Endless batches as a pure function of a step: what every training loop of the book reads.

The protocol is one method, ``batch(step)``, for the steps 0, 1, 2, …. Its result depends on the
step, the seed and the constructor's arguments alone, never on earlier calls: a run that is stopped
and resumed sees the same batches, and two models can be trained on the same data. Everywhere
``batch_size`` is the number of examples in a batch, ``count`` of those drawn, and ``seed`` the seed
of all that is drawn by chance.
"""

import functools
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Generic, ParamSpec, TypeVar

import torch

from ..modules import map_tensors
from ..validate import check_integer, check_seed

P = ParamSpec("P")
T = TypeVar("T")


@contextmanager
def usual_defaults() -> Iterator[None]:
    """New tensors are on the CPU and real ones float32 inside the block."""
    dtype = torch.get_default_dtype()
    torch.set_default_dtype(torch.float32)
    try:
        with torch.device("cpu"):
            yield
    finally:
        torch.set_default_dtype(dtype)


def drawn(function: Callable[P, T]) -> Callable[P, T]:
    """Draw on the CPU in float32 whatever the defaults; real results get the default dtype."""

    @functools.wraps(function)
    def draw(*args: P.args, **kwargs: P.kwargs) -> T:
        dtype = torch.get_default_dtype()
        if dtype == torch.float32 and torch.get_default_device().type == "cpu":
            return function(*args, **kwargs)
        with usual_defaults():
            result = function(*args, **kwargs)
        return map_tensors(lambda x: x.to(dtype) if x.dtype == torch.float32 else x, result)

    return draw


def torch_generator(seed: int, step: int, device: torch.device | str = "cpu") -> torch.Generator:
    """The random numbers of a step: seeds differ by more steps than a run takes."""
    return torch.Generator(device).manual_seed(1_000_003 * check_seed(seed) + step)


def text_generator(seed: int, step: int) -> random.Random:
    """The same for generators of text. A string seed is hashed with SHA-512, on every platform."""
    return random.Random(f"{seed}/{step}")


class GeneratedBatches(Generic[T]):
    """New examples at every step; one is drawn at once, so that a wrong argument shows early.

    Args:
        draw: ``draw(batch_size, generator)`` makes one batch from random numbers.
        generator: ``generator(seed, step)`` makes the random numbers of a step.
    """

    def __init__(
        self,
        draw: Callable[[int, Any], T],
        batch_size: int,
        seed: int = 0,
        generator: Callable[[int, int], Any] = torch_generator,
    ) -> None:
        self.batch_size, self.seed = check_integer("batch_size", batch_size), seed
        self._draw, self._generator = drawn(draw), generator
        self._draw(1, generator(seed, 0))

    def batch(self, step: int) -> T:
        """The batch of a step, counted from 0."""
        check_integer("step", step, 0)
        return self._draw(self.batch_size, self._generator(self.seed, step))


class EpochBatches(Generic[T]):
    """A fixed number of examples over and over; each epoch shows every one once, in a new order.

    ``len`` is the number of batches per epoch. The last one is smaller where the batch size does
    not divide the number of examples.

    Args:
        collate: ``collate(indices)`` makes one batch of the examples with these indices.
        length: ``length(index)``, a key to sort by, puts examples of like length into one batch
            (less padding); None: batches are mixed.
        stretch: how many batches of the shuffled examples are sorted together; None: all.
        shuffle_batches: whether the batches of an epoch are shuffled once they are cut.
    """

    def __init__(
        self,
        collate: Callable[[list[int]], T],
        count: int,
        batch_size: int,
        seed: int = 0,
        *,
        length: Callable[[int], Any] | None = None,
        stretch: int | None = None,
        shuffle_batches: bool = False,
    ) -> None:
        self.batch_size, self.seed = check_integer("batch_size", batch_size), seed
        self._collate, self._length = drawn(collate), length
        self._count = check_integer("count", count)
        self._stretch = count if stretch is None else stretch * batch_size
        self._shuffle_batches = shuffle_batches
        self._epoch: tuple[int, list[list[int]]] | None = None

    def __len__(self) -> int:
        return -(-self._count // self.batch_size)

    def batch(self, step: int) -> T:
        """The batch of a step, counted from 0 over all epochs."""
        return self._collate(self.indices(step))

    def indices(self, step: int) -> list[int]:
        """Which examples make the batch of a step."""
        epoch, position = divmod(check_integer("step", step, 0), len(self))
        if self._epoch is None or self._epoch[0] != epoch:  # a cache of the last epoch
            self._epoch = epoch, self._order(epoch)
        return self._epoch[1][position]

    def _order(self, epoch: int) -> list[list[int]]:
        generator = text_generator(self.seed, epoch)
        order = list(range(self._count))
        generator.shuffle(order)
        if self._length is not None:
            stretches = (sorted(part, key=self._length) for part in _cut(order, self._stretch))
            order = [index for part in stretches for index in part]
        batches = _cut(order, self.batch_size)
        if self._shuffle_batches:
            generator.shuffle(batches)
        return batches


def _cut(order: Sequence[int], size: int) -> list[list[int]]:
    return [list(order[start : start + size]) for start in range(0, len(order), size)]
