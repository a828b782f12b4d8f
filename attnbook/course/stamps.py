"""What a verdict depends on: the check's own code and its seed. When that changes, the exercise is judged again, and no other."""
from __future__ import annotations

import ast
import hashlib
import inspect
import sys
from functools import lru_cache

from ..checks import find


def stamp(id: str, seed: int) -> str:
    """A word that changes when the code of the check `id`, or what it uses of its module, or the hidden seed changes."""
    return hashlib.sha256(f"{_code(id)}\0{seed}".encode()).hexdigest()[:16]


@lru_cache(maxsize=None)
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
        queue += [part.id for node in defined[name] for part in ast.walk(node) if isinstance(part, ast.Name)]
    return "\n".join(seen[name] for name in sorted(seen))


@lru_cache(maxsize=None)
def _definitions(module):
    """{name: nodes of the module that give it a value}."""
    found: dict[str, list[ast.AST]] = {}
    for node in ast.parse(inspect.getsource(sys.modules[module])).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names = [node.name]
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = [part.id for target in targets for part in ast.walk(target) if isinstance(part, ast.Name)]
        else:
            continue
        for name in names:
            found.setdefault(name, []).append(node)
    return found
