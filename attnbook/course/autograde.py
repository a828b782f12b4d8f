"""The process that grades notebooks with nbgrader, one after the other: `python -P autograde.py`, driven by grader.py.

A process of its own, because whatever a notebook does to the one that grades it, the others must not notice. It imports
nothing of attnbook, and so not PyTorch, which only the notebooks' kernels need.
"""
import json
import logging
import os
import re
import sys
from pathlib import Path

COURSE = "attnbook"
STUB = "raise NotImplementedError  # YOUR CODE HERE"


class GradingFailed(RuntimeError):
    """nbgrader could not do a step; the message says why, in one line."""


def database(folder) -> str:
    """The address of the gradebook of the course in `folder`."""
    return f"sqlite:///{Path(folder) / 'gradebook.db'}"


def api(folder, timeout: int = 30, startup_timeout: int = 120):
    """nbgrader's own interface to the course in `folder`.

    timeout: seconds for one cell; startup_timeout: seconds for a kernel to start.
    """
    from nbgrader.apps.api import NbGraderAPI
    from traitlets.config import Config
    from traitlets.log import get_logger

    c = Config()
    c.CourseDirectory.course_id = COURSE
    c.CourseDirectory.root = str(folder)
    c.CourseDirectory.db_url = database(folder)
    c.Execute.timeout = timeout
    c.Execute.startup_timeout = startup_timeout
    c.Execute.interrupt_on_timeout = True
    # A loop that cannot be interrupted: go on, so that the cells before it keep their marks.
    c.Execute.raise_on_iopub_timeout = False
    c.Execute.iopub_timeout = 10
    c.Execute.record_timing = False
    c.LimitOutput.max_lines = 200
    c.ClearSolutions.code_stub = {"python": STUB}
    get_logger().setLevel(logging.ERROR)
    return NbGraderAPI(config=c, log_level=logging.ERROR)


def autograde(folder, section: str, student: str, timeout: int, startup_timeout: int) -> None:
    """Run and grade the notebook in `folder`/submitted/`student`/`section`, then write nbgrader's feedback page.

    Raises GradingFailed: the kernel died, or nbgrader met something that it cannot read.
    """
    grader = api(folder, timeout, startup_timeout)
    done(grader.autograde(section, student, force=True, create=True), "grading")
    done(grader.generate_feedback(section, student, force=True), "writing the feedback")


def done(result: dict, doing: str) -> None:
    """Raise GradingFailed if one of nbgrader's steps says that it has not succeeded."""
    if result["success"]:
        return
    text = (result.get("error") or "") + (result.get("log") or "")
    if "DeadKernelError" in text or "kernel died" in text.lower():
        why = "a call like os._exit, or no memory left"
        raise GradingFailed(f"the notebook ended its own kernel ({why}), so that no cell could be graded")
    causes = re.findall(r"^\s*([\w.]*(?:Error|Exception|Exit)\b.*)$", text, re.MULTILINE)
    causes = [cause.strip() for cause in causes if "NbGraderException" not in cause]
    raise GradingFailed(f"{doing} failed: {causes[-1][:200] if causes else 'nbgrader gives no reason'}")


def main() -> None:
    """Answer requests, one line of JSON each, until standard input ends: {"env": …, "job": the arguments of autograde}.

    An answer is {"failed": why there are no marks, or ""}.
    """
    answers = os.fdopen(os.dup(1), "w", buffering=1)  # private: what nbgrader prints, and a kernel inherits, goes nowhere
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    for line in sys.stdin:
        request, failed = json.loads(line), ""
        os.environ.clear()
        os.environ.update(request["env"])
        try:
            autograde(*request["job"])
        except GradingFailed as error:
            failed = str(error)
        answers.write(json.dumps({"failed": failed}) + "\n")


if __name__ == "__main__":
    main()
