"""What judging finds about an exercise of a notebook."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

NOT_ANSWERED = "not answered"
BESIDE_FIELD = "the field for the answer is empty; these words stand in other cells of the notebook"
CUT_SHORT = (
    "cells beside your answers took too long: only their imports, functions and constants were used"
)
LONGEST_SHOWN = 20_000
_ODD = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
UNREADABLE = "could not be read"
STOPPED = "was stopped by a limit, or ended its process"
NO_PACKAGE = "asks for a package that is not there"
OUT_OF_SIGHT = "comes by its functions in a way that cannot be read off its code"


@dataclass(frozen=True)
class Outcome:
    """What was found about one exercise of one notebook.

    visible, hidden: whether the two checks passed
    note: "" or the first mistake, in words for the student
    remark: what else the student and the instructor should know
    library: what of the book's own the code of the answer uses, or ""
    print: of the answer without names, comments and layout, to find equal ones; "" for an answer
    that is not written
    code: the answer as it stands in the notebook, or its text
    attention: "" or what the instructor should look at: begins with a constant of this module
    failed: "" or the error that the grader itself stopped with, in words for the
    instructor; then it is judged again next time
    """

    exercise: str
    visible: bool
    hidden: bool
    note: str
    remark: str = ""
    library: str = ""
    print: str = ""
    attention: str = ""
    code: str = ""
    failed: str = ""

    @property
    def limited(self) -> bool:
        """Whether a limit of the course decided, so that others may decide otherwise."""
        return self.attention == STOPPED or CUT_SHORT in self.remark


def refused(tasks: Iterable[str], reason: str) -> list[Outcome]:
    """The outcomes of a file that is no notebook."""
    return [Outcome(id, False, False, printable(reason), attention=UNREADABLE) for id in tasks]


def shortened(text: str) -> str:
    """A text as long as a page can show."""
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}…"


def printable(text: str) -> str:
    """A message without what a terminal or a page could take for something else, and not longer
    than a paragraph.
    """
    text = _ODD.sub("", str(text))
    return text if len(text) <= 600 else text[:597] + "..."
