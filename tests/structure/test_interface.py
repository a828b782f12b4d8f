"""What the notebooks use of the library is listed and offered; it changes only with its number."""

import subprocess
from pathlib import Path

import pytest
from nbformat.v4 import new_code_cell, new_notebook

import make_interface as tool
from bookbuild import setup_cell

ROOT = Path(__file__).resolve().parents[2]


NOW = tool.read((ROOT / tool.LIST).read_text(encoding="utf-8"))


def test_the_list_is_what_the_notebooks_use_and_the_library_offers():
    number, entries = NOW
    assert entries == tool.collect(), "run: python tools/make_interface.py"
    assert number == setup_cell.current_interface(ROOT)
    kinds = [kind for kind, _ in entries]
    assert all(kinds.count(kind) > 200 for kind in ("name", "keyword", "exercise", "record"))
    assert [entry for entry in sorted(entries) if not tool.offers(*entry)] == []


def versions() -> list[tuple[int, frozenset]]:
    """The list as it was committed, from the first time on, and as it is now."""
    log = ["git", "log", "--first-parent", "--reverse", "--format=%H", "--", tool.LIST]
    shallow = ["git", "rev-parse", "--is-shallow-repository"]
    if subprocess.run(shallow, cwd=ROOT, capture_output=True, text=True).stdout.strip() == "true":
        pytest.skip("a shallow clone has no history of the list: git fetch --unshallow")
    commits = subprocess.run(log, cwd=ROOT, capture_output=True, text=True).stdout.split()
    lists = [tool.committed(ROOT, commit) for commit in commits]
    return [one for one in lists if one] + [NOW]


def kept_its_number(lists) -> list[int]:
    """The numbers that more than one list had."""
    pairs = zip(lists, lists[1:])
    return [n for (n, before), (m, after) in pairs if before != after and m <= n]


def test_the_list_never_changed_without_its_number():
    assert kept_its_number(versions()) == []


def test_every_list_that_is_still_supported_is_offered():
    oldest = setup_cell.oldest_interface(ROOT)
    supported = {entry for n, entries in versions() if n >= oldest for entry in entries}
    assert [entry for entry in sorted(supported) if not tool.offers(*entry)] == []


def test_a_list_that_changed_under_its_number_is_seen():
    one, other = frozenset({("name", "a")}), frozenset()
    assert kept_its_number([(1, one), (1, other)]) == [1]
    assert kept_its_number([(1, one), (1, one), (2, other)]) == []


def test_the_number_rises_with_every_change_and_the_oldest_with_a_loss(monkeypatch):
    there, gone = ("name", "attnbook.attend"), ("name", "attnbook.no_such_thing")
    monkeypatch.setattr(setup_cell, "oldest_interface", lambda root: 3)
    assert tool.numbers((7, frozenset({there})), frozenset({there})) == (7, 3)
    assert tool.numbers((7, frozenset()), frozenset({there})) == (8, 3)
    assert tool.numbers((7, frozenset({there})), frozenset()) == (8, 3)
    assert tool.numbers((7, frozenset({there, gone})), frozenset({there})) == (8, 8)


def test_what_a_notebook_uses_is_found():
    code = """
import attnbook
from attnbook import attend as look, figures, resources
from attnbook.checks import check
%pip install something
setup = attnbook.setup(seed=0, interface=1)
look(score, query, key, value, mask=None)
figures.heatmap(weights, title="x").show(dpi=3)
for k in (5, 10):
    resources.text(f"results/pointer-delaunay-{k}-small.seed0.json")
check("00.weighted_sum", answer)
"""
    found = tool.used_by(new_notebook(cells=[new_code_cell(code)]))
    names = "attend checks.check figures figures.heatmap resources resources.text setup".split()
    keywords = "attend mask", "figures.heatmap title", "setup interface", "setup seed"
    assert found == {
        ("name", "attnbook"),
        *(("name", f"attnbook.{name}") for name in names),
        *(("keyword", f"attnbook.{words}") for words in keywords),
        ("exercise", "00.weighted_sum"),
        *(("record", f"pointer-delaunay-{k}-small.seed0.json") for k in (5, 10)),
    }


def test_what_the_library_lacks_is_seen():
    assert tool.offers("keyword", "attnbook.attend mask")
    assert not tool.offers("keyword", "attnbook.attend no_such_argument")
    assert not tool.offers("name", "attnbook.figures.no_such_figure")
    assert not tool.offers("exercise", "00.no_such_exercise")
    assert not tool.offers("record", "no-such-run.seed0.json")
