"""Runs a notebook in a fresh kernel, in the environment that the book is built and tested in,
and measures it.
"""

from __future__ import annotations

import base64
import io
import os
import sys
import time
from pathlib import Path
from typing import Any, cast

from nbformat import NotebookNode

from .measure import PeakMemory

# The quick preset on the CPU, without a mirror of data sets: what every machine can do again.
SET = {
    "ATTNBOOK_PRESET": "quick",
    "ATTNBOOK_PROGRESS": "0",
    "CUDA_VISIBLE_DEVICES": "",
    # threads that wait in a loop cost ten times the work where other programs run too
    "OMP_WAIT_POLICY": "PASSIVE",
    "PYTHONHASHSEED": "0",
    "PYTHONWARNINGS": "ignore::DeprecationWarning",
    "TQDM_DISABLE": "1",
}
UNSET = ("ATTNBOOK_DATA", "MPLBACKEND", "MATPLOTLIBRC", "PYTHONSTARTUP")


def environment() -> dict[str, str]:
    """The variables that a kernel of the book runs with."""
    env = {name: value for name, value in os.environ.items() if name not in UNSET}
    return {**env, **SET}


def execute(nb: NotebookNode, folder: Path, timeout: int = 3600) -> dict[str, float]:
    """Run `nb` in place, with `folder` as working directory, and leave outputs that a second run
    makes again byte by byte.

    timeout: seconds for the kernel's start, for one cell and for what it prints, against hanging.
    Returns {"seconds": from a cold start to the end, "peak_mb": of the kernel and its children}.
    Raises nbclient's CellExecutionError or CellTimeoutError.
    """
    from jupyter_client.kernelspec import KernelSpec, KernelSpecManager
    from jupyter_client.manager import AsyncKernelManager
    from nbclient import NotebookClient

    class ThisPython(KernelSpecManager):
        """Every kernel is the Python that runs this, whatever kernels are installed for the
        user.
        """

        def get_kernel_spec(self, kernel_name):
            argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
            return KernelSpec(argv=argv, display_name="Python 3 (ipykernel)", language="python")

    manager = AsyncKernelManager(kernel_name="python3", kernel_spec_manager=ThisPython())
    client = NotebookClient(
        nb,
        km=manager,
        timeout=timeout,
        startup_timeout=timeout,
        iopub_timeout=timeout,
        record_timing=False,
        coalesce_streams=True,
        resources={"metadata": {"path": str(folder)}},
    )
    metadata, watcher = dict(nb.metadata), []

    def watch(**_):
        if not watcher:
            watcher.append(PeakMemory(cast(Any, manager.provisioner).pid))  # a local one has it
            watcher[0].__enter__()

    client.on_cell_start = watch
    begin = time.perf_counter()
    try:
        client.execute(env=environment(), cleanup_kc=True)  # the kernel ends, though it was given
        seconds = time.perf_counter() - begin
    finally:
        for peak in watcher:
            peak.__exit__()
    # nbclient adds the kernel's Python version and the state of widgets
    nb.metadata = NotebookNode(metadata)
    for cell in nb.cells:
        cell.metadata.pop("execution", None)
        for output in cell.get("outputs", []):
            if "image/png" in output.get("data", {}):
                output.data["image/png"] = lighter(output.data["image/png"])
    return {"seconds": round(seconds, 1), "peak_mb": round(watcher[0].mb) if watcher else 0}


def lighter(png: str) -> str:
    """A PNG in base64 with 256 colours where nobody can tell, a third of the size: a line, its
    edges and a face need no more. One of many colours, as a photograph, stays as it is.
    """
    from PIL import Image, ImageChops, ImageStat

    data = base64.b64decode(png)
    picture = Image.open(io.BytesIO(data))
    if getattr(picture, "n_frames", 1) > 1:
        return png
    whole = picture.convert("RGB")
    few = whole.quantize(256, dither=Image.Dither.NONE)
    error = ImageStat.Stat(ImageChops.difference(whole, few.convert("RGB")))
    if max(error.mean) > 1 or max(error.rms) > 2:  # of 255
        return png
    out = io.BytesIO()
    few.save(out, format="PNG", optimize=True, dpi=picture.info.get("dpi", (110, 110)))
    return png if out.tell() >= len(data) else base64.encodebytes(out.getvalue()).decode()
