"""The batches of a PyTorch `DataLoader`, asked for by their step."""

from collections.abc import Iterator, Sequence
from typing import Any

from torch import Tensor
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

from attnbook.tasks.endless_batches import text_generator

from ...validate import require
from .temporary_state import temporary_seed

__all__ = ["LoaderBatches", "unknown_order"]

_SEEDED = (SequentialSampler, RandomSampler, SubsetRandomSampler, WeightedRandomSampler)
_END = object()


def unknown_order(loader: DataLoader) -> str | None:
    """What decides the order of the batches beside the seed, in words; None where nothing does."""
    if isinstance(loader.dataset, IterableDataset):
        return f"the IterableDataset {type(loader.dataset).__name__}"
    sampler = _sampler(loader)
    if type(sampler) in _SEEDED or isinstance(sampler, Sequence):
        return None
    return f"the sampler {type(sampler).__name__}"


def _sampler(loader: DataLoader) -> Any:
    """What gives the indices of the examples, or, of a class of the caller's, of whole batches."""
    sampler = loader.sampler if loader.batch_sampler is None else loader.batch_sampler
    return sampler.sampler if type(sampler) is BatchSampler else sampler


class LoaderBatches:
    """The epochs of a loader one after the other, as ``batch(step)``.

    The generators of the loader go on from epoch to epoch, as in a plain loop over it, and have
    their first state again after :meth:`close`. What is drawn from the global generators while a
    batch is made, such as the order of a loader without a generator, depends on the seed and the
    step alone. An epoch is always read from its first batch on, so that workers draw the same, too.

    Args:
        loader: whatever yields nests of tensors with the rows first.
        seed: of what is drawn from the global generators.
    """

    def __init__(self, loader: DataLoader, seed: int) -> None:
        self._loader, self._seed = loader, seed
        owners = (loader, _sampler(loader))
        found = [getattr(owner, "generator", None) for owner in owners]
        self._generators = list({id(one): one for one in found if one is not None}.values())
        self._initial = self._states = self._get_states()
        self._go_to(0, self._initial)

    def batch(self, step: int) -> Any:
        """The batch of a step, counted over all epochs, reached through those before it."""
        if step < self._step:
            self._go_to(0, self._initial)
        while self._step < step:
            self._advance()
        return self._batch

    def state_dict(self) -> dict[str, Any]:
        """Where the epoch of the last batch began."""
        return {"first": self._first, "generators": self._states}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go to the beginning of that epoch."""
        self._go_to(state["first"], state["generators"])

    def close(self) -> None:
        """End the workers, and put the generators of the loader back to their first state."""
        self._go_to(0, self._initial)

    def _go_to(self, first: int, states: list[Tensor]) -> None:
        """To before the batch of step ``first``, the first of an epoch."""
        self._iterator: Iterator = iter(())  # nothing holds the workers now
        self._first, self._step, self._batch = first, first - 1, None
        for generator, state in zip(self._generators, states, strict=True):
            generator.set_state(state)

    def _advance(self) -> None:
        step = self._step + 1
        with temporary_seed(text_generator(self._seed, step).getrandbits(63)):
            batch = next(self._iterator, _END)
            if batch is _END:
                self._first, self._states = step, self._get_states()
                self._iterator = iter(self._loader)
                batch = next(self._iterator, _END)
        require(
            batch is not _END,
            "batches must hold a batch in every epoch, got a DataLoader with none "
            + ("(drop_last leaves out one that is not full)" if step == 0 else f"at step {step}"),
        )
        self._step, self._batch = step, batch

    def _get_states(self) -> list[Tensor]:
        return [generator.get_state() for generator in self._generators]
