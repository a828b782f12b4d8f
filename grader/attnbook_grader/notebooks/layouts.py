"""Whose a file is: the layouts in which folders and learning platforms keep what was handed in."""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from .names import first_of, key, shown
from .roster import Roster

__all__ = ["Owner", "canvas_owner", "named", "owned_files"]

# leeann_LATE_12345_67890_soft_lookup.ipynb: name, user, attachment
_CANVAS = re.compile(r"(?P<name>.+?)(?P<late>_LATE)?_(?P<id>\d+)_\d+_(?P<file>.+)")
# Ann Lee_1234567_assignsubmission_file/… or …_file_soft_lookup.ipynb: name, number of the hand-in
_MOODLE = re.compile(r"(?P<name>.+?)_(?P<id>\d+)_assignsubmission_[a-z]+_?(?P<file>.*)")
_DOCUMENTS = {".docx", ".htm", ".html", ".json", ".md", ".pdf", ".py", ".txt", ".zip"}
"""What is handed in instead of a notebook, or is one under another ending."""


@dataclass(frozen=True)
class Owner:
    """Whose a file is, as far as its place says.

    student: the name, as it is shown
    hint: what its name and the folders around it say about the assignment
    late: what the platform says; None where it says nothing
    assignment: that of the folder which holds the students, where one is named so
    """

    student: str
    hint: str = ""
    late: bool | None = None
    assignment: str = ""


def canvas_owner(file: str) -> tuple[str, str] | None:
    """(name, id) of the student in the path of a file as Canvas names it."""
    found = (_CANVAS.fullmatch(part) for part in file.split("/"))
    return next(((one["name"], one["id"]) for one in found if one), None)


def owned_files(
    folder: Path, assignments, roster: Roster | None, remarks: list[str]
) -> Iterator[tuple[Owner, Path | None]]:
    """Every notebook below `folder` with its owner, and every student once without a file; of who
    has no notebook, the documents.

    Known are STUDENT/….ipynb at any depth, STUDENT.ipynb, and both in a folder for each assignment;
    what Canvas and Moodle pack for an assignment, and what `gh classroom clone student-repos`
    leaves. Links are not followed: they may lead to anything.
    """
    whose = _Names(folder, assignments, roster, remarks)
    students: dict[str, set[str]] = {}  # of each folder that is no student's
    for owner, path, group in _below(folder, "", "", "", whose):
        students.setdefault(group, set()).add(owner.student)
        yield owner, path
    for group, few in students.items():
        elsewhere = set().union(*(other for name, other in students.items() if name != group))
        beside = few & students.get("", set())
        if group and (beside or len(few) == 1 and few <= elsewhere):
            remarks.append(
                f"{group}: taken for a folder that holds the work of {min(beside or few)}, who has "
                f"handed in elsewhere, too: is it that of another student?"
            )


