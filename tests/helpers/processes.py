"""Programs that tests start: of a distributed run, servers of their own, and the library in a
Python that has what it depends on and nothing else.

The packages of that Python are those of the environment of the tests; the others are hidden from
the import system, as if they were not installed.
"""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import tomllib
from functools import cache
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from patience import HANGS

ROOT = Path(__file__).resolve().parents[2]

_HIDE = """
import json, runpy, sys
from importlib.machinery import PathFinder

hidden = set(json.loads(sys.argv[1]))

class Some(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] in hidden else super().find_spec(name, path, target)

sys.meta_path[:] = [Some if finder is PathFinder else finder for finder in sys.meta_path]
sys.argv = sys.argv[2:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@cache
def hidden() -> str:
    """The top-level modules of all packages that the library does not depend on, as JSON."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    left, seen = [Requirement(line) for line in project["dependencies"]], set()
    while left:
        one = left.pop()
        key = _normal(one.name), *sorted(one.extras)
        if key in seen:
            continue
        seen.add(key)
        try:
            further = map(Requirement, metadata.requires(one.name) or [])
        except metadata.PackageNotFoundError:  # not for this platform
            continue
        extras = [{"extra": extra} for extra in ("", *one.extras)]
        left += [n for n in further if n.marker is None or any(map(n.marker.evaluate, extras))]
    needed = {"attnbook", *(name for name, *_ in seen)}
    owners = metadata.packages_distributions().items()
    return json.dumps(sorted(name for name, found in owners if not needed & {*map(_normal, found)}))


def run_alone(script: Path, library: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a script in the folder that holds it, with the library of the folder ``library``."""
    return subprocess.run(
        [sys.executable, "-c", _HIDE, hidden(), str(script), *arguments],
        cwd=script.parent,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=HANGS,
        env={**os.environ, "PYTHONPATH": str(library), "PYTHONIOENCODING": "utf-8"},
    )


def free_port() -> int:
    """A port of this computer that nobody listens at."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def launch(launcher: list[str], script: str, *arguments: str) -> None:
    """Run a script by `python -m LAUNCHER`, one thread a process, and wait for its end."""
    path = os.pathsep.join([os.getcwd(), *sys.path])
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", *launcher, script, *arguments]
    options = {"env": environment, "capture_output": True, "text": True, "timeout": HANGS}
    done = subprocess.run(command, **options)
    assert done.returncode == 0, done.stdout + done.stderr
