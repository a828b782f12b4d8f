"""The commands `attnbook course`: laying a course out, proving it, grading a class."""

from __future__ import annotations

import os
import shutil
import tempfile
from itertools import count
from pathlib import Path

import click

from .course.handout import write_folder, write_notebooks, write_students
from .options import (
    BOOK,
    DROP_ABSENT,
    FOLDER,
    JOBS,
    ROSTER,
    SCHEDULER,
    SECTION,
    TRUST,
    UNTRUSTED,
    clear_errors,
    run_round,
    sections_of,
)


@click.group()
def course():
    """A course: assignments from the book's exercises, their notebooks, and the grading of a
    class.
    """


@course.command()
@click.argument("folder", type=FOLDER)
@click.option(
    "--chapter",
    "chapters",
    multiple=True,
    metavar="NUMBER",
    type=click.IntRange(0, 99),
    help="Exercises of this chapter, as 3; repeatable.",
)
@SECTION
@click.option("--title", default="Attention, Cell by Cell", show_default=True)
@BOOK
def new(folder, chapters, only, title, book):
    """Lay out a course in FOLDER: course.toml, the students' notebooks and yours; one assignment a
    section.

    Everything about it stands in course.toml: assignments, points, due dates, rules, limits and the
    private seed. After a change there: attnbook course notebooks FOLDER."""
    from .course.assignments import from_sections
    from .course.course_file import FILE, read_course, write_course

    with clear_errors():
        parts = sections_of(book, only)
        if chapters:
            parts = [part for part in parts if int(part.chapter[:2]) in chapters]
        if not parts:
            raise ValueError(
                f"chapter: no section of chapter {', '.join(map(str, chapters))} has an exercise"
            )

        def make(work):
            write_course(work / FILE, title, from_sections(parts))
            made = read_course(work, book)
            write_notebooks(work, made)
            (work / "submissions").mkdir()

        write_folder(folder, make)
    exercises = sum(len(part.tasks) for part in parts)
    click.echo(f"{len(parts)} assignments, {exercises} exercises in {folder}")
    click.echo(
        f"next: edit {folder / FILE}; attnbook course check {folder}; hand out {folder / 'student'}"
    )


@course.command()
@click.argument("folder", type=FOLDER)
@BOOK
def notebooks(folder, book):
    """Write the notebooks of the course in FOLDER anew, after a change in course.toml."""
    from .course.course_file import read_course

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
@click.option(
    "--assignment", "names", multiple=True, metavar="NAME", help="Only this assignment; repeatable."
)
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


@course.command("grade", epilog=UNTRUSTED)
@click.argument("folder", type=FOLDER)
@click.option("--submissions", type=FOLDER, help="Default: FOLDER/submissions.")
@click.option("--out", type=FOLDER, help="Default: FOLDER/grades.")
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
@BOOK
@JOBS
@SCHEDULER
@ROSTER
@DROP_ABSENT
@TRUST
def grade_course(folder, submissions, out, names, again, book, roster, **options):
    """Grade what was handed in for the course in FOLDER.

    Kill it at any moment and start it again: what the journal holds is not judged a second time,
    nor is what --regrade has judged
    again already. An exercise whose check has changed is judged again by itself.
    """
    from .course.course_file import read_course
    from .course.overrides import OVERRIDES, read_overrides

    with clear_errors():
        made = read_course(folder, book)
        run_round(
            made,
            submissions or folder / "submissions",
            out or folder / "grades",
            roster=roster or (own if (own := folder / "roster.csv").is_file() else None),
            again=again,
            only=names,
            overrides=read_overrides(folder / OVERRIDES, made.assignments),
            **options,
        )


@course.command()
@click.option("--out", default=Path("course/release"), show_default=True, type=FOLDER)
@BOOK
@SECTION
def release(out, book, only):
    """Write the students' notebooks: the exercises of each section, without solutions or hidden
    checks.
    """
    from .course.assignments import from_sections

    with clear_errors():
        parts = sections_of(book, only)
        write_folder(
            out,
            lambda folder: write_students(
                folder, from_sections(parts), {part.name: part.chapter for part in parts}
            ),
        )
    click.echo(f"{len(parts)} notebooks for students in {out}")


@course.command()
@click.option("--out", default=Path("course/example"), show_default=True, type=FOLDER)
@BOOK
@SECTION
def example(out, book, only):
    """Write a made-up class for one section, to try `attnbook grade` on: right, wrong, broken
    and hostile hand-ins.
    """
    from .course.assignments import from_sections
    from .course.synthetic_class import write_class

    with clear_errors():
        part = sections_of(book, only)[0]
        write_folder(out, lambda folder: write_class(folder, from_sections([part])[0], part))
    click.echo(f"hand-ins for {part.name} in {out}; next: attnbook grade {out}")


@course.command()
@click.option("--out", default=Path("course/instructor"), show_default=True, type=FOLDER)
@BOOK
@SECTION
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

    with clear_errors():
        parts = sections_of(book, only)
        write_folder(out, make)
    click.echo(f"{len(parts)} notebooks with solutions in {out}")
