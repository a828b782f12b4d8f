"""Writes appendix/ledger.md from data/ledger.csv, after checking every row of it.

    python tools/make_ledger.py            write the page
    python tools/make_ledger.py --check    only say what is wrong

Columns of data/ledger.csv: id, chapter, kind, title, status ("planned" or "done"), section (a
notebook without its extension), name (what attnbook calls it; several are separated by spaces) and
test (a pytest node id such as tests/tasks/translation/test_dates.py::test_every_format, or a
notebook with assertions; several are separated by spaces).

S6.19 is fifty modifications of one model: data/modifications.csv has a row each, with the columns
modification, title, name and test. They stand in a table of their own below the chapter."""

from __future__ import annotations

import ast
import csv
import importlib
import re
import sys
from collections import Counter
from functools import cache
from pathlib import Path

from attnbook.files import write_atomically
from bookbuild.address import read_address

ROOT = Path(__file__).resolve().parent.parent
COLUMNS = ["id", "chapter", "kind", "title", "status", "section", "name", "test"]
PARTS_COLUMNS = ["modification", "title", "name", "test"]
KINDS = {"S": "system", "F": "formula", "P": "picture", "C": "claim", "E": "slip"}
CHAPTERS = {
    "0": "What attention is",
    "1": "Sequence to sequence",
    "2": "Bahdanau: attention for translation",
    "3": "A family of attention mechanisms",
    "4": "Neural Turing Machine",
    "5": "Pointer network",
    "6": "Transformer",
    "7": "SNAIL",
    "8": "Self-attention GAN",
    "9": "Attention since 2017",
}


def read(path: Path, columns: list[str] = COLUMNS) -> list[dict[str, str]]:
    """The rows of a ledger."""
    with path.open(encoding="utf-8", newline="") as stream:
        reader = csv.DictReader(stream)
        if reader.fieldnames != columns:
            raise ValueError(
                f"{path.name} must have the columns {columns}, got {reader.fieldnames}"
            )
        return list(reader)


def problems(rows: list[dict[str, str]], ids: list[str], root: Path = ROOT) -> list[str]:
    """What is wrong with a ledger that should hold `ids`, each once and in that order, and may hold
    others; one line a fault.
    """
    have = [row["id"] for row in rows]
    found = [f"{i}: missing from the ledger" for i in ids if i not in have]
    found += [f"{i}: listed {times} times" for i, times in Counter(have).items() if times > 1]
    if not found and [i for i in have if i in ids] != ids:
        found.append("the rows are not in the order of the syllabus")
    for row in rows:
        found += [f"{row['id']}: {fault}" for fault in _faults(row, root)]
    return found


def problems_of_parts(
    parts: list[dict[str, str]], names: list[str], root: Path = ROOT
) -> list[str]:
    """What is wrong with the rows of S6.19, which should hold `names`, each once and in that
    order; one line a fault.
    """
    have, found = [part["modification"] for part in parts], []
    if have != names:
        found.append(f"S6.19: the modifications must be {names}, got {have}")
    for part in parts:
        faults = [f"has no {column}" for column in PARTS_COLUMNS if not part[column].strip()]
        faults += [fault for name in part["name"].split() if (fault := name_fault(name))]
        faults += [fault for test in part["test"].split() if (fault := test_fault(test, root))]
        found += [f"S6.19 {part['modification']}: {fault}" for fault in faults]
    return found


def _faults(row: dict[str, str], root: Path) -> list[str]:
    faults = []
    if row["kind"] != KINDS.get(row["id"][:1]):
        faults.append(f"kind is {row['kind']!r}, expected {KINDS.get(row['id'][:1])!r}")
    # the tenth part of the syllabus adds to the sections of all chapters
    part = row["id"][1:].split(".")[0] if "." in row["id"] else None
    if row["chapter"] not in CHAPTERS or part not in (None, row["chapter"], "10"):
        faults.append(f"chapter is {row['chapter']!r}")
    if not row["title"].strip():
        faults.append("has no title")
    if row["section"] and not re.fullmatch(rf"chapters/0{row['chapter']}_\w+/\w+", row["section"]):
        faults.append(
            f"section {row['section']!r} is not a notebook of chapter {row['chapter']}, without "
            f"extension"
        )
    if row["status"] not in ("planned", "done"):
        faults.append(f"status is {row['status']!r}, expected 'planned' or 'done'")
    if row["status"] != "done":
        return faults
    if not row["section"]:
        faults.append("is done, but has no section")
    elif not (root / f"{row['section']}.ipynb").is_file():
        faults.append(f"section {row['section']}.ipynb does not exist")
    if not row["name"] and row["kind"] in ("system", "formula"):
        faults.append("is done, but has no name")
    if not row["test"]:
        faults.append("is done, but has no test")
    faults += [fault for name in row["name"].split() if (fault := name_fault(name))]
    faults += [fault for test in row["test"].split() if (fault := test_fault(test, root))]
    return faults


