"""Writes where things are into CONTRIBUTING.md: every package of the tree with the first sentence
of what it says of itself.

    python tools/make_layout.py            write it
    python tools/make_layout.py --check    exit 1 where it is not what the tree says
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = (
    "attnbook",
    "attnbook_exercises",
    "attnbook_runs",
    "grader/attnbook_grader",
    "bookbuild",
)
BEGIN, END = "<!-- layout -->\n", "<!-- end of layout -->"
DEPTH = 2  # of folders below a package


def first_sentence(path: Path) -> str:
    """The first sentence of a module's docstring, on one line."""
    said = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return " ".join(said.partition("\n\n")[0].split()).rstrip(".")


def rows(folder: Path, depth: int = 0) -> list[str]:
    """The lines of a package: its own, those of its packages, and of the modules on its first
    level.
    """
    indent = "  " * depth
    name = folder.relative_to(ROOT) if depth == 0 else folder.name
    lines = [f"{indent}- `{name}/` {first_sentence(folder / '__init__.py')}"]
    if depth < DEPTH:
        for inner in sorted(folder.iterdir()):
            if (inner / "__init__.py").is_file():
                lines += rows(inner, depth + 1)
    if depth == 0:
        modules = sorted(p for p in folder.glob("*.py") if not p.name.startswith("_"))
        lines += [f"  - `{path.name}` {first_sentence(path)}" for path in modules]
    return lines


def layout() -> str:
    """The list as it stands in CONTRIBUTING.md."""
    return "\n".join(line for package in PACKAGES for line in rows(ROOT / package)) + "\n"


def main(argv: list[str] | None = None) -> int:
    page = ROOT / "CONTRIBUTING.md"
    text = page.read_text(encoding="utf-8")
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        sys.exit(f"CONTRIBUTING.md: expected the lines {BEGIN.strip()} and {END}")
    made = before + begin + layout() + end + after
    if made == text:
        return 0
    if "--check" in (sys.argv[1:] if argv is None else argv):
        print("CONTRIBUTING.md: the layout has changed; write it with: python tools/make_layout.py")
        return 1
    page.write_text(made, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
