"""The sandbox itself: what code in it can see, reach, write and use up."""

import os
import platform
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from patience import HANGS, eventually

import attnbook
import attnbook_grader
from attnbook_grader.protocol.channel import Channel
from attnbook_grader.protocol.rpc import ConnectionLost, Peer
from attnbook_grader.sandbox import launch
from attnbook_grader.sandbox.launch import Limits, NoSandbox, choose, start
from attnbook_grader.sandbox.session import ATTEMPTS, SandboxEnded, Session

LIBRARY = Path(attnbook.__file__).resolve().parent
GRADER = Path(attnbook_grader.__file__).resolve().parent
LIMITS = Limits(seconds=10, memory=1024, processes=8, output=2, disk=8)


pytestmark = pytest.mark.usefixtures("bubblewrap")


class Inside:
    """A sandbox to try things in."""

    def __init__(self, kind="bubblewrap", limits=LIMITS, image=None):
        self.seconds = HANGS
        for attempt in range(ATTEMPTS):
            self.started = start(kind, limits, image)
            channel = Channel(self.started.read, self.started.write)
            channel.deadline = time.monotonic() + HANGS
            self.peer = Peer(channel, lambda function, args, named, seed: function(*args, **named))
            try:
                self.peer.request({"do": "hello"})
                return
            except ConnectionLost:  # a fork bomb of another test may just fill the machine
                self.__exit__()
                if attempt == ATTEMPTS - 1:
                    raise

    def run(self, code):
        """The error of a cell, or None."""
        self.peer.channel.deadline = time.monotonic() + self.seconds
        return self.peer.request({"do": "cell", "source": code})

    def value(self, code):
        said = self.run(f"value = {code}")
        assert said is None, said
        return self.peer.request({"do": "take", "name": "value"})

    def why(self):
        eventually(lambda: self.started.why)
        return self.started.why

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.peer.channel.close()
        self.started.close()


@pytest.fixture(scope="module")
def inside():
    with Inside() as made:
        assert made.run("import os, sys, attnbook") is None
        yield made


def test_only_what_python_needs_is_there(inside, tmp_path):
    (tmp_path / "marks.csv").write_text("secret")
    assert not inside.value(f"os.path.exists({str(tmp_path / 'marks.csv')!r})")
    for root, paths in {
        LIBRARY.parent: (
            "chapters",
            "tests",
            ".git",
            "tools/bookbuild/source.py",
            "attnbook/checks/ch00_attention/soft_lookup.py",
        ),
        GRADER.parent: (
            "tests",
            "attnbook_grader/course/assignments.py",
            "attnbook_grader/grading/rounds.py",
            "attnbook_grader/notebooks/submissions.py",
            "attnbook_grader/sandbox/launch.py",
        ),
    }.items():
        for path in paths:
            assert not inside.value(f"os.path.exists({str(root / path)!r})"), path
    folders = [GRADER / part for part in ("course", "grading", "notebooks", "sandbox")]
    for folder in (LIBRARY / "checks", *folders):
        assert inside.value(
            f"[name for name in os.listdir({str(folder)!r}) if name.endswith('.py')]"
        ) == ["__init__.py"]
    for module in ("commands.py", "self_check.py"):
        assert "import" not in inside.value(f"open({str(GRADER / module)!r}).read()")
    assert inside.value(f"os.path.exists({str(GRADER / 'protocol' / 'child.py')!r})")
    assert inside.value("attnbook.masked_softmax is not None")
    for path in ("/etc/passwd", "/etc/shadow", "/student/x", "/var", "/run"):
        assert not inside.value(f"os.path.exists({path!r})"), path
    home = os.path.expanduser("~")
    if not sys.prefix.startswith(home):
        assert not inside.value(f"os.path.exists({home + '/.ssh'!r})")


HIDDEN = ("attnbook/checks", "attnbook_grader/course", "attnbook_grader/anything", "bookbuild")


