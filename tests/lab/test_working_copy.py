"""The reader's copy of the book: what the reader changed stays, what the book changed comes."""

import json
import os
import re
import shutil
from functools import cache
from pathlib import Path
from unittest import mock

import nbformat
import pytest
import yaml
from book import toc_files
from nbformat.sign import NotebookNotary

import working_copy

ROOT = Path(__file__).resolve().parents[2]
LINK = re.compile(r"\]\(([^\s()#]*)(#[^\s()]*)?\)")
FIRST, SECOND = "00_one/0.01_begin.ipynb", "00_one/0.02_go_on.ipynb"


def texts(path: Path) -> str:
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".ipynb":
        cells = nbformat.reads(text, as_version=4).cells
        text = "\n\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    return text


def write(path: Path, *cells, output="1") -> None:
    """A notebook of these texts, and one cell of code with an output."""
    made = [nbformat.v4.new_markdown_cell(text) for text in cells]
    shown = nbformat.v4.new_output("stream", text=output)
    made.append(nbformat.v4.new_code_cell("print(1)", execution_count=1, outputs=[shown]))
    for k, cell in enumerate(made):
        cell.id = f"cell-{k}"
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(nbformat.v4.new_notebook(cells=made), path)


def list_contents(root: Path, one=("begin", "go_on", "summary"), two=()) -> None:
    """Write the table of contents: the sections of two chapters, an epilogue and a map."""
    numbered = []
    for folder, names in (("00_one", one), ("01_two", two)):
        sections = [{"file": f"chapters/{folder}/{name}"} for name in names]
        if names:
            numbered.append({"file": f"chapters/{folder}/index", "sections": sections})
    others = [{"chapters": [{"file": name}]} for name in ("chapters/epilogue", "appendix/map")]
    parts = [{"numbered": 2, "chapters": numbered}, *others]
    (root / "_toc.yml").write_text(yaml.safe_dump({"root": "intro", "parts": parts}))


@pytest.fixture
def root(tmp_path):
    """A book of two chapters and an epilogue, one of them with a dozen sections."""
    folder = tmp_path / "the book"  # with a space
    many = [f"part_{letter}" for letter in "mlkjihgfedcb"]
    minutes = "*about {} minutes with the exercises · x*"
    for name in many:
        write(folder / f"chapters/01_two/{name}.ipynb", f"# {name}\n\n{minutes.format(7)}")
    for name in ("00_one", "01_two"):
        page = folder / f"chapters/{name}/index.md"
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(f"# Chapter {name}\n")
        (page.parent / "summary.md").write_text("# Summary\n\n[map](../../appendix/map.md#x)\n")
    (folder / "chapters/epilogue.md").write_text("# The end\n\n[back](00_one/index.md)\n")
    write(
        folder / "chapters/00_one/begin.ipynb",
        "# 0.1 Begin\n\n[on](go_on.ipynb) [two](../01_two/part_m.ipynb#a-closer-look-why)",
        "[sum](https://book.example/chapters/00_one/summary.html) `[code](go_on.ipynb)`",
        "[file](../../LICENSE) [web](https://example.org/) ![x](https://example.org/x.png)",
        "### Exercise 0.1.1: One\n\n### Exercise 0.1.2: Two",
    )
    second = f"# Go on\n\n{minutes.format(12)}\n\n[to](#go-on)"
    write(folder / "chapters/00_one/go_on.ipynb", second)
    write(folder / "chapters/01_two/part_m.ipynb", "# Part m", "## A closer look: why?\n\n")
    list_contents(folder, two=[*many, "summary"])
    (folder / "_config.yml").write_text(
        "title: A Book\nhtml: {baseurl: 'https://book.example/'}\n"
        "repository: {url: 'https://code.example/book', branch: main}\n"
    )
    return folder


@pytest.fixture
def copy(root):
    """The reader's, after the first start."""
    working_copy.refresh(root, root / working_copy.NAME)
    return root / working_copy.NAME


def better(root: Path, name="begin") -> None:
    """The book changes a section."""
    write(root / f"chapters/00_one/{name}.ipynb", "# A better beginning")


