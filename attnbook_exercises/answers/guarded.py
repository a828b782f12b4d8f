"""One seeded, quiet call of a student's function, with its errors in words.

The reader's notebook and the grader's sandbox share it, so that both give the same messages.
"""

from __future__ import annotations

import contextlib
import linecache
import os
import signal
import sys
import sysconfig
import threading
import warnings

import numpy as np
import torch

__all__ = ["StudentError", "describe", "guarded", "time_limit"]

_BESIDE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
_LIBRARIES = tuple(
    os.path.realpath(folder) + os.sep
    for folder in {
        os.path.dirname(os.path.dirname(torch.__file__)),
        os.path.dirname(os.path.dirname(np.__file__)),
        sysconfig.get_paths()["stdlib"],
        sysconfig.get_paths()["purelib"],
        *(os.path.join(_BESIDE, f"attnbook{one}") for one in ("", "_exercises", "_runs")),
    }
)


class StudentError(Exception):
    """The reader's code raised an error; `unwritten` is true when it is the stub's
    NotImplementedError.
    """

    def __init__(self, message, unwritten=False):
        super().__init__(message)
        self.unwritten = unwritten


def guarded(function, arguments, keywords=None, *, seed=0, passing=(), then=None):
    """The result of `function(*arguments, **keywords)`.

    Standard error is redirected to standard output: nbgrader takes a warning for a failed cell.

    Args:
        seed: of the random numbers that the function draws.
        passing: exceptions of the check, which are raised unchanged.
        then: called with the result, gradients enabled.

    Raises:
        StudentError: the function raised an error; the message names the error and the line. Or
            it set the seed of PyTorch, and with it that of its caller.
    """
    try:
        with (
            contextlib.redirect_stderr(sys.stdout),
            warnings.catch_warnings(),
            torch.random.fork_rng(devices=[]),
            torch.enable_grad(),
        ):
            warnings.simplefilter("ignore")
            torch.default_generator.manual_seed(seed)  # leaves a GPU alone, without a wait
            result = function(*arguments, **(keywords or {}))
            if torch.initial_seed() != seed:
                raise StudentError(
                    "a call of torch.manual_seed, which changes what the whole notebook draws: "
                    "draw from a torch.Generator of your own"
                )
            if then is not None:
                then(result)
            return result
    except (*passing, StudentError):
        raise
    except NotImplementedError as error:
        raise StudentError(describe(error), unwritten=not str(error)) from None
    except (Exception, SystemExit, GeneratorExit) as error:
        # not KeyboardInterrupt: that is the time limit
        raise StudentError(describe(error)) from None


class _TooLong(BaseException):
    """The time limit; no `except Exception` of an answer takes it."""


@contextlib.contextmanager
def time_limit(seconds):
    """Stop what runs inside after so many seconds, with a StudentError that names the line.

    There is no limit for None, where the system has no alarm, and outside of the main thread.
    """
    main = threading.current_thread() is threading.main_thread()
    if seconds is None or not main or not hasattr(signal, "SIGALRM"):
        yield
        return

    def stop(signum, frame):
        raise _TooLong(f"still running after {seconds:g} seconds")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    except _TooLong as error:
        raise StudentError(describe(error).replace("_TooLong", "TimeoutError", 1)) from None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def describe(error: BaseException) -> str:
    """The error and the reader's line that raised it, without the file name, which changes from run
    to run in notebooks.
    """
    try:
        text = next(iter(str(error).strip().splitlines()), "")
    except Exception:  # the error class is a student's and may have no text
        text = ""
    text = text if len(text) <= 160 else text[:157] + "..."
    message = f"{type(error).__name__}: {text}" if text else type(error).__name__
    where, frame = "", error.__traceback__
    while frame is not None:
        path, module = frame.tb_frame.f_code.co_filename, frame.tb_frame.f_globals.get("__name__")
        if not (
            os.path.realpath(path).startswith(_LIBRARIES)
            or path.startswith("<frozen")
            or str(module).startswith("attnbook_grader.")
        ):
            line = linecache.getline(path, frame.tb_lineno, frame.tb_frame.f_globals).strip()
            where = f"; line {frame.tb_lineno}" + (f": {line}" if line else "")
        frame = frame.tb_next
    if not where and isinstance(error, TypeError) and "argument" in text:
        where = ". Does your function take the arguments of the stub?"
    return message + where
