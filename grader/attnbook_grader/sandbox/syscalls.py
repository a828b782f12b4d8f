"""System calls that student code may not make: those for memory that no limit of the sandbox
counts, and those for the kernel's keyrings, which all sandboxes of a user share.

Shared memory belongs to no process: it is not part of a process's data, it can outlive the process
that asked for it, and it does not lie in a folder with a quota. Files in the sandbox's folders can
still be shared: they have a quota.

libseccomp builds the filter and bubblewrap loads it. libseccomp knows the numbers of the calls on
every architecture, and its filter kills a process that uses the numbers of another one (32-bit
calls, x32). A filter assembled by hand covers only the architectures whose numbers it lists.
"""

from __future__ import annotations

import errno
from typing import IO

__all__ = ["write_filter"]

_REFUSED = (
    *("memfd_create", "memfd_secret", "shmget", "semget", "msgget", "io_uring_setup"),
    *("add_key", "request_key", "keyctl"),
)
# linux/mman.h: MAP_ANONYMOUS with MAP_SHARED or MAP_SHARED_VALIDATE, among the bits that say so
_SHARED_ANONYMOUS, _MASK = (0x21, 0x23), 0x2F


def write_filter(file: IO[bytes]) -> None:
    """Write the filter for this machine to an open file, as ``bwrap --seccomp`` reads it.

    Raises:
        RuntimeError: when the system has no libseccomp.
    """
    import pyseccomp as seccomp  # late: libseccomp is a library of Linux

    refuse = seccomp.ERRNO(errno.EPERM)
    rules = seccomp.SyscallFilter(seccomp.ALLOW)
    rules.set_attr(seccomp.Attr.ACT_BADARCH, seccomp.KILL_PROCESS)
    for name in _REFUSED:
        rules.add_rule(refuse, name)
    for flags in _SHARED_ANONYMOUS:  # the fourth argument of mmap
        rules.add_rule(refuse, "mmap", seccomp.Arg(3, seccomp.MASKED_EQ, _MASK, flags))
    rules.export_bpf(file)
