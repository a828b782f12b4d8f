"""The command line of bubblewrap, and what is passed to it."""

from __future__ import annotations

import os
import sys

from . import syscalls, visible
from .limits import Limits

__all__ = ["NOBODY", "bubblewrap_command"]

NOBODY = 65534
_OWN_USERS = ("--unshare-user", "--disable-userns", "--die-with-parent")
# In front of bubblewrap: a process keeps its session keyring, whatever namespaces it enters.
_KEYRING = """import ctypes, os, sys
ctypes.CDLL(None).syscall({keyctl}, 1, 0)  # KEYCTL_JOIN_SESSION_KEYRING, one without a name
os.execvp(sys.argv[1], sys.argv[1:])"""


def bubblewrap_command(
    limits: Limits, program: list[str]
) -> tuple[list[str], tuple[int, ...], int]:
    """The command line: a session keyring and namespaces of its own, an empty root, only what
    Python needs, read-only, and the filter of system calls.

    Returns (command, file descriptors to pass to it and to close, one that says in JSON which
    process is the sandbox's first).

    For root the mounts are made with root's rights, and the code runs as nobody: a process of
    root's may write to /proc/sys even from inside a user namespace, and from there reach the whole
    machine. The filter is loaded last: it refuses what bubblewrap itself needs."""
    told, info = os.pipe()
    read, write = os.pipe()
    with open(write, "wb") as file:
        syscalls.write_filter(file)  # shorter than what a pipe holds
    filter_ = ("--seccomp", str(read))
    command = ["bwrap", "--info-fd", str(info), "--die-with-parent", "--new-session"]
    command += ["--hostname", "sandbox", "--clearenv"]
    if os.geteuid() == 0:
        for kind in ("ipc", "pid", "net", "uts", "cgroup-try"):
            command.append(f"--unshare-{kind}")
        command += ["--cap-drop", "ALL"]
        for right in ("CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP"):
            command += ["--cap-add", right]
        nobody = ["setpriv", "--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups"]
        nobody += ["--no-new-privs", "--bounding-set=-all", "--inh-caps=-all"]
        inner = ["bwrap", *_OWN_USERS, *filter_, "--dev-bind", "/", "/"]
        program = [*nobody, *inner, "--", *program]
    else:
        command += ["--unshare-all", *_OWN_USERS, *filter_, "--cap-drop", "ALL"]
    for name, value in visible.variables(visible.ROOTS, visible.HOME).items():
        command += ["--setenv", name, value]
    command += [*_files(limits), "--chdir", visible.HOME, "--", *program]
    own_keyring = _KEYRING.format(keyctl=syscalls.number("keyctl"))
    return [sys.executable, "-I", "-S", "-c", own_keyring, *command], (info, read), told


def _files(limits):
    # a mapping of zero is memory, see syscalls
    command = ["--proc", "/proc", "--dev", "/dev", "--dev-bind", "/dev/null", "/dev/zero"]
    for folder in visible.FOLDERS:
        command += ["--perms", "1777", "--size", str(limits.disk * 2**20), "--tmpfs", folder]
    # what follows may lie in one of these folders
    command += ["--ro-bind", str(visible.SYSTEM), str(visible.SYSTEM)]
    for folder in ("/bin", "/sbin", "/lib", "/lib32", "/lib64"):
        is_link = os.path.islink(folder)
        command += ["--symlink", os.readlink(folder)] if is_link else ["--ro-bind-try", folder]
        command.append(folder)
    command += ["--perms", "0755", "--dir", "/etc"]
    for file in ("/etc/ld.so.cache", "/etc/alternatives", "/etc/fonts", "/etc/localtime"):
        command += ["--ro-bind-try", file, file]
    for folder in [*visible.python_folders(), *visible.PACKAGES]:
        for above in [*folder.parents][-2::-1]:  # else they are made for their owner alone
            command += ["--perms", "0755", "--dir", str(above)]
        command += ["--ro-bind", str(folder), str(folder)]
    for package in visible.copies():
        for path in visible.hidden(package):
            command += ["--ro-bind", str(visible.stand_in(path)), str(path)]
    return [*command, "--remount-ro", "/dev", "--remount-ro", "/"]
