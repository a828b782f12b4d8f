"""The book on paper: one PDF of the whole and one of each chapter, typeset by LuaLaTeX.

    python tools/make_pdf.py [CHAPTER] [--out build/pdf]

CHAPTER, as `02_bahdanau`, typesets that chapter alone, with sheets that count from 1 and links to
other chapters that lead to the website. What LaTeX gets is made by `tools/sphinx/paper.py`.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from pathlib import Path

from pypdf import PdfReader, PdfWriter

ROOT = Path(__file__).resolve().parents[1]


def missing() -> str | None:
    """What this machine lacks for typesetting, as one sentence; None if it lacks nothing."""
    lacking = [tool for tool in ("lualatex", "latexmk") if shutil.which(tool) is None]
    if not lacking:
        return None
    return (
        f"The book is typeset by TeX, and this machine has no {' and no '.join(lacking)}; "
        "on Debian and Ubuntu install both with: bash tools/install_system.sh paper"
    )


def write_latex(out: Path, chapter: str | None, doctrees: Path) -> Path:
    """The book, or one chapter, as LaTeX in the folder `out`; returns the file.

    Pages that a build of the website has read lie in `doctrees` and are not read again.
    """
    from jupyter_book.sphinx import build_sphinx

    failed = build_sphinx(
        str(ROOT),
        str(out),
        path_config=str(ROOT / "_config.yml"),
        confoverrides={"latex_individualpages": False, "paper_chapter": chapter},
        noconfig=True,
        doctreedir=str(doctrees),
        builder="latex",
        warningiserror=True,
        keep_going=True,
        quiet=True,
    )
    if failed:
        raise RuntimeError(f"Sphinx warns of what it writes for LaTeX ({failed})")
    return out / f"{chapter or 'book'}.tex"


def typeset(source: Path) -> Path:
    """The PDF of a LaTeX file; LuaLaTeX runs until all references agree."""
    command = ["latexmk", "-norc", "-lualatex", "-interaction=nonstopmode", "-halt-on-error"]
    done = subprocess.run(
        [*command, "-silent", source.name], cwd=source.parent, capture_output=True, text=True
    )
    if done.returncode:
        log = source.with_suffix(".log")
        said = log.read_text(encoding="utf-8", errors="replace") if log.is_file() else done.stderr
        first = re.search(r"^!.*(?:\n.*){0,6}", said, re.MULTILINE)
        raise RuntimeError(f"LuaLaTeX does not typeset {source.name}:\n{(first or [said])[0]}")
    return source.with_suffix(".pdf")


def chapters(book: PdfReader) -> dict[str, tuple[int, int]]:
    """{title: (first sheet, sheet after the last)} of each numbered chapter, counted from 0."""
    tops = [item for item in book.outline if not isinstance(item, list)]
    starts = [book.get_destination_page_number(item) for item in tops]
    ends = [*starts[1:], len(book.pages)]
    found = zip((item.title for item in tops), starts, ends)
    return {
        title: (first, end)
        for title, first, end in found
        if title and first is not None and end is not None and title[0].isdigit()
    }


def split(path: Path, names: list[str]) -> list[Path]:
    """One PDF for each chapter, beside the book and with the numbers of its sheets. Links to what
    is in the chapter still work; a reference to another says its page in the book."""
    book, made = PdfReader(path), []
    found = chapters(book)
    if len(found) != len(names):
        raise RuntimeError(f"the book has {len(names)} chapters, and its PDF shows {list(found)}")
    for name, (title, (first, end)) in zip(names, found.items()):
        writer = PdfWriter()
        writer.append(book, pages=(first, end))
        writer.add_metadata(
            {"/Title": f"{title} ({book.metadata.title if book.metadata else path.stem})"}
        )
        made.append(path.with_name(f"{name}.pdf"))
        writer.write(made[-1])
    return made


def make(out: Path, chapter: str | None, latex: Path, doctrees: Path) -> list[Path]:
    """Typesets the book, or one chapter, into the folder `out`; returns the PDFs."""
    typeset_at = typeset(write_latex(latex, chapter, doctrees))
    out.mkdir(parents=True, exist_ok=True)
    pdf = Path(shutil.copy(typeset_at, out / (f"{chapter}.pdf" if chapter else "attnbook.pdf")))
    return [pdf] if chapter else [pdf, *split(pdf, names())]


def names() -> list[str]:
    """The folders of the chapters, in order."""
    return sorted(path.parent.name for path in (ROOT / "chapters").glob("*/index.md"))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("chapter", nargs="?", metavar="CHAPTER", help="as 02_bahdanau")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "pdf")
    args = parser.parse_args()
    if args.chapter not in (None, *names()):
        print(f"CHAPTER: one of {', '.join(names())}, got {args.chapter!r}", file=sys.stderr)
        return 2
    if lacking := missing():
        print(lacking, file=sys.stderr)
        return 2
    build = ROOT / "_build"
    try:
        made = make(args.out, args.chapter, build / "latex", build / ".doctrees")
    except RuntimeError as error:
        print(error, file=sys.stderr)
        return 1
    for pdf in made:
        size = pdf.stat().st_size / 1e6
        print(f"{pdf}: {len(PdfReader(pdf).pages)} pages, {size:.1f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
