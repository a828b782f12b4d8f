"""Files of real data, from a mirror, the cache or a download, always checked by a checksum.

`data/registry.csv` lists every file with its address, size and checksum: SHA-256, or the SHA-1
under which git stores a blob where that is all that is published. With the variable ATTNBOOK_DATA
set to a folder laid out as ``NAME/FILE`` nothing is ever downloaded. A new data set is its rows in
that file, one row in the table of `data/README.md`, and a loader that calls :func:`fetch`.
"""

import csv
import hashlib
import os
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from .. import resources
from ..extras import extra
from ..validate import check_choice

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

    def verify(self, path: Path) -> None:
        """Raise a ValueError unless the file has the registry's checksum."""
        content = path.read_bytes()
        if self.sha256:
            kind, expected = "SHA-256", self.sha256
            actual = hashlib.sha256(content).hexdigest()
        else:
            kind, expected = "git blob SHA-1", self.git_blob_sha1
            blob = b"blob %d\0" % len(content) + content
            actual = hashlib.sha1(blob, usedforsecurity=False).hexdigest()
        if actual != expected:
            size = f", expected {self.bytes}" if self.bytes else ""
            raise ValueError(
                f"{path} ({len(content)} bytes{size}) is corrupt or truncated: {kind} expected "
                f"{expected}, got {actual}"
            )


@lru_cache
def read_registry() -> dict[tuple[str, str], Entry]:
    """The registry, `data/registry.csv`, by (name, file)."""
    with resources.path("data/registry.csv").open(encoding="utf-8", newline="") as stream:
        rows = [Entry(**{**row, "bytes": int(row["bytes"] or 0)}) for row in csv.DictReader(stream)]
    return {(row.name, row.file): row for row in rows}


def entry(name: str, file: str) -> Entry:
    """The registry's entry of a file."""
    files = [row.file for row in _rows_of(name)]
    return read_registry()[name, check_choice(f"file of {name}", file, files)]


def attribution(name: str) -> str:
    """Whom to credit when a data set is used or shown."""
    return _rows_of(name)[0].attribution


def _rows_of(name: str) -> list[Entry]:
    rows = read_registry().values()
    check_choice("name", name, sorted({row.name for row in rows}))
    return [row for row in rows if row.name == name]


def mirror() -> Path | None:
    """The folder named by ATTNBOOK_DATA, or None.

    Raises:
        FileNotFoundError: there is no such folder.
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
    """The folder of downloaded files: the user cache of the operating system."""
    with extra("book", "a data set"):
        import pooch

    return Path(pooch.os_cache("attnbook"))


def fetch(
    name: str, file: str, *, url: str = "", check: Callable[[Path], None] | None = None
) -> Path:
    """The path of a file of a data set, downloaded if need be, and equal to its checksum.

    Args:
        name: of the data set.
        file: its path below the name.
        url: of an archive that a server packs anew at each request, so that its bytes differ.
        check: ``check(path)`` raises a ValueError unless that archive holds the files expected.

    Raises:
        ValueError: the registry has no such file, or the content does not match the checksum (a
            download is tried 3 times).
        FileNotFoundError: ATTNBOOK_DATA is set and the folder lacks the file, or no address serves
            it.
        OSError: the download fails or the disk is full; no partial file remains.
    """
    record, folder, key = entry(name, file), mirror(), f"{name}/{file}"
    url = url or record.url
    if folder is not None:
        path = folder / name / file
        if not path.is_file():
            raise FileNotFoundError(
                f"the folder {folder} lacks {key}; {VARIABLE} names that folder, so nothing is "
                f"downloaded: add the file{f' from {url}' if url else ''}, or unset {VARIABLE}"
            )
        try:
            record.verify(path)
        except ValueError as error:
            raise ValueError(f"{error}; {VARIABLE} names the folder it lies in") from None
        return path
    if not url:
        raise FileNotFoundError(
            f"{key} cannot be downloaded: it is made from other files (see data/README.md); put "
            f"it in a folder and name the folder in {VARIABLE}"
        )
    with extra("book", "a download"):
        import pooch
    # pooch knows SHA-256; what else identifies a file is checked here, on the temporary download
    # and on the cached file.
    check = check or (None if record.sha256 else record.verify)
    path = cache() / name / file
    if check is not None and path.is_file():
        try:
            check(path)
        except ValueError:
            path.unlink()

    def download(url: str, output: str, shelf: pooch.Pooch) -> None:
        pooch.HTTPDownloader(timeout=TIMEOUT)(url, output, shelf)
        if check is not None:
            check(Path(output))

    shelf = pooch.create(
        path=cache(),
        base_url="",
        registry={key: None if check else f"sha256:{record.sha256}"},
        urls={key: url},
        retry_if_failed=ATTEMPTS - 1,
    )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)  # pooch fails where another makes it, too
        # pooch types a downloader by other names of its arguments than it passes
        return Path(shelf.fetch(key, downloader=download))  # pyright: ignore[reportArgumentType]
    except ValueError as error:
        raise ValueError(f"{key} from {url} is not the file expected: {error}") from error
    except OSError as error:  # those of requests are among them
        raise OSError(
            error.errno,
            f"{key} could not be downloaded from {url}: {error}; without a network, put the file "
            f"in a folder and name the folder in {VARIABLE}",
        ) from error
