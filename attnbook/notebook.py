"""The set-up cell of every notebook: `setup = attnbook.setup(seed=0)`."""

from __future__ import annotations

import ctypes
import os
import random
import sys
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import torch

PRESETS = ("auto", "quick", "full")


class Setup(NamedTuple):
    """What a notebook runs on: the device, the preset ("quick" or "full") and the seed."""

    device: torch.device
    preset: str
    seed: int

    @property
    def full(self) -> bool:
        """True in the full preset (the paper's size)."""
        return self.preset == "full"


def setup(
    seed: int = 0, preset: str = "auto", figures: bool = True, interface: int | None = None
) -> Setup:
    """Seed the generators, choose device and preset, make figures readable, and say on one line
    what the notebook runs on.

    May be called again: it always leaves the same state behind.

    Args:
        seed: of Python's, NumPy's and torch's global generators, >= 0.
        preset: "quick", "full" or "auto": what the variable ATTNBOOK_PRESET says, else "full" with
            a CUDA device and "quick" without.
        figures: False leaves figures as they are; matplotlib, which takes seconds to load, is not
            needed then.
        interface: the number of the library's interface that a notebook was written for.

    Returns:
        ``Setup(device, preset, seed)``.

    Raises:
        ValueError: a preset that is none of these, or a negative seed.
        RuntimeError: this library no longer offers that interface, or does not offer it yet; the
            message says what to do.
    """
    import numpy as np
    import torch

    from .validate import check_integer
    from .version import __version__

    seed = check_integer("seed", seed, 0)
    if interface is not None:
        _compare_interface(interface)
    cuda = torch.cuda.is_available()
    chosen, name = preset, "preset"
    if preset == "auto" and os.environ.get("ATTNBOOK_PRESET"):
        chosen, name = os.environ["ATTNBOOK_PRESET"], "ATTNBOOK_PRESET"
    if chosen not in PRESETS:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, PRESETS))}, got {chosen!r}")
    if chosen == "auto":
        chosen = "full" if cuda else "quick"
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)
    # 32 bits on a GPU too, where PyTorch rounds the factors of convolutions and recurrent networks
    # to 19 (TF32)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    _keep_freed_memory()
    if figures:
        _figures()
    device = torch.device("cuda" if cuda else "cpu")
    print(
        f"attnbook {__version__} · torch {torch.__version__} · numpy {np.__version__} · "
        f"{device.type} · {chosen} preset"
    )
    return Setup(device, chosen, seed)


def _compare_interface(wanted: int) -> None:
    from .validate import check_integer
    from .version import INTERFACE, OLDEST_INTERFACE

    check_integer("interface", wanted)
    if wanted < OLDEST_INTERFACE:
        raise RuntimeError(
            f"This notebook is older than the installed attnbook: it was written for interface "
            f"{wanted}, and the library offers {OLDEST_INTERFACE} to {INTERFACE}. Open the "
            f"notebook again from its badge."
        )
    if wanted > INTERFACE:
        raise RuntimeError(
            f"The installed attnbook is older than this notebook: it offers interface {INTERFACE}, "
            f"and the notebook was written for {wanted}. On Colab choose Runtime → Disconnect and "
            f"delete runtime, then run again; elsewhere install attnbook again."
        )


def _keep_freed_memory() -> None:
    """Let glibc reuse large buffers. By default it returns each one of more than 32 MB to the
    system as soon as it is free, and the next step of a training pays for fresh pages again, up to
    half of its time. Without effect elsewhere.
    """
    if sys.platform != "linux":
        return
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):  # another C library
        return
    trim_threshold, mmap_max = -1, -4  # M_TRIM_THRESHOLD and M_MMAP_MAX of malloc.h
    mallopt(trim_threshold, 2**31 - 1)
    mallopt(mmap_max, 0)


def _figures() -> None:
    """Figures as one opaque PNG each, readable on a light and on a dark page and sharp on a screen
    of twice the points; the same bytes when drawn again.
    """
    try:
        from .figures import style
    except ImportError:
        style = None
    if style is not None:
        style()
    try:
        from IPython import get_ipython
    except ImportError:  # a plain script
        return
    shell = get_ipython()
    # a terminal: figures open in windows of their own
    if shell is None or not hasattr(shell, "kernel"):
        return
    from matplotlib_inline.config import InlineBackend

    backend = InlineBackend.instance(parent=shell)
    backend.figure_formats = {"retina"}
    # No software stamp in the PNG: a rebuild on the same machine gives the same bytes.
    backend.print_figure_kwargs = {"bbox_inches": "tight", "metadata": {"Software": None}}
