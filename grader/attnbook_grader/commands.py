"""The commands `attnbook grade`, `attnbook check` and `attnbook course`: what an instructor and
a student type.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from pathlib import Path

import click

_FOLDER = click.Path(path_type=Path)
_SECONDS = click.IntRange(1)
_BOOK = click.option(
    "--book", type=_FOLDER, help="A checkout of the book; default: the one that attnbook runs from."
)
_SECTION = click.option(
    "--section",
    "only",
    multiple=True,
    metavar="NAME",
    help="Only this section, as soft_lookup; repeatable.",
)
_EXERCISE = click.option(
    "--exercise",
    "tasks",
    multiple=True,
    metavar="ID",
    help="Only this exercise, as 00.weighted_sum; repeatable.",
)
_TRUST = click.option(
    "--trust",
    is_flag=True,
    help="Run students' code without a sandbox, with your rights: only if you trust all of it.",
)
_JOBS = click.option(
    "--jobs", type=click.IntRange(1), help="Notebooks at a time; default: one for each core."
)
_SANDBOX = click.option(
    "--sandbox",
    type=click.Choice(["bubblewrap", "docker", "podman"]),
    help="Where students' code runs; default: bubblewrap.",
)
_IMAGE = click.option(
    "--image", metavar="NAME", help="Image of the container, with Python and what attnbook needs."
)
_SCHEDULER = click.option(
    "--scheduler",
    metavar="ADDRESS",
    help="Judge on the workers of this Dask scheduler, as tcp://127.0.0.1:8786.",
)
_UNTRUSTED = (
    "Students' code runs in a sandbox, without network and without the checks. Where "
    "there is none, nothing is graded."
)


@click.command(epilog=_UNTRUSTED)
@click.argument("submissions", type=_FOLDER)
@click.option(
    "--out",
    default=Path("course/graded"),
    show_default=True,
    type=_FOLDER,
    help="Where marks and feedback go.",
)
@_BOOK
@_SECTION
@_EXERCISE
@click.option(
    "--timeout",
    default=15,
    show_default=True,
    type=_SECONDS,
    help="Seconds for one cell, and for one check.",
)
@click.option(
    "--limit",
    default=300,
    show_default=True,
    type=_SECONDS,
    help="Seconds for one notebook in all.",
)
@_JOBS
@_SANDBOX
@_IMAGE
@_SCHEDULER
@_TRUST
def grade(
    submissions, out, book, only, tasks, timeout, limit, jobs, sandbox, image, scheduler, trust
):
    """Grade the folder SUBMISSIONS, which holds a folder of notebooks for every student, without
    making a course.

    Every section of the book is an assignment, with the book's points and hidden checks that
    anybody can look up; for a class, make a course of your own: attnbook course new. Goes on where
    an earlier round in OUT ended."""
    from .course.assignments import Course, from_sections
    from .sandbox.launch import Limits

    with _clear_errors():
        wanted = _sections(book, only, tasks)
        parts = _sections(book) if only or tasks else wanted
        limits = Limits(seconds=timeout, notebook=limit)
        course = Course(
            "Attention, Cell by Cell",
            0,
            from_sections(parts),
            limits=limits,
            sandbox=sandbox,
            image=image,
        )
        _grade(
            course,
            submissions,
            out,
            trust=trust,
            jobs=jobs,
            scheduler=scheduler,
            only=[part.name for part in wanted] if only or tasks else None,
            tasks=tasks,
        )


@click.command()
@click.argument("notebook", type=_FOLDER)
@_EXERCISE
def check(notebook, tasks):
    """Check the answers in your NOTEBOOK: the same verdicts as its check cells, and as the part of
    the grader that you may see.

    The notebook's code runs on this computer, with your rights. Ends with 1 when an answer is not
    right."""
    from .self_check import self_check

    with _clear_errors():
        verdicts = self_check(notebook, tasks)
    for verdict in verdicts:
        click.echo(str(verdict))
    if not all(verdicts):
        raise SystemExit(1)


@click.group()
def course():
    """A course: assignments from the book's exercises, their notebooks, and the grading of a
    class.
    """


@course.command()
@click.argument("folder", type=_FOLDER)
@click.option(
    "--chapter",
    "chapters",
    multiple=True,
    metavar="NUMBER",
    type=click.IntRange(0, 99),
    help="Exercises of this chapter, as 3; repeatable.",
)
@_SECTION
@click.option("--title", default="Attention, Cell by Cell", show_default=True)
@_BOOK
def new(folder, chapters, only, title, book):
    """Lay out a course in FOLDER: course.toml, the students' notebooks and yours; one assignment a
    section.

    Everything about it stands in course.toml: assignments, points, due dates, rules, limits and the
    private seed. After a change there: attnbook course notebooks FOLDER."""
    from .course.assignments import FILE, from_sections, read_course, write_course

    with _clear_errors():
        parts = _sections(book, only)
        if chapters:
            parts = [part for part in parts if int(part.chapter[:2]) in chapters]
        if not parts:
            raise ValueError(
                f"chapter: no section of chapter {', '.join(map(str, chapters))} has an exercise"
            )

        def make(work):
            write_course(work / FILE, title, from_sections(parts))
            made = read_course(work, book)
            _write_notebooks(work, made)
            (work / "submissions").mkdir()

        _write_folder(folder, make)
    count = sum(len(part.tasks) for part in parts)
    click.echo(f"{len(parts)} assignments, {count} exercises in {folder}")
    click.echo(
        f"next: edit {folder / FILE}; attnbook course check {folder}; hand out {folder / 'student'}"
    )


@course.command()
@click.argument("folder", type=_FOLDER)
@_BOOK
def notebooks(folder, book):
    """Write the notebooks of the course in FOLDER anew, after a change in course.toml."""
    from .course.assignments import read_course

    with _clear_errors():
        made = read_course(folder, book)
        with tempfile.TemporaryDirectory(prefix=".new-", dir=folder) as work:
            _write_notebooks(Path(work), made)
            for name in ("student", "instructor"):
                shutil.rmtree(folder / name, ignore_errors=True)
                os.replace(Path(work) / name, folder / name)
    click.echo(
        f"{len(made.assignments)} notebooks in {folder / 'student'} and {folder / 'instructor'}"
    )


@course.command("check")
@click.argument("folder", type=_FOLDER)
@click.option(
    "--assignment", "names", multiple=True, metavar="NAME", help="Only this assignment; repeatable."
)
@_BOOK
@_JOBS
@_TRUST
def check_command(folder, names, book, jobs, trust):
    """Prove that the course in FOLDER marks rightly, in the sandbox and with its own seed.

    Every solution must get all points; every known wrong answer and the untouched notebook must get
    fewer, with a message that names the mistake. Ends with 1 when one does not."""
    from tqdm import tqdm

    from .course.assignments import read_course
    from .course.exercises import find_book
    from .grading.course_check import check_course
    from .grading.rounds import chosen
    from .sandbox.launch import choose

    with _clear_errors():
        made = read_course(folder, book)
        sandbox = choose("none" if trust else made.sandbox, trust)
        chosen(made, names)
        with tqdm(desc="judged", unit=" answers", disable=None) as bar:
            findings = check_course(
                made,
                find_book(book),
                sandbox,
                jobs=jobs,
                only=names,
                progress=lambda finding: bar.update(),
            )
    for name in dict.fromkeys(one.assignment for one in findings):
        own = [one for one in findings if one.assignment == name]
        click.echo(
            f"{name}: {len(own)} answers to {len({one.exercise for one in own})} exercises, "
            f"{sum(bool(one.fault) for one in own)} faults"
        )
    for one in findings:
        if one.fault:
            click.echo(f"  {one.exercise}: {one.answer} {one.fault}", err=True)
    if any(one.fault for one in findings):
        raise SystemExit(1)


@course.command("grade", epilog=_UNTRUSTED)
@click.argument("folder", type=_FOLDER)
@click.option("--submissions", type=_FOLDER, help="Default: FOLDER/submissions.")
@click.option("--out", type=_FOLDER, help="Default: FOLDER/grades.")
@click.option(
    "--assignment",
    "names",
    multiple=True,
    metavar="NAME",
    help="Judge only this assignment; the marks of others stay; repeatable.",
)
@click.option(
    "--regrade",
    "again",
    multiple=True,
    metavar="ID",
    help="Judge this exercise of all hand-ins again, and no other; repeatable.",
)
@_BOOK
@_JOBS
@_SCHEDULER
@_TRUST
def grade_course(folder, submissions, out, names, again, book, jobs, scheduler, trust):
    """Grade what was handed in for the course in FOLDER.

    Kill it at any moment and start it again: what the journal holds is not judged a second time,
    nor is what --regrade has judged
    again already. An exercise whose check has changed is judged again by itself.
    """
    from .course.assignments import read_course

    with _clear_errors():
        made = read_course(folder, book)
        _grade(
            made,
            submissions or folder / "submissions",
            out or folder / "grades",
            trust=trust,
            jobs=jobs,
            scheduler=scheduler,
            again=again,
            only=names,
        )


@course.command()
@click.option("--out", default=Path("course/release"), show_default=True, type=_FOLDER)
@_BOOK
@_SECTION
def release(out, book, only):
    """Write the students' notebooks: the exercises of each section, without solutions or hidden
    checks.
    """
    from .course.assignments import from_sections

    with _clear_errors():
        parts = _sections(book, only)
        _write_folder(
            out,
            lambda folder: _students(
                folder, from_sections(parts), {part.name: part.chapter for part in parts}
            ),
        )
    click.echo(f"{len(parts)} notebooks for students in {out}")


@course.command()
@click.option("--out", default=Path("course/example"), show_default=True, type=_FOLDER)
@_BOOK
@_SECTION
def example(out, book, only):
    """Write a made-up class for one section, to try `attnbook grade` on: right, wrong, broken
    and hostile hand-ins.
    """
    from .course.assignments import from_sections
    from .course.synthetic_class import write_class

    with _clear_errors():
        part = _sections(book, only)[0]
        _write_folder(out, lambda folder: write_class(folder, from_sections([part])[0], part))
    click.echo(f"hand-ins for {part.name} in {out}; next: attnbook grade {out}")


@course.command()
@click.option("--out", default=Path("course/instructor"), show_default=True, type=_FOLDER)
@_BOOK
@_SECTION
def instructor(out, book, only):
    """Write the instructor's notebooks: each section in full, with solutions and hidden checks."""
    import nbformat

    from bookbuild import publish, source

    def make(folder):
        for part in parts:
            target = folder / part.chapter / f"{part.name}.ipynb"
            target.parent.mkdir(parents=True, exist_ok=True)
            nb = publish.resolved(source.read_source(part.path), part.path)
            nbformat.write(source.instructor_version(nb), target)

    with _clear_errors():
        parts = _sections(book, only)
        _write_folder(out, make)
    click.echo(f"{len(parts)} notebooks with solutions in {out}")


