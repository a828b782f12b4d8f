"""The journal of a course: what was judged, in SQLite.

What is in it is never judged again; whatever is not, was not judged.
"""

from __future__ import annotations

import sqlite3
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path

from .judging import Outcome

__all__ = ["Journal"]

_COLUMNS = [one.name for one in fields(Outcome) if one.name != "failed"]
_TABLES = """
create table if not exists outcome (
    assignment text not null, sha text not null, exercise text not null, stamp text not null,
    visible integer not null, hidden integer not null, note text not null, remark text not null, library text not null,
    print text not null, judged_at text not null default (strftime('%Y-%m-%dT%H:%M:%fZ')), count integer not null default 1,
    primary key (assignment, sha, exercise)
);
create table if not exists hand_in (
    student text not null, assignment text not null, sha text not null, file text not null, time text not null,
    primary key (student, assignment, file, sha)
);
create table if not exists mark (
    student text not null, assignment text not null, exercise text not null, sha text, points real not null, most real not null,
    note text not null, primary key (student, assignment, exercise)
);
create table if not exists regrade (assignment text not null, exercise text not null, primary key (assignment, exercise));
"""


class Journal:
    """The file journal.db of a course. Every change is one transaction: after a crash it is there
    as a whole, or not at all.

    outcome: of one exercise in one notebook; notebooks are known by their content, so equal files
             are judged once. `count` says how often, `stamp` by which check and seed
    hand_in: who handed in which notebook, when
    mark:    what counts for a student by the rules of the course
    regrade: what a round was told to judge again, until such a round has come to its end
    """

    def __init__(self, path: Path):
        self._base = sqlite3.connect(path, isolation_level=None)
        self._base.execute("pragma journal_mode = wal")
        self._base.execute("pragma synchronous = full")
        self._base.executescript(_TABLES)

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

    def missing(self, assignment: str, sha: str, stamps: dict[str, str]) -> tuple[str, ...]:
        """The exercises of this notebook that were not judged yet, or with another stamp.

        stamps: by exercise id.
        """
        known = dict(
            self._base.execute(
                "select exercise, stamp from outcome where assignment = ? and sha = ?",
                (assignment, sha),
            )
        )
        return tuple(id for id, stamp in stamps.items() if known.get(id) != stamp)

    def record(
        self, assignment: str, sha: str, stamps: dict[str, str], outcomes: list[Outcome]
    ) -> None:
        """Write down what was found about one notebook.

        Where the grader itself failed it has no stamp, and stays missing.
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
                        "" if one.failed else stamps[one.exercise],
                        *(_kept(getattr(one, name)) for name in _COLUMNS if name != "exercise"),
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
        """Forget what was found about an exercise, so that it is judged again; not while the
        round that was told so is still to be ended.
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
        """A round came to its end with these (assignment, exercise): what is told to be
        forgotten from now on is forgotten anew.
        """
        with self._transaction() as base:
            base.executemany("delete from regrade where assignment = ? and exercise = ?", pairs)

    def write_marks(self, hand_ins, marks) -> None:
        """Replace the tables of hand-ins and marks by these: rows of their columns, in order."""
        with self._transaction() as base:
            base.execute("delete from hand_in")
            base.execute("delete from mark")
            base.executemany("insert or ignore into hand_in values (?, ?, ?, ?, ?)", hand_ins)
            base.executemany("insert into mark values (?, ?, ?, ?, ?, ?, ?)", marks)


def _kept(value):
    """A value as SQLite takes it: half a surrogate pair in one text would end every round at the
    same notebook.
    """
    return value.encode(errors="replace").decode() if isinstance(value, str) else value
