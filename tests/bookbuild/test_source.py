"""One source, two versions: what is cut, what stays, and what nbgrader's own preprocessor makes
of it.
"""

import nbformat
import pytest
import small
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from bookbuild import source


@pytest.fixture()
def written(tmp_path):
    path = tmp_path / "small.md"
    path.write_text(small.SOURCE, encoding="utf-8")
    return path


def test_the_student_gets_stubs(written):
    text = nbformat.writes(source.student_version(source.read_source(written)))
    assert source.STUB in text
    for secret in (
        "return weights @ values",
        "BEGIN SOLUTION",
        "matrix product",
        "HIDDEN",
        "solution-gate",
    ):
        assert secret not in text, secret


def test_the_instructor_gets_everything_and_the_graded_cells(written):
    nb = source.instructor_version(source.read_source(written))
    text = nbformat.writes(nb)
    for kept in ("return weights @ values", "BEGIN SOLUTION", "matrix product"):
        assert kept in text, kept
    graded = {c.metadata.nbgrader.grade_id: c for c in nb.cells if "nbgrader" in c.metadata}
    key = "00-weighted-sum" if "00-weighted-sum" in graded else "00-weighted_sum"
    assert set(graded) == {key, f"{key}-check", f"{key}-hidden"}
    assert graded[key].metadata.nbgrader.solution and not graded[key].metadata.nbgrader.grade
    assert (
        "grade(" in graded[f"{key}-check"].source
        and graded[f"{key}-hidden"].metadata.nbgrader.points > 0
    )
    nbformat.validate(nb)


def test_both_versions_leave_the_source_alone(written):
    nb = source.read_source(written)
    before = nbformat.writes(nb)
    source.student_version(nb), source.instructor_version(nb)
    assert nbformat.writes(nb) == before


def test_stub_as_nbgrader_makes_it(written):
    """Our cut of the instructor's version equals that of nbgrader's ClearSolutions and
    ClearHiddenTests.
    """
    preprocessors = pytest.importorskip("nbgrader.preprocessors")
    config = __import__("traitlets.config", fromlist=["Config"]).Config()
    config.ClearSolutions.code_stub = {"python": source.STUB}
    nb = source.instructor_version(source.read_source(written))
    for step in (
        preprocessors.ClearSolutions(config=config),
        preprocessors.ClearHiddenTests(config=config),
    ):
        nb, _ = step.preprocess(nb, {})
    theirs = {c.metadata.nbgrader.grade_id: c.source for c in nb.cells if "nbgrader" in c.metadata}
    ours = {
        c.metadata.nbgrader.grade_id: c.source
        for c in source.student_version(source.read_source(written)).cells
        if "nbgrader" in c.metadata
    }
    assert ours.items() <= theirs.items() and len(ours) == 2


def test_indentation_and_several_regions():
    nb = new_notebook(
        cells=[
            new_code_cell(
                "class A:\n    def f(self):\n        ### BEGIN SOLUTION\n        return 1\n      "
                "  ### END SOLUTION\n\n"
                "    def g(self):\n        x = 2\n        ### BEGIN SOLUTION\n        return x\n "
                "       ### END SOLUTION"
            )
        ]
    )
    assert source.student_version(nb).cells[0].source == (
        f"class A:\n    def f(self):\n        {source.STUB}\n\n    def g(self):\n        x = 2\n "
        f"       {source.STUB}"
    )


def test_cells_of_hidden_tests_only_are_dropped():
    nb = new_notebook(
        cells=[
            new_code_cell("### BEGIN HIDDEN TESTS\nassert 1\n### END HIDDEN TESTS"),
            new_code_cell(""),
        ]
    )
    assert [c.source for c in source.student_version(nb).cells] == [""]


@pytest.mark.parametrize(
    "text",
    [
        "### BEGIN SOLUTION\nx",
        "### END SOLUTION",
        "### BEGIN SOLUTION\n### BEGIN SOLUTION\n### END SOLUTION",
        "### BEGIN HIDDEN TESTS\nx",
    ],
)
@pytest.mark.parametrize("version", [source.student_version, source.instructor_version])
def test_markers_come_in_pairs(text, version):
    with pytest.raises(ValueError, match="###"):
        version(new_notebook(cells=[new_code_cell(text)]))


def test_a_marker_in_a_text_cell_is_an_error():
    with pytest.raises(ValueError, match="text cell"):
        source.student_version(
            new_notebook(cells=[new_markdown_cell("### BEGIN SOLUTION\nbecause\n### END SOLUTION")])
        )


def test_an_exercise_needs_its_check():
    task = new_code_cell("def f(): ...", metadata={"tags": ["exercise"]})
    check = new_code_cell('check("00.weighted_sum", f)', metadata={"tags": ["check"]})
    other = new_code_cell("def g(): ...", metadata={"tags": ["exercise"]})
    for cells in (
        [task],
        [other, task, check],
        [check],
        [task, new_code_cell("f()", metadata={"tags": ["check"]})],
    ):
        with pytest.raises(ValueError, match="check"):
            source.student_version(new_notebook(cells=cells))
    unknown = new_code_cell('check("00.no_such_exercise", f)', metadata={"tags": ["check"]})
    with pytest.raises(ValueError, match="no exercise"):
        source.student_version(new_notebook(cells=[task, unknown]))


def test_the_closer_looks_are_named_above_the_first():
    def texts(*titles):
        nb = new_notebook(cells=[new_markdown_cell("## What to remember\n\nThis.")])
        nb.cells += [new_markdown_cell(f"## Closer look: {title}\n\nMore.") for title in titles]
        return [cell.source for cell in source.student_version(nb).cells]

    said = f"{source.OPTIONAL}the proof · why not three?\n\n## Closer look: the proof\n\nMore."
    assert texts("the proof", "why not three?")[1:] == [
        said,
        "## Closer look: why not three?\n\nMore.",
    ]
    assert texts("why?", "the proof")[1].startswith(f"{source.OPTIONAL}why? · the proof.\n\n")
    assert texts("the proof")[1] == "## Closer look: the proof\n\nMore.", "one needs no choice"


def test_ids_follow_the_content():
    """The same from scratch, unchanged for cells that stay, different for equal cells."""
    cells = [new_code_cell("a = 1"), new_code_cell("a = 1"), new_markdown_cell("a = 1")]
    first = [c.id for c in source.student_version(new_notebook(cells=cells)).cells]
    again = [
        c.id for c in source.student_version(new_notebook(cells=[new_code_cell("b"), *cells])).cells
    ]
    assert len(set(first)) == 3 and again[1:] == first


def test_nothing_of_the_author_is_stored(written):
    nb = source.read_source(written)
    nb.metadata.update(
        widgets={}, kernelspec={"name": "my-env", "display_name": "mine", "language": "python"}
    )
    assert dict(source.student_version(nb).metadata) == source.METADATA


def test_only_sources_are_read(tmp_path):
    page = tmp_path / "index.md"
    page.write_text("# A page\n")
    assert not source.is_source(page)
    with pytest.raises(ValueError, match="MyST"):
        source.read_source(page)
