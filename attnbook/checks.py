"""The checks of the exercises: ``check`` prints the verdict on an answer, ``grade`` raises for a
wrong one.

>>> from attnbook.checks import check
>>> check("00.weighted_sum", weighted_sum)

They are defined in the package ``attnbook_exercises``; this is the door to it.
"""

from attnbook_exercises.checks import (
    Exercise,
    Mistake,
    NotPassed,
    Verdict,
    check,
    exercise,
    exercises,
    find,
    grade,
    judge,
)

__all__ = [
    "Exercise",
    "Mistake",
    "NotPassed",
    "Verdict",
    "check",
    "exercise",
    "exercises",
    "find",
    "grade",
    "judge",
]
