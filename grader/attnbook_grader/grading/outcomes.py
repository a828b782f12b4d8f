"""What judging finds about an exercise of a notebook."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

__all__ = [
    "NOT_ANSWERED",
    "NO_PACKAGE",
    "OUT_OF_SIGHT",
    "STOPPED",
    "UNREADABLE",
    "Outcome",
    "printable",
    "refused",
    "shortened",
]

NOT_ANSWERED = "not answered"
LONGEST_SHOWN = 20_000
UNREADABLE = "could not be read"
STOPPED = "was stopped by a limit, or ended its process"
NO_PACKAGE = "asks for a package that is not there"
OUT_OF_SIGHT = "leaves its process or stops the tracing, so that what it calls cannot be seen"


@dataclass(frozen=True)
class Outcome:
    """What was found about one exercise of one notebook.

    visible, hidden: whether the two checks passed
    note: "" or the first mistake, in words for the student
    remark: what else the student and the instructor should know
    library: the function of the book's own that the answer enters when it is judged, or ""
    print: of the answer without names, comments and layout, to find equal ones; "" for an answer
    that is not written
    code: the answer as it stands in the notebook, or its text
    attention: "" or what the instructor should look at: one of the constants of this module
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
    text = re.sub(
        r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]",
        "",
        str(text),
    )
    return text if len(text) <= 600 else text[:597] + "..."
