"""What code in the sandbox may use up, and how it is ended."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from patience import HANGS, eventually

from attnbook_grader.protocol.rpc import ConnectionLost
from attnbook_grader.sandbox import process
from attnbook_grader.sandbox.launch import Limits
from attnbook_grader.sandbox.session import SandboxEnded, Session

from .conftest import Inside

pytestmark = pytest.mark.usefixtures("bubblewrap")


def ended(made, code):
    """Why it is ended, by the grader and not by itself."""
    with pytest.raises(ConnectionLost) as error:
        made.run(code)
    assert error.value.kind == "ended"
    return made.why()


SLEEPS = f"kept = [subprocess.Popen(['sleep', '{HANGS}']) for _ in range(20)]\ntime.sleep({HANGS})"
ENDS = {
    f"import subprocess, time\n{SLEEPS}": "processes",
    "while True: print('x' * 10_000)": "printed",
    "import os\nwhile True: os.write(1, b'x' * 2**16)": "printed",
}


@pytest.mark.parametrize("code", ENDS, ids=["processes", "output", "output past Python"])
def test_what_takes_too_much_is_ended(code, monkeypatch):
    monkeypatch.setattr(process, "PROCESSORS", 100)
    with Inside() as made:
        assert ENDS[code] in ended(made, code)


@pytest.mark.parametrize("where", ["a cell", "a function"])
def test_a_fork_bomb_is_named_before_the_watch_sees_it(where, monkeypatch):
    """The kernel refuses its last fork, and a hundred copies answer for it."""
    monkeypatch.setattr(process, "_POLL", HANGS)
    limits = Limits(seconds=HANGS, notebook=2 * HANGS, memory=20_000)
    with Session("bubblewrap", limits) as session:
        with pytest.raises(SandboxEnded, match="more than 16 processes and was stopped"):
            if where == "a cell":
                session.run("import os\nwhile True: os.fork()")
            else:
                session.run("import os\ndef bomb(*inputs):\n    while True: os.fork()")
                session.judge("00.weighted_sum", "bomb", 0)


# What PyTorch takes itself depends on its build, so these limits are wide.
WIDE = {"memory": 2048, "disk": 800}


FORKS = """
import os, time
kept = bytearray({mb} * 2**20)
kept[::4096] = b"x" * len(kept[::4096])
for _ in range({forks}):
    if not os.fork():
        {child}
        time.sleep(3600)
"""


@pytest.mark.parametrize("forks", [6, 30])
def test_memory_that_forks_share_counts_once(monkeypatch, forks):
    looks, use = [], process.SandboxProcess._use

    def seen(self):
        looks.append((self, *use(self)))
        return looks[-1][1:]

    monkeypatch.setattr(process.SandboxProcess, "_use", seen)
    with Inside(limits=Limits(**WIDE, processes=forks + 6)) as made:
        assert made.run(FORKS.format(mb=300, forks=forks, child="pass")) is None

        def complete():
            found = [(count, mb) for whose, count, mb in looks if whose is made.started][-5:]
            return made.started.why or all(count > forks and 300 < mb < 1500 for count, mb in found)

        assert eventually(complete)
        assert made.run("x = 1") is None and made.started.why == ""


WRITES = "own = b'xy' * ({} * 2**19)"


TOO_LARGE = {
    "of its own": FORKS.format(mb=1, forks=4, child=WRITES.format(600)),
    "of its own, beside what is shared": FORKS.format(mb=400, forks=5, child=WRITES.format(350)),
    "no longer shared": FORKS.format(
        mb=450, forks=5, child="kept[::4096] = b'y' * len(kept[::4096])"
    ),
    "shared with forks that end at once": FORKS.format(
        mb=1,
        forks=4,
        child=WRITES.format(600)
        + """
        while True:
            if not os.fork(): os._exit(0)
            os.wait()""",
    ),
    "with files, mapped or not": """
