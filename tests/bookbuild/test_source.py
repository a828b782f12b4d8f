"""One source, two versions: what is cut, what stays, and what nbgrader's preprocessor makes."""

import nbformat
import pytest
import small
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from traitlets.config import Config

from bookbuild import source

SECRETS = "return weights @ values", "BEGIN SOLUTION", "matrix product"


@pytest.fixture()
def written(tmp_path):
    return small.source_in(tmp_path)


def test_the_student_gets_stubs(written):
    text = nbformat.writes(source.student_version(source.read_source(written)))
    assert source.STUB in text
    for secret in (*SECRETS, "HIDDEN", "solution-gate"):
        assert secret not in text, secret


def test_the_instructor_gets_everything_and_the_graded_cells(written):
    nb = source.instructor_version(source.read_source(written))
    text = nbformat.writes(nb)
    for kept in SECRETS:
        assert kept in text, kept
    graded = {c.metadata.nbgrader.grade_id: c for c in nb.cells if "nbgrader" in c.metadata}
    key = "00-weighted-sum"
    assert set(graded) == {key, f"{key}-check", f"{key}-hidden"}
    assert graded[key].metadata.nbgrader.solution and not graded[key].metadata.nbgrader.grade
    assert "grade(" in graded[f"{key}-check"].source
    assert graded[f"{key}-hidden"].metadata.nbgrader.points > 0
    nbformat.validate(nb)


def sources(nb):
    """The text of each cell that is graded or answered, by its name."""
    cells = [c for c in nb.cells if "nbgrader" in c.metadata]
    return {c.metadata.nbgrader.grade_id: c.source for c in cells}


def test_both_versions_leave_the_source_alone(written):
    nb = source.read_source(written)
    before = nbformat.writes(nb)
    source.student_version(nb), source.instructor_version(nb)
    assert nbformat.writes(nb) == before


def test_stub_as_nbgrader_makes_it(written):
    """Our cut of the instructor's version equals nbgrader's ClearSolutions and ClearHiddenTests."""
    preprocessors = pytest.importorskip("nbgrader.preprocessors")
    config = Config()
    config.ClearSolutions.code_stub = {"python": source.STUB}
    nb = source.instructor_version(source.read_source(written))
    for step in (preprocessors.ClearSolutions, preprocessors.ClearHiddenTests):
        nb, _ = step(config=config).preprocess(nb, {})
    ours = sources(source.student_version(source.read_source(written)))
    assert ours.items() <= sources(nb).items() and len(ours) == 2


def test_indentation_and_several_regions():
    code = """class A:
    def f(self):
        {}

    def g(self):
        x = 2
        {}"""
    region = "### BEGIN SOLUTION\n        return x\n        ### END SOLUTION"
    nb = new_notebook(cells=[new_code_cell(code.format(region, region))])
    made = source.student_version(nb).cells[0].source
    assert made == code.format(source.STUB, source.STUB)


def test_cells_of_hidden_tests_only_are_dropped():
    hidden = "### BEGIN HIDDEN TESTS\nassert 1\n### END HIDDEN TESTS"
    nb = new_notebook(cells=[new_code_cell(hidden), new_code_cell("")])
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
    text = new_markdown_cell("### BEGIN SOLUTION\nbecause\n### END SOLUTION")
    with pytest.raises(ValueError, match="text cell"):
        source.student_version(new_notebook(cells=[text]))


def test_an_exercise_needs_its_check():
    task, other, check, call, unknown = (
        new_code_cell(code, metadata={"tags": [tag]})
        for code, tag in (
            ("def f(): ...", "exercise"),
            ("def g(): ...", "exercise"),
            ('check("00.weighted_sum", f)', "check"),
            ("f()", "check"),
            ('check("00.no_such_exercise", f)', "check"),
        )
    )
    for cells in ([task], [other, task, check], [check], [task, call]):
        with pytest.raises(ValueError, match="check"):
            source.student_version(new_notebook(cells=cells))
    with pytest.raises(ValueError, match="no exercise"):
        source.student_version(new_notebook(cells=[task, unknown]))


def test_the_closer_looks_are_named_above_the_first():
    def texts(*titles):
        nb = new_notebook(cells=[new_markdown_cell("## What to remember\n\nThis.")])
        nb.cells += [new_markdown_cell(f"## Closer look: {title}\n\nMore.") for title in titles]
        return [cell.source for cell in source.student_version(nb).cells]

    said = f"{source.OPTIONAL}the proof · why not three?\n\n## Closer look: the proof\n\nMore."
    second = "## Closer look: why not three?\n\nMore."
    assert texts("the proof", "why not three?")[1:] == [said, second]
    assert texts("why?", "the proof")[1].startswith(f"{source.OPTIONAL}why? · the proof.\n\n")
    assert texts("the proof")[1] == "## Closer look: the proof\n\nMore.", "one needs no choice"


def test_ids_follow_the_content():
    """The same from scratch, unchanged for cells that stay, different for equal cells."""
    cells = [new_code_cell("a = 1"), new_code_cell("a = 1"), new_markdown_cell("a = 1")]
    more = [new_code_cell("b"), *cells]
    first, again = (
        [c.id for c in source.student_version(new_notebook(cells=part)).cells]
        for part in (cells, more)
    )
    assert len(set(first)) == 3 and again[1:] == first


def test_nothing_of_the_author_is_stored(written):
    nb = source.read_source(written)
    kernel = {"name": "my-env", "display_name": "mine", "language": "python"}
    nb.metadata.update(widgets={}, kernelspec=kernel)
    assert dict(source.student_version(nb).metadata) == source.METADATA


def test_only_sources_are_read(tmp_path):
    page = tmp_path / "index.md"
    page.write_text("# A page\n")
    assert not source.is_source(page)
    with pytest.raises(ValueError, match="MyST"):
        source.read_source(page)
