"""A made-up class: one student for each way to hand in exercises, honest and not, with the marks
that each must get.
"""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass
from pathlib import Path

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell

from attnbook_exercises.checks import judge
from attnbook_grader.course.assignments import Assignment, notebook_with
from attnbook_grader.course.exercises import Section, solution_of
from bookbuild import publish, source

__all__ = ["SyntheticHandIn", "hostile_answers", "synthetic_class", "write_class"]


@dataclass(frozen=True)
class SyntheticHandIn:
    """One hand-in.

    content: the bytes of the file
    marks: by exercise id, what it must get
    words: what the feedback on the first exercise must say; "" for nothing
    name: of the file
    """

    content: bytes
    marks: dict[str, float]
    words: str
    name: str


def synthetic_class(
    assignment: Assignment, section: Section | None = None
) -> dict[str, SyntheticHandIn]:
    """The hand-ins for one assignment, by student.

    section: of the book, for a hand-in of the chapter's whole notebook
    The first exercise is the one that is spoiled, the others are right, except where a whole
    notebook is lost."""
    first = assignment.tasks[0]
    full = {id: sum(pair) for id, pair in assignment.points.items()}
    none, lost = dict.fromkeys(full, 0.0), {**full, first.id: 0.0}
    half = {**full, first.id: assignment.points[first.id][0]}
    answers = {task.id: solution_of(task) for task in assignment.tasks}
    right, file = answers[first.id], f"{assignment.name}.ipynb"
    made: dict[str, SyntheticHandIn] = {}

    def book(spoiled=None):
        return notebook_with(
            assignment, answers if spoiled is None else {**answers, first.id: spoiled}
        )

    def add(student, content, marks, words="", name=file):
        content = (
            nbformat.writes(content).encode()
            if isinstance(content, nbformat.NotebookNode)
            else content
        )
        made[student] = SyntheticHandIn(content, marks, words, name)

    def edited(change, content=None):
        nb = nbformat.reads((content or book()).decode(), 4)
        return change(nb) or nb

    add("right", book(), full)
    if section is not None:
        add("right in the chapter", _chapter(section, answers), full, name=f"{section.name}.ipynb")
    add("right without checks", edited(lambda nb: _drop(nb, lambda meta: meta.get("grade"))), full)
    add("right without cell names", edited(_unnamed), full)
    add(
        "right from Colab", edited(_from_colab), full, name=f"Kopie von {assignment.name} (1).ipynb"
    )
    add("right in UTF-16", book().decode().encode("utf-16"), full)
    add("right in Windows-1252", _ascii(book(), "# caf\xe9").encode("cp1252"), full)
    add("right in another order", edited(_turned), full)
    add("right and twice", edited(_doubled), full)
    add("right and talkative", book(right + _talks(first)), full)
    add(
        "uses the library",
        book(
            f"import attnbook\n\n{right}\n\nown = {first.function}\n\n\n"
            + _function(first, "attnbook.masked_softmax(inputs[0])\n    return own(*inputs)")
        ),
        full,
        "masked_softmax, the book's own",
    )
    add("equal to right", book("# my own work\n\n\n" + right), full)
    add("Zoë Ångström / 李", book(), full)
    add("partly right", book(right + _only_first_calls(right, first)), half, "with other inputs: ")
    late = _function(first, "calls.append(1)\n    return honest(*inputs) if calls[1:] else 0")
    add("right at last", book(f"{right}\n\nhonest, calls = {first.function}, []\n\n\n{late}"), lost)
    add("wrong", book(_function(first, "return inputs[0]")), lost)
    renamed = _function(first, "return inputs[0]").replace("inputs", "mine")
    add("equal to wrong", book(renamed), lost)
    add("untouched", notebook_with(assignment, {}), none, "not written yet")
    add(
        "crashing",
        book(_function(first, "return [][1]")),
        lost,
        "your code stopped with IndexError",
    )
    add("not Python", book(f"def {first.function}(:\n    return\n"), lost, "SyntaxError")
    add(
        "edited checks",
        edited(_true_checks, book(_function(first, "return None"))),
        lost,
        "None came back",
    )
    add(
        "answer deleted",
        edited(lambda nb: _drop(nb, lambda meta: meta.get("grade_id") == first.key)),
        lost,
        "missing from the notebook",
    )
    add(
        "loop in a cell",
        edited(lambda nb: nb.cells.insert(1, new_code_cell("while True: pass"))),
        full,
    )
    for student, (code, words) in hostile_answers(first, right).items():
        add(student, book(code), full if words is None else lost, words or "")
    add("not JSON", book()[:-40], none, "not a Jupyter notebook")
    add("truncated", book()[: len(book()) // 2], none, "not a Jupyter notebook")
    add("another format", b'{"answers": [1, 2, 3]}', none, "not a Jupyter notebook")
    add("empty file", b"", none, "the file is empty")
    add(
        "deep",
        b'{"cells": ' + 100_000 * b"[" + 100_000 * b"]" + b"}",
        none,
        "not a Jupyter notebook",
    )
    return made


def hostile_answers(task, right: str) -> dict[str, tuple[str, str | None]]:
    """Cells that attack the grader instead of answering: {student: (code, words of the
    feedback)}; None where the answer is right.
    """
    loop, name = _function(task, "while True: pass"), task.function
    patches = (
        "import builtins, sys, torch\n"
        "class Same:\n    def __eq__(self, other): return True\n    def __getattr__(self, name): "
        "return self\n"
        "    def __call__(self, *inputs, **named): return self\n"
        "sys.modules['attnbook.checks'] = sys.modules['numpy'] = Same()\n"
        "builtins.isinstance = lambda *inputs: True\ntorch.allclose = torch.equal = lambda "
        "*inputs, **named: True\n"
    )
    forged = (
        "def check(*inputs, **named):\n    print('✓ right')\n    return True\n\ngrade = judge = "
        "check\n"
        "import attnbook.checks\nattnbook.checks.check = attnbook.checks.grade = "
        "attnbook.checks.judge = check\n"
    )
    reads = (
        "import os, glob\nfound = []\nfor depth in range(6):\n"
        "    for name in ('course.toml', 'journal.db', 'submissions', 'checks/soft_lookup.py', "
        "'course/commands.py'):\n"
        "        found += glob.glob('/' + '*/' * depth + name) + "
        "glob.glob(os.path.expanduser('~/' + '*/' * depth + name))\n"
    )
    writes = (
        "import os\nfor path in ('/etc/passwd', '/usr/bin/evil', "
        "'/proc/sys/kernel/core_pattern', '/proc/sysrq-trigger', "
        "os.path.dirname(os.__file__) + '/evil.py'):\n"
        "    try:\n        open(path, 'a').write('x')\n    except OSError:\n        continue\n   "
        " raise SystemExit('wrote ' + path)\n"
    )
    sockets = (
        "import socket\nfor place in (('127.0.0.1', 8786), ('1.1.1.1', 53), ('169.254.169.254', "
        "80)):\n"
        "    try:\n        socket.create_connection(place, 1)\n    except OSError:\n        "
        "continue\n    raise SystemExit('connected')\n"
    )
    pickle = (
        "class Bomb:\n    def __reduce__(self):\n        return (exec, "
        "(\"open('/tmp/attnbook-bomb', 'w').write('x')\",))\n"
        "    def __eq__(self, other): return True\n"
    )
    return {
        "endless loop": (loop, "ran longer than"),
        "catches everything": (
            _function(
                task,
                "while True:\n        try:\n            while True: pass\n        except "
                "BaseException: pass",
            ),
            "ran longer than",
        ),
        "fork bomb": (_function(task, "import os\n    while True: os.fork()"), "and was stopped"),
        "memory bomb": (
            _function(task, "kept = []\n    while True: kept.append(bytearray(2**27))"),
            "emory",
        ),
        "1 GB of output": (
            _function(task, "import os\n    for _ in range(1024): os.write(1, b'x' * 2**20)"),
            "printed more than",
        ),
        "fills the disk": (_function(task, "open('/tmp/x', 'wb').write(bytes(2**28))"), "OSError"),
        "ends the kernel": (_function(task, "import os; os._exit(0)"), "ended the Python process"),
        "exits with 0": (_function(task, "raise SystemExit(0)"), "SystemExit"),
        "kills its parent": (
            _function(
                task,
                "import os, signal\n    os.kill(os.getppid(), signal.SIGKILL)\n    return "
                "inputs[0]",
            ),
            "",
        ),
        "always equal": (
            _function(
                task,
                "return Yes()",
                "class Yes:\n    def __eq__(self, other): return True\n    def __getattr__(self, "
                "name): return self\n",
            ),
            "a Yes came back",
        ),
        "forged check": (forged + _function(task, "return None"), "None came back"),
        "patched modules": (patches + _function(task, "return Same()"), ""),
        "patched and right": (right + "\n" + forged, None),
        "reads files": (reads + f"if found: raise SystemExit(str(found))\n{right}", None),
        "writes outside": (writes + right, None),
        "opens sockets": (sockets + right, None),
        "pickle bomb": (pickle + _function(task, "return Bomb()"), "a Bomb came back"),
        "writes to the pipe": (
            _function(
                task,
                "import os\n    for place in range(3, 64):\n        try: os.write(place, b'x' * "
                "64)\n"
                "        except OSError: pass\n    return inputs[0]",
            ),
            "disturbed the connection",
        ),
        "huge result": (
            _function(
                task, "import torch\n    return torch.zeros(20_000_000, dtype=torch.float64)"
            ),
            "",
        ),
        "deep result": (
            _function(
                task, "value = []\n    for _ in range(10_000): value = [value]\n    return value"
            ),
            "",
        ),
        "NaN": (
            right + f"\nhonest = {name}\ndef {name}(*inputs):\n    return honest(*inputs) * "
            f"float('nan')\n",
            "NaN",
        ),
        "wrong shape": (
            right
            + f"\nhonest = {name}\ndef {name}(*inputs):\n    return honest(*inputs)[None, None]\n",
            "the shape is",
        ),
        "wrong dtype": (
            right + f"\nhonest = {name}\ndef {name}(*inputs):\n    return honest(*inputs).half()\n",
            "the dtype is",
        ),
        "right in float64": (
            right
            + f"\nhonest = {name}\ndef {name}(*inputs):\n    return honest(*inputs).double()\n",
            None,
        ),
    }


def write_class(
    folder: Path, assignment: Assignment, section: Section | None = None, only=None
) -> dict[str, SyntheticHandIn]:
    """Write `folder`/STUDENT/NAME.ipynb for the made-up class and return it.

    only: names of students; default all
    A student whose name holds a slash gets a folder with another sign there: no file system has a
    name with one."""
    written = {}
    for student, one in synthetic_class(assignment, section).items():
        student = student.replace("/", "⁄")
        if only is None or student in only:
            (folder / student).mkdir(parents=True)
            (folder / student / one.name).write_bytes(one.content)
            written[student] = one
    return written


def _function(task, body, before=""):
    return f"{before}def {task.function}(*inputs):\n    {body}\n"


def _drop(nb, drop):
    nb.cells = [cell for cell in nb.cells if not drop(cell.metadata.get("nbgrader", {}))]


def _unnamed(nb):
    for cell in nb.cells:
        cell.metadata.pop("nbgrader", None)


def _true_checks(nb):
    for cell in nb.cells:
        if cell.metadata.get("nbgrader", {}).get("grade"):
            cell.source = "assert True  # this is right"
            cell.metadata.nbgrader.points = 100


def _from_colab(nb):
    """As Colab saves it: other metadata, outputs, a kernel of its own name, cells of the
    student's.
    """
    nb.metadata = nbformat.NotebookNode(
        {
            "colab": {"provenance": []},
            "kernelspec": {"name": "my-kernel", "display_name": "Mine", "language": "python"},
        }
    )
    for place, cell in enumerate(nb.cells):
        cell.metadata["id"] = f"colab{place}"
        if cell.cell_type == "code":
            cell.execution_count = 7
            cell.outputs = [nbformat.v4.new_output("stream", name="stdout", text="an old output\n")]
    nb.cells.insert(
        1,
        new_code_cell(
            "%matplotlib inline\n!pip install nothing\nfrom IPython.display import "
            "display\ndisplay(1)"
        ),
    )
    nb.cells.insert(2, new_markdown_cell("Meine Notizen: ü, 注意"))


def _turned(nb):
    """Exercises in the opposite order, each still with its cells."""
    head, tail = nb.cells[:2], nb.cells[2:]
    groups = []
    for cell in tail:
        if cell.cell_type == "markdown":
            groups.append([])
        groups[-1].append(cell)
    nb.cells = head + [cell for group in reversed(groups) for cell in group]


def _doubled(nb):
    again = [copy.deepcopy(cell) for cell in nb.cells]
    for cell in again:
        cell["id"] = f"again-{cell['id']}"[:60]
    nb.cells += again


def _ascii(content, comment):
    """The text of the notebook without letters beyond ASCII but those of a comment, unescaped."""
    nb = json.loads(content)
    nb["cells"].insert(
        1,
        {
            "cell_type": "code",
            "id": "note",
            "metadata": {},
            "execution_count": None,
            "outputs": [],
            "source": comment,
        },
    )
    text = json.dumps(nb)
    return text.replace(json.dumps(comment)[1:-1], comment)


def _chapter(section, answers):
    """The chapter's public notebook with these answers, a cell of the student's own, and cells
    that must not run again.
    """
    nb = publish.readable(source.read_source(section.path), section.path)
    by_key = {task.key: answers.get(task.id) for task in section.tasks}
    for cell in nb.cells:
        answer = by_key.get(cell.metadata.get("nbgrader", {}).get("grade_id"))
        if answer is not None:
            cell.source = answer
    nb.cells.insert(1, new_markdown_cell("My notes."))
    nb.cells.insert(2, new_code_cell("scratch = [1, 2, 3]\nscratch"))
    return nb


def _only_first_calls(right, task):
    """Code that makes an answer right for the visible check only, which calls it this often."""
    scope, count = {}, 0
    exec(right, scope)

    def counted(*inputs):
        nonlocal count
        count += 1
        return scope[task.function](*inputs)

    judge(task.id, counted)
    return (
        f"\n\nhonest, left = {task.function}, {count}\n\n\ndef {task.function}(*inputs):\n    "
        f"global left\n    left -= 1\n"
        "    return honest(*inputs) if left >= 0 else inputs[0]\n"
    )


def _talks(task):
    return (
        f"\n\nquiet = {task.function}\n\n\ndef {task.function}(*inputs):\n    import sys, "
        f"warnings\n    print('hello')\n"
        "    print('hello', file=sys.stderr)\n    warnings.warn('hello')\n    return "
        "quiet(*inputs)\n"
    )
