"""Files of real data: from a local mirror, from the cache, or downloaded, and always checked
against a checksum.

`data/registry.csv` lists every file with its address, size and checksum: SHA-256, or the SHA-1
under which git stores a blob where that is all that is published. With the variable ATTNBOOK_DATA
set to a folder laid out as ``NAME/FILE`` nothing is ever downloaded."""

from __future__ import annotations

import csv
import errno
import glob
import hashlib
import os
import shutil
import threading
import time
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from .. import resources

VARIABLE = "ATTNBOOK_DATA"
ATTEMPTS = 3  # downloads of one file before giving up
TIMEOUT = 30.0  # seconds without a byte before a download counts as failed


class Entry(NamedTuple):
    """One file of the registry; `bytes` is 0 where the size is not known."""

    name: str
    file: str
    url: str
    sha256: str
    git_blob_sha1: str
    licence: str
    bytes: int
    attribution: str

    @property
    def checksum(self) -> tuple[str, str]:
        """The kind of checksum and its value."""
        return ("SHA-256", self.sha256) if self.sha256 else ("git blob SHA-1", self.git_blob_sha1)


@lru_cache(maxsize=4)
def read_registry(path: str | os.PathLike | None = None) -> dict[tuple[str, str], Entry]:
    """The registry by (name, file); `data/registry.csv` unless another path is given."""
    path = Path(path) if path is not None else resources.path("data/registry.csv")
    with path.open(encoding="utf-8", newline="") as stream:
        rows = [Entry(**{**row, "bytes": int(row["bytes"] or 0)}) for row in csv.DictReader(stream)]
    return {(row.name, row.file): row for row in rows}


def entry(name: str, file: str) -> Entry:
    """The registry's entry of a file. Raises ValueError naming what there is."""
    entries = read_registry()
    if (name, file) in entries:
        return entries[name, file]
    files = [known for data_set, known in entries if data_set == name]
    if not files:
        raise ValueError(
            f"name must be one of {', '.join(sorted({n for n, _ in entries}))}, got {name!r}"
        )
    raise ValueError(f"file of {name} must be one of {', '.join(files)}, got {file!r}")


def licence(name: str) -> str:
    """The licence of a data set."""
    return _any(name).licence


def attribution(name: str) -> str:
    """Whom to credit when a data set is used or shown."""
    return _any(name).attribution


def _any(name: str) -> Entry:
    for (data_set, _), found in read_registry().items():
        if data_set == name:
            return found
    return entry(name, "")


def mirror() -> Path | None:
    """The folder named by ATTNBOOK_DATA, or None.

    Raises FileNotFoundError when there is no such folder.
    """
    value = os.environ.get(VARIABLE, "").strip()
    if not value:
        return None
    folder = Path(value).expanduser()
    if not folder.is_dir():
        raise FileNotFoundError(
            f"{VARIABLE} names {folder}, which is not a folder; unset it to download instead"
        )
    return folder


def cache() -> Path:
    """Where downloads are kept: the cache folder of the user's system."""
    import pooch

    return Path(pooch.os_cache("attnbook"))


def available(name: str, file: str) -> bool:
    """Whether `fetch` needs no download: the file is in the mirror, or, without a mirror, in the
    cache.
    """
    folder = mirror() or cache()
    entry(name, file)
    return (folder / name / file).is_file()


def fetch(name: str, file: str) -> Path:
    """The path of a file of a data set, downloaded if need be, and equal to its checksum.

    Raises ValueError for a name or file that is not in the registry, or when the content is not
    what the checksum says (a corrupt download is kept beside as FILE.corrupt, and tried again up to
    3 times in all); FileNotFoundError when ATTNBOOK_DATA is set and the folder lacks the file;
    OSError when the download fails or no space is left (nothing half-written stays behind)."""
    found = entry(name, file)
    folder = mirror()
    if folder is not None:
        path = folder / name / file
        if not path.is_file():
            raise FileNotFoundError(
                f"the folder {folder} lacks {name}/{file}; {VARIABLE} names that folder, so "
                f"nothing is downloaded: "
                f"add the file{f' from {found.url}' if found.url else ''}, or unset {VARIABLE}"
            )
        _verify(path, found, f"{VARIABLE} names the folder it lies in")
        return path
    path = cache() / name / file
    if path.is_file():
        try:
            _verify(path, found, "")
            return path
        except ValueError:
            os.replace(path, _aside(path))
    return _download(found, path)


