"""Whose a file is: the layouts in which folders and learning platforms keep what was handed in."""

from __future__ import annotations

import os
import re
import stat
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .roster import Roster

__all__ = ["Owner", "named", "owned_files", "shown"]

# leeann_LATE_12345_67890_soft_lookup.ipynb: name, user, attachment
_CANVAS = re.compile(r"(?P<name>.+?)(?P<late>_LATE)?_(?P<id>\d+)_\d+_(?P<file>.+)")
# Ann Lee_1234567_assignsubmission_file/… or …_file_soft_lookup.ipynb: name, number of the hand-in
_MOODLE = re.compile(r"(?P<name>.+?)_(?P<id>\d+)_assignsubmission_[a-z]+_?(?P<file>.*)")
# Controls, marks of direction, and bytes of a file name that are no UTF-8.
_ODD = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)


@dataclass(frozen=True)
class Owner:
    """Whose a file is, as far as its place says.

    student: the name, as it is shown
    hint: what its name and the folders around it say about the assignment
    late: what the platform says; None where it says nothing
    """

    student: str
    hint: str = ""
    late: bool | None = None


def owned_files(
    folder: Path, assignments, roster: Roster | None, remarks: list[str]
) -> Iterator[tuple[Owner, Path | None]]:
    """Every notebook below `folder` with its owner, and every student once without a file.

    Known are STUDENT/….ipynb at any depth, STUDENT.ipynb, and both in a folder for each assignment;
    what Canvas and Moodle pack for an assignment, and what `gh classroom clone student-repos`
    leaves. Links are not followed: they may lead to anything.
    """
    whose = _Names(folder, assignments, roster, remarks)
    students: dict[str, set[str]] = {}  # of each folder that is no student's
    for owner, path, group in _below(folder, "", "", whose):
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

    def path(self, path):
        return str(path.relative_to(self.root))

    def owner(self, name, hint, is_folder=False) -> Owner | None:
        """Of a folder or a file with this name; None where it names nobody."""
        late, own = None, ()
        if found := _MOODLE.fullmatch(name):
            student, hint = found["name"], f"{hint} {found['file']}"
            if student in self.twins:
                return Owner(shown(f"{student} ({found['id']})"), hint)
        elif (found := _CANVAS.fullmatch(name)) and not self._is_assignment(_slug(found["name"])):
            student, own = f"{found['name']} ({found['id']})", (found["id"],)
            late, hint = bool(found["late"]), f"{hint} {found['file']}"
        else:
            student, hint = self._without_assignment(name, is_folder), f"{hint} {name}"
        if not student:
            return None
        if self.roster is not None:
            person = self.roster.find(student, *own)
            if person is None and student not in self.strangers:
                self.strangers.add(student)
                self.remarks.append(f"{student}: nobody in the roster, or more than one, is this")
            student = person.label if person else student
        return Owner(shown(student), hint, late)

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
        if self.of_assignment(entry):
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
        if found and self._is_assignment(_slug(found["name"])):  # soft_lookup_2026_11_28
            return False
        return bool(found or self.roster is not None and self.roster.find(name))

    def speaks_of_others(self, entry, here) -> bool:
        """Whether a folder that looks as if it held students lies beside folders of these
        students: then it is one's own, with files named after others. (A roster decides it.)
        """
        if self.roster is not None or self.of_assignment(entry):
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

    def of_assignment(self, entry) -> bool:
        """Whether a folder bears the name of an assignment."""
        return self._is_assignment(_slug(entry.name))

    def _is_assignment(self, slug):
        return any(
            slug in (_slug(one.name), f"{_slug(one.name)}_submissions") for one in self.assignments
        )

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


def _below(here, hint, group, whose):
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
                inside = group if whose.of_assignment(entry) else name
                yield from _below(entry, f"{hint} {entry.name}", inside, whose)
                continue
            owner = whose.owner(entry.name, hint, is_folder=True) or Owner(shown(entry.name), hint)
            other = folders.setdefault(owner.student, entry.name)
            if other != entry.name and shown(other).strip() == shown(entry.name).strip():
                whose.remarks.append(
                    f"{name}: taken for the folder of {owner.student}, as is another one that "
                    f"looks the same"
                )
            yield owner, None, group
            for path in _files(entry, whose):
                yield (
                    Owner(owner.student, f"{owner.hint} {path.relative_to(entry)}", owner.late),
                    path,
                    group,
                )
        elif entry.suffix.lower() != ".ipynb":
            whose.remarks.append(f"{name}: no notebook (.ipynb), left out")
        elif _is_file(entry, whose):
            owner = whose.owner(entry.stem, hint)
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
    try:
        names = sorted(one.name for one in folder.iterdir())
    except OSError:
        return []
    of_systems = lambda name: name in _OF_SYSTEMS or name.startswith("._")  # noqa: E731
    return [shown(name) for name in names if name.startswith(".") and not of_systems(name)]


def _files(student, whose):
    """The notebooks in a student's folder."""

    def closed(error):
        whose.remarks.append(
            f"{whose.path(Path(error.filename))}: cannot be read ({error.strerror}), left out"
        )

    others = []
    for here, folders, files in os.walk(student, followlinks=False, onerror=closed):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(name for name in files if not name.startswith(".")):
            path = Path(here) / name
            if path.suffix.lower() != ".ipynb":
                others.append(str(path.relative_to(student)))
            elif _is_file(path, whose):
                yield path
    if others:
        more = f" and {len(others) - 5} more" if len(others) > 5 else ""
        whose.remarks.append(
            f"{whose.path(student)}: {', '.join(others[:5])}{more}: no notebook (.ipynb), left out"
        )


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


def shown(name: str) -> str:
    """The name of a student or file without what a terminal, a page or a data base could not
    take as it is; that is written out, as \\xeb.
    """

    def written(one):
        code = ord(one[0])
        return (
            f"\\x{code - 0xDC00:02x}"
            if 0xDC80 <= code <= 0xDCFF
            else one[0].encode("unicode_escape").decode()
        )

    return _ODD.sub(written, unicodedata.normalize("NFC", name))
