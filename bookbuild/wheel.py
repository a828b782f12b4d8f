"""The library as a reader gets it: the wheel, built from the tree and unpacked, for the notebooks
to import from.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

FOLDERS = ("attnbook", "attnbook_exercises", "attnbook_runs", "data", "results")
FILES = ("pyproject.toml", "setup.py", "README.md", "LICENSE", "LICENSE-TEXT")
LEFT = shutil.ignore_patterns("__pycache__", ".*", "*.partial")


def unpacked(root: Path) -> Path:
    """The folder below `build/wheel` with the packages of the wheel of the tree as it is; built
    where it is not there yet. One process at a time.

    Raises RuntimeError with pip's words when the wheel cannot be built.
    """
    from filelock import FileLock

    shelf = root / "build" / "wheel"
    shelf.mkdir(parents=True, exist_ok=True)
    with FileLock(shelf / "lock"):
        target = shelf / _state(root)
        if not target.is_dir():
            for old in shelf.iterdir():
                if old.is_dir():
                    shutil.rmtree(old, ignore_errors=True)
            with tempfile.TemporaryDirectory(dir=shelf) as work:
                wheel = build(root, Path(work))
                zipfile.ZipFile(wheel).extractall(Path(work, "packages"))
                Path(work, "packages").rename(target)
        return target


def build(root: Path, work: Path) -> Path:
    """Build the wheel from a copy of the tree in `work`: what an earlier build left behind in the
    tree would get into it.
    """
    copy_sources(root, work / "tree")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps"]
    command += ["--no-build-isolation", "--no-index", "--wheel-dir", str(work), str(work / "tree")]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"the wheel cannot be built:\n{done.stdout}{done.stderr}")
    (wheel,) = work.glob("*.whl")
    return wheel


def copy_sources(root: Path, copy: Path) -> None:
    """Put what the wheel is made of into `copy`, an empty folder or none yet."""
    copy.mkdir(exist_ok=True)
    for name in FOLDERS:
        shutil.copytree(root / name, copy / name, ignore=LEFT)
    for name in FILES:
        shutil.copy(root / name, copy / name)


def _state(root: Path) -> str:
    """A name that changes with every file that goes into the wheel."""
    files = [root / name for name in FILES]
    files += [p for f in FOLDERS for p in (root / f).rglob("*") if "__pycache__" not in p.parts]
    rows = []
    for path in sorted(p for p in files if p.is_file()):
        about = path.stat()
        rows.append(f"{path.relative_to(root)} {about.st_size} {about.st_mtime_ns}")
    return hashlib.sha256("\n".join(rows).encode()).hexdigest()[:16]
