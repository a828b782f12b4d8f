"""Which files are hand-ins, whose, for which assignment, and when."""

import json
import os
import re
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from attnbook_grader.course.assignments import from_sections, notebook_with
from attnbook_grader.course.exercises import find_book, sections
from attnbook_grader.notebooks import hand_ins as hand_ins_module
from attnbook_grader.notebooks import layouts, reading
from attnbook_grader.notebooks.hand_ins import find_hand_ins, safe_names

from .conftest import EMPTY, found, write


def assignments(*names):
    return from_sections(sections(find_book(), names))


def test_hand_ins_are_found_at_any_depth_and_under_any_name(tmp_path, assignment, hand_ins):
    right = hand_ins["right"]
    for name in (
        "ann/soft_lookup.ipynb",
        "bob/deep/00_attention/Kopie von X (2).ipynb",
        "bob/soft_lookup.ipynb",
        "cy/empty.IPYNB",
        "Zoë 李/a b.ipynb",
        "ann/.ipynb_checkpoints/soft_lookup-checkpoint.ipynb",
        "..dots/x.ipynb",
        "back\\slash/x.ipynb",
        "soft_lookup_dora (1).ipynb",
        "ed.ipynb",
    ):
        write(tmp_path, name, right)
    (tmp_path / "notes.txt").write_text("")
    got, students, remarks = found(tmp_path, assignment)
    assert students == sorted(["ann", "bob", "cy", "Zoë 李", "back\\slash", "dora", "ed"])
    assert [one[2] for one in got if one[0] == "bob"] == [
        "bob/soft_lookup.ipynb",
        "bob/deep/00_attention/Kopie von X (2).ipynb",
    ]
    assert len(got) == 8 and {one[1] for one in got} == {"soft_lookup"}
    assert remarks == [
        "..dots: hidden, by the dot that it begins with, and left out",
        "notes.txt: no notebook (.ipynb), left out",
    ]


def test_a_notebook_without_any_answer_belongs_to_nobody(tmp_path, assignment):
    write(tmp_path, "ann/holiday.ipynb", EMPTY)
    got, students, (remark,) = found(tmp_path, assignment)
    assert got == [] and students == ["ann"] and "belongs to no assignment" in remark


def test_links_are_not_followed(tmp_path, assignment, hand_ins):
    write(tmp_path, "elsewhere/secret.ipynb", hand_ins["right"])
    folder = tmp_path / "hand-ins"
    for student in ("ann", "bob"):
        (folder / student).mkdir(parents=True)
    (folder / "ann" / "soft_lookup.ipynb").symlink_to(tmp_path / "elsewhere" / "secret.ipynb")
    (folder / "bob" / "deep").symlink_to(tmp_path / "elsewhere")
    (folder / "cy").symlink_to(tmp_path / "elsewhere")
    got, students, remarks = found(folder, assignment)
    assert got == [] and students == ["ann", "bob"]
    assert len(remarks) == 2 and all("link" in remark for remark in remarks)


def test_what_is_no_notebook_is_left_out_with_a_word(tmp_path, assignment, hand_ins):
    for name in (
        "Ida/hand.zip",
        "Ida/deep/week1.py",
        "Hugo.zip",
        "Jo/soft_lookup.ipynb",
        "Kim.IPYNB",
        *(f"Jo/{n}.png" for n in range(9)),
    ):
        write(tmp_path, name, hand_ins["right"])
    os.mkfifo(tmp_path / "top.ipynb")
    os.mkfifo(tmp_path / "Jo" / "pipe.ipynb")
    got, students, remarks = found(tmp_path, assignment)
    assert students == ["Ida", "Jo", "Kim"] and [one[2] for one in got] == [
        "Ida/hand.zip",
        "Ida/deep/week1.py",
        "Jo/soft_lookup.ipynb",
        "Kim.IPYNB",
    ]
    assert remarks == [
        "Hugo.zip: no notebook (.ipynb), left out",
        "Jo/pipe.ipynb: a link or another thing that is no file, left out",
        "Jo: 0.png, 1.png, 2.png, 3.png, 4.png and 4 more: no notebook (.ipynb), left out",
        "top.ipynb: a link or another thing that is no file, left out",
    ]


