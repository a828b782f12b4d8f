"""A planted fault for each rule that the notebooks keep: the sound notebook passes, each broken
one is named.
"""

import copy
import os

import nbformat
import pytest
import small
from nbformat.v4 import new_code_cell, new_markdown_cell, new_output
from patience import eventually

from bookbuild import execute, measure, promise, publish, rules, source


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """The small notebook, run."""
    folder = tmp_path_factory.mktemp("rules")
    (folder / "small.md").write_text(small.SOURCE, encoding="utf-8")
    path = folder / "small.md"
    nb = publish.readable(source.read_source(path), path)
    execute.execute(nb, folder)
    return nb


def cell(nb, text):
    return next(c for c in nb.cells if text in c.source)


def test_the_sound_notebook_passes(sound):
    assert rules.problems(sound) == []


def other_kernel(nb):
    nb.metadata.kernelspec["name"] = "my-env"


def more_metadata(nb):
    nb.metadata["widgets"] = {}


def no_line(nb):
    nb.cells[0].source = nb.cells[0].source.replace("runs in", "needs")


def two_lines(nb):
    nb.cells[0].source += "\n\n*quick: 20 s · 1 GB · CPU — full: 2 min · 2 GB · CPU*"


def heading_twice(nb):
    nb.cells.append(new_markdown_cell("## A closer look\n\nText.\n\n## A closer look"))


def other_setup(nb):
    cell(nb, "attnbook.setup").source += "\nprint(1)"


def late_setup(nb):
    nb.cells.insert(1, new_code_cell("1", execution_count=1))


def strange_tag(nb):
    nb.cells[2].metadata["tags"] = ["nbval-skip"]


def stored_error(nb):
    cell(nb, "print(total)").outputs = [
        new_output("error", ename="ValueError", evalue="x", traceback=[])
    ]


def on_stderr(nb):
    cell(nb, "print(total)").outputs = [new_output("stream", name="stderr", text="a warning")]


def widget(nb):
    cell(nb, "print(total)").outputs = [
        new_output("display_data", data={"application/vnd.jupyter.widget-view+json": {}})
    ]


def address(nb):
    cell(nb, "print(total)").outputs = [
        new_output("execute_result", data={"text/plain": "<A object at 0x7f00>"})
    ]


def rounding_error(nb):
    out = new_output("stream", name="stdout", text="5e-08 apart\n")
    cell(nb, "print(total)").outputs = [out]


def out_of_order(nb):
    cell(nb, "print(total)").execution_count = 7


def not_run(nb):
    cell(nb, "print(total)").execution_count = None


def no_alt(nb):
    del cell(nb, "ax.bar").metadata["alt"]


def short_alt(nb):
    cell(nb, "ax.bar").metadata.alt = "a figure"


def file_alt(nb):
    cell(nb, "ax.bar").metadata.alt = "_images/a_picture_of_four_bars.png"


def caption_alt(nb):
    alt = cell(nb, "ax.bar").metadata.alt
    cell(nb, "**Figure").source = f"**Figure 0.1.** {alt}.\n\n<details></details>"


def two_figures(nb):
    cell(nb, "ax.bar").outputs *= 2


def alt_of_nothing(nb):
    cell(nb, "ax.bar").outputs = []


def picture_without_alt(nb):
    nb.cells[2].source += "\n\n![](x.png)"


def solution_left(nb):
    cell(nb, "YOUR CODE").source = "### BEGIN SOLUTION\n1\n### END SOLUTION"


def gate_left(nb):
    nb.cells[2].metadata["tags"] = ["solution-gate"]


def no_region(nb):
    cell(nb, "YOUR CODE").source = "def weighted_sum(w, v):\n    return w @ v"


def no_ids(nb):
    del cell(nb, "check(").metadata["nbgrader"]


def same_ids(nb):
    cell(nb, "check(").metadata.nbgrader.grade_id = cell(nb, "YOUR CODE").metadata.nbgrader.grade_id


def leaning_check(nb):
    cell(nb, "check(").source = 'check("00.weighted_sum", weighted_sum)'


def tag_on_plain_cell(nb):
    cell(nb, "print(total)").metadata["tags"] = ["nbval-ignore-output"]


def no_band(nb):
    cell(nb, "assert seconds").source = "seconds"


def no_tag(nb):
    cell(nb, "perf_counter").metadata["tags"] = []


def does_not_parse(nb):
    cell(nb, "print(total)").source = "print(total"


FAULTS = [
    other_kernel,
    more_metadata,
    no_line,
    two_lines,
    heading_twice,
    other_setup,
    late_setup,
    rounding_error,
    strange_tag,
    stored_error,
    on_stderr,
    widget,
    address,
    out_of_order,
    not_run,
    no_alt,
    short_alt,
    file_alt,
    caption_alt,
    two_figures,
    alt_of_nothing,
    picture_without_alt,
    solution_left,
    gate_left,
    no_region,
    no_ids,
    same_ids,
    leaning_check,
    tag_on_plain_cell,
    no_band,
    no_tag,
    does_not_parse,
]


@pytest.mark.parametrize("plant", FAULTS, ids=lambda f: f.__name__)
def test_each_fault_is_named(sound, plant):
    nb = copy.deepcopy(sound)
    plant(nb)
    assert rules.problems(nb), plant.__name__


def test_a_figure_alone_may_go_without_a_band(sound):
    nb = copy.deepcopy(sound)
    figure, clock = cell(nb, "ax.bar"), cell(nb, "perf_counter")
    clock.source, clock.metadata["tags"], clock.outputs = (
        "import time\nbegin = time.perf_counter()",
        [],
        [],
    )
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
    nb = nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell(f"# T\n\n{line}\n")])
    got = promise.declared(nb)
    assert got.quick[:3] == (seconds, mb, "CPU")
    assert got.wants_gpu == ("GPU" in line) and got.minutes == (55 if "about" in line else None)


def test_a_device_that_is_none_is_named():
    nb = section("# T\n\n*runs in 60 s · 1 GB · GPU*")
    with pytest.raises(ValueError, match="must be one of .*'GPU'"):
        promise.declared(nb)


def section(*texts):
    """A notebook of texts and of code cells, given as (code, tags)."""
    v4 = nbformat.v4
    return v4.new_notebook(
        cells=[
            v4.new_markdown_cell(text)
            if isinstance(text, str)
            else v4.new_code_cell(text[0], metadata={"tags": list(text[1])})
            for text in texts
        ]
    )


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
    nb.cells[1].outputs = [nbformat.v4.new_output("stream", text=printed)]
    faults = " ".join(rules._readers_eyes(nb))
    assert said in faults if said else faults == ""


def test_peak_memory_sees_a_child():
    import subprocess
    import sys

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
    import json

    assert json.loads(path.read_text()) == [{"notebook": "a.ipynb", "seconds": 2, "peak_mb": 2}]
    assert [p.name for p in tmp_path.iterdir() if "partial" in p.name] == []
