"""The commands `attnbook grade` and `attnbook course`: what an instructor types."""
from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import click

_FOLDER = click.Path(path_type=Path)
_SECONDS = click.IntRange(1)
_BOOK = click.option("--book", type=_FOLDER, help="A checkout of the book; default: the one that attnbook runs from.")
_SECTION = click.option("--section", "only", multiple=True, metavar="NAME", help="Only this section, as soft_lookup; repeatable.")
_UNPROTECTED = "Students' code runs unprotected, with your rights: grade untrusted work in a container that you can throw away."


@click.command(epilog=_UNPROTECTED)
@click.argument("submissions", type=_FOLDER)
@click.option("--out", default=Path("course/graded"), show_default=True, type=_FOLDER, help="Where marks and feedback go.")
@_BOOK
@_SECTION
@click.option("--exercise", "tasks", multiple=True, metavar="ID", help="Only this exercise, as 00.weighted_sum; repeatable.")
@click.option("--timeout", default=30, show_default=True, type=_SECONDS, help="Seconds for one cell.")
@click.option("--startup-timeout", default=120, show_default=True, type=_SECONDS, help="Seconds for a kernel to start.")
@click.option("--limit", default=600, show_default=True, type=_SECONDS, help="Seconds for one notebook in all.")
@click.option("--jobs", type=click.IntRange(1), help="Notebooks graded at a time; default: one for each core.")
def grade(submissions, out, book, only, tasks, timeout, startup_timeout, limit, jobs):
    """Grade the folder SUBMISSIONS, which holds STUDENT/SECTION.ipynb for every student.

    Writes OUT/marks.csv, OUT/feedback/STUDENT/index.html and nbgrader's OUT/gradebook.db.
    """
    from . import grading

    click.echo(grading.UNPROTECTED, err=True)
    with _clear_errors():
        done = grading.grade_folder(
            submissions,
            out,
            book=book,
            only=only,
            tasks=tasks,
            limits=grading.Limits(timeout, startup_timeout, limit),
            jobs=jobs,
            say=click.echo,
        )
    for remark in done.remarks:
        click.echo(remark, err=True)
    click.echo(f"marks: {out / 'marks.csv'}\nfeedback: {out / 'feedback'}")


@click.group()
def course():
    """The exercises as notebooks: for students, without solutions, and for instructors, with them."""


@course.command()
@click.option("--out", default=Path("course/release"), show_default=True, type=_FOLDER)
@_BOOK
@_SECTION
def release(out, book, only):
    """Write the students' notebooks: the exercises of each section, without solutions or hidden checks."""
    import nbformat

    from . import nbgrader_course
    from .exercises import find_book, sections

    def make(folder):
        with tempfile.TemporaryDirectory() as work:
            work = Path(work).resolve()
            nbgrader_course.add_assignments(work, parts)
            for part in parts:
                target = folder / part.chapter / f"{part.name}.ipynb"
                target.parent.mkdir(parents=True, exist_ok=True)
                nb = nbformat.read(work / "release" / part.name / f"{part.name}.ipynb", 4)
                nb.cells = [cell for cell in nb.cells if cell.source.strip()]  # a hidden check leaves an empty cell behind
                nbformat.write(nb, target)

    with _clear_errors():
        parts = sections(find_book(book), only)
        _write_folder(out, make)
    click.echo(f"{len(parts)} notebooks for students in {out}")


@course.command()
@click.option("--out", default=Path("course/example"), show_default=True, type=_FOLDER)
@_BOOK
@_SECTION
def example(out, book, only):
    """Write a made-up class for one section, to try `attnbook grade` on: right, wrong, broken and hostile hand-ins."""
    from .exercises import find_book, sections
    from .made_up import write_class

    with _clear_errors():
        part = sections(find_book(book), only)[0]
        _write_folder(out, lambda folder: write_class(folder, part))
    click.echo(f"hand-ins for {part.name} in {out}; next: attnbook grade {out}")


@course.command()
@click.option("--out", default=Path("course/instructor"), show_default=True, type=_FOLDER)
@_BOOK
@_SECTION
def instructor(out, book, only):
    """Write the instructor's notebooks: each section in full, with solutions and hidden checks."""
    import nbformat

    from . import source
    from .exercises import find_book, sections

    def make(folder):
        for part in parts:
            target = folder / part.chapter / f"{part.name}.ipynb"
            target.parent.mkdir(parents=True, exist_ok=True)
            nbformat.write(source.instructor_version(source.read_source(part.path)), target)

    with _clear_errors():
        parts = sections(find_book(book), only)
        _write_folder(out, make)
    click.echo(f"{len(parts)} notebooks with solutions in {out}")


def _write_folder(out: Path, make) -> None:
    """Fill a new folder and give it its name when it is complete. ValueError if the name is taken."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ValueError(f"out: {out} exists; choose another folder, so that nobody's work is overwritten")
    out.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=f".{out.name}-", dir=out.parent))
    try:
        make(work)
        os.chmod(work, 0o755)
        if out.exists():
            out.rmdir()
        os.replace(work, out)
    finally:
        shutil.rmtree(work, ignore_errors=True)


class _clear_errors:
    """Errors that a person can mend come as one line, without a traceback."""

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if isinstance(error, (ValueError, ImportError, RuntimeError, OSError)):
            raise click.ClickException(str(error)) from error
        return False