class _Names:
    def __init__(self, root, assignments, roster, remarks):
        self.root, self.assignments, self.roster, self.remarks = root, assignments, roster, remarks
        self.strangers: set[str] = set()
        self.twins: set[str] = set()
        self.numbers: dict[str, str] = {}  # Canvas's, of each student

    def path(self, path):
        return str(path.relative_to(self.root))

    def owner(self, name, hint, assignment, is_folder=False) -> Owner | None:
        """Of a folder or a file with this name; None where it names nobody."""
        late, own = None, ()
        if found := _MOODLE.fullmatch(name):
            called = student = found["name"]
            hint = f"{hint} {found['file']}"
            if called in self.twins:
                return Owner(shown(f"{called} ({found['id']})"), hint, None, assignment)
        elif (found := _CANVAS.fullmatch(name)) and not self.assigned(found["name"]):
            called, own = found["name"], (found["id"],)
            student, late = f"{called} ({found['id']})", bool(found["late"])
            hint = f"{hint} {found['file']}"
        else:
            called = student = self._without_assignment(name, is_folder)
            hint = f"{hint} {name}"
        if not student:
            return None
        if self.roster is not None:
            person = self.roster.find(called, *own)
            if person is None and student not in self.strangers:
                self.strangers.add(student)
                self.remarks.append(f"{student}: {self.roster.why_not(called, *own)}")
            student = person.label if person else student
            if own and person and (first := self.numbers.setdefault(student, own[0])) != own[0]:
                self.remarks.append(
                    f"{name}: has the number {own[0]}, and another file of {student} the number "
                    f"{first}: is it that of another student?"
                )
        return Owner(shown(student), hint, late, assignment)

    def look_for_twins(self, folder):
        """Two students of one name, or all of them without names: Moodle numbers them anew in each
        assignment, so nothing says who is who in the next one.
        """
        numbers: dict[str, set[str]] = {}
        for entry in _visible(folder):
            if found := _MOODLE.fullmatch(entry.stem if entry.is_file() else entry.name):
                numbers.setdefault(found["name"], set()).add(found["id"])
        for name, own in numbers.items():
            if len(own) > 1 and name not in self.twins:
                self.twins.add(name)
                self.remarks.append(
                    f"{name}: {len(own)} students of this name, told apart by Moodle's numbers, "
                    f"which are others in each assignment: rename their folders to ids of a roster"
                )

    def holds_students(self, entry) -> bool:
        """Whether a folder is that of an assignment and not of a student."""
        if self.assigned(entry.name):
            return True
        # What lies in a student's folder has names of the student's choice, which say nothing.
        if _MOODLE.fullmatch(entry.name) or _CANVAS.fullmatch(entry.name):
            return False
        if self._without_assignment(entry.name, is_folder=True) != entry.name:
            return False
        if self.roster is not None and self.roster.find(entry.name):
            return False
        names = [
            one.stem if one.suffix.lower() == ".ipynb" else one.name
            for one in _visible(entry)
            if one.suffix.lower() == ".ipynb" or one.is_dir() and not one.is_symlink()
        ]
        least = 2 if self.roster is None else 1
        return len(names) >= least and all(map(self._of_a_platform, names))

    def _of_a_platform(self, name):
        found = _MOODLE.fullmatch(name) or _CANVAS.fullmatch(name)
        if found and self.assigned(found["name"]):  # soft_lookup_2026_11_28
            return False
        return bool(found or self.roster is not None and self.roster.find(name))

    def handed_in(self, entry) -> bool:
        """Whether a file that is no notebook was handed in instead of one."""
        return entry.suffix.lower() in _DOCUMENTS and self._of_a_platform(entry.stem)

    def speaks_of_others(self, entry, here) -> bool:
        """Whether a folder that looks as if it held students lies beside folders of these
        students: then it is one's own, with files named after others. (A roster decides it.)
        """
        if self.roster is not None or self.assigned(entry.name):
            return False
        names = [one.stem for one in _visible(entry)]
        found = [_MOODLE.fullmatch(name) or _CANVAS.fullmatch(name) for name in names]
        others = {one["name"] for one in found if one}
        beside = {shown(one.name) for one in _visible(here) if one.is_dir() and one != entry}
        if both := sorted(others & beside):
            self.remarks.append(
                f"{self.path(entry)}: holds files named after {', '.join(both)}, whose folders "
                f"lie beside it: taken for one student's"
            )
        return bool(both)

    def assigned(self, name) -> str:
        """The assignment whose name a folder bears; "" where it bears none."""
        slug = _slug(name).removesuffix("_submissions")
        return next((one.name for one in self.assignments if slug == _slug(one.name)), "")

    def _without_assignment(self, name, is_folder):
        """The name without that of an assignment (of a folder: as GitHub Classroom puts it before)
        and a browser's (1).
        """
        for one in self.assignments:
            word = "[-_]".join(map(re.escape, re.split("[-_]", one.name)))
            if is_folder:
                name = re.sub(rf"^{word}-(?=.)", "", name, flags=re.IGNORECASE)
                continue
            name = re.sub(r"\s*\(\d+\)$", "", name)
            name = re.sub(rf"^{word}(?:[\s_.-]+|$)|[\s_.-]+{word}$", "", name, flags=re.IGNORECASE)
        return name.strip()


_OF_SYSTEMS = (".DS_Store", ".git", ".github", ".gitignore", ".ipynb_checkpoints", "__MACOSX")