def test_a_second_copy_of_the_packages_is_covered_too(tmp_path, monkeypatch):
    second = tmp_path / "lib" / "site-packages"
    for part in HIDDEN:
        (second / part).mkdir(parents=True)
        (second / part / "secret.py").write_text("secret = 42")
    (second / "attnbook_grader" / "top.py").write_text("secret = 42")
    monkeypatch.syspath_prepend(second)
    with Inside() as made:
        assert made.run("import os") is None
        assert made.value(f"os.path.isdir({str(second / 'attnbook')!r})")
        for part in HIDDEN:
            assert made.value(f"os.path.isdir({str(second / part)!r})")
            assert not made.value(f"os.path.exists({str(second / part / 'secret.py')!r})")
        top = second / "attnbook_grader" / "top.py"
        assert "secret" not in made.value(f"open({str(top)!r}).read()")


def test_a_copy_of_the_packages_among_those_of_the_system_is_covered_too(tmp_path, monkeypatch):
    second = tmp_path / "usr" / "lib" / "site-packages"
    for part in HIDDEN:
        (second / part).mkdir(parents=True)
    monkeypatch.syspath_prepend(second)
    monkeypatch.setattr(launch, "_SYSTEM", tmp_path / "usr")
    assert second not in launch._python_folders()
    names = {"attnbook", "attnbook_grader", "bookbuild"}
    assert {second / name for name in names} <= set(launch._copies())


def test_checks_are_silent(inside):
    assert (
        inside.run("from attnbook.checks import check, grade\ncheck('00.weighted_sum', None)")
        is None
    )
    assert "soft_lookup" in inside.run("import attnbook.checks.ch00_attention.soft_lookup")
    assert inside.run("import attnbook_grader.grading.rounds") is not None
    assert inside.run("from attnbook_grader.commands import course") is not None


def test_nothing_of_the_grader_s_environment_is_there(inside, monkeypatch):
    assert set(inside.value("sorted(os.environ)")) <= {
        *launch._variables("", ""),
        "PWD",
        "LC_CTYPE",
        "SHLVL",
        "_",
    }


def test_the_code_has_no_rights(inside):
    status = dict(
        line.split(":\t")
        for line in inside.value("open('/proc/self/status').read()").splitlines()
        if ":\t" in line
    )
    assert status["NoNewPrivs"] == "1"
    assert all(
        int(status[name], 16) == 0 for name in ("CapEff", "CapPrm", "CapInh", "CapBnd", "CapAmb")
    )
    if os.geteuid() == 0:
        assert status["Uid"].split()[0] != "0"
    assert inside.run("os.setuid(0)").startswith(("OSError", "PermissionError"))
    said = inside.value(
        "__import__('subprocess').run(['unshare', '-Ur', 'true'], capture_output=True, "
        "text=True).returncode"
    )
    assert said != 0, "no namespaces of its own"


@pytest.mark.parametrize(
    "path",
    [
        "/x",
        "/usr/x",
        "/etc/x",
        "/dev/x",
        "/proc/sys/kernel/core_pattern",
        "/proc/sys/vm/swappiness",
        "{prefix}/x",
        "{package}/x.py",
        "{package}/__init__.py",
        "{package}/checks/x.py",
    ],
)
def test_nothing_outside_can_be_written(inside, path):
    path = path.format(prefix=sys.prefix, package=LIBRARY)
    said = inside.run(f"open({path!r}, 'a').write('x')")
    assert said is not None and ("Read-only" in said or "denied" in said or "Permission" in said), (
        said
    )


def test_there_is_no_network(inside):
    code = "import socket\nsocket.create_connection(({!r}, {}), 2)"
    assert "OSError" in inside.run(code.format("192.0.2.1", 80)) or "unreachable" in inside.run(
        code.format("192.0.2.1", 80)
    )
    assert inside.run(code.format("127.0.0.1", 22)) is not None
    assert inside.run("socket.gethostbyname('example.org')") is not None


def test_a_server_of_the_host_cannot_be_reached(inside):
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert inside.run(f"socket.create_connection(('127.0.0.1', {port}), 2)") is not None


