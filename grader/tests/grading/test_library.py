"""What of the library an answer uses, read off its code."""

import pytest

from attnbook_grader.course.assignments import from_sections, notebook_with
from attnbook_grader.course.exercises import find_book, sections, solution_of
from attnbook_grader.course.known_wrong_answers import wrong_answers
from attnbook_grader.grading.outcomes import OUT_OF_SIGHT
from attnbook_grader.notebooks.library import Code, library_names

from .conftest import judged

SETUP = "import torch\nimport attnbook\nsetup = attnbook.setup(seed=0, figures=False)"
CALLS = """
def answer(lengths, n):
    return mine(lengths, n).flip(-1)
"""
MASK, MASKS = "attnbook.padding_mask", "attnbook.mechanisms.attention.masks"
ROUTES = {  # code above the answer, and what of the library it uses
    "import": ("from attnbook import padding_mask as mine", MASK),
    "module": ("import attnbook.mechanisms as m\nmine = m.padding_mask", f"{MASK}"),
    "star": ("from attnbook import *\nmine = padding_mask", MASK),
    "star, at once": ("from attnbook.mechanisms import *\nmine = padding_mask", MASK),
    "star, in a block": ("if True:\n    from attnbook import *\nmine = padding_mask", MASK),
    "helper": ("from attnbook import padding_mask\ndef mine(*a):\n return padding_mask(*a)", MASK),
    "method": ("class It:\n    mask = staticmethod(attnbook.padding_mask)\nmine = It().mask", MASK),
    "put into a class": ("class It: pass\nIt.f = attnbook.padding_mask\nmine = It.f", MASK),
    "put into a list": ("kept = []\nkept.append(attnbook.padding_mask)\nmine = kept[0]", MASK),
    "put into a dict": ("kept = {}\nkept['f'] = attnbook.padding_mask\nmine = kept['f']", MASK),
    "put into a module": ("torch.mine = attnbook.padding_mask\nmine = torch.mine", MASK),
    "put into a module, by another name": (
        "import torch as t\nt.special.entr = attnbook.padding_mask\nmine = torch.special.entr",
        MASK,
    ),
    "setattr": ("setattr(torch, 'mine', attnbook.padding_mask)\nmine = torch.mine", MASK),
    "getattr": ("mine = getattr(attnbook, 'padding_mask')", MASK),
    "getattr, split": ("mine = getattr(attnbook, 'padding' + '_mask')", "attnbook"),
    "global": ("def give():\n global mine\n mine = attnbook.padding_mask\ngive()", MASK),
    "default": ("def mine(a, b, f=attnbook.padding_mask):\n return f(a, b)", MASK),
    "default of before": (
        "own = attnbook.padding_mask\ndef mine(a, b, f=own):\n return f(a, b)\n"
        "def own(a, b):\n return a",
        MASK,
    ),
    "in a block": (
        "try:\n    from attnbook import padding_mask as mine\nexcept OSError: pass",
        MASK,
    ),
    "decorator": ("def like(f):\n return attnbook.padding_mask\n@like\ndef mine(a, b): pass", MASK),
    "comprehension": ("mine = [f for f in [attnbook.padding_mask]][0]", MASK),
    "when it is called": (
        "def mine(a, b):\n from attnbook import padding_mask as p\n return p(a, b)",
        MASK,
    ),
    "partial": ("import functools\nmine = functools.partial(attnbook.padding_mask)", MASK),
    "pickle": ("import pickle\nmine = pickle.loads(pickle.dumps(attnbook.padding_mask))", MASK),
    "traced": ("mine = torch.jit.trace(attnbook.padding_mask, (torch.ones(2), 3))", MASK),
    "copy of the code": (
        "import types\nf = attnbook.padding_mask\n"
        "mine = types.FunctionType(f.__code__.replace(co_filename='x'), f.__globals__)",
        MASK,
    ),
    "recorded run": ("from attnbook_runs import agents\nmine = agents.f", "attnbook_runs.agents.f"),
    "its file": (
        f"import importlib.util as u, {MASKS} as m\nmine = u.spec_from_file(m.__file__)",
        f"{MASKS}.__file__",
    ),
}
HARD = {  # to follow, and why
    "importlib": (
        "import importlib\nmine = importlib.import_module('att' + 'nbook').f",
        "importlib",
    ),
    "pkgutil": ("import pkgutil\nmine = pkgutil.resolve_name('att' 'nbook:f')", "pkgutil"),
    "sys.modules": ("import sys\nmine = sys.modules['attn' 'book'].f", "sys.modules"),
    "sys of another module": ("mine = attnbook.notebook.sys.modules['x'].f", "sys.modules"),
    "typing": ("import typing\nmine = typing.get_type_hints(int)", "typing.get_type_hints"),
    "a transformer": (
        "s = get_ipython()\ns.input_transformers_post.append(len)\ndef mine(a, b):\n    return a",
        "a cell uses input_transformers_post",
    ),
    "__import__": ("mine = __import__('attn' + 'book').f", "__import__"),
    "exec": ("def mine(a, b):\n    exec('x = 1')", "exec"),
    "bound by exec": ("exec(open('masks.py').read())", "no cell defines mine"),
    "bound by another module": ("import builtins\nbuiltins.mine = 1", "no cell defines mine"),
    "a copy of the package": (
        "import nobook_at_all as n\nmine = n.f",
        "nobook_at_all.f, which is no",
    ),
    "globals": ("def mine(a, b):\n    return globals()['x']", "globals"),
    "getattr": ("def mine(a, b):\n    return getattr(a, 'f' + 'g')", "getattr with a name"),
    "getattr, handed on": (
        "from functools import reduce\nmine = reduce(getattr, 'ab', 1)",
        "hands getattr",
    ),
    "__globals__": ("def mine(a, b):\n    return mine.__globals__['x']", "__globals__"),
    "not Python": ("def mine(a, b:\n    return a", "no cell defines mine"),
}
OWN = {
    "compares in its own cell": "x = attnbook.padding_mask(torch.tensor([2]), 3)",
    "compares": "assert torch.equal(answer(1, 2), attnbook.padding_mask(1, 2))",
    "compares with what is bound later": "mine = attnbook.padding_mask\ndef mine(a, b):\n return a",
    "binds a name of the library": "from attnbook import padding_mask as p",
    "names it in a text": "text = 'attnbook.padding_mask'",
    "names it for a type": "def mine(a: attnbook.attend, b) -> attnbook.attend:\n return a",
    "a variable of a function": "from attnbook import attend\ndef mine(a, attend):\n return attend",
    "another's": "from attnbook import attend\ndef other():\n return attend(1)",
    "prints": "for _ in range(2000):\n    print('x')",
    "a shell": "%%bash\nls",
    "threads": "from concurrent.futures import ThreadPoolExecutor\npool = ThreadPoolExecutor(1)",
    "getattr of a name": "def mine(a, b):\n    return getattr(a, 'shape')",
}
MINE = "def mine(a, b):\n    return torch.ones(a, b)"


