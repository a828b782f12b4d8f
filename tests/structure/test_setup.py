"""The set-up script: what it would tell pip, in each situation; its stamp; and that it keeps a
PyTorch that is there.
"""

import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from packaging.version import Version
from recipes import recipe

from bookbuild import wheel

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture()
def script(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    import setup_env

    return setup_env


def test_torch_that_is_there_is_kept(script, tmp_path):
    (command,) = script.commands(
        "python", {"torch": "2.11.0+cu128", "numpy": "2.1.3"}, tmp_path / "c.txt"
    )
    assert (tmp_path / "c.txt").read_text() == "torch==2.11.0+cu128\nnumpy==2.1.3\n"
    assert command[command.index("-c") + 1] == str(tmp_path / "c.txt")


def test_old_torch_does_not_count(script, monkeypatch):
    versions = {"torch": "2.8.1+cpu", "numpy": "2.1.3"}
    monkeypatch.setattr(script.metadata, "version", versions.__getitem__)
    assert script.installed() == {}
    versions["torch"] = "2.10.0a0+git123"
    assert script.installed() == versions


@pytest.mark.parametrize(
    "version",
    ["2.9.0a0+git1", "2.9.0rc2", "2.9.0.dev20250901", "2.9.0", "2.9", "2.9.1a0", "2.10.0a0"],
)
def test_a_torch_that_is_there_is_taken_if_pip_takes_it(script, version):
    """Of a version that is installed, pip compares the number, of a pre-release too."""
    assert script.new_enough(version) == (Version(version) >= Version("2.9"))


def test_ci_uses_the_lock_and_takes_torch_first(script, monkeypatch, tmp_path):
    monkeypatch.setattr(script, "CI", True)
    first, second = script.commands("python", {}, tmp_path / "c.txt")
    assert first[-1].startswith("torch==") and str(script.LOCK) in second


def test_others_get_lower_bounds(script, monkeypatch, tmp_path):
    monkeypatch.setattr(script, "CI", False)
    (command,) = script.commands("python", {}, tmp_path / "c.txt")
    assert "-c" not in command and all("-e" == one for one in command[-6::2])
    assert [one.split("[")[0] for one in command[-5::2]] == [".", "./bookbuild", "./grader"]


@pytest.mark.parametrize(
    ("change", "taken"),
    [
        ({}, True),
        ({"base": {"torch": "2.13.0", "numpy": "2.4"}}, False),
        ({"platform": "darwin"}, False),
        ({"driver": "/usr/bin/nvidia-smi"}, False),
        ({"index": "https://example.org/simple"}, False),
        ({"CI": True}, False),
        ({"OLDEST": True}, False),
        ({"COLAB": True}, False),
    ],
    ids=str,
)
def test_a_linux_without_an_nvidia_driver_gets_torch_for_the_cpu(
    script, monkeypatch, change, taken
):
    monkeypatch.setattr(script, "CI", change.get("CI", False))
    monkeypatch.setattr(script, "OLDEST", change.get("OLDEST", False))
    monkeypatch.setattr(script, "COLAB", change.get("COLAB", False))
    monkeypatch.setattr(script.sys, "platform", change.get("platform", "linux"))
    monkeypatch.setattr(script.shutil, "which", lambda name: change.get("driver"))
    for name in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    if "index" in change:
        monkeypatch.setenv("PIP_EXTRA_INDEX_URL", change["index"])
    command = script.cpu_build("python", change.get("base", {}))
    assert (command is not None) == taken
    if command is not None:
        assert command[-3:] == ["--extra-index-url", script.CPU_BUILDS, "torch"]


def test_every_extra_is_installed(script):
    import tomllib

    for project in script.PROJECTS:
        folder, _, extras = project.rstrip("]").partition("[")
        written = tomllib.loads((ROOT / folder / "pyproject.toml").read_text())["project"]
        assert set(filter(None, extras.split(","))) == set(written.get("optional-dependencies", ()))


def test_the_second_call_does_nothing_and_a_change_does_something(script, monkeypatch, tmp_path):
    ran = []
    monkeypatch.setattr(
        script.subprocess,
        "run",
        lambda command, **k: ran.append(command) or subprocess.CompletedProcess(command, 0),
    )
    monkeypatch.setattr(script, "CI", False)
    monkeypatch.setattr(script, "installed", dict)
    monkeypatch.setattr(script, "cpu_build", lambda *given: None)
    folder = tmp_path / "venv"
    python = script.python_of(folder)
    python.parent.mkdir(parents=True)
    python.touch()
    script.main(folder)
    assert len(ran) == 1
    script.main(folder)
    assert len(ran) == 1
    monkeypatch.setattr(script, "PROJECTS", (".[lab]",))
    script.main(folder)
    assert len(ran) == 2


def test_a_failed_installation_leaves_no_stamp(script, monkeypatch, tmp_path):
    monkeypatch.setattr(
        script.subprocess, "run", lambda command, **k: subprocess.CompletedProcess(command, 1)
    )
    monkeypatch.setattr(script, "CI", False)
    folder = tmp_path / "venv"
    python = script.python_of(folder)
    python.parent.mkdir(parents=True)
    python.touch()
    with pytest.raises(SystemExit):
        script.main(folder)
    assert not (folder / "attnbook-setup").exists()


def test_make_passes_the_status_of_pytest_on():
    """A red test makes `make test` red: the recipe has no pipe and no `|| true`."""
    last = recipe("test").splitlines()[-1]
    assert "-m pytest" in last and "|" not in last and ";" not in last


def test_what_conda_gives_to_pip_is_what_make_installs(script, monkeypatch, tmp_path):
    """environment.yml names the same projects and extras."""
    monkeypatch.setattr(script, "CI", False)
    (made,) = script.commands("python", {}, tmp_path / "c.txt")
    monkeypatch.setattr(script, "ENVIRONMENT", True)
    (conda,) = script.commands("python", {}, tmp_path / "c.txt")

    def extras(words):
        return [
            (w.partition("[")[0], set(w.rstrip("]").partition("[")[2].split(","))) for w in words
        ]

    assert extras(conda[-6:]) == extras(made[-6:]) and conda[-6::2] == ["-e"] * 3


@pytest.mark.slow
def test_the_wheel_carries_data_and_results(tmp_path):
    """Unpacked, and away from the tree, attnbook.resources finds its files."""
    away = wheel.unpacked(ROOT)
    code = (
        "import attnbook.resources as r; print(r.path('data/registry.csv'), "
        "r.path('results/README.md'), len(r.text('data/registry.csv')))"
    )
    said = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={"PYTHONPATH": str(away)},
    )
    assert str(away) in said.stdout, said.stderr
    listed = {
        p.relative_to(ROOT / "results").as_posix()
        for p in (ROOT / "results").rglob("*")
        if p.is_file() and not p.name.startswith(".")
    }
    assert listed == {
        p.relative_to(away / "attnbook" / "_results").as_posix()
        for p in (away / "attnbook" / "_results").rglob("*")
        if p.is_file()
    }


