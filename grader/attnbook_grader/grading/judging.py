"""Judging one notebook: its cells run in a sandbox, its answers are judged outside of it."""

from __future__ import annotations

import hashlib
import re
import time
import traceback
from dataclasses import dataclass, replace

from attnbook_exercises.checks.verdict import Verdict

from ..course.assignments import UNANSWERED, Assignment
from ..course.exercises import grade_id
from ..notebooks import submissions
from ..notebooks.library import Code, library_names
from ..notebooks.reading import Unreadable
from ..notebooks.similarity import binding, nameless
from ..notebooks.submissions import definitions, parse_submission, restore
from ..sandbox.launch import Limits
from ..sandbox.session import SandboxEnded, Session, StartFailed
from . import outcomes as said
from .outcomes import Outcome, printable, refused, shortened

__all__ = ["Job", "Outcome", "judge_notebook"]


@dataclass(frozen=True)
class Job:
    """One notebook to judge, with all that a worker needs: it may be another machine.

    content: the bytes that were handed in
    tasks: ids of the exercises to judge
    seeds: by exercise id, the course's for the hidden check; without one it is left out. What is
    drawn also depends on `content`
    """

    content: bytes
    assignment: Assignment
    tasks: tuple[str, ...]
    seeds: dict[str, int]
    limits: Limits
    sandbox: str
    image: str | None = None


def judge_notebook(job: Job) -> list[Outcome]:
    """Judge the exercises `job.tasks` of one notebook.

    Whatever happens ends in outcomes with a reason, also a fault of the grader's own. Raises
    StartFailed when the sandbox itself does not start: then no notebook can be judged."""
    try:
        return _judge(job)
    except StartFailed:
        raise
    except Exception as error:
        note = f"this notebook could not be graded: the grader stopped with {type(error).__name__}"
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{place.filename.rpartition('/')[2]}, line {place.lineno}"
        failed = printable(f"{type(error).__name__}: {error} ({where})")
        return [Outcome(id, False, False, note, failed=failed) for id in job.tasks]


def _judge(job):
    wanted = [task for task in job.assignment.tasks if task.id in job.tasks]
    try:
        given = parse_submission(job.content)
        odd = {task.id: submissions.odd_cells(given, task) for task in wanted}
        nb, remarks = restore(given, job.assignment)
    except Unreadable as error:
        return refused(job.tasks, str(error))
    words = [
        _in_words(one, given, job.assignment) for one in job.assignment.words if one.id in job.tasks
    ]
    if not wanted:
        return words
    found, stopped, overall = {}, {}, ""
    by_check = {f"{task.key}-check": (task, 0) for task in wanted}
    by_check |= {
        f"{task.key}-hidden": (task, hand_in_seed(job.seeds[task.id], job.content))
        for task in wanted
        if task.id in job.seeds
    }
    by_answer = {task.key: task for task in job.assignment.tasks}
    with Session(job.sandbox, job.limits, job.image) as session:
        others = _OtherCells(session, job.limits.notebook / 3)
        for cell in nb.cells:
            name = grade_id(cell)
            try:
                if overall:
                    raise SandboxEnded(overall, overall=True)
                if name in by_check:
                    task, seed = by_check[name]
                    before = found.get(f"{task.key}-check")
                    found[name] = _verdict(session, task, seed, before, stopped.get(task.id))
                elif name in by_answer:
                    if error := session.run(cell.source):
                        stopped[by_answer[name].id] = f"your cell stopped with {error}"
                elif cell.cell_type == "code" and not name.endswith(("-check", "-hidden")):
                    others.run(cell.source)
            except SandboxEnded as ended:
                overall = str(ended) if ended.overall else ""
                if name in by_check:
                    found[name] = ended
                elif name in by_answer:
                    stopped[by_answer[name].id] = str(ended)
    code = Code([cell.source for cell in nb.cells if cell.cell_type == "code"])
    outcomes = [others.explain(_outcome(task, found, code, remarks, nb)) for task in wanted]
    return words + [
        _remarked(one, said)
        if (said := odd[one.exercise]) and not (one.visible and one.hidden)
        else one
        for one in outcomes
    ]


