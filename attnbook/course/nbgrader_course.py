"""One nbgrader course in one folder: its settings, its assignments, and the grading of one notebook."""
from __future__ import annotations

import contextlib
import json
import os
import re
import sys
from pathlib import Path

import nbformat

from .exercises import Section, instructor_notebook
from .source import STUB

COURSE = "attnbook"
# PyTorch is imported before the first cell: that takes seconds, which belong to the start and not to the student's limit.
_KERNEL = "import attnbook.checks, runpy; runpy.run_module('ipykernel_launcher', run_name='__main__')"


class GradingFailed(RuntimeError):
    """nbgrader could not do a step; the message says why, in one line."""


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
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ATTNBOOK_")}
    return kept | {
        # nbgrader calls the program alembic, which lies beside this Python
        "PATH": os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath))),
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


def api(folder: Path, timeout: int = 30, startup_timeout: int = 120):
    """nbgrader's own interface to the course in `folder`.

    timeout: seconds for one cell; startup_timeout: seconds for a kernel to start.
    """
    need_nbgrader()
    import logging

    from nbgrader.apps.api import NbGraderAPI
    from traitlets.config import Config
    from traitlets.log import get_logger

    c = Config()
    c.CourseDirectory.course_id = COURSE
    c.CourseDirectory.root = str(folder)
    c.CourseDirectory.db_url = database(folder)
    c.Execute.timeout = c.ExecutePreprocessor.timeout = timeout
    c.Execute.startup_timeout = c.ExecutePreprocessor.startup_timeout = startup_timeout
    c.Execute.interrupt_on_timeout = True
    # A loop that cannot be interrupted: go on, so that the cells before it keep their marks.
    c.Execute.raise_on_iopub_timeout = False
    c.Execute.iopub_timeout = 10
    c.Execute.record_timing = False
    c.LimitOutput.max_lines = 200
    c.ClearSolutions.code_stub = {"python": STUB}
    get_logger().setLevel(logging.ERROR)
    return NbGraderAPI(config=c, log_level=logging.ERROR)


def add_assignments(folder: Path, sections: list[Section]) -> None:
    """Write the instructor's notebooks into `folder`/source and let nbgrader make the students' in `folder`/release.

    Fills the gradebook with the cells and their points. Raises GradingFailed.
    """
    with inside(folder):
        grader = api(folder)
        for section in sections:
            target = folder / "source" / section.name
            target.mkdir(parents=True)
            nbformat.write(instructor_notebook(section), target / f"{section.name}.ipynb")
            _done(grader.generate_assignment(section.name, force=True, create=True), f"making the assignment {section.name}")


def database(folder: Path) -> str:
    """The address of the gradebook of the course in `folder`."""
    return f"sqlite:///{folder / 'gradebook.db'}"


def record(folder: Path, scores: dict[tuple[str, str, str], float]) -> None:
    """Write marks into the gradebook in `folder`: (student, section, name of the graded cell) -> points."""
    from nbgrader.api import Gradebook

    with inside(folder), Gradebook(database(folder), COURSE) as book:
        for student in dict.fromkeys(key[0] for key in scores):
            book.update_or_create_student(student)
        for student, section in dict.fromkeys(key[:2] for key in scores):
            book.update_or_create_submission(section, student)
        for (student, section, cell), score in scores.items():
            grade = book.find_grade(cell, section, section, student)
            grade.auto_score, grade.needs_manual_grade = score, False
        book.db.commit()


def autograde(folder: Path, section: str, student: str, timeout: int, startup_timeout: int) -> None:
    """Run and grade the notebook in `folder`/submitted/`student`/`section`, then write nbgrader's feedback page.

    Raises GradingFailed: the kernel died, or nbgrader met something that it cannot read.
    """
    grader = api(folder, timeout, startup_timeout)
    _done(grader.autograde(section, student, force=True, create=True), "grading")
    _done(grader.generate_feedback(section, student, force=True), "writing the feedback")


def _done(result, doing):
    if result["success"]:
        return
    text = (result.get("error") or "") + (result.get("log") or "")
    if "DeadKernelError" in text or "Kernel died" in text or "kernel died" in text:
        raise GradingFailed("the notebook ended its own kernel (a call like os._exit, or no memory left), so that no cell could be graded")
    causes = re.findall(r"^\s*([\w.]*(?:Error|Exception|Exit)\b.*)$", text, re.MULTILINE)
    causes = [cause.strip() for cause in causes if "NbGraderException" not in cause]
    raise GradingFailed(f"{doing} failed: {causes[-1][:200] if causes else 'nbgrader gives no reason'}")


def main() -> None:
    """The process that grades one notebook: `python -m attnbook.course.nbgrader_course FOLDER SECTION STUDENT SECONDS SECONDS`.

    A process of its own, because whatever a notebook does to the one that grades it, the others must not notice.
    """
    folder, section, student, timeout, startup = sys.argv[1:]
    try:
        autograde(Path(folder), section, student, int(timeout), int(startup))
    except GradingFailed as error:
        print(error, file=sys.stderr)
        sys.exit(3)


if __name__ == "__main__":
    main()
