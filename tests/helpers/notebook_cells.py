"""The code cells of a notebook, run in this process with short trainings: do they run at all?"""

from __future__ import annotations

import ast
import inspect
import sys
from contextlib import ExitStack, chdir, contextmanager
from functools import wraps
from pathlib import Path
from unittest import mock

import matplotlib
import nbformat
from IPython.core.inputtransformer2 import TransformerManager
from matplotlib import pyplot as plt

import attnbook.training
from bookbuild.nondeterminism import Taint

# Loops of the library with an argument `steps`; "…_every" of theirs is shortened with it.
LOOPS = (attnbook.training.fit, attnbook.training.fit_adversarial)
# The reader's work, and what compares it: on the CPU, with and without a GPU.
PASSED_OVER = {"exercise", "check"}


def run_cells(path: Path, steps: int = 2) -> dict:
    """Run the code cells of a notebook and return the names that they define.

    Every training has at most `steps` updates. Cells whose numbers depend on training assert bands
    that so short a training does not reach: a statement there that raises AssertionError is passed
    over (the rules of the book know which cells these are, folded ones included). Any other error
    is raised as it is, with a note of cell and line. Exercises and their checks are left out.
    """
    cells = nbformat.read(path, as_version=4).cells
    taint = Taint()
    names = {"__name__": "__main__", "display": lambda *values, **options: None}
    environment = {"ATTNBOOK_PRESET": "quick", "ATTNBOOK_PROGRESS": "0"}
    with (
        chdir(path.parent),
        matplotlib.rc_context(),
        mock.patch.dict("os.environ", environment),
        short_training(steps),
        mock.patch.object(plt, "show", lambda *args, **options: plt.close("all")),
    ):
        for number, cell in enumerate(cells):
            tags = set(cell.metadata.get("tags", []))
            if cell.cell_type != "code" or tags & PASSED_OVER:
                continue
            _run(cell.source, f"{path}, cell {number}", names, taint.feed(cell.source))
    return names


def _run(source: str, name: str, names: dict, trained: bool) -> None:
    code = TransformerManager().transform_cell(source)  # %pip and its like become Python
    for statement in ast.parse(code, name).body:
        try:
            exec(compile(ast.Module([statement], []), name, "exec"), names)
        except AssertionError:
            if not trained:
                raise
        except Exception as error:
            frames = inspect.getinnerframes(error.__traceback__)
            lines = [frame.lineno for frame in frames if frame.filename == name]
            error.add_note(f"{name}: {code.splitlines()[lines[-1] - 1].strip()}" if lines else name)
            raise


@contextmanager
def short_training(steps: int):
    """Inside the block every training by the library has at most `steps` updates."""

    def shorten(loop):
        @wraps(loop)
        def run(*args, **options):
            for key, value in options.items():
                if key == "steps" or key.endswith("_every") and value:
                    options[key] = min(value, steps)
            return loop(*args, **options)

        return run

    short = {loop: shorten(loop) for loop in LOOPS}
    with ExitStack() as stack:
        ours = [module for name, module in sys.modules.items() if name.startswith("attnbook")]
        for module in ours:
            for key, value in list(vars(module).items()):
                if inspect.isfunction(value) and value in short:
                    stack.enter_context(mock.patch.object(module, key, short[value]))
        yield
