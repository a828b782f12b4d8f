"""What code in the sandbox can see, reach and write."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from attnbook_grader.sandbox import visible
from bookbuild.wheel import unpacked

from .conftest import EXERCISES, GRADER, LIBRARY, Inside

ROOT = Path(__file__).resolve().parents[3]
HELPERS = (ROOT, ROOT / "tests" / "helpers")

pytestmark = pytest.mark.usefixtures("bubblewrap")


def test_only_what_python_needs_is_there(inside, tmp_path):
    (tmp_path / "marks.csv").write_text("secret")
    assert not inside.value(f"os.path.exists({str(tmp_path / 'marks.csv')!r})")
    ours = "chapters tests .git bookbuild/source.py attnbook_exercises/checks/ch00_attention"
    graders = "tests attnbook_grader/course/assignments.py attnbook_grader/sandbox/launch.py"
    graders += " attnbook_grader/grading/rounds.py attnbook_grader/notebooks/submissions.py"
    for root, paths in ((LIBRARY.parent, ours), (GRADER.parent, graders)):
        for path in paths.split():
            assert not inside.value(f"os.path.exists({str(root / path)!r})"), path
    folders = [GRADER / part for part in ("course", "grading", "notebooks", "sandbox")]
    for folder in (EXERCISES / "checks", *folders):
        names = inside.value(f"os.listdir({str(folder)!r})")
        assert [name for name in names if name.endswith(".py")] == ["__init__.py"]
    for path in (GRADER / "commands.py", GRADER / "self_check.py", LIBRARY / "checks.py"):
        assert "import" not in inside.value(f"open({str(path)!r}).read()")
    assert inside.value(f"os.path.exists({str(GRADER / 'protocol' / 'child.py')!r})")
    assert inside.value("attnbook.masked_softmax is not None")
    home = os.path.expanduser("~")
    keys = [] if sys.prefix.startswith(home) else [f"{home}/.ssh"]
    for path in ("/etc/passwd", "/etc/shadow", "/student/x", "/var", "/run", *keys):
        assert not inside.value(f"os.path.exists({path!r})"), path


HIDDEN = (
    "attnbook/checks",  # where they were in older versions
    "attnbook_exercises/checks",
    "attnbook_grader/course",
    "attnbook_grader/anything",
    "bookbuild",
)


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
    monkeypatch.setattr(visible, "SYSTEM", tmp_path / "usr")
    assert second not in visible.python_folders()
    names = {"attnbook", "attnbook_exercises", "attnbook_grader", "bookbuild"}
    assert {second / name for name in names} <= set(visible.copies())


FROM_A_WHEEL = """
import attnbook_exercises.checks
from attnbook_grader.sandbox.limits import Limits
from attnbook_grader.sandbox.session import ATTEMPTS
from sandbox.conftest import Inside
print(attnbook_exercises.__path__[0])
with Inside() as made:
    print(made.run("from attnbook.checks import check; check('00.weighted_sum', None)"))
    assert made.run("import attnbook.checks, attnbook.experiments") is None
    assert made.run("import attnbook_exercises.answers.guarded") is None
    print(made.value("sorted(vars(attnbook.checks).keys() & {'check', 'find', 'exercises'})"))
    print(made.value("attnbook_exercises.answers.guarded.guarded is not None"))
    print(made.value("attnbook.experiments.__name__"))
"""


def test_the_checks_of_an_installed_wheel_are_hidden(tmp_path):
    wheel = unpacked(ROOT)
    path = os.pathsep.join(map(str, [wheel, GRADER.parent, GRADER.parent / "tests", *HELPERS]))
    done = subprocess.run(
        [sys.executable, "-c", FROM_A_WHEEL],
        env={**os.environ, "PYTHONPATH": path},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.stdout.splitlines() == [
        str(wheel / "attnbook_exercises"),
        "None",
        "['check']",
        "True",
        "attnbook_runs",
    ], done.stderr


def test_checks_are_silent(inside):
    silent = "from attnbook.checks import check, grade\ncheck('00.weighted_sum', None)"
    assert inside.run(silent) is None
    module = "attnbook_exercises.checks.ch00_attention.soft_lookup"
    assert "ch00_attention" in inside.run(f"import {module}")
    both = "import attnbook_exercises.checks, attnbook_exercises.answers.guarded"
    assert inside.run(both) is None
    assert "hidden" in inside.value("attnbook_exercises.checks.__doc__")
    assert inside.value("attnbook_exercises.answers.guarded.guarded is not None")
    assert inside.run("import attnbook_grader.grading.rounds") is not None
    assert inside.run("from attnbook_grader.commands import course") is not None


def test_nothing_of_the_grader_s_environment_is_there(inside):
    known = {*visible.variables("", ""), "PWD", "LC_CTYPE", "SHLVL", "_"}
    assert set(inside.value("sorted(os.environ)")) <= known


def test_the_code_has_no_rights(inside):
    status = dict(
        line.split(":\t")
        for line in inside.value("open('/proc/self/status').read()").splitlines()
        if ":\t" in line
    )
    assert status["NoNewPrivs"] == "1"
    for name in ("CapEff", "CapPrm", "CapInh", "CapBnd", "CapAmb"):
        assert int(status[name], 16) == 0
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
    (
        "/x /usr/x /etc/x /dev/x /proc/sys/kernel/core_pattern /proc/sys/vm/swappiness "
        "{prefix}/x {package}/x.py {package}/__init__.py {package}_exercises/checks/x.py"
    ).split(),
)
def test_nothing_outside_can_be_written(inside, path):
    path = path.format(prefix=sys.prefix, package=LIBRARY)
    said = inside.run(f"open({path!r}, 'a').write('x')")
    assert any(word in (said or "") for word in ("Read-only", "denied", "Permission")), said


def test_there_is_no_network(inside):
    connect = "import socket\nsocket.create_connection(({!r}, {}), 2)"
    said = inside.run(connect.format("192.0.2.1", 80))
    assert "OSError" in said or "unreachable" in said
    assert inside.run("socket.gethostbyname('example.org')") is not None
    with socket.create_server(("127.0.0.1", 0)) as server:  # of the host
        for port in (22, server.getsockname()[1]):
            assert inside.run(connect.format("127.0.0.1", port)) is not None


def test_its_processes_are_its_own(inside):
    seen = inside.value("[int(name) for name in os.listdir('/proc') if name.isdigit()]")
    assert len(seen) <= 4 and os.getpid() not in seen or max(seen) < 20
    assert inside.run("os.kill(1, 9)") is not None or inside.value("os.getpid()") > 1


def test_its_folder_has_a_quota(inside):
    write = "with open({}, 'wb') as file:\n    {}file.write(bytes(2**20))"
    for folder in ("/student", "/tmp", "/dev/shm"):
        large = write.format(f"'{folder}/x'", "for _ in range(20): ")
        assert "OSError" in inside.run(large), folder
        many = write.format(f"f'{folder}/{{i}}'", "").replace("\n", "\n    ")
        assert "No space" in inside.run(f"for i in range(20):\n    {many}"), folder
        clear = f"import glob\nfor path in glob.glob('{folder}/[0-9x]*'):\n    os.remove(path)"
        assert inside.run(clear) is None
