"""Handwritten digits: the 1797 of scikit-learn, which come with that package."""

from typing import Any

import torch
from torch import Tensor

from ...extras import extra
from ...validate import check_choice
from .labelled import Labelled

CLASSES = tuple("0123456789")
HELD_OUT = 450  # of the 1797, a quarter


def enlarge(pictures: Tensor) -> Tensor:
    """Pictures ``(N, 8, 8)`` of greys from 0 to 16 as uint8 ``(N, 1, 32, 32)``, bilinear."""
    grey, resize = pictures[:, None].double(), torch.nn.functional.interpolate
    wide = resize(grey, size=(32, 32), mode="bilinear", align_corners=False)
    return (wide * (255 / 16)).round().clamp(0, 255).to(torch.uint8)


def small_digits(part: str = "all") -> Labelled:
    """Digits of 43 writers, 8 × 8 pixels of 17 greys brought to 32 × 32; nothing is downloaded.

    Args:
        part: "train" (1347), "test" (450) or "all" (1797); train and test share no picture, but
            writers.

    Source: the test part of Optical Recognition of Handwritten Digits, Alpaydin and Kaynak 1998 (CC
    BY 4.0).
    """
    check_choice("part", part, ("train", "test", "all"))
    with extra("book", "the data set of digits"):
        from sklearn.datasets import load_digits

    stored: Any = load_digits()
    pictures, labels = enlarge(torch.from_numpy(stored.images)), torch.from_numpy(stored.target)
    data = Labelled(pictures, labels.long(), CLASSES)
    if part == "all":
        return data
    return data.shuffled(0).take(slice(HELD_OUT) if part == "test" else slice(HELD_OUT, None))
