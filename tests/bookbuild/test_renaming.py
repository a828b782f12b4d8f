"""Which changes of a cell leave its outputs as they are."""

import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output

from bookbuild.renaming import clash, what_runs

OLD = "from attnbook.old import Thing, other\nimport torch\n%time\nx = Thing(1)  # why\nprint(x)"


def cell(code, shown="2"):
    return new_code_cell(code, outputs=[new_output("stream", text=shown)])


IMPORTS = OLD.splitlines()[:2]
PART, MOVED = OLD.replace("Thing", "Part"), {"attnbook.old": "attnbook.new.place"}


@pytest.mark.parametrize(
    ("code", "renamed", "same"),
    [
        (OLD.replace("# why", "# for another reason"), {}, True),
        ("#@title Code\n" + OLD, {}, True),
        (OLD.replace("Thing(1)", "Thing(\n    1\n)"), {}, True),
        (OLD.replace("Thing, other", "other, Thing"), {}, True),
        (OLD.replace("\n".join(IMPORTS), "\n".join(IMPORTS[::-1])), {}, True),
        (PART, {"Thing": "Part"}, True),
        (OLD.replace("attnbook.old", "attnbook.new.place"), MOVED, True),
        (PART, {}, False),
        (PART.replace("1", "2"), {"Thing": "Part"}, False),
        (PART, {"Thin": "Par"}, False),
        (OLD.replace("%time", "%matplotlib"), {}, False),
        (OLD.replace("1", "2"), {}, False),
    ],
)
def test_what_explains_a_changed_cell(code, renamed, same):
    assert (what_runs(cell(code)) == what_runs(cell(OLD), renamed)) is same


@pytest.mark.parametrize(
    ("code", "shown", "why"),
    [
        (OLD, "2", None),
        (OLD, "Thing(1)", "an output shows Thing: make it again"),
        (OLD + "\nPart = 3", "2", "Part stands in its code before the renaming"),
        (OLD, "Things", None),
    ],
)
def test_a_name_that_is_shown_or_taken_needs_a_run(code, shown, why):
    assert clash(new_notebook(cells=[cell(code, shown)]), {"Thing": "Part"}) == why
