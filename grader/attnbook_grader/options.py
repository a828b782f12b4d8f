"""What the commands have in common: options, errors, and a round of grading."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import click

FOLDER = click.Path(path_type=Path)
SECONDS = click.IntRange(1)
BOOK = click.option(
    "--book", type=FOLDER, help="A checkout of the book; default: the one that attnbook runs from."
)
SECTION = click.option(
    "--section",
    "only",
    multiple=True,
    metavar="NAME",
    help="Only this section, as soft_lookup; repeatable.",
)
EXERCISE = click.option(
    "--exercise",
    "tasks",
    multiple=True,
    metavar="ID",
    help="Only this exercise, as 00.weighted_sum; repeatable.",
)
TRUST = click.option(
    "--trust",
    is_flag=True,
    help="Run students' code without a sandbox, with your rights: only if you trust all of it.",
)
JOBS = click.option(
    "--jobs", type=click.IntRange(1), help="Notebooks at a time; default: one for each core."
)
SANDBOX = click.option(
    "--sandbox",
    type=click.Choice(["bubblewrap", "docker", "podman"]),
    help="Where students' code runs; default: bubblewrap.",
)
IMAGE = click.option(
    "--image", metavar="NAME", help="Image of the container, with Python and what attnbook needs."
)
SCHEDULER = click.option(
    "--scheduler",
    metavar="ADDRESS",
    help="Judge on the workers of this Dask scheduler, as tcp://127.0.0.1:8786.",
)
UNTRUSTED = (
    "Students' code runs in a sandbox, without network and without the checks. Where "
    "there is none, nothing is graded."
)
ROSTER = click.option(
    "--roster",
    type=FOLDER,
    help="The students, as CSV: an export of Canvas, Moodle or GitHub Classroom, or your own.",
)
DROP_ABSENT = click.option(
    "--drop-absent",
    is_flag=True,
    help="Forget hand-ins and students of earlier rounds that are no longer there.",
)


def sections_of(book, only=(), tasks=()):
    """The sections of the book that have exercises; see `exercises.sections`."""
    from .course.exercises import find_book, sections

    return sections(find_book(book), only, tasks)


def run_round(course, submissions, out, **options):
    from .grading import rounds
    from .notebooks.roster import read_roster

    if options["roster"]:
        options["roster"] = read_roster(options["roster"])
    if options["trust"]:
        click.echo(UNPROTECTED, err=True)
    done = rounds.grade(course, submissions, out, say=click.echo, **options)
    for remark in done.remarks:
        click.echo(remark, err=True)
    for name, groups in done.equal.items():
        for group in groups:
            click.echo(f"{name}: equal answers of {group}", err=True)
    click.echo(
        f"marks: {out / 'marks.csv'}\nclass: {out / 'class.html'}\nfeedback: {out / 'feedback'}"
    )


UNPROTECTED = (
    "Students' code runs without a sandbox, on this computer and with your rights (--trust)."
)


class clear_errors:
    """Errors that a person can mend come as one line, without a traceback."""

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if isinstance(error, (ValueError, ImportError, RuntimeError, OSError, sqlite3.Error)):
            raise click.ClickException(str(error)) from error
        return False
