"""The reader's copy of the book: my_book, beside the chapters and ignored by git.

The chapters are the book's own: whoever saves a notebook there blocks the next `git pull`. So
JupyterLab opens this copy, in which names sort in reading order (06_transformer/
6.02_multi_head.ipynb), links lead to these names, and notebooks are trusted, so that the figures
to touch work before anything has run. :func:`refresh` makes it, and brings it up to date at each
start:

- a file that the reader has not changed becomes the book's new one;
- a file that the reader has changed stays, whatever the book has now;
- a file that the reader has deleted or renamed comes back: that is how to start afresh;
- a file that the book no longer has stays. Nothing is ever deleted.

Opening, saving and folding are no changes; another text, another output are.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
import posixpath
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import nbformat
import yaml
from nbformat.sign import NotebookNotary

NAME = "my_book"
START = "start_here.md"
OWN = ".lab"
"""The folder in the copy that is not the reader's: what was copied, signatures, open tabs."""

LANGUAGE = {
    "codemirror_mode": {"name": "ipython", "version": sys.version_info[0]},
    "file_extension": ".py",
    "mimetype": "text/x-python",
    "name": "python",
    "nbconvert_exporter": "python",
    "pygments_lexer": "ipython3",
    "version": platform.python_version(),
}
"""What the kernel of this Python says of its language. JupyterLab writes it into each notebook, and
takes one in which it stands otherwise for changed as soon as it is open."""

_CODE = re.compile(r"(```.*?```|~~~.*?~~~|`[^`\n]+`)", re.DOTALL)
_FENCE = re.compile(r"```.*?```|~~~.*?~~~", re.DOTALL)
_LINK = re.compile(r"(?<=\]\()(?P<target>[^\s()#]*)(?P<anchor>#[^\s()]*)?(?=\))")
_HEADING = re.compile(r"^#{1,6} +(.+?) *#*$", re.MULTILINE)


class CannotCopy(OSError):
    """The folder of the copy cannot be made or written."""


@dataclass
class Copied:
    """What one refresh did, as names in the copy."""

    first: bool
    new: list[str] = field(default_factory=list)
    refreshed: list[str] = field(default_factory=list)
    moved: list[str] = field(default_factory=list)
    outdated: list[str] = field(default_factory=list)
    """Kept because the reader has changed them, though the book has a newer one."""


@dataclass(frozen=True)
class Page:
    """A section, or a page of text, of the book.

    Attributes:
        path: in the repository, such as chapters/06_transformer/multi_head.ipynb
        name: in the copy, such as 06_transformer/6.02_multi_head.ipynb
        number: "6.2" for a section, "6" for the opening of a chapter, else ""
        opens: whether it is the opening of a chapter
    """

    path: str
    name: str
    number: str = ""
    opens: bool = False


def pages(root: Path) -> list[Page]:
    """The notebooks and pages of the chapters, in reading order."""
    contents = yaml.safe_load((root / "_toc.yml").read_text(encoding="utf-8"))
    found, chapter = [], -1
    for part in contents["parts"]:
        for entry in part["chapters"]:
            if not entry["file"].startswith("chapters/"):
                continue
            chapter += 1
            for k, one in enumerate((entry, *entry.get("sections", []))):
                path = _file(root, one["file"])
                *_, folder, file = path.split("/")
                end = os.path.splitext(file)[1]
                if not part.get("numbered"):
                    found.append(Page(path, f"{chapter:02d}_{file}"))
                elif k == 0:
                    name = f"{folder}/{chapter}.00_overview{end}"
                    found.append(Page(path, name, f"{chapter}", opens=True))
                else:
                    number = f"{chapter}.{k}" if end == ".ipynb" else ""
                    found.append(Page(path, f"{folder}/{chapter}.{k:02d}_{file}", number))
    return found


def _file(root: Path, entry: str) -> str:
    return next(
        (entry + end for end in (".ipynb", ".md") if (root / (entry + end)).is_file()),
        f"{entry}.md",
    )


