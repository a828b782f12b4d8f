"""The commands `attnbook grade`, `attnbook check` and `attnbook course`: what an instructor and
a student type.
"""

from __future__ import annotations

from pathlib import Path

import click

from .course_commands import course
from .options import (
    BOOK,
    DROP_ABSENT,
    EXERCISE,
    FOLDER,
    IMAGE,
    JOBS,
    ROSTER,
    SANDBOX,
    SCHEDULER,
    SECONDS,
    SECTION,
    TRUST,
    UNTRUSTED,
    clear_errors,
    run_round,
    sections_of,
)

__all__ = ["check", "course", "grade"]


@click.command(epilog=UNTRUSTED)
@click.argument("submissions", type=FOLDER)
@click.option(
    "--out",
    default=Path("course/graded"),
    show_default=True,
    type=FOLDER,
    help="Where marks and feedback go.",
)
@BOOK
@SECTION
@EXERCISE
@click.option(
    "--timeout",
    default=15,
    show_default=True,
    type=SECONDS,
    help="Seconds for one cell, and for one check.",
)
@click.option(
    "--limit", default=300, show_default=True, type=SECONDS, help="Seconds for one notebook in all."
)
@JOBS
@SANDBOX
@IMAGE
@SCHEDULER
@ROSTER
@DROP_ABSENT
@TRUST
def grade(submissions, out, book, only, tasks, timeout, limit, sandbox, image, **options):
    """Grade the folder SUBMISSIONS, which holds a folder of notebooks for every student, without
    making a course.

    Every section of the book is an assignment, with the book's points and hidden checks that
    anybody can look up; for a class, make a course of your own: attnbook course new. Goes on where
    an earlier round in OUT ended."""
    from .course.assignments import Course, from_sections
    from .sandbox.launch import Limits

    with clear_errors():
        wanted = sections_of(book, only, tasks)
        parts = sections_of(book) if only or tasks else wanted
        limits = Limits(seconds=timeout, notebook=limit)
        course = Course(
            "Attention, Cell by Cell",
            0,
            from_sections(parts),
            limits=limits,
            sandbox=sandbox,
            image=image,
        )
        run_round(
            course,
            submissions,
            out,
            only=[part.name for part in wanted] if only or tasks else None,
            tasks=tasks,
            **options,
        )


@click.command()
@click.argument("notebook", type=FOLDER)
@EXERCISE
def check(notebook, tasks):
    """Check the answers in your NOTEBOOK: the same verdicts as its check cells, and as the part of
    the grader that you may see.

    The notebook's code runs on this computer, with your rights. Ends with 1 when an answer is not
    right."""
    from .self_check import self_check

    with clear_errors():
        verdicts = self_check(notebook, tasks)
    for verdict in verdicts:
        click.echo(str(verdict))
    if not all(verdicts):
        raise SystemExit(1)
