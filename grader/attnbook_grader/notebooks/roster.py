"""The students of a course: a table as a learning platform exports it, or one of one's own."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from .names import cleaned, key, near
from .reading import decoded

__all__ = ["Person", "Roster", "read_roster", "read_table"]

_NAMES = (
    *("name", "full name", "student", "student name"),
    *("vollständiger name", "nom complet", "nom et prénom"),
)
_FIRST = ("first name", "firstname", "vorname", "prénom")
_LAST = ("surname", "last name", "lastname", "nachname", "nom de famille", "nom")
_IDS = (
    *("id", "student id", "id number", "idnumber", "identifier", "username", "login", "login id"),
    *("sis user id", "sis login id", "email", "email address", "github_username", "github_id"),
    *("id-nummer", "matrikelnummer", "anmeldename", "e-mail-adresse", "e-mail"),
    *("nom d'utilisateur", "numéro d'identification"),
    *("adresse de courriel", "adresse e-mail", "courriel"),
)
_NUMBER = re.compile(r"\s*\([^()]+\)$")


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
    """The students, found again by id, or by name: its parts in any order, written as one likes
    (`names.key`).

    columns: of the table
    is_canvas: whether it is Canvas's own, with the numbers that its files have
    """

    def __init__(self, people: list[Person], columns: list[str]):
        self.people, self.columns = people, columns
        self.is_canvas = {"Student", "ID"} <= set(columns)
        self._by_id = {id.casefold(): one for one in people for id in one.ids}
        self._by_name: dict[str, set[Person]] = {}
        self._by_label = {one.label: one for one in people}
        for one in people:
            for word in _keys(one.name):
                self._by_name.setdefault(word, set()).add(one)

    def named(self, name: str) -> set[Person]:
        """All students of this name."""
        return self._by_name.get(key(name), set())

    def find(self, name: str, *ids: str) -> Person | None:
        """The student of this name, or with one of these ids, which Canvas has given; None for
        nobody, or for two.

        A number in brackets is a part of the name: a browser may have put it there.
        """
        name = cleaned(name)
        by_id = {self._by_id[id.casefold()] for id in (*ids, name) if id.casefold() in self._by_id}
        if not by_id and ids and self.is_canvas:
            return None  # another of this name
        if not by_id and name in self._by_label:
            return self._by_label[name]
        found = self.named(name)
        if by_id and len(found) != 1:
            found = by_id
        # the id of one and the name of another are nobody's
        found = found | by_id
        return next(iter(found)) if len(found) == 1 else None

    def label(self, name: str, *ids: str) -> str:
        """The label of the student of this name; the name itself where nobody has it."""
        person = self.find(name, *ids)
        return person.label if person else name

    def unclear(self, students) -> dict[str, list[str]]:
        """By label of those in the roster, the students in no line of it whose hand-ins may be
        theirs: by a name that two have, or one that is nearly theirs.
        """
        found: dict[str, list[str]] = {}
        for student in students:
            if student not in self._by_label:
                people = sorted(one.label for one in self.named(_NUMBER.sub("", student)))
                for label in people or near(student, [*self._by_label]):
                    found.setdefault(label, []).append(student)
        return found

    def why_not(self, name: str, *ids: str) -> str:
        """Why nobody, or nobody alone, has this name and these ids, and who may be meant."""
        labels = sorted(one.label for one in self.named(name))
        if len(labels) == 1 and ids:
            return f"{labels[0]} has this name in the roster, but not the number {ids[0]}"
        if labels:
            return f"the roster has {len(labels)} students of this name: {', '.join(labels)}"
        labels = near(name, [one.label for one in self.people])
        hint = f"; is it {' or '.join(labels)}?" if labels else ""
        return f"nobody in the roster has this name{hint}"


def read_roster(path: Path) -> Roster:
    """The roster in a CSV file: Canvas's export of its gradebook, Moodle's of its participants or
    grades (in English, German or French), GitHub Classroom's, or any with a column for names and
    one for ids.

    Raises ValueError that names the line and what was expected.
    """
    columns, rows = read_table(path)
    known = {cleaned(column).casefold().replace("’", "'"): column for column in columns}
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
        called = _given_first(cleaned(called))
        own = tuple(dict.fromkeys(cleaned(row[one]) for one in ids if cleaned(row[one])))
        # lines of Canvas's that are nobody
        if called in ("Points Possible", "Test Student") or not (called or own):
            continue
        found.append((line, called or own[0], own, row))
    names = Counter(key(called) for _, called, _, _ in found)
    seen: dict[str, int] = {}
    people = []
    for line, called, own, row in found:
        label = f"{called} ({own[0]})" if names[key(called)] > 1 and own else called
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
    """(columns, [(line, row by columns)]) of a CSV file, divided by commas, semicolons or tabs,
    whichever its first line has most of.

    Raises ValueError that names the line.
    """
    text = decoded(path.read_bytes())
    for sign in ("\0", "\ufffd"):
        if sign in text:
            raise ValueError(
                f"{path}: line {text[: text.index(sign)].count(chr(10)) + 1}: expected text, got "
                f"a byte that is none; save the table as CSV UTF-8"
            )
    head = text.partition("\n")[0]
    try:
        rows = csv.DictReader(io.StringIO(text, newline=""), delimiter=max(",;\t", key=head.count))
        found = [(rows.line_num, {one: row[one] or "" for one in row if one}) for row in rows]
        return [column for column in rows.fieldnames or () if column], found
    except csv.Error as error:
        raise ValueError(f"{path}: expected a table in CSV, got another thing ({error})") from None


def _given_first(name):
    """ "Lee, Ann" as "Ann Lee"."""
    parts = [part.strip() for part in name.split(",")]
    return f"{parts[1]} {parts[0]}" if len(parts) == 2 and all(parts) else name


def _keys(name):
    """The name as one word, begun with any of its parts."""
    parts = re.split(r"[\s_,.-]+", name)
    return {key("".join(parts[at:] + parts[:at])) for at in range(len(parts))}
