"""Many notebooks at a time: on the cores of this computer, or on those of a Dask cluster."""

from __future__ import annotations

import contextlib
import functools
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import TypeVar, cast

from attnbook.scheduler import connect

from ..sandbox.limits import PATIENCE
from ..sandbox.session import ATTEMPTS
from .check_fingerprint import CHECKS
from .judging import Job, Outcome, judge_notebook

__all__ = ["judge_all"]

_LOCK = threading.Lock()
_LOST = "the notebook ended the process that graded it"
_GRACE = 60


Key = TypeVar("Key")


def judge_all(
    jobs: Iterable[tuple[Key, Job]], *, count: int | None = None, scheduler: str | None = None
) -> Iterator[tuple[Key, list[Outcome]]]:
    """Judge the notebooks; yields (key, outcomes) in the order in which they are done.

    count: processes; default one for each core
    scheduler: address of a Dask scheduler, as tcp://127.0.0.1:8786, whose workers have this package
    """
    if scheduler:
        yield from _on_cluster(jobs, scheduler)
    else:
        yield from _here(jobs, count or _cores())


def _cores() -> int:
    """The cores that this process may use: those of the machine, less where a batch system or a
    container gives fewer.
    """
    count = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    with contextlib.suppress(OSError, ValueError):
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        count = min(count, max(1, int(quota) // int(period)))  # "max" is no number
    return count


def _here(jobs, count):
    """In processes of our own.

    One that dies takes the jobs along that wait in it; each of them is tried once more, alone.
    """
    suspects, waiting = [], iter(jobs)
    while True:
        with _pool(count) as pool:
            broken, submit = False, functools.partial(pool.submit, _in_time)
            for key, job, outcomes in _window(submit, waiting, 2 * count):
                if outcomes is None:
                    suspects.append((key, job))
                    broken = True
                else:
                    yield key, outcomes
        if not broken:
            break
    for key, job in suspects:
        with _pool(1) as pool:
            try:
                outcomes = pool.submit(_in_time, judge_notebook, job).result()
            except BrokenProcessPool:
                outcomes = _lost(job)
        yield key, outcomes


def _window(submit, waiting, width, died: type[Exception] = BrokenProcessPool, goes_on=False):
    """Keep `width` jobs under way; yields (key, job, outcomes), None for those whose process died.
    Then nothing more is begun, unless there are other processes to go on with."""
    open_, running = True, {}
    while open_ or running:
        while open_ and len(running) < width:
            entry = next(waiting, None)
            if entry is None:
                open_ = False
                break
            try:
                running[submit(judge_notebook, entry[1])] = entry
            except died:
                yield *entry, None
                open_ = goes_on
        if not running:
            return
        for future in wait(running, return_when=FIRST_COMPLETED).done:
            key, job = running.pop(future)
            try:
                yield key, job, future.result()
            except died:
                open_ = open_ and goes_on
                yield key, job, None


def _pool(count):
    # A process that has PyTorch's threads must not be forked. The fork server has none: it imports
    # PyTorch once for all workers, and computes nothing.
    context = multiprocessing.get_context("forkserver" if sys.platform == "linux" else "spawn")
    context.set_forkserver_preload([judge_notebook.__module__])
    return ProcessPoolExecutor(count, mp_context=context, initializer=_begin)


def _begin():
    """In a new process: one thread for PyTorch, and no life without the process that started it."""
    import torch

    torch.set_num_threads(1)
    parent = multiprocessing.parent_process()
    assert parent is not None
    threading.Thread(target=lambda: (parent.join(), os._exit(1)), daemon=True).start()


def _in_time(judge, job):
    """In a process of our own: judge the notebook, or end the process when it is far over its
    time and stops for nothing.
    """
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    with _alarm(job):
        return judge(job)


@contextlib.contextmanager
def _alarm(job):
    """End this process, whatever it does, when the notebook takes far longer than it may."""
    seconds = PATIENCE * job.limits.notebook + ATTEMPTS * job.limits.startup + _GRACE
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _on_cluster(jobs, address):
    with connect(address) as client:
        from distributed import KilledWorker

        threads = cast("dict[str, int]", client.nthreads())  # of a client that is not asynchronous
        width = 2 * max(1, sum(threads.values()))
        submit = functools.partial(client.get_executor(pure=False).submit, _exclusively, CHECKS)
        suspects = []
        for key, job, outcomes in _window(submit, iter(jobs), width, KilledWorker, goes_on=True):
            # its worker died, several times: by its own fault, or beside one that had the same
            # worker
            if outcomes is None:
                suspects.append((key, job))
            else:
                yield key, outcomes
        for key, job, outcomes in _window(submit, iter(suspects), 1, KilledWorker, goes_on=True):
            yield key, outcomes or _lost(job)


def _lost(job):
    return [Outcome(id, False, False, _LOST) for id in job.tasks]


def _exclusively(checks, judge, job):
    """A Dask worker may have several threads; a check needs its process to itself. When the alarm
    ends it, Dask starts another.

    Raises ValueError in a worker that began before the checks were changed, or has those of another
    version."""
    import torch

    if checks != CHECKS:
        raise ValueError(
            "scheduler: a worker has other checks than this computer: bring its copy of the book "
            "up to date and restart it"
        )
    with _LOCK, _alarm(job):
        torch.set_num_threads(1)
        return judge(job)