def test_names_are_shown_so_that_everything_takes_them(tmp_path, assignment, hand_ins):
    for name in (
        b"Zo\xeb/soft_lookup\xff.ipynb",
        b"a\nb/soft_lookup.ipynb",
        "e\u202ev\u202d\x1b[2J.ipynb".encode(),
        "نرگس\u200cها/soft_lookup.ipynb".encode(),
        b"x\n.zip",
    ):
        write(tmp_path, os.fsdecode(name), hand_ins["right"])
    row = '"a\nb/soft_lookup.ipynb",2027-01-31T12:00:00+01:00'
    write(tmp_path, "times.csv", f"file,time\n{row}\n")
    got, students, remarks = find_hand_ins(tmp_path, [assignment])
    names = {r"Zo\xeb", r"a\nb", r"e\u202ev\u202d\x1b[2J", "نرگس\u200cها"}
    assert set(students) == names == {one.student for one in got}
    assert [one.name for one in got if one.student == r"Zo\xeb"] == [r"soft_lookup\xff.ipynb"]
    assert [one.time.year for one in got if one.student == r"a\nb"] == [2027]
    assert remarks == [r"x\n.zip: no notebook (.ipynb), left out"]


def test_a_name_within_a_longer_one_is_not_meant(tmp_path):
    both = assignments("documents_and_memory", "memory")
    for folder, name in (
        ("ann", "documents_and_memory"),
        ("bob", "Memory (1)"),
        ("cid", "memory and documents_and_memory"),
        ("__MACOSX", "memory"),
    ):
        write(tmp_path, f"{folder}/{name}.ipynb", "{cut off")
    found, students, _ = find_hand_ins(tmp_path, both)
    assert [(one.student, one.assignment) for one in found] == [
        ("ann", "documents_and_memory"),
        ("bob", "memory"),
        ("cid", "memory"),
    ]
    assert "__MACOSX" not in students


def test_a_hand_in_belongs_where_its_cells_belong(tmp_path, hand_ins):
    first, second = assignments("soft_lookup", "weights_as_explanation")
    write(tmp_path, "ann/soft_lookup.ipynb", notebook_with(second, {}))
    write(tmp_path, "ann/any.ipynb", hand_ins["right without cell names"])
    for name in ("weights_as_explanation (3)", "other"):
        write(tmp_path, f"ann/{name}.ipynb", "no notebook")
    got, _, remarks = found(tmp_path, first, second)
    assert {(name, path) for _, name, path in got} == {
        ("weights_as_explanation", "ann/soft_lookup.ipynb"),
        ("soft_lookup", "ann/any.ipynb"),
        ("weights_as_explanation", "ann/weights_as_explanation (3).ipynb"),
    }
    assert remarks == [
        "ann/other.ipynb: belongs to no assignment (soft_lookup, weights_as_explanation), left out"
    ]


def test_a_notebook_of_two_assignments_is_shared_unless_its_name_says_which(
    tmp_path, assignment, hand_ins
):
    weeks = [
        replace(assignment, name=name, tasks=(task,))
        for name, task in zip(("week-1", "week-2"), assignment.tasks)
    ]
    for name in ("soft_lookup", "week-2", "week-1 and week-2"):
        write(tmp_path, f"ann/{name}.ipynb", hand_ins["right"])
    write(tmp_path, "ann/other.ipynb", notebook_with(weeks[0], {}))
    got, _, _ = find_hand_ins(tmp_path, weeks)
    assert [(one.path.stem, one.assignment, one.shared) for one in got] == [
        ("other", "week-1", False),
        ("soft_lookup", "week-1", True),
        ("soft_lookup", "week-2", True),
        ("week-1 and week-2", "week-1", False),
        ("week-1 and week-2", "week-2", False),
        ("week-2", "week-2", False),
    ]


