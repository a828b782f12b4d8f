"""A figure to touch is two figures, one that answers and one that stands still: its caption and its
description say what each of them shows.
"""

import re
from pathlib import Path

import pytest

from attnbook.figures.interactive import attention, decoding, heads, memory
from bookbuild.source import read_source

ROOT = Path(__file__).resolve().parents[3]
CALLS = "|".join(n for module in (attention, decoding, heads, memory) for n in module.__all__)
TOUCHED = [
    (path.stem, cell.metadata.get("mystnb", {}))
    for path in sorted((ROOT / "sources").rglob("*.md"))
    for cell in read_source(path).cells
    if cell.cell_type == "code" and re.search(rf"\bfigures\.({CALLS})\(", cell.source)
]


def test_every_kind_is_in_the_book():
    assert len(TOUCHED) >= 12


@pytest.mark.parametrize("shown", [shown for _, shown in TOUCHED], ids=[s for s, _ in TOUCHED])
def test_the_caption_says_what_is_live_and_what_is_still(shown):
    caption, alt = shown["figure"]["caption"], shown["image"]["alt"]
    common, live, still = re.split(r"\*Live:\*|\*Still:\*", caption)
    assert len(common) > 20 and len(live) > 20 and len(still) > 20
    assert caption.index("*Live:*") < caption.index("*Still:*")
    assert re.match(r"Live(: .*\bStill:| and still,) ", alt), alt
