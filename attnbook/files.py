"""Files that are written whole or not at all."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

__all__ = ["make_folder", "write_atomically", "write_flushed", "writing"]


def make_folder(name: str, folder: Path) -> None:
    """Make an argument's folder and write there: an OSError comes before the training."""
    with writing(folder, f"{name} cannot be written"):
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()


@contextmanager
def writing(path: Path, failed: str, temporary: Path | None = None) -> Iterator[None]:
    """An error leaves no ``temporary``; an OSError names the path and says what failed."""
    try:
        yield
    except BaseException as error:
        if temporary is not None:
            shutil.rmtree(temporary, ignore_errors=True)
            with suppress(OSError):  # a read-only disk has none, and refuses all the same
                temporary.unlink()
        if isinstance(error, OSError):
            raise OSError(error.errno, f"{failed}: {error.strerror}", str(path)) from error
        raise


def write_atomically(path: str | os.PathLike, data: bytes) -> Path:
    """Write a file under a temporary name in its folder, which is made if there is none, flush it
    to the disk, then rename it: never a file that is half written.
    """
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with writing(path, f"{path.name} was not written", temporary):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_flushed(temporary, data)
        os.replace(temporary, path)
    return path


def write_flushed(path: Path, data: Any) -> None:
    """Write bytes and wait until they are on the disk."""
    with open(path, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
