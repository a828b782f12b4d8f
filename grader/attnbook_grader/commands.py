"""The commands `attnbook check` and `attnbook course`: what a student and an instructor type."""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from itertools import count
from pathlib import Path

import click

__all__ = ["check", "course"]

FOLDER = click.Path(path_type=Path)
BOOK = click.option(
    "--book", type=FOLDER, help="A checkout of the book; default: the one that attnbook runs from."
)
UNPROTECTED = "Students' code runs without a sandbox, on this computer and with your rights"
TRUST = click.option("--trust", is_flag=True, help=f"{UNPROTECTED}: only if you trust all of it.")
JOBS = click.option("--jobs", type=click.IntRange(1), help="Notebooks at a time.")


def repeatable(option: str, name: str, metavar: str, help: str, **more):
    """An option that may be given several times."""
    help = f"{help}; repeatable."
    return click.option(option, name, multiple=True, metavar=metavar, help=help, **more)


class clear_errors:
    """Errors that a person can mend come as one line, without a traceback."""

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if isinstance(error, (ValueError, ImportError, RuntimeError, OSError, sqlite3.Error)):
            raise click.ClickException(str(error)) from error
        return False


@click.command()
@click.argument("notebook", type=FOLDER)
@repeatable("--exercise", "tasks", "ID", "Only this exercise, as 00.weighted_sum")
def check(notebook, tasks):
    """Run your NOTEBOOK and show what its check cells say.

    The notebook's code runs on this computer, with your rights. Ends with 1 when an answer is not
    right."""
    from .self_check import self_check

    with clear_errors():
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
@click.argument("folder", type=FOLDER)
@repeatable("--chapter", "chapters", "NUMBER", "Only this chapter, as 3", type=int)
@repeatable("--section", "only", "NAME", "Only this section, as soft_lookup")
@click.option("--title", default="Attention, Cell by Cell", show_default=True)
@BOOK
def new(folder, chapters, only, title, book):
    """Lay out a course in FOLDER: course.toml, the students' notebooks and yours; one assignment a
    section.

    Everything about it stands in course.toml: assignments, points, due dates, rules, limits and the
    private seed. After a change there: attnbook course notebooks FOLDER."""
    from .course.assignments import from_sections
    from .course.course_file import FILE, read_course, write_course
    from .course.exercises import find_book, sections
    from .course.handout import write_folder, write_notebooks

    with clear_errors():
        parts = sections(find_book(book), only)
        if chapters:
            parts = [part for part in parts if int(part.chapter[:2]) in chapters]
        if not parts:
            raise ValueError(
                f"chapter: no section of chapter {', '.join(map(str, chapters))} has an exercise"
            )

        made = from_sections(parts)

        def make(work):
            write_course(work / FILE, title, made)
            write_notebooks(work, read_course(work, book))
            (work / "submissions").mkdir()

        write_folder(folder, make)
    count = sum(len(one.exercises) for one in made)
    click.echo(f"{len(made)} assignments, {count} exercises in {folder}")
    click.echo(f"next: edit {FILE}; attnbook course check {folder}; hand out {folder / 'student'}")


@course.command()
@click.argument("folder", type=FOLDER)
@BOOK
def notebooks(folder, book):
    """Write the notebooks of the course in FOLDER anew, after a change in course.toml."""
    from .course.course_file import read_course
    from .course.handout import write_notebooks

    with clear_errors():
        made = read_course(folder, book)
        with tempfile.TemporaryDirectory(prefix=".new-", dir=folder) as work:
            write_notebooks(Path(work), made)
            for name in ("student", "instructor"):
                shutil.rmtree(folder / name, ignore_errors=True)
                os.replace(Path(work) / name, folder / name)
    click.echo(
        f"{len(made.assignments)} notebooks in {folder / 'student'} and {folder / 'instructor'}"
    )


@course.command("check")
@click.argument("folder", type=FOLDER)
@repeatable("--assignment", "names", "NAME", "Only this assignment")
@BOOK
@JOBS
@TRUST
def check_command(folder, names, book, jobs, trust):
    """Prove that the course in FOLDER marks rightly, in the sandbox and with its own seed.

    Every solution must get all points; every known wrong answer and the untouched notebook must get
    fewer, with a message that names the mistake. Ends with 1 when one does not."""
    from tqdm import tqdm

    from .course.course_file import read_course
    from .course.exercises import find_book
    from .grading.course_check import check_course
    from .grading.rounds import chosen
    from .sandbox.launch import choose

    with clear_errors():
        made = read_course(folder, book)
        sandbox = choose("none" if trust else made.sandbox, trust)
        chosen(made, names)
        judged = count(1)

        def seen(finding):
            bar.update()
            # without a terminal there is no bar
            if bar.disable and (number := next(judged)) % 50 == 0:
                click.echo(f"{number} answers judged, now {finding.assignment}")

        with tqdm(desc="judged", unit=" answers", disable=None) as bar:
            findings = check_course(
                made, find_book(book), sandbox, jobs=jobs, only=names, progress=seen
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


@course.command(epilog="Students' code runs in a sandbox; where there is none, nothing is graded.")
@click.argument("folder", type=FOLDER)
@click.option("--submissions", type=FOLDER, help="Default: FOLDER/submissions.")
@click.option("--out", type=FOLDER, help="Default: FOLDER/grades.")
@repeatable("--assignment", "names", "NAME", "Judge only this; the marks of others stay")
@repeatable("--regrade", "again", "ID", "Judge this exercise of all hand-ins again, and no other")
@BOOK
@JOBS
@click.option("--scheduler", metavar="ADDRESS", help="Judge on the workers of this Dask scheduler.")
@click.option("--roster", type=FOLDER, help="The students, as CSV; default: FOLDER/roster.csv.")
@click.option("--drop-absent", is_flag=True, help="Forget what is no longer there.")
@TRUST
def grade(folder, submissions, out, names, again, book, roster, trust, **options):
    """Grade what was handed in for the course in FOLDER.

    Kill it at any moment and start it again: what the journal holds is not judged a second time,
    nor is what --regrade has judged again already. An exercise whose check has changed is judged
    again by itself, and so is what was stopped by a limit that has changed.
    """
    from .course.course_file import read_course
    from .grading import rounds
    from .grading.overrides import OVERRIDES, read_overrides
    from .grading.words_sheet import WORDS, read_sheet
    from .notebooks.roster import read_roster

    with clear_errors():
        made = read_course(folder, book)
        out, own = out or folder / "grades", folder / "roster.csv"
        roster = roster or (own if own.is_file() else None)
        if trust:
            click.echo(f"{UNPROTECTED} (--trust).", err=True)
        done = rounds.grade(
            made,
            submissions or folder / "submissions",
            out,
            roster=read_roster(roster) if roster else None,
            again=again,
            only=names,
            overrides=read_overrides(folder / OVERRIDES, made.assignments),
            sheet=read_sheet(folder / WORDS, made.assignments),
            trust=trust,
            say=click.echo,
            **options,
        )
    for line in (*done.remarks, *done.late):
        click.echo(line, err=True)
    for name, groups in done.equal.items():
        if groups:
            click.echo(f"{name}: {len(groups)} groups of equal answers, see class.html", err=True)
    for name in ("marks.csv", "class.html", "feedback"):
        click.echo(f"{name.partition('.')[0]}: {out / name}")
    if any(one.waits for one in done.marks):
        click.echo(f"answers in words wait for your points: {folder / WORDS}")
