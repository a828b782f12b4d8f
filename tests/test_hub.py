"""A hub with nbgrader can release, collect and autograde the notebooks of a course."""

import os
import sys
from dataclasses import replace
from pathlib import Path

import nbformat
import pytest

from attnbook_grader.course.assignments import from_sections, notebook_with
from attnbook_grader.course.exercises import find_book, sections, solution_of

pytest.importorskip("nbgrader", reason="pip install nbgrader")
pytestmark = pytest.mark.nightly


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """nbgrader's own interface to a course in a folder, and nothing of the user's settings."""
    from nbgrader.apps.api import NbGraderAPI
    from traitlets.config import Config

    for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_DATA_DIR", "IPYTHONDIR"):
        monkeypatch.setenv(name, str(tmp_path / "settings" / name))
    # nbgrader calls the program alembic, which lies beside this Python
    beside = (str(Path(sys.executable).parent), os.environ["PATH"])
    monkeypatch.setenv("PATH", os.pathsep.join(beside))
    c = Config()
    c.CourseDirectory.root = str(tmp_path)
    c.CourseDirectory.course_id = "attnbook"
    c.CourseDirectory.db_url = f"sqlite:///{tmp_path / 'gradebook.db'}"
    c.ClearSolutions.code_stub = {"python": "raise NotImplementedError  # YOUR CODE HERE"}
    return NbGraderAPI(config=c)


def put(folder, *parts, nb):
    path = folder.joinpath(*parts)
    path.parent.mkdir(parents=True)
    path.write_bytes(nb if isinstance(nb, bytes) else nbformat.writes(nb).encode())


def test_nbgrader_releases_and_autogrades_a_course(tmp_path, hub):
    (part,) = sections(find_book(), ["soft_lookup"])
    (made,) = from_sections([part])
    made = replace(made, tasks=tuple(t for t in made.tasks if t.id == "00.weighted_sum"))
    put(tmp_path, "source", made.name, f"{made.name}.ipynb", nb=made.notebook())
    result = hub.generate_assignment(made.name, force=True, create=True)
    assert result["success"], result
    theirs = nbformat.read(tmp_path / "release" / made.name / f"{made.name}.ipynb", 4)

    def cells(nb):  # nbgrader leaves an empty cell where we leave a comment
        names = [cell.metadata.get("nbgrader", {}).get("grade_id", "") for cell in nb.cells]
        return [
            (name, "" if name.endswith("-hidden") else cell.source)
            for name, cell in zip(names, nb.cells)
        ]

    assert cells(theirs) == cells(made.released())
    (task,) = made.tasks
    answers = {"ann": solution_of(task), "bo": f"def {task.function}(*given):\n    return given[0]"}
    for student, answer in answers.items():
        nb = notebook_with(made, {task.id: answer})
        put(tmp_path, "submitted", student, made.name, f"{made.name}.ipynb", nb=nb)
        result = hub.autograde(made.name, student)
        assert result["success"], result
    with hub.gradebook as book:
        scores = {student: book.find_submission(made.name, student).score for student in answers}
    assert scores == {"ann": sum(made.points[task.id]), "bo": 0.0}
