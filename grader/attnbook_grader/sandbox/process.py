"""A running sandbox, and the watch that ends it when it takes too much."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import threading
import time
from typing import Any

import psutil

from .limits import Limits
from .visible import FOLDERS

__all__ = ["SandboxProcess"]

_POLL = 0.02
# Memory in kB, as /proc/PID has it: the file and the lines to add up.
_SUMS = ("status", ("RssAnon", "VmSwap"), "RssShmem")
_SHARES = ("smaps_rollup", ("Pss_Anon", "SwapPss"), "Pss_Shmem")
_OWN_FILES = 2  # MB that Python, IPython and matplotlib may write beside the student's
PROCESSORS, _BURST = 1.25, 3


class SandboxProcess:
    """A running sandbox: its pipes, and a watch that ends it when it takes too much.

    read, write: file descriptors for the protocol
    why: "" or what it was ended for
    """

    def __init__(
        self,
        command: list[str],
        limits: Limits,
        env: dict[str, str],
        *,
        passed: tuple[int, ...] = (),
        told: int | None = None,
        end: list[str] | None = None,
    ):
        self.why = ""
        self._limits, self._end, self._root, self._written = limits, end, None, 0
        self._closed, self._begun = threading.Event(), time.monotonic()
        self._ticks, self._ended_ticks = {}, 0
        self._looking, self._over = threading.Lock(), 0
        try:
            how: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
            how |= {"env": env, "bufsize": 0, "start_new_session": True, "pass_fds": passed}
            self.process = subprocess.Popen(command, **how)
        finally:
            for one in passed:
                os.close(one)
        assert self.process.stdin and self.process.stdout
        self.write = os.dup(self.process.stdin.fileno())
        self.read = os.dup(self.process.stdout.fileno())
        self.process.stdin.close()
        self.process.stdout.close()
        self.stderr_tail = b""
        if told is not None:
            with os.fdopen(told) as file, contextlib.suppress(ValueError, KeyError):
                self._root = json.loads(file.read())["child-pid"]
        inside = ("/proc", str(self._root), "root") if self._root else ("/",)
        self._proc = os.path.join(*inside, "proc")
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
            self.why = f"the notebook {why} and was stopped"
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
                    self._stop(f"printed more than {self._limits.output} MB")
                    return

    def _watch(self):
        while not self._closed.wait(_POLL) and self.process.poll() is None:
            self.look()

    def look(self) -> str:
        """Compare what the sandbox uses now with its limits, as the watch does all the time, and
        end it when that is too much; returns `why`."""
        with self._looking:
            count, mb = self._use()
            files = self._files()
            self._over = self._over + 1 if mb > self._limits.memory else 0
            if count > self._limits.processes:
                self._stop(f"started more than {self._limits.processes} processes")
            elif files > self._limits.disk + _OWN_FILES:
                self._stop(f"wrote more than {self._limits.disk} MB of files")
            # once may be a vfork, seen with its parent's memory until its exec
            elif self._over == 2:
                self._stop(f"used more than {self._limits.memory} MB of memory")
            elif self._on_processors() > _BURST + PROCESSORS * (time.monotonic() - self._begun):
                self._stop("kept more than one processor busy")
            return self.why

    def _use(self):
        """Processes of the sandbox now, and the memory in MB of them and of its files.

        The sums that the kernel keeps for each process cost nothing to read, but a fork shares its
        parent's pages, and they are in the sums of both. Only when these sums exceed the limit are
        the pages themselves looked at, each divided among the processes that share it.
        """
        # The grader may be at its limit for a moment.
        with contextlib.suppress(OSError, MemoryError):
            sums, shares, files = self._with_sums({}), {}, self._files()
            mb = files + sum(sums.values())
            if mb <= self._limits.memory or len(sums) > self._limits.processes:
                return len(sums), mb
            for _ in range(2):  # then those that had a share while the first ones were looked at
                for process in [process for process in sums if process not in shares]:
                    # Of a page that others have as well, one that has ended had half at most.
                    shares[process] = self._mb(process, _SHARES) or sums[process] / 2
                    sums = self._with_sums(sums)
            return len(self._ticks), files + sum(shares.values())
        return 0, 0.0

    def _files(self):
        """MB of the files in the folders that it can write to: they lie in memory, whether a
        process has them mapped or not. 0 where they are not ours to look at."""
        total = 0
        for folder in FOLDERS if self._root else ():
            with contextlib.suppress(OSError):
                told = os.statvfs(f"/proc/{self._root}/root{folder}")
                total += (told.f_blocks - told.f_bfree) * told.f_frsize
        return total / 2**20

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
        once for everybody, and can drop them. Mapped files in memory are in `_files`, once; without
        a sandbox of ours around it, they count here.

        source: _SUMS or _SHARES
        """
        number, _ = process
        if not psutil.LINUX:
            with contextlib.suppress(psutil.Error):
                return psutil.Process(number).memory_info().rss / 2**20
            return 0
        # some kernels do not tell the shares
        for name, lines, mapped in dict.fromkeys([source, _SUMS]):
            with contextlib.suppress(OSError, KeyError):
                with open(f"{self._proc}/{number}/{name}") as file:
                    told = dict(line.split(":", 1) for line in file if line.endswith(" kB\n"))
                lines = lines if self._root else (*lines, mapped)
                return sum(int(told[field].split()[0]) for field in lines) / 2**10
        return 0

    def processor_seconds(self) -> float:
        """Time on processors of all that ever ran in the sandbox, as far as it was seen; 0 where
        nobody counts it."""
        with self._looking:
            return self._on_processors()

    def _on_processors(self):
        return (self._ended_ticks + sum(self._ticks.values())) / os.sysconf("SC_CLK_TCK")