def test_its_processes_are_its_own(inside):
    seen = inside.value("[int(name) for name in os.listdir('/proc') if name.isdigit()]")
    assert len(seen) <= 4 and os.getpid() not in seen or max(seen) < 20
    assert inside.run("os.kill(1, 9)") is not None or inside.value("os.getpid()") > 1


def test_its_folder_has_a_quota(inside):
    for folder in ("/student", "/tmp", "/dev/shm"):
        said = inside.run(
            f"with open('{folder}/x', 'wb') as file:\n    for _ in range(20): "
            f"file.write(bytes(2**20))"
        )
        assert "OSError" in said, folder
        many = inside.run(
            f"for i in range(20):\n    with open(f'{folder}/{{i}}', 'wb') as file: "
            f"file.write(bytes(2**20))"
        )
        assert "No space" in many, folder
        assert (
            inside.run(
                f"import glob\nfor path in glob.glob('{folder}/[0-9x]*'):\n    os.remove(path)"
            )
            is None
        )


ENDS = {
    "processes": (
        "import subprocess, time\n"
        f"kept = [subprocess.Popen(['sleep', '{HANGS}']) for _ in range(20)]\ntime.sleep({HANGS})",
        ("processes",),
    ),
    "output": ("while True: print('x' * 10_000)", ("printed",)),
    "output past Python": ("import os\nwhile True: os.write(1, b'x' * 2**16)", ("printed",)),
}


@pytest.mark.parametrize("name", ENDS)
def test_what_takes_too_much_is_ended(name, monkeypatch):
    monkeypatch.setattr(launch, "_PROCESSORS", 100)
    code, words = ENDS[name]
    with Inside() as made:
        with pytest.raises(ConnectionLost) as error:
            made.run(code)
        assert error.value.kind == "ended"
        assert any(word in made.why() for word in words), made.why()


@pytest.mark.parametrize("where", ["a cell", "a function"])
def test_a_fork_bomb_is_named_before_the_watch_sees_it(where, monkeypatch):
    """The kernel refuses its last fork, and a hundred copies answer for it."""
    monkeypatch.setattr(launch, "_POLL", HANGS)
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
    looks, use = [], launch.SandboxProcess._use

    def seen(self):
        looks.append((self, *use(self)))
        return looks[-1][1:]

    monkeypatch.setattr(launch.SandboxProcess, "_use", seen)
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
    "in files in memory": """
import mmap, time
maps = []
for place in ("/tmp", "/dev/shm", "/student"):
    with open(f"{place}/x", "w+b") as file:
        file.truncate(750 * 2**20)
        maps.append(mmap.mmap(file.fileno(), 0))
    maps[-1][::4096] = b"x" * len(maps[-1][::4096])
""",
}


@pytest.mark.parametrize("name", TOO_LARGE)
def test_memory_of_all_processes_together_has_a_bound(name, monkeypatch):
    monkeypatch.setattr(launch, "_PROCESSORS", 100)  # on a slow machine that limit would come first
    with Inside(limits=Limits(**WIDE, processes=12)) as made:
        with pytest.raises(ConnectionLost) as error:
            made.run(TOO_LARGE[name] + f"time.sleep({HANGS})")
        assert error.value.kind == "ended"
        assert made.why() == "the notebook used more than 2048 MB of memory and was stopped"