def name_fault(name: str) -> str | None:
    """Why a dotted name cannot be imported, or None."""
    parts = name.split(".")
    if not parts[0].startswith("attnbook"):
        return f"name {name} is not of attnbook"
    for length in range(len(parts), 0, -1):
        module = ".".join(parts[:length])
        try:
            found = importlib.import_module(module)
        except ModuleNotFoundError as error:
            if error.name and (module == error.name or module.startswith(error.name + ".")):
                continue
            return f"name {name} cannot be imported: {error}"
        for attribute in parts[length:]:
            if not hasattr(found, attribute):
                return f"name {name} does not exist"
            found = getattr(found, attribute)
        return None
    return f"name {name} does not exist"


@cache  # several rows cite one file
def _parsed(path: Path, modified: int) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def test_fault(test: str, root: Path = ROOT) -> str | None:
    """Why a test does not exist, or None."""
    file, *path = test.split("::")
    if not (root / file).is_file():
        return f"test file {file} does not exist"
    if file.endswith(".ipynb"):
        text = (root / file).read_text(encoding="utf-8")
        return None if re.search(r"\bassert\b", text) else f"notebook {file} asserts nothing"
    if not path or not re.sub(r"\[.*", "", path[-1]).startswith("test_"):
        return f"test {test} names no test function"
    body = _parsed(root / file, (root / file).stat().st_mtime_ns).body
    for part in path:
        part = re.sub(r"\[.*", "", part)
        kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
        match = [node for node in body if isinstance(node, kinds) and node.name == part]
        if not match:
            return f"test {test} does not exist"
        body = match[0].body
    return None


def render(rows: list[dict[str, str]], parts: list[dict[str, str]]) -> str:
    """The appendix page."""
    if not any(row["id"] == "S6.19" and row["status"] == "done" for row in rows):
        parts = []
    planned = sum(row["status"] != "done" for row in rows)
    lines = [
        "# Ledger",
        "",
        f"Everything this book sets out to cover, in {len(rows) + len(parts)} lines; "
        + (f"{planned} of them are planned. " if planned else "all of them are done. ")
        + "A line names the section that explains its subject, what `attnbook` calls it, and the "
        "test that holds it.",
        "",
        "The first letter of an id says what it is: **S** a system or mechanism, **F** a "
        "formula, **P** a picture "
        "redrawn from a model trained here, **C** a claim that is measured (the verdict may be "
        "that it does not "
        "hold), **E** a slip in a source that is corrected.",
        "",
    ]
    for chapter, title in CHAPTERS.items():
        mine = [row for row in rows if row["chapter"] == chapter]
        if not mine:
            continue
        lines += [f"## {chapter}. {title}", ""]
        lines += ["| id | what | section | in `attnbook` | held by |", "|---|---|---|---|---|"]
        lines += [_line(row) for row in mine]
        lines.append("")
        if parts and any(row["id"] == "S6.19" for row in mine):
            lines += [
                "S6.19, modification by modification:",
                "",
                "| modification | in `attnbook` | held by |",
                "|---|---|---|",
            ]
            lines += [
                f"| {_cell(part['title'])} | {_names(part['name'])} | {_tests(part['test'])} |"
                for part in parts
            ]
            lines.append("")
    return "\n".join(lines).rstrip("\n") + "\n"


def _line(row: dict[str, str]) -> str:
    if row["status"] != "done":  # what is planned has no page to link to yet
        return f"| {row['id']} | {_cell(row['title'])} | planned | | |"
    label = row["section"].rsplit("/", 1)[1].replace("_", " ")
    cells = [
        row["id"],
        _cell(row["title"]),
        f"[{label}](../{row['section']}.ipynb)",
        _names(row["name"]),
        _tests(row["test"]),
    ]
    return "| " + " | ".join(cells) + " |"


def _names(names: str) -> str:
    """What a reader types: the last part of each name, once."""
    return " ".join(f"`{name}`" for name in dict.fromkeys(n.split(".")[-1] for n in names.split()))


def _tests(tests: str) -> str:
    """The test's own name, a link to its file; a notebook is a test of its section."""
    links = []
    for test in tests.split():
        file, _, name = test.partition("::")
        where = f"../{file}" if file.endswith(".ipynb") else f"{read_address(ROOT).file(file)}"
        said = name.removeprefix("test_").replace("_", " ") or "the section's own cells"
        links.append(f"[{said}]({where})")
    return ", ".join(links)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def main(arguments: list[str]) -> int:
    if not set(arguments) <= {"--check"}:
        print(__doc__, file=sys.stderr)
        return 2
    rows = read(ROOT / "data/ledger.csv")
    # The ids here are those of the ledger itself; the test of the ledger holds them against the
    # syllabus.
    found = problems(rows, [row["id"] for row in rows])
    parts = read(ROOT / "data/modifications.csv", PARTS_COLUMNS)
    found += problems_of_parts(parts, [part["modification"] for part in parts])
    page, text = ROOT / "appendix/ledger.md", render(rows, parts)
    if "--check" in arguments:
        if not page.is_file() or page.read_text(encoding="utf-8") != text:
            found.append("appendix/ledger.md is out of date: run python tools/make_ledger.py")
    else:
        write_atomically(page, text.encode())
    for fault in found:
        print(fault, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
