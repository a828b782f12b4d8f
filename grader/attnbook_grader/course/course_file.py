"""The file course.toml."""

from __future__ import annotations

import re
import secrets
import tomllib
from dataclasses import fields, replace
from datetime import datetime
from pathlib import Path

from attnbook_exercises.checks import exercises

from ..sandbox.launch import KINDS, Limits
from .assignments import Course, Rules, Words, assignment_of
from .exercises import find_book, sections

__all__ = ["FILE", "read_course", "read_due", "read_toml", "require_known", "write_course"]

FILE = "course.toml"


def read_course(folder: str | Path, book: str | Path | None = None) -> Course:
    """The course in `folder`.

    Raises ValueError that names the line's key, what it says, and what was expected.
    """
    folder = Path(folder)
    path = folder / FILE
    if not path.is_file():
        raise ValueError(
            f"course: there is no {path}; make a course with: attnbook course new {folder}"
        )
    table = read_toml(path)
    known = {"title", "seed", "sandbox", "image", "rules", "limits", "assignment"}
    require_known(table, known, f"{path}: ")
    for name, right, expected in (
        ("seed", type(table.get("seed")) is int, "a whole number"),
        ("image", isinstance(table.get("image", ""), str), "a word"),
        ("assignment", isinstance(table.get("assignment", []), list), "[[assignment]]"),
        ("sandbox", table.get("sandbox") in (None, *KINDS), f"one of {', '.join(KINDS)}"),
    ):
        if not right:
            raise ValueError(f"{path}: {name}: got {table.get(name)!r}, expected {expected}")
    try:
        rules, limits = _fill(Rules, "rules", table), _fill(Limits, "limits", table)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    text = path.read_text(encoding="utf-8")  # reading every section takes two seconds
    named = {one.notebook for id, one in exercises().items() if id in text}
    parts, found = sections(find_book(book), named), []
    for entry in table.get("assignment", []):
        name = entry.get("name") if isinstance(entry, dict) else None
        try:
            found.append(_read_assignment(name, entry, parts))
        except ValueError as error:
            raise ValueError(f"{path}: assignment {name!r}: {error}") from None
    if not found:
        raise ValueError(f"{path}: there is no [[assignment]]")
    names = [one.name.casefold() for one in found]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"{path}: assignment: two are named {name!r}")
    title = str(table.get("title", "Attention"))
    sandbox = (table.get("sandbox"), table.get("image"))
    return Course(title, table["seed"], tuple(found), rules, limits, *sandbox, folder)


def write_course(path: Path, title: str, assignments) -> None:
    """Write course.toml with a seed of its own for a new course."""
    lines = [
        "# A course made by `attnbook course new`. Keep this folder to yourself: with the seed "
        "and the solutions in it,",
        "# anybody could write answers that only look right.",
        f"title = {_quoted(title)}",
        f"seed = {secrets.randbits(62)}  # the inputs of the hidden checks are drawn from it",
        '# sandbox = "bubblewrap"  # or "docker" or "podman", with the image to run; without a '
        "line: bubblewrap",
        '# image = "registry.example.org/attnbook:latest"',
        "",
        "[rules]",
    ]
    says = {
        "late_per_day": "share of the marks lost for every day that has begun since it was due",
        "latest_days": "days after which a late hand-in gets no marks",
        "repeated": 'which hand-in counts: "last", "first" or "best"',
        "notebooks": "how many notebooks of a student are judged for an assignment, the last ones",
        "library": 'an answer that uses the book\'s own implementation: "mark" or "zero"',
    }
    lines += [f"{one.name} = {_value(one.default)}  # {says[one.name]}" for one in fields(Rules)]
    lines += [
        "",
        "[limits]  # for one notebook; seconds are for one cell or one check, memory, output and "
        "disk are in MB",
    ]
    lines += [f"{one.name} = {one.default}" for one in fields(Limits)]
    for one in assignments:
        lines += [
            "",
            "[[assignment]]",
            f"name = {_quoted(one.name)}",
            f"title = {_quoted(one.title)}",
            "# due = 2027-01-31T23:59:00+01:00",
            "[assignment.points]  # one line an exercise: marks for the visible check, for the "
            "hidden one",
        ]
        lines += [f"{_quoted(id)} = [{a:g}, {b:g}]" for id, (a, b) in one.points.items()]
        for asked in one.words:
            lines += [
                "[[assignment.words]]  # marked by hand; take it out if you do not ask it",
                f"name = {_quoted(asked.id.partition('.')[2])}",
                f"title = {_quoted(asked.title)}",
                f"text = {_quoted(asked.text)}",
                "[assignment.words.rubric]  # what is looked for, with its points",
            ]
            lines += [f"{_quoted(part)} = {points:g}" for part, points in asked.rubric.items()]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _read_assignment(name, entry, parts):
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z0-9][\w-]*", name, re.ASCII):
        raise ValueError(
            "name: expected letters, digits, - and _, which are the name of its notebook"
        )
    require_known(entry, {"name", "title", "due", "points", "words"})
    due, points = read_due(entry) if "due" in entry else None, entry.get("points")
    if not isinstance(points, dict) or not points:
        raise ValueError('points: expected a line for each exercise, as "00.weighted_sum" = [1, 1]')
    known = exercises()
    for id, pair in points.items():
        if id not in known:
            raise ValueError(f"points: the book has no exercise {id!r}")
        if (
            not isinstance(pair, list)
            or len(pair) != 2
            or not all(type(n) in (int, float) and 0 <= n <= 10**6 for n in pair)
            or not sum(pair)
        ):
            raise ValueError(
                f"points: {id}: got {pair!r}, expected [visible, hidden], two numbers up to "
                f"1,000,000, not both 0"
            )
    made = assignment_of(name, str(entry.get("title", name)), parts, points.keys(), due)
    own = {task.id: tuple(map(float, points[task.id])) for task in made.tasks}
    return replace(made, points=own, words=_read_words(entry))


