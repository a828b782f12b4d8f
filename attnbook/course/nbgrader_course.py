"""One nbgrader course in one folder: its environment, its assignments, its gradebook."""
from __future__ import annotations

import contextlib
import json
import os
import sys
from pathlib import Path

import nbformat

from . import autograde
from .exercises import Section, instructor_notebook

# PyTorch is imported before the first cell: that takes seconds, which belong to the start and not to the student's limit.
_KERNEL = "import attnbook.checks, runpy; runpy.run_module('ipykernel_launcher', run_name='__main__')"


def need_nbgrader() -> None:
    """ImportError that names the extra when nbgrader is missing."""
    try:
        import nbgrader  # noqa: F401
    except ImportError as error:
        raise ImportError("grading needs nbgrader: pip install 'attnbook[grade]'") from error


def environment(folder: Path) -> dict[str, str]:
    """The variables that nbgrader and the students' kernels run with: nothing of the user's Jupyter settings is read.

    Every kernel is the Python that runs this, whatever kernels are installed for the user.
    """
    kernel = folder / "jupyter" / "kernels" / "python3"
    kernel.mkdir(parents=True, exist_ok=True)
    spec = {
        "argv": [sys.executable, "-c", _KERNEL, "-f", "{connection_file}", "--HistoryManager.enabled=False"],
        "display_name": "Python 3 (ipykernel)",
        "language": "python",
    }
    (kernel / "kernel.json").write_text(json.dumps(spec))
    package = str(Path(__file__).resolve().parents[2])
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ATTNBOOK_")}
    return kept | {
        # nbgrader calls the program alembic, which lies beside this Python
        "PATH": os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath))),
        # the kernel finds this attnbook, installed or not
        "PYTHONPATH": os.pathsep.join(filter(None, (package, os.environ.get("PYTHONPATH")))),
        "ATTNBOOK_PROGRESS": "0",
        "CUDA_VISIBLE_DEVICES": "",
        "MPLBACKEND": "agg",
        "OMP_NUM_THREADS": "1",
        "PYTHONHASHSEED": "0",
        "JUPYTER_PATH": str(folder / "jupyter"),
        "JUPYTER_CONFIG_DIR": str(folder / "jupyter" / "config"),
        "JUPYTER_RUNTIME_DIR": str(folder / "jupyter" / "runtime"),
        "JUPYTER_DATA_DIR": str(folder / "jupyter" / "data"),
        "IPYTHONDIR": str(folder / "jupyter" / "ipython"),
    }


@contextlib.contextmanager
def inside(folder: Path):
    """`environment` for the steps that run in this process; the variables come back as they were."""
    before = dict(os.environ)
    os.environ.update(environment(folder))
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def add_assignments(folder: Path, sections: list[Section]) -> None:
    """Write the instructor's notebooks into `folder`/source and let nbgrader make the students' in `folder`/release.

    Fills the gradebook with the cells and their points. Raises GradingFailed.
    """
    need_nbgrader()
    with inside(folder):
        grader = autograde.api(folder)
        for section in sections:
            target = folder / "source" / section.name
            target.mkdir(parents=True)
            nbformat.write(instructor_notebook(section), target / f"{section.name}.ipynb")
            autograde.done(grader.generate_assignment(section.name, force=True, create=True), f"making the assignment {section.name}")


def record(folder: Path, scores: dict[tuple[str, str, str], float]) -> None:
    """Write marks into the gradebook in `folder`: (student, section, name of the graded cell) -> points."""
    with inside(folder), gradebook(folder) as book:
        for student in dict.fromkeys(key[0] for key in scores):
            book.update_or_create_student(student)
        for student, section in dict.fromkeys(key[:2] for key in scores):
            book.update_or_create_submission(section, student)
        for (student, section, cell), score in scores.items():
            grade = book.find_grade(cell, section, section, student)
            grade.auto_score, grade.needs_manual_grade = score, False
        book.db.commit()


def gradebook(folder: Path):
    """nbgrader's Gradebook of the course in `folder`."""
    from nbgrader.api import Gradebook

    return Gradebook(autograde.database(folder), autograde.COURSE)
