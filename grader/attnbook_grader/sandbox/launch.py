"""Where a student's code runs: in bubblewrap, in a container, or, if the instructor trusts it, just
beside us.

Inside there is no network, no file of the grader's or of another student, no check and no seed:
Python, PyTorch, the library without `attnbook.checks` and of the grader only
`attnbook_grader.protocol`, all read-only, and an empty folder that may be filled up to a quota."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import uuid
from ctypes.util import find_library
from dataclasses import dataclass, fields
from pathlib import Path

import psutil

import attnbook

from . import syscalls

__all__ = ["KINDS", "Limits", "NoSandbox", "SandboxProcess", "choose", "require_unix", "start"]

KINDS = ("bubblewrap", "docker", "podman", "none")
_LIBRARY = Path(attnbook.__file__).resolve().parent
_GRADER = Path(__file__).resolve().parents[1]
_ROOTS = os.pathsep.join(map(str, dict.fromkeys([_LIBRARY.parent, _GRADER.parent])))
_HOME = "/student"
_INSIDE = ["-m", "attnbook_grader.protocol.child"]
_INSIDE_OF_GRADER = ("__init__.py", "protocol")  # the rest of the grader is hidden
_SYSTEM = Path("/usr")  # read-only inside, whole
_SILENT = _GRADER / "protocol" / "silent"
_POLL = 0.02
# Memory in kB, as /proc/PID has it: the file and the lines to add up.
_SUMS = ("status", ("RssAnon", "RssShmem", "VmSwap"))
_SHARES = ("smaps_rollup", ("Pss_Anon", "Pss_Shmem", "SwapPss"))
_PROCESSORS, _BURST = 1.25, 3
_NOBODY = 65534
_OWN_USERS = ("--unshare-user", "--disable-userns", "--die-with-parent")


class NoSandbox(RuntimeError):
    """There is nothing here that untrusted code could be run in."""


@dataclass(frozen=True)
class Limits:
    """What one notebook may use.

    seconds: for one cell, and for one check of one exercise
    startup: seconds for Python and PyTorch to start
    notebook: seconds in all
    memory: MB of all its processes together
    processes: how many at a time
    output: MB of text
    disk: MB of files
    """

    seconds: float = 15
    startup: float = 120
    notebook: float = 300
    memory: int = 2048
    processes: int = 16
    output: int = 10
    disk: int = 64

    def __post_init__(self):
        for one in fields(self):
            value = getattr(self, one.name)
            if not 0 < value <= 10**6:
                raise ValueError(
                    f"{one.name}: got {value!r}, expected a number above 0, at most 1,000,000"
                )
            if one.type == "int" and not isinstance(value, int):
                raise ValueError(f"{one.name}: got {value!r}, expected a whole number")


def require_unix() -> None:
    """Raise NoSandbox on Windows: the limits on what is judged, and the pipes to it, are those
    of Unix.
    """
    if os.name != "posix":
        raise NoSandbox(
            "attnbook check and attnbook grade judge notebooks on Linux and macOS; on Windows "
            "run them in WSL (wsl --install). "
            "The check cells of a notebook work here as well"
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
            "sandbox: bubblewrap is not installed, and students' code does not run without a "
            "sandbox. On Debian and Ubuntu: "
            "sudo apt install bubblewrap. With a container engine: --sandbox docker --image "
            "NAME. If you trust everybody: --trust"
        )
    if find_library("seccomp") is None:
        raise NoSandbox(
            "sandbox: libseccomp is not installed, which builds the filter of system calls. On "
            "Debian and Ubuntu: sudo apt install libseccomp2"
        )
    command = _bubblewrap(Limits(), "")
    with _filtered([*command[: command.index("--")], "--", "/usr/bin/env", "true"]) as (
        command,
        passed,
    ):
        works = _succeeds(command, passed)
    if not works:
        raise NoSandbox(
            "sandbox: bubblewrap is installed but may not make namespaces here (in a container "
            "it needs --privileged, or "
            "--security-opt seccomp=unconfined; on Ubuntu the AppArmor profile that "
            "tools/install_system.sh writes). With a container engine: --sandbox docker --image "
            "NAME. "
            "If you trust everybody: --trust"
        )
    return "bubblewrap"


def start(kind: str, limits: Limits, image: str | None = None) -> SandboxProcess:
    """Start the process of `attnbook_grader.protocol.child` in a sandbox of this kind.

    image: of a container, with Python, PyTorch and what attnbook needs
    """
    inside = json.dumps(
        {
            "memory": limits.memory * 2**20,
            "file": limits.disk * 2**20,
            "processes": None
            if kind == "none" and os.geteuid() == 0
            else _tasks(kind) + limits.processes + 64 + 32 * (os.cpu_count() or 1),
        }
    )
    name = f"attnbook-{uuid.uuid4().hex[:12]}"
    if kind == "bubblewrap":
        return SandboxProcess(_bubblewrap(limits, inside), limits, {}, told=True)
    if kind in ("docker", "podman"):
        if not image:
            raise ValueError(
                "image: a container needs the name of an image with Python, PyTorch and "
                "attnbook's requirements"
            )
        return SandboxProcess(
            _container(kind, image, name, limits, inside),
            limits,
            dict(os.environ),
            end=[kind, "kill", name],
        )
    return SandboxProcess(
        [sys.executable, *_INSIDE, inside],
        limits,
        {**_inherited(), **_variables(_ROOTS, os.environ.get("HOME", "/"))},
    )


class SandboxProcess:
    """A running sandbox: its pipes, and a watch that ends it when it takes too much.

    read, write: file descriptors for the protocol
    why: "" or what it was ended for
    """

    def __init__(self, command, limits: Limits, env, *, told=False, end=None):
        self.why = ""
        self._limits, self._end, self._root, self._written = limits, end, None, 0
        self._closed, self._begun, self._ticks, self._ended_ticks = (
            threading.Event(),
            time.monotonic(),
            {},
            0,
        )
        self._looking, self._over = threading.Lock(), 0
        pipe = os.pipe() if told else None
        with contextlib.ExitStack() as stack:
            passed = ()
            if pipe:
                command = [command[0], "--info-fd", str(pipe[1]), *command[1:]]
                command, passed = stack.enter_context(_filtered(command))
            self.process = subprocess.Popen(
                command,
                env=env,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                start_new_session=True,
                pass_fds=(pipe[1], *passed) if pipe else (),
            )
        assert self.process.stdin and self.process.stdout
        self.write = os.dup(self.process.stdin.fileno())
        self.read = os.dup(self.process.stdout.fileno())
        self.process.stdin.close()
        self.process.stdout.close()
        self.stderr_tail = b""
        if pipe:
            os.close(pipe[1])
            with os.fdopen(pipe[0]) as file, contextlib.suppress(ValueError, KeyError):
                self._root = json.loads(file.read())["child-pid"]
        self._proc = f"/proc/{self._root}/root/proc" if self._root else "/proc"
        self._threads = [
            threading.Thread(target=target, daemon=True) for target in (self._drain, self._watch)
        ]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """End it, with everything that it started."""
        self._closed.set()
        self._kill()
        self.process.wait()
        for thread in self._threads:
            thread.join(10)

    def _stop(self, why):
        if not self.why and not self._closed.is_set():
            self.why = why
            self._kill()

    def _kill(self):
        if self._end:
            subprocess.run(
                self._end, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=60
            )
        # the first process of its own process namespace: when it ends, the kernel ends all of them
        if self._root:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._root, signal.SIGKILL)
        else:
            for member in self._members():
                with contextlib.suppress(psutil.NoSuchProcess):
                    member.kill()
        self.process.kill()

    def _members(self):
        try:
            parent = psutil.Process(self.process.pid)
            return [parent, *parent.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []

    def _drain(self):
        """Throw away what it prints, and count."""
        assert self.process.stderr
        with self.process.stderr as pipe:
            while part := pipe.read(1 << 16):
                self.stderr_tail = (self.stderr_tail + part)[-2000:]
                self._written += len(part)
                if self._written > self._limits.output * 2**20:
                    self._stop(
                        f"the notebook printed more than {self._limits.output} MB and was stopped"
                    )
                    return

    def _watch(self):
        while not self._closed.wait(_POLL) and self.process.poll() is None:
            self.look()

    def look(self) -> str:
        """Compare what the sandbox uses now with its limits, as the watch does all the time, and
        end it when that is too much; returns `why`.
        """
        with self._looking:
            count, mb = self._use()
            self._over = self._over + 1 if mb > self._limits.memory else 0
            if count > self._limits.processes:
                self._stop(
                    f"the notebook started more than {self._limits.processes} processes and was "
                    f"stopped"
                )
            elif (
                self._over == 2
            ):  # once may be a vfork, seen with its parent's memory until its exec
                self._stop(
                    f"the notebook used more than {self._limits.memory} MB of memory and was "
                    f"stopped"
                )
            elif self._processor_seconds() > _BURST + _PROCESSORS * (
                time.monotonic() - self._begun
            ):
                self._stop("the notebook kept more than one processor busy and was stopped")
            return self.why

    def _use(self):
        """Processes of the sandbox now, and their memory in MB.

        The sums that the kernel keeps for each process cost nothing to read, but a fork shares its
        parent's pages, and they are in the sums of both. Only when these sums exceed the limit are
        the pages themselves looked at, each divided among the processes that share it.
        """
        # The grader may be at its limit for a moment.
        with contextlib.suppress(OSError, MemoryError):
            sums, shares = self._with_sums({}), {}
            if sum(sums.values()) <= self._limits.memory or len(sums) > self._limits.processes:
                return len(sums), sum(sums.values())
            for _ in range(2):  # then those that had a share while the first ones were looked at
                for process in [process for process in sums if process not in shares]:
                    # Of a page that others have as well, one that has ended had half at most.
                    shares[process] = self._mb(process, _SHARES) or sums[process] / 2
                    sums = self._with_sums(sums)
            return len(self._ticks), sum(shares.values())
        return 0, 0.0

    def _with_sums(self, known):
        """These, and all other processes that there are now, with their sums."""
        new = [process for process in self._processes() if process not in known]
        return known | {process: self._mb(process, _SUMS) for process in new}

    def _processes(self):
        """Ticks of each process on processors, by its number and its start: numbers come back."""
        found = {}
        if not self._root:
            for member in self._members():
                with contextlib.suppress(psutil.Error):
                    found[member.pid, member.create_time()] = 0
        for entry in os.listdir(self._proc) if self._root else ():
            if entry.isdigit():
                with contextlib.suppress(OSError, IndexError):
                    with open(f"{self._proc}/{entry}/stat") as file:
                        part = file.read().rpartition(")")[2].split()
                    found[entry, part[19]] = int(part[11]) + int(part[12])
        # The kernel forgets the time of a process whose parent does not ask for it.
        self._ended_ticks += sum(self._ticks[process] for process in self._ticks.keys() - found)
        self._ticks = found
        return found

    def _mb(self, process, source):
        """Memory of a process that no file on a disk holds; 0 of one that has ended.

        Pages of files, such as those of PyTorch's libraries, do not count: the machine has them
        once for everybody, and can drop them.

        source: _SUMS or _SHARES
        """
        number, _ = process
        if not psutil.LINUX:
            with contextlib.suppress(psutil.Error):
                return psutil.Process(number).memory_info().rss / 2**20
            return 0
        for name, lines in dict.fromkeys([source, _SUMS]):  # some kernels do not tell the shares
            with contextlib.suppress(OSError, KeyError):
                with open(f"{self._proc}/{number}/{name}") as file:
                    told = dict(line.split(":", 1) for line in file if line.endswith(" kB\n"))
                return sum(int(told[field].split()[0]) for field in lines) / 2**10
        return 0

    def _processor_seconds(self):
        """Time on processors of all that ever ran in the sandbox, as far as it was seen; a
        container has its own limits.
        """
        return (self._ended_ticks + sum(self._ticks.values())) / os.sysconf("SC_CLK_TCK")


def _bubblewrap(limits, inside):
    """The command line: a new namespace of every kind, an empty root, and only what Python needs,
    read-only.

    For root the mounts are made with root's rights, and the code runs as nobody: a process of
    root's may write to /proc/sys even from inside a user namespace, and from there reach the whole
    machine."""
    command = ["bwrap", "--die-with-parent", "--new-session", "--hostname", "sandbox", "--clearenv"]
    python = [sys.executable, *_INSIDE, inside]
    if os.geteuid() == 0:
        command += [
            "--unshare-ipc",
            "--unshare-pid",
            "--unshare-net",
            "--unshare-uts",
            "--unshare-cgroup-try",
            "--cap-drop",
            "ALL",
        ]
        command += [
            "--cap-add",
            "CAP_SETUID",
            "--cap-add",
            "CAP_SETGID",
            "--cap-add",
            "CAP_SETPCAP",
        ]
        nobody = [
            "setpriv",
            "--reuid",
            str(_NOBODY),
            "--regid",
            str(_NOBODY),
            "--clear-groups",
            "--no-new-privs",
        ]
        python = [
            *nobody,
            "--bounding-set=-all",
            "--inh-caps=-all",
            "bwrap",
            *_OWN_USERS,
            "--dev-bind",
            "/",
            "/",
            "--",
            *python,
        ]
    else:
        command += ["--unshare-all", *_OWN_USERS, "--cap-drop", "ALL"]
    for name, value in _variables(_ROOTS, _HOME).items():
        command += ["--setenv", name, value]
    # a mapping of zero is memory, see syscalls
    command += ["--proc", "/proc", "--dev", "/dev", "--dev-bind", "/dev/null", "/dev/zero"]
    for folder in ("/dev/shm", "/tmp", _HOME):
        command += ["--perms", "1777", "--size", str(limits.disk * 2**20), "--tmpfs", folder]
    # what follows may lie in one of these folders
    command += ["--ro-bind", str(_SYSTEM), str(_SYSTEM)]
    for folder in ("/bin", "/sbin", "/lib", "/lib32", "/lib64"):
        command += (
            ["--symlink", os.readlink(folder), folder]
            if os.path.islink(folder)
            else ["--ro-bind-try", folder, folder]
        )
    command += ["--perms", "0755", "--dir", "/etc"]
    for file in ("/etc/ld.so.cache", "/etc/alternatives", "/etc/fonts", "/etc/localtime"):
        command += ["--ro-bind-try", file, file]
    for folder in [*_python_folders(), _LIBRARY, _GRADER]:
        for above in [*folder.parents][-2::-1]:  # else they are made for their owner alone
            command += ["--perms", "0755", "--dir", str(above)]
        command += ["--ro-bind", str(folder), str(folder)]
    for package in _copies():
        for path in _hidden(package):
            command += ["--ro-bind", str(_stand_in(path)), str(path)]
    return [*command, "--remount-ro", "/dev", "--remount-ro", "/", "--chdir", _HOME, "--", *python]


def _container(engine, image, name, limits, inside):
    size = f"size={limits.disk}m"
    where = "/opt/attnbook"
    command = [
        engine,
        "run",
        "--rm",
        "--interactive",
        "--name",
        name,
        "--network",
        "none",
        "--read-only",
        "--cap-drop",
        "ALL",
        "--security-opt",
        "no-new-privileges",
        "--pids-limit",
        str(limits.processes + 64),
        "--memory",
        f"{limits.memory}m",
        "--memory-swap",
        f"{limits.memory}m",
        "--cpus",
        str(_PROCESSORS),
        "--tmpfs",
        f"/tmp:{size}",
        "--tmpfs",
        f"{_HOME}:{size},mode=1777",
        "--workdir",
        _HOME,
        "--volume",
        f"{_LIBRARY}:{where}/attnbook:ro",
        "--volume",
        f"{_GRADER}:{where}/attnbook_grader:ro",
    ]
    for package in (_LIBRARY, _GRADER):
        for path in _hidden(package):
            inner = f"{where}/{package.name}/{path.name}"
            command += ["--volume", f"{_stand_in(path)}:{inner}:ro"]
    for variable, value in _variables(where, _HOME).items():
        if variable != "PATH":
            command += ["--env", f"{variable}={value}"]
    return [*command, image, "python3", *_INSIDE, inside]


def _hidden(package):
    """What student code does not see of a package: the checks of the library, of the grader all
    but what the process in the sandbox runs, and all of the tool that builds the book.
    """
    if package.name == "attnbook":
        return [package / "checks"] if (package / "checks").is_dir() else []
    if package.name == "attnbook_grader":
        return [path for path in sorted(package.iterdir()) if path.name not in _INSIDE_OF_GRADER]
    return [package]


def _stand_in(path):
    """What is mounted over a hidden folder or module."""
    return _SILENT if path.is_dir() else _SILENT / "__init__.py"


def _copies():
    """The packages to hide parts of: those in use, and copies that are installed beside them,
    where Python in the sandbox may find them.
    """
    found = {_LIBRARY, _GRADER}
    for path in sys.path:
        root = Path(os.path.realpath(path or "."))
        if any(root.is_relative_to(one) for one in (_SYSTEM, *_python_folders())):
            names = ("attnbook", "attnbook_grader", "bookbuild")
            found |= {root / name for name in names if (root / name).is_dir()}
    return sorted(found)


def _python_folders():
    """The folders that hold this Python and its packages, outermost first, without those under
    /usr.
    """
    wanted = {sys.base_prefix, sys.prefix, os.path.dirname(os.path.realpath(sys.executable))}
    wanted |= {path for path in sys.path if "site-packages" in path or "dist-packages" in path}
    found = []
    for path in sorted({Path(os.path.realpath(path)) for path in wanted} | {Path(sys.prefix)}):
        inside = [other for other in (_SYSTEM, *found) if path.is_relative_to(other)]
        if path.is_dir() and not inside and path != Path("/"):
            found.append(path)
    return found


def _variables(root, home):
    return {
        "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
        "HOME": home,
        "LANG": "C.UTF-8",
        "PYTHONPATH": str(root),
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
        "MPLBACKEND": "agg",
        "OMP_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "CUDA_VISIBLE_DEVICES": "",
        "ATTNBOOK_PROGRESS": "0",
        "IPYTHONDIR": "/tmp/ipython",
    }


def _inherited():
    return {name: value for name, value in os.environ.items() if not name.startswith("ATTNBOOK_")}


@contextlib.contextmanager
def _filtered(command):
    """bubblewrap's command with the filter of system calls, and the file descriptors to pass on."""
    read, write = os.pipe()
    try:
        with open(write, "wb") as file:
            syscalls.write_filter(file)  # shorter than what a pipe holds
        yield [command[0], "--seccomp", str(read), *command[1:]], (read,)
    finally:
        os.close(read)


def _succeeds(command, passed=()):
    try:
        return (
            subprocess.run(
                command,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=60,
                pass_fds=passed,
            ).returncode
            == 0
        )
    except (OSError, subprocess.TimeoutExpired):
        return False


def _tasks(kind):
    """Processes and threads that the user of the sandbox runs now: older kernels count them all
    against the limit.
    """
    me = _NOBODY if kind == "bubblewrap" and os.geteuid() == 0 else os.getuid()
    count = 0
    for process in psutil.process_iter(["uids", "num_threads"]):
        if process.info["uids"] and process.info["uids"].real == me:
            count += process.info["num_threads"] or 1
    return count