def trusted(copy: Path, name: str) -> bool:
    """As the server that is started on the copy judges it."""
    notary = NotebookNotary(**working_copy.signatures(copy))
    try:
        return notary.check_signature(nbformat.read(copy / name, as_version=4))
    finally:
        notary.store.close()


def edit(path: Path, words="my answer", output=None, metadata=None) -> str:
    """What a reader does in JupyterLab; returns the file."""
    nb = nbformat.read(path, as_version=4)
    if words:
        nb.cells[-1].source += f"  # {words}"
    if output:
        nb.cells[-1].outputs[0].text = output
    nb.cells[-1].execution_count = 7
    nb.metadata.update(metadata or {"language_info": {"name": "python", "version": "3.12.1"}})
    text = nbformat.writes(nb, indent=2)
    path.write_text(text, encoding="utf-8")
    return text


def snapshot(folder: Path) -> dict[str, bytes]:
    paths = [
        p for p in sorted(folder.rglob("*")) if p.is_file() and working_copy.OWN not in p.parts
    ]
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in paths}


def test_first_start(root):
    copy = root / working_copy.NAME
    did = working_copy.refresh(root, copy)
    assert did.first and len(did.new) == 19 and not (did.refreshed or did.outdated or did.moved)
    assert {*snapshot(copy)} == {*did.new, "start_here.md"}
    assert texts(copy / FIRST).startswith("# 0.1 Begin")
    notebooks = [name for name in did.new if name.endswith(".ipynb")]
    assert len(notebooks) == 14 and all(trusted(copy, name) for name in notebooks)
    assert not (root / "chapters/00_one/.lab").exists()


def test_reading_order_is_the_order_of_names(root, copy):
    pages = [page.name for page in working_copy.pages(root)]
    assert pages == sorted(pages) and pages[:2] == ["00_one/0.00_overview.md", FIRST]
    assert pages[-2:] == ["01_two/1.13_summary.md", "02_epilogue.md"]
    last = [f"01_two/1.{n}_part_{c}.ipynb" for n, c in ((10, "d"), (11, "c"), (12, "b"))]
    assert pages[14:17] == last
    assert not [name for name in pages if re.search(r'[<>:"\\|?* ]|\.(/|$)', name)]  # Windows


def test_links_lead_to_the_copies(root, copy):
    words = texts(copy / FIRST)
    for link in (
        "[on](0.02_go_on.ipynb)",
        "[two](../01_two/1.01_part_m.ipynb#A-closer-look:-why?)",
        "[sum](0.03_summary.md)",
        "`[code](go_on.ipynb)`",
        "[file](https://code.example/book/blob/main/LICENSE)",
        "[web](https://example.org/)",
        "![x](https://example.org/x.png)",
    ):
        assert link in words, link
    assert "[to](#Go-on)" in texts(copy / SECOND)
    assert "[back](00_one/0.00_overview.md)" in texts(copy / "02_epilogue.md")
    assert "(https://book.example/appendix/map.html#x)" in texts(copy / "00_one/0.03_summary.md")


def test_nothing_happens_twice(root, copy):
    before = {p: p.stat().st_mtime_ns for p in copy.rglob("*.*") if working_copy.OWN not in p.parts}
    assert working_copy.refresh(root, copy) == working_copy.Copied(first=False)
    assert before == {p: p.stat().st_mtime_ns for p in before}


def test_what_the_reader_left_alone_is_refreshed(root, copy):
    edit(copy / FIRST, words="")  # opened, run with the same result, saved
    better(root)
    did = working_copy.refresh(root, copy)
    assert did.refreshed == [FIRST] and not (did.new or did.outdated)
    assert texts(copy / FIRST) == "# A better beginning" and trusted(copy, FIRST)


@pytest.mark.parametrize("change", [{"words": "mine"}, {"words": "", "output": "2"}])
def test_what_the_reader_changed_stays(root, copy, change):
    mine = edit(copy / FIRST, **change)
    assert working_copy.refresh(root, copy).outdated == []  # the book is as it was
    assert (copy / FIRST).read_text(encoding="utf-8") == mine
    better(root)
    for _ in range(2):  # it is said as long as it is so
        did = working_copy.refresh(root, copy)
        assert did.outdated == [FIRST] and not (did.new or did.refreshed)
        assert (copy / FIRST).read_text(encoding="utf-8") == mine


