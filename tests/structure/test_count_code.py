"""How large the code may be, and how many calls and files stand on the way of a query, which
contributing/house.md says and `tools/count_code.py` counts; and that it counts rightly, on a tree
made up for it.
"""

from pathlib import Path

import pytest

import count_code

ROOT = Path(__file__).resolve().parents[2]


def rows(table):
    return {row[0]: row[1:] for row in table.rows}


def test_lines():
    counted = rows(count_code.lines(ROOT)[0])
    assert counted["= the library"][0] <= 33_000
    assert counted["= tests and the grader's"][0] <= 58_000


def test_a_folder_is_seen_at_a_glance_and_a_model_read_in_one_go():
    folders, models = count_code.folders(ROOT)
    code = ("attnbook", "grader/attnbook_grader", "bookbuild")
    assert [row for row in folders.rows if row[0].startswith(code)] == [] == models.rows


def test_calls_on_the_way_of_a_query():
    counted = rows(count_code.calls(ROOT)[0])
    for what, most, validation in (("MultiHeadAttention", 45, 12), ("attend", 35, 14)):
        total, checks, private = counted[what][:3]
        assert total <= most and checks <= private <= validation, what


@pytest.mark.parametrize(
    ("system", "most", "outside"),
    [("MultiHeadAttention", 12, 5), ("Transformer", 21, 14), ("TransformerLM", 21, 14)],
)
def test_files_that_a_reader_opens(system, most, outside):
    opened, not_engine = rows(count_code.files(ROOT)[0])[system][:2]
    assert opened <= most and not_engine <= outside


def test_no_oracle_of_an_exercise_needs_a_manual():
    number, _, _, wide = count_code.exercises(ROOT)[0].rows[0]
    assert number > 250 and wide == 0


def test_every_option_is_used_or_told():
    number, in_tests, _ = count_code.options(ROOT)[0].rows[0]
    assert number > 900 and in_tests < 80
    assert count_code.options(ROOT)[1].rows == []


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
        "    def forward(self, x):\n"
        "        from .late import late\n"
        "        x.slow()\n"
    ),
    "grader/tests/test_it.py": "Model(1, c=1)\nmake(1, i=1)\n",
    "tests/test_model.py": "Model(1, b=1)\n\n",
    "tools/use.py": "1\n2\n3\n4\n",
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


def test_lines_are_counted_for_folders_and_sums(tree):
    counted = {what: total for what, (total, *_) in rows(count_code.lines(tree)[0]).items()}
    assert counted["attnbook/checks/"] == 6 and counted["attnbook/core/"] == 5
    assert counted["attnbook/"] == 3 and counted["grader/tests/"] == 2
    assert counted["= tests and the grader's"] == 4
    assert counted["= the library"] == 3 + 5 + 2 + 10
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


def test_files_to_open_are_those_that_define_what_is_imported(tree):
    imports = count_code.Imports(tree)
    home = imports.home("attnbook", "Model")
    assert home == "attnbook/models/model.py"
    assert imports.home("attnbook", "Score") == "attnbook/core/scores.py"
    found = imports.closure(home)
    engine = {path for path in found if count_code.ENGINE.fullmatch(path)}
    assert engine == {"attnbook/kernels/fast.py", "attnbook/validate.py"}
    others = "core/scores core/unused models/late models/model".split()
    assert found - engine == {f"attnbook/{name}.py" for name in others}


def test_exercises_oracles_and_sentences(tree):
    counts, wide = count_code.exercises(tree)
    assert counts.rows == [(1, 3, 2, 1)]
    assert wide.rows == [(9, "oracle", "attnbook/checks/ch00/one.py")]


USES = {
    "by name": ("Model(1, c=1)", "abd"),
    "by place": ("Model(1, 2)", "bcd"),
    "in a page": ("```{code-cell}\nModel(1, c=1)\n```\n", "abd"),
    "renamed": ("from attnbook import Model as Own\nOwn(1, c=1)", "abd"),
    "a variable": ("own = attnbook.Model\nown(1, c=1)", "abd"),
    "a parameter": ("def run(kind=Model): kind(1, c=1)", "abd"),
    "an argument": ("run(kind=Model)\ndef run(kind): kind(1, c=1)", "abd"),
    "a table": ("KINDS = {'one': Model}\nKINDS[name](1, c=1)", "abd"),
    "a choice": ("(Model if large else Other)(1, c=1)", "abd"),
    "a subclass": ("class Own(Model[int]):\n  def __init__(self): super().__init__(1, c=1)", "abd"),
    "a dictionary": ("sizes = dict(c=1)\nModel(1, **sizes)", "abd"),
    "settings": ("Model(1, **select(settings, 'c', 'd'))", "ab"),
    "what goes on": ("def run(**sizes): Model(1, **sizes)\nrun(c=1)", "abd"),
    "partial by name": ("partial(Model, c=1)", "abd"),
    "partial by place": ("partial(Model, 1)", "cd"),
    "another's": ("Other(1, c=1)\nmodel.Model.make(1, c=1)\nnames = {'c': 1}", "abcd"),
}


@pytest.mark.parametrize("how", USES)
def test_an_option_is_used_however_it_is_passed(tree, how):
    text, left = USES[how]
    for folder in ("sources", "api"):
        (tree / folder).mkdir()
    (tree / ("sources/use.md" if "`" in text else "tools/use.py")).write_text(text)
    counts, untold = count_code.options(tree)
    assert {option for _, _, option in untold.rows} == set(left)
    assert counts.rows[0][1:] == (len(left), len(left))


@pytest.mark.parametrize(
    ("listed", "page", "left"),
    [
        ("", ".. package-api:: attnbook.models", "bd"),
        ("", ".. package-api:: attnbook.models.model", "bdx"),
        ("", ".. package-api:: attnbook.core", "abcdx"),
        ("", ".. autofunction:: attnbook.build", "abcd"),
        ("__all__ = ['Model']\n", ".. package-api:: attnbook.models", "bd"),
        ("__all__ = []\n__all__ += ['late']\n", ".. package-api:: attnbook.models", "abcd"),
    ],
)
def test_an_option_is_told_by_a_docstring_that_a_page_shows(tree, listed, page, left):
    entries = "width, a: one\n        c: two, and more of it:\n            d: three\n"
    words = f'"""A model.\n\n    Args:\n        {entries}    """'
    path = tree / "attnbook/models/model.py"
    text = path.read_text().replace("class Model:\n", f"class Model:\n    {words}\n")
    path.write_text(listed + text)
    (tree / "attnbook/models/late.py").write_text(
        f"def build(x=1):\n    {words.replace('width', 'x')}\n"
    )
    (tree / "api").mkdir()
    (tree / "api/models.md").write_text(f"{page}\n")
    counts, untold = count_code.options(tree)
    assert {option for _, _, option in untold.rows} == set(left)
    assert counts.rows == [(5, 5, len(left))]
