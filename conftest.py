"""How pytest runs the notebooks: on the library as a reader gets it, the built wheel, in the
environment of the book (quick preset, CPU, no mirror), measured one by one.

Several workers take the long files first, so that none is still at one when the others have
finished.

The last cell of a notebook fails if the notebook took more memory than it declares allows for;
never for the time it took, which says as much of the machine. The measurements of a session are
kept in `build/notebooks.json`, those of all workers if there are several (`pytest -n 2 --dist
loadfile`: a file, so a notebook too, stays with one worker).
"""

import json
import os
import time
from pathlib import Path
from unittest import mock

# Several workers share the cores between them: one thread each. PyTorch reads this when it is
# imported, which is the next thing.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")

import nbformat  # noqa: E402
import pytest  # noqa: E402

from bookbuild.execute import environment
from bookbuild.measure import PeakMemory, too_large, write_json  # noqa: E402
from bookbuild.promise import declared  # noqa: E402
from bookbuild.wheel import unpacked  # noqa: E402

ROOT = Path(__file__).resolve().parent
MEASURED = pytest.StashKey[dict]()
LAST_CELLS = pytest.StashKey[set]()
OF_WORKERS = pytest.StashKey[list]()

# Tests, and the processes that they start, draw nothing on a screen.
os.environ.setdefault("MPLBACKEND", "agg")


def pytest_configure(config):
    config.stash[MEASURED], config.stash[LAST_CELLS], config.stash[OF_WORKERS] = {}, set(), []
    if hasattr(config.option, "loadscopereorder"):  # of pytest-xdist: by the number of tests
        config.option.loadscopereorder = False


def _is_notebook(item):
    return type(item).__name__ == "IPyNbCell"


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    config.stash[LAST_CELLS] = set(
        {item.path: item.nodeid for item in items if _is_notebook(item)}.values()
    )
    # nbval waits 5 s for what a cell printed: few on a busy machine
    patience = min(120, config.getoption("nbval_cell_timeout", 120))
    for item in filter(_is_notebook, items):
        item.output_timeout = patience
    if "PYTEST_XDIST_WORKER" in os.environ:
        seconds = _seconds(items)
        items.sort(key=lambda item: -seconds[item.path])  # stable: a file's tests stay in order


def _seconds(items):
    """About how long each file takes: a notebook what was recorded, a test what its mark says."""
    recorded = ROOT / "results" / "notebooks.json"
    rows = json.loads(recorded.read_text(encoding="utf-8")) if recorded.exists() else []
    seconds = {ROOT / row["notebook"]: row["seconds"] for row in rows}
    for item in items:
        seconds.setdefault(item.path, 0.0)
        if not _is_notebook(item):
            long = item.get_closest_marker("slow") and not item.get_closest_marker("site")
            seconds[item.path] += 10.0 if long else 0.1
    # The first file of the website builds it, which the others would wait for: they come late.
    site = next((item.path for item in items if item.get_closest_marker("site")), None)
    return seconds | ({site: 1e6} if site else {})


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item):
    if not _is_notebook(item):
        return (yield)
    first = item.parent.kernel is None
    begin = time.perf_counter()
    with mock.patch.dict(os.environ, _of_readers(first), clear=True):  # the kernel starts in here
        result = yield
    if first:
        pid = item.parent.kernel.km.provisioner.pid
        item.config.stash[MEASURED][_name(item)] = {
            "begin": begin,
            "watch": PeakMemory(pid).__enter__(),
            "seconds": 0.0,
            "failed": False,
        }
    return result


def _of_readers(first: bool) -> dict[str, str]:
    """The environment of a kernel, which imports the library from its wheel."""
    if not first or not (ROOT / "pyproject.toml").is_file():
        return environment()
    before = os.environ.get("PYTHONPATH")
    path = [str(unpacked(ROOT)), *([before] if before else [])]
    return {**environment(), "PYTHONPATH": os.pathsep.join(path)}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if _is_notebook(item) and (row := item.config.stash[MEASURED].get(_name(item))):
        row["seconds"] = time.perf_counter() - row["begin"]
        row["failed"] |= report.failed
        row["peak_mb"] = row["watch"].mb
        if call.when == "teardown" and item.nodeid in item.config.stash[LAST_CELLS]:
            row["watch"].__exit__()
        if (
            call.when == "call"
            and item.nodeid in item.config.stash[LAST_CELLS]
            and not row["failed"]
        ):
            promise = declared(nbformat.read(item.path, as_version=4))
            if said := too_large(promise.quick, row["peak_mb"]):
                report.outcome, report.longrepr = "failed", f"{_name(item)}: {said}"
    return report


def _name(item):
    path = item.path
    return path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else str(path)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
    node.config.stash[OF_WORKERS] += getattr(node, "workeroutput", {}).get("notebooks", [])


def pytest_sessionfinish(session):
    rows = [
        {"notebook": name, "seconds": round(row["seconds"], 1), "peak_mb": round(row["peak_mb"])}
        for name, row in session.config.stash[MEASURED].items()
        if "peak_mb" in row
    ]
    if hasattr(session.config, "workeroutput"):  # this is a worker: the main process writes
        session.config.workeroutput["notebooks"] = rows
        return
    rows += session.config.stash[OF_WORKERS]
    if rows:
        write_json(ROOT / "build" / "notebooks.json", rows)


@pytest.fixture(scope="session")
def root():
    """The repository."""
    return ROOT
