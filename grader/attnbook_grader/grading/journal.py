"""The journal of a course: the outcome of every judged notebook, in SQLite.

What is in it is not judged again. nbgrader's gradebook cannot take its place: the gradebook has one
submission for each student and assignment and one score for each cell, while a round that resumes
needs the outcomes of every hand-in, by the hash of its content (equal files are judged once, and
which hand-in counts can change with the rules), the fingerprint of the check that judged it, the
messages, and the exercises that are to be judged again. The journal is therefore what a round
resumes from; the gradebook, like the CSV file and the pages, is written from it at the end of every
round and never read.
"""

from __future__ import annotations

import sqlite3
import zlib
from contextlib import contextmanager
from dataclasses import fields
from datetime import datetime
from pathlib import Path

from ..notebooks.hand_ins import HandIn
from .marks import Mark
from .outcomes import Outcome

__all__ = ["Journal"]

_COLUMNS = [one.name for one in fields(Outcome) if one.name != "failed"]
_TABLES = """
create table if not exists outcome (
    assignment text not null, sha text not null, exercise text not null, stamp text not null,
    visible integer not null, hidden integer not null, note text not null, remark text not null, library text not null,
    print text not null, attention text not null default '', code text not null default '', judged_at text not null default (strftime('%Y-%m-%dT%H:%M:%fZ')), count integer not null default 1,
    primary key (assignment, sha, exercise)
);
create table if not exists hand_in (
    student text not null, assignment text not null, sha text not null, file text not null, time text not null,
    shared integer not null default 0, late integer, primary key (student, assignment, file, sha)
);
create table if not exists mark (
    student text not null, assignment text not null, exercise text not null, sha text, points real not null, most real not null,
    note text not null, primary key (student, assignment, exercise)
);
create table if not exists notebook (sha text primary key, content blob, refused text);
create table if not exists regrade (assignment text not null, exercise text not null, primary key (assignment, exercise));
"""
# Columns that a journal of an earlier version lacks.
_SINCE = [
    ("hand_in", "shared integer not null default 0"),
    ("hand_in", "late integer"),
    ("outcome", "attention text not null default ''"),
    ("outcome", "code text not null default ''"),
]