def _entries(contents) -> Iterator[str]:
    """The files that a table of contents names."""
    if isinstance(contents, list):
        for one in contents:
            yield from _entries(one)
    elif isinstance(contents, dict):
        yield from filter(None, (contents.get("file"), contents.get("root")))
        for one in contents.values():
            yield from _entries(one)


def refresh(root: Path, copy: Path) -> Copied:
    """Make `copy` of the chapters in `root`, or bring it up to date.

    Raises:
        CannotCopy: the folder cannot be written.
    """
    try:
        (copy / OWN).mkdir(parents=True, exist_ok=True)
        return _Refresh(root, copy).run()
    except OSError as error:
        raise CannotCopy(f"your copy of the book cannot be made in {copy}: {error}") from error


def signatures(copy: Path) -> dict[str, str]:
    """The settings of nbformat's NotebookNotary with which notebooks of the copy are trusted.

    A store of its own goes with the copy, into a container or to another account, and needs
    nothing in the home folder."""
    own = copy.resolve() / OWN
    return {"db_file": str(own / "signatures.db"), "secret_file": str(own / "secret")}


class _Refresh:
    def __init__(self, root: Path, copy: Path):
        self.root, self.copy = root, copy
        config = yaml.safe_load((root / "_config.yml").read_text(encoding="utf-8"))
        self.title, repository = config["title"], config["repository"]
        self.site = config["html"]["baseurl"].rstrip("/") + "/"
        self.files = f"{repository['url'].rstrip('/')}/blob/{repository['branch']}/"
        self.on_site = {*_entries(yaml.safe_load((root / "_toc.yml").read_text(encoding="utf-8")))}
        self.pages = pages(root)
        self.names = {page.path: page.name for page in self.pages}
        self.record = copy / OWN / "copied.json"
        self.before: dict[str, dict] = {}
        with contextlib.suppress(FileNotFoundError, ValueError):
            self.before = json.loads(self.record.read_text(encoding="utf-8"))
        self.now: dict[str, dict] = {}
        self.did = Copied(first=not self.before)
        self.notary = NotebookNotary(**signatures(copy))

    def run(self) -> Copied:
        cells = {page.path: self._read(page.path) for page in self.pages}
        made = {path: self._with_links(path, cells) for path in cells}
        try:
            for page in self.pages:
                self._bring(page.path, page.name, made[page.path])
            text = start_page(self.pages, cells, changed=self._changed(), title=self.title)
            self._bring("start", START, text, Copied(first=False))  # no news to anybody
        finally:  # of a refresh that was stopped, too: what is not in the record is the reader's
            part = self.record.with_suffix(".partial")
            part.write_text(json.dumps({**self.before, **self.now}, indent=1), encoding="utf-8")
            os.replace(part, self.record)
            self.notary.store.close()
        return self.did

    def _read(self, path: str):
        text = (self.root / path).read_text(encoding="utf-8")
        return json.loads(text) if path.endswith(".ipynb") else text

    def _with_links(self, path: str, books: dict):
        """The page with its links as they are in the copy."""
        if isinstance(books[path], str):
            return self._rewrite(books[path], path, books)
        notebook = json.loads(json.dumps(books[path]))
        for cell in notebook["cells"]:
            if cell["cell_type"] == "markdown":
                cell["source"] = self._rewrite("".join(cell["source"]), path, books)
        return notebook

    def _rewrite(self, text: str, path: str, books: dict) -> str:
        def link(found: re.Match) -> str:
            target, anchor = found["target"], found["anchor"] or ""
            if target and ":" not in target:
                to = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
            elif target.startswith(self.site):
                to = target.removeprefix(self.site).removesuffix(".html")
                to = next((to + end for end in (".ipynb", ".md") if to + end in self.names), target)
            else:
                to = target or path
            if to in self.names:
                here = posixpath.dirname(self.names[path]) or "."
                new = "" if not target else posixpath.relpath(self.names[to], here)
                return new + _anchor(anchor, books[to])
            if not target or ":" in target:
                return target + anchor
            page = os.path.splitext(to)[0]
            return (f"{self.site}{page}.html" if page in self.on_site else self.files + to) + anchor

        parts = _CODE.split(text)  # code in a text stays as it is
        parts[::2] = [_LINK.sub(link, part) for part in parts[::2]]
        return "".join(parts)

    def _bring(self, key: str, name: str, content, did: Copied | None = None) -> None:
        path, old, did = self.copy / name, self.before.get(key), did or self.did
        if old and old["name"] != name and (self.copy / old["name"]).is_file():
            if not path.exists():  # a section got another number: the reader's goes with it
                path.parent.mkdir(parents=True, exist_ok=True)
                os.rename(self.copy / old["name"], path)
                did.moved.append(name)
        digest = _digest(content)
        if not path.exists():
            did.new.append(name)
        elif old and _is_as_copied(path, old):
            if old["digest"] == digest:
                self.now[key] = {**old, "name": name, **_stat(path)}
                return
            did.refreshed.append(name)
        elif _digest_of(path) != digest:
            # the reader's; the record says of which version of the book it was made
            self.now[key] = {**(old or {"digest": ""}), "name": name}
            if self.now[key]["digest"] != digest:
                did.outdated.append(name)
            return
        self._write(path, content)
        self.now[key] = {"name": name, "digest": digest, **_stat(path)}

    def _write(self, path: Path, content) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f".{path.name}.partial")
        if isinstance(content, str):
            part.write_text(content, encoding="utf-8", newline="\n")
        else:
            notebook = nbformat.reads(json.dumps(content), as_version=4)
            notebook.metadata.language_info = LANGUAGE
            self.notary.sign(notebook)
            nbformat.write(notebook, part)
        os.replace(part, path)

    def _changed(self) -> set[str]:
        """What differs from what was copied: the reader has begun it."""
        return {
            page.name
            for page in self.pages
            if not _is_as_copied(self.copy / page.name, self.now[page.path])
        }


