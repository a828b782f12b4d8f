"""The folders that an instructor hands out: notebooks without solutions, and what they run with."""

from __future__ import annotations

import os
import platform
import re
import shutil
import tempfile
from importlib import metadata
from pathlib import Path

__all__ = ["write_folder", "write_notebooks"]


def write_notebooks(folder: Path, made) -> None:
    """`folder`/student and `folder`/instructor of a course, with the packages that judge."""
    import nbformat

    for name in ("student", "instructor"):
        (folder / name).mkdir()
    (folder / "student" / "environment.txt").write_text(_environment(), encoding="utf-8")
    for one in made.assignments:
        nbformat.write(one.notebook(), folder / "instructor" / f"{one.name}.ipynb")
        nbformat.write(one.released(), folder / "student" / f"{one.name}.ipynb")


def _environment() -> str:
    """What answers can import when they are judged, for students."""
    found = {}
    for one in metadata.distributions():  # as Python finds them: the first of a name counts
        if one.name and not one.name.startswith("attnbook"):
            found.setdefault(re.sub(r"[-_.]+", "-", one.name).lower(), f"{one.name}=={one.version}")
    lines = [f"# Answers are judged with Python {platform.python_version()} and these packages."]
    return "\n".join([*lines, *(found[name] for name in sorted(found))]) + "\n"


def write_folder(out: Path, make) -> None:
    """Fill a new folder and give it its name when it is complete.

    ValueError if the name is taken.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ValueError(
            f"out: {out} exists; choose another folder, so that nobody's work is overwritten"
        )
    out.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=f".{out.name}-", dir=out.parent))
    try:
        make(work)
        os.chmod(work, 0o755)
        if out.exists():
            out.rmdir()
        os.replace(work, out)
    finally:
        shutil.rmtree(work, ignore_errors=True)
