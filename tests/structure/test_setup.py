"""The set-up script: what it would tell pip, its stamp; and that it keeps a PyTorch."""

import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path
from unittest import mock

import pytest
from packaging.version import Version

import setup_env
from bookbuild import wheel

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def no_ci(monkeypatch):
    """Whoever runs these tests: a reader."""
    for name in ("CI", "OLDEST", "COLAB"):
        monkeypatch.setattr(setup_env, name, False)


def test_torch_that_is_there_is_kept(tmp_path):
    there = {"torch": "2.11.0+cu128", "numpy": "2.1.3"}
    (command,) = setup_env.commands("python", there, tmp_path / "c.txt")
    assert (tmp_path / "c.txt").read_text() == "torch==2.11.0+cu128\nnumpy==2.1.3\n"
    assert command[command.index("-c") + 1] == str(tmp_path / "c.txt")


@pytest.mark.parametrize(
    "version",
    ["2.9.0a0+git1", "2.9.0rc2", "2.9.0.dev20250901", "2.9.0", "2.9", "2.9.1a0", "2.10.0a0"],
)
def test_a_torch_that_is_there_is_taken_if_pip_takes_it(version, monkeypatch):
    """Of a version that is installed, pip compares the number, of a pre-release too."""
    there = {"torch": version, "numpy": "2.1.3"}
    monkeypatch.setattr(setup_env.metadata, "version", there.__getitem__)
    assert setup_env.installed() == (there if Version(version) >= Version("2.9") else {})


def test_ci_uses_the_lock_and_takes_torch_first(monkeypatch, tmp_path):
    monkeypatch.setattr(setup_env, "CI", True)
    first, second = setup_env.commands("python", {}, tmp_path / "c.txt")
    assert first[-1].startswith("torch==") and str(setup_env.LOCK) in second


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
def test_a_linux_without_an_nvidia_driver_gets_torch_for_the_cpu(monkeypatch, change, taken):
    for name in change.keys() & {"CI", "OLDEST", "COLAB"}:
        monkeypatch.setattr(setup_env, name, True)
    monkeypatch.setattr(setup_env.sys, "platform", change.get("platform", "linux"))
    monkeypatch.setattr(setup_env.shutil, "which", lambda name: change.get("driver"))
    monkeypatch.delenv("PIP_INDEX_URL", raising=False)
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", change.get("index", ""))
    command = setup_env.cpu_build("python", change.get("base", {}))
    assert (command is not None) == taken
    if command is not None:
        assert command[-3:] == ["--extra-index-url", setup_env.CPU_BUILDS, "torch"]


def projects(words):
    """{folder: extras} of what pip is told to install."""
    parts = [word.rstrip("]").partition("[") for word in words]
    return {folder: set(filter(None, extras.split(","))) for folder, _, extras in parts}


def test_every_extra_is_installed_by_make_and_by_conda(monkeypatch, tmp_path):
    """At lower bounds; environment.yml names the same projects and extras."""
    written = {}
    for folder in (".", "./bookbuild", "./grader"):
        project = tomllib.loads((ROOT / folder / "pyproject.toml").read_text())["project"]
        written[folder] = set(project.get("optional-dependencies", ()))
    (made,) = setup_env.commands("python", {}, tmp_path / "c.txt")
    monkeypatch.setattr(setup_env, "ENVIRONMENT", True)
    (conda,) = setup_env.commands("python", {}, tmp_path / "c.txt")
    for command in (made, conda):
        assert "-c" not in command and command[-6::2] == ["-e"] * 3
        assert projects(command[-5::2]) == written


@pytest.fixture
def folder(tmp_path):
    """An environment with a Python in it."""
    python = setup_env.python_of(tmp_path / "venv")
    python.parent.mkdir(parents=True)
    python.touch()
    return tmp_path / "venv"


def test_the_second_call_does_nothing_and_a_change_does_something(monkeypatch, folder):
    run = mock.Mock(return_value=subprocess.CompletedProcess([], 0))
    monkeypatch.setattr(setup_env.subprocess, "run", run)
    monkeypatch.setattr(setup_env, "installed", dict)
    monkeypatch.setattr(setup_env, "cpu_build", lambda *given: None)
    for _ in range(2):
        setup_env.main(folder)
        assert run.call_count == 1
    monkeypatch.setattr(setup_env, "PROJECTS", (".[lab]",))
    setup_env.main(folder)
    assert run.call_count == 2


def test_a_failed_installation_leaves_no_stamp(monkeypatch, folder):
    failed = mock.Mock(return_value=subprocess.CompletedProcess([], 1))
    monkeypatch.setattr(setup_env.subprocess, "run", failed)
    with pytest.raises(SystemExit):
        setup_env.main(folder)
    assert not (folder / "attnbook-setup").exists()


def files(folder):
    paths = [p for p in folder.rglob("*") if p.is_file() and "__pycache__" not in p.parts]
    return {p.relative_to(folder).as_posix(): p for p in paths if not p.name.startswith(".")}


@pytest.mark.slow
def test_the_wheel_carries_data_and_results(tmp_path):
    """Unpacked, and away from the tree, attnbook.resources finds its files."""
    away = wheel.unpacked(ROOT)
    code = (
        "import attnbook.resources as r; print(r.path('data/registry.csv'), "
        "r.path('results/README.md'), len(r.text('data/registry.csv')))"
    )
    env = {"PYTHONPATH": str(away)}
    command = [sys.executable, "-c", code]
    said = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=env)
    assert str(away) in said.stdout, said.stderr
    assert files(ROOT / "results").keys() == files(away / "attnbook" / "_results").keys()


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
    ours = files(wheel.unpacked(ROOT))
    assert {n for n in built.namelist() if not n.endswith("/")} == set(ours)
    assert [n for n, path in ours.items() if built.read(n) != path.read_bytes()] == []


@pytest.mark.slow
def test_the_description_on_pypi_has_no_link_that_leads_nowhere():
    (about,) = wheel.unpacked(ROOT).glob("attnbook-*.dist-info/METADATA")
    links = re.findall(r"\]\(([^)\s]+)\)", about.read_text(encoding="utf-8"))
    assert len(links) > 50 and [link for link in links if not link.startswith("https://")] == []
