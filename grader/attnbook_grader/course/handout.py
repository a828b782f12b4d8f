"""The folders that an instructor hands out: notebooks without solutions, and what they run with."""

from __future__ import annotations

import os
import platform
import shutil
import tempfile
from importlib import metadata
from pathlib import Path

__all__ = ["write_folder", "write_notebooks", "write_students"]


def write_notebooks(folder: Path, made) -> None:
    """`folder`/student and `folder`/instructor of a course, with the packages that judge."""
    import nbformat

    write_students(folder / "student", made.assignments, {})
    (folder / "student" / "environment.txt").write_text(_environment(), encoding="utf-8")
    (folder / "instructor").mkdir()
    for one in made.assignments:
        nbformat.write(one.notebook(), folder / "instructor" / f"{one.name}.ipynb")


def _environment() -> str:
    """What answers can import when they are judged, for students."""
    found = {
        f"{one.name}=={one.version}"
        for one in metadata.distributions()
        if one.name and not one.name.startswith("attnbook")
    }
    lines = [f"# Answers are judged with Python {platform.python_version()} and these packages."]
    return "\n".join([*lines, *sorted(found, key=str.casefold)]) + "\n"


def write_students(folder: Path, assignments, chapters) -> None:
    """The notebooks that nbgrader makes of the instructor's, `folder`/CHAPTER/NAME.ipynb."""
    import nbformat

    from . import nbgrader_bridge

    with tempfile.TemporaryDirectory() as work:
        work = Path(work).resolve()
        nbgrader_bridge.add_assignments(work, assignments)
        for one in assignments:
            target = folder / chapters.get(one.name, "") / f"{one.name}.ipynb"
            target.parent.mkdir(parents=True, exist_ok=True)
            nb = nbformat.read(work / "release" / one.name / f"{one.name}.ipynb", 4)
            # a hidden check leaves an empty cell behind
            nb.cells = [cell for cell in nb.cells if cell.source.strip()]
            nbformat.write(nb, target)


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
