"""The files around the book: nothing of one machine, nothing unfinished, links and badges that
hold, versions that agree.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import nbformat
import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from bookbuild import promise
from bookbuild.address import read_address

ROOT = Path(__file__).resolve().parents[2]
PROJECT, *OTHERS = PROJECTS = [
    tomllib.loads((ROOT / folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for folder in (".", "bookbuild", "grader")
]
OURS = [project["name"] for project in PROJECTS]
TEXT = {
    ".py",
    ".md",
    ".toml",
    ".yml",
    ".yaml",
    ".ipynb",
    ".json",
    ".sh",
    ".cfg",
    ".csv",
    ".css",
    ".bib",
    ".cff",
    ".txt",
    "",
}
# Written in two parts, so that this file does not contain what it looks for.
MACHINE = re.compile(
    r"(?<![\w.}$])/(?:wo" + r"rk|ro" + r"ot|ho" + r"me/\w+|Us" + r"ers/\w+|t" + r"mp/\w+)/[\w./-]+"
)
UNFINISHED = re.compile(
    r"\b(TO" + r"DO|FIX" + r"ME|X" + r"XX|place" + r"holder|coming so" + r"on|lorem ip" + r"sum)\b",
    re.IGNORECASE,
)


def tracked() -> list[Path]:
    """Files under version control (all files where there is no git, as in an unpacked archive),
    vendored ones left out.
    """
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        names = [
            p.relative_to(ROOT).as_posix()
            for p in ROOT.rglob("*")
            if not {".venv", "build", "_build"} & set(p.parts)
        ]
    else:
        names = listed.stdout.split("\0")
    return [
        ROOT / n
        for n in names
        if n
        and not n.startswith(("_vendor/katex", "_vendor/minisearch"))
        and (ROOT / n).is_file()
        and (ROOT / n).suffix in TEXT
        and (ROOT / n).stat().st_size < 3_000_000
    ]


def hits(pattern: re.Pattern, paths: list[Path]) -> list[str]:
    return [f"{p.name}: {m.group(0)}" for p in paths for m in pattern.finditer(_prose(p))]


def _prose(path: Path) -> str:
    text = path.read_text(encoding="utf-8", errors="ignore")
    return re.sub(r'"image/png": "[^"]*"', "", text) if path.suffix == ".ipynb" else text


def test_no_path_of_one_machine():
    assert hits(MACHINE, tracked()) == []


def test_nothing_is_left_unfinished():
    assert hits(UNFINISHED, tracked()) == []


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
    assert sorted(badges) == sorted(
        p.relative_to(ROOT).as_posix()
        for p in (ROOT / "chapters").rglob("*.ipynb")
        if ".ipynb_checkpoints" not in p.parts
    )


def test_the_readme_counts_the_sections_that_a_gpu_shows_more_of():
    notebooks = sorted((ROOT / "chapters").glob("*/*.ipynb"))
    on_gpu = [promise.declared(nbformat.read(p, as_version=4)).wants_gpu for p in notebooks]
    readme = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    assert f"In {sum(on_gpu)} of the {len(on_gpu)} sections a second setting" in readme


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
    assert {name: _title(folder / f"{name}.ipynb") for _, name in entries} == {
        name: said for said, name in entries
    }
    assert {p.stem for p in folder.glob("*.ipynb")} == {Path(name).name for _, name in entries}


def test_every_command_of_the_makefile_has_a_way_without_make():
    make = (ROOT / "Makefile").read_text(encoding="utf-8")
    readme = (ROOT / "contributing" / "commands.md").read_text(encoding="utf-8")
    for target in re.findall(r"^([a-z-]+):.*##", make, flags=re.MULTILINE):
        if target not in ("help", "clean"):
            assert f"make {target}" in readme, target
    for script in re.findall(r"tools/\w+\.py", make):
        assert script in readme and (ROOT / script).exists(), script


def test_versions_agree():
    import attnbook

    cff = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert "version" not in cff, "the version stands in attnbook/version.py alone"
    assert "version" in PROJECT["dynamic"] and re.fullmatch(r"\d+\.\d+\.\d+", attnbook.__version__)


def test_the_package_sets_lower_bounds_only():
    """An upper pin would fight with what Colab or a reader has; the website's are for its own
    extra.
    """
    for line in PROJECT["dependencies"]:
        assert [s.operator for s in Requirement(line).specifier] == [">="], line
    for extra, lines in PROJECT["optional-dependencies"].items():
        for line in lines if extra != "website" else []:
            assert [s.operator for s in Requirement(line).specifier] == [">="], line
    for project in OTHERS:
        for requirement in map(Requirement, project["dependencies"]):
            if requirement.name not in OURS:
                assert [s.operator for s in requirement.specifier] == [">="], requirement


def test_the_library_needs_four_packages_and_the_rest_of_the_repository_the_book_s():
    """What an engineer installs stays small; the tools and the grader run the book's pages."""
    needed = {Requirement(line).name for line in PROJECT["dependencies"]}
    assert needed == {"torch", "numpy", "safetensors", "tqdm"}
    for project in OTHERS:
        assert "attnbook[book]" in project["dependencies"]


