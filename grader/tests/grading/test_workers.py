"""Many notebooks at a time, on this computer and on a cluster; what a worker that dies costs."""

import importlib
import os
import signal
import subprocess
import sys
from concurrent.futures.process import BrokenProcessPool
from types import SimpleNamespace

import pytest
from patience import HANGS

from attnbook_grader.grading import check_fingerprint, workers

from .conftest import grade_here, marks_table

pytestmark = pytest.mark.slow


DIES = """
import os
from attnbook_grader.grading.judging import Outcome


def judge_notebook(job):
    if b"return inputs[0]" in job.content and b"left" not in job.content:
        os._exit(1)
    return [Outcome(id, True, True, "") for id in job.tasks]
"""


@pytest.fixture(scope="module")
def dies(tmp_path_factory):
    """A judge that one notebook ends, in a module that workers can import."""
    folder = tmp_path_factory.mktemp("dies")
    (folder / "dies.py").write_text(DIES)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        yield importlib.import_module("dies")
    del sys.modules["dies"]


@pytest.fixture(scope="module")
def scheduler(dies):
    """Two workers of a Dask cluster on this machine."""
    import dask
    from distributed import LocalCluster

    # A notebook that ends its worker is given up at once: another worker takes seconds to start.
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 0}),
        LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs=50
        ) as cluster,
    ):
        yield cluster.scheduler_address


@pytest.mark.usefixtures("bubblewrap")
def test_a_cluster_gives_the_same_marks(small, course, scheduler):
    for out, options in (("here", {"jobs": 2}), ("there", {"scheduler": scheduler})):
        done = grade_here(course, small, out, trust=False, **options)
        assert done.judged == 2
    assert marks_table(small / "there") == marks_table(small / "here")


def test_an_address_without_a_scheduler(monkeypatch):
    monkeypatch.setattr("attnbook.scheduler._TIMEOUT", 1)
    with pytest.raises(
        ValueError, match="scheduler: no Dask scheduler answers at 'tcp://127.0.0.1:1'"
    ):
        list(workers.judge_all([], scheduler="tcp://127.0.0.1:1"))


@pytest.mark.parametrize("place", ["here", "cluster"])
def test_a_worker_that_dies_takes_only_its_own_notebook(
    small, course, dies, monkeypatch, request, place
):
    options = {"scheduler": request.getfixturevalue("scheduler")} if place == "cluster" else {}
    monkeypatch.setattr(workers, "judge_notebook", dies.judge_notebook)
    # first, so that the other one waits for the process that dies
    (small / "hand-ins" / "wrong").rename(small / "hand-ins" / "a wrong")
    done = grade_here(course, small, jobs=1, **options)
    ended = {one.student for one in done.marks if "ended the process that graded" in one.note}
    assert ended == {"a wrong"}
    assert sum(one.points for one in done.marks if one.student == "partly right") == 6


def hold(job):
    sum(range(10**12))


def test_a_worker_that_stops_for_nothing_is_ended():
    limits = SimpleNamespace(notebook=0.5, startup=0.1 - workers._GRACE / workers.ATTEMPTS)
    with workers._pool(1) as pool, pytest.raises(BrokenProcessPool):
        pool.submit(workers._in_time, hold, SimpleNamespace(limits=limits)).result(HANGS)


def test_on_a_cluster_a_call_without_end_is_ended():
    """A thread cannot be interrupted in a call of C that holds the interpreter; its process can."""
    code = f"""
import ctypes, threading, types
from attnbook_grader.grading import workers
from attnbook_grader.sandbox.launch import Limits

workers._GRACE = 0.5
job = types.SimpleNamespace(limits=Limits(notebook=0.1, startup=0.1))
sleep = lambda job: ctypes.PyDLL(None).sleep({HANGS})
call = threading.Thread(target=workers._exclusively, args=(workers.CHECKS, sleep, job))
call.start()
call.join()
"""
    done = subprocess.run([sys.executable, "-c", code], timeout=HANGS + 60)
    assert done.returncode == -signal.SIGALRM


def test_a_worker_with_other_checks_judges_nothing():
    with pytest.raises(ValueError, match="a worker has other checks than this .* restart it"):
        workers._exclusively("those of last week", None, None)


def test_files_that_differ_give_another_word(tmp_path, monkeypatch):
    assert check_fingerprint._of_files() == check_fingerprint.CHECKS
    (tmp_path / "a.py").write_text("x = 1\n")
    monkeypatch.setattr(check_fingerprint.checks, "__path__", [str(tmp_path)])
    one = check_fingerprint._of_files()
    (tmp_path / "a.py").write_bytes(b"x = 1\r\n")
    assert check_fingerprint._of_files() == one != check_fingerprint.CHECKS


@pytest.mark.parametrize(
    ("text", "count"), [("200000 100000", 2), ("50000 100000", 1), ("max 100000", 64), ("", 64)]
)
def test_as_many_notebooks_at_a_time_as_there_are_cores_for_us(monkeypatch, text, count):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(64)), raising=False)
    monkeypatch.setattr(workers.Path, "read_text", lambda path: text)
    assert workers._cores() == count
