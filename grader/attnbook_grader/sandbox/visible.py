"""What student code sees of this computer: Python, PyTorch, the library, the recorded runs, how an
answer is called (`attnbook_exercises.answers`), and of the grader only `attnbook_grader.protocol`.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import attnbook
import attnbook_exercises
import attnbook_runs

GRADER = Path(__file__).resolve().parents[1]
PACKAGES = tuple(
    Path(one.__path__[0]).resolve() for one in (attnbook, attnbook_exercises, attnbook_runs)
) + (GRADER,)
"""The folders of the packages that student code may import from, parts of them hidden."""
ROOTS = os.pathsep.join(map(str, dict.fromkeys(one.parent for one in PACKAGES)))
HOME = "/student"
FOLDERS = ("/dev/shm", "/tmp", HOME)  # that it may write to; their files lie in memory
INSIDE = ["-m", "attnbook_grader.protocol.child"]
SYSTEM = Path("/usr")  # read-only inside, whole
_CHECKS = {
    # a package in the place of the door: a version before this one
    "attnbook": ("checks.py", "checks"),
    "attnbook_exercises": ("checks",),
    "attnbook_runs": (),
}
_INSIDE_OF_GRADER = ("__init__.py", "protocol")  # the rest of the grader is hidden
_SILENT = GRADER / "protocol" / "silent"


def hidden(package):
    """What student code does not see of a package: the checks and the door to them, of the grader
    all but what the process in the sandbox runs, and all of the tool that builds the book.
    """
    if package.name in _CHECKS:
        return [package / one for one in _CHECKS[package.name] if (package / one).exists()]
    if package.name == "attnbook_grader":
        return [path for path in sorted(package.iterdir()) if path.name not in _INSIDE_OF_GRADER]
    return [package]


def stand_in(path):
    """What is mounted over a hidden folder or module."""
    return _SILENT if path.is_dir() else _SILENT / "__init__.py"


def copies():
    """The packages to hide parts of: those in use, and copies that are installed beside them,
    where Python in the sandbox may find them.
    """
    found = set(PACKAGES)
    for path in sys.path:
        root = Path(os.path.realpath(path or "."))
        if any(root.is_relative_to(one) for one in (SYSTEM, *python_folders())):
            names = (*_CHECKS, "attnbook_grader", "bookbuild")
            found |= {root / name for name in names if (root / name).is_dir()}
    return sorted(found)


def python_folders():
    """The folders that hold this Python and its packages, outermost first, without those under
    /usr.
    """
    wanted = {sys.base_prefix, sys.prefix, os.path.dirname(os.path.realpath(sys.executable))}
    wanted |= {path for path in sys.path if "site-packages" in path or "dist-packages" in path}
    found = []
    for path in sorted({Path(os.path.realpath(path)) for path in wanted} | {Path(sys.prefix)}):
        inside = [other for other in (SYSTEM, *found) if path.is_relative_to(other)]
        if path.is_dir() and not inside and path != Path("/"):
            found.append(path)
    return found


def variables(root, home):
    return {
        "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
        "HOME": home,
        "LANG": "C.UTF-8",
        "PYTHONPATH": str(root),
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
        "MPLBACKEND": "agg",
        "OMP_NUM_THREADS": "1",
        "TORCHDYNAMO_DISABLE": "1",  # torch.compile leaves a function as it is: no compiler
        "MKL_NUM_THREADS": "1",
        "CUDA_VISIBLE_DEVICES": "",
        "ATTNBOOK_PROGRESS": "0",
        "IPYTHONDIR": "/tmp/ipython",
    }
