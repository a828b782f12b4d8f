import os
import threading

import pytest
from patience import HANGS

from attnbook.answers.guarded import guarded
from attnbook.checks.verdict import Mistake
from attnbook_grader.protocol.channel import Channel, Ended
from attnbook_grader.protocol.rpc import Peer


class Pair:
    """Both ends of the protocol in one process: what a student's function does, it does behind
    pipes.
    """

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
