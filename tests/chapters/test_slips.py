"""The page of slips: every block of code on it runs, in order, and every link of it leads
somewhere.
"""

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[2] / "appendix/slips.md"
TEXT = PAGE.read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```$", TEXT, flags=re.MULTILINE | re.DOTALL)
TITLES = re.findall(r"^## (.+)$", TEXT, flags=re.MULTILINE)


def test_every_slip_has_a_block_that_asserts():
    sections = re.split(r"^## ", TEXT, flags=re.MULTILINE)[1:]
    assert len(sections) == len(TITLES) >= 10
    for section in sections:
        assert "```python" in section and "assert " in section, section.splitlines()[0]


def test_the_blocks_run():
    names = {}
    for number, block in enumerate(BLOCKS):
        try:
            exec(compile(block, f"{PAGE.name}, block {number}", "exec"), names)
        except AssertionError:
            pytest.fail(f"block {number} of {PAGE.name} does not hold:\n{block}")
    assert len(BLOCKS) == len(TITLES) + 1  # one more sets up


def test_links_lead_to_sections_of_the_book():
    for link in re.findall(r"\]\((\.\./chapters/[^)]+)\.ipynb\)", TEXT):
        chapter = (PAGE.parent / link).resolve()
        assert chapter.with_suffix(".ipynb").exists(), link
