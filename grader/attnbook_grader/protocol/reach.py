"""Which of the book's own functions an answer enters while it is judged.

What an answer reaches cannot be read off its code: there are many ways to come by a function. So
every Python function that is entered during a call is looked at, by the file that it is written in.
"""

from __future__ import annotations

import _thread
import os
import sys
import threading
from importlib import import_module
from sys import gettrace, settrace

from attnbook_exercises.answers.guarded import guarded

__all__ = ["Reach"]

_HERE = os.path.realpath(guarded.__code__.co_filename)
_BESIDE = os.path.dirname(os.path.dirname(os.path.dirname(_HERE)))
_ROOTS = {os.path.join(_BESIDE, one, ""): one for one in ("attnbook", "attnbook_runs")}
_FREE = ("attnbook.notebook", "attnbook.checks", "attnbook.figures")
"""Parts of the library that are no solution of anything."""
_ESCAPES = (
    "os.exec",
    "os.fork",
    "os.forkpty",
    "os.posix_spawn",
    "os.system",
    "subprocess.Popen",
    "sys.setprofile",
    "sys.settrace",
    "_thread.start_new_thread",
)
"""Audited events by which code leaves the thread that is looked at, or stops the looking."""


class Reach:
    """Notes the first function of the library that a call enters from outside of it, or the first
    step out of sight.

    Use it as a context around each call; it adds up until `allow` begins anew.
    """

    def __init__(self):
        self.found, self._calls, self._free, self._places = "", 0, (), {}
        self._threads, self._own = _thread._count, _thread._count()
        sys.addaudithook(self._escapes)  # cannot be taken away again
        self._watch_threads()

    def allow(self, names: list[str]) -> None:
        """Begin anew, where these are allowed, too: modules, classes or functions, as the
        exercise's own cell imports them.
        """
        self.found, self._free = "", tuple(map(_defined, (*_FREE, *names)))

    def __enter__(self):
        if not self._calls:  # a check's own function may call the answer again
            settrace(self._look)
        self._calls += 1
        self._look_around()
        return self

    def __exit__(self, *error):
        self._look_around()
        self._calls -= 1
        if not self._calls:
            settrace(None)

    def _look_around(self):
        """Note that the looking was stopped, or that there is a thread that nobody looks at."""
        if not self.found and gettrace() != self._look:
            self.found = "sys.settrace"
        if not self.found and self._threads() > self._own + _progress_bars():
            self.found = "_thread.start_new_thread"

    def _watch_threads(self):
        """Note the threads that begin and end within a call, which Python 3.11 does not audit."""
        begin = _thread.start_new_thread

        def start_new_thread(*given, **named):
            self._escapes("_thread.start_new_thread", given)
            return begin(*given, **named)

        _thread.start_new_thread = _thread.start_new = start_new_thread
        threading._start_new_thread = start_new_thread  # type: ignore[attr-defined]

    def _escapes(self, event, arguments):
        if self._calls and not self.found and event in _ESCAPES:
            self.found = event

    def _look(self, frame, event, argument):
        name = self._place(frame.f_code)
        if name and not self.found and not _within(name, self._free):
            caller = frame.f_back
            while caller is not None and not self._place(caller.f_code):
                caller = caller.f_back
            if caller is None:
                self.found = name

    def _place(self, code):
        """The name of a function of the library or of a recorded run, with its module; "" of any
        other, and of what runs at an import.
        """
        if code not in self._places:
            path, name = os.path.realpath(code.co_filename), ""
            root = next(filter(path.startswith, _ROOTS), None)
            if root and code.co_qualname not in ("<module>", "__getattr__"):
                module = path[len(root) :].removesuffix(".py").removesuffix(f"{os.sep}__init__")
                name = f"{_ROOTS[root]}.{module.replace(os.sep, '.')}.{code.co_qualname}"
            self._places[code] = name
        return self._places[code]


def _progress_bars():
    """How many threads belong to tqdm: it has one of its own once a bar was drawn."""
    monitor = getattr(sys.modules.get("tqdm"), "TMonitor", ())
    return sum(isinstance(one, monitor) for one in threading.enumerate())


def _within(name, parents):
    return any(name == one or name.startswith(f"{one}.") for one in parents)


def _defined(name):
    """Where the thing of this name is defined: attnbook.mechanisms.attend may be that of a module
    in it.
    """
    module, _, last = name.rpartition(".")
    try:
        thing = getattr(import_module(module), last)
    except (ImportError, AttributeError, ValueError):
        return name
    if not hasattr(thing, "__qualname__"):
        return name
    return f"{thing.__module__}.{thing.__qualname__}"
