"""The result of a check: right, not written yet, or the first mistake in plain words."""

from dataclasses import dataclass

RIGHT, NOT_WRITTEN, MISTAKE, STOPPED = "right", "not written yet", "mistake", "stopped"
_MARKS = {RIGHT: "✓", NOT_WRITTEN: "○", MISTAKE: "✗", STOPPED: "✗"}


class Mistake(Exception):
    """Raised inside a check with the sentence that the reader sees."""


@dataclass(frozen=True)
class Verdict:
    """The result of one check. The same answer and seed give the same text.

    Attributes:
        exercise: the id, as "00.weighted_sum".
        status: "right", "not written yet", "mistake" or "stopped" (the answer raised an error).
        message: one sentence: what is wrong, and where.
    """

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
        # `check` prints the line; a cell that ends in a check would show it a second time.
        pass


class NotPassed(AssertionError):
    """Raised by `grade`, so that the graded cell fails and nbgrader gives it no points.

    Attributes:
        verdict: the Verdict.
    """

    def __init__(self, verdict):
        super().__init__(str(verdict))
        self.verdict = verdict

    def _render_traceback_(self):
        # IPython calls this: the feedback page shows the sentence, not the stack of the check.
        return [str(self)]
