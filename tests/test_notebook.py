"""The set-up call, and the files that travel with the package."""

import platform
import random
import subprocess
import sys

import numpy as np
import pytest
import torch
from assertions import assert_refused

import attnbook
from attnbook import resources


def draw():
    return random.random(), np.random.rand(), torch.rand(2).tolist()


def test_setup_seeds_everything_and_may_be_called_again(capsys, monkeypatch):
    monkeypatch.setenv("ATTNBOOK_PRESET", "quick")
    first = attnbook.setup(seed=3)
    drawn = draw()
    assert attnbook.setup(seed=3) == first and draw() == drawn
    attnbook.setup(seed=4)
    assert draw() != drawn
    lines = capsys.readouterr().out.splitlines()
    versions = f"torch {torch.__version__} · numpy {np.__version__}"
    assert len(lines) == 3
    assert lines[0].startswith(f"attnbook {attnbook.__version__} · {versions}")
    assert first.seed == 3 and first.preset == "quick" and not first.full


def test_preset_comes_from_argument_then_variable_then_device(monkeypatch):
    monkeypatch.setenv("ATTNBOOK_PRESET", "full")
    assert attnbook.setup(preset="auto").preset == attnbook.setup().preset == "full"
    assert attnbook.setup(preset="quick").preset == "quick"
    monkeypatch.delenv("ATTNBOOK_PRESET")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert attnbook.setup() == (torch.device("cpu"), "quick", 0)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert attnbook.setup() == (torch.device("cuda"), "full", 0)


@pytest.mark.parametrize(
    ("name", "value"),
    [("preset", "huge"), ("seed", -1), ("seed", 1.5), ("seed", True), ("interface", 0)],
)
def test_bad_arguments_and_a_bad_variable_are_named(name, value, monkeypatch):
    assert_refused(name, attnbook.setup, **{name: value})
    monkeypatch.setenv("ATTNBOOK_PRESET", "fast")
    assert_refused("ATTNBOOK_PRESET", attnbook.setup)


def test_a_notebook_and_a_library_of_different_days_are_told_apart(monkeypatch):
    from attnbook import version

    monkeypatch.setattr(version, "OLDEST_INTERFACE", 3)
    monkeypatch.setattr(version, "INTERFACE", 5)
    with pytest.raises(RuntimeError, match="notebook is older .* 2, .* 3 to 5.*from its badge"):
        attnbook.setup(interface=2)
    with pytest.raises(RuntimeError, match="attnbook is older .* 5, .* 6.*Disconnect and delete"):
        attnbook.setup(interface=6)
    for supported in (3, 4, 5, None):
        assert attnbook.setup(interface=supported).seed == 0


REUSED = """
import resource, sys
import torch, attnbook

if sys.argv[1] == "setup":
    attnbook.setup(figures=False)
for _ in range(10):  # 64 MB each; an aligned buffer may move on up to eight times
    torch.ones(16, 2**20)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20):
    torch.ones(16, 2**20)
print("faults", resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def page_faults(*arguments):
    command = [sys.executable, "-c", REUSED, *arguments]
    return int(subprocess.check_output(command, text=True).split()[-1])


@pytest.mark.skipif(
    sys.platform != "linux" or platform.libc_ver()[0] != "glibc", reason="glibc's allocator"
)
def test_setup_lets_large_buffers_be_reused():
    assert page_faults("setup") < 0.1 * page_faults("no setup")


def test_in_a_notebook_the_figures_are_sharp_and_carry_no_stamp(monkeypatch):
    """IPython 7.34 and 9 alike: a kernel's shell has `kernel`; one inline backend a process."""
    import IPython
    from matplotlib_inline.config import InlineBackend
    from traitlets.config import Configurable

    class Shell(Configurable):
        kernel = object()

    InlineBackend.clear_instance()
    monkeypatch.setattr(IPython, "get_ipython", Shell)
    attnbook.setup()
    assert InlineBackend.instance().print_figure_kwargs["metadata"] == {"Software": None}
    assert InlineBackend.instance().figure_formats == {"retina"}
    InlineBackend.clear_instance()


def test_without_figures_matplotlib_is_not_needed():
    code = (
        "import attnbook, sys; s = attnbook.setup(seed=1, figures=False); assert s.seed == 1 "
        "and 'matplotlib' not in sys.modules"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0


def test_resources_are_found_and_nothing_else():
    assert resources.path("data/README.md").is_file() and "data" in resources.text("data/README.md")
    assert resources.path("results").is_dir()
    with pytest.raises(FileNotFoundError, match="results/none.json"):
        resources.path("results/none.json")
    for name in ("", "attnbook/cli.py", "../data/x", "data/../pyproject.toml", "/data/README.md"):
        assert_refused("name", resources.path, name)
