"""A planted fault for each rule of notebooks: the sound one passes, each broken one is named."""

import copy
import json
import os
import subprocess
import sys

import nbformat
import pytest
import small
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from patience import eventually

from bookbuild import measure, promise, rules, source


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """The small notebook, run."""
    return nbformat.read(small.made_in(tmp_path_factory.mktemp("rules")), as_version=4)


def cell(nb, text):
    return next(c for c in nb.cells if text in c.source)


def test_the_sound_notebook_passes(sound):
    assert rules.problems(sound) == []


TOTAL, FIGURE, ANSWER, CHECK = "print(total)", "ax.bar", "YOUR CODE", "check("


def change(text, metadata=(), **parts):
    """The fault of the cell with this text: other metadata, or other parts."""

    def plant(nb):
        cell(nb, text).metadata.update(metadata)
        cell(nb, text).update(parts)

    return plant


def shown(kind, **content):
    return change(TOTAL, outputs=[new_output(kind, **content)])


def add(text, more):
    def plant(nb):
        cell(nb, text).source += more

    return plant


def repeat_a_name(nb):
    cell(nb, CHECK).metadata.nbgrader.grade_id = cell(nb, ANSWER).metadata.nbgrader.grade_id


def repeat_the_caption(nb):
    alt = cell(nb, FIGURE).metadata.alt
    cell(nb, "**Figure").source = f"**Figure 0.1.** {alt}.\n\n<details></details>"