def test_without_shares_from_the_kernel_the_sums_count(tmp_path):
    """A kernel too old, one that does not show them, and a process that has ended."""
    started = SimpleNamespace(_proc=tmp_path)
    status, rollup = tmp_path / "7" / "status", tmp_path / "7" / "smaps_rollup"

    def mb(source, number="7"):
        return launch.SandboxProcess._mb(started, (number, "start"), source)

    status.parent.mkdir()
    status.write_text(
        "Name:\tx\nRssAnon:\t 3072 kB\nRssFile:\t 7168 kB\nRssShmem:\t 2048 kB\n"
        "VmSwap:\t 512 kB\nThreads:\t1\n"
    )
    assert mb(launch._SUMS) == mb(launch._SHARES) == 5.5
    rollup.write_text("5600-7ffd ---p 00000000 00:00 0 [rollup]\nRss: 12288 kB\nPss: 2048 kB\n")
    assert mb(launch._SHARES) == 5.5
    rollup.write_text(
        rollup.read_text() + "Pss_Anon: 1024 kB\nPss_File: 512 kB\n"
        "Pss_Shmem: 256 kB\nSwapPss: 256 kB\n"
    )
    assert mb(launch._SHARES) == 1.5 and mb(launch._SUMS) == 5.5
    assert mb(launch._SHARES, number="8") == 0


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
    started, last, lists = (
        launch.SandboxProcess.__new__(launch.SandboxProcess),
        lists[-1],
        iter(lists),
    )
    started._limits = Limits(memory=500, processes=8)

    def processes():
        started._ticks = dict.fromkeys(next(lists, last), 0)
        return started._ticks

    def memory(process, source):
        return 400 if source == launch._SUMS else 0 if process in ended else 200

    monkeypatch.setattr(started, "_processes", processes)
    monkeypatch.setattr(started, "_mb", memory)
    assert started._use() == (count, mb)


def test_memory_has_a_bound_that_python_sees(inside):
    assert "MemoryError" in inside.run("bytearray(2**31)")
    assert inside.value("1 + 1") == 2


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
KEYRINGS = {"add_key": (0, 0, 0, 0, 0), "request_key": (0, 0, 0, 0), "keyctl": (0, -3, 1, 0, 0)}


@pytest.mark.parametrize("name", KEYRINGS)
def test_keyrings_of_the_kernel_are_out_of_reach(inside, name):
    import pyseccomp  # late: it does not load where there is no libseccomp

    number = pyseccomp.resolve_syscall(pyseccomp.system_arch(), name)
    said = inside.run(SYSCALL.format(number=number, arguments=KEYRINGS[name]))
    assert said is not None and "Operation not permitted" in said


@pytest.mark.skipif(platform.machine() != "x86_64", reason="x32 is a second set of numbers there")
def test_the_numbers_of_another_architecture_end_the_process():
    with Inside() as made, pytest.raises(ConnectionLost):
        made.run(SYSCALL.format(number=0x40000000 + 39, arguments=()))  # getpid


def test_without_libseccomp_nothing_runs(monkeypatch):
    monkeypatch.setattr(launch, "find_library", lambda name: None)
    with pytest.raises(NoSandbox, match="apt install libseccomp2"):
        choose()


def test_one_notebook_does_not_take_all_processors(monkeypatch):
    monkeypatch.setattr(launch, "_BURST", 0)
    busy = (
        "import subprocess, sys, time\nkept = [subprocess.Popen([sys.executable, '-c', 'while "
        "True: pass']) for _ in range(12)]\n"
    )
    with Inside(limits=Limits(processes=20)) as made:
        monkeypatch.setattr(launch, "_PROCESSORS", 0.2)  # others are at work on this machine
        with pytest.raises(ConnectionLost) as error:
            made.run(busy + f"time.sleep({HANGS})")
        assert error.value.kind == "ended"
        assert made.why() == "the notebook kept more than one processor busy and was stopped"


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
        before, processes = made.started._processor_seconds(), len(made.started._ticks)
        assert made.run(code) is None
        assert eventually(lambda: made.started._processor_seconds() - before > 0.8), "while alive"
        assert (
            made.run(
                "open('/tmp/end', 'w')\ntry:\n    while True: os.wait()\n"
                "except ChildProcessError: pass"
            )
            is None
        )
        assert eventually(lambda: len(made.started._ticks) == processes), "they have ended"
        assert made.started._processor_seconds() - before > 0.8


def test_a_loop_is_a_matter_of_time():
    with Inside() as made:
        made.seconds = 1
        with pytest.raises(ConnectionLost) as error:
            made.run(
                "while True:\n    try:\n        while True: pass\n    except BaseException: pass"
            )
        assert error.value.kind == "time"
        processes = made.started._root
    assert eventually(lambda: not os.path.exists(f"/proc/{processes}")), "nothing of it is left"


