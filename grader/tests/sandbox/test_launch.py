"""Which sandbox is chosen and how it is started."""

import os
import sys

import pytest

from attnbook_grader.protocol.rpc import ConnectionLost
from attnbook_grader.sandbox import launch
from attnbook_grader.sandbox.launch import NoSandbox, choose, start

from .conftest import GRADER, LIBRARY, LIMITS, Inside

pytestmark = pytest.mark.usefixtures("bubblewrap")


def test_without_libseccomp_nothing_runs(monkeypatch):
    monkeypatch.setattr(launch, "find_library", lambda name: None)
    with pytest.raises(NoSandbox, match="apt install libseccomp2"):
        choose()


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
    words = "judges notebooks on Linux and macOS; on Windows run it in WSL"
    for call in (lambda: choose(trust=True), choose):
        with monkeypatch.context() as patch, pytest.raises(NoSandbox, match=words):
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
    """With an engine in place of docker that writes down what it is asked and runs the program."""
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
    assert f"{silent}:{inner}/attnbook_exercises/checks:ro" in volumes
    assert f"{silent}/__init__.py:{inner}/attnbook/checks.py:ro" in volumes
    for part in ("course", "grading", "notebooks", "sandbox"):
        assert f"{silent}:{inner}/attnbook_grader/{part}:ro" in volumes
    assert f"{silent}/__init__.py:{inner}/attnbook_grader/commands.py:ro" in volumes
    with pytest.raises(ValueError, match="image"):
        start("docker", LIMITS)