import mmap, time
own = b"x" * (1300 * 2**20)
with open("/student/x", "w+b") as file:
    file.truncate(390 * 2**20)
    mapped = mmap.mmap(file.fileno(), 0)
mapped[::4096] = b"x" * len(mapped[::4096])
with open("/tmp/x", "wb") as file:
    for _ in range(390): file.write(bytes(2**20))
""",
}


@pytest.mark.parametrize("name", TOO_LARGE)
def test_memory_of_all_processes_together_has_a_bound(name, monkeypatch):
    monkeypatch.setattr(process, "PROCESSORS", 100)  # on a slow machine that limit would come first
    with Inside(limits=Limits(**WIDE, processes=12)) as made:
        why = ended(made, TOO_LARGE[name] + f"time.sleep({HANGS})")
    assert why == "the notebook used more than 2048 MB of memory and was stopped"


def test_the_folders_have_one_quota():
    write = "with open('{}/x', 'wb') as file:\n    for _ in range({}): file.write(bytes(2**20))"
    with Inside() as made:
        assert made.run(write.format("/tmp", 6)) is None
        why = ended(made, f"import time\n{write.format('/dev/shm', 6)}\ntime.sleep({HANGS})")
    assert why == "the notebook wrote more than 8 MB of files and was stopped"


def test_a_mapped_file_counts_once():
    code = """
import mmap
with open("/tmp/x", "w+b") as file:
    file.truncate(300 * 2**20)
    mapped = mmap.mmap(file.fileno(), 0)
mapped[::4096] = b"x" * len(mapped[::4096])
"""
    with Inside(limits=Limits(**WIDE)) as made:
        before = made.started._use()[1]
        assert made.run(code) is None
        assert 290 < made.started._use()[1] - before < 400


def test_without_shares_from_the_kernel_the_sums_count(tmp_path):
    """A kernel too old, one that does not show them, and a process that has ended."""
    started = SimpleNamespace(_proc=tmp_path, _root=None)
    status, rollup = tmp_path / "7" / "status", tmp_path / "7" / "smaps_rollup"

    def mb(source, number="7"):
        return process.SandboxProcess._mb(started, (number, "start"), source)

    status.parent.mkdir()
    status.write_text(
        "Name:\tx\nRssAnon:\t 3072 kB\nRssFile:\t 7168 kB\nRssShmem:\t 2048 kB\n"
        "VmSwap:\t 512 kB\nThreads:\t1\n"
    )
    assert mb(process._SUMS) == mb(process._SHARES) == 5.5
    rollup.write_text("5600-7ffd ---p 00000000 00:00 0 [rollup]\nRss: 12288 kB\nPss: 2048 kB\n")
    assert mb(process._SHARES) == 5.5
    rollup.write_text(
        rollup.read_text() + "Pss_Anon: 1024 kB\nPss_File: 512 kB\n"
        "Pss_Shmem: 256 kB\nSwapPss: 256 kB\n"
    )
    assert mb(process._SHARES) == 1.5 and mb(process._SUMS) == 5.5
    assert mb(process._SHARES, number="8") == 0
    started._root = 7  # of a sandbox of ours: shared memory is files, and counted there
    assert mb(process._SHARES) == 1.25 and mb(process._SUMS) == 3.5


@pytest.mark.parametrize(
    "lists, ended, count, mb",
    [
        (["abc"], "", 3, 600),  # a look at processes that stay
        (["ab", "abc"], "", 3, 600),  # one comes while the others are looked at
        (["abc", "ab"], "c", 2, 600),  # one ends before it is looked at
        (["abc", "abc", "abc", "ab"], "", 2, 600),  # and after
        (["ab", "bc", "cd", "de", "ef", "fg"], "", 2, 800),  # for ever: two, and two that came
        (["a"], "", 1, 400),  # below the limit: nothing is looked at
        (["abcdefghi"], "", 9, 3600),  # too many: nothing else matters
    ],
)
def test_processes_that_come_and_go_hide_no_memory(monkeypatch, lists, ended, count, mb):
    """Each has 400 MB and shares all of it with one other; the list changes after each look."""
    started, last = process.SandboxProcess.__new__(process.SandboxProcess), lists[-1]
    lists = iter(lists)
    started._limits, started._root = Limits(memory=500, processes=8), None

    def processes():
        started._ticks = dict.fromkeys(next(lists, last), 0)
        return started._ticks

    def memory(member, source):
        return 400 if source == process._SUMS else 0 if member in ended else 200

    monkeypatch.setattr(started, "_processes", processes)
    monkeypatch.setattr(started, "_mb", memory)
    assert started._use() == (count, mb)


def test_memory_has_a_bound_that_python_sees(inside):
    assert "MemoryError" in inside.run("bytearray(2**31)")
    assert inside.value("1 + 1") == 2


def test_one_notebook_does_not_take_all_processors(monkeypatch):
    monkeypatch.setattr(process, "_BURST", 0)
    busy = "import subprocess, sys, time\nloop = [sys.executable, '-c', 'while True: pass']\n"
    busy += "kept = [subprocess.Popen(loop) for _ in range(12)]\n"
    with Inside(limits=Limits(processes=20)) as made:
        monkeypatch.setattr(process, "PROCESSORS", 0.2)  # others are at work on this machine
        why = ended(made, busy + f"time.sleep({HANGS})")
    assert why == "the notebook kept more than one processor busy and was stopped"


def test_time_of_processes_that_have_ended_counts():
    code = """
