"""The process that runs a notebook's cells, without a sandbox around it."""

import pytest
from patience import PATIENT

from attnbook_grader.sandbox.launch import Limits
from attnbook_grader.sandbox.session import SandboxEnded, Session


@pytest.fixture(scope="module")
def inside():
    with Session("none", Limits(**PATIENT)) as made:
        yield made


COLAB = """from google.colab import drive; drive.mount('/content/drive')
import google.colab; google.colab.drive.mount('/content/drive', force_remount=True)
import google.colab.drive as drive; drive.flush_and_unmount()
from google.colab import files; assert [*files.upload()] == []; files.download('x')
from google.colab import userdata; import os; os.environ['KEY'] = userdata.get('KEY')
from google.colab import output; output.enable_custom_widget_manager()
from google.colab.patches import cv2_imshow; cv2_imshow(None)
from google.colab import auth; auth.authenticate_user()"""


@pytest.mark.parametrize("line", COLAB.splitlines())
def test_what_only_colab_has_does_nothing(inside, line):
    assert inside.run(f"done = False\n{line}\ndone = True") is None
    assert inside.run("assert done") is None


def test_a_notebook_does_not_take_the_sandbox_for_colab():
    with Session("none", Limits(**PATIENT)) as made:
        assert made.run("import sys; assert 'google.colab' not in sys.modules") is None


def test_nothing_else_of_google_is_there(inside):
    for name in ("google.nothing", "google.colab.nothing", "googles"):
        assert "ModuleNotFoundError" in inside.run(f"import {name}")


@pytest.mark.parametrize(
    ("value", "kind"),
    [("None", "None"), ("3", "int"), ("numpy.zeros(3)", "ndarray"), ("torch.ones(3)", "Tensor")],
)
def test_a_name_that_stands_for_no_function_is_told(inside, value, kind):
    assert inside.run(f"import numpy, torch\nweighted_sum = {value}") is None
    message = inside.judge("00.weighted_sum", "weighted_sum", 0).message
    assert message == f"weighted_sum is {kind}, expected your function"


def test_a_gradient_imports_nothing(inside):
    """PyTorch's own way to pass gradients on imports SymPy, which takes half a second."""
    assert inside.run("import sys\ndef weighted_sum(w, values): return w @ values") is None
    assert inside.judge("00.weighted_sum", "weighted_sum", 0)
    assert inside.run("assert 'sympy' not in sys.modules") is None


DIES_LATE = """
import os, threading
def weighted_sum(w, values):
    threading.Timer(0.1, os._exit, (1,)).start()
    return 0
"""


def test_a_function_that_ends_the_process_a_moment_late_costs_only_its_own_exercise():
    """Its end falls into the next cell, which is not to blame and runs again."""
    with Session("none", Limits(**PATIENT)) as made:
        assert made.run(DIES_LATE) is None
        assert not made.judge("00.weighted_sum", "weighted_sum", 0).passed
        assert made.run("import time; time.sleep(1)") is None
        with pytest.raises(SandboxEnded, match="the cell ended the Python process"):
            made.run("os._exit(1)")
