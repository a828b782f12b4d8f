"""Where a student's code runs: in bubblewrap, in a container, or, if the instructor trusts it, just
beside us.

Inside there is no network, no file of the grader's or of another student, no check and no seed:
Python, PyTorch, the library without its checks and of the grader only
`attnbook_grader.protocol`, all read-only, and an empty folder that may be filled up to a quota."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import uuid
from ctypes.util import find_library

import psutil

from .bubblewrap import NOBODY, bubblewrap_command
from .container import container_command
from .limits import Limits, NoSandbox
from .process import SandboxProcess
from .visible import INSIDE, ROOTS, variables

__all__ = ["KINDS", "Limits", "NoSandbox", "SandboxProcess", "choose", "require_unix", "start"]

KINDS = ("bubblewrap", "docker", "podman", "none")
_INSTEAD = "With a container engine: --sandbox docker --image NAME. If you trust everybody: --trust"


def require_unix() -> None:
    """Raise NoSandbox on Windows: the limits on what is judged, and the pipes to it, are those
    of Unix.
    """
    if os.name != "posix":
        raise NoSandbox(
            "attnbook course judges notebooks on Linux and macOS; on Windows run it in WSL "
            "(wsl --install). attnbook check and the check cells of a notebook work here as well"
        )


def choose(kind: str | None = None, trust: bool = False) -> str:
    """The kind of sandbox to use: the one asked for, else bubblewrap. Raises NoSandbox when it is
    not there.

    kind: one of KINDS; "none" needs `trust`
    trust: without any sandbox, run students' code with our own rights
    """
    require_unix()
    if kind is not None and kind not in KINDS:
        raise ValueError(f"sandbox: got {kind!r}, expected one of {', '.join(KINDS)}")
    if kind == "none" or (kind is None and trust):
        if not trust:
            raise NoSandbox(
                "sandbox: 'none' runs students' code with your rights; add --trust if you trust "
                "every one of them"
            )
        return "none"
    if kind in ("docker", "podman"):
        if not _succeeds([kind, "info"]):
            raise NoSandbox(f"sandbox: {kind} does not answer; is it installed and running?")
        return kind
    if shutil.which("bwrap") is None:
        raise NoSandbox(
            f"sandbox: bubblewrap is not installed, and students' code does not run without a "
            f"sandbox. On Debian and Ubuntu: sudo apt install bubblewrap. {_INSTEAD}"
        )
    if find_library("seccomp") is None:
        raise NoSandbox(
            "sandbox: libseccomp is not installed, which builds the filter of system calls. On "
            "Debian and Ubuntu: sudo apt install libseccomp2"
        )
    command, passed, told = bubblewrap_command(Limits(), ["/usr/bin/env", "true"])
    works = _succeeds(command, passed)
    for one in (*passed, told):
        os.close(one)
    if not works:
        raise NoSandbox(
            f"sandbox: bubblewrap is installed but may not make namespaces here (in a container "
            f"it needs --privileged, or --security-opt seccomp=unconfined; on Ubuntu the AppArmor "
            f"profile that tools/install_system.sh writes). {_INSTEAD}"
        )
    return "bubblewrap"


def start(kind: str, limits: Limits, image: str | None = None) -> SandboxProcess:
    """Start the process of `attnbook_grader.protocol.child` in a sandbox of this kind.

    image: of a container, with Python, PyTorch and what attnbook needs
    """
    processes = None  # root has no such limit
    if kind != "none" or os.geteuid() != 0:
        processes = _tasks(kind) + limits.processes + 64 + 32 * (os.cpu_count() or 1)
    memory, file = limits.memory * 2**20, limits.disk * 2**20
    inside = json.dumps({"memory": memory, "file": file, "processes": processes})
    name = f"attnbook-{uuid.uuid4().hex[:12]}"
    if kind == "bubblewrap":
        command, passed, told = bubblewrap_command(limits, [sys.executable, *INSIDE, inside])
        return SandboxProcess(command, limits, {}, passed=passed, told=told)
    if kind in ("docker", "podman"):
        if not image:
            raise ValueError(
                "image: a container needs the name of an image with Python, PyTorch and "
                "attnbook's requirements"
            )
        command = container_command(kind, image, name, limits, inside)
        return SandboxProcess(command, limits, dict(os.environ), end=[kind, "kill", name])
    own = {name: value for name, value in os.environ.items() if not name.startswith("ATTNBOOK_")}
    own |= variables(ROOTS, os.environ.get("HOME", "/"))
    return SandboxProcess([sys.executable, *INSIDE, inside], limits, own)


def _succeeds(command, passed=()):
    try:
        done = subprocess.run(command, capture_output=True, timeout=60, pass_fds=passed)
        return done.returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def _tasks(kind):
    """Processes and threads that the user of the sandbox runs now: older kernels count them all
    against the limit.
    """
    me = NOBODY if kind == "bubblewrap" and os.geteuid() == 0 else os.getuid()
    found = (process.info for process in psutil.process_iter(["uids", "num_threads"]))
    return sum(one["num_threads"] or 1 for one in found if one["uids"] and one["uids"].real == me)
