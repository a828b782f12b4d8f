"""A grading process that is used for one notebook after the other, and replaced when a notebook ends or blocks it."""
from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
from pathlib import Path

from . import autograde
from .nbgrader_course import environment


class Grader:
    """One process of autograde.py. Starting it takes seconds, so it lives on between notebooks; close it after the last."""

    def __init__(self):
        self._process = None

    def grade(self, folder: Path, section: str, student: str, cell: int, startup: int, limit: int) -> str:
        """Grade the notebook in `folder`/submitted/`student`/`section`. Returns "" or why it has no marks.

        cell, startup, limit: seconds for a cell, for the start of the kernel, and in all.
        """
        request = {"env": environment(folder), "job": [str(folder), section, student, cell, startup]}
        used = self._process is not None
        said = self._ask(request, limit)
        if said is None and used:  # what an earlier notebook left behind may have ended it: once more, in a new one
            said = self._ask(request, limit)
        return "the notebook ended the process that graded it" if said is None else said

    def _ask(self, request, limit):
        """The answer to one request, or None if the process has ended."""
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, "-P", autograde.__file__],
                env=request["env"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                text=True,
                encoding="utf-8",
            )
        process, late = self._process, threading.Event()
        timer = threading.Timer(limit, lambda: (late.set(), _kill(process)))
        timer.start()
        try:
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
            said = json.loads(process.stdout.readline())["failed"]
        except (OSError, ValueError):  # a broken pipe, or an answer that ends early
            said = None
        timer.cancel()
        timer.join()
        if late.is_set() or said is None:
            self.close(wait=0)
        return f"the notebook ran longer than {limit} s in all and was stopped" if late.is_set() else said

    def close(self, wait: float = 10):
        """End the process, if there is one, after at most `wait` seconds."""
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(OSError):
            process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(wait)
        _kill(process)
        process.wait()
        process.stdout.close()


def _kill(process):
    """End the process and its kernel, which runs in a session of its own."""
    import psutil

    with contextlib.suppress(psutil.NoSuchProcess):
        for member in psutil.Process(process.pid).children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                member.kill()
    process.kill()