def _read_words(entry):
    """The questions of an assignment that are answered in words."""
    found = []
    for one in entry.get("words", []):
        name = one.get("name") if isinstance(one, dict) else None
        rubric = one.get("rubric") if isinstance(one, dict) else None
        if not isinstance(name, str) or not re.fullmatch(r"\w+", name, re.ASCII):
            raise ValueError(f"words: name: got {name!r}, expected letters, digits and _")
        require_known(one, {"name", "title", "text", "rubric"}, f"words {name!r}: ")
        right = isinstance(rubric, dict) and all(
            type(n) in (int, float) and 0 < n <= 1000 for n in rubric.values()
        )
        if not rubric or not right:
            raise ValueError(
                f"words {name!r}: rubric: got {rubric!r}, expected what is looked for "
                f'with its points, as {{"names the variance" = 2}}'
            )
        title = str(one.get("title", name))
        found.append(Words(f"{entry['name']}.{name}", title, str(one.get("text", "")), rubric))
    if len({one.id for one in found}) < len(found):
        raise ValueError("words: two have one name")
    return tuple(found)


def _fill(kind, name, table):
    given = table.get(name, {})
    if not isinstance(given, dict):
        raise ValueError(f"{name}: expected a table, [{name}]")
    require_known(given, {one.name for one in fields(kind)}, f"{name}.")
    for key, value in given.items():
        is_word = isinstance(getattr(kind, key), str)  # a field's default
        if type(value) not in ((str,) if is_word else (int, float)):
            expected = "a word" if is_word else "a number"
            raise ValueError(f"{name}.{key}: got {value!r}, expected {expected}")
    return kind(**given)


def read_toml(path: Path) -> dict:
    """What stands in the file. Raises ValueError that names it."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def require_known(given, known: set[str], where: str = "") -> None:
    """Raise ValueError for a key that is not among the known ones.

    where: what stands before the key in the message
    """
    for key in given:
        if key not in known:
            raise ValueError(f"{where}{key}: not known; expected {', '.join(sorted(known))}")


def read_due(entry) -> datetime:
    """The due date of an entry in a file of the instructor's."""
    due = entry.get("due")
    if not isinstance(due, datetime) or due.tzinfo is None:
        raise ValueError(
            f"due: got {_value(due)}, expected a date and time with a zone and without quotes, as "
            f"2027-01-31T23:59:00+01:00"
        )
    return due


def _quoted(text):
    shown = re.sub(r'(["\\])', r"\\\1", re.sub(r"[\x00-\x09\x0b-\x1f\x7f]", " ", str(text)))
    return f'"""\n{shown}"""' if "\n" in shown else f'"{shown}"'


def _value(value):
    return _quoted(value) if isinstance(value, str) else f"{value}"
