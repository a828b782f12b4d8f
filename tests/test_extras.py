"""The library needs PyTorch, NumPy, safetensors and tqdm; what needs more names the extra."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from processes import run_alone

from attnbook.extras import extra

ROOT = Path(__file__).resolve().parents[1]

EVERY_MODULE = """
import importlib, json, pkgutil
import attnbook, attnbook_exercises, attnbook_runs

refused = {}
for package in (attnbook, attnbook_exercises, attnbook_runs):
    prefix = f"{package.__name__}."
    for found in pkgutil.walk_packages(package.__path__, prefix, onerror=lambda name: None):
        try:
            importlib.import_module(found.name)
        except ImportError as error:
            refused[found.name] = str(error)
print(json.dumps(refused))
"""


def test_modules_need_no_more_than_the_library_depends_on(tmp_path):
    """All of them can be imported without the extras, but figures and the command line."""
    (tmp_path / "every.py").write_text(EVERY_MODULE, encoding="utf-8")
    done = run_alone(tmp_path / "every.py", ROOT)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "attnbook.cli": 'the command attnbook needs click: pip install "attnbook[book]"',
        "attnbook_runs.commands": 'the command attnbook needs click: pip install "attnbook[book]"',
        "attnbook.figures": 'drawing needs matplotlib: pip install "attnbook[book]"',
    }


MISSING = {
    "datasets.fetch('tinyshakespeare', 'input.txt')": "book: a download needs pooch",
    "triangulations.delaunay(torch.rand(1, 30, 2))": "book: a Delaunay triangulation needs scipy",
    "digits.small_digits()": "book: the data set of digits needs sklearn",
    "on_two_processes(lambda: training.fit(torch.nn.Linear(1, 1), Batches(), print, steps=1))": (
        "book: training on several processes needs accelerate"
    ),
    "training.bleu(['a'], ['a'])": "translate: bleu needs sacrebleu",
    "subwords.Subwords.train(['a'])": "translate: byte-pair encoding needs tokenizers",
    "pretrained.load_tokenizer('.')": "text: load_tokenizer needs tokenizers",
    "scheduler.connect('tcp://127.0.0.1:1')": "cluster: a Dask scheduler needs distributed",
}

CALLS = """
import json, os, torch
from attnbook import pretrained, scheduler, training
from attnbook.tasks import datasets
from attnbook.tasks.geometry import triangulations
from attnbook.tasks.images import digits
from attnbook.tasks.text import subwords

class Batches:
    def batch(self, step):
        return torch.zeros(1, 1)

def on_two_processes(work):
    os.environ["WORLD_SIZE"] = "2"
    try:
        work()
    finally:
        del os.environ["WORLD_SIZE"]

said = []
for call in json.load(open("calls.json", encoding="utf-8")):
    try:
        exec(call)
        said.append("")
    except ImportError as error:
        said.append(str(error))
print(json.dumps(said))
"""


def test_what_needs_an_extra_names_it(tmp_path, monkeypatch):
    monkeypatch.delenv("ATTNBOOK_DATA", raising=False)
    (tmp_path / "calls.json").write_text(json.dumps(list(MISSING)), encoding="utf-8")
    (tmp_path / "calls.py").write_text(CALLS, encoding="utf-8")
    done = run_alone(tmp_path / "calls.py", ROOT)
    assert done.returncode == 0, done.stderr
    wanted = (line.split(": ") for line in MISSING.values())
    assert json.loads(done.stdout) == [
        f'{said}: pip install "attnbook[{name}]"' for name, said in wanted
    ]


def test_the_command_names_the_extra_without_a_traceback(tmp_path):
    (tmp_path / "command.py").write_text("from attnbook.__main__ import main; main()")
    done = run_alone(tmp_path / "command.py", ROOT)
    assert done.returncode == 1
    assert done.stderr == 'the command attnbook needs click: pip install "attnbook[book]"\n'


def test_a_slip_in_our_own_imports_is_no_missing_extra():
    with pytest.raises(ModuleNotFoundError, match="^No module named 'attnbook.nothing'$"):
        with extra("book", "drawing"):
            import attnbook.nothing  # noqa: F401


def test_a_plain_import_takes_pytorch_along_and_nothing_else():
    """It takes 0.1 s more than PyTorch: what costs more is imported by what uses it."""
    code = (
        "import sys, torch; before = set(sys.modules); import attnbook; "
        "print(*{'.'.join(name.split('.')[:2]) for name in set(sys.modules) - before})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    foreign = {name.partition(".")[0] for name in done.stdout.split()}
    assert foreign - set(sys.stdlib_module_names) == {"attnbook"}
    heavy = {"tasks", "training", "figures", "experiments", "checks", "cli", "notebook"}
    assert not heavy & {name.rpartition(".")[2] for name in done.stdout.split()}
