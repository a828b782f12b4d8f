"""The map of the book, data/map.csv: years are those of the papers, lines lead to what came before,
the page of the appendix tells the same, and the drawing has each idea and each line once.
"""

import csv
import re
from pathlib import Path

import map_drawing as drawing
import pytest

ROOT = Path(__file__).resolve().parents[2]
ROWS = list(csv.DictReader((ROOT / "data/map.csv").read_text(encoding="utf-8").splitlines()))
STREAMS = {"memory", "source", "self", "positions", "pictures", "cost"}


def test_a_year_is_that_of_the_paper_or_of_its_preprint():
    entries = (ROOT / "references.bib").read_text(encoding="utf-8").split("\n@")
    printed = {
        entry[entry.index("{") + 1 : entry.index(",")]: int(found[1])
        for entry in entries
        if (found := re.search(r"\byear = \{(\d{4})", entry))
    }
    late = {row["id"]: printed[row["cite"]] - int(row["year"]) for row in ROWS}
    assert {name: years for name, years in late.items() if years not in (0, 1)} == {}


def test_lines_lead_to_what_came_before():
    known: list[str] = []
    for row in ROWS:
        assert row["id"] not in known and row["stream"] in STREAMS
        assert set(row["took"].split()) <= set(known), row["id"]
        known.append(row["id"])
    years = [int(row["year"]) for row in ROWS]
    assert years == sorted(years)


def test_each_stands_in_a_section():
    for row in ROWS:
        home = ROOT / f"sources/{row['section']}.md", ROOT / f"chapters/{row['section']}.md"
        assert any(path.exists() for path in home), row["section"]


def test_the_page_of_the_appendix_tells_the_same():
    page = (ROOT / "appendix/map.md").read_text(encoding="utf-8")
    told = {
        (line.split("|")[1].strip(), cite)
        for line in page.splitlines()
        if line.startswith("|")
        for cite in re.findall(r"`(\w+)`", line.split("|")[2])
    }
    assert {(row["year"], row["cite"]) for row in ROWS} - told == set()


@pytest.mark.parametrize("kind", ["columns", "lines"])
def test_the_drawing_has_each_idea_and_each_line_once(kind):
    assert set(drawing.STREAMS) == STREAMS
    svg = getattr(drawing, kind)(drawing.ideas(ROOT))
    links = re.findall(r'href="([^"#]+)" data-id="([^"]+)"', svg)
    assert links == [(f"../chapters/{row['section']}.html", row["id"]) for row in ROWS]
    drawn = re.findall(r'data-from="([^"]+)" data-to="([^"]+)"', svg)
    assert sorted(drawn) == sorted((s, row["id"]) for row in ROWS for s in row["took"].split())
