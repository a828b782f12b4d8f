"""How pytest runs the notebooks: in the environment of the book (quick preset, CPU, no mirror), measured one by one.

The measurements of a session are kept in `build/notebooks.json`; tests/chapters/test_promises.py, which runs last, compares them
with the line that each notebook declares.
"""
import os
import time
from pathlib import Path
from unittest import mock

import pytest

from attnbook.course.measure import PeakMemory, write_json
from attnbook.course.run import environment

ROOT = Path(__file__).resolve().parent
MEASURED = pytest.StashKey[dict]()

# Tests, and the processes that they start, draw nothing on a screen.
os.environ.setdefault("MPLBACKEND", "agg")


def pytest_configure(config):
    config.stash[MEASURED] = {}


def _is_notebook(item):
    return type(item).__name__ == "IPyNbCell"


def pytest_collection_modifyitems(items):
    # What looks at the measurements comes after all that is measured.
    items.sort(key=lambda item: item.path.name == "test_promises.py")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item):
    if not _is_notebook(item):
        return (yield)
    first = item.parent.kernel is None
    begin = time.perf_counter()
    with mock.patch.dict(os.environ, environment(), clear=True):  # the kernel starts in here
        result = yield
    if first:
        pid = item.parent.kernel.km.provisioner.pid
        item.config.stash[MEASURED][_name(item)] = {"begin": begin, "watch": PeakMemory(pid).__enter__(), "seconds": 0.0, "failed": False}
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if _is_notebook(item) and (row := item.config.stash[MEASURED].get(_name(item))):
        row["seconds"] = time.perf_counter() - row["begin"]
        row["failed"] |= report.failed
        row["peak_mb"] = row["watch"].mb
    return report


def _name(item):
    path = item.path
    return path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else str(path)


def pytest_sessionfinish(session):
    rows = [{"notebook": name, "seconds": round(row["seconds"], 1), "peak_mb": round(row["peak_mb"])}
            for name, row in session.config.stash[MEASURED].items() if "peak_mb" in row]
    for row in session.config.stash[MEASURED].values():
        row["watch"].__exit__()
    if rows:
        write_json(ROOT / "build" / "notebooks.json", rows)


@pytest.fixture(scope="session")
def measured(request):
    """What the notebooks of this session took: name -> {"seconds", "peak_mb", "failed"}."""
    return request.config.stash[MEASURED]


@pytest.fixture(scope="session")
def root():
    """The repository."""
    return ROOT
