"""System calls that student code may not make: those for memory that no limit of the sandbox
counts, those for the kernel's keyrings, which all sandboxes of a user share, and what a container
engine's default profile refuses as well (moby/profiles, seccomp/default.json).

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

__all__ = ["number", "write_filter"]

_REFUSED = """
memfd_create memfd_secret shmget semget msgget io_uring_setup io_uring_enter io_uring_register
add_key request_key keyctl
ptrace process_vm_readv process_vm_writev process_madvise kcmp pidfd_getfd
get_mempolicy set_mempolicy set_mempolicy_home_node mbind migrate_pages move_pages
unshare setns chroot pivot_root mount umount2 mount_setattr move_mount open_tree open_by_handle_at
fsopen fsconfig fsmount fspick fanotify_init quotactl quotactl_fd swapon swapoff
init_module finit_module delete_module create_module query_module get_kernel_syms
kexec_load kexec_file_load reboot bpf perf_event_open userfaultfd lookup_dcookie personality
acct clock_settime settimeofday sethostname setdomainname syslog vhangup iopl ioperm
_sysctl nfsservctl sysfs uselib ustat afs_syscall getpmsg putpmsg security tuxcall vserver
""".split()
# lsm_*, and calls that kernels have got since. Their numbers are the same on every architecture.
_NEW = (*range(459, 462), *range(467, 512))
_NAMESPACES = [1 << bit for bit in (7, 17, 25, 26, 27, 28, 29, 30)]  # linux/sched.h: CLONE_NEW…
_SOCKETS = (38, 40)  # the kernel's ciphers, and AF_VSOCK: the host of a virtual machine
# linux/mman.h: MAP_ANONYMOUS with MAP_SHARED or MAP_SHARED_VALIDATE, among the bits that say so
_SHARED_ANONYMOUS, _MASK = (0x21, 0x23), 0x2F


def number(name: str) -> int:
    """The number of a system call on this machine."""
    import pyseccomp as seccomp  # late: libseccomp is a library of Linux

    return seccomp.resolve_syscall(seccomp.system_arch(), name)


def write_filter(file: IO[bytes], arch: int | None = None) -> None:
    """Write the filter to an open file, as ``bwrap --seccomp`` reads it.

    arch: of pyseccomp's architectures; default: that of this machine.

    Raises RuntimeError when the system has no libseccomp.
    """
    import pyseccomp as seccomp

    refuse = seccomp.ERRNO(errno.EPERM)
    rules = seccomp.SyscallFilter(seccomp.ALLOW)
    if arch is not None and arch != seccomp.system_arch():
        rules.add_arch(arch)
        rules.remove_arch(seccomp.system_arch())
    rules.set_attr(seccomp.Attr.ACT_BADARCH, seccomp.KILL_PROCESS)
    for name in (*_REFUSED, *_NEW):
        rules.add_rule(refuse, name)
    for flag in _NAMESPACES:
        rules.add_rule(refuse, "clone", seccomp.Arg(0, seccomp.MASKED_EQ, flag, flag))
    # its flags lie in memory, where no filter sees them; without it the C library takes clone
    rules.add_rule(seccomp.ERRNO(errno.ENOSYS), "clone3")
    for family in _SOCKETS:
        rules.add_rule(refuse, "socket", seccomp.Arg(0, seccomp.EQ, family))
    for flags in _SHARED_ANONYMOUS:  # the fourth argument of mmap
        rules.add_rule(refuse, "mmap", seccomp.Arg(3, seccomp.MASKED_EQ, _MASK, flags))
    rules.export_bpf(file)
