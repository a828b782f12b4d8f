"""A round that goes on where an earlier one ended: judged is what the journal does not hold."""

import json
import sqlite3
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from made_up_class import write_class
from patience import HANGS, eventually

from attnbook_grader.grading import check_fingerprint, outputs, rounds
from attnbook_grader.grading.judging import Outcome

from .conftest import IDS, grade_here, marks_table, write

pytestmark = pytest.mark.slow


@pytest.fixture
def grade(small, course, monkeypatch):
    """A round whose judgements cost nothing."""

    def judge_all(jobs, **_):
        return [(key, [Outcome(id, True, True, "") for id in job.tasks]) for key, job in jobs]

    monkeypatch.setattr(rounds, "judge_all", judge_all)
    return lambda **options: grade_here(course, small, **options).judged


def counts(folder):
    with sqlite3.connect(folder / "out" / "journal.db") as base:
        return dict(base.execute("select exercise, sum(count) from outcome group by exercise"))


def test_a_changed_check_is_judged_again_and_no_other(small, grade, monkeypatch):
    grade()
    assert counts(small) == dict.fromkeys(IDS, 2)
    true = rounds.fingerprint
    mended = lambda id, seed: true(id, seed) + ", mended" * (id == IDS[1])  # noqa: E731
    monkeypatch.setattr(rounds, "fingerprint", mended)
    assert grade() == 2
    assert counts(small) == {IDS[0]: 2, IDS[1]: 4}
    assert grade(again=[IDS[0]]) == 2
    assert counts(small) == {IDS[0]: 4, IDS[1]: 4}
    with pytest.raises(ValueError, match="regrade: no assignment has the exercise 'x'"):
        grade(again=["x"])


@pytest.mark.parametrize(
    ("file", "changed"),
    [("soft_lookup.py", {0, 1}), ("context.py", {0, 1, 2}), ("arguments.py", {0, 1, 2})],
)
def test_a_change_of_a_file_changes_the_stamps_that_depend_on_it(monkeypatch, file, changed):
    def stamps(seed=1):
        ids = (*IDS, "06.padded_heads")
        return [check_fingerprint.fingerprint(id, seed) for id in ids]

    before, read = stamps(), Path.read_bytes
    assert before == stamps() and not {*before} & {*stamps(2)}
    more = lambda path: read(path) + b"# more" * (path.name == file)  # noqa: E731
    monkeypatch.setattr(Path, "read_bytes", more)
    assert {n for n, (one, other) in enumerate(zip(before, stamps())) if one != other} == changed


def test_a_new_hand_in_is_judged_alone(small, grade, assignment, section):
    assert grade() == 2
    write_class(small / "hand-ins", assignment, section, ["untouched"])
    assert grade() == 1


def test_two_rounds_at_a_time_are_refused(small, grade):
    (small / "out").mkdir()
    (small / "out" / outputs.MARKER).write_text("")
    at_work = pytest.raises(ValueError, match="another round of grading is at work")
    with outputs.locked(small / "out"), at_work:
        grade()


