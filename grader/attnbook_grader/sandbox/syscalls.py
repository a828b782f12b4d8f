"""Calls to the kernel that a student's code may not make: those for memory that no limit of the
sandbox counts.

Memory that processes share belongs to none of them: it is no part of a process's data, it can
outlive the process that asked for it, and it does not lie in a folder with a quota. bubblewrap
hands this filter to the kernel (seccomp), which refuses the calls with "operation not permitted".
Files in the sandbox's folders may be shared as before: they have a quota."""

from __future__ import annotations

import platform
import struct

__all__ = ["program"]

# The machine's number for the kernel (linux/audit.h), and the numbers of memfd_create, shmget,
# semget, msgget, memfd_secret, io_uring_setup.
_MACHINES = {
    "x86_64": (0xC000003E, (319, 29, 64, 68, 447, 425), 9),
    "aarch64": (0xC00000B7, (279, 194, 190, 186, 447, 425), 222),
}
_OTHER_NUMBERS = 0x40000000  # x86_64 has a second set of numbers for the same calls
_LOAD, _AND, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x54, 0x15, 0x35, 0x06  # linux/bpf_common.h
# where linux/seccomp.h has them; flags are the fourth argument of mmap
_NUMBER, _MACHINE, _FLAGS = 0, 4, 40
# MAP_ANONYMOUS with MAP_SHARED or MAP_SHARED_VALIDATE
_SHARED_NOWHERE, _OF_THESE = (0x21, 0x23), 0x2F
_ALLOW, _REFUSE, _KILL = 0x7FFF0000, 0x00050001, 0x80000000


def program(machine: str | None = None) -> bytes:
    """The filter for this machine, as ``bwrap --seccomp`` reads it; empty on one whose numbers
    are not known here.
    """
    if (machine or platform.machine()) not in _MACHINES:
        return b""
    own, refused, mmap = _MACHINES[machine or platform.machine()]
    steps = [
        (_LOAD, _MACHINE),
        (_EQUAL, own, "next", "kill"),
        (_LOAD, _NUMBER),
        (_AT_LEAST, _OTHER_NUMBERS, "kill", "next"),
    ]
    steps += [(_EQUAL, call, "refuse", "next") for call in refused]
    steps += [(_EQUAL, mmap, "next", "allow"), (_LOAD, _FLAGS), (_AND, _OF_THESE)]
    steps += [(_EQUAL, flags, "refuse", "next") for flags in _SHARED_NOWHERE]
    ends = {"allow": len(steps), "refuse": len(steps) + 1, "kill": len(steps) + 2}
    steps += [(_RETURN, _ALLOW), (_RETURN, _REFUSE), (_RETURN, _KILL)]
    code = b""
    for place, (what, value, *ways) in enumerate(steps):
        skip = [ends.get(way, place + 1) - place - 1 for way in ways] or [0, 0]
        code += struct.pack("=HBBI", what, *skip, value)
    return code
