"""The workers of a Dask scheduler, for recorded runs and for grading."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .extras import extra

if TYPE_CHECKING:
    from distributed import Client

__all__ = ["connect"]

_TIMEOUT = 30  # seconds


def connect(address: str) -> Client:
    """A client of the scheduler at an address such as tcp://127.0.0.1:8786.

    Raises:
        ImportError: without Dask.
        ValueError: when no scheduler answers there.
    """
    with extra("cluster", "a Dask scheduler"):
        from distributed import Client
    try:
        return Client(address, timeout=_TIMEOUT)
    except (OSError, ValueError) as error:
        raise ValueError(f"scheduler: no Dask scheduler answers at {address!r} ({error})") from None
