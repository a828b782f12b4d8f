"""Handwritten digits: the 1797 of scikit-learn, which come with that package, and MNIST."""

from __future__ import annotations

import gzip
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ...extras import extra
from ...validate import check_choice, require
from .. import datasets
from .labelled import Labelled

CLASSES = tuple("0123456789")
PARTS = ("train", "test", "all")
HELD_OUT = 450  # of the 1797, a quarter


def enlarge(pictures: torch.Tensor, size: int = 32) -> torch.Tensor:
    """Pictures ``(N, 8, 8)`` of greys from 0 to 16 as uint8 ``(N, 1, size, size)``, bilinear."""
    wide = torch.nn.functional.interpolate(
        pictures[:, None].double(), size=(size, size), mode="bilinear", align_corners=False
    )
    return (wide * (255 / 16)).round().clamp(0, 255).to(torch.uint8)


def small_digits(part: str = "all") -> Labelled:
    """Digits of 43 writers at 8 × 8 pixels and 17 greys, brought to 32 × 32, ink white on black;
    nothing is downloaded.

    Args:
        part: "train" (1347), "test" (450) or "all" (1797); train and test share no picture, but
            writers.

    Source: the test part of Optical Recognition of Handwritten Digits, Alpaydin and Kaynak 1998 (CC
    BY 4.0).
    """
    check_choice("part", part, PARTS)
    with extra("book", "the data set of digits"):
        from sklearn.datasets import load_digits

    stored: Any = load_digits()
    pictures, labels = enlarge(torch.from_numpy(stored.images)), torch.from_numpy(stored.target)
    data = Labelled(pictures, labels.long(), CLASSES)
    if part == "all":
        return data
    return data.shuffled(0).take(slice(HELD_OUT) if part == "test" else slice(HELD_OUT, None))


def read_idx(path: Path) -> torch.Tensor:
    """A gzipped IDX file of bytes as a uint8 tensor of the shape in its header.

    The header: two zero bytes, the type (8: unsigned byte), the number of dimensions, and each of
    them as a big-endian int32.
    """
    try:
        content = gzip.decompress(Path(path).read_bytes())
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"path must be a complete gzip file, got {path}: {error}") from error
    require(
        len(content) >= 4 and content[:3] == b"\0\0\x08",
        f"path must be an IDX file of unsigned bytes, got {path}, which begins {content[:4]!r}",
    )
    head = 4 + 4 * content[3]
    require(
        len(content) >= head,
        f"path must have a header of {content[3]} dimensions, got {path}, which ends in it",
    )
    shape = struct.unpack(f">{content[3]}i", content[4:head])
    body = torch.from_numpy(np.frombuffer(content, dtype=np.uint8)[head:].copy())
    require(
        len(body) == torch.Size(shape).numel(),
        f"path must hold {shape} bytes by its header, got {len(body)} in {path}",
    )
    return body.view(shape)


def mnist(part: str = "train") -> Labelled:
    """MNIST, 60,000 training or 10,000 test digits of 28 × 28 pixels with two black pixels on each
    side: 32 × 32.

    A folder named in ATTNBOOK_DATA may hold the training pictures as `mnist` or as
    `mnist-train-rebuilt`.
    """
    check_choice("part", part, PARTS[:2])
    if part == "test":
        pictures = datasets.fetch("mnist-t10k", "t10k-images-idx3-ubyte.gz")
    else:
        file, rebuilt = "train-images-idx3-ubyte.gz", "mnist-train-rebuilt"
        pictures = datasets.fetch(rebuilt if datasets.available(rebuilt, file) else "mnist", file)
    kind = "t10k" if part == "test" else "train"
    labels = datasets.fetch("mnist-t10k", f"{kind}-labels-idx1-ubyte.gz")
    wide = torch.nn.functional.pad(read_idx(pictures)[:, None], (2, 2, 2, 2))
    return Labelled(wide, read_idx(labels).long(), CLASSES)
