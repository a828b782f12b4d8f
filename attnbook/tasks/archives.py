"""Archives that a server packs anew at each request: the checksum covers the files in them."""

import hashlib
import os
import tarfile
import zlib
from collections.abc import Callable
from pathlib import Path

from ..validate import require
from . import datasets


def members_digest(path: str | os.PathLike, chosen: Callable[[str], bool]) -> str:
    """One SHA-256 over the chosen files of a tar archive, however packed, ordered, owned or dated.

    It is that of the lines ``SHA-256  NAME``, sorted by name, each with a line feed; NAME without
    the first folder, which GitHub names after the commit.
    """
    lines = []
    try:
        with tarfile.open(path, "r:*") as archive:
            for member in archive:
                content = archive.extractfile(member) if member.isfile() else None
                if content is not None and chosen(member.name):
                    name = member.name.partition("/")[2]
                    lines.append((name, hashlib.sha256(content.read()).hexdigest()))
    except (tarfile.TarError, EOFError, OSError, zlib.error) as error:
        raise ValueError(f"path must be a complete archive, got {path} ({error})") from error
    require(bool(lines), f"path must hold the chosen files, got none in {path}")
    listed = "".join(f"{digest}  {name}\n" for name, digest in sorted(lines))
    return hashlib.sha256(listed.encode()).hexdigest()


def fetch_archive(
    name: str, file: str, url: str, digest: str, chosen: Callable[[str], bool]
) -> Path:
    """The path of an archive: from the folder ATTNBOOK_DATA, else downloaded, its files checked.

    Args:
        name, file: as in :func:`attnbook.tasks.datasets.fetch`, whose errors this raises.
        url: the address that serves the archive.
        digest, chosen: what :func:`members_digest` has to give for it, of the files that
            ``chosen(member)`` names.
    """

    def check(path: Path) -> None:
        if (came := members_digest(path, chosen)) != digest:
            raise ValueError(f"{path} must hold files with the digest {digest}, got {came}")

    return datasets.fetch(name, file, url=url, check=check)