def _below(here, hint, group, assignment, whose):
    """Owners with their files, and the folder of students in which each was found."""
    whose.look_for_twins(here)
    for name in _hidden(here):
        whose.remarks.append(f"{name}: hidden, by the dot that it begins with, and left out")
    folders: dict[str, str] = {}  # of this place, by their students
    for entry in _visible(here):
        name = whose.path(entry)
        if entry.is_symlink():
            whose.remarks.append(f"{name}: a link, left out")
        elif entry.is_dir():
            if whose.holds_students(entry) and not whose.speaks_of_others(entry, here):
                own = whose.assigned(entry.name)
                inside, more = (group, hint) if own else (name, f"{hint} {entry.name}")
                yield from _below(entry, more, inside, own or assignment, whose)
                continue
            owner = whose.owner(entry.name, hint, assignment, is_folder=True)
            owner = owner or Owner(shown(entry.name), hint, None, assignment)
            other = folders.setdefault(owner.student, entry.name)
            if other != entry.name and key(other) == key(entry.name):
                whose.remarks.append(
                    f"{name}: taken for the folder of {owner.student}, as is another one whose "
                    f"name reads the same"
                )
            yield owner, None, group
            for path in _files(entry, whose):
                here_too = replace(owner, hint=f"{owner.hint} {path.relative_to(entry)}")
                yield here_too, path, group
        elif entry.suffix.lower() != ".ipynb" and not whose.handed_in(entry):
            whose.remarks.append(f"{name}: no notebook (.ipynb), left out")
        elif _is_file(entry, whose):
            owner = whose.owner(entry.stem, hint, assignment)
            if owner is None:
                whose.remarks.append(
                    f"{name}: whose is it? Expected the student's name in that of its folder or "
                    f"its own; left out"
                )
            else:
                yield owner, entry, group


def _visible(folder):
    """The entries of a folder without tables and what systems put beside files."""
    try:
        return [
            one
            for one in sorted(folder.iterdir())
            if not one.name.startswith(".") and one.name not in ("times.csv", "__MACOSX")
        ]
    except OSError:  # `_files` says so
        return []


def _hidden(folder):
    """Names in a folder that begin with a dot, but for those that systems put there."""
    with contextlib.suppress(OSError):
        names = sorted(one.name for one in folder.iterdir() if one.name.startswith("."))
        return [shown(one) for one in names if one not in _OF_SYSTEMS and one[:2] != "._"]
    return []


def _files(student, whose):
    """The notebooks in a student's folder."""

    def closed(error):
        whose.remarks.append(
            f"{whose.path(Path(error.filename))}: cannot be read ({error.strerror}), left out"
        )

    others, notebooks = [], 0
    for here, folders, files in os.walk(student, followlinks=False, onerror=closed):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(name for name in files if not name.startswith(".")):
            path = Path(here) / name
            if path.suffix.lower() != ".ipynb":
                others.append(path)
            elif _is_file(path, whose):
                notebooks += 1
                yield path
    if not notebooks:
        instead = [path for path in others if path.suffix.lower() in _DOCUMENTS]
        yield from (path for path in instead if _is_file(path, whose))
        others = [path for path in others if path not in instead]
    if others:
        names = first_of(str(path.relative_to(student)) for path in others)
        whose.remarks.append(f"{whose.path(student)}: {names}: no notebook (.ipynb), left out")


def _is_file(path, whose):
    """Whether it may be read without waiting and without leading elsewhere; if not, a remark
    says so.
    """
    name = whose.path(path)
    try:
        if stat.S_ISREG(path.lstat().st_mode):
            return True
    except OSError as error:  # it may go while the folder is looked through
        whose.remarks.append(f"{name}: cannot be read ({error.strerror}), left out")
        return False
    whose.remarks.append(f"{name}: a link or another thing that is no file, left out")
    return False


def named(text: str, assignments) -> list[str]:
    """The names of the assignments that stand in a text, such as the name of a file."""
    text = _slug(text)
    spans = {
        one.name: [
            match.span()
            for match in re.finditer(rf"(?<![a-z0-9]){re.escape(_slug(one.name))}(?![a-z])", text)
        ]
        for one in assignments
    }

    def inside(name, span):  # "memory" in "documents_and_memory"
        return any(
            low <= span[0] and span[1] <= high and high - low > span[1] - span[0]
            for other in spans
            if other != name
            for low, high in spans[other]
        )

    return [name for name, found in spans.items() if not all(inside(name, span) for span in found)]


def _slug(text):
    return re.sub(r"[-_ ]", "_", text.casefold())
