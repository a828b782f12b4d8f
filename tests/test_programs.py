"""The programs of api/programs.md run on the installed library alone, and learn what they say."""

import re
from pathlib import Path

import alone
import pytest

from bookbuild import wheel

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "api" / "programs.md").read_text(encoding="utf-8")
PROGRAMS = {
    title.lower(): code
    for title, code in re.findall(r"^## (.+?)$.*?^```python\n(.*?)^```$", PAGE, re.M | re.S)
}
pytestmark = pytest.mark.slow


@pytest.mark.parametrize("title", PROGRAMS)
def test_a_program_is_short_and_learns(title, tmp_path):
    """Its score is less than half of that of a guess."""
    lines = PROGRAMS[title].splitlines()
    assert len(lines) <= 20 and max(map(len, lines)) <= 88
    (tmp_path / "program.py").write_text(PROGRAMS[title], encoding="utf-8")
    done = alone.run(tmp_path / "program.py", wheel.unpacked(ROOT))
    assert done.returncode == 0, done.stderr
    found, guess = (float(n) for n in re.findall(r"\b\d+(?:\.\d+)?\b", done.stdout))
    assert found < guess / 2, done.stdout