class Journal:
    """The file journal.db of a course. Every change is one transaction: after a crash the journal
    holds all of it or nothing.

    Tables:
        outcome: of one exercise in one notebook, by the hash of the notebook's content. `count` is
            how often it was judged, `stamp` the fingerprint of the check and its seed.
        hand_in: which student ever handed in which notebook, and when.
        notebook: what was handed in, without outputs, or why it could not be read; by its file's hash.
        mark: the marks of each student by the rules of the course.
        regrade: exercises to judge again, until a round with them is complete.
    """

    def __init__(self, path: Path):
        try:
            self._base = sqlite3.connect(path, isolation_level=None)
            self._base.execute("pragma journal_mode = wal")
        except sqlite3.Error as error:
            raise ValueError(
                f"{path}: expected the journal of earlier rounds, or a folder where one can be "
                f"written, got: {error}"
            ) from None
        self._base.execute("pragma synchronous = full")
        self._base.executescript(_TABLES)
        for name, column in _SINCE:
            known = [row[1] for row in self._base.execute(f"pragma table_info({name})")]
            if column.split()[0] not in known:
                self._base.execute(f"alter table {name} add column {column}")

    def close(self) -> None:
        """Close the file."""
        self._base.close()

    @contextmanager
    def _transaction(self):
        self._base.execute("begin immediate")
        try:
            yield self._base
        except BaseException:
            self._base.execute("rollback")
            raise
        self._base.execute("commit")

    def missing(self, assignment: str, sha: str, fingerprints: dict[str, str]) -> tuple[str, ...]:
        """The exercises of this notebook that have no outcome yet, or one of another check.

        Args:
            fingerprints: of the checks, by exercise id.
        """
        known = dict(
            self._base.execute(
                "select exercise, stamp from outcome where assignment = ? and sha = ?",
                (assignment, sha),
            )
        )
        return tuple(id for id, hash in fingerprints.items() if known.get(id) != hash)

    def record(
        self, assignment: str, sha: str, fingerprints: dict[str, str], outcomes: list[Outcome]
    ) -> None:
        """Record the outcomes of one notebook.

        Where the grader itself failed, the outcome has no fingerprint and stays missing.
        """
        marks = ", ".join("?" * (4 + len(_COLUMNS) - 1))
        names = ", ".join(name for name in _COLUMNS if name != "exercise")
        again = ", ".join(
            f"{name} = excluded.{name}" for name in ("stamp", *_COLUMNS) if name != "exercise"
        )
        with self._transaction() as base:
            base.executemany(
                f"insert into outcome (assignment, sha, exercise, stamp, {names}) values "
                f"({marks}) on conflict do update set {again}, "
                "judged_at = excluded.judged_at, count = count + 1",
                [
                    (
                        assignment,
                        sha,
                        one.exercise,
                        "" if one.failed else fingerprints[one.exercise],
                        *(
                            _encodable(getattr(one, name))
                            for name in _COLUMNS
                            if name != "exercise"
                        ),
                    )
                    for one in outcomes
                ],
            )

    def outcomes(self, assignment: str) -> dict[str, dict[str, Outcome]]:
        """{sha: {exercise: outcome}} of an assignment."""
        found: dict[str, dict[str, Outcome]] = {}
        for sha, *values in self._base.execute(
            f"select sha, {', '.join(_COLUMNS)} from outcome where assignment = ?", (assignment,)
        ):
            one = dict(zip(_COLUMNS, values))
            one.update(visible=bool(one["visible"]), hidden=bool(one["hidden"]))
            found.setdefault(sha, {})[one["exercise"]] = Outcome(**one)
        return found

    def forget(self, assignment: str, exercise: str) -> None:
        """Drop the fingerprints of an exercise, so that it is judged again; once only until a round
        with it is complete, so that a round that was killed goes on with what is left.
        """
        with self._transaction() as base:
            if base.execute(
                "insert or ignore into regrade values (?, ?)", (assignment, exercise)
            ).rowcount:
                base.execute(
                    "update outcome set stamp = '' where assignment = ? and exercise = ?",
                    (assignment, exercise),
                )

    def finished(self, pairs) -> None:
        """Note that a round with these (assignment, exercise) is complete: from now on, `forget`
        drops their fingerprints again.
        """
        with self._transaction() as base:
            base.executemany("delete from regrade where assignment = ? and exercise = ?", pairs)

    def notebooks(self) -> dict[str, bytes | str]:
        """The notebooks that there ever were, as `find_hand_ins` keeps them."""
        rows = self._base.execute("select sha, content, refused from notebook")
        return {sha: refused or zlib.decompress(content) for sha, content, refused in rows}

    def remember(self, hand_ins: list[HandIn], notebooks: dict[str, bytes | str]) -> None:
        """Add these to the hand-ins that there ever were. A file that was moved is no new one."""
        known = {sha for (sha,) in self._base.execute("select sha from notebook")}
        with self._transaction() as base:
            base.executemany(
                "insert into notebook values (?, ?, ?)",
                [
                    (sha, None, _encodable(one))
                    if isinstance(one, str)
                    else (sha, zlib.compress(one), None)
                    for sha, one in notebooks.items()
                    if sha not in known
                ],
            )
            base.executemany(
                "delete from hand_in where sha = ? and (file = ? or student = ? and assignment = ?)",
                [(one.sha, one.file, one.student, one.assignment) for one in hand_ins],
            )
            base.executemany(
                "insert or replace into hand_in (student, assignment, sha, file, time, shared, late) "
                "values (?, ?, ?, ?, ?, ?, ?)",
                [
                    (
                        one.student,
                        one.assignment,
                        one.sha,
                        one.file,
                        one.time.isoformat(),
                        one.shared,
                        one.late,
                    )
                    for one in hand_ins
                ],
            )

    def hand_ins(self) -> list[HandIn]:
        """All hand-ins that there ever were; what they hold is known by the outcomes alone."""
        rows = self._base.execute(
            "select student, assignment, file, sha, time, shared, late from hand_in order by rowid"
        )
        return [
            HandIn(
                student,
                name,
                Path(file),
                sha,
                datetime.fromisoformat(time),
                bool(shared),
                file,
                late if late is None else bool(late),
            )
            for student, name, file, sha, time, shared, late in rows
        ]

    def students(self) -> set[str]:
        """All students that any round had."""
        rows = self._base.execute("select student from hand_in union select student from mark")
        return {student for (student,) in rows}

    def drop_absent(self, found: list[HandIn]) -> None:
        """Forget the hand-ins that are not among these."""
        files = {one.file for one in found}
        gone = {(one.file,) for one in self.hand_ins() if one.file not in files}
        with self._transaction() as base:
            base.executemany("delete from hand_in where file = ?", gone)

    def write_marks(self, marks: list[Mark]) -> None:
        """Replace the table of marks by these."""
        with self._transaction() as base:
            base.execute("delete from mark")
            base.executemany(
                "insert into mark values (?, ?, ?, ?, ?, ?, ?)",
                [
                    (
                        one.student,
                        one.assignment,
                        one.exercise,
                        one.hand_in and one.hand_in.sha,
                        one.points,
                        one.most,
                        one.note,
                    )
                    for one in marks
                ],
            )


def _encodable(value):
    """The value as SQLite accepts it: a lone surrogate in a text would end every round at the same
    notebook.
    """
    return value.encode(errors="replace").decode() if isinstance(value, str) else value
