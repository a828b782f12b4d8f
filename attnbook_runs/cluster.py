"""Recorded runs on the machines of a Dask cluster, written here."""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from attnbook.scheduler import connect

from . import registry

__all__ = ["RunsFailed", "reproduce_on"]

_ALONE = threading.Lock()


class RunsFailed(RuntimeError):
    """Some runs of several ended in an error; the message names each."""


def reproduce_on(
    scheduler: str,
    runs: Sequence[tuple[str, int]],
    *,
    out: str | os.PathLike = "results",
    device: str | None = None,
    commit: str | None = None,
    **overrides: Any,
) -> Iterator[Path]:
    """As :func:`~attnbook_runs.reproduce` for each (name, seed), on the workers of a Dask
    scheduler, one run at a time in each worker process.

    Workers need this version of the library, and the data sets; files come back and are written
    to ``out`` here, also the weights that a run stores. A run whose worker dies begins anew on
    another one.

    Args:
        scheduler: Its address, as tcp://127.0.0.1:8786.
        device: Of the workers; by default the GPU of one that has it.

    Yields:
        The path of each JSON, in the order in which the runs are done.

    Raises:
        ValueError: As `reproduce`, before any run, and where no scheduler answers.
        ImportError: Without Dask.
        RunsFailed: After the other runs, if some failed.
    """
    from attnbook.files import make_folder, write_atomically

    folder = Path(out)
    for name, seed in runs:
        registry.prepare(name, seed, folder, overrides)
    make_folder("out", folder)
    source, commit, failed = registry._source(), commit or registry._commit(), []
    with connect(scheduler) as client:
        from distributed import as_completed

        futures = {
            client.submit(_run, source, name, seed, device, commit, overrides, pure=False): run
            for run in runs
            for name, seed in [run]
        }
        for future in as_completed(futures):
            name, seed = futures[future]
            try:
                files = future.result()
            except Exception as error:
                failed.append(f"{name} with seed {seed}: {error}")
                continue
            for file, data in files.items():
                written = write_atomically(folder / file, data)
                if file == registry.record_name(name, seed):
                    yield written
    if failed:
        raise RunsFailed(f"{len(failed)} of {len(runs)} runs failed: " + "; ".join(failed))


def _run(
    source: str, name: str, seed: int, device: str | None, commit: str, overrides: dict[str, Any]
) -> dict[str, bytes]:
    """On a worker: the files that the run writes.

    Raises:
        ValueError: In a worker that has other code.
    """
    if source != registry._source():
        raise ValueError(
            "scheduler: a worker has another version of the library than this computer: bring it "
            "up to date and restart it"
        )
    # a worker may have several threads; the random numbers of a run are those of its process
    with _ALONE, tempfile.TemporaryDirectory() as folder:
        registry.reproduce(name, seed=seed, out=folder, device=device, commit=commit, **overrides)
        return {path.name: path.read_bytes() for path in sorted(Path(folder).iterdir())}