def read(*cells, allowed=()):
    return Code([SETUP, *cells]).answer("answer", 1 + len(cells), allowed)


@pytest.mark.parametrize("route", ROUTES)
def test_an_answer_that_uses_the_library_is_found_by_every_route(route):
    code, path = ROUTES[route]
    for cells in ((code, CALLS), (f"{code}\n{CALLS}",), (CALLS, code)):
        used, _ = read(*cells)
        assert (
            used.replace(f"{MASKS}.padding_mask", MASK).replace(
                "attnbook.mechanisms.padding_mask", MASK
            )
            == path
        ), cells


@pytest.mark.parametrize("way", HARD)
def test_what_cannot_be_followed_is_said(way):
    code, why = HARD[way]
    used, odd = read(code, CALLS)
    assert used == "" and why in odd


@pytest.mark.parametrize("what", OWN)
def test_code_around_an_answer_of_one_s_own_costs_nothing(what):
    code = OWN[what]
    own = "" if "mine" in code else MINE
    for cells in ((code, own, CALLS), (own, CALLS, code), (f"{code}\n{own}\n{CALLS}",)):
        if code.startswith("%%") and len(cells) == 1:
            continue
        assert read(*cells) == ("", ""), cells


def test_what_comes_after_the_judging_is_no_part_of_it():
    cells = [SETUP, MINE, CALLS, "mine = attnbook.padding_mask"]
    assert Code(cells).answer("answer", 3) == ("", "")
    assert Code(cells).answer("answer", 4)[0] == MASK


def test_what_an_exercise_uses_itself_is_allowed():
    for line in (
        "from attnbook import padding_mask",
        f"from {MASKS.rpartition('.')[0]} import masks",
        "attnbook.padding_mask(1, 2)",
    ):
        allowed = library_names(f"import torch, attnbook\n{line}")
        assert read(ROUTES["helper"][0], CALLS, allowed=allowed) == ("", "")
    assert read(ROUTES["helper"][0], CALLS, allowed=["attnbook.attend"])[0] == MASK


def test_very_long_and_very_deep_notebooks_are_not_read():
    assert read("x = 1\n" * 100_000)[1] == "the notebook is too long to be read"
    used, _ = read(f"mine = attnbook{'.a' * 400}", CALLS)
    assert used.startswith("attnbook.a.a")
    deep = f"mine = {'-' * 5000}1"
    assert read(deep, CALLS) in (("", ""), ("", "no cell defines mine"))


@pytest.mark.slow
def test_no_answer_of_the_book_uses_what_it_may_not():
    """Neither a solution nor a known wrong answer, which are own work."""
    for section in sections(find_book()):
        (made,) = from_sections([section])
        for task in made.tasks:
            allowed = library_names(task.solution.source)
            code = Code([SETUP, solution_of(task)])
            assert code.answer(task.function, 2, allowed) == ("", ""), task.id
            for wrong in wrong_answers(find_book(), [task])[task.id]:
                used, odd = Code([SETUP, wrong.code]).answer(task.function, 2, allowed)
                assert used == "" and (odd == "" or odd.startswith("no cell")), wrong.name


def test_the_page_and_the_rule_hear_of_it(assignment):
    task, right = assignment.tasks[0], solution_of(assignment.tasks[0])
    used = f"{right}\nown = {task.function}\ndef {task.function}(*given):\n    "
    found = []
    for does in ("attnbook.padding_mask(torch.tensor([1]), 2)", "exec('1')"):
        code = f"import torch, attnbook\n{used}{does}\n    return own(*given)"
        content = notebook_with(assignment, {task.id: code})
        found += judged(content, assignment, task.id)
    assert [(one.visible, one.library) for one in found] == [(True, MASK), (True, "")]
    assert [one.attention for one in found] == ["", f"{OUT_OF_SIGHT}: it uses exec"]
