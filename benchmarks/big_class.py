"""A class of five hundred, one in ten hostile: is every mark as expected, is none lost when the
grader is killed, how long does it take?

Hand-ins are made from the solutions and the known wrong answers of five exercises. What each must
get is found in this process, with `judge` and the function itself. The grader is killed at random
moments and started again, and must end with the same marks. Files outside (the checkout, /etc, the
hand-ins) are hashed before and after."""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
import os
import platform
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from attnbook.checks import judge
from attnbook_grader.course.assignments import notebook_with
from attnbook_grader.course.course_file import read_course
from attnbook_grader.course.exercises import find_book, solution_of
from attnbook_grader.course.known_wrong_answers import wrong_answers

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests" / "helpers"))

from made_up_class import hostile_answers, synthetic_class  # noqa: E402

EXERCISES = {
    "00.temperature": (2, 2),
    "01.last_states": (2, 2),
    "03.reduced_rank": (2, 2),
    "06.empty_rows": (3, 3),
    "08.reach": (1, 1),
}
UNREADABLE = ("not JSON", "truncated", "another format", "empty file", "deep")


def course_file(folder: Path) -> None:
    """A course with one assignment of five exercises."""
    lines = [
        "title = 'A class of five hundred'",
        "seed = 271828182845",
        "[limits]",
        "seconds = 5",
        "[[assignment]]",
        "name = 'five'",
        "[assignment.points]",
    ]
    lines += [f'"{id}" = [{visible}, {hidden}]' for id, (visible, hidden) in EXERCISES.items()]
    (folder / "course.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")


def make_class(course, students: int, hostile: float, rng: random.Random):
    """{student: (bytes of the notebook, {exercise: points it must get}, what it is)}."""
    (assignment,) = course.assignments
    tasks = {task.id: task for task in assignment.tasks}
    wrong, first = wrong_answers(find_book(), list(assignment.tasks)), assignment.tasks[0]
    right = {id: solution_of(task) for id, task in tasks.items()}
    attacks, odd = hostile_answers(first, right[first.id]), synthetic_class(assignment)
    kinds = [*(("attack", name) for name in attacks), *(("file", name) for name in UNREADABLE)]
    known: dict[tuple[str, str], float] = {}

    def worth(id, code):
        if (id, code) not in known:
            scope: dict = {}
            exec(compile(code, "<answer>", "exec"), scope)
            seeds = 0, course.hidden_seed(id)
            known[id, code] = sum(
                p
                for p, seed in zip(assignment.points[id], seeds)
                if judge(id, scope[tasks[id].function], seed)
            )
        return known[id, code]

    made = {}
    for number in range(students):
        answers = {
            id: right[id] if rng.random() < 0.6 else rng.choice(wrong[id]).code for id in tasks
        }
        marks, what = {id: worth(id, code) for id, code in answers.items()}, "honest"
        if number < hostile * students:
            kind, name = kinds[number % len(kinds)]
            what = name
            if kind == "file":
                marks = dict.fromkeys(tasks, 0.0)
                made[f"student {number:03d}"] = (
                    odd[name].content + b" " * number * bool(odd[name].content),
                    marks,
                    what,
                )
                continue
            code, words = attacks[name]
            answers[first.id] = code
            marks[first.id] = sum(assignment.points[first.id]) if words is None else 0.0
        nb = json.loads(notebook_with(assignment, answers))
        nb["metadata"]["student"] = number
        made[f"student {number:03d}"] = json.dumps(nb).encode(), marks, what
    return made


def hashes(folders) -> dict[str, str]:
    """SHA-256 of every file below these folders that may be read."""
    found = {}
    for folder in folders:
        for path in sorted(Path(folder).rglob("*")):
            if (
                path.is_file()
                and not path.is_symlink()
                and "__pycache__" not in path.parts
                and ".git" not in path.parts
            ):
                try:
                    found[str(path)] = hashlib.sha256(path.read_bytes()).hexdigest()
                except OSError:
                    continue
    return found


def marks_in(out: Path) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    with (out / "marks.csv").open(newline="", encoding="utf-8-sig") as file:
        for row in csv.DictReader(file):
            found.setdefault(row["student"], {})[row["exercise"]] = float(row["points"])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--students", type=int, default=500)
    parser.add_argument("--hostile", type=float, default=0.1, help="share of the class")
    parser.add_argument("--kills", type=int, default=5, help="how often the grader is killed")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rng = random.Random(0)
    with tempfile.TemporaryDirectory(prefix="big-class-") as work:
        folder = Path(work)
        course_file(folder)
        made = make_class(read_course(folder), options.students, options.hostile, rng)
        for student, (content, _, _) in made.items():
            (folder / "submissions" / student).mkdir(parents=True)
            (folder / "submissions" / student / "five.ipynb").write_bytes(content)
        package = Path(__file__).resolve().parents[1]
        watched = [
            package / "attnbook",
            package / "grader",
            package / "chapters",
            package / "tests",
            "/etc",
            folder / "submissions",
        ]
        before, begin, killed = hashes(watched), time.perf_counter(), []
        command = [
            sys.executable,
            "-m",
            "attnbook",
            "course",
            "grade",
            str(folder),
            "--jobs",
            str(options.jobs),
        ]
        while True:
            grader = subprocess.Popen(
                command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, cwd=package
            )
            if len(killed) < options.kills:
                try:
                    grader.wait(20 + 80 * rng.random())
                except subprocess.TimeoutExpired:
                    grader.send_signal(signal.SIGKILL)
                    grader.communicate()
                    with sqlite3.connect(folder / "grades" / "journal.db") as base:
                        killed.append(
                            base.execute("select count(distinct sha) from outcome").fetchone()[0]
                        )
                    continue
            said = grader.communicate()[1].decode()
            break
        seconds = time.perf_counter() - begin
        if grader.returncode:
            sys.exit(said)
        got, expected = (
            marks_in(folder / "grades"),
            {student: marks for student, (_, marks, _) in made.items()},
        )
        wrong = {
            student: (made[student][2], got.get(student), marks)
            for student, marks in expected.items()
            if got.get(student) != marks
        }
        with sqlite3.connect(folder / "grades" / "journal.db") as base:
            outcomes, most = base.execute("select count(*), max(count) from outcome").fetchone()
        figures = {
            "students": options.students,
            "hostile": sum(what != "honest" for _, _, what in made.values()),
            "seconds": round(seconds, 1),
            "marks": sum(map(len, got.values())),
            "marks not as expected": sum(len(marks) for _, marks, _ in wrong.values()),
            "graded before each kill": killed,
            "outcomes": outcomes,
            "judged at most": most,
            "files hashed": len(before),
            "files changed": sum(
                before.get(path) != after for path, after in hashes(watched).items()
            ),
            "jobs": options.jobs,
            "cores": os.cpu_count(),
            "python": platform.python_version(),
        }
    print(json.dumps(figures, indent=1))
    for student, (what, had, due) in wrong.items():
        print(f"{student} ({what}): got {had}, expected {due}")
    if options.json:
        options.json.write_text(
            json.dumps(
                {
                    "name": "benchmark-class",
                    "command": "python benchmarks/big_class.py",
                    "figures": figures,
                },
                indent=1,
            )
            + "\n"
        )
    sys.exit(bool(wrong or figures["files changed"] or most > 1))


if __name__ == "__main__":
    main()
