"""What one notebook may use."""

from __future__ import annotations

from dataclasses import dataclass, fields

__all__ = ["Limits", "NoSandbox"]

PATIENCE = 4


class NoSandbox(RuntimeError):
    """There is nothing here that untrusted code could be run in."""


@dataclass(frozen=True)
class Limits:
    """What one notebook may use.

    seconds: for one cell, and for one check of one exercise: of processors, in the sandbox and in
    the grader; by the clock PATIENCE times as many, for others may be at work on the machine (in a
    container, and without a sandbox: by the clock)
    startup: seconds for Python and PyTorch to start
    notebook: seconds in all, counted in the same way
    memory: MB of all its processes and files together
    processes: how many at a time
    output: MB of text
    disk: MB of files, in all folders that it may write to together
    """

    seconds: float = 15
    startup: float = 120
    notebook: float = 300
    memory: int = 2048
    processes: int = 16
    output: int = 10
    disk: int = 64

    def __post_init__(self):
        for one in fields(self):
            value = getattr(self, one.name)
            if not 0 < value <= 10**6:
                raise ValueError(
                    f"{one.name}: got {value!r}, expected a number above 0, at most 1,000,000"
                )
            if one.type == "int" and not isinstance(value, int):
                raise ValueError(f"{one.name}: got {value!r}, expected a whole number")