@pytest.mark.slow
def test_the_source_distribution_builds_the_same_wheel(tmp_path):
    """File by file, with one name and one set of metadata: what PyPI gets of a release."""
    wheel.copy_sources(ROOT, tmp_path / "sources")
    build = "from setuptools import build_meta; build_meta.build_sdist('..')"
    done = subprocess.run(
        [sys.executable, "-c", build], cwd=tmp_path / "sources", capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    with tarfile.open(next(tmp_path.glob("attnbook-*.tar.gz"))) as archive:
        archive.extractall(tmp_path, filter="data")
    (unpacked,) = tmp_path.glob("attnbook-*/")
    (tmp_path / "work").mkdir()
    built = zipfile.ZipFile(wheel.build(unpacked, tmp_path / "work"))
    away = wheel.unpacked(ROOT)
    files = {
        p.relative_to(away).as_posix(): p
        for p in away.rglob("*")
        if p.is_file() and "__pycache__" not in p.parts
    }
    assert {n for n in built.namelist() if not n.endswith("/")} == set(files)
    assert [n for n, path in files.items() if built.read(n) != path.read_bytes()] == []


@pytest.mark.slow
def test_the_description_on_pypi_has_no_link_that_leads_nowhere():
    (about,) = wheel.unpacked(ROOT).glob("attnbook-*.dist-info/METADATA")
    links = re.findall(r"\]\(([^)\s]+)\)", about.read_text(encoding="utf-8"))
    assert len(links) > 50 and [link for link in links if not link.startswith("https://")] == []