# A round is its calls of functions. Each is made in a copy of the process, which ends itself with
# SIGKILL in the middle of one of these calls, and is then done again.
KILLED = """
import os, signal, sys
from dataclasses import replace
from pathlib import Path

from attnbook_grader.course.assignments import Course, from_sections
from attnbook_grader.course.exercises import find_book, sections
from attnbook_grader.grading import feedback, journal, outputs, rounds
from attnbook_grader.grading.judging import Outcome

(made,) = from_sections(sections(find_book(), ["soft_lookup"]))
tasks = tuple(task for task in made.tasks if task.id in {ids})
course = Course("A class", 4711, (replace(made, tasks=tasks),))
files, calls = {{module.__file__ for module in (feedback, journal, outputs, rounds)}}, 0


def judge_all(jobs, **_):
    for key, job in jobs:
        right = b"return inputs[0]" not in job.content
        yield key, [Outcome(id, True, right, "") for id in job.tasks]


def round_(out, kill_at):
    def count(frame, event, argument):
        global calls
        if event == "call" and frame.f_code.co_filename in files:
            calls += 1
            if calls == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)

    read, write = os.pipe()
    child = os.fork()
    if not child:
        sys.setprofile(count)
        hand_ins = Path({hand_ins!r})
        done = rounds.grade(course, hand_ins, Path(out), trust=True, say=lambda line: None)
        sys.setprofile(None)
        os.write(write, f"{{done.judged}} {{calls}}".encode())
        os._exit(0)
    os.close(write)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    with os.fdopen(read) as file:
        return status, [int(number) for number in file.read().split()]


rounds.judge_all = judge_all
status, (judged, total) = round_({whole!r}, 0)
assert (status, judged) == (0, 6), (status, judged)
for part in range(1, 8):
    out = {whole!r} + f" {{part}}"
    status, _ = round_(out, total * part // 8)
    assert status == -signal.SIGKILL, status
    status, (judged, _) = round_(out, 0)
    assert status == 0
    print(judged, out)
"""


def test_killed_at_any_moment_it_loses_nothing_and_judges_nothing_twice(
    assignment, section, tmp_path
):
    write_class(tmp_path / "once", assignment, section, ["right", "wrong"])
    for copy in range(3):
        for student in ("right", "wrong"):
            nb = json.loads((tmp_path / "once" / student / "soft_lookup.ipynb").read_text())
            nb["metadata"]["copy"] = copy  # another file, the same marks
            write(tmp_path, f"hand-ins/{student} {copy}/soft_lookup.ipynb", json.dumps(nb))
    whole = tmp_path / "whole"
    code = KILLED.format(ids=IDS, hand_ins=str(tmp_path / "hand-ins"), whole=str(whole))
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=HANGS
    )
    assert done.returncode == 0, done.stderr
    judged_after = []
    for line in done.stdout.splitlines():
        judged, _, out = line.partition(" ")
        out = whole.with_name(out.rpartition("/")[2])
        judged_after.append(int(judged))
        with sqlite3.connect(out / "journal.db") as base:
            assert base.execute("select count(*), max(count) from outcome").fetchone() == (12, 1)
            assert base.execute("pragma integrity_check").fetchone() == ("ok",)
        assert marks_table(out) == marks_table(whole)
        assert not list(out.glob(".new-*"))
    assert len(judged_after) == 7 and judged_after == sorted(judged_after, reverse=True)
    assert {0, 6} <= set(judged_after) and len(set(judged_after)) > 2, judged_after


WORKERS = """
from attnbook_grader.grading import workers
from attnbook_grader.grading.judging import Job
from attnbook_grader.sandbox.launch import Limits

import waits

workers.judge_notebook = waits.judge_notebook
if __name__ == "__main__":
    job = Job(b"", None, (), {}, Limits(notebook=3600), "none")
    list(workers.judge_all([(n, job) for n in range(2)], count=2))
"""


def runs(pid):
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_workers_end_with_the_grader(tmp_path):
    (tmp_path / "waits.py").write_text(
        "import os, pathlib, time\n\n\ndef judge_notebook(job):\n"
        f"    (pathlib.Path({str(tmp_path)!r}) / f'{{os.getpid()}}.pid').touch()\n"
        f"    time.sleep({HANGS})\n"
    )
    script = tmp_path / "round.py"
    script.write_text(WORKERS)
    grader = subprocess.Popen([sys.executable, str(script)])
    assert eventually(lambda: len(list(tmp_path.glob("*.pid"))) == 2 or grader.poll() is not None)
    workers = [int(path.stem) for path in tmp_path.glob("*.pid")]
    assert len(workers) == 2 and all(map(runs, workers))
    grader.kill()
    grader.wait()
    assert eventually(lambda: not any(map(runs, workers)))
