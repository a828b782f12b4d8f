"""The grader's end of a sandbox: runs a notebook's cells in it, takes functions out, and judges
them here.
"""

from __future__ import annotations

import contextlib
import time

from attnbook_exercises.checks import judge
from attnbook_exercises.checks.verdict import MISTAKE, STOPPED, Mistake, Verdict

from ..protocol.channel import Channel
from ..protocol.rpc import ConnectionLost, Peer, RemoteFunction
from . import resource_limits
from .launch import Limits, NoSandbox, SandboxProcess, start
from .limits import PATIENCE

__all__ = ["Session", "SandboxEnded", "StartFailed"]

_RESTARTS, ATTEMPTS = 6, 3


class StartFailed(NoSandbox):
    """Python did not start in the sandbox: a fault of the installation, never a student's."""


class SandboxEnded(Exception):
    """The sandbox is gone; the message says why, in words for the student.

    overall: nothing more can be done for the notebook
    late: one cell or one check took too long
    gone: the process ended, and no limit of the grader's was the reason
    """

    def __init__(self, message, overall=False, late=False, gone=False):
        super().__init__(message)
        self.overall, self.late, self.gone = overall, late, gone


class _Late(ConnectionLost):
    """The grader itself is at work for longer than the limit."""

    def __init__(self):
        super().__init__("time", "the grader did not come to an end in time")


