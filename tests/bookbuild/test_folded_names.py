"""An open cell uses no name that only a folded cell defines."""

from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from bookbuild.folded_names import folded_names

ROOT = Path(__file__).resolve().parents[2]
NOT_YET = set(
    "weights_as_explanation documents_and_memory global_and_local soft_and_hard "
    "decision_processes patches_and_latents dictated_numbers repair_a_decoder".split()
)
"""Sections whose open cells still use such names. A section that is clean leaves the list."""


def notebook(*cells):
    """Cells of code, folded where they begin with a tag and a colon."""
    made = []
    for text in cells:
        tag, colon, code = text.partition(": ")
        folded = colon and tag.startswith("hide")
        tags = {"tags": [tag]} if folded else {}
        made.append(new_code_cell(code if folded else text, metadata=tags))
    return new_notebook(cells=made)


@pytest.mark.parametrize(
    ("cells", "found"),
    [
        (("hide-cell: x = 1", "print(x)"), [(1, "x")]),
        (("hide-input: import torch", "torch.ones(1)"), [(1, "torch")]),
        (("hide-cell: def f(): pass", "def g():\n    return f()"), [(1, "f")]),
        (("hide-cell: class A: pass", "class B(A): pass"), [(1, "A")]),
        (("hide-cell: x = 1", "print(x)", "print(x)"), [(1, "x")]),
        (("hide-cell: x = 1", "x = 2\nprint(x)"), []),
        (("x = 1", "hide-cell: x = 2", "print(x)"), []),
        (("hide-cell: x = 1", "def f(x):\n    return x"), []),
        (("hide-cell: x = 1", "[x for x in range(3)]"), []),
        (("hide-cell: x = 1", "hide-cell: print(x)"), []),
        (("%pip install x", "print(setup.device, attnbook, len([]))"), []),
    ],
)
def test_names_by_hand(cells, found):
    assert folded_names(notebook(*cells)) == found


@pytest.mark.parametrize(
    "path", sorted((ROOT / "chapters").glob("*/*.ipynb")), ids=lambda p: p.stem
)
def test_open_cells_of_the_book_use_names_that_stand_in_the_open(path):
    found = folded_names(nbformat.read(path, as_version=4))
    if path.stem in NOT_YET:
        assert found, f"{path.stem} is clean: take it from the list"
    else:
        assert not found