def test_times_come_from_the_file_or_the_table(tmp_path, assignment, hand_ins):
    write(tmp_path, "ann/x.ipynb", hand_ins["right"])
    os.utime(tmp_path / "ann" / "x.ipynb", (1_000_000_000, 1_000_000_000))
    ((one,), _, _) = find_hand_ins(tmp_path, [assignment])
    assert one.time == datetime(2001, 9, 9, 1, 46, 40, tzinfo=UTC)
    write(tmp_path, "times.csv", "file,time\nann/x.ipynb,2027-01-31T12:00:00+01:00\n")
    ((one,), _, _) = find_hand_ins(tmp_path, [assignment])
    assert one.time == datetime(2027, 1, 31, 11, tzinfo=UTC)
    write(tmp_path, "times.csv", "file,time\nann/y.ipynb,2027-01-31T12:00:00+01:00\n")
    assert find_hand_ins(tmp_path, [assignment])[2] == [
        f"times.csv: ann/y.ipynb: there is no notebook of this name, expected its path in "
        f"{tmp_path}, as STUDENT/NOTEBOOK.ipynb"
    ]


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (
            "ann/x.ipynb,2027-01-31T12:00:00\n",
            "line 2: expected the columns file and time, a time with its zone",
        ),
        ("ann/x.ipynb,yesterday\n", "line 2: expected the columns file and time"),
        ("x" * 200_000, "times.csv: expected a table in CSV"),
    ],
    ids=["no zone", "no time", "no table"],
)
def test_a_table_of_times_with_a_mistake_says_which(tmp_path, assignment, rows, words):
    write(tmp_path, "times.csv", f"file,time\n{rows}".encode("cp1252"))
    with pytest.raises(ValueError, match=words):
        find_hand_ins(tmp_path, [assignment])


def test_what_a_file_holds_is_read_once(tmp_path, assignment, hand_ins, monkeypatch):
    write(tmp_path, "ann/x.ipynb", hand_ins["right"])
    with open(tmp_path / "ann" / "soft_lookup.ipynb", "wb") as file:
        file.truncate(200 * 2**20)
    notebooks = {}
    found, _, _ = find_hand_ins(tmp_path, [assignment], None, notebooks)
    large, right = (notebooks[one.sha] for one in found)
    assert large == "the file is larger than 128 MB. Clear its outputs and hand it in again"
    assert "outputs" not in right.decode().replace('"outputs": []', "")
    monkeypatch.setattr(hand_ins_module, "read_notebook", None)
    assert find_hand_ins(tmp_path, [assignment], None, notebooks)[0] == found


def test_outputs_do_not_count(tmp_path, assignment, hand_ins):
    """50 MB of them, read by a process of its own."""
    nb = json.loads(hand_ins["right"])
    nb["cells"][1]["outputs"] = [
        {"output_type": "stream", "name": "stdout", "text": "x" * 50_000_000}
    ]
    write(tmp_path, "ann/x.ipynb", json.dumps(nb))
    notebooks = {}
    ((one,), _, _) = find_hand_ins(tmp_path, [assignment], None, notebooks)
    assert one.assignment == "soft_lookup" and len(notebooks[one.sha]) < 100_000
    del nb["cells"][1]["outputs"]
    cells = [cell["source"] for cell in json.loads(notebooks[one.sha])["cells"]]
    assert cells == ["".join(cell["source"]) for cell in nb["cells"]]


COSTS = {
    "tiny cells": (
        '{"cells": [' + ",".join(['{"cell_type":"code","source":""}'] * 400_000) + "]}",
        "the notebook has 400,000 cells, expected at most 10,000",
    ),
    "a long line": (
        '{"cells": [{"cell_type": "code", "source": "' + "x" * 6_000_000 + '"}]}',
        "the cells hold 6,000,000 characters of text, expected at most 5,242,880",
    ),
    "a list of lists": (
        '{"cells": [' + "[]," * 2_000_000 + "[]]}",
        "of 5 MB takes too much memory or time to be read. Clear its outputs",
    ),
    "deep": ('{"cells": ' + "[" * 2_000_000, "it does not appear to be JSON"),
}