def _in_words(asked, nb, assignment):
    text = next((cell.source for cell in nb.cells if grade_id(cell) == asked.key), "").strip()
    remark = ""
    if text in ("", UNANSWERED):
        text = submissions.words_below(nb, asked, assignment)
        remark = said.BESIDE_FIELD if text else ""
    note = "" if text else said.NOT_ANSWERED
    same = " ".join(re.findall(r"\w+", text.casefold()))
    print = _print(same) if len(same.split()) >= _TELLING else ""
    return Outcome(asked.id, False, False, note, remark, print=print, code=shortened(text))


def _print(text):
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()[:16]


_TELLING = 8
"""An answer of so many words is not that of another by chance."""


def _remarked(outcome, note):
    return replace(outcome, remark=f"{outcome.remark}; {note}" if outcome.remark else note)


class _OtherCells:
    """The cells that are no answers. They must not use up the time of the answers: those of another
    version of a chapter train models.

    A cell that takes too long runs its definitions only, and so does every cell once all of them
    have taken `seconds`."""

    def __init__(self, session, seconds):
        self._session, self._left, self._cut = session, seconds, False

    def explain(self, outcome: Outcome) -> Outcome:
        """The outcome with a remark, where it may be wrong for want of what was not run."""
        if not self._cut or outcome.visible and outcome.hidden:
            return outcome
        return _remarked(outcome, said.CUT_SHORT)

    def run(self, code: str) -> None:
        """Run a cell. Raises SandboxEnded."""
        begin = time.monotonic()
        try:
            if self._left > 0:
                try:
                    self._session.run(code)
                    return
                except SandboxEnded as ended:
                    if not ended.late:
                        raise
                self._session.pardon()  # the time that is left bounds how often
            self._cut = True
            if kept := definitions(code):
                self._session.run(kept)
        finally:
            self._left -= time.monotonic() - begin


def hand_in_seed(seed: int, content: bytes) -> int:
    """The seed of a hidden check for this hand-in alone; never 0. The same file gets the same,
    whenever it is judged.

    An answer may put the inputs that it is given into its error message, and so onto the student's
    page. They are not those of the next hand-in, nor of a friend's."""
    told = hashlib.sha256(f"{seed}:{hashlib.sha256(content).hexdigest()}".encode()).digest()
    return 1 + int.from_bytes(told[:8], "little") % (2**62 - 1)


def _verdict(session, task, seed, before, stopped):
    if isinstance(before, SandboxEnded):  # the sandbox would only end again
        return before
    verdict = session.judge(task.id, task.function, seed)
    if stopped and verdict.message.startswith("there is no function"):
        return Verdict(task.id, verdict.status, stopped)
    return verdict


def _outcome(task, found, code, remarks, nb):
    visible, hidden = (found.get(f"{task.key}{part}") for part in ("-check", "-hidden"))
    passed = isinstance(visible, Verdict) and visible.passed
    # the hidden check draws few inputs: what fails with those of the notebook is not right
    passed_hidden = passed and isinstance(hidden, Verdict) and hidden.passed
    note = ""
    if not passed_hidden:
        failed, before = (hidden, "with other inputs: ") if passed else (visible, "")
        told = failed.message if isinstance(failed, Verdict) else failed or "it was not reached"
        note = before + printable(str(told))
    answer = next((cell.source for cell in nb.cells if grade_id(cell) == task.key), "")
    written = "not written" not in note
    attention = ""
    if any(isinstance(one, SandboxEnded) for one in (visible, hidden)):
        attention = said.STOPPED
    elif "ModuleNotFoundError" in note:
        attention = said.NO_PACKAGE
    own, uses, odd = cells_before_judging(nb, task), "", ""
    if written:
        uses, odd = code.answer(task.function, len(own), library_names(task.solution.source))
    if odd and passed and not attention:
        attention = printable(f"{said.OUT_OF_SIGHT}: {odd}")
    judged = binding(task.function, answer, own)
    return Outcome(
        task.id,
        passed,
        passed_hidden,
        "" if passed_hidden else remarks.get(task.id) or note,
        library=printable(uses),
        print=_print(nameless(judged)) if written else "",
        attention=attention,
        code="" if task.id in remarks else shortened(judged),
    )


def cells_before_judging(nb, task) -> list[str]:
    """The code cells of a restored notebook that run before an exercise is judged for the last
    time.
    """
    names = [grade_id(cell) for cell in nb.cells]
    last = names.index(f"{task.key}-hidden") if f"{task.key}-hidden" in names else None
    return [cell.source for cell in nb.cells[:last] if cell.cell_type == "code"]
