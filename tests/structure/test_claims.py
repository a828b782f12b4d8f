"""Every claim of the literature has a row, the records bear out its verdict, and the text of the
section tells that verdict.
"""

import json
import re
from pathlib import Path

import pytest

import make_claims as claims
from attnbook_runs import load_experiments

ROOT = Path(__file__).resolve().parents[2]
REGISTERED = set(load_experiments())
LINK = re.compile(r"\[([^\[\]]+)\]\([./]*appendix/what_held\.md#claim-([\w-]+)\)")

ROWS = claims.read()


def told(text):
    """(id, the words of the link) of each link to a claim."""
    return [(found[2], " ".join(found[1].split())) for found in LINK.finditer(text)]


SIGNS = {
    "holds in part": r"\b(in part|part of|partly|half)\b",
    "not decided": r"\b((not|un)\s?decided?|decides? nothing|open|cannot (say|tell|decide))\b",
    "does not hold at this size": r"\b(not|no|nor|never|neither|none|fails?|nothing|without)\b",
}
"""Words by which a reader knows a verdict; a link without any of them says that the claim holds."""


def verdict_in(words):
    """The verdict that the words of a link give."""
    return next((v for v, sign in SIGNS.items() if re.search(sign, words)), "holds")


def untold(text, ids):
    """The claims of a section that its text does not link to."""
    return set(ids) - {name for name, _ in told(text)}


def test_the_rows_hold_and_the_pages_are_current():
    assert claims.problems(ROWS, REGISTERED) == []
    summaries = claims.summaries(ROWS)
    assert len(summaries) == 10
    for path, text in {ROOT / "appendix/what_held.md": claims.render(ROWS), **summaries}.items():
        assert path.read_text(encoding="utf-8") == text, "run python tools/make_claims.py"


@pytest.mark.parametrize("path", sorted((ROOT / "sources").glob("*/*.md")), ids=lambda p: p.stem)
def test_a_link_tells_the_verdict_of_its_row(path):
    verdicts = {row["id"]: row["verdict"] for row in ROWS}
    text = path.read_text(encoding="utf-8")
    assert text.count("what_held.md#") == len(told(text)), "a link that is none"
    for name, words in told(text):
        assert name in verdicts, f"no claim is called {name}"
        assert verdict_in(words) == verdicts[name], f"{name}: the text says {words!r}"


@pytest.mark.parametrize("section", sorted({row["section"] for row in ROWS}))
def test_a_section_tells_its_claims(section):
    ids = [row["id"] for row in ROWS if row["section"] == section]
    assert not untold((ROOT / f"sources/{section}.md").read_text(encoding="utf-8"), ids)


def test_what_a_link_is():
    text = "So it [holds in\npart](../../appendix/what_held.md#claim-a), [see](x.md#claim-b)."
    assert told(text) == [("a", "holds in part")] and untold(text, ["a", "b"]) == {"b"}
    assert set(SIGNS) | {"holds"} == set(claims.VERDICTS)
    assert verdict_in("only partly confirmed") == "holds in part" != verdict_in("it holds")
    assert verdict_in("at our size it is not") == "does not hold at this size"


@pytest.fixture
def root(tmp_path):
    """A book of one section, with a record of two seeds."""
    for seed, loss in ((0, 0.25), (1, 0.75)):
        rows = [{"n": 5, "loss": loss, "best": 0.1}, {"n": 9, "loss": 3 * loss, "best": 0.2}]
        record = {"settings": {"steps": 1500}, "figures": {"rows": rows, "pair": [1, 4], "x.y": 7}}
        path = tmp_path / f"results/run.seed{seed}.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(record), encoding="utf-8")
    (tmp_path / "references.bib").write_text("@misc{known,\n}\n", encoding="utf-8")
    for folder, text in (("sources", "# A"), ("chapters", "# One chapter\n")):
        (tmp_path / folder / "01_one").mkdir(parents=True)
        (tmp_path / folder / "01_one/a.md").write_text(text, encoding="utf-8")
        (tmp_path / folder / "01_one/index.md").write_text(text, encoding="utf-8")
    return tmp_path