def _is_as_copied(path: Path, old: dict) -> bool:
    if {k: old.get(k) for k in ("time", "size")} == _stat(path):
        return True
    return _digest_of(path) == old["digest"]


def _stat(path: Path) -> dict[str, int]:
    found = path.stat()
    return {"time": found.st_mtime_ns, "size": found.st_size}


def _digest_of(path: Path) -> str | None:
    try:
        text = path.read_text(encoding="utf-8")
        return _digest(json.loads(text) if path.suffix == ".ipynb" else text)
    except (ValueError, KeyError, TypeError):  # not what was copied, whatever it is
        return None


def _digest(content) -> str:
    """Of what the reader sees: a text, or the cells of a notebook with their outputs."""
    if not isinstance(content, str):
        cells = [
            (cell["cell_type"], _joined(cell["source"]), _outputs(cell))
            for cell in content["cells"]
        ]
        content = json.dumps(cells, sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()


def _outputs(cell: dict) -> list:
    return [
        {k: _joined(v) for k, v in output.items() if k not in ("execution_count", "metadata")}
        for output in cell.get("outputs", [])
    ]


def _joined(value):
    """A text may be stored as a list of its lines."""
    if isinstance(value, dict):
        return {k: _joined(v) for k, v in value.items()}
    if isinstance(value, list) and all(isinstance(line, str) for line in value):
        return "".join(value)
    return value


def _anchor(anchor: str, page) -> str:
    """The place in a page as JupyterLab names it, #Closer-look:-why for #closer-look-why; nothing
    for one that it does not have.
    """
    text = page if isinstance(page, str) else _texts(page)
    for heading in _HEADING.findall(_FENCE.sub("", text)):
        if "#" + re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") == anchor:
            return "#" + heading.replace(" ", "-")
    return ""


def _texts(notebook: dict) -> str:
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "markdown"]
    return "\n\n".join("".join(cell["source"]) for cell in cells)


