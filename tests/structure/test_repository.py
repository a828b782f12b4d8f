"""The files around the book: nothing of one machine or unfinished, links hold, versions agree."""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from itertools import chain
from pathlib import Path

import nbformat
import pytest
import yaml
from packaging.requirements import Requirement
from packaging.version import Version

import attnbook
import make_layout
from bookbuild.address import read_address

ROOT = Path(__file__).resolve().parents[2]
PROJECT, *OTHERS = PROJECTS = [
    tomllib.loads((ROOT / folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for folder in (".", "bookbuild", "grader")
]
OURS = [project["name"] for project in PROJECTS]
TEXT = set(".py .md .toml .yml .yaml .ipynb .json .sh .cfg .csv .css .bib .cff .txt".split()) | {""}
# Written in two parts, so that this file does not contain what it looks for.
MACHINE = re.compile(
    r"(?<![\w.}$])/(?:wo" + r"rk|ro" + r"ot|ho" + r"me/\w+|Us" + r"ers/\w+|t" + r"mp/\w+)/[\w./-]+"
)
UNFINISHED = re.compile(
    r"\b(TO" + r"DO|FIX" + r"ME|X" + r"XX|place" + r"holder|coming so" + r"on|lorem ip" + r"sum)\b",
    re.IGNORECASE,
)


def tracked() -> list[Path]:
    """Files of text under version control (all files where there is no git, as in an unpacked
    archive), vendored ones left out.
    """
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    paths = [ROOT / name for name in listed.stdout.split("\0") if name]
    if listed.returncode:
        paths = [p for p in ROOT.rglob("*") if not {".venv", "build", "_build"} & set(p.parts)]
    vendored = {"katex", "minisearch"}
    paths = [p for p in paths if p.suffix in TEXT and not vendored & set(p.parts) and p.is_file()]
    return [p for p in paths if p.stat().st_size < 3_000_000]


def hits(pattern: re.Pattern, paths: list[Path]) -> list[str]:
    return [f"{p.name}: {m.group(0)}" for p in paths for m in pattern.finditer(_prose(p))]


def _prose(path: Path) -> str:
    text = path.read_text(encoding="utf-8", errors="ignore")
    return re.sub(r'"image/png": "[^"]*"', "", text) if path.suffix == ".ipynb" else text


@pytest.mark.parametrize("pattern", [MACHINE, UNFINISHED], ids=["machine", "unfinished"])
def test_no_path_of_one_machine_and_nothing_unfinished(pattern):
    assert hits(pattern, tracked()) == []


def test_names_of_files_are_plain():
    """No blank, quote or arrow, as where a shell took a line of code for the name of a file."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    names = [name for name in listed.stdout.split("\0") if name]
    assert [
        name for name in names if not re.fullmatch(r"\w[\w.+-]*|\.\w[\w.+-]*", Path(name).name)
    ] == []


def test_planted_paths_and_words_are_seen(tmp_path):
    bad = tmp_path / "a.md"
    bad.write_text("see /wo" + "rk/main/x.py\nTO" + "DO: write this\n")
    assert len(hits(MACHINE, [bad])) == 1 and len(hits(UNFINISHED, [bad])) == 1


def links(path: Path) -> list[str]:
    """Targets of the Markdown links and pictures of a file, addresses of the web left out."""
    text = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    found = re.findall(r"\]\(([^)\s]+)\)", text) + re.findall(r'(?:src|href)="([^"]+)"', text)
    return [t.split("#")[0] for t in found if not re.match(r"[a-z]+:", t) and t.split("#")[0]]


FOLDERS = (".", "api", "appendix", "benchmarks", "contributing", "data", "results")
PAGES = [p.relative_to(ROOT).as_posix() for f in FOLDERS for p in sorted((ROOT / f).glob("*.md"))]


@pytest.mark.parametrize("name", PAGES)
def test_links_of_the_pages_exist(name):
    page = ROOT / name
    assert [t for t in links(page) if not (page.parent / t).exists()] == []


def colab(text: str) -> list[str]:
    return re.findall(rf"{re.escape(read_address(ROOT).on_colab(''))}([^)\s\"]+)", text)


def test_the_readme_opens_every_notebook_on_colab():
    badges = colab((ROOT / "README.md").read_text(encoding="utf-8"))
    notebooks = (ROOT / "chapters").glob("*/*.ipynb")
    assert sorted(badges) == sorted(p.relative_to(ROOT).as_posix() for p in notebooks)


def test_the_readme_counts_the_sections_with_a_full_setting():
    texts = [p.read_text(encoding="utf-8") for p in (ROOT / "sources").glob("0*/*.md")]
    full = sum("\n*quick: " in text for text in texts)
    assert f"In {full} of the {len(texts)} sections" in (ROOT / "README.md").read_text("utf-8")


def _title(notebook: Path) -> str:
    return nbformat.read(notebook, as_version=4).cells[0].source.partition("\n")[0].lstrip("# ")


@pytest.mark.parametrize(
    "page", sorted(p.relative_to(ROOT).as_posix() for p in (ROOT / "chapters").glob("*/index.md"))
)
def test_lists_of_sections_call_them_by_their_titles(page):
    """Each chapter's page names its sections, in the words over them."""
    text = (ROOT / page).read_text(encoding="utf-8")
    entries = re.findall(r"^- \[([^\]]+)\]\(([^)]+)\.ipynb\)", text, flags=re.MULTILINE)
    folder = (ROOT / page).parent
    for said, name in entries:
        assert _title(folder / f"{name}.ipynb") == said
    assert {p.stem for p in folder.glob("*.ipynb")} == {Path(name).name for _, name in entries}


def test_every_command_of_the_makefile_has_a_way_without_make():
    make = (ROOT / "Makefile").read_text(encoding="utf-8")
    readme = (ROOT / "contributing" / "commands.md").read_text(encoding="utf-8")
    for target in re.findall(r"^([a-z-]+):.*##", make, flags=re.MULTILINE):
        if target not in ("help", "clean"):
            assert f"make {target}" in readme, target
    for script in re.findall(r"tools/\w+\.py", make):
        assert script in readme and (ROOT / script).exists(), script


def test_a_red_test_makes_make_test_red():
    """No line with pytest has a pipe or a `|| true`."""
    lines = (ROOT / "Makefile").read_text(encoding="utf-8").splitlines()
    tests = [line for line in lines if "-m pytest" in line]
    assert tests and not [line for line in tests if "|" in line or ";" in line]


def test_the_package_needs_little_and_sets_lower_bounds_only():
    """An upper pin would fight with what Colab or a reader has; the website's are for its own
    extra. What an engineer installs stays small; the tools and the grader run the book's pages.
    """
    extras = PROJECT["optional-dependencies"].items()
    lines = [*PROJECT["dependencies"], *(li for e, of in extras if e != "website" for li in of)]
    for project in OTHERS:
        assert "attnbook[book]" in project["dependencies"]
        lines += project["dependencies"]
    for one in map(Requirement, lines):
        assert one.name in OURS or [s.operator for s in one.specifier] == [">="], one
    needed = {Requirement(line).name for line in PROJECT["dependencies"]}
    assert needed == {"torch", "numpy", "safetensors", "tqdm"}


def test_notebooks_install_what_colab_lacks():
    """Colab's image of August 2026 has tokenizers, and neither sacrebleu nor pycocoevalcap."""
    lacking = {
        "sacrebleu": r"from attnbook\.training import [^\n]*\bbleu\b",
        "pycocoevalcap": r"\bcider\b *\(",
    }
    texts = {p: p.read_text(encoding="utf-8") for p in (ROOT / "sources").rglob("*.md")}
    found = {name: [p for p in texts if re.search(lacking[name], texts[p])] for name in lacking}
    assert [p.stem for p in found["sacrebleu"]] == ["translation"]
    for name, paths in found.items():
        assert [p for p in paths if f"%pip install -q {name}" not in texts[p]] == []


def test_the_lock_answers_every_requirement():
    """Each package of the three pyproject.toml stands in the lock, at a version that its bound
    allows.
    """
    lock = dict(
        line.split("==")
        for line in (ROOT / "requirements" / "ci-lock.txt").read_text().splitlines()
        if "==" in line and line[0] != "#"
    )
    lock = {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in lock.items()}
    for project in PROJECTS:
        extras = project.get("optional-dependencies", {}).values()
        for one in map(Requirement, chain(project["dependencies"], *extras)):
            name = re.sub(r"[-_.]+", "-", one.name).lower()
            if name not in ("setuptools", *OURS):
                assert name in lock and one.specifier.contains(Version(lock[name])), one


@pytest.mark.skipif(sys.platform == "win32", reason="the workflow runs in bash, on Linux")
@pytest.mark.parametrize(
    ("tag", "heading", "published"),
    [
        ("v{}", "## {} – 2026-11-29", True),
        ("{}", "## {} – 2026-11-29", False),
        ("v{}.1", "## {} – 2026-11-29", False),
        ("v{}", "## Unreleased", False),
        ("v{}", "## {}", False),
    ],
)
def test_only_a_tag_that_names_the_version_is_published(tmp_path, tag, heading, published):
    """The check of the workflow, as it stands there; and a dated heading in the changelog."""
    workflow = ROOT / ".github" / "workflows" / "publish.yml"
    jobs = yaml.safe_load(workflow.read_text(encoding="utf-8"))["jobs"]
    assert jobs["pypi"]["needs"] == "build"
    (check,) = [s["run"] for s in jobs["build"]["steps"] if "GITHUB_REF_NAME" in s.get("run", "")]
    (tmp_path / "attnbook").mkdir()
    shutil.copy(ROOT / "attnbook" / "version.py", tmp_path / "attnbook")
    text = heading.format(attnbook.__version__)
    (tmp_path / "CHANGELOG.md").write_text(f"# Changelog\n\n{text}\n", encoding="utf-8")
    done = subprocess.run(
        ["bash", "-e", "-c", check],
        cwd=tmp_path,
        env={**os.environ, "GITHUB_REF_NAME": tag.format(attnbook.__version__)},
    )
    assert (done.returncode == 0) == published


def test_the_changelog_dates_the_version():
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    versions = re.findall(r"^## (\d\S*) – \d{4}-\d\d-\d\d$", changelog, flags=re.MULTILINE)
    assert versions[0] == attnbook.__version__
    assert versions == sorted(versions, key=Version, reverse=True)


def test_the_table_of_peers_is_that_of_the_record(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import peers

    record = json.loads((ROOT / "results" / "benchmark-peers.json").read_text(encoding="utf-8"))
    readme = (ROOT / "benchmarks" / "README.md").read_text(encoding="utf-8")
    assert f"<!-- peers -->\n{peers.table(record)}\n<!-- end of peers -->" in readme


def test_the_map_of_contributing_is_that_of_the_tree():
    assert make_layout.main(["--check"]) == 0
