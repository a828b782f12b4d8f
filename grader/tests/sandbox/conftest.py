import os
import threading
import time
from pathlib import Path

import pytest
from patience import HANGS, eventually

import attnbook
import attnbook_exercises
import attnbook_grader
from attnbook_exercises.answers.guarded import guarded
from attnbook_exercises.checks.verdict import Mistake
from attnbook_grader.protocol.channel import Channel, Ended
from attnbook_grader.protocol.rpc import ConnectionLost, Peer
from attnbook_grader.sandbox.launch import Limits, start
from attnbook_grader.sandbox.session import ATTEMPTS

LIBRARY = Path(attnbook.__file__).resolve().parent
EXERCISES = Path(attnbook_exercises.__file__).resolve().parent
GRADER = Path(attnbook_grader.__file__).resolve().parent
LIMITS = Limits(seconds=10, memory=1024, processes=8, output=2, disk=8)


def until(seconds):
    """What a channel or a limit asks for the seconds that are left."""
    end = time.monotonic() + seconds
    return lambda: end - time.monotonic()


class Pair:
    """Both ends of the protocol in one process: a student's function does it behind pipes."""

    def __init__(self):
        one, other = os.pipe(), os.pipe()
        self.inside = Peer(
            Channel(other[0], one[1]),
            lambda function, given, named, seed: guarded(function, given, named, seed=seed),
            watch=True,
        )
        self.host = Peer(
            Channel(one[0], other[1]),
            lambda function, given, named, seed: function(*given, **named),
            passing=(Mistake,),
        )
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def _serve(self):
        try:
            self.inside.serve_for_ever()
        except Ended:
            pass

    def remote(self, function):
        """The function as the grader sees it."""
        code = getattr(function, "__code__", None)
        names = list(code.co_varnames[: code.co_argcount]) if code else []
        return self.host._stand_in(self.inside._hand_over(function), names)

    def forget(self):
        self.host.forget()
        self.inside.forget()

    def close(self):
        self.host.channel.close()
        self.thread.join(HANGS)
        self.inside.channel.close()


@pytest.fixture(scope="module")
def pair():
    made = Pair()
    yield made
    made.close()


class Inside:
    """A sandbox to try things in."""

    def __init__(self, kind="bubblewrap", limits=LIMITS, image=None):
        self.seconds = HANGS
        for attempt in range(ATTEMPTS):
            self.started = start(kind, limits, image)
            channel = Channel(self.started.read, self.started.write)
            channel.left = until(HANGS)
            self.peer = Peer(channel, lambda function, args, named, seed: function(*args, **named))
            try:
                self.peer.request({"do": "hello"})
                return
            except ConnectionLost:  # a fork bomb of another test may just fill the machine
                self.__exit__()
                if attempt == ATTEMPTS - 1:
                    raise

    def run(self, code):
        """The error of a cell, or None."""
        self.peer.channel.left = until(self.seconds)
        return self.peer.request({"do": "cell", "source": code})

    def value(self, code):
        said = self.run(f"value = {code}")
        assert said is None, said
        return self.peer.request({"do": "take", "name": "value"})

    def why(self):
        eventually(lambda: self.started.why)
        return self.started.why

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.peer.channel.close()
        self.started.close()


@pytest.fixture(scope="session")
def inside(bubblewrap):
    with Inside() as made:
        assert made.run("import os, sys, attnbook") is None
        yield made
