"""Answers that use the book's own implementation are found by what they enter when called."""

import pytest
from patience import PATIENT

from attnbook_grader.course.exercises import find_book, library_names, sections, solution_of
from attnbook_grader.sandbox.launch import Limits
from attnbook_grader.sandbox.session import Session

MASK = "attnbook.mechanisms.attention.masks.padding_mask"
CALLS = """
def left_padded_mask(lengths, n):
    return mine(lengths, n).flip(-1)[:, None] & torch.ones(n, n, dtype=torch.bool).tril()
"""
ROUTES = {
    "import": "from attnbook import padding_mask as mine",
    "module": "import attnbook.mechanisms as m\nmine = m.padding_mask",
    "helper": "from attnbook import padding_mask\ndef mine(a, b):\n    return padding_mask(a, b)",
    "method": "import attnbook\nclass It:\n    mask = staticmethod(attnbook.padding_mask)\n"
    "mine = It().mask",
    "import when it is called": "def mine(a, b):\n    from attnbook import padding_mask\n"
    "    return padding_mask(a, b)",
    "importlib, split": "import importlib\n"
    "mine = getattr(importlib.import_module('att' + 'nbook'), 'padding' + '_mask')",
    "pkgutil": "import pkgutil\nmine = pkgutil.resolve_name('att' 'nbook:padding_mask')",
    "sys.modules": "import attnbook, sys\nmine = vars(sys.modules['attn' 'book'])['padding_mask']",
    "spec from a file": "import importlib.util as u, attnbook.mechanisms.attention.masks as m\n"
    "spec = u.spec_from_file_location(m.__name__, m.__file__)\nown = u.module_from_spec(spec)\n"
    "spec.loader.exec_module(own)\nmine = own.padding_mask",
    "copy of the code": "import types, attnbook\nf = attnbook.padding_mask\n"
    "mine = types.FunctionType(f.__code__, f.__globals__)",
    "pickle": "import pickle, attnbook\nmine = pickle.loads(pickle.dumps(attnbook.padding_mask))",
    "partial": "import functools, attnbook\nmine = functools.partial(attnbook.padding_mask)",
    "put into a module": "import torch, attnbook\ntorch.mine = attnbook.padding_mask\n"
    "mine = torch.mine",
    "another function of the library": "import attnbook\nfrom attnbook import padding_mask as p\n"
    "attnbook.attend.p = p\ndef mine(a, b):\n    return attnbook.attend.p(a, b)",
}
OUT_OF_SIGHT = {
    "switched off": "import sys\ndef mine(a, b):\n    sys.settrace(None)\n    return p(a, b)",
    "fork": "import os\ndef mine(a, b):\n    if not os.fork():\n        os._exit(0)\n"
    "    return p(a, b)",
    "thread": "import threading\ndef mine(a, b):\n    out = []\n"
    "    t = threading.Thread(target=lambda: out.append(p(a, b)))\n    t.start()\n    t.join()\n"
    "    return out[0]",
    "thread without a class": "import _thread, time\ndef mine(a, b):\n    out = []\n"
    "    _thread.start_new_thread(lambda: out.append(p(a, b)), ())\n"
    "    while not out:\n        time.sleep(0.001)\n    return out[0]",
    "thread of before": "from concurrent.futures import ThreadPoolExecutor\n"
    "pool = ThreadPoolExecutor(1)\npool.submit(print, 1).result()\n"
    "def mine(a, b):\n    return pool.submit(p, a, b).result()",
}
BLINDS = """import sys, threading
for name in ("settrace", "setprofile", "gettrace"):
    setattr(sys, name, lambda *given: None)
    setattr(threading, name, lambda *given: None)
"""
OWN = {
    "compares in its own cell": "import attnbook\nx = attnbook.padding_mask(torch.tensor([2]), 3)",
    "binds a name of the library": "from attnbook import padding_mask as p",
    "names it in a text": "text = 'attnbook.padding_mask'",
}


@pytest.fixture(scope="module")
def inside():
    with Session("none", Limits(**PATIENT)) as made:
        made.run("import torch\nfrom attnbook import padding_mask as p")
        yield made


@pytest.fixture(scope="module")
def task():
    (part,) = sections(find_book(), ["scaled_dot_product"])
    (task,) = [task for task in part.tasks if task.function == "left_padded_mask"]
    return task


def reached(session, task, *cells, allowed=()):
    for cell in cells:
        assert session.run(cell) is None, cell
    return session.judge(task.id, task.function, 1, allowed).passed, session.reached


def test_an_answer_that_enters_the_library_is_found_by_every_route(inside, task):
    for route, code in ROUTES.items():
        assert reached(inside, task, code, CALLS) == (True, MASK), route


def test_leaving_the_sight_is_found(inside, task):
    known = ("sys.settrace", "os.fork", "_thread.start_new_thread")
    for what, code in OUT_OF_SIGHT.items():
        assert reached(inside, task, code, CALLS)[1] in known, what
    inside.run("pool.shutdown()")


def test_functions_put_in_the_place_of_the_tracing_s_own_do_not_blind_it(task):
    with Session("none", Limits(**PATIENT)) as made:
        made.run("import torch\nfrom attnbook import padding_mask as p")
        assert reached(made, task, BLINDS, ROUTES["helper"], CALLS) == (True, MASK)


def test_the_thread_of_a_progress_bar_costs_nothing(task):
    with Session("none", Limits(**PATIENT)) as made:
        bar = "import torch\nfrom tqdm import tqdm\nfor _ in tqdm(range(3)):\n    pass"
        assert reached(made, task, bar, solution_of(task)) == (True, "")


def test_code_around_an_answer_of_one_s_own_costs_nothing(inside, task):
    for what, code in OWN.items():
        for cells in ((code, solution_of(task)), (f"{code}\n{solution_of(task)}",)):
            assert reached(inside, task, *cells) == (True, ""), what


def test_what_an_exercise_imports_itself_is_allowed(inside, task):
    for line in ("from attnbook import padding_mask", "import attnbook.mechanisms.attention.masks"):
        allowed = library_names(f"import torch, attnbook\n{line}")
        assert reached(inside, task, ROUTES["helper"], CALLS, allowed=allowed) == (True, "")
    assert library_names(task.solution.source) == []