def start_page(pages: list[Page], books: dict, changed: set[str], title: str) -> str:
    """The book in order, with a mark at what the reader has begun."""
    lines = [
        f"# {title}",
        "",
        "This is your copy of the book. What you write, run and save here is yours: when the book "
        "is updated, a notebook that you have changed stays as it is. To start one afresh, delete "
        "or rename it; a new copy is there when JupyterLab is started again.",
    ]
    for page in pages:
        text = books[page.path] if isinstance(books[page.path], str) else _texts(books[page.path])
        heading = _HEADING.search(text)
        words = heading[1] if heading else page.name
        if page.number:  # a title may carry its number already
            words = re.sub(rf"^{re.escape(page.number)}\.? +", "", words)
        if "/" not in page.name:
            lines += ["", f"## [{words}]({page.name})"]
        elif page.opens:
            lines += ["", f"## {page.number}. {words}", "", f"- [About this chapter]({page.name})"]
        else:
            facts = [f"[{words}]({page.name})"]
            if minutes := re.search(r"^\*about (\d+) minutes with", text, re.MULTILINE):
                facts.append(f"{minutes[1]} min")
            if exercises := len(re.findall(r"^### Exercise", text, re.MULTILINE)):
                facts.append(f"{exercises} exercise{'s' if exercises > 1 else ''}")
            if page.name in changed:
                facts.append("**begun**")
            lines.append(f"- {page.number} {' · '.join(facts)}".replace("-  ", "- "))
    return "\n".join(lines) + "\n"


def last_read(root: Path, copy: Path) -> str:
    """What the reader had open last, as a name in the copy: the page in front when JupyterLab was
    left, or else opened last; without any the notebook saved last; at first section 0.1.
    """
    names = [page.name for page in pages(root) if (copy / page.name).is_file()]
    spaces = sorted((copy / OWN / "workspaces").glob("*.jupyterlab-workspace"), key=_time)
    for space in reversed(spaces):
        for opened in _opened(space):
            if opened in names:
                return opened
    record = json.loads((copy / OWN / "copied.json").read_text(encoding="utf-8"))
    written = {one["name"]: one.get("time") for one in record.values()}
    saved = [name for name in names if written.get(name) != _time(copy / name)]
    if saved:
        return max(saved, key=lambda name: _time(copy / name))
    return next(name for name in names if name.endswith(".ipynb"))


def _time(path: Path) -> int:
    return path.stat().st_mtime_ns


def _opened(workspace: Path) -> list[str]:
    """The files of JupyterLab's open tabs: the one in front, then those opened last."""
    try:
        data = json.loads(workspace.read_text(encoding="utf-8"))["data"]
        front = data["layout-restorer:data"]["main"].get("current") or ""  # notebook:PATH
        recent = data.get("docmanager:recents", {}).get("opened", [])
        return [front.partition(":")[2], *(one["path"] for one in recent)]
    except (ValueError, KeyError, TypeError, AttributeError):
        return []  # of another version of JupyterLab


_VIEWERS = {
    ".ipynb": ("notebook", "Notebook"),
    ".md": ("markdownviewer-widget", "Markdown Preview"),
}
"""How JupyterLab calls its tabs, by what they show."""


def workspaces(copy: Path, page: str) -> Path:
    """The folder in which JupyterLab keeps the open tabs of the copy; at the first start these are
    the start page and `page`.
    """
    from jupyterlab_server.workspaces_handler import WorkspacesManager

    folder = copy.resolve() / OWN / "workspaces"
    if not folder.is_dir():
        tabs = [
            (f"{widget}:{name}", {"path": name, "factory": factory})
            for name in (START, page)
            for widget, factory in [_VIEWERS[os.path.splitext(name)[1]]]
        ]
        names = [name for name, _ in tabs]
        data = {
            **{name: {"data": tab} for name, tab in tabs},
            "file-browser-filebrowser:cwd": {"path": posixpath.dirname(page)},
            "layout-restorer:data": {
                "main": {
                    "dock": {"type": "tab-area", "currentIndex": 1, "widgets": names},
                    "current": names[1],
                },
                "left": {
                    "collapsed": False,
                    "visible": True,
                    "current": "filebrowser",
                    "widgets": ["filebrowser"],
                },
                "relativeSizes": [0.2, 0.8, 0],
            },
        }
        WorkspacesManager(str(folder)).save(
            "default", json.dumps({"data": data, "metadata": {"id": "default"}})
        )
    return folder
