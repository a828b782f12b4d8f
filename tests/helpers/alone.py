"""The library in a Python that has what it depends on and nothing else.

Its packages are those of the environment of the tests; the others are hidden from the import
system, as if they were not installed.
"""

from __future__ import annotations

import json
import os
import re
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
    """The top-level modules of all packages but the dependencies of the library and theirs, as
    JSON.
    """
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
        left += [
            need
            for need in further
            if need.marker is None
            or any(need.marker.evaluate({"extra": extra}) for extra in ("", *one.extras))
        ]
    needed = {"attnbook", *(name for name, *_ in seen)}
    owners = {
        module: set(map(_normal, names))
        for module, names in metadata.packages_distributions().items()
    }
    return json.dumps(sorted(module for module, names in owners.items() if not names & needed))


def run(script: Path, library: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
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