def test_a_page_of_notes_stays(root, copy):
    for name in ("start_here.md", "00_one/0.00_overview.md", "00_one/mine.md"):
        (copy / name).write_text("my notes", encoding="utf-8")
    (root / "chapters/00_one/index.md").write_text("# New\n")
    assert working_copy.refresh(root, copy).outdated == ["00_one/0.00_overview.md"]
    for name in ("start_here.md", "00_one/0.00_overview.md", "00_one/mine.md"):
        assert (copy / name).read_text(encoding="utf-8") == "my notes"


@pytest.mark.parametrize("gone", ["deleted", "renamed"])
def test_what_the_reader_deletes_or_renames_comes_back_new(root, copy, gone):
    mine = edit(copy / FIRST)
    if gone == "renamed":
        (copy / FIRST).rename(copy / "00_one/mine.ipynb")
    else:
        (copy / FIRST).unlink()
    better(root)
    did = working_copy.refresh(root, copy)
    assert did.new == [FIRST] and not did.outdated
    assert texts(copy / FIRST) == "# A better beginning" and trusted(copy, FIRST)
    if gone == "renamed":
        assert (copy / "00_one/mine.ipynb").read_text(encoding="utf-8") == mine


def test_what_the_book_removes_stays(root, copy):
    before = snapshot(copy)
    (root / "chapters/00_one/go_on.ipynb").unlink()
    list_contents(root, ["begin", "summary"])
    working_copy.refresh(root, copy)
    after = snapshot(copy)
    assert after[SECOND] == before[SECOND] and after["01_two/1.12_part_b.ipynb"]
    assert "go_on" not in texts(copy / "start_here.md")


def test_a_section_with_another_number_takes_the_readers_work_along(root, copy):
    mine = edit(copy / SECOND)
    write(root / "chapters/00_one/between.ipynb", "# Between")
    list_contents(root, ["begin", "between", "go_on", "summary"])
    did = working_copy.refresh(root, copy)
    assert did.new == ["00_one/0.02_between.ipynb"] and did.outdated == []
    assert did.moved == ["00_one/0.03_go_on.ipynb", "00_one/0.04_summary.md", "01_epilogue.md"]
    assert (copy / "00_one/0.03_go_on.ipynb").read_text(encoding="utf-8") == mine
    assert not (copy / SECOND).exists()
    assert "[on](0.03_go_on.ipynb)" in texts(copy / FIRST) and trusted(copy, FIRST)


@pytest.mark.parametrize("record", [None, "{not json"])
def test_without_its_record_it_overwrites_nothing(root, copy, record):
    mine = edit(copy / FIRST)
    path = copy / working_copy.OWN / "copied.json"
    path.unlink() if record is None else path.write_text(record)
    assert working_copy.refresh(root, copy).outdated == [FIRST]
    assert (copy / FIRST).read_text(encoding="utf-8") == mine
    write(root / "chapters/00_one/go_on.ipynb", "# Later")  # this one it knows again
    assert working_copy.refresh(root, copy).refreshed == [SECOND]


@pytest.mark.parametrize("content", ["", "{half a not", "[]", '{"cells": 3}'])
def test_a_file_that_is_no_notebook_stays(root, copy, content):
    (copy / FIRST).write_text(content)
    (copy / working_copy.OWN / "copied.json").unlink()
    for _ in range(2):
        working_copy.refresh(root, copy)
        assert (copy / FIRST).read_text() == content


def test_a_copy_that_was_stopped_is_finished(root):
    copy, full = root / working_copy.NAME, OSError("the disk is full")
    with (
        mock.patch.object(working_copy.nbformat, "write", side_effect=full),
        pytest.raises(working_copy.CannotCopy, match="the disk is full"),
    ):
        working_copy.refresh(root, copy)
    did = working_copy.refresh(root, copy)
    assert not did.outdated and trusted(copy, FIRST)