def checksum(path: str | os.PathLike, kind: str = "SHA-256") -> str:
    """The checksum of a file, in hexadecimal.

    kind  "SHA-256", or "git blob SHA-1": the SHA-1 of ``blob SIZE\\0`` followed by the content
    """
    path = Path(path)
    if kind == "SHA-256":
        digest = hashlib.sha256()
    elif kind == "git blob SHA-1":
        digest = hashlib.sha1(b"blob %d\0" % path.stat().st_size, usedforsecurity=False)
    else:
        raise ValueError(f'kind must be "SHA-256" or "git blob SHA-1", got {kind!r}')
    with path.open("rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


_verified: dict[tuple[str, str], tuple[int, int]] = {}


def _verify(path: Path, found: Entry, hint: str) -> None:
    kind, expected = found.checksum
    status = path.stat()
    stamp = status.st_size, status.st_mtime_ns
    # hashed before by this process and not touched since
    if _verified.get((str(path), expected)) == stamp:
        return
    actual = checksum(path, kind)
    if actual != expected:
        size = (
            f" ({status.st_size} bytes, expected {found.bytes})"
            if found.bytes
            else f" ({status.st_size} bytes)"
        )
        raise ValueError(
            f"{path}{size} is corrupt or truncated: {kind} expected {expected}, found "
            f"{actual}{hint and '; '}{hint}"
        )
    _verified[str(path), expected] = stamp


def _aside(path: Path) -> Path:
    return path.with_name(path.name + ".corrupt")


def _part(path: Path) -> Path:
    """The temporary name, one for each process and thread."""
    return path.with_name(f"{path.name}.{os.getpid()}-{threading.get_ident()}.part")


def _sweep(path: Path) -> None:
    """Remove what downloads that were killed left behind an hour ago or longer."""
    for old in path.parent.glob(f"{glob.escape(path.name)}.*.part"):
        try:
            if time.time() - old.lstat().st_mtime > 3600:
                old.unlink()
        except OSError:
            continue  # another process was faster


def _download(found: Entry, path: Path) -> Path:
    import pooch
    import requests

    if not found.url:
        raise FileNotFoundError(
            f"{found.name}/{found.file} cannot be downloaded: it is made from other files (see "
            f"data/README.md); "
            f"put it in a folder and name the folder in {VARIABLE}"
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    _sweep(path)
    if found.bytes > shutil.disk_usage(path.parent).free:
        raise _no_space(found, path)
    download = pooch.HTTPDownloader(timeout=TIMEOUT)
    part = _part(path)
    failure: Exception | None = None
    try:
        for _ in range(ATTEMPTS):
            try:
                download(found.url, str(part), None)
                _verify(part, found, "")
            except ValueError as error:
                os.replace(part, _aside(path))
                failure = ValueError(
                    str(error).replace(str(part), f"{found.url} (kept as {_aside(path)})")
                    + f"; {ATTEMPTS} downloads brought the same"
                )
            except requests.RequestException as error:
                failure = OSError(
                    f"{found.name}/{found.file} could not be downloaded from {found.url}: {error}"
                )
                status = getattr(error.response, "status_code", None)
                if status is not None and 400 <= status < 500:
                    break  # asking again does not help
            except OSError as error:
                if error.errno == errno.ENOSPC:
                    raise _no_space(found, path) from error
                raise
            else:
                os.replace(part, path)
                return path
    finally:
        part.unlink(missing_ok=True)
    if isinstance(failure, OSError):
        failure = OSError(
            f"{failure}; without a network, put the file in a folder and name the folder in "
            f"{VARIABLE}"
        )
    raise failure


def _no_space(found: Entry, path: Path) -> OSError:
    size = f"{found.bytes} bytes" if found.bytes else "of unknown size"
    return OSError(
        errno.ENOSPC,
        f"no space left in {path.parent} for {found.name}/{found.file} ({size}); nothing was kept",
    )
