"""The address of the book: written once, in `_config.yml`; one command changes it everywhere."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from bookbuild.address import read_address

ROOT = Path(__file__).resolve().parents[2]
ADDRESS = read_address(ROOT)
OWNER, NAME = ADDRESS.repository.split("/")[-2:]
HOST = ADDRESS.site.split("/")[2]


def tracked() -> list[str]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("not a git checkout: which files belong to the book is not known")
    return [name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


def set_address(*arguments: str) -> subprocess.CompletedProcess:
    command = [sys.executable, str(ROOT / "tools" / "set_address.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True)


def test_code_and_sources_read_the_address_and_do_not_repeat_it():
    names = [n for n in tracked() if n.startswith("sources/") or n.endswith((".py", ".js", ".sh"))]
    texts = {name: (ROOT / name).read_text(encoding="utf-8") for name in names}
    assert len(texts) > 500
    assert [n for n, t in texts.items() if f"{OWNER}/{NAME}" in t or HOST in t] == []


def test_the_configuration_says_it_once():
    config = (ROOT / "_config.yml").read_text(encoding="utf-8")
    assert config.count(ADDRESS.repository) == 1 and config.count(HOST) == 1


def test_every_other_file_has_the_address_of_the_configuration():
    ours = re.compile(rf"https://github\.com/[\w-]+/{NAME}\b|https://[\w-]+\.github\.io/{NAME}/")
    allowed = {ADDRESS.repository, ADDRESS.site}
    for name in tracked():
        text = (ROOT / name).read_bytes().decode("utf-8", errors="ignore")
        assert set(ours.findall(text)) <= allowed, name


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """The book, with its address changed by the command."""
    folder = tmp_path_factory.mktemp("fork")
    for name in tracked():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, target)
    for command in (["init", "-q"], ["add", "-A"]):
        subprocess.run(["git", *command], cwd=folder, check=True)
    said = set_address("https://github.com/some-school/nlp", "--root", str(folder))
    assert said.returncode == 0, said.stderr
    return folder


@pytest.mark.slow
def test_in_a_fork_the_old_address_is_nowhere(copy):
    for old in (ADDRESS.repository, f"{OWNER}/{NAME}", HOST):
        found = subprocess.run(["git", "grep", "-lF", old], cwd=copy, capture_output=True)
        assert found.stdout == b""
    new = read_address(copy)
    assert new.repository == "https://github.com/some-school/nlp"
    assert new.site == "https://some-school.github.io/nlp/"
    for name in ("README.md", "intro.md"):
        text = (copy / name).read_text(encoding="utf-8")
        assert f"git clone {new.repository}\ncd nlp\n" in text, name
    yaml.safe_load((copy / "CITATION.cff").read_text(encoding="utf-8"))


@pytest.mark.slow
def test_in_a_fork_no_output_has_changed_and_notebooks_are_what_their_sources_say(copy):
    for path in sorted((ROOT / "chapters").glob("*/*.ipynb")):
        before, after = (
            [c.get("outputs") for c in json.loads(p.read_text(encoding="utf-8"))["cells"]]
            for p in (path, copy / path.relative_to(ROOT))
        )
        assert before == after, path.name
    check = [sys.executable, "tools/build_notebooks.py", "--check", "sources/06_transformer"]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(copy), str(copy / "tools")])}
    done = subprocess.run(check, cwd=copy, capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    "arguments, said",
    [
        (["https://gitlab.com/a/b"], "must look like https://github.com/OWNER/NAME"),
        (["https://github.com/only-owner"], "must look like https://github.com/OWNER/NAME"),
        (["https://github.com/a/b", "--site", "a.github.io"], "must look like https://HOST/PATH/"),
    ],
)
def test_an_address_that_is_none_is_named(tmp_path, arguments, said):
    shutil.copy(ROOT / "_config.yml", tmp_path)
    done = set_address(*arguments, "--root", str(tmp_path))
    assert done.returncode == 2 and said in done.stderr
    assert (tmp_path / "_config.yml").read_bytes() == (ROOT / "_config.yml").read_bytes()
