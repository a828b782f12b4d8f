"""The first code cell of every notebook: it installs the library on Colab, chooses the preset and
seeds. No source holds it; reading one adds it, below the line that says what the section takes.
"""

from __future__ import annotations

import re
from pathlib import Path

from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell

from . import promise
from .address import ROOT, Address, read_address

TAG = "set-up"
_CALL = re.compile(r"^setup = attnbook\.setup\(", re.MULTILINE)
_INTERFACE = re.compile(r"\binterface=(\d+)")


def add_setup(nb: NotebookNode, path: Path) -> NotebookNode:
    """Put the set-up cell into the source `path`, in place, where it has a declared line."""
    texts = [(k, cell) for k, cell in enumerate(nb.cells) if cell.cell_type == "markdown"]
    lines = ((k, cell, promise.LINE.search(cell.source)) for k, cell in texts)
    place, cell, found = next((line for line in lines if line[2]), (0, None, None))
    if cell is None or found is None:
        return nb
    above, below = cell.source[: found.end()], cell.source[found.end() :].strip("\n")
    code = setup_code(promise.declared(nb), read_address(path), current_interface())
    cell.source = above
    added = [new_code_cell(code, metadata={"tags": ["hide-input", TAG]})]
    added += [new_markdown_cell(below)] if below.strip() else []
    nb.cells[place + 1 : place + 1] = added
    return nb


def setup_code(said: promise.Declared, address: Address, interface: int) -> str:
    """The cell of a notebook that needs what is `said` and was written for `interface`."""
    title, form, chosen = "Set-up", "", ""
    if said.full:
        title += f": auto is full with a GPU ({said.full.time}), else quick ({said.quick.time})"
        form = 'preset = "auto"  #@param ["auto", "quick", "full"]\n'
        chosen = ", preset=preset"
    return (
        f"#@title {title}\n{form}"
        "try:\n"
        "    import attnbook\n"
        "except ModuleNotFoundError:  # on Colab: keep the runtime's torch and numpy\n"
        f'    %pip install -q --no-deps "{address.requirement}"\n'
        "    import attnbook\n"
        f"setup = attnbook.setup(seed=0{chosen}, interface={interface})"
    )


def is_setup(code: str) -> bool:
    """Whether a cell is a set-up cell, of this or of another day, the form filled in or not."""
    return bool(_CALL.search(code)) and "import attnbook" in code


def interface_of(code: str) -> int | None:
    """The number of the library's interface in a set-up cell."""
    found = _INTERFACE.search(code)
    return int(found[1]) if found else None


def with_interface(code: str, number: int) -> str:
    """The set-up cell, written for the interface `number`."""
    return _INTERFACE.sub(f"interface={number}", code)


def current_interface(root: Path = ROOT) -> int:
    """The interface that the library has, read without importing it."""
    return _number(root, "INTERFACE")


def oldest_interface(root: Path = ROOT) -> int:
    """The oldest interface that the library supports."""
    return _number(root, "OLDEST_INTERFACE")


def _number(root, name):
    text = (root / "attnbook" / "version.py").read_text(encoding="utf-8")
    found = re.search(rf"^{name} = (\d+)$", text, re.MULTILINE)
    if found is None:
        raise ValueError(f"attnbook/version.py: expected a line {name} = NUMBER")
    return int(found[1])
