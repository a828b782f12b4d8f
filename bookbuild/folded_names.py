"""Names that a reader meets without having seen where they come from: a cell that stands open
uses them, and only a folded cell defines or imports them.
"""

from __future__ import annotations

import builtins
import re
import symtable

from nbformat import NotebookNode

FOLDED = {"hide-cell", "hide-input", "remove-input"}
GIVEN = {*dir(builtins), "attnbook", "setup"}
"""What stands in every notebook: Python's own names and those of the set-up cell."""


def folded_names(nb: NotebookNode) -> list[tuple[int, str]]:
    """Each name with the number of the first open cell that uses it."""
    seen, folded, found = set(GIVEN), set(), {}
    for number, cell in enumerate(nb.cells):
        if cell.cell_type != "code":
            continue
        bound, used = _names(cell.source)
        if FOLDED & {*cell.metadata.get("tags", [])}:
            folded |= bound
            continue
        for name in sorted((used - bound - seen) & folded):
            found.setdefault(name, number)
        seen |= bound
    return [(number, name) for name, number in found.items()]


def _names(code):
    """The names that a cell binds, and the names of the notebook that it reads, also those that
    its functions and classes read."""
    plain = re.sub(r"^(\s*)[%!].*$", r"\1pass", code, flags=re.MULTILINE)
    bound, used = set(), set()

    def walk(table, is_module):
        for symbol in table.get_symbols():
            if is_module and (
                symbol.is_assigned() or symbol.is_imported() or symbol.is_namespace()
            ):
                bound.add(symbol.get_name())
            if symbol.is_referenced() and (is_module or symbol.is_global()):
                used.add(symbol.get_name())
        for inner in table.get_children():
            walk(inner, False)

    walk(symtable.symtable(plain, "cell", "exec"), True)
    return bound, used
