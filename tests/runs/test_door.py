"""`attnbook.experiments` is the package of the recorded runs, under a second name."""

import subprocess
import sys

import pytest

MODULE = "cost.score_cost"
OWN = f"import attnbook_runs.{MODULE} as own"


@pytest.mark.parametrize(
    "imports",
    [
        f"{OWN}\nimport attnbook.experiments.{MODULE} as door",
        f"import attnbook.experiments.{MODULE} as door\n{OWN}",
        f"from attnbook.experiments.cost import score_cost as door\n{OWN}",
    ],
)
def test_there_is_one_module_and_one_registry(imports):
    code = f"""{imports}
import attnbook.experiments, attnbook_runs, importlib
assert door is own and own.__spec__.name == own.__name__ == "attnbook_runs.cost.score_cost"
assert attnbook.experiments is attnbook_runs
assert attnbook.experiments.registry is attnbook_runs.registry
assert len(attnbook.experiments.load_experiments()) == len(attnbook_runs.load_experiments()) > 200
try:
    importlib.import_module("attnbook.experiments.nothing")
except ModuleNotFoundError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "No module named 'attnbook_runs.nothing'\n", done.stderr
