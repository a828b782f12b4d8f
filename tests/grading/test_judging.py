"""Judging one notebook: what its cells beside the answers may cost."""

import json
import time

import pytest

from attnbook.course import box, judging
from attnbook.course.box import Lost
from attnbook.course.checking import notebook_with
from attnbook.course.judging import Job, Outcome, judge_notebook
from attnbook.course.launch import Limits
from attnbook.course.submissions import parse_submission

TRAINS = "import time\nSTEPS = 3\ndef helper(weights, values):\n    return weights @ values\ntime.sleep(60)\n"
KEPT = "import time\n\nSTEPS = 3\n\ndef helper(weights, values):\n    return weights @ values"


class Recorder:
    """In place of a sandbox: what it was asked for."""

    def __init__(self, seconds=0.0, error=None):
        self.said, self.seconds, self.error = [], seconds, error

    def run(self, code):
        self.said.append(code)
        time.sleep(self.seconds)
        if self.error and "sleep" in code:
            raise self.error

    def pardon(self):
        self.said.append("pardoned")


def test_a_cell_that_takes_too_long_runs_its_definitions():
    recorder = Recorder(error=Lost("too long", late=True))
    others = judging._Others(recorder, 100)
    others.run("x = 1")
    others.run(TRAINS)
    others.run("time.sleep(60)")
    assert recorder.said == ["x = 1", TRAINS, "pardoned", KEPT, "time.sleep(60)", "pardoned"]


@pytest.mark.parametrize("error", [Lost("it ended its process"), Lost("300 s in all", overall=True)], ids=str)
def test_a_cell_that_ends_the_sandbox_is_not_pardoned(error):
    recorder = Recorder(error=error)
    with pytest.raises(Lost):
        judging._Others(recorder, 100).run(TRAINS)
    assert recorder.said == [TRAINS]


def test_the_time_for_all_cells_beside_the_answers_has_an_end():
    recorder = Recorder(seconds=0.02)
    others = judging._Others(recorder, 0.01)
    for _ in range(2):
        others.run(TRAINS)
    assert recorder.said == [TRAINS, KEPT]
    assert others.explain(Outcome("x", True, True, "")).remark == ""
    assert others.explain(Outcome("x", True, False, "", remark="long")).remark.startswith("long; cells beside your answers took too long")


def test_an_answer_gets_its_points_beside_cells_that_train(assignment, monkeypatch):
    monkeypatch.setattr(box, "_RESTARTS", 0)
    nb = parse_submission(notebook_with(assignment, {"00.weighted_sum": "def weighted_sum(*inputs):\n    return helper(*inputs)"}))
    nb.cells.insert(1, {"cell_type": "code", "source": TRAINS, "metadata": {}})
    content = json.dumps(nb).encode()
    outcomes = judge_notebook(Job(content, assignment, ("00.weighted_sum", "00.temperature"), {"00.weighted_sum": 5}, Limits(seconds=2), "none"))
    assert outcomes[0].visible and outcomes[0].hidden and outcomes[0].remark == ""
    assert outcomes[1].note.startswith("not written yet") and outcomes[1].remark.startswith("cells beside your answers took too long")
