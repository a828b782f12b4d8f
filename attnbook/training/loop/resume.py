"""Checkpoints of a run: written atomically, verified when read, the newest intact one is used."""

import hashlib
import io
import json
import os
import pickle
import re
import shutil
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from ...files import make_folder, write_flushed, writing
from .checkpoints import compare_shapes

_STATE, _MANIFEST = "state.pt", "manifest.json"
_NAME = re.compile(r"step_(\d{6,})")
# With another one the run goes on, though no longer equal to the last bit.
_ONLY_WARN = ("device", "torch")


class DamagedCheckpoint(ValueError):
    """A checkpoint that lacks a file or whose bytes are not those that were written."""

    def __init__(self, path: Path, why: str):
        super().__init__(f"checkpoint {path} is damaged: {why}")


def is_due(step: int, every: int | None, steps: int) -> bool:
    """Whether a checkpoint or an evaluation comes after ``step`` updates: at the end it does."""
    return step == steps or (every is not None and step % every == 0)


def write_checkpoint(
    directory: Path, step: int, state: dict[str, Any], settings: dict[str, Any], keep: int
) -> Path:
    """Write ``state`` to directory/step_NNNNNN and keep only the newest ``keep`` ones.

    Files are written under a temporary name and flushed to the disk; the folder is renamed last.

    Raises:
        OSError: when that fails (no space left, say); earlier checkpoints and no others remain.
    """
    final = directory / f"step_{step:06d}"
    temporary = directory / f".step_{step:06d}.{os.getpid()}.tmp"
    failed = f"the checkpoint of step {step} was not written, earlier ones stay"
    with writing(final, failed, temporary):
        directory.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir()
        buffer = io.BytesIO()
        torch.save(state, buffer)
        data = buffer.getbuffer()
        write_flushed(temporary / _STATE, data)
        digest = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        manifest = {"format": 1, "step": step, "files": {_STATE: digest}, "settings": settings}
        write_flushed(temporary / _MANIFEST, json.dumps(manifest, indent=1).encode())
        shutil.rmtree(final, ignore_errors=True)
        os.replace(temporary, final)
        _flush_directory(directory)
    # A damaged one of a later step is not newer: the run goes on from an earlier one.
    reached = [path for path in checkpoints_in(directory) if _step_of(path) <= step]
    for old in reached[:-keep]:
        _remove(old)
    return final


def checkpoints_in(directory: Path) -> list[Path]:
    """The checkpoints in a directory, oldest first; an absent directory holds none."""
    if not directory.exists():
        return []
    if not directory.is_dir():
        raise ValueError(f"checkpoint_dir must be a directory, got the file {directory}")
    paths = [path for path in directory.iterdir() if _NAME.fullmatch(path.name) and path.is_dir()]
    return sorted(paths, key=_step_of)


def _step_of(path: Path) -> int:
    return int(path.name.removeprefix("step_"))


@contextmanager
def sole_writer(directory: Path) -> Iterator[None]:
    """Make the directory, remove what a killed run was writing or removing there, and keep other
    processes from writing inside the block (not on Windows, nor on a file system without locks).

    Raises:
        ValueError: when another process writes there.
        OSError: when nothing can be written there.
    """
    make_folder("checkpoint_dir", directory)
    lock = _lock(directory)
    try:
        for path in directory.glob(".step_*.tmp"):
            shutil.rmtree(path, ignore_errors=True)
        yield
    finally:
        if lock is not None:
            os.close(lock)


def _lock(directory: Path) -> int | None:
    """What locks the directory until it is closed or the process dies; None without locks."""
    if sys.platform == "win32":
        return None
    import fcntl

    descriptor = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return descriptor
    except OSError as error:
        os.close(descriptor)
        if isinstance(error, BlockingIOError):
            raise ValueError(
                f"checkpoint_dir must be of one run at a time, got {directory}, where another "
                "process is training"
            ) from error
        return None


def read_newest(directory: Path, settings: dict[str, Any]) -> dict[str, Any] | None:
    """The state in the newest intact checkpoint; None when the directory holds no checkpoint.

    A damaged one is passed over with a warning.

    Raises:
        ValueError: when all are damaged, and when the newest intact one was written under other
            settings, naming those that differ.
    """
    paths = checkpoints_in(directory)
    for path in reversed(paths):
        try:
            stored, state = read_checkpoint(path)
        except DamagedCheckpoint as error:
            warnings.warn(f"{error}; an earlier checkpoint is tried", stacklevel=3)
            continue
        check_settings(path.name, stored, settings)
        return state
    if paths:
        raise ValueError(
            f"checkpoint_dir must hold an intact checkpoint or none, got {directory}, where all "
            "are damaged; remove them to begin anew"
        )
    return None


def check_settings(name: str, stored: dict[str, Any], current: dict[str, Any]) -> None:
    """Raise a ValueError that names each setting in which a checkpoint and this call differ."""
    current = json.loads(json.dumps(current))
    parts = []
    # an earlier version wrote fewer
    for key in [key for key in current if stored.get(key, current[key]) != current[key]]:
        old, new = stored[key], current[key]
        if key in _ONLY_WARN:
            warnings.warn(
                f"checkpoint {name} was written with {key} {old}, this run has {new}: it goes on, "
                "but not equal to the last bit",
                stacklevel=4,
            )
        elif key == "schedule":
            at = next((step for step in old if step in new and old[step] != new[step]), None)
            if at is not None:
                there = f"factor {old[at]:g} at step {at} in the checkpoint"
                parts.append(f"schedule: {there}, {new[at]:g} in this call")
        elif key == "modules":
            changed = [name for name in {**old, **new} if old.get(name) != new.get(name)]
            parts += [
                f"{name}: {old.get(name)} in the checkpoint, {new.get(name)} in this call"
                for name in changed[:3]
            ]
        elif key == "shapes":
            difference = compare_shapes(old, new) or "same names and shapes in another order"
            parts.append(f"the parameters: {difference}")
        else:
            parts.append(f"{key}: {old!r} in the checkpoint, {new!r} in this call")
    if parts:
        raise ValueError(
            f"checkpoint_dir must be of this run, got {name} of another run. {'; '.join(parts)}. "
            "Choose another directory, or remove it"
        )


def read_checkpoint(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The settings and the state of one checkpoint.

    Raises:
        DamagedCheckpoint: a ValueError, unless all bytes of the state are those that were written.
    """
    try:
        manifest = json.loads((path / _MANIFEST).read_bytes())
        settings = dict(manifest["settings"])
        size, digest = (manifest["files"][_STATE][key] for key in ("bytes", "sha256"))
        data = (path / _STATE).read_bytes()
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DamagedCheckpoint(path, repr(error)) from error
    if len(data) != size:
        raise DamagedCheckpoint(path, f"{_STATE} has {len(data)} bytes of {size}")
    if hashlib.sha256(data).hexdigest() != digest:
        raise DamagedCheckpoint(path, f"{_STATE} has another SHA-256 than when it was written")
    try:
        return settings, torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError) as error:
        raise DamagedCheckpoint(path, str(error).splitlines()[0]) from error


def _flush_directory(directory: Path) -> None:
    """Make the rename itself survive a power cut, where the system lets a directory be opened."""
    try:
        descriptor = os.open(directory, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove(path: Path) -> None:
    """Remove a checkpoint by way of another name: a kill leaves no half of one."""
    renamed = path.with_name(f".{path.name}.old.tmp")
    shutil.rmtree(renamed, ignore_errors=True)
    os.replace(path, renamed)
    shutil.rmtree(renamed, ignore_errors=True)
