"""How tests start the processes of a distributed run, and servers of their own."""

import os
import socket
import subprocess
import sys

from patience import HANGS


def free_port() -> int:
    """A port of this computer that nobody listens at."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def launch(launcher: list[str], script: str, *arguments: str) -> None:
    """Run a script by `python -m LAUNCHER`, one thread a process, and wait for its end."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([os.getcwd(), *sys.path]),
        "OMP_NUM_THREADS": "1",
    }
    done = subprocess.run(
        [sys.executable, "-m", *launcher, script, *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=HANGS,
    )
    assert done.returncode == 0, done.stdout + done.stderr
