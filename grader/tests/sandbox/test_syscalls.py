"""System calls that the sandbox refuses."""

import ctypes
import errno
import os
import platform
import struct
import subprocess
import sys
import tempfile

import pytest

from attnbook_grader.protocol.rpc import ConnectionLost
from attnbook_grader.sandbox import syscalls
from attnbook_grader.sandbox.bubblewrap import bubblewrap_command

from .conftest import LIMITS, Inside

pytestmark = pytest.mark.usefixtures("bubblewrap")


UNCOUNTED = {
    "shared by nobody": "import mmap\nmmap.mmap(-1, 2**20)",
    "shared zeros": "import mmap\nfile = open('/dev/zero', 'r+b')\nmmap.mmap(file.fileno(), 2**20)",
    "a file in memory": "import os\nos.memfd_create('x')",
    "a segment": "import ctypes\nassert ctypes.CDLL(None).shmget(0, 2**20, 0o1600) >= 0, 'OSError'",
    "semaphores": "import ctypes\nassert ctypes.CDLL(None).semget(0, 32000, 0o1600) >= 0, "
    "'OSError'",
    "a queue": "import ctypes\nassert ctypes.CDLL(None).msgget(0, 0o1600) >= 0, 'OSError'",
}


@pytest.mark.parametrize("name", UNCOUNTED)
def test_memory_that_nothing_counts_is_refused(inside, name):
    said = inside.run(UNCOUNTED[name])
    assert said is not None and ("Permission" in said or "OSError" in said), said


def test_memory_in_a_folder_with_a_quota_can_be_shared(inside):
    assert (
        inside.run(
            "import multiprocessing, torch\ntorch.zeros(3).share_memory_()\n"
            "one = multiprocessing.get_context('fork').Value('i', 3)"
        )
        is None
    )


SYSCALL = """import ctypes, os
kernel = ctypes.CDLL(None, use_errno=True)
if kernel.syscall({number}, *[ctypes.c_long(x) for x in {arguments}]) < 0:
    raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))"""
# The arguments ask for nothing that could be there: without the filter the errors are others.
LOADED = {
    "add_key": (0, 0, 0, 0, 0),
    "request_key": (0, 0, 0, 0),
    "keyctl": (0, -3, 1, 0, 0),
    "setns": (-1, 0),
    "userfaultfd": (-1,),
    "kcmp": (-1, -1, 0, 0, 0),
    "clone": (0x20000000,),
    "ptrace": (-1, 0, 0, 0),
}


@pytest.mark.parametrize("name", LOADED)
def test_the_filter_is_loaded(inside, name):
    said = inside.run(SYSCALL.format(number=syscalls.number(name), arguments=LOADED[name]))
    assert said is not None and "Operation not permitted" in said


def test_the_kernel_s_ciphers_and_the_host_of_a_virtual_machine_are_no_network(inside):
    for family in (38, 40):
        said = inside.run(f"import socket\nsocket.socket({family}, socket.SOCK_STREAM)")
        assert said is not None and "Operation not permitted" in said


# Numbers on x86-64 and aarch64; None where there is no such call. All that the default profile of
# moby/profiles (seccomp/default.json, 2026-06-30) refuses a process without rights, and this one's
# own: memory that no limit counts, and looks into other processes.
REFUSED = {
    # moby: keyrings
    "add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219),
    # moby: mounts and namespaces
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51),
    "unshare": (272, 97), "setns": (308, 268), "open_by_handle_at": (304, 265),
    "open_tree": (428, 428), "move_mount": (429, 429), "fsopen": (430, 430),
    "fsconfig": (431, 431), "fsmount": (432, 432), "fspick": (433, 433),
    "mount_setattr": (442, 442), "fanotify_init": (300, 262), "quotactl": (179, 60),
    "quotactl_fd": (443, 443), "swapon": (167, 224), "swapoff": (168, 225),
    # moby: the kernel and the machine
    "init_module": (175, 105), "finit_module": (313, 273), "delete_module": (176, 106),
    "kexec_load": (246, 104), "kexec_file_load": (320, 294), "reboot": (169, 142),
    "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282),
    "lookup_dcookie": (212, 18), "acct": (163, 89), "clock_settime": (227, 112),
    "settimeofday": (164, 170), "sethostname": (170, 161), "setdomainname": (171, 162),
    "syslog": (103, 116), "vhangup": (153, 58), "personality": (135, 92),
    "iopl": (172, None), "ioperm": (173, None), "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
    # moby: other processes, and where memory lies
    "kcmp": (312, 272), "pidfd_getfd": (438, 438), "process_madvise": (440, 440),
    "get_mempolicy": (239, 236), "set_mempolicy": (238, 237), "mbind": (237, 235),
    "migrate_pages": (256, 238), "move_pages": (279, 239), "set_mempolicy_home_node": (450, 450),
    # moby: names that kernels no longer answer to
    "_sysctl": (156, None), "sysfs": (139, None), "uselib": (134, None), "ustat": (136, None),
    "create_module": (174, None), "query_module": (178, None), "get_kernel_syms": (177, None),
    "nfsservctl": (180, 42), "afs_syscall": (183, None), "getpmsg": (181, None),
    "putpmsg": (182, None), "security": (185, None), "tuxcall": (184, None),
    "vserver": (236, None),
    # moby: what kernels have got since (lsm_*, open_tree_attr, file_setattr, listns, …)
    **{f"of number {one}": (one, None) for one in (459, 460, 461, 467, 469, 470, 511)},
    # this sandbox
    "memfd_create": (319, 279), "memfd_secret": (447, 447), "shmget": (29, 194),
    "semget": (64, 190), "msgget": (68, 186), "ptrace": (101, 117),
    "process_vm_readv": (310, 270), "process_vm_writev": (311, 271),
}  # fmt: skip
CONDITIONS = {  # x86-64, aarch64, arguments, what comes of it
    "clone with a user namespace": (56, 220, (0x10000000,), "EPERM"),
    "clone with a network": (56, 220, (0x40000011,), "EPERM"),
    "clone of a thread": (56, 220, (0x3D0F00,), None),
    "clone3": (435, 435, (), "ENOSYS"),
    "a socket of the kernel's ciphers": (41, 198, (38,), "EPERM"),
    "a socket of the host": (41, 198, (40,), "EPERM"),
    "a socket of its own": (41, 198, (1,), None),
    "shared memory without a file": (9, 222, (0, 4096, 3, 0x21), "EPERM"),
    "memory": (9, 222, (0, 4096, 3, 0x22), None),
    "read": (0, 63, (), None),
    "execve": (59, 221, (), None),
}


