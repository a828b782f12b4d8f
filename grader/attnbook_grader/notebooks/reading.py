"""The cells of a notebook that was handed in, without its outputs.

It needs nothing but Python's own library: a large file is read by a process of its own, which runs
this module as a program, inside limits of memory and time.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

__all__ = ["LARGEST", "Unreadable", "bare_notebook", "decoded", "read_notebook"]

LARGEST = 128 * 2**20
"""Bytes of one file, outputs included; with pictures a chapter has about one million."""
_SMALL, _CELLS, _TEXT = 2**20, 10_000, 5 * 2**20
_LONGEST, _PICTURE = 20_000, re.compile(r"\(data:[^)]*\)")  # of a cell of text without a name
_MEMORY, _SECONDS, _REFUSED = 2 * 2**30, 30, 3


class Unreadable(ValueError):
    """The file is no notebook; the message is for the student."""


def read_notebook(file: int) -> bytes:
    """The notebook in an open file as a notebook of its cells alone.

    file: a descriptor.

    Raises Unreadable with the reason, when there is none, or it asks for too much.
    """
    size = os.fstat(file).st_size
    if size > LARGEST:
        raise Unreadable(
            f"the file is larger than {LARGEST // 2**20} MB. Clear its outputs and hand it in again"
        )
    os.lseek(file, 0, os.SEEK_SET)
    if size <= _SMALL:
        with open(os.dup(file), "rb") as whole:
            return json.dumps(bare_notebook(whole.read())).encode()
    limits = [str(_MEMORY), str(_SECONDS)]
    command = [sys.executable, "-I", "-S", os.path.abspath(__file__), *limits]
    try:
        done = subprocess.run(command, stdin=file, capture_output=True, timeout=4 * _SECONDS)
        if done.returncode == 0:
            return done.stdout
        if done.returncode == _REFUSED:
            raise Unreadable(done.stdout.decode())
    except subprocess.TimeoutExpired:
        pass
    raise Unreadable(
        f"the file of {size // 2**20} MB takes too much memory or time to be read. Clear its "
        f"outputs and hand it in again"
    )


def bare_notebook(content: bytes) -> dict:
    """A notebook of its cells alone, with what grading reads of them: code or not, the text, and
    nbgrader's name.

    Of format 4, and of 3, which keeps them in worksheets. What else makes a notebook valid is not
    looked at: programs other than Jupyter leave out what nobody here needs. UTF-8 is what Jupyter
    writes; UTF-16 and UTF-32 are known by their first bytes, and whatever is left is read as
    Windows-1252.

    Raises Unreadable with the reason, when there are no cells, or too many.
    """
    if not content.strip():
        raise Unreadable("the file is empty")
    try:
        cells = _cells(content)
    except ValueError as error:
        raise Unreadable(f"the file is not a Jupyter notebook ({error})") from None
    if len(cells) > _CELLS:
        raise Unreadable(f"the notebook has {len(cells):,} cells, expected at most {_CELLS:,}")
    size = sum(len(cell["source"]) for cell in cells)
    if size > _TEXT:
        raise Unreadable(f"the cells hold {size:,} characters of text, expected at most {_TEXT:,}")
    return {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": cells}


def decoded(content: bytes) -> str:
    """The text of a file, whatever its encoding."""
    encoding = json.detect_encoding(content)
    try:
        return content.decode(encoding)
    except UnicodeDecodeError:
        other = "cp1252" if encoding == "utf-8" else encoding
        return content.decode(other, errors="replace")


def _cells(content):
    try:
        document = json.loads(decoded(content))
    except (ValueError, RecursionError):
        raise ValueError("it does not appear to be JSON") from None
    try:
        if document.get("nbformat", 4) not in (3, 4):
            raise ValueError(f"its format is {str(document['nbformat'])[:20]!r}, expected 4")
        cells = [
            cell for sheet in document.get("worksheets", [document]) for cell in sheet["cells"]
        ]
        return [{"id": f"cell-{place:03d}", **_cell(cell)} for place, cell in enumerate(cells)]
    except (AttributeError, LookupError, TypeError):
        raise ValueError("it has no cells, or one without its kind or its text") from None


def _cell(cell):
    text, meta = cell["source"] if "source" in cell else cell["input"], cell.get("metadata")
    if not isinstance(text, (str, list)):
        raise TypeError
    nbgrader = meta.get("nbgrader") if isinstance(meta, dict) else None
    name = nbgrader.get("grade_id") if isinstance(nbgrader, dict) else None
    named = isinstance(name, str)
    made = {"source": "".join(text), "metadata": {"nbgrader": {"grade_id": name}} if named else {}}
    if cell["cell_type"] == "code":
        return {"cell_type": "code", **made, "outputs": [], "execution_count": None}
    # an answer in words may stand in it, and pictures may
    text = made["source"] if named else _PICTURE.sub("", made["source"])[:_LONGEST]
    return {"cell_type": "markdown", **made, "source": text}


def _main():
    import resource  # not on Windows: sandbox.launch.require_unix

    for kind, most in zip((resource.RLIMIT_DATA, resource.RLIMIT_CPU), map(int, sys.argv[1:])):
        resource.setrlimit(kind, (most, most))
    try:
        sys.stdout.buffer.write(json.dumps(bare_notebook(sys.stdin.buffer.read())).encode())
    except Unreadable as error:
        sys.stdout.buffer.write(str(error).encode(errors="replace"))
        sys.exit(_REFUSED)


if __name__ == "__main__":
    _main()
