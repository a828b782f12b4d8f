"""The page of slips: every block of code on it runs, in order."""

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
