"""The small pictures of the chapters: those in the repository are those that the tool draws, from
the numbers that the notebooks hold today. How they look is tested in a browser (tests/site).
"""

import importlib.util
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_cards_are_those_that_the_tool_draws():
    spec = importlib.util.spec_from_file_location("draw_cards", ROOT / "tools/pictures/cards.py")
    draw_cards = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(draw_cards)
    stored = {
        path.stem: path.read_text(encoding="utf-8")
        for path in (ROOT / "_vendor" / "book" / "cards").glob("*.svg")
    }
    made = draw_cards.cards()
    assert set(stored) == set(made) and len(made) == 11
    old = [name for name in made if made[name] != stored[name]]
    assert not old, f"draw {old} again: python tools/pictures/cards.py"
