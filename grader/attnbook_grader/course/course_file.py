"""The file course.toml."""

from __future__ import annotations

import re
import secrets
import tomllib
from dataclasses import fields
from datetime import datetime
from pathlib import Path

from attnbook_exercises.checks import exercises

from ..sandbox.launch import KINDS, Limits
from .assignments import Assignment, Course, Rules, Words, assignment_of
from .exercises import find_book, sections

__all__ = ["FILE", "read_course", "write_course"]

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
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: {error}") from None
    _only(path, "", table, {"title", "seed", "sandbox", "image", "rules", "limits", "assignment"})
    if not isinstance(table.get("seed"), int) or isinstance(table["seed"], bool):
        raise ValueError(f"{path}: seed: got {table.get('seed')!r}, expected a whole number")
    if not isinstance(table.get("image", ""), str):
        raise ValueError(f"{path}: image: got {table['image']!r}, expected a word")
    if not isinstance(table.get("assignment", []), list):
        raise ValueError(
            f"{path}: assignment: expected [[assignment]], got {table['assignment']!r}"
        )
    if table.get("sandbox") not in (None, *KINDS):
        raise ValueError(
            f"{path}: sandbox: got {table['sandbox']!r}, expected one of {', '.join(KINDS)}"
        )
    try:
        rules, limits = _fill(Rules, path, "rules", table), _fill(Limits, path, "limits", table)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    parts, found = sections(find_book(book)), []
    for entry in table.get("assignment", []):
        found.append(_read_assignment(path, entry, parts))
    if not found:
        raise ValueError(f"{path}: there is no [[assignment]]")
    names = [one.name.casefold() for one in found]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"{path}: assignment: two are named {name!r}")
    return Course(
        str(table.get("title", "Attention")),
        table["seed"],
        tuple(found),
        rules,
        limits,
        table.get("sandbox"),
        table.get("image"),
        folder,
    )


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
        lines += [
            f"{_quoted(id)} = [{visible:g}, {hidden:g}]"
            for id, (visible, hidden) in one.points.items()
        ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _read_assignment(path, entry, parts):
    where = (
        f"{path}: assignment {entry.get('name')!r}"
        if isinstance(entry, dict)
        else f"{path}: assignment"
    )
    if (
        not isinstance(entry, dict)
        or not isinstance(entry.get("name"), str)
        or not re.fullmatch(r"[A-Za-z0-9][\w-]*", entry["name"], re.ASCII)
    ):
        raise ValueError(
            f"{where}: name: expected letters, digits, - and _, which are the name of its notebook"
        )
    _only(where, "", entry, {"name", "title", "due", "points", "words"})
    due, points = entry.get("due"), entry.get("points")
    if due is not None and (not isinstance(due, datetime) or due.tzinfo is None):
        raise ValueError(
            f"{where}: due: got {due!s}, expected a date and time with a zone, as "
            f"2027-01-31T23:59:00+01:00"
        )
    if not isinstance(points, dict) or not points:
        raise ValueError(
            f'{where}: points: expected a line for each exercise, as "00.weighted_sum" = [1, 1]'
        )
    known = exercises()
    for id, pair in points.items():
        if id not in known:
            raise ValueError(f"{where}: points: the book has no exercise {id!r}")
        if (
            not isinstance(pair, list)
            or len(pair) != 2
            or not all(type(n) in (int, float) and 0 <= n <= 10**6 for n in pair)
            or not sum(pair)
        ):
            raise ValueError(
                f"{where}: points: {id}: got {pair!r}, expected [visible, hidden], two numbers "
                f"up to 1,000,000, not both 0"
            )
    made = assignment_of(
        entry["name"], str(entry.get("title", entry["name"])), parts, points.keys(), due
    )
    return Assignment(
        **{
            **vars(made),
            "points": {task.id: tuple(map(float, points[task.id])) for task in made.tasks},
            "words": _read_words(where, entry),
        }
    )


def _read_words(where, entry):
    """The questions of an assignment that are answered in words."""
    found = []
    for one in entry.get("words", []):
        name = one.get("name") if isinstance(one, dict) else None
        rubric = one.get("rubric") if isinstance(one, dict) else None
        if not isinstance(name, str) or not re.fullmatch(r"\w+", name, re.ASCII):
            raise ValueError(f"{where}: words: name: got {name!r}, expected letters, digits and _")
        _only(f"{where}: words {name!r}", "", one, {"name", "title", "text", "rubric"})
        if (
            not isinstance(rubric, dict)
            or not rubric
            or not all(
                type(points) in (int, float) and 0 < points <= 1000 for points in rubric.values()
            )
        ):
            raise ValueError(
                f"{where}: words {name!r}: rubric: got {rubric!r}, expected what is looked for "
                f'with its points, as {{"names the variance" = 2}}'
            )
        title = str(one.get("title", name))
        found.append(Words(f"{entry['name']}.{name}", title, str(one.get("text", "")), rubric))
    if len({one.id for one in found}) < len(found):
        raise ValueError(f"{where}: words: two have one name")
    return tuple(found)


def _fill(kind, path, name, table):
    given = table.get(name, {})
    if not isinstance(given, dict):
        raise ValueError(f"{name}: expected a table, [{name}]")
    _only(path, f"{name}.", given, {one.name for one in fields(kind)})
    for key, value in given.items():
        default = next(one.default for one in fields(kind) if one.name == key)
        if isinstance(value, bool) or not isinstance(
            value, str if isinstance(default, str) else (int, float)
        ):
            raise ValueError(
                f"{name}.{key}: got {value!r}, expected "
                f"{'a word' if isinstance(default, str) else 'a number'}"
            )
    return kind(**given)


def _only(where, prefix, given, known):
    for key in given:
        if key not in known:
            raise ValueError(
                f"{where}: {prefix}{key}: not known; expected {', '.join(sorted(known))}"
            )


def _quoted(text):
    return '"' + re.sub(r'(["\\])', r"\\\1", re.sub(r"[\x00-\x1f\x7f]", " ", str(text))) + '"'


def _value(value):
    return _quoted(value) if isinstance(value, str) else f"{value}"