class Session:
    """One notebook's sandbox. When its code ends it, the next use starts another and runs the
    earlier cells again.

    The limits of time and memory hold for what the grader computes for it, too.

    Use it as a context; leaving it ends every process.
    """

    def __init__(self, kind: str, limits: Limits, image: str | None = None):
        self._kind, self._limits, self._image = kind, limits, image
        self._started: SandboxProcess | None = None
        self._peer: Peer | None = None
        self._cells, self._starts, self._judged = [], 0, False
        self._patience = PATIENCE if kind == "bubblewrap" else 1  # nobody counts it in others
        self._ended = 0.0  # time on processors of the sandboxes before
        self._begun = self._now()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self._close()

    def run(self, code: str) -> str | None:
        """Run a cell; returns the error that it stopped with, in words, or None.

        Raises SandboxEnded; then the cell is never run again.
        """
        error = self._ask({"do": "cell", "source": code}, "the cell")
        if error is not None:
            self._end_if_over()
        self._cells.append(code)
        return error if isinstance(error, str) else None

    def pardon(self) -> None:
        """Do not count the last end of the sandbox towards giving the notebook up."""
        self._starts -= 1

    def judge(self, id: str, name: str, seed: int) -> Verdict:
        """The verdict on the function of this name; SandboxEnded when judging it ended that."""
        answer = self._ask({"do": "take", "name": name}, "the cell")
        if not isinstance(answer, RemoteFunction):
            if isinstance(answer, str) and answer == "missing":
                said = f"there is no function {name}: has its cell an error, or was it renamed?"
                return Verdict(id, STOPPED, said)
            what = "None" if answer is None else type(answer).__name__
            return Verdict(id, MISTAKE, f"{name} is {what}, expected your function")
        self._judged = True
        try:
            with self._bounded():
                verdict = judge(id, answer, seed)
            if verdict.status == STOPPED:
                self._end_if_over()
            self._ask({"do": "forget"}, "your function")
            self._connection.forget()
            return verdict
        except ConnectionLost as broken:
            raise self._lost(broken, "your function") from None
        except SandboxEnded:
            raise
        except Exception as error:  # no value that comes back may stop the round
            if resource_limits.out_of_memory(error):
                self._close()  # it may wait for an answer
                raise SandboxEnded(self._too_much()) from None
            return Verdict(
                id,
                STOPPED,
                f"the check could not read what your function returned ({type(error).__name__})",
            )

    @property
    def _process(self) -> SandboxProcess:
        assert self._started is not None
        return self._started

    @property
    def _connection(self) -> Peer:
        assert self._peer is not None
        return self._peer

    def _end_if_over(self):
        """An error may come from a limit that the watch has not seen yet."""
        if why := self._process.look():
            self._close()
            raise SandboxEnded(why)

    def _ask(self, head, what):
        self._ready()
        judged = self._judged
        try:
            return self._request(head, what)
        except SandboxEnded as ended:
            if not (judged and ended.gone):
                raise
        self._ready()  # the function judged before may have ended the process a moment late
        return self._request(head, what)

    def _request(self, head, what):
        try:
            with self._bounded():
                return self._connection.request(head)
        except ConnectionLost as broken:
            raise self._lost(broken, what) from None
        except SandboxEnded:
            raise
        except Exception as error:  # the cell has left something that cannot be handed over
            raise self._lost(ConnectionLost("garbled", str(error)), what) from None

    def _ready(self):
        if self._peer is not None:
            return
        if self._starts > _RESTARTS:
            said = f"the notebook ended its sandbox {self._starts} times and was given up"
            raise SandboxEnded(said, overall=True)
        self._starts += 1
        for attempt in range(ATTEMPTS):
            try:
                self._start()
                break
            except StartFailed:
                if attempt == ATTEMPTS - 1:
                    raise
                time.sleep(1 + attempt)  # another notebook may just have used up the machine
        for code in self._cells:
            self._request({"do": "cell", "source": code}, "an earlier cell, run again,")

    def _start(self):
        self._started = start(self._kind, self._limits, self._image)
        channel = Channel(self._started.read, self._started.write)
        self._peer = Peer(channel, self._call, passing=(Mistake,))
        try:
            end = time.monotonic() + self._limits.startup
            channel.left = lambda: end - time.monotonic()
            self._peer.request({"do": "hello"})
        except ConnectionLost as broken:
            lines = self._started.stderr_tail.decode(errors="replace").strip().splitlines()
            line = [str(broken), *lines][-1][:300]
            self._close()
            raise StartFailed(f"sandbox: Python did not start in it ({line})") from None

    def _call(self, function, given, named, seed):
        """Call a function of the check's for the student."""
        try:
            with resource_limits.SmallResults():
                return function(*given, **named)
        except (MemoryError, RuntimeError) as error:
            if not resource_limits.out_of_memory(error):
                raise
        raise Mistake(self._too_much())

    def _too_much(self):
        return (
            f"your function asks the grader for more than {self._limits.memory} MB of memory, "
            f"by what it returns or what it calls"
        )

    @contextlib.contextmanager
    def _bounded(self):
        """The limits of time, for the answers and for the grader's own work, and of memory."""
        if self._left(self._begun, self._limits.notebook) <= 0:
            self._close()
            raise self._over()
        begun = self._now()

        def left():
            own = self._left(begun, self._limits.seconds)
            return min(own, self._left(self._begun, self._limits.notebook))

        self._connection.channel.left = left
        with (
            resource_limits.time_limit(lambda: left() + 0.1, _Late),
            resource_limits.memory_limit(self._limits.memory),
        ):
            yield

    def _now(self):
        """(Time on processors, of the sandbox and of this process; what the clock says of it)."""
        running = self._started
        inside = running.processor_seconds() if running else 0
        return self._ended + inside + time.process_time(), time.monotonic() / self._patience

    def _left(self, begun, seconds):
        """What is left of so many seconds, since a moment of `_now`."""
        return seconds - max(now - then for now, then in zip(self._now(), begun))

    def _over(self):
        most = f"{self._limits.notebook:g} s in all"
        return SandboxEnded(f"the notebook ran longer than {most} and was stopped", overall=True)

    def _lost(self, broken, what):
        """Why the sandbox is gone, in words; it is closed."""
        if broken.kind in ("ended", "garbled"):
            self._process.look()  # perhaps a hundred processes share the pipe, and broke it
        why, late = self._process.why, self._left(self._begun, self._limits.notebook) <= 0
        self._close()
        if why:
            return SandboxEnded(why)
        if broken.kind == "memory":
            return SandboxEnded(self._too_much())
        if broken.kind == "time" and late:
            return self._over()
        if broken.kind == "time":
            most = f"{self._limits.seconds:g} s"
            said = f"{what} ran longer than {most} and was stopped: an endless loop?"
            return SandboxEnded(said, late=True)
        if broken.kind == "ended":
            said = f"{what} ended the Python process (exit, a crash, or too much memory)"
            return SandboxEnded(said, gone=True)
        return SandboxEnded(f"{what} disturbed the connection to the grader ({str(broken)[:120]})")

    def _close(self):
        if self._peer is not None:
            self._peer.channel.close()
        if self._started is not None:
            self._ended += self._started.processor_seconds()
            self._started.close()
        self._peer = self._started = None
        self._judged = False
