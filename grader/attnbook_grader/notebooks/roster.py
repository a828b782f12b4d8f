"""The students of a course: a table as a learning platform exports it, or one of one's own."""

from __future__ import annotations

import csv
import io
import re
import unicodedata
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Person", "Roster", "read_roster", "read_table"]

_NAMES = ("name", "full name", "student", "student name")
_FIRST, _LAST = ("first name", "firstname"), ("surname", "last name", "lastname")
_IDS = (
    *("id", "student id", "id number", "idnumber", "identifier", "username", "login", "login id"),
    *("sis user id", "sis login id", "email", "email address", "github_username", "github_id"),
)
_NUMBER = re.compile(r"\s*\(([^()]+)\)$")


@dataclass(frozen=True, eq=False)
class Person:
    """One student.

    label: the name that marks and pages show: the name, with an id where two have the same
    ids: whatever else the platforms call the student
    row: the line of the table, by its columns
    """

    label: str
    name: str
    ids: tuple[str, ...]
    row: dict[str, str]


class Roster:
    """The students, found again by name in any order of its parts and without accents, or by id.

    columns: of the table
    """

    def __init__(self, people: list[Person], columns: list[str]):
        self.people, self.columns = people, columns
        self._by_id = {id.casefold(): one for one in people for id in one.ids}
        self._by_name: dict[str, set[Person]] = {}
        self._by_label = {one.label: one for one in people}
        for one in people:
            for key in _keys(one.name):
                self._by_name.setdefault(key, set()).add(one)

    def find(self, name: str, *ids: str) -> Person | None:
        """The student of this name, or with one of these ids; None for nobody, or for two."""
        number = _NUMBER.search(name)
        for id in (*ids, name, *([number[1]] if number else ())):
            if id.casefold() in self._by_id:
                return self._by_id[id.casefold()]
        if name in self._by_label:
            return self._by_label[name]
        found = self._by_name.get(_squeezed(_NUMBER.sub("", name)), set())
        return next(iter(found)) if len(found) == 1 else None

    def label(self, name: str, *ids: str) -> str:
        """The label of the student of this name; the name itself where nobody has it."""
        person = self.find(name, *ids)
        return person.label if person else name


def read_roster(path: Path) -> Roster:
    """The roster in a CSV file: Canvas's export of its gradebook, Moodle's of its participants or
    grades, GitHub Classroom's, or any with a column for names and one for ids.

    Raises ValueError that names the line and what was expected.
    """
    columns, rows = read_table(path)
    known = {column.strip().casefold(): column for column in columns}
    name = next((known[one] for one in _NAMES if one in known), None)
    parts = [next((known[one] for one in kind if one in known), None) for kind in (_FIRST, _LAST)]
    ids = [known[one] for one in _IDS if one in known]
    if not name and not all(parts) and not ids:
        raise ValueError(
            f"{path}: line 1: expected a column for names (name, Student, Full name, or First name "
            f"and Surname) or for ids (id, ID number, Email address, github_username), got "
            f"{', '.join(columns) or 'nothing'}"
        )
    found = []
    for line, row in rows:
        called = row[name] if name else " ".join(row[part] for part in parts if part)
        called = _given_first(called.strip())
        own = tuple(dict.fromkeys(row[one].strip() for one in ids if row[one].strip()))
        # lines of Canvas's that are nobody
        if called.strip() in ("Points Possible", "Test Student") or not (called or own):
            continue
        found.append((line, called or own[0], own, row))
    names = Counter(called for _, called, _, _ in found)
    seen: dict[str, int] = {}
    people = []
    for line, called, own, row in found:
        label = f"{called} ({own[0]})" if names[called] > 1 and own else called
        for one in (label, *own):
            if one.casefold() in seen and seen[one.casefold()] != line:
                raise ValueError(
                    f"{path}: line {line}: {one!r} stands in line {seen[one.casefold()]} already; "
                    f"expected an id of its own for each student"
                )
            seen[one.casefold()] = line
        people.append(Person(label, called, own, row))
    return Roster(people, columns)


def read_table(path: Path) -> tuple[list[str], list[tuple[int, dict[str, str]]]]:
    """(columns, [(line, row by columns)]) of a CSV file in UTF-8.

    Raises ValueError that names the line.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
        if "\0" in text:
            raise ValueError(
                f"{path}: line {text[: text.index(chr(0))].count(chr(10)) + 1}: expected text, got "
                f"the byte 0"
            )
        rows = csv.DictReader(io.StringIO(text, newline=""))
        found = [(rows.line_num, {key: row[key] or "" for key in row if key}) for row in rows]
        return [column for column in rows.fieldnames or () if column], found
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path}: line {error.object.count(10, 0, error.start) + 1}: expected UTF-8, got the "
            f"byte 0x{error.object[error.start]:02x}; save the table as CSV UTF-8"
        ) from None
    except csv.Error as error:
        raise ValueError(f"{path}: expected a table in CSV, got another thing ({error})") from None


def _given_first(name):
    """ "Lee, Ann" as "Ann Lee"."""
    parts = [part.strip() for part in name.split(",")]
    return f"{parts[1]} {parts[0]}" if len(parts) == 2 and all(parts) else name


def _keys(name):
    """The name as one word, begun with any of its parts."""
    parts = re.split(r"[\s_,.-]+", name)
    return {_squeezed("".join(parts[at:] + parts[:at])) for at in range(len(parts))}


def _squeezed(name):
    plain = unicodedata.normalize("NFKD", name.casefold())
    return "".join(one for one in plain if one.isalnum())
