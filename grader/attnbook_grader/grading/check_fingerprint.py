"""What a verdict depends on: the code of the check, the code that all checks share, and the seed.

When the code of one check changes, that exercise is judged again and no other; when shared code
changes, all are.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import sys
from functools import cache
from pathlib import Path

from attnbook_exercises import answers, checks
from attnbook_exercises.answers import arguments, flop_counter, guarded
from attnbook_exercises.checks import context, find, gradient_check, slips

from .. import protocol

__all__ = ["CHECKS", "fingerprint"]

_SHARED = (context, gradient_check, slips, guarded, arguments, flop_counter)


def _of_files() -> str:
    files = [
        path
        for package in (checks, answers, protocol)
        for path in sorted(Path(package.__path__[0]).rglob("*.py"))
    ]
    return hashlib.sha256(
        b"\0".join(path.read_bytes().replace(b"\r\n", b"\n") for path in files)
    ).hexdigest()[:16]


CHECKS = _of_files()
"""Hash of the code of all checks at import: a process that runs for days may have older checks than
the files.
"""


def fingerprint(id: str, seed: int) -> str:
    """Hash of the code of the check `id`, of the functions in its module that it uses, of the code
    that all checks share, and of the hidden seed.
    """
    return hashlib.sha256(f"{_code(id)}\0{_shared()}\0{seed}".encode()).hexdigest()[:16]


@cache
def _shared():
    """The code that all checks share, without comments."""
    return "\n".join(ast.unparse(ast.parse(inspect.getsource(module))) for module in _SHARED)


@cache
def _code(id):
    """The definitions of the check's module that its function reaches, without comments."""
    function = find(id).function
    defined = _definitions(function.__module__)
    seen, queue = {}, [function.__name__]
    while queue:
        name = queue.pop()
        if name in seen or name not in defined:
            continue
        seen[name] = "\n".join(ast.unparse(node) for node in defined[name])
        queue += [
            part.id
            for node in defined[name]
            for part in ast.walk(node)
            if isinstance(part, ast.Name)
        ]
    return "\n".join(seen[name] for name in sorted(seen))


@cache
def _definitions(module):
    """{name: nodes of the module that give it a value}."""
    found: dict[str, list[ast.AST]] = {}
    for node in ast.parse(inspect.getsource(sys.modules[module])).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names = [node.name]
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = [
                part.id
                for target in targets
                for part in ast.walk(target)
                if isinstance(part, ast.Name)
            ]
        else:
            continue
        for name in names:
            found.setdefault(name, []).append(node)
    return found
