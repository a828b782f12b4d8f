"""Judging one notebook: what its cells beside the answers may cost."""

import contextlib
import json
import time
from dataclasses import replace
from types import SimpleNamespace

import pytest
from made_up_class import synthetic_class
from patience import PATIENT

from attnbook_exercises.checks.verdict import RIGHT, Verdict
from attnbook_grader.course.assignments import notebook_with
from attnbook_grader.grading import judging
from attnbook_grader.grading.judging import Job, Outcome, judge_notebook
from attnbook_grader.notebooks.submissions import parse_submission
from attnbook_grader.sandbox import session
from attnbook_grader.sandbox.launch import Limits
from attnbook_grader.sandbox.session import SandboxEnded, Session

from .conftest import IDS, judged

PARTS = "import time", "STEPS = 3", "def helper(weights, values):\n    return weights @ values"
KEPT, TRAINS = "\n\n".join(PARTS), "\n".join([*PARTS, "time.sleep(60)\n"])


class Recorder:
    """In place of a sandbox: what it was asked for."""

    def __init__(self, seconds=0.0, error=None):
        self.said, self.seconds, self.error = [], seconds, error

    def run(self, code):
        self.said.append(code)
        time.sleep(self.seconds)
        if self.error and "sleep" in code:
            raise self.error

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass

    def judge(self, id, name, seed):
        self.said.append(id)
        return Verdict(id, RIGHT, "right.")

    def pardon(self):
        self.said.append("pardoned")


def test_a_cell_that_takes_too_long_runs_its_definitions():
    recorder = Recorder(error=SandboxEnded("too long", late=True))
    others = judging._OtherCells(recorder, 100)
    others.run("x = 1")
    others.run(TRAINS)
    others.run("time.sleep(60)")
    assert recorder.said == ["x = 1", TRAINS, "pardoned", KEPT, "time.sleep(60)", "pardoned"]


@pytest.mark.parametrize(
    "error",
    [SandboxEnded("it ended its process"), SandboxEnded("300 s in all", overall=True)],
    ids=str,
)
def test_a_cell_that_ends_the_sandbox_is_not_pardoned(error):
    recorder = Recorder(error=error)
    with pytest.raises(SandboxEnded):
        judging._OtherCells(recorder, 100).run(TRAINS)
    assert recorder.said == [TRAINS]


def test_the_time_for_all_cells_beside_the_answers_has_an_end():
    recorder = Recorder(seconds=0.02)
    others = judging._OtherCells(recorder, 0.01)
    for _ in range(2):
        others.run(TRAINS)
    assert recorder.said == [TRAINS, KEPT]
    assert others.explain(Outcome("x", True, True, "")).remark == ""
    said = others.explain(Outcome("x", True, False, "", remark="long")).remark
    assert said.startswith("long; cells beside your answers took too long")


def test_the_cells_beside_the_answers_are_the_other_cells(assignment, monkeypatch):
    recorder = Recorder(error=SandboxEnded("too long", late=True))
    monkeypatch.setattr(judging, "Session", lambda *_: recorder)
    nb = parse_submission(notebook_with(assignment, dict(zip(IDS, (TRAINS, "x = 2")))))
    nb.cells.insert(2, {"cell_type": "code", "source": TRAINS + "# mine", "metadata": {}})
    (one, _) = judged(json.dumps(nb).encode(), assignment, *IDS, seed=None)
    mine = [TRAINS + "# mine", "pardoned", KEPT]
    assert recorder.said[1:] == [*mine, TRAINS, IDS[0], "x = 2", IDS[1]]
    assert one.visible and one.remark.startswith("cells beside your answers took too long")


def test_a_pardoned_restart_does_not_count(monkeypatch):
    peer = SimpleNamespace(
        request=lambda head: None, channel=SimpleNamespace(left=None, close=lambda: None)
    )
    monkeypatch.setattr(Session, "_start", lambda self: setattr(self, "_peer", peer))
    with Session("none", Limits()) as made:
        made._starts = session._RESTARTS + 1
        with pytest.raises(SandboxEnded, match="given up"):
            made.run("x = 1")
        made.pardon()
        assert made.run("x = 1") is None


LOOPS = ("loop in a cell", "endless loop", "catches everything")


class ShortForLoops(Session):
    """A session that ends a loop after a second, and waits for anything else until it is done."""

    def run(self, code):
        with self._within(1 if code == "while True: pass" else self._limits.seconds):
            return super().run(code)

    def judge(self, id, name, seed):
        loops = any("while True" in code and f"def {name}" in code for code in self._cells)
        with self._within(1 if loops else self._limits.seconds):
            return super().judge(id, name, seed)

    @contextlib.contextmanager
    def _within(self, seconds):
        patient, self._limits = self._limits, replace(self._limits, seconds=seconds)
        try:
            yield
        finally:
            self._limits = patient


@pytest.mark.slow
@pytest.mark.usefixtures("bubblewrap")
@pytest.mark.parametrize("student", LOOPS)
def test_an_endless_loop_costs_only_its_own_exercise(assignment, section, monkeypatch, student):
    monkeypatch.setattr(judging, "Session", ShortForLoops)
    hand_in = synthetic_class(assignment, section)[student]
    limits = Limits(**PATIENT, memory=1024)
    outcomes = judge_notebook(
        Job(hand_in.content, assignment, IDS, dict.fromkeys(IDS, 7), limits, "bubblewrap")
    )
    right = [hand_in.marks[id] > 0 for id in IDS]
    assert [(one.visible, one.hidden) for one in outcomes] == [(one, one) for one in right]
    assert hand_in.words in outcomes[0].note and bool(outcomes[0].note) != right[0]
