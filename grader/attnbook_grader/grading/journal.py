"""The journal of a course: the outcome of every judged notebook, in SQLite.

What is in it is not judged again. A round that resumes needs the outcomes of every hand-in, by the
hash of its content (equal files are judged once, and which hand-in counts can change with the
rules), the fingerprint of the check that judged it, the messages, and the exercises that are to be
judged again. Tables and pages are written from it at the end of every round and never read.
"""

from __future__ import annotations

import sqlite3
import zlib
from contextlib import contextmanager
from dataclasses import fields
from datetime import datetime
from pathlib import Path

from ..notebooks.hand_ins import HandIn
from .outcomes import Outcome

__all__ = ["Journal"]

_COLUMNS = [one.name for one in fields(Outcome) if one.name != "failed"]
_TABLES = """
create table if not exists outcome (
    assignment text not null, sha text not null, exercise text not null, stamp text not null,
    visible integer not null, hidden integer not null, note text not null, remark text not null, library text not null,
    print text not null, attention text not null, code text not null, judged_at text not null default (strftime('%Y-%m-%dT%H:%M:%fZ')), count integer not null default 1,
    primary key (assignment, sha, exercise)
);
create table if not exists hand_in (
    student text not null, assignment text not null, sha text not null, file text not null, time text not null,
    shared integer not null default 0, late integer, primary key (student, assignment, file, sha)
);
create table if not exists student (name text primary key);
create table if not exists notebook (sha text primary key, content blob, refused text);
create table if not exists regrade (assignment text not null, exercise text not null, primary key (assignment, exercise));
"""


class Journal:
    """The file journal.db of a course. Every change is one transaction: after a crash the journal
    holds all of it or nothing.

    outcome: of one exercise in one notebook, by the hash of the notebook's content. `count` is
    how often it was judged, `stamp` the fingerprint of the check and its seed; where a limit
    decided, of the limits as well.
    hand_in: which student ever handed in which notebook, and when.
    notebook: what was handed in, without outputs, or why it could not be read; by its file's hash.
    student: everybody who ever was there, with hand-ins or without.
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

    def close(self) -> None:
        """Close the file."""
        self._base.close()

    @contextmanager
    def _transaction(self):
        with self._base:  # commits, or rolls back
            self._base.execute("begin immediate")
            yield self._base

    def missing(
        self, assignment: str, sha: str, fingerprints: dict[str, str], limits: str
    ) -> tuple[str, ...]:
        """The exercises of this notebook that have no outcome yet, or one of another check, or were
        stopped by other limits.

        fingerprints: of the checks, by exercise id.
        limits: in words.
        """
        asked = "select exercise, stamp from outcome where assignment = ? and sha = ?"
        known, now = dict(self._base.execute(asked, (assignment, sha))), fingerprints.items()
        return tuple(id for id, hash in now if known.get(id) not in (hash, f"{hash} {limits}"))

    def record(
        self,
        assignment: str,
        sha: str,
        fingerprints: dict[str, str],
        limits: str,
        outcomes: list[Outcome],
    ) -> None:
        """Record the outcomes of one notebook.

        Where the grader itself failed, the outcome has no fingerprint and stays missing.
        """
        names = ("assignment", "sha", "stamp", *_COLUMNS)
        again = ", ".join(f"{name} = excluded.{name}" for name in names[2:])

        def row(one):
            stamp = "" if one.failed else fingerprints[one.exercise] + f" {limits}" * one.limited
            return assignment, sha, stamp, *(_encodable(getattr(one, name)) for name in _COLUMNS)

        with self._transaction() as base:
            base.executemany(
                f"insert into outcome ({', '.join(names)}) values ({', '.join('?' * len(names))}) "
                f"on conflict do update set {again}, judged_at = excluded.judged_at, "
                "count = count + 1",
                map(row, outcomes),
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
        with it is complete, so that a round that was killed goes on with what is left."""
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
        drops their fingerprints again."""
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
            new = [(sha, one) for sha, one in notebooks.items() if sha not in known]
            base.executemany(
                "insert into notebook values (?, ?, ?)",
                [
                    (sha, None, _encodable(one))
                    if isinstance(one, str)
                    else (sha, zlib.compress(one), None)
                    for sha, one in new
                ],
            )
            base.executemany(
                "delete from hand_in where sha = ? and (file = ? or student = ? and assignment = ?)",
                [(one.sha, one.file, one.student, one.assignment) for one in hand_ins],
            )
            base.executemany(
                "insert or replace into hand_in values (:student, :assignment, :sha, :file, :time, "
                ":shared, :late)",
                [{**vars(one), "time": one.time.isoformat(), "path": None} for one in hand_ins],
            )

    def hand_ins(self) -> list[HandIn]:
        """All hand-ins that there ever were; what they hold is known by the outcomes alone."""
        rows = self._base.execute(
            "select student, assignment, file, sha, time, shared, late from hand_in order by rowid"
        )
        return [
            HandIn(
                *(student, name, Path(file), sha, datetime.fromisoformat(time), bool(shared), file),
                late=late if late is None else bool(late),
            )
            for student, name, file, sha, time, shared, late in rows
        ]

    def students(self, now) -> set[str]:
        """All students that any round had, after those of this one are written down."""
        with self._transaction() as base:
            base.executemany("insert or ignore into student values (?)", [(one,) for one in now])
        return {student for (student,) in self._base.execute("select name from student")}

    def drop_absent(self, found: list[HandIn]) -> None:
        """Forget the hand-ins that are not among these, and the students."""
        files = {one.file for one in found}
        gone = {(one.file,) for one in self.hand_ins() if one.file not in files}
        with self._transaction() as base:
            base.executemany("delete from hand_in where file = ?", gone)
            base.execute("delete from student")


def _encodable(value):
    """The value as SQLite accepts it: without lone surrogates."""
    return value.encode(errors="replace").decode() if isinstance(value, str) else value