def test_a_folder_that_cannot_be_written_is_named(root):
    copy = root / working_copy.NAME
    copy.write_text("a file")
    with pytest.raises(working_copy.CannotCopy, match=re.escape(str(copy))):
        working_copy.refresh(root, copy)


def test_the_start_page_lists_the_book(root, copy):
    page = texts(copy / "start_here.md")
    links = [target for target, _ in LINK.findall(page)]
    assert links == [one.name for one in working_copy.pages(root)]
    assert f"- 0.1 [Begin]({FIRST}) · 2 exercises\n" in page
    assert f"- 0.2 [Go on]({SECOND}) · 12 min\n" in page and "begun" not in page
    edit(copy / SECOND)
    working_copy.refresh(root, copy)
    assert re.findall(r".*begun.*", texts(copy / "start_here.md")) == [
        f"- 0.2 [Go on]({SECOND}) · 12 min · **begun**"
    ]


def test_what_opens(root, copy):
    assert working_copy.last_read(root, copy) == FIRST
    last = "01_two/1.12_part_b.ipynb"
    edit(copy / SECOND)
    edit(copy / last)
    now = (copy / last).stat().st_mtime_ns
    os.utime(copy / last, ns=(now, now + 10**9))
    assert working_copy.last_read(root, copy) == last  # with another editor than JupyterLab
    folder = working_copy.workspaces(copy, FIRST)
    assert working_copy.last_read(root, copy) == FIRST  # the tab that is in front
    (space,) = folder.iterdir()
    made = json.loads(space.read_text())
    main = made["data"]["layout-restorer:data"]["main"]
    opened = [{"path": "start_here.md"}, {"path": "gone.ipynb"}, {"path": SECOND}]
    made["data"]["docmanager:recents"] = {"opened": opened}
    for front, read in (
        (f"notebook:{last}", last),
        ("markdownviewer-widget:00_one/0.00_overview.md", "00_one/0.00_overview.md"),
        ("markdownviewer-widget:start_here.md", SECOND),
        ("notebook:gone.ipynb", SECOND),
        (None, SECOND),
    ):
        main["current"] = front
        space.write_text(json.dumps(made))
        assert working_copy.last_read(root, copy) == read
    space.write_text("{}")
    assert working_copy.last_read(root, copy) == last
    assert working_copy.workspaces(copy, FIRST) == folder and space.read_text() == "{}"


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The copy of this book."""
    copy = tmp_path_factory.mktemp("whole") / working_copy.NAME
    working_copy.refresh(ROOT, copy)
    return copy


def test_all_links_of_the_book_lead_somewhere(whole):
    site = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))["html"]["baseurl"]
    local, read = 0, cache(texts)
    for page in [*working_copy.pages(ROOT), working_copy.Page("", "start_here.md")]:
        words = re.sub(r"```.*?```", "", read(whole / page.name), flags=re.DOTALL)
        assert not re.search(r"(href|src)=", words), page.name
        for target, anchor in LINK.findall(words):
            where = f"{page.name}: {target}{anchor}"
            if target.startswith(site):
                assert target.removeprefix(site).removesuffix(".html") in toc_files(), where
                assert not target.startswith(f"{site}chapters/"), where
            elif ":" not in target:
                path = whole / page.name if not target else (whole / page.name).parent / target
                assert path.resolve().is_relative_to(whole) and path.is_file(), where
                headings = re.findall(r"^#+ (.+)$", read(path), re.MULTILINE)
                assert not anchor or anchor[1:] in [h.replace(" ", "-") for h in headings], where
                local += 1
    assert local > 400


def test_the_whole_book_is_copied_in_its_order(whole):
    pages = working_copy.pages(ROOT)
    assert [page.path.rpartition(".")[0] for page in pages] == [
        name for name in toc_files() if name.startswith("chapters/")
    ]
    assert [page.name for page in pages] == sorted(page.name for page in pages)
    assert all(trusted(whole, page.name) for page in pages[:4] if page.name.endswith(".ipynb"))
    assert not [p for p in (ROOT / "chapters").rglob("*.*") if p.suffix not in (".ipynb", ".md")]
    shutil.rmtree(whole / working_copy.OWN)
    assert not working_copy.refresh(ROOT, whole).outdated
