"""Openings and summaries of chapters: plain Markdown, and what the website makes of it."""

import re
from pathlib import Path

import pytest

from bookbuild import pages, publish

ROOT = Path(__file__).resolve().parents[2]
PAGES = [*sorted((ROOT / "chapters").glob("*/*.md")), ROOT / "chapters" / "epilogue.md"]
MYST = re.compile(r"\{[\w:-]+\}`|^(:::+|```|~~~)\{|^\([\w-]+\)=|^%|^\+\+\+|^---$", re.MULTILINE)
"""A role, a directive, a label, a comment, a break between cells, a head."""


def test_what_is_not_plain_is_found():
    for text in ("{cite:p}`a`", "```{note}\nx\n```", ":::{div} a", "(a-b)=\n# A", "---\na: b\n---"):
        assert MYST.search(f"A\n{text}\n"), text
    assert not MYST.search("A {b} (c) = `d` $e_{f}$\n\n```python\n```\n| a |\n|---|\n")


@pytest.mark.parametrize("path", PAGES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_page_is_plain_markdown(path):
    text = path.read_text(encoding="utf-8")
    assert text.startswith("# ") and not MYST.search(text)
    made = pages.for_website(text, path, ROOT)
    papers = {address for _, _, address in publish.read_book(ROOT).papers.values()}
    linked = {target for target in re.findall(r"\]\(([^()\s]+)\)", made)}
    assert not linked & papers, "a paper is linked by authors and year: [A and B, 2014](address)"


@pytest.mark.parametrize("path", PAGES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_summary_has_its_picture_and_its_claims_on_the_website(path):
    made = pages.for_website(path.read_text(encoding="utf-8"), path, ROOT)
    expected = 1 if path.name == "summary.md" else 0
    assert made.count(f"```{{chapter-picture}} {path.parent.name}\n:figure: ") == expected
    assert made.count(":::{div} chapter-claims\n| claim | here |\n|---|---|\n| ") == expected


def test_what_the_website_makes_of_a_page():
    path = ROOT / "chapters" / "06_transformer" / "some.md"
    who = "[Vaswani et al., 2017](https://arxiv.org/abs/1706.03762)"
    book = publish.read_book(ROOT)
    assert publish.resolve("{cite:p}`vaswani2017`", path, book) == f"({who})"
    text = (
        f"As they say ({who}), [Vaswani et al. (2017)](https://arxiv.org/abs/1706.03762) stay.\n\n"
        "In one picture: [Two heads](multi_head.ipynb#fig-two)\n\n"
        "<!-- claims -->\n\n| claim | here |\n\n<!-- end of claims -->\n"
    )
    assert pages.for_website(text, path, ROOT) == (
        "As they say {cite:p}`vaswani2017`, {cite:t}`vaswani2017` stay.\n\n"
        "```{chapter-picture} 06_transformer\n:figure: multi_head fig-two\n:alt: Two heads\n```\n\n"
        ":::{div} chapter-claims\n| claim | here |\n:::\n"
    )