def _sections(book, only=(), tasks=()):
    """The sections of the book that have exercises; see `exercises.sections`."""
    from .course.exercises import find_book, sections

    return sections(find_book(book), only, tasks)


def _grade(course, submissions, out, **options):
    from .grading import rounds

    if options["trust"]:
        click.echo(UNPROTECTED, err=True)
    done = rounds.grade(course, submissions, out, say=click.echo, **options)
    for remark in done.remarks:
        click.echo(remark, err=True)
    for name, groups in done.equal.items():
        for group in groups:
            click.echo(f"{name}: equal answers of {', '.join(group)}", err=True)
    click.echo(
        f"marks: {out / 'marks.csv'}\nclass: {out / 'class.html'}\nfeedback: {out / 'feedback'}"
    )


UNPROTECTED = (
    "Students' code runs without a sandbox, on this computer and with your rights (--trust)."
)


def _write_notebooks(folder: Path, made) -> None:
    import nbformat

    _students(folder / "student", made.assignments, {})
    (folder / "instructor").mkdir()
    for one in made.assignments:
        nbformat.write(one.notebook(), folder / "instructor" / f"{one.name}.ipynb")


def _students(folder: Path, assignments, chapters) -> None:
    """The notebooks that nbgrader makes of the instructor's, `folder`/CHAPTER/NAME.ipynb."""
    import nbformat

    from .course import nbgrader_bridge

    with tempfile.TemporaryDirectory() as work:
        work = Path(work).resolve()
        nbgrader_bridge.add_assignments(work, assignments)
        for one in assignments:
            target = folder / chapters.get(one.name, "") / f"{one.name}.ipynb"
            target.parent.mkdir(parents=True, exist_ok=True)
            nb = nbformat.read(work / "release" / one.name / f"{one.name}.ipynb", 4)
            # a hidden check leaves an empty cell behind
            nb.cells = [cell for cell in nb.cells if cell.source.strip()]
            nbformat.write(nb, target)


def _write_folder(out: Path, make) -> None:
    """Fill a new folder and give it its name when it is complete.

    ValueError if the name is taken.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ValueError(
            f"out: {out} exists; choose another folder, so that nobody's work is overwritten"
        )
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
        if isinstance(error, (ValueError, ImportError, RuntimeError, OSError, sqlite3.Error)):
            raise click.ClickException(str(error)) from error
        return False
