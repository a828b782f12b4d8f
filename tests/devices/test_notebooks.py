"""The code of the notebooks on a GPU, simulated if need be, with trainings cut short."""

from pathlib import Path

import nbformat
import pytest
from any_gpu import GPU_TOO, NIGHTLY_OR_GPU, any_gpu
from notebook_cells import run_cells

CHAPTERS = Path(__file__).resolve().parents[2] / "chapters"
# One of the two that once crashed for every reader with a GPU; the other one, a recurrent network
# that is differentiated in evaluation mode, is held by tests/models/rnn. The rest waits for the
# night.
EVERY_DAY = {"one_stack"}
# What their cells do with a result needs a whole training.
WHOLE_TRAININGS = "multi_head block training full_model few_shot far_parts induction_heads".split()
WHOLE_TRAININGS += ["attention_in_pictures", "steady_training"]


def section(path):
    marks = GPU_TOO if path.stem in EVERY_DAY else [NIGHTLY_OR_GPU]
    return pytest.param(path, id=path.stem, marks=marks)


@pytest.mark.parametrize("path", map(section, sorted(CHAPTERS.glob("*/*.ipynb"))))
def test_a_section_runs_on_a_gpu(path):
    with any_gpu():
        names = run_cells(path, steps=10**9 if path.stem in WHOLE_TRAININGS else 12)
    assert names["setup"].device.type == "cuda"


def notebook(folder, *cells):
    """A notebook of these (code, tag) cells."""
    tags = [{"tags": [tag]} if tag else {} for _, tag in cells]
    made = [nbformat.v4.new_code_cell(code, metadata=m) for (code, _), m in zip(cells, tags)]
    nbformat.write(nbformat.v4.new_notebook(cells=made), folder / "made.ipynb")
    return folder / "made.ipynb"


TRAIN = """
import torch
import attnbook_runs.common
from attnbook.training import fit

class Batches:
    def batch(self, step):
        return torch.ones(4, 1)

loss = lambda model, batch: (model(batch).square().sum(), len(batch))
seen = [f(torch.nn.Linear(1, 1), Batches(), loss, steps=100, device="cpu",
          evaluate=lambda model: 0.0, evaluate_every=50)
        for f in (fit, attnbook_runs.common.fit)]
"""


def test_trainings_are_cut_short_wherever_they_are_called_from(tmp_path):
    names = run_cells(notebook(tmp_path, (TRAIN, None)), steps=3)
    assert [history.steps for history in names["seen"]] == [3, 3]
    assert [len(history.evaluations) for history in names["seen"]] == [1, 1]


CLOCK = "import time\nnow = time.perf_counter()"


def test_bands_are_passed_over_and_exercises_left_out(tmp_path):
    clock = (CLOCK, "nbval-ignore-output"), ("assert now < 0", "hide-cell")
    left_out = ("raise NotImplementedError", "exercise"), ("raise ValueError", "check")
    made = notebook(tmp_path, *clock, ("reached = 1", None), *left_out, ("reached += 1", None))
    assert run_cells(made)["reached"] == 2


@pytest.mark.parametrize(
    "code, error",
    [
        ("assert 0 > 1", AssertionError),
        ("now / 0", ZeroDivisionError),
        ("assert now / 0", ZeroDivisionError),
    ],
)
def test_other_errors_are_failures_and_name_the_line(tmp_path, code, error):
    with pytest.raises(error) as raised:
        run_cells(notebook(tmp_path, (CLOCK, None), (f"y = 1\n{code}", None)))
    assert any("made.ipynb, cell 1" in str(entry.path) for entry in raised.traceback)
    assert error is AssertionError or raised.value.__notes__[0].endswith(f"cell 1: {code}")


def test_a_tensor_left_on_the_cpu_is_a_failure(tmp_path):
    setup = "import torch, attnbook\nsetup = attnbook.setup()"
    code = "y = torch.ones(2, device=setup.device) + torch.ones(2)"
    with any_gpu(), pytest.raises(RuntimeError, match="found at least two devices"):
        run_cells(notebook(tmp_path, (setup, None), (code, None)))
