"""The instructor's round: a folder of submissions in; marks, feedback and a gradebook out."""
from __future__ import annotations

import os
import re
import shutil
import tempfile
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

from . import nbgrader_course as course
from .exercises import find_book, sections
from .grade_one import Limits, Result, grade_one
from .grader import Grader
from .report import write_csv, write_feedback
from .submissions import find_submissions

MARK = "attnbook-grades"  # a file that says: this folder was written by a round of grading, and may be replaced by the next

UNPROTECTED = (
    "Students' code runs unprotected, on this computer and with your rights: "
    "grade work that you do not trust in a container or virtual machine that you can throw away."
)


@dataclass(frozen=True)
class Round:
    """What a round of grading found: results by student and section, and remarks on files that were left out."""

    results: list[Result]
    remarks: list[str]


def grade_folder(submissions, out, *, book=None, only=None, tasks=None, limits=Limits(), jobs=None, say=print) -> Round:
    """Grade every notebook in the folder `submissions` and write the folder `out`.

    submissions: STUDENT/SECTION.ipynb for every student; the notebooks of the chapters, or those of `attnbook course release`
    out:         gets marks.csv, feedback/STUDENT/index.html and nbgrader's gradebook.db; an earlier round there is replaced
    book:        a checkout with the chapters; default: the one that this package runs from
    only, tasks: names of sections and ids of exercises; default: all exercises of the sections that anybody handed in
    limits:      seconds for a cell, for the start of a kernel, and for a whole notebook
    jobs:        notebooks graded at a time; default: one for each core
    say:         called with one line a notebook

    Nothing is in `out` before the round is over. Raises ValueError for folders that cannot be used.
    """
    course.need_nbgrader()
    out = Path(out)
    _usable(out)
    parts = sections(find_book(book), only, tasks)
    found, remarks = find_submissions(submissions, [part.name for part in parts])
    if not only:
        given = {one.section for one in found if one.path}
        parts = [part for part in parts if part.name in given]
        found = [one for one in found if one.section in given]
    if not parts:
        raise ValueError("; ".join([f"submissions: {submissions} holds no notebook of a section of the book", *remarks[:5]]))
    out.parent.mkdir(parents=True, exist_ok=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # nbformat and SQLAlchemy talk about nbgrader's code, not about anybody's hand-in
        return _grade(parts, found, remarks, out, limits, jobs, say)


def _grade(parts, found, remarks, out, limits, jobs, say):
    by_name, ids = {part.name: part for part in parts}, _names({one.student for one in found})
    work = Path(tempfile.mkdtemp(prefix=f".{out.name}-", dir=out.parent)).resolve()
    try:
        course.add_assignments(work, parts)
        results = []
        for marks in _in_parallel(
            lambda grader, one: grade_one(grader, work, one, ids[one.student], by_name[one.section], limits), found, jobs
        ):
            results += marks
            got, most = sum(one.points for one in marks), sum(one.max for one in marks)
            say(f"{marks[0].student} · {marks[0].section}: {got:g} of {most:g}")
        course.record(work, {(ids[one.student], one.section, cell): score for one in results for cell, score in one.scores})
        write_csv(work / "marks.csv", results)
        for student, id in ids.items():
            write_feedback(work, student, id, [one for one in results if one.student == student])
        for leftover in ("jobs", "jupyter"):
            shutil.rmtree(work / leftover, ignore_errors=True)
        (work / MARK).write_text("Written by attnbook grade. The next round with the same --out replaces this folder.\n")
        _replace(work, out)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return Round(results, remarks)


def _in_parallel(grade, found, jobs):
    """grade(grader, submission) for all of `found`, in their order, with `jobs` at a time."""
    count, graders = jobs or os.cpu_count() or 1, SimpleQueue()

    def run(one):
        grader = graders.get()  # there are as many as threads
        try:
            return grade(grader, one)
        finally:
            graders.put(grader)

    with ExitStack() as stack, ThreadPoolExecutor(count) as pool:
        for _ in range(count):
            grader = Grader()
            stack.callback(grader.close)
            graders.put(grader)
        yield from pool.map(run, found)


def _names(students):
    """Names that nbgrader and every file system take, one for each student."""
    names, used = {}, set()
    for student in sorted(students):
        plain = re.sub(r"[^A-Za-z0-9_-]+", "_", student).strip("_") or "student"
        name, count = plain, 2
        while name.lower() in used:
            name, count = f"{plain}_{count}", count + 1
        used.add(name.lower())
        names[student] = name
    return names


def _usable(out: Path):
    if out.exists() and not out.is_dir():
        raise ValueError(f"out: {out} is a file, expected a folder")
    if out.is_dir() and any(out.iterdir()) and not (out / MARK).is_file():
        raise ValueError(f"out: {out} holds files that no round of grading wrote; choose another folder")


def _replace(work: Path, out: Path):
    """Put the finished folder in the place of the old one; at no moment is there half of one."""
    os.chmod(work, 0o755)
    old = work.with_name(work.name + "-old")
    if out.exists():
        os.replace(out, old)
    os.replace(work, out)
    shutil.rmtree(old, ignore_errors=True)