import os, signal, time
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
for _ in range(3):
    if not os.fork():
        while time.process_time() < 0.3: pass
        while not os.path.exists("/tmp/end"): time.sleep(0.01)
        os._exit(0)
"""
    with Inside() as made:
        before, processes = made.started.processor_seconds(), len(made.started._ticks)
        assert made.run(code) is None
        assert eventually(lambda: made.started.processor_seconds() - before > 0.8), "while alive"
        waits = "try:\n    while True: os.wait()\nexcept ChildProcessError: pass"
        assert made.run(f"open('/tmp/end', 'w')\n{waits}") is None
        assert eventually(lambda: len(made.started._ticks) == processes), "they have ended"
        assert made.started.processor_seconds() - before > 0.8


def test_a_loop_is_a_matter_of_time():
    with Inside() as made:
        made.seconds = 1
        with pytest.raises(ConnectionLost) as error:
            made.run("while True:\n  try:\n    while True: pass\n  except BaseException: pass")
        assert error.value.kind == "time"
        processes = made.started._root
    assert eventually(lambda: not os.path.exists(f"/proc/{processes}")), "nothing of it is left"


def test_closing_ends_what_it_started():
    made, seconds = Inside(), f"987.{os.getpid()}"  # other tests may run on this machine
    sleeps = f"kept = [subprocess.Popen(['sleep', '{seconds}']) for _ in range(3)]"
    assert made.run(f"import subprocess\n{sleeps}") is None
    assert f"sleep\0{seconds}" in "".join(_command_lines())
    made.__exit__()
    assert made.started.process.poll() is not None
    assert eventually(lambda: f"sleep\0{seconds}" not in "".join(_command_lines()))


def _command_lines():
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            yield path.read_text()
        except OSError:
            continue


def test_the_process_ends_with_its_grader():
    code = (
        "import time\nfrom attnbook_grader.sandbox.launch import *\ns = start('bubblewrap', "
        "Limits())\n"
        f"print(s._root, flush=True)\ntime.sleep({HANGS})"
    )
    grader = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    root = int(grader.stdout.readline())
    assert os.path.exists(f"/proc/{root}")
    grader.kill()
    grader.wait()
    assert eventually(lambda: not os.path.exists(f"/proc/{root}"))
