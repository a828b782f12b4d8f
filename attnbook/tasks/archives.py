"""Archives that a server makes anew at each request: their bytes differ, the files in them do
not, so these are checked.
"""

from __future__ import annotations

import hashlib
import os
import tarfile
import zlib
from collections.abc import Callable
from pathlib import Path

from . import datasets

__all__ = ["fetch_archive", "members_digest"]


def members_digest(path: str | os.PathLike, chosen: Callable[[str], bool]) -> str:
    """One SHA-256 over the chosen files of a tar archive, whatever its compression, order, owners
    and dates.

    It is that of the lines ``SHA-256  NAME``, sorted by name, each with a line feed; NAME without
    the first folder, which GitHub names after the commit. Raises ValueError when the archive is
    damaged or holds none of them."""
    lines = []
    try:
        with tarfile.open(path, "r:*") as archive:
            for member in archive:
                if member.isfile() and chosen(member.name):
                    name = member.name.partition("/")[2]
                    lines.append(
                        (name, hashlib.sha256(archive.extractfile(member).read()).hexdigest())
                    )
    except (tarfile.TarError, EOFError, OSError, zlib.error) as error:
        raise ValueError(f"path: {path} is not a whole archive ({error})") from error
    if not lines:
        raise ValueError(f"path: {path} holds none of the files that are asked for")
    return hashlib.sha256(
        "".join(f"{digest}  {name}\n" for name, digest in sorted(lines)).encode()
    ).hexdigest()


def fetch_archive(
    name: str, file: str, url: str, digest: str, chosen: Callable[[str], bool]
) -> Path:
    """The path of an archive: from the folder of ATTNBOOK_DATA as the registry knows it, else
    downloaded and checked by its files.

    Args:
        name, file: as in :func:`attnbook.tasks.datasets.fetch`.
        url: where the archive is made.
        digest, chosen: what :func:`members_digest` has to give for it, of the files that
            ``chosen(member)`` names.

    Raises:
        ValueError: for a name or file that is not in the registry; when the files are not those
            expected (the download is kept beside as FILE.corrupt).
        FileNotFoundError: when ATTNBOOK_DATA is set and the folder lacks the file.
        OSError: when the download fails; nothing half-written stays behind.
    """
    datasets.entry(name, file)
    if datasets.mirror() is not None:
        return datasets.fetch(name, file)
    path = datasets.cache() / name / file
    if path.is_file():
        try:
            if members_digest(path, chosen) == digest:
                return path
        except ValueError:
            pass
        os.replace(path, path.with_name(path.name + ".corrupt"))
    import pooch
    import requests

    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        try:
            pooch.HTTPDownloader(timeout=datasets.TIMEOUT)(url, str(part), None)
        except requests.RequestException as error:
            raise OSError(
                f"{name}/{file} could not be downloaded from {url}: {error}; without a network, "
                f"put the file in a folder and "
                f"name the folder in {datasets.VARIABLE}"
            ) from error
        try:
            found = members_digest(part, chosen)
        except ValueError as error:
            found = str(error)
        if found != digest:
            aside = path.with_name(path.name + ".corrupt")
            os.replace(part, aside)
            raise ValueError(
                f"{url} (kept as {aside}) does not hold the files expected: digest {digest}, "
                f"found {found}"
            )
        os.replace(part, path)
        return path
    finally:
        part.unlink(missing_ok=True)
