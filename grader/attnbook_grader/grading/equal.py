"""Which students' answers are equal, exercise by exercise.

The prints of answers are compared, see `similarity.nameless`: comments, layout and the student's
own names do not matter. It is a hint for the instructor, and costs nobody anything.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import combinations

from ..notebooks.hand_ins import HandIn

__all__ = ["Equal", "equal_answers"]

WRONG = 3  # What an equal wrong answer weighs; a right one weighs 1
REPORTED = 2  # The least weight that is reported
FEW = 3
"""So many students, or a twentieth of the class, may have an answer before it weighs less."""
FREQUENT = 10  # What more students have, and more than a quarter of the class, weighs nothing


@dataclass(frozen=True)
class Equal:
    """Students who gave the same answers.

    right, wrong, words: ids of the exercises in which they are equal; of answers in words nobody
    has said whether they are right
    weight: right ones together with WRONG times the wrong ones, each less the more students have it
    """

    students: tuple[str, ...]
    right: tuple[str, ...]
    wrong: tuple[str, ...]
    weight: float
    words: tuple[str, ...] = ()

    def __str__(self):
        equal = {"wrong in the same way": self.wrong, "the same words": self.words}
        equal["right"] = self.right
        parts = [f"{said}: {', '.join(ids)}" for said, ids in equal.items() if ids]
        return f"{', '.join(self.students)} ({'; '.join(parts)})"


def equal_answers(hand_ins: list[HandIn], outcomes, words=()) -> list[Equal]:
    """Groups of students with equal answers to exercises of an assignment, what weighs most first.

    What many students gave is no sign of anything: the same short right answer, or a frequent
    mistake. An assignment of one exercise needs only half the weight.

    Of groups within one another, the lighter one is left out where it joins no two students anew.

    outcomes: {sha: {exercise: outcome}}
    words: ids of the exercises that are answered in words
    """
    having, right, exercises = defaultdict(set), {}, set()
    for one in hand_ins:
        for id, outcome in outcomes.get(one.sha, {}).items():
            exercises.add(id)
            if outcome.print:
                having[id, outcome.print].add(one.student)
                right[id, outcome.print] = outcome.visible and outcome.hidden
    least, count = min(REPORTED, len(exercises)), len({one.student for one in hand_ins})
    few, frequent = max(FEW, count / 20), max(FREQUENT, count / 4)
    weights = {
        key: min(1, few / len(students)) * (1 if right[key] else WRONG)
        for key, students in having.items()
        if 1 < len(students) <= frequent
    }

    def mistaken(keys):
        return {key[0] for key in keys if not right[key] and key[0] not in words}

    shared = defaultdict(set)
    for key in weights:
        for pair in combinations(sorted(having[key]), 2):
            shared[pair].add(key)
    found = [
        Equal(
            tuple(sorted(set.intersection(*(having[key] for key in keys)))),
            # a hand-in of before may be equal, too: what is wrong in the same way says more
            tuple(sorted({key[0] for key in keys if right[key]} - mistaken(keys))),
            tuple(sorted(mistaken(keys))),
            sum(weights[key] for key in keys),
            tuple(sorted({key[0] for key in keys if key[0] in words})),
        )
        for keys in {frozenset(keys) for keys in shared.values()}
        if sum(weights[key] for key in keys) >= least
    ]
    kept, joined = [], set()
    for one in sorted(found, key=lambda one: (-one.weight, one.students)):
        pairs = {*combinations(one.students, 2)}
        if not pairs <= joined:
            kept.append(one)
            joined |= pairs
    return kept
