"""The page of notation is true of the sections that it names."""

import re

import pytest
from book import ROOT

PAGE = (ROOT / "appendix" / "notation.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| \$([^$]+)\$ \|.*\]\(\.\./chapters/(.+)\.ipynb\) \|$", PAGE, re.MULTILINE)


def test_every_row_was_read():
    assert len(ROWS) == sum(line.startswith("| $") for line in PAGE.splitlines()) >= 40


@pytest.mark.parametrize(("symbol", "section"), ROWS)
def test_a_symbol_stands_in_a_formula_of_its_section(symbol, section):
    text = (ROOT / "sources" / f"{section}.md").read_text(encoding="utf-8")
    text = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    formulas = " ".join(
        a or b for a, b in re.findall(r"\$\$(.+?)\$\$|\$([^$\n]+)\$", text, re.DOTALL)
    )
    letter = rf"(?<![A-Za-z\\]){re.escape(symbol)}(?![A-Za-z])"
    assert re.search(letter, formulas), f"${symbol}$ is in no formula of {section}"
