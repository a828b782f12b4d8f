"""The checks of the exercises: one function per exercise, used by readers, tests and the grader.

>>> from attnbook.checks import check
>>> check("00.weighted_sum", weighted_sum)

A check draws its inputs from a seed, calls the answer, and compares the result with an oracle in
NumPy. Checks import no mechanism and no model of the library, so that an answer is never compared
with the code that the book prints.

A check is in the module of its section, `chCC_CHAPTER/SECTION.py`. All these modules are imported
here, which registers their exercises.
"""

import importlib
import pkgutil

from .registry import Exercise, check, exercise, exercises, find, grade, judge
from .verdict import Mistake, NotPassed, Verdict

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

for _module in pkgutil.walk_packages(__path__, f"{__name__}."):
    importlib.import_module(_module.name)
