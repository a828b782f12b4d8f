"""What a check says: right, not written yet, or the first mistake in plain words."""

from dataclasses import dataclass

RIGHT, NOT_WRITTEN, MISTAKE, STOPPED = "right", "not written yet", "mistake", "stopped"
_MARKS = {RIGHT: "✓", NOT_WRITTEN: "○", MISTAKE: "✗", STOPPED: "✗"}


class Mistake(Exception):
    """Raised inside a check with the sentence that the reader gets to see."""


@dataclass(frozen=True)
class Verdict:
    """The result of one check.

    exercise: its id, as "00.weighted_sum"
    status:   "right", "not written yet", "mistake" or "stopped" (the reader's code raised an error)
    message:  one sentence: what is wrong, and where

    The same answer and the same seed give the same text, so that notebooks can be compared word by
    word."""

    exercise: str
    status: str
    message: str

    @property
    def passed(self):
        """True if the answer is right."""
        return self.status == RIGHT

    def __bool__(self):
        return self.passed

    def __str__(self):
        return f"{_MARKS[self.status]} {self.exercise}: {self.message}"

    def _ipython_display_(self):
        # `check` has printed the line already; a cell that ends in a check would show it a second
        # time.
        pass


class NotPassed(AssertionError):
    """Raised by `grade`: the graded cell stops, and nbgrader takes its points away.

    `verdict` says why.
    """

    def __init__(self, verdict):
        super().__init__(str(verdict))
        self.verdict = verdict

    def _render_traceback_(self):
        # IPython asks for this: the feedback page shows the sentence, not the checker's own stack.
        return [str(self)]
