"""The process in the sandbox: runs the cells of a notebook and calls its functions when the grader
asks.

Started as `python -m attnbook_grader.protocol.child LIMITS`, LIMITS as JSON. Standard input and
output are the pipes to the grader; the student's code sees an empty input and writes to standard
error, where the grader counts."""

from __future__ import annotations

import json
import os
import sys
from importlib import import_module
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from types import ModuleType

import torch

from attnbook_exercises.answers.guarded import describe, guarded

from .channel import Channel, Ended
from .rpc import Peer

MISSING = "missing"


def main(limits: dict) -> None:
    """Serve one notebook. limits: {"memory": bytes, "file": bytes, "processes": number or None}."""
    read, write = os.dup(0), os.dup(1)
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.dup2(2, 1)
    _restrict(limits)
    torch.set_num_threads(1)
    cells = Cells()
    answer = {
        "cell": cells.run,
        "take": cells.take,
        "forget": lambda head: peer.forget(),
        "hello": lambda head: True,
    }
    peer = Peer(Channel(read, write), guarded, answer, watch=True)
    try:
        peer.serve_for_ever()
    except (Ended, MemoryError, ValueError):
        os._exit(1)


class Cells:
    """The cells of one notebook, run in IPython without a kernel: `%matplotlib inline` and
    `display` work, `!` does nothing.
    """

    def __init__(self):
        from IPython.core.interactiveshell import InteractiveShell

        self.shell = shell = InteractiveShell.instance(
            colors="NoColor", **{"history_length": 0, "history_load_length": 0}
        )
        if shell.history_manager is not None:
            shell.history_manager.enabled = False
        silent = dict.fromkeys(("system", "system_raw", "system_piped"), lambda command: None)
        for name, function in {**silent, "getoutput": lambda *command, **options: []}.items():
            setattr(shell, name, function)
        setattr(shell, "ask_exit", sys.exit)  # noqa: B010  # what quit() calls: ends the cell alone
        for name in ("pip", "conda", "mamba", "micromamba", "uv"):
            shell.magics_manager.register_function(lambda line: None, "line", name)
        sys.meta_path.append(_Colab())  # last: other packages may lie in `google`
        if "matplotlib" not in sys.modules:
            # the backend is agg; loading it takes a second
            shell.enable_matplotlib = lambda gui=None: (gui, "agg")

    def run(self, head) -> str | None:
        """Run the cell head["source"]; returns the error in words, or None."""
        result = self.shell.run_cell(str(head["source"]), store_history=False, silent=True)
        error = result.error_before_exec or result.error_in_exec
        if error is None:
            return None
        if isinstance(error, SyntaxError):
            line = (error.text or "").strip()
            where = f"line {error.lineno}: {line}" if line else f"line {error.lineno}"
            return f"{type(error).__name__}: {error.msg}; {where}"
        return describe(error)

    def take(self, head):
        """What the name head["name"] stands for now; MISSING if for nothing."""
        return self.shell.user_ns.get(str(head["name"]), MISSING)


class _Silent(ModuleType):
    """A module of functions that do nothing: files.upload() has uploaded nothing,
    userdata.get("KEY") is empty.
    """

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        if f"{self.__name__}.{name}" in _Colab.NAMES:
            return import_module(f"{self.__name__}.{name}")
        return lambda *given, **named: {} if name == "upload" else "" if name == "get" else None


class _Colab(Loader):
    """Finds stand-ins for what only Colab has: drive.mount("/content/drive") is nothing here, but
    the rest of its cell matters.

    Only when it is imported: "google.colab" in sys.modules is how a notebook asks whether it runs
    there.
    """

    PARTS = ("auth", "data_table", "drive", "files", "output", "patches", "userdata", "widgets")
    NAMES = {"google", "google.colab", *(f"google.colab.{name}" for name in PARTS)}

    def find_spec(self, name, path=None, target=None):
        return ModuleSpec(name, self, is_package=True) if name in self.NAMES else None

    def create_module(self, spec):
        return ModuleType(spec.name) if spec.name == "google" else _Silent(spec.name)

    def exec_module(self, module):
        pass


def _restrict(limits):
    """Limits that hold for every process from here on.

    Without a sandbox around it, this is all that there is.
    """
    import resource  # not on Windows: attnbook_grader.sandbox.launch.require_unix

    ask = {
        resource.RLIMIT_DATA: limits.get("memory"),
        resource.RLIMIT_FSIZE: limits.get("file"),
        resource.RLIMIT_NPROC: limits.get("processes"),
        resource.RLIMIT_NOFILE: 256,
        resource.RLIMIT_CORE: 0,
    }
    for kind, bound in ask.items():
        if bound is not None:
            most = resource.getrlimit(kind)[1]
            bound = bound if most == resource.RLIM_INFINITY else min(bound, most)
            resource.setrlimit(kind, (bound, bound))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