COLAB = {
    "torch": "2.11.0",
    "numpy": "2.1.3",
    "matplotlib": "3.10.0",
    "tqdm": "4.67.3",
    "scipy": "1.16.3",
    "pandas": "2.2.3",
    "ipython": "7.34.0",
}


def test_colab_s_versions_are_enough():
    """The versions of its image of August 2026, for what the package needs and the notebooks
    import first.
    """
    assert SpecifierSet(PROJECT["requires-python"]).contains("3.13.15")
    needs = [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["book"]]
    for requirement in map(Requirement, needs):
        if requirement.name in COLAB:
            assert requirement.specifier.contains(COLAB[requirement.name]), requirement


def test_notebooks_install_what_colab_lacks():
    """Of the extras, Colab's image of August 2026 has tokenizers, and neither
    sacrebleu nor pycocoevalcap.
    """
    lacking = {
        "sacrebleu": r"from attnbook\.training import [^\n]*\bbleu\b",
        "pycocoevalcap": r"\bcider\b *\(",
    }
    found = {
        name: [
            p
            for p in (ROOT / "sources").rglob("*.md")
            if re.search(use, p.read_text(encoding="utf-8"))
        ]
        for name, use in lacking.items()
    }
    assert [p.stem for p in found["sacrebleu"]] == ["translation"]
    assert [
        p
        for name, paths in found.items()
        for p in paths
        if f"%pip install -q {name}" not in p.read_text(encoding="utf-8")
    ] == []


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
    for line in [
        line
        for project in PROJECTS
        for lines in (project["dependencies"], *project.get("optional-dependencies", {}).values())
        for line in lines
    ]:
        requirement = Requirement(line)
        name = re.sub(r"[-_.]+", "-", requirement.name).lower()
        if name not in ("setuptools", *OURS):
            assert name in lock and requirement.specifier.contains(Version(lock[name])), line


def test_environment_yml_is_the_project():
    """The conda part holds Python and pip; everything else is what pyproject.toml says."""
    wanted = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))
    conda = [d for d in wanted["dependencies"] if isinstance(d, str)]
    assert {re.split(r"[=<>]", d)[0] for d in conda} == {"python", "pip"}
    python = next(d for d in conda if d.startswith("python="))
    assert SpecifierSet(PROJECT["requires-python"]).contains(python.split("=", 1)[1])
    (pip,) = [d["pip"] for d in wanted["dependencies"] if isinstance(d, dict)]
    installed = [re.fullmatch(r"-e (\S+?)(?:\[([\w,]+)\])?", line).groups("") for line in pip]
    assert [folder for folder, _ in installed] == [".", "./bookbuild", "./grader"]
    for (_, extras), project in zip(installed, PROJECTS):
        wanted = project.get("optional-dependencies", ())
        assert set(filter(None, extras.split(","))) == set(wanted)


def test_ci_calls_make_test():
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    lines = [line for line in script.splitlines() if line.startswith("CI=true make")]
    assert [line.split()[2] for line in lines] == ["test", "test-newest"]
    assert "set -euo pipefail" in script and lines[0] == "CI=true make test"
    for workflow in (ROOT / ".github" / "workflows").glob("*.yml"):
        assert yaml.safe_load(workflow.read_text(encoding="utf-8"))["jobs"], workflow
    assert "make test" in (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")


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
    import attnbook

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
    import attnbook

    versions = re.findall(
        r"^## (\d\S*) – \d{4}-\d\d-\d\d$",
        (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"),
        flags=re.MULTILINE,
    )
    assert versions[0] == attnbook.__version__ and versions == sorted(
        versions, key=Version, reverse=True
    )


def test_the_table_of_peers_is_that_of_the_record(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import peers

    record = json.loads((ROOT / "results" / "benchmark-peers.json").read_text(encoding="utf-8"))
    readme = (ROOT / "benchmarks" / "README.md").read_text(encoding="utf-8")
    assert f"<!-- peers -->\n{peers.table(record)}\n<!-- end of peers -->" in readme