@pytest.fixture(scope="module")
def programs():
    """The filters for x86-64 and aarch64, as the kernel gets them: {place: instructions}."""
    import pyseccomp  # late: it does not load where there is no libseccomp

    made, new = [], syscalls._NEW
    for arch in (pyseccomp.Arch.X86_64, pyseccomp.Arch.AARCH64):
        with tempfile.TemporaryFile() as file, pytest.MonkeyPatch.context() as patch:
            if arch != pyseccomp.system_arch():  # it translates names only
                patch.setattr(syscalls, "_NEW", ())
            syscalls.write_filter(file, arch)
            file.seek(0)
            made.append((arch, list(struct.iter_unpack("=HBBI", file.read()))))
    assert syscalls._NEW == new
    return made


def decision(program, number, arguments=()):
    """What the kernel's interpreter makes of a call: None, or the name of its error."""
    arch, code = program
    data = struct.pack("<iIQ6Q", number, arch, 0, *arguments, *[0] * (6 - len(arguments)))
    value, place = 0, 0
    while True:
        kind, true, false, k = code[place]
        place += 1
        if kind == 0x20:  # ld [k]
            (value,) = struct.unpack_from("<I", data, k)
        elif kind == 0x54:  # and #k
            value &= k
        elif kind == 0x05:  # ja
            place += k
        elif kind in (0x15, 0x25, 0x35):  # jeq, jgt, jge
            holds = {0x15: value == k, 0x25: value > k, 0x35: value >= k}[kind]
            place += true if holds else false
        else:
            assert kind == 0x06, f"another instruction: {kind:#x}"
            if k == 0x7FFF0000:
                return None
            return errno.errorcode[k & 0xFFFF] if k & 0xFFFF0000 == 0x50000 else "killed"


@pytest.mark.parametrize("name", REFUSED)
def test_a_call_is_refused_on_both_architectures(programs, name):
    for program, number in zip(programs, REFUSED[name]):
        if number is not None:
            assert decision(program, number) == "EPERM"


@pytest.mark.parametrize("name", CONDITIONS)
def test_what_depends_on_the_arguments(programs, name):
    *numbers, arguments, error = CONDITIONS[name]
    assert [decision(one, number, arguments) for one, number in zip(programs, numbers)] == [
        error
    ] * 2


def test_the_table_is_the_filter():
    assert set(syscalls._REFUSED) == {name for name in REFUSED if " " not in name}


SEARCH = "import ctypes; print(ctypes.CDLL(None).syscall({keyctl}, 10, -3, b'user', b'{name}', 0))"


def test_a_sandbox_has_a_session_keyring_of_its_own():
    """What its first process would find, were the calls not refused."""
    kernel, name, keyctl = ctypes.CDLL(None), f"canary-{os.getpid()}", syscalls.number("keyctl")
    command, passed, told = bubblewrap_command(LIMITS, [])
    for one in (*passed, told):
        os.close(one)
    looks = [sys.executable, "-I", "-S", "-c", SEARCH.format(keyctl=keyctl, name=name)]
    key = kernel.syscall(syscalls.number("add_key"), b"user", name.encode(), b"x", 1, -3)
    if key < 0 or int(subprocess.check_output(looks)) < 0:
        pytest.skip("this machine has no keyrings for us")
    try:
        inside = subprocess.check_output([*command[: command.index("bwrap")], *looks])
        assert int(inside) == -1
    finally:
        kernel.syscall(keyctl, 3, key)  # KEYCTL_REVOKE


@pytest.mark.skipif(platform.machine() != "x86_64", reason="x32 is a second set of numbers there")
def test_the_numbers_of_another_architecture_end_the_process():
    with Inside() as made, pytest.raises(ConnectionLost):
        made.run(SYSCALL.format(number=0x40000000 + 39, arguments=()))  # getpid