NO_LINE = "needs one line such as '*runs in 60 s"
NO_ALT = "a figure without a meaningful alt text"
SOLUTION = "a solution or a hidden test stands in the public notebook"
FAULTS = {
    "other kernel": (lambda nb: nb.metadata.kernelspec.update(name="my-env"), "expected python3"),
    "more metadata": (lambda nb: nb.metadata.update(widgets={}), "metadata of the notebook"),
    "no line": (change("# A small", source="# A small section"), NO_LINE),
    "two lines": (
        add("# A small", "\n\n*quick: 20 s · 1 GB · CPU — full: 2 min · 2 GB · CPU*"),
        NO_LINE,
    ),
    "heading twice": (
        lambda nb: nb.cells.append(new_markdown_cell("## A look\n\nText.\n\n## A look")),
        "the heading 'A look' stands twice",
    ),
    "other set-up": (add("attnbook.setup", "\nprint(1)"), "set-up cell is not the one of its"),
    "late set-up": (
        lambda nb: nb.cells.insert(1, new_code_cell("1", execution_count=1)),
        "the first code cell is not the set-up cell",
    ),
    "strange tag": (change("even number", {"tags": ["nbval-skip"]}), "tag 'nbval-skip' is not"),
    "error": (shown("error", ename="ValueError", evalue="x", traceback=[]), "is an error: Val"),
    "on stderr": (shown("stream", name="stderr", text="a warning"), "stored output on stderr"),
    "widget": (
        shown("display_data", data={"application/vnd.jupyter.widget-view+json": {}}),
        "a stored widget",
    ),
    "address": (
        shown("execute_result", data={"text/plain": "<A object at 0x7f00>"}),
        "a stored address",
    ),
    "rounding": (shown("stream", text="5e-08 apart\n"), "prints rounding error, 5e-08"),
    "out of order": (change(TOTAL, execution_count=7), "execution count 7, expected 2"),
    "not run": (change(TOTAL, execution_count=None), "execution count None"),
    "no alt": (change(FIGURE, {"alt": ""}), NO_ALT),
    "short alt": (change(FIGURE, {"alt": "a figure"}), NO_ALT),
    "file as alt": (change(FIGURE, {"alt": "_images/a_picture_of_four_bars.png"}), NO_ALT),
    "caption as alt": (repeat_the_caption, "the alt text repeats the caption"),
    "two figures": (
        lambda nb: cell(nb, FIGURE).outputs.extend(cell(nb, FIGURE).outputs),
        "2 figures in one cell",
    ),
    "alt of nothing": (change(FIGURE, outputs=[]), "has alt text but shows no figure"),
    "picture": (add("even number", "\n\n![](x.png)"), "a picture without alt text"),
    "solution": (change(ANSWER, source="### BEGIN SOLUTION\n1\n### END SOLUTION"), SOLUTION),
    "gate": (change("even number", {"tags": ["solution-gate"]}), SOLUTION),
    "no region": (change(ANSWER, source="def weighted_sum(w, v): ..."), "hides no solution"),
    "no ids": (change(CHECK, {"nbgrader": {}}), "without nbgrader's metadata"),
    "same ids": (repeat_a_name, "a second cell named"),
    "leaning check": (
        change(CHECK, source='check("00.weighted_sum", weighted_sum)'),
        "a graded cell stands alone",
    ),
    "tag on a plain cell": (
        change(TOTAL, {"tags": ["nbval-ignore-output"]}),
        "nothing in it comes from training",
    ),
    "no band": (change("assert seconds", source="seconds"), "assert the band"),
    "no tag": (change("perf_counter", {"tags": []}), "prints text that comes from training"),
    "no Python": (change(TOTAL, source="print(total"), "does not parse"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_each_fault_is_named(sound, name):
    nb = copy.deepcopy(sound)
    plant, said = FAULTS[name]
    plant(nb)
    assert said in "\n".join(rules.problems(nb))


def test_a_figure_alone_may_go_without_a_band(sound):
    nb = copy.deepcopy(sound)
    figure, clock = cell(nb, "ax.bar"), cell(nb, "perf_counter")
    clock.source, clock.outputs = "import time\nbegin = time.perf_counter()", []
    clock.metadata["tags"] = []
    figure.source += "\nbegin"
    figure.metadata["tags"] = ["nbval-ignore-output"]
    order = nb.cells.index(figure), nb.cells.index(clock)
    nb.cells[order[0]], nb.cells[order[1]] = clock, figure
    clock.execution_count, figure.execution_count = figure.execution_count, clock.execution_count
    assert rules.problems(nb) == []


PROMISE = promise.Need(60, 1000, "CPU", "60 s")


@pytest.mark.parametrize(
    "peak_mb, said", [(1499, ""), (1501, "used 1501 MB, declared 1000 MB (limit 1.5 times that)")]
)
def test_a_run_that_takes_too_much_memory_is_named(peak_mb, said):
    assert measure.too_large(PROMISE, peak_mb) == said


@pytest.mark.parametrize(
    "seconds, peak_mb, wrong",
    [(59, 999, 0), (61, 999, 1), (59, 1001, 1), (14, 999, 1), (16, 200, 0), (1, 1, 1)],
)
def test_a_line_that_says_something_else_is_named(seconds, peak_mb, wrong):
    assert len(measure.untrue_promise(PROMISE, seconds, peak_mb)) == wrong


def test_a_padded_memory_is_named():
    assert len(measure.untrue_promise(promise.Need(20, 4000, "CPU", "20 s"), 10, 1000)) == 1


@pytest.mark.parametrize(
    "line, seconds, mb",
    [
        ("*quick: 60 s · 1 GB · CPU — full: 10 min · 4 GB · one GPU*", 60, 1000),
        ("*quick: 1.5 min · 700 MB · CPU — full: 2 h · 4 GB · one GPU*", 90, 700),
        ("*runs in 60 s · 1 GB · CPU*", 60, 1000),
        ("*about 55 minutes with the exercises · runs in 60 s · 1 GB · CPU*", 60, 1000),
    ],
)
def test_the_declared_line_is_read(line, seconds, mb):
    got = promise.declared(section(f"# T\n\n{line}\n"))
    assert got.quick[:3] == (seconds, mb, "CPU")
    assert got.wants_gpu == ("GPU" in line) and got.minutes == (55 if "about" in line else None)


def test_a_device_that_is_none_is_named():
    nb = section("# T\n\n*runs in 60 s · 1 GB · GPU*")
    with pytest.raises(ValueError, match="must be one of .*'GPU'"):
        promise.declared(nb)


def section(*texts):
    """A notebook of texts and of code cells, given as (code, tags)."""
    made = [
        new_markdown_cell(text)
        if isinstance(text, str)
        else new_code_cell(text[0], metadata={"tags": list(text[1])})
        for text in texts
    ]
    return new_notebook(cells=made)


def test_what_a_prediction_is_about_stays_folded():
    statement = "### Exercise 0.1.3: Predict: the outcome\n\nSay what comes."
    marked = {"nbgrader": {"grade": False, "grade_id": "x", "solution": False}}
    nb = section(statement, ("def guess(): ...", ["exercise"]), ("print(outcome)", []))
    nb.cells[1].metadata.update(marked)
    assert any("tag it hide-output" in fault for fault in rules._exercises(nb))
    nb.cells[2].metadata["tags"] = ["hide-output"]
    assert rules._exercises(nb) == []


def test_the_main_path_is_what_stands_open_before_the_exercises():
    nb = section(
        "# Two words\n\nThree more words $$ a = b $$ <details>not this</details>",
        ("setup", ["hide-input"]),
        ("one\n\ntwo", []),
        ("folded", ["hide-cell"]),
        f"{source.OPTIONAL}the proof.\n\n## Closer look: the proof\n\nNobody has to read it.",
        ("proof", []),
        "## On\n\nTwo more.\n\n## Exercises\n\nTen words that do not count.",
        ("answer", []),
    )
    assert measure.main_path(nb) == (2 + 4 + 1 + 2, 1, 2, 0)
    nb = section("# Two words", ("one", []), "## Exercises\n\nTen words that do not count.")
    assert measure.main_path(nb) == (2, 1, 1, 0)


def test_milestones_between_the_parts_of_a_project_are_exercises():
    nb = section(
        "# Two words\n\n### Exercise 10.1.1: It\n\n*●●○○ · 20 minutes*\n\nWrite it down now.",
        ("def it(): ...", ["exercise"]),
        ("check(it)", ["check"]),
        "Three words after.\n\n### A heading\n\nTwo more.",
        ("shown", []),
    )
    assert measure.main_path(nb) == (2 + 3 + 2 + 2, 1, 1, 0)


def test_the_readers_minutes_are_those_of_the_path_and_of_the_exercises():
    exercise = "## Exercises\n\n### Exercise: It\n\n*●●○○ · 20 minutes*\n\nWrite it."
    nb = section("word " * 1499, ("x\n" * 100, []), ("figure", ["hide-input"]), exercise)
    assert measure.reading_minutes(nb) == 40
    nb.cells[2].metadata["alt"] = "A line that rises"
    assert measure.reading_minutes(nb) == 45


@pytest.mark.parametrize(
    "words, cells, said",
    [(10, 1, None), (2001, 1, "the main path has 2003 words"), (10, 16, "and 16 open code cells")],
)
def test_a_long_path_is_named(words, cells, said):
    nb = section(
        "# T\n\nHook.\n\n*runs in 20 s · 1 GB · CPU*", *[("x", [])] * cells, "word " * words
    )
    faults = " ".join(rules._declared(nb))
    assert said in faults if said else faults == ""


@pytest.mark.parametrize(
    "first, second, between, joined",
    [
        ("hide-cell", "hide-cell", None, False),
        ("hide-input", "hide-cell", None, False),
        ("hide-cell", "hide-input", None, False),
        ("hide-input", "hide-cell", "caption", False),
        ("hide-input", "hide-input", None, False),
        ("hide-input", "hide-cell", "a text", True),
        ("hide-input", "hide-input", "output", True),
    ],
)
def test_folds_that_should_be_one_are_named(first, second, between, joined):
    text = [between] if between in ("caption", "a text") else []
    nb = section(("x", [first]), *text, ("y", [second]))
    if between == "output":
        for cell in nb.cells:
            cell.outputs = [new_output("stream", text="1\n")]
    if between == "caption":
        nb.cells[1].metadata["tags"] = ["caption"]
    assert (rules._folds(nb) == []) == joined


TWO = "*quick: 20 s · 1 GB · CPU — full: 2 min · 2 GB · {}*"


@pytest.mark.parametrize(
    "line, code, gpu, said",
    [
        ("*runs in 20 s · 1 GB · CPU*", "x", False, None),
        ("*runs in 20 s · 1 GB · CPU or GPU*", "x.to(setup.device)", False, None),
        (TWO.format("CPU"), "if setup.full: x", False, None),
        (TWO.format("one GPU"), "if setup.full: x.to(setup.device)", True, None),
        (TWO.format("one GPU"), "x.to(setup.device)", True, "nothing in it asks for setup.full"),
        ("*runs in 20 s · 1 GB · CPU*", "if setup.full: x", False, "declare both presets"),
        (TWO.format("one GPU"), "if setup.full: x", True, "expected 'CPU'"),
        ("*runs in 20 s · 1 GB · CPU*", "x.to(setup.device)", False, "expected 'CPU or GPU'"),
        (TWO.format("one GPU"), "if setup.full: x.to(setup.device)", False, "is not GPU"),
        ("*runs in 20 s · 1 GB · CPU*", "x", True, "accelerator is GPU"),
    ],
)
def test_what_the_line_promises_is_what_the_code_does(line, code, gpu, said):
    nb = section(f"# T\n\n{line}", (code, []))
    if gpu:
        nb.metadata.accelerator = "GPU"
    faults = " ".join(rules._declared(nb))
    assert said in faults if said else faults == ""


@pytest.mark.parametrize(
    "code, tags, printed, said",
    [
        ("x = 1", [], "0.97 \u00b1 0.01", ""),
        ("assert x", [], "", "an open cell asserts"),
        ("assert x", ["hide-cell"], "", ""),
        ("x", [], "more than twice: True", "prints True or False"),
        ("x = " + 85 * "1", ["hide-cell"], "", "a line of code with 89 columns"),
        ("x", [], 89 * "-", "a line of output with 89 columns"),
    ],
)
def test_what_no_reader_should_see_is_named(code, tags, printed, said):
    line = "*reading: 1 min · quick: 20 s · 1 GB · CPU — full: 2 min · 2 GB · one GPU*"
    nb = section("# T\n\nHook.\n\n" + line, (code, tags))
    nb.cells[1].outputs = [new_output("stream", text=printed)]
    faults = " ".join(rules._readers_eyes(nb))
    assert said in faults if said else faults == ""


def test_peak_memory_sees_a_child():
    child = "'x = bytearray(3 * 10**8); input()'"
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child}])"
    process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE)
    with measure.PeakMemory(process.pid) as peak:
        assert eventually(lambda: peak.mb >= 300)
        process.communicate(b"\n")
    assert peak.mb <= 450


def test_peak_memory_of_what_ends_at_once_is_not_zero():
    assert measure.PeakMemory(os.getpid()).mb > 10


def test_rows_are_merged_and_those_of_gone_notebooks_dropped(tmp_path):
    path = tmp_path / "rows.json"
    for name in "ab":
        (tmp_path / f"{name}.ipynb").touch()
    measure.record(
        path, [{"notebook": f"{n}.ipynb", "seconds": 1, "peak_mb": 1} for n in "bac"], tmp_path
    )
    (tmp_path / "b.ipynb").unlink()
    measure.record(path, [{"notebook": "a.ipynb", "seconds": 2, "peak_mb": 2}], tmp_path)
    assert json.loads(path.read_text()) == [{"notebook": "a.ipynb", "seconds": 2, "peak_mb": 2}]
    assert [p.name for p in tmp_path.iterdir() if "partial" in p.name] == []