@pytest.mark.parametrize("name", COSTS)
def test_a_file_that_costs_too_much_to_read_is_refused(tmp_path, name, monkeypatch):
    if name == "a list of lists":
        monkeypatch.setattr(reading, "_MEMORY", 150 * 2**20)
    text, words = COSTS[name]
    (tmp_path / "x.ipynb").write_text(text)
    with open(tmp_path / "x.ipynb", "rb") as file, pytest.raises(reading.Unreadable, match=words):
        reading.read_notebook(file.fileno())


def test_what_is_no_file_is_not_read(tmp_path, assignment, hand_ins):
    """It may have come into the place of one after the look at the folder."""
    path, other = tmp_path / "x.ipynb", tmp_path / "other.ipynb"
    other.write_bytes(hand_ins["right"])
    path.symlink_to(other)
    with pytest.raises(OSError, match="symbolic link"):
        hand_ins_module._read(path, {})
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(OSError, match="it is no file"):
        hand_ins_module._read(path, {})


def test_a_file_that_goes_while_the_folder_is_looked_through_is_left_out(
    tmp_path, assignment, hand_ins, monkeypatch
):
    for student in ("ann", "bob"):
        write(tmp_path, f"{student}/x.ipynb", hand_ins["right"])
    monkeypatch.setattr(
        layouts.os, "walk", lambda folder, **_: [(str(folder), [], ["gone.ipynb", "x.ipynb"])]
    )
    got, students, remarks = found(tmp_path, assignment)
    assert [one[0] for one in got] == students == ["ann", "bob"]
    assert remarks == [
        f"{student}/gone.ipynb: cannot be read (No such file or directory), left out"
        for student in students
    ]


@pytest.mark.parametrize(
    "seconds",
    [10**12, 253_402_300_000, -(10**12)],
    ids=["year 33658", "the last hour there is", "before all years"],
)
def test_a_time_that_is_no_date_costs_one_file(
    tmp_path, assignment, hand_ins, monkeypatch, seconds
):
    for student in ("ann", "bob"):
        write(tmp_path, f"{student}/x.ipynb", hand_ins["right"])
    true = os.fstat  # not every file system takes such a time

    def odd(number):
        values = true(number)
        if os.path.samestat(values, os.stat(tmp_path / "ann" / "x.ipynb")):
            return os.stat_result((*values[:8], seconds, *values[9:10]))
        return values

    monkeypatch.setattr(hand_ins_module.os, "fstat", odd)
    got, students, remarks = found(tmp_path, assignment)
    assert [one[0] for one in got] == ["bob"] and students == ["ann", "bob"]
    (remark,) = remarks
    assert remark.startswith("ann/x.ipynb: its time is no date") and "times.csv" in remark
    write(tmp_path, "times.csv", "file,time\nann/x.ipynb,2027-01-31T12:00:00+01:00\n")
    assert [one[0] for one in found(tmp_path, assignment)[0]] == ["ann", "bob"]


def test_names_for_nbgrader_are_plain_and_different():
    names = safe_names(["Ann Lee", "Ann_Lee", "ann-lee", "Zoë", "../x", "?", "x" * 90])
    for safe in ("Ann_Lee", "ann-lee"):
        assert names[safe] == safe
    for other, pattern in (("Ann Lee", "Ann_Lee_[0-9a-f]{10}"), ("../x", "x_[0-9a-f]{10}")):
        assert re.fullmatch(pattern, names[other])
    assert len({name.lower() for name in names.values()}) == len(names)
    assert max(map(len, names.values())) < 100


def test_the_name_of_one_student_is_never_another_s_in_the_next_round():
    forged = safe_names(["Ann Lee"])["Ann Lee"]
    class_ = ["王", "Ann_Lee", "Ann Lee", "ann", forged, forged.upper()]
    alone = {safe_names([student])[student]: student for student in class_}
    assert len({name.lower() for name in alone}) == len(class_)
    after = safe_names([*class_, "李", "Ann.Lee", "Ann", "!"])
    for student, name in after.items():
        assert alone.get(name, student) == student
    assert after["王"] in alone and after["Ann Lee"] in alone, "nor does it change when others come"
