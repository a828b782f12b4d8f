"""The first cell of a notebook, as Colab runs it: it installs the library from the branch, and
touches nothing else; and the notebooks of the tests run on the wheel.
"""

import json
import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import nbformat
import pytest
from patience import HANGS

from bookbuild import setup_cell, wheel
from bookbuild.address import read_address

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOK = ROOT / "chapters" / "00_attention" / "soft_lookup.ipynb"
pytestmark = pytest.mark.slow

RUN = """
import sys
from IPython.core.interactiveshell import InteractiveShell

assert not any(name.split(".")[0] == "attnbook" for name in sys.modules)
shell = InteractiveShell.instance()
done = shell.run_cell(open(sys.argv[1], encoding="utf-8").read())
done.raise_error()
import attnbook
from attnbook import resources

print("FROM", attnbook.__file__)
print("DATA", resources.path("data/registry.csv"))
"""


def setup_of(notebook: Path) -> str:
    cells = nbformat.read(notebook, as_version=4).cells
    return next(c.source for c in cells if setup_cell.TAG in c.metadata.get("tags", []))


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    """What is in the tree, as the branch of a repository that pip can clone."""
    folder = tmp_path_factory.mktemp("origin")
    wheel.copy_sources(ROOT, folder)
    who = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    for command in (["init", "-q", "-b", read_address(ROOT).branch], ["add", "-A"]):
        subprocess.run(["git", *command], cwd=folder, check=True)
    subprocess.run(["git", *who, "commit", "-qm", "The book"], cwd=folder, check=True)
    return folder


def test_the_install_line_of_a_notebook_installs_what_it_needs(repository, tmp_path):
    """In a Python that has everything but the library, as Colab's."""
    venv.create(tmp_path / "colab", with_pip=False, symlinks=os.name != "nt")
    python = tmp_path / "colab" / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    code = setup_of(NOTEBOOK)
    address = read_address(ROOT).repository
    assert f"git+{address}@main" in code and "--no-deps" in code
    cell = tmp_path / "cell.py"
    here = repository.as_uri().replace("file:///", "file://localhost/")  # pip before 24 wants it
    cell.write_text(code.replace(address, here), encoding="utf-8")
    (tmp_path / "run.py").write_text(RUN, encoding="utf-8")
    env = {
        **os.environ,
        # packages of this environment, but not what its .pth files lead to: not the tree
        "PYTHONPATH": os.pathsep.join({sysconfig.get_path(p) for p in ("purelib", "platlib")}),
        "PIP_NO_BUILD_ISOLATION": "0",  # pip's way to say: build with the setuptools that is here
        "PIP_NO_INDEX": "1",
        "ATTNBOOK_PRESET": "quick",
    }
    command, run = [str(python), str(tmp_path / "run.py"), str(cell)], subprocess.run
    done = run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=HANGS)
    assert done.returncode == 0, done.stdout + done.stderr
    said = dict(line.split(" ", 1) for line in done.stdout.splitlines() if line[:4].isupper())
    assert Path(said["FROM"]).is_relative_to(tmp_path / "colab"), done.stdout
    assert Path(said["DATA"]).is_relative_to(tmp_path / "colab"), done.stdout
    (about,) = (tmp_path / "colab").rglob("attnbook-*.dist-info")
    direct = json.loads((about / "direct_url.json").read_text(encoding="utf-8"))
    assert direct["url"] == here and direct["vcs_info"]["commit_id"]


def test_notebooks_of_the_tests_run_on_the_wheel():
    """Not on the tree, which has files that a reader does not get."""
    cell = nbformat.v4.new_code_cell(
        "import attnbook, pathlib\n"
        "from attnbook import resources\n"
        "where = pathlib.Path(attnbook.__file__).parent\n"
        "assert where.parents[1].name == 'wheel', where\n"
        "assert resources.path('results').parent == where"
    )
    folder = ROOT / "build" / "on_the_wheel"
    folder.mkdir(parents=True, exist_ok=True)
    title = nbformat.v4.new_markdown_cell("# A notebook\n\n*runs in 20 s · 1 GB · CPU*")
    nbformat.write(nbformat.v4.new_notebook(cells=[title, cell]), folder / "one.ipynb")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    command += ["build/on_the_wheel/one.ipynb"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=HANGS)
    assert done.returncode == 0 and "1 passed" in done.stdout, done.stdout + done.stderr