def row(**changes):
    made = {"id": "a-claim", "claim": "It falls.", "cite": "known", "section": "01_one/a"}
    made |= {"ours": "{run: rows/n=5/loss | .2f}", "paper": "1", "size": "{run: steps} steps"}
    made |= {"verdict": "holds in part", "because": ["run: rows/n=5/loss < 1"]}
    return {**made, "decides": "`attnbook reproduce run`", **changes}


@pytest.mark.parametrize(
    ("template", "shown"),
    [
        ("{run: rows/n=5/loss | .2f}", "0.50 (0.25–0.75)"),
        ("{run: rows/n=5/loss | .0%}", "50% (25–75%)"),
        ("{run: rows/n=5/loss | .2f max}", "0.75"),
        ("{run: rows/*/loss | .1f}", "1.0 (0.2–2.2)"),
        ("{run: rows/*best=0.2/loss | .2f}", "1.50 (0.75–2.25)"),
        ("{run: rows/-1/loss minus rows/0/loss | .1f}", "1.0 (0.5–1.5)"),
        ("{run: rows/n=5 & best=0.1/best plus pair/1 | .1f}", "4.1"),
        ("{run: x.y} of {run: steps}", "7 of 1,500"),
    ],
)
def test_a_figure_comes_from_the_records(root, template, shown):
    assert claims.fill(template, root) == shown


@pytest.mark.parametrize(
    ("comparison", "true"),
    [
        ("run: rows/n=5/loss < 0.76", True),
        ("run: rows/n=5/loss < 0.75", False),  # of every seed
        ("run: rows/n=9/loss > run: rows/n=5/loss", False),  # the least of the one is as large
        ("run: pair/1 > run: rows/*/loss", True),
        ("run: rows/n=9/loss overlaps run: rows/n=5/loss", True),
        ("run: rows/n=9/loss overlaps 2.3", False),
        ("run: rows/*/best minus rows/*/loss > -0.2", False),
    ],
)
def test_a_comparison_is_one_of_all_seeds(root, comparison, true):
    assert claims.bears_out(comparison, root) is true


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"ours": "{walk: loss | .2f}"}, "no record of 'walk'"),
        ({"ours": "{run: rows/n=5/gain | .2f}"}, "'gain' is not among"),
        ({"ours": "{run: rows/n=7/loss | .2f}"}, "0 entries have 'n=7'"),
        ({"ours": "{run: rows/7/loss}"}, "has 2 entries"),
        ({"ours": "{run: rows/0}"}, "not to a number"),
        ({"ours": "{run rows}"}, "begins with the name"),
        ({"size": "{run: steps"}, "a figure is"),
        ({"cite": "known unknown"}, "references.bib has no 'unknown'"),
        ({"verdict": "holds here"}, "verdict is 'holds here'"),
        ({"verdict": "holds"}, "what decides"),
        ({"decides": ""}, "what decides"),
        ({"decides": "`attnbook reproduce walk`"}, "no experiment is called 'walk'"),
        ({"section": "01_one/b"}, "no section '01_one/b'"),
        ({"because": ["run: rows/n=5/loss > 0.5"]}, "no longer bear out"),
        ({"because": ["__import__('os')"]}, "a comparison has one of"),
        ({"id": "A claim"}, "kebab case"),
        ({"paper": ""}, "has no paper"),
        ({"note": "x"}, "has a field 'note'"),
    ],
)
def test_a_broken_row_is_named(root, changes, fault):
    broken = row(**changes)
    found = claims.problems([broken], {"run"}, root)
    assert found and all(line.startswith(f"{broken['id']}: ") for line in found)
    assert any(fault in line for line in found), found


def test_a_whole_row_stands_on_the_page(root):
    assert claims.problems([row()], {"run"}, root) == []
    assert claims.problems([row(), row()], {"run"}, root) == ["a-claim: listed twice"]
    page = claims.render([row()], root)
    for part in ("## One chapter", '<a id="claim-a-claim">', "{cite:t}`known`", "`run`, 2 seeds",
                 "0.50 (0.25–0.75)", "**holds in part**<br>`attnbook reproduce run`"):  # fmt: skip
        assert part in page