def test_closing_ends_what_it_started():
    made, seconds = Inside(), f"987.{os.getpid()}"  # other tests may run on this machine
    assert (
        made.run(
            "import subprocess\n"
            f"kept = [subprocess.Popen(['sleep', '{seconds}']) for _ in range(3)]"
        )
        is None
    )
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


def test_without_a_sandbox_nothing_runs(monkeypatch, tmp_path):
    monkeypatch.setattr(launch.shutil, "which", lambda name: None)
    with pytest.raises(NoSandbox, match="sudo apt install bubblewrap"):
        choose()
    with pytest.raises(NoSandbox, match="--trust"):
        choose("none")
    assert choose(trust=True) == "none"
    with pytest.raises(ValueError, match="sandbox: got 'chroot'"):
        choose("chroot")
    monkeypatch.setattr(launch, "_succeeds", lambda *command: False)
    with pytest.raises(NoSandbox, match="docker does not answer"):
        choose("docker")
    monkeypatch.setattr(launch.shutil, "which", lambda name: "/usr/bin/bwrap")
    with pytest.raises(NoSandbox, match="may not make namespaces"):
        choose()


def test_on_windows_it_says_what_to_do(monkeypatch):
    from attnbook_grader.self_check import self_check

    for call in (lambda: choose(trust=True), choose, lambda: self_check("my.ipynb")):
        with (
            monkeypatch.context() as patch,
            pytest.raises(
                NoSandbox, match="judge notebooks on Linux and macOS; on Windows run them in WSL"
            ),
        ):
            patch.setattr(launch.os, "name", "nt")
            call()


def test_trust_runs_it_beside_us():
    with Inside("none") as made:
        assert made.value("1 + 1") == 2
        count, mb = made.started._use()
        assert count >= 1 and 10 < mb < LIMITS.memory
        with pytest.raises(ConnectionLost):
            made.run("import os\nos._exit(3)")


ENGINE = """#!{python}
import os, sys
arguments = sys.argv[1:]
if arguments[0] != "run":
    sys.exit(0)
open({log!r}, "w").write("\\n".join(arguments))
image = arguments.index("an-image")
for place, option in enumerate(arguments[:image]):
    if option == "--env":
        name, value = arguments[place + 1].split("=", 1)
        os.environ[name] = value
os.environ["PYTHONPATH"] = {roots!r}
os.environ["HOME"] = "/tmp"
os.execv(sys.executable, [sys.executable, *arguments[image + 2:]])
"""


def test_a_container_gets_no_more_than_the_sandbox(tmp_path, monkeypatch):
    """With an engine in place of docker that writes down what it is asked for and runs the
    program.
    """
    engine, log = tmp_path / "docker", tmp_path / "log"
    roots = os.pathsep.join([str(LIBRARY.parent), str(GRADER.parent)])
    engine.write_text(ENGINE.format(python=sys.executable, log=str(log), roots=roots))
    engine.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    assert choose("docker") == "docker"
    with Inside("docker", image="an-image") as made:
        assert made.value("1 + 1") == 2
    said = log.read_text().split("\n")
    for name, value in (
        ("--network", "none"),
        ("--cap-drop", "ALL"),
        ("--security-opt", "no-new-privileges"),
        ("--memory", "1024m"),
        ("--cpus", "1.25"),
    ):
        assert said[said.index(name) + 1] == value
    assert "--read-only" in said and "--rm" in said
    volumes = [said[place + 1] for place, one in enumerate(said) if one == "--volume"]
    assert volumes and all(one.endswith(":ro") for one in volumes)
    silent, inner = GRADER / "protocol" / "silent", "/opt/attnbook"
    assert f"{silent}:{inner}/attnbook/checks:ro" in volumes
    for part in ("course", "grading", "notebooks", "sandbox"):
        assert f"{silent}:{inner}/attnbook_grader/{part}:ro" in volumes
    assert f"{silent}/__init__.py:{inner}/attnbook_grader/commands.py:ro" in volumes
    with pytest.raises(ValueError, match="image"):
        start("docker", LIMITS)


def test_limits_are_checked():
    with pytest.raises(ValueError, match="memory: got 0, expected a number above 0"):
        Limits(memory=0)


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
