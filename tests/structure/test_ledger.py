"""Every id that the book set out with has a row in the ledger; a done one points at something."""

from pathlib import Path

import pytest

import make_ledger as ledger
from attnbook_runs.language.modifications import MODIFICATIONS

ROOT = Path(__file__).resolve().parents[2]
IDS = (Path(__file__).parent / "syllabus_ids.txt").read_text(encoding="utf-8").split()

ROWS = ledger.read(ROOT / "data/ledger.csv")
PARTS = ledger.read(ROOT / "data/modifications.csv", ledger.PARTS_COLUMNS)


def test_the_ledger_holds_and_its_page_is_current():
    assert ledger.problems(ROWS, IDS) == []
    assert ledger.problems_of_parts(PARTS, list(MODIFICATIONS)) == []
    page = (ROOT / "appendix/ledger.md").read_text(encoding="utf-8")
    assert page == ledger.render(ROWS, PARTS), "run python tools/make_ledger.py"
    for row in ROWS:
        assert f"| {row['id']} | " in page


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"name": ""}, "has no name"),
        ({"test": ""}, "has no test"),
        ({"name": "attnbook.mechanisms.absent.Thing"}, "does not exist"),
        ({"test": "tests/mechanisms/test_norms.py::test_absent"}, "does not exist"),
        ({"modification": "gated"}, "must be"),
    ],
)
def test_a_broken_modification_is_found(changes, fault):
    found = ledger.problems_of_parts([{**PARTS[0], **changes}, *PARTS[1:]], list(MODIFICATIONS))
    assert any("S6.19" in line and fault in line for line in found), found


def test_modifications_stand_on_the_page_once_they_are_done():
    done = {"status": "done", "section": "chapters/06_transformer/cost"}
    for change, stands in ((done, True), ({"status": "planned"}, False)):
        rows = [row | change if row["id"] == "S6.19" else row for row in ROWS]
        assert ("| Switch Transformer | `" in ledger.render(rows, PARTS)) == stands


def _done(**changes):
    """A row whose every part exists, with changes."""
    row = {
        "id": "S1.1",
        "chapter": "1",
        "kind": "system",
        "title": "A title",
        "status": "done",
        "section": "chapters/01_some/section",
        "name": "attnbook.tasks.Vocabulary.encode",
        "test": "tests/test_one.py::test_first tests/test_one.py::TestGroup::test_second[1-a]",
    }
    return [{**row, **changes}]


@pytest.fixture
def root(tmp_path):
    (tmp_path / "chapters/01_some").mkdir(parents=True)
    (tmp_path / "tests").mkdir()
    (tmp_path / "chapters/01_some/section.ipynb").write_text('{"source": "assert loss < 1"}')
    (tmp_path / "chapters/01_some/quiet.ipynb").write_text('{"source": "print(1)"}')
    (tmp_path / "tests/test_one.py").write_text(
        "def test_first(): ...\nclass TestGroup:\n    def test_second(self): ...\n"
        "def helper():\n    def test_inner(): ...\n"
    )
    return tmp_path


def test_a_row_with_all_its_parts_passes(root):
    assert ledger.problems(_done(), ["S1.1"], root) == []
    assert ledger.problems(_done(test="chapters/01_some/section.ipynb"), ["S1.1"], root) == []
    assert ledger.problems(_done(id="C1.1", kind="claim", name=""), ["C1.1"], root) == []


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"test": ""}, "no test"),
        ({"section": ""}, "no section"),
        ({"name": ""}, "no name"),
        ({"section": "chapters/01_some/absent"}, "does not exist"),
        ({"section": "chapters/02_other/section"}, "not a notebook of chapter 1"),
        ({"section": "chapters/01_some/section.ipynb"}, "without extension"),
        ({"name": "attnbook.tasks.Vocabulary.absent"}, "does not exist"),
        ({"name": "attnbook.absent.Thing"}, "does not exist"),
        ({"name": "torch.nn.Linear"}, "not of attnbook"),
        ({"test": "tests/test_absent.py::test_first"}, "does not exist"),
        ({"test": "tests/test_one.py::test_absent"}, "does not exist"),
        ({"test": "tests/test_one.py::test_second"}, "does not exist"),
        ({"test": "tests/test_one.py::test_inner"}, "does not exist"),
        ({"test": "tests/test_one.py"}, "names no test"),
        ({"test": "tests/test_one.py::helper"}, "names no test"),
        ({"test": "chapters/01_some/quiet.ipynb"}, "asserts nothing"),
        ({"status": "finished"}, "status"),
        ({"kind": "claim"}, "kind"),
        ({"chapter": "2"}, "chapter"),
        ({"title": " "}, "title"),
    ],
)
def test_a_broken_row_is_found(root, changes, fault):
    found = ledger.problems(_done(**changes), ["S1.1"], root)
    assert any(fault in line for line in found), found


def test_missing_and_repeated_ids_are_found_and_new_ones_may_follow():
    without = [row for row in ROWS if row["id"] != "S1.3"]
    assert "\nS1.3: missing" in "\n".join(["", *ledger.problems(without, IDS)])
    assert "listed 2 times" in "\n".join(ledger.problems([*ROWS, ROWS[4]], IDS))
    new = {**next(row for row in ROWS if row["id"] == "S1.6"), "id": "S1.77"}
    assert ledger.problems([*ROWS, new], IDS) == []
    assert ledger.problems(ROWS[::-1], IDS) == ["the rows are not in the order of the syllabus"]
