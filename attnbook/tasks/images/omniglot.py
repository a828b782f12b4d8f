"""Omniglot: 1,623 characters of 50 alphabets, each drawn by 20 people, as grey 28 × 28 pixels.

Lake, Salakhutdinov and Tenenbaum 2015. The sets are files of the registry: "small1" and "small2",
the two small training sets of the authors, and "background" and "evaluation", the full ones."""

import io
import zipfile
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from ...extras import extra
from ...validate import check_choice, require
from .. import datasets
from .few_shot_episodes import Classes

SETS = {
    "small1": "images_background_small1.zip",
    "small2": "images_background_small2.zip",
    "background": "images_background.zip",
    "evaluation": "images_evaluation.zip",
}
SIZE = 28
SPLITS = {"small": ("small1", "small2"), "full": ("background", "evaluation")}
"""Which set is for training and which for testing."""
_ORIGINAL = 105  # pixels of the files, each way


@lru_cache(maxsize=4)
def read(name: str) -> Classes:
    """All characters of a set, in the order of alphabets and characters; ink is 255.

    The files are 105 × 105 with one bit per pixel; a pixel of ours is the mean of those that it
    covers.
    """
    with extra("book", "Omniglot"):
        from PIL import Image

    check_choice("name", name, SETS)
    characters: dict[tuple[str, str], list[str]] = {}
    with zipfile.ZipFile(datasets.fetch("omniglot", SETS[name])) as archive:
        for member in sorted(archive.namelist()):
            parts = member.split("/")
            if member.endswith(".png") and len(parts) == 4 and parts[0] != "__MACOSX":
                characters.setdefault((parts[1], parts[2]), []).append(member)
        counts = sorted({len(members) for members in characters.values()})
        require(
            len(counts) == 1,
            f"{SETS[name]} must hold characters with one number of examples, found {counts}",
        )

        def ground(member: str) -> Tensor:
            with Image.open(io.BytesIO(archive.read(member))) as picture:
                n, size = _ORIGINAL, picture.size
                require(size == (n, n), f"{member} must be {n} by {n} pixels, got {size}")
                return torch.from_numpy(np.array(picture.convert("L")))

        rows = []
        for members in characters.values():
            ink = 255.0 - torch.stack([ground(member) for member in members])[:, None]
            small = F.interpolate(ink, size=(SIZE, SIZE), mode="bilinear", antialias=True)[:, 0]
            rows.append(small.round().clamp(0, 255).to(torch.uint8))
    return Classes(torch.stack(rows), tuple(characters))


def split(size: str = "small") -> tuple[Classes, Classes]:
    """Classes to learn from and classes to be tested on, of different alphabets.

    "small" trains on small1, 136 characters of five alphabets, and tests on small2 without the
    alphabets that are in both: 106 characters of three. "full" trains on the 964 characters of the
    background set and tests on the 659 of the evaluation set. (Mishra et al. 2018 mix all alphabets
    and learn from 1,200 characters.)
    """
    check_choice("size", size, SPLITS)
    train, test = (read(name) for name in SPLITS[size])
    known = set(train.alphabets)
    new = [k for k, (alphabet, _) in enumerate(test.names) if alphabet not in known]
    return train, Classes(test.pictures[new], tuple(test.names[k] for k in new))
