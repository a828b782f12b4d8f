"""Whole messages over two pipes.

A reader or a writer that has waited too long stops with OutOfTime.
"""

from __future__ import annotations

import os
import select
from collections.abc import Callable

LARGEST = 64 * 2**20
"""Bytes of one message: about 16 million float32."""


class Ended(ConnectionError):
    """The process at the other end is gone."""


class OutOfTime(TimeoutError):
    """The process at the other end did not answer in time."""


class TooLarge(ValueError):
    """A message of more than LARGEST bytes."""


class Channel:
    """Messages to the process at the other end of two pipes.

    read, write: file descriptors, of which this is now the owner
    left: asked again and again for the seconds until waiting ends; None waits for ever
    """

    def __init__(self, read: int, write: int):
        self.left: Callable[[], float] | None = None
        self._read: int | None = read
        self._write: int | None = write
        for descriptor in (read, write):
            os.set_blocking(descriptor, False)

    def may_send(self, size: int) -> None:
        """Raise TooLarge for a message of so many bytes."""
        if size > LARGEST:
            raise TooLarge(f"a message of {size:,} bytes; at most {LARGEST:,} are sent")

    def send(self, message: bytes) -> None:
        """Write one message. Raises TooLarge before anything is written, Ended, OutOfTime."""
        self.may_send(len(message))
        rest = memoryview(len(message).to_bytes(8, "little") + message)
        while rest:
            descriptor = self._wait(self._write, write=True)
            try:
                rest = rest[os.write(descriptor, rest[: 1 << 16]) :]
            except BlockingIOError:
                continue
            except OSError as error:
                raise Ended(str(error)) from None

    def receive(self) -> bytes:
        """Read one message. Raises TooLarge, Ended, OutOfTime."""
        size = int.from_bytes(self._exactly(8), "little")
        if size > LARGEST:
            raise TooLarge(f"a message of {size:,} bytes; at most {LARGEST:,} are read")
        return self._exactly(size)

    def close(self) -> None:
        """Close both pipes; a second time does nothing."""
        for descriptor in {self._read, self._write}:
            if descriptor is not None:
                os.close(descriptor)
        self._read = self._write = None

    def _exactly(self, size):
        parts = bytearray()
        while len(parts) < size:
            descriptor = self._wait(self._read, write=False)
            try:
                part = os.read(descriptor, min(size - len(parts), 1 << 20))
            except BlockingIOError:
                continue
            except OSError as error:
                raise Ended(str(error)) from None
            if not part:
                raise Ended("the pipe was closed")
            parts += part
        return bytes(parts)

    def _wait(self, descriptor: int | None, write: bool) -> int:
        """The descriptor, once it can be used."""
        if descriptor is None:
            raise Ended("the pipe was closed")
        poll = select.poll()
        poll.register(descriptor, select.POLLOUT if write else select.POLLIN)
        while self.left and (left := self.left()) > 0:
            if poll.poll(1000 * min(max(left, 0.01), 1)):
                return descriptor
        if self.left:
            raise OutOfTime("no answer in time")
        poll.poll()
        return descriptor
