"""What the process in the sandbox imports: student code sees nothing else of the grader."""

import ast
import sys
from pathlib import Path

import attnbook_grader

PROTOCOL = Path(attnbook_grader.__file__).parent / "protocol"


def imported(path):
    """The modules that a file of the folder imports, as (dots, name)."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((0, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.level, node.module or ""


def test_the_process_in_the_sandbox_needs_no_hidden_part():
    packages = {"torch", "numpy", "safetensors", "IPython"}
    for path in PROTOCOL.glob("*.py"):
        for level, name in imported(path):
            assert (
                level == 1
                or level == 0
                and (
                    name.startswith("attnbook_exercises.answers.")
                    or name.split(".")[0] in packages | sys.stdlib_module_names
                )
            ), f"{path.name} imports {'.' * level}{name}"
