"""The script that counts the code, on a tree made up for it."""

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
_spec = importlib.util.spec_from_file_location("count_code", ROOT / "tools/count_code.py")
assert _spec is not None and _spec.loader is not None
count_code = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(count_code)

KINDS = '''"""What it is

and more."""

import math  # one
from math import (
    pi,
)

__all__ = ["f"]


@property
def f(
    x,
):
    """One line."""
    # why
    x = check_number("x", x)
    if x < 0:
        raise ValueError("x")
    text = """
# no comment"""
    return x  # why


y = 1
"""What y is."""


def g(
    x,
):
    return x
'''

FILES = {
    "attnbook/__init__.py": "from .core import *\nfrom .models import Model\n",
    "attnbook/validate.py": "def check_number(name, x): ...\n",
    "attnbook/checks/ch00/one.py": (
        "@exercise('00.one', title='a title of many words')\n"
        "def one(answer, ctx):\n"
        "    def oracle(a, b, c, d, e, f, g, *, h=1, i=2): 'no sentence but a docstring'\n"
        "    def small(a, b, c, d, e, f, g, *, h=1): ...\n"
        "    ctx.close(answer, {'this names a mistake': 1, f'so {answer} does, too': 2, 'k': 3})\n"
        "    ctx.fail('this is a sentence, too')\n"
    ),
    "attnbook/core/__init__.py": "from .scores import Score\n__all__ = ['Score']\n",
    "attnbook/core/scores.py": "from ..validate import check_number\nclass Score: ...\n",
    "attnbook/core/unused.py": "class Unused: ...\n",
    "attnbook/kernels/__init__.py": "",
    "attnbook/kernels/fast.py": "def fast(): ...\n",
    "attnbook/kernels/slow.py": "def slow(): ...\n",
    "attnbook/models/__init__.py": "from .model import Model\n",
    "attnbook/models/late.py": "def late(): ...\n",
    "attnbook/models/model.py": (
        "from typing import NamedTuple\n"
        "import attnbook.core.unused\n"
        "from .. import Score, kernels\n"
        "class Model:\n"
        "    def __init__(self, width, a=1, b=2, *, c=3, d=4): kernels.fast()\n"
        "    def forward(self, x, *, e=5, f=6):\n"
        "        from .late import late\n"
        "        x.slow()\n"
        "    def _private(self, g=7): ...\n"
        "class Wide(Model): ...\n"
        "def make(width, *, h=8, i=9): return Model(width, **options)\n"
    ),
    "grader/tests/test_it.py": "Model(1, c=1)\nmake(1, i=1)\n",
    "tests/test_model.py": "Model(1, b=1)\n\n",
    "tools/use.py": "Wide(1, 2)\nmodel(x, e=1)\noptions = {'d': 1, 'i': 1}\npartial(make, i=1)\n",
    "sources/page.md": (
        "# A page\n\n```{code-cell} ipython3\n:tags: [x]\n%pip x\nmake(1, h=1)\n```\n"
    ),
}


@pytest.fixture
def tree(tmp_path):
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    for number in range(15):
        (tmp_path / f"tools/many_{number}.py").touch()
        (tmp_path / f"grader/tests/test_{number or 'it'}.py").touch()
    (tmp_path / "grader/tests/__init__.py").touch()
    return tmp_path


def test_a_line_is_of_one_kind():
    assert count_code.line_kinds(KINDS) == {
        "docstring": 5,
        "blank": 8,
        "import": 5,
        "signature": 7,
        "comment": 1,
        "validation": 3,
        "code": 5,
    }


def test_a_section_on_errors_ends_where_the_next_begins():
    doc = (
        '"""What.\n\nRaises:\n    ValueError: for a wrong\n        argument.\n\nSource: me.\n"""\n'
    )
    assert count_code.raises_sections(doc) == [3]


def test_lines_are_counted_for_folders_and_sums(tree):
    table, _ = count_code.lines(tree)
    counted = {row[0]: row[1] for row in table.rows}
    assert counted["attnbook/checks/"] == 6 and counted["attnbook/core/"] == 5
    assert counted["attnbook/"] == 3 and counted["grader/tests/"] == 2
    assert counted["= tests and the grader's"] == 4
    assert counted["= the library"] == 3 + 5 + 2 + 13
    assert counted["= all"] == counted["= the library"] + 6 + 4 + 4


def test_a_folder_with_sixteen_modules_is_named_and_none_with_fifteen(tree):
    (tree / "attnbook/models/long.py").write_text("\n" * 301)
    (tree / "attnbook/models/full.py").write_text("\n" * 300)
    folders, models = count_code.folders(tree)
    assert folders.rows == [("tools/", 16)]
    assert models.rows == [("attnbook/models/long.py", 301)]


def test_functions_of_a_folder_are_counted_and_no_others(tmp_path):
    code = "def check_a(): return [n for n in some()]\ndef some():\n    yield 1\n    yield 2\n"
    (tmp_path / "inside.py").write_text(code)
    space: dict = {}
    exec(compile(code, str(tmp_path / "inside.py"), "exec"), space)
    exec(compile("def check_b(): check_a()", "outside.py", "exec"), space)
    counted = count_code.traced(space["check_b"], tmp_path)
    assert counted["inside.py", "some"] == 3 and counted["inside.py", "check_a"] == 1
    assert {file for file, _ in counted} == {"inside.py"}
    assert count_code.validating(counted, "check_") == 1


def test_validation_is_a_file_and_a_name():
    counted = count_code.Counter(
        {
            ("validate.py", "f"): 2,
            ("a.py", "A.check_x"): 4,
            ("a.py", "_check_x"): 8,
            ("a.py", "g"): 1,
        }
    )
    assert count_code.validating(counted, "check_") == 6
    assert count_code.validating(counted, "check_", "_check_") == 14


def test_files_to_open_are_those_that_define_what_is_imported(tree):
    imports = count_code.Imports(tree)
    home = imports.home("attnbook", "Model")
    assert home == "attnbook/models/model.py"
    assert imports.home("attnbook", "Score") == "attnbook/core/scores.py"
    found = imports.closure(home)
    assert found == {
        "attnbook/core/scores.py",
        "attnbook/core/unused.py",
        "attnbook/kernels/fast.py",
        "attnbook/models/late.py",
        "attnbook/models/model.py",
        "attnbook/validate.py",
    }
    engine = {path for path in found if count_code.ENGINE.fullmatch(path)}
    assert engine == {"attnbook/kernels/fast.py", "attnbook/validate.py"}


def test_an_option_that_only_tests_pass_is_told(tree):
    (tree / "tools/use.py").write_text(FILES["tools/use.py"].replace("partial(make, i=1)\n", ""))
    counts, listed = count_code.options(tree)
    assert counts.rows == [(8, 4)]
    owner = "attnbook/models/model.py"
    assert listed.rows == [
        (owner, "Model.__init__", "b"),
        (owner, "Model.__init__", "c"),
        (owner, "Model.forward", "f"),
        (owner, "make", "i"),
    ]


def test_an_option_that_partial_passes_is_not_told(tree):
    assert "i" not in [row[2] for row in count_code.options(tree)[1].rows]


def test_exercises_oracles_and_sentences(tree):
    counts, wide = count_code.exercises(tree)
    assert counts.rows == [(1, 3, 2, 1)]
    assert wide.rows == [(9, "oracle", "attnbook/checks/ch00/one.py")]
