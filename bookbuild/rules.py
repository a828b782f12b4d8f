"""The rules that every notebook of the book keeps.

`problems(nb)` reads a stored notebook and says which are broken.
"""

from __future__ import annotations

import contextlib
import re

import nbformat
from nbformat import NotebookNode

from . import measure, promise, setup_cell, source
from .address import ROOT, read_address
from .nondeterminism import Taint, has_assert, parse
from .publish import CAPTION, NEIGHBOURS

TRAINED = "nbval-ignore-output"
TAGS = {
    CAPTION,
    NEIGHBOURS,
    setup_cell.TAG,
    TRAINED,
    "hide-input",
    "hide-cell",
    "remove-input",
    "hide-output",
    "exercise",
    "check",
    "full-width",
    "scroll-output",
}
_ROUNDING = re.compile(r"\b\d(?:\.\d+)?e-(?:0[7-9]|[1-9]\d)\b")
"""A number so small that rounding decides it."""
ALT_LENGTH = 30
LONGEST = 1900, 15
"""Words and open code cells of a section's main path."""
WIDEST = 88
"""Columns of code and of what it prints."""


def problems(nb: NotebookNode) -> list[str]:
    """What is wrong with a stored notebook, one line each, naming the cell; an empty list when
    nothing is.
    """
    faults: list[str] = []
    for rule in (
        _format,
        _headings,
        _declared,
        _readers_eyes,
        _setup,
        _tags,
        _outputs,
        _folds,
        _figures,
        _solutions,
        _exercises,
        _trained,
    ):
        faults += rule(nb)
    return faults


def _code(nb):
    return [(i, c) for i, c in enumerate(nb.cells) if c.cell_type == "code"]


def _tagged(cell, tag):
    return tag in cell.metadata.get("tags", [])


def _format(nb):
    try:
        nbformat.validate(nb)
    except nbformat.ValidationError as error:
        return [f"not a valid notebook: {str(error).splitlines()[0]}"]
    if nb.metadata.get("kernelspec", {}).get("name") != "python3":
        return [
            f"kernelspec: expected python3, got {nb.metadata.get('kernelspec', {}).get('name')!r}"
        ]
    gpu = {"accelerator", "colab"}
    if {k: v for k, v in nb.metadata.items() if k not in gpu} != source.METADATA:
        return [
            f"metadata of the notebook: expected only {sorted(source.METADATA)}, and for a GPU "
            f"{sorted(gpu)}, got {sorted(nb.metadata)}"
        ]
    return []


def _headings(nb):
    """A second heading of the same words: links and the contents of the page lead to the first."""
    heads = [
        match[1]
        for cell in nb.cells
        if cell.cell_type == "markdown"
        for match in re.finditer(
            r"^#+ +(.+?)\s*$", re.sub(r"```.*?```", "", cell.source, flags=re.DOTALL), re.MULTILINE
        )
    ]
    return [f"the heading {h!r} stands twice" for h in dict.fromkeys(heads) if heads.count(h) > 1]


def _declared(nb):
    try:
        said = promise.declared(nb)
    except ValueError as error:
        return [str(error)]
    path, faults = measure.main_path(nb), []
    if path.words > LONGEST[0] or path.cells > LONGEST[1]:
        faults.append(
            f"the main path has {path.words} words and {path.cells} open code cells, at most "
            f"{LONGEST[0]} and {LONGEST[1]}: fold a cell, or move it under a closer look"
        )
    return faults + _presets(nb, said)


def _presets(nb, said):
    """A full preset where the code has one, and a GPU where the code moves to one."""
    code = "\n".join(cell.source for _, cell in _code(nb))
    full, device = "setup.full" in code, "setup.device" in code
    if full != (said.full is not None):
        return [
            "declares a full preset, but nothing in it asks for setup.full"
            if said.full
            else "asks for setup.full: declare both presets, quick and full"
        ]
    expected = ("one GPU" if full else "CPU or GPU") if device else "CPU"
    got = (said.full or said.quick).device
    if got != expected:
        return [f"declared is {got!r}, expected {expected!r}: setup.device says what it runs on"]
    gpu = nb.metadata.get("accelerator") == "GPU"
    if gpu != said.wants_gpu:
        return [f"metadata: accelerator {'is' if gpu else 'is not'} GPU, and the line says {got}"]
    return []


def _readers_eyes(nb):
    """What stands open before a reader: no verification, numbers instead of "True", and no line
    that a screen cuts off.
    """
    faults = []
    for i, cell in _code(nb):
        tags = {*cell.metadata.get("tags", [])}
        printed = "".join(o.get("text", "") for o in cell.outputs if o.output_type == "stream")
        lines = [] if setup_cell.TAG in tags else cell.source.splitlines()
        said = [] if "check" in tags else printed.splitlines()  # a verdict is not the author's
        for what, those in (("code", lines), ("output", said)):
            if wide := [line for line in those if len(line) > WIDEST]:
                faults.append(
                    f"cell {i}: a line of {what} with {len(wide[0])} columns, at most {WIDEST}: "
                    f"{wide[0].strip()[:40]!r}"
                )
        if tags & {*measure.FOLDED, "exercise", "check"}:
            continue
        with contextlib.suppress(SyntaxError):  # named by _trained
            if has_assert(cell.source):
                faults.append(
                    f"cell {i}: an open cell asserts; move that into a folded cell after it"
                )
        if re.search(r"\b(True|False)\s*$", printed, re.MULTILINE):
            faults.append(
                f"cell {i}: an open cell prints True or False where a number would say more"
            )
    return faults


def _setup(nb):
    code = _code(nb)
    if not code or not _tagged(code[0][1], setup_cell.TAG):
        return ["the first code cell is not the set-up cell, which publishing adds"]
    written = code[0][1].source
    number, newest = setup_cell.interface_of(written), setup_cell.current_interface()
    oldest = setup_cell.oldest_interface()
    if number is None or not oldest <= number <= newest:
        return [f"written for interface {number} of the library, which has {oldest} to {newest}"]
    with contextlib.suppress(ValueError):  # named by _declared
        if written != setup_cell.setup_code(promise.declared(nb), read_address(ROOT), number):
            return ["the set-up cell is not the one of its declared line: build it again"]
    return []


def _tags(nb):
    return [
        f"cell {i}: tag {tag!r} is not one that the book uses ({', '.join(sorted(TAGS))})"
        for i, c in enumerate(nb.cells)
        for tag in c.metadata.get("tags", [])
        if tag not in TAGS
    ]


def _outputs(nb):
    faults, count = [], 0
    for i, cell in _code(nb):
        if cell.source.strip():
            count += 1
            if cell.execution_count != count:
                faults.append(
                    f"cell {i}: execution count {cell.execution_count}, expected {count}: not "
                    f"run from top to bottom"
                )
        for out in cell.outputs:
            data = out.get("data", {})
            if out.output_type == "error":
                faults.append(f"cell {i}: the stored output is an error: {out.ename}")
            elif out.get("name") == "stderr":
                faults.append(f"cell {i}: stored output on stderr: {out.text[:80]!r}")
            elif any("widget" in kind for kind in data):
                faults.append(f"cell {i}: a stored widget, which shows nothing on the website")
            elif rounding := _ROUNDING.search(out.get("text", "")):
                faults.append(
                    f"cell {i}: prints rounding error, {rounding[0]}, which differs by machine: "
                    f"print it with fixed decimals"
                )
            elif "text/plain" in data and "object at 0x" in data["text/plain"]:
                faults.append(f"cell {i}: a stored address: {data['text/plain'][:60]!r}")
    return faults


def _folds(nb):
    """Two folds under one another, with nothing to be seen between them, are one."""
    faults, above = [], None
    for i, cell in enumerate(nb.cells):
        if _tagged(cell, CAPTION):
            continue
        tags = {*cell.metadata.get("tags", [])}
        here = cell if cell.cell_type == "code" and measure.FOLDED & tags else None
        if here and above and not _tagged(above, setup_cell.TAG):
            pair = above, here
            if any(not c.outputs for c in pair):
                faults.append(f"cell {i}: a fold right after another: join the two cells")
        above = here
    return faults


def is_figure(output) -> bool:
    """Whether an output shows a picture (matplotlib's, or HTML with one)."""
    return any(kind.startswith("image/") for kind in output.get("data", {}))


def _figures(nb):
    faults = []
    for i, cell in _code(nb):
        pictures = [o for o in cell.outputs if is_figure(o)]
        alt = str(cell.metadata.get("alt", ""))
        if len(pictures) > 1:
            faults.append(
                f"cell {i}: {len(pictures)} figures in one cell, which share one alt text; one "
                f"cell for each"
            )
        if pictures and (len(alt) < ALT_LENGTH or re.search(r"\.(png|svg|ipynb)\b", alt)):
            faults.append(
                f"cell {i}: a figure without a meaningful alt text (mystnb.image.alt, "
                f"{ALT_LENGTH} letters or more), got {alt!r}"
            )
        if alt and not pictures:
            faults.append(f"cell {i}: has alt text but shows no figure")
        below = nb.cells[i + 1 : i + 2]
        captions = [one.source for one in below if _tagged(one, CAPTION)]
        said = captions[0].partition("\n\n<details>")[0] if captions else ""
        if alt and alt.strip(". ") == re.sub(r"^\*\*.*?\*\* ", "", said).strip(". "):
            faults.append(f"cell {i}: the alt text repeats the caption; say what is to be seen")
    for i, cell in enumerate(nb.cells):
        if cell.cell_type == "markdown" and re.search(r"!\[\s*\]\(", cell.source):
            faults.append(f"cell {i}: a picture without alt text")
    return faults


def _solutions(nb):
    markers = (*source.SOLUTION, *source.HIDDEN, "BEGIN SOLUTION", "HIDDEN TESTS")
    return [
        f"cell {i}: a solution or a hidden test stands in the public notebook"
        for i, c in enumerate(nb.cells)
        if any(m in c.source for m in markers) or _tagged(c, source.GATE)
    ]


def _exercises(nb):
    """Ids, points and pairs come from bookbuild.source; what is left is what an author
    writes.
    """
    faults, keys = [], set()
    predicted = False
    for i, cell in enumerate(nb.cells):
        if cell.cell_type == "markdown":
            predicted = bool(re.search(r"^### Exercise [\d.]+: Predict: ", cell.source, re.M))
            continue
        meta = cell.metadata.get("nbgrader", {})
        if predicted and not meta:
            predicted = False
            if not {"hide-output", "hide-cell"} & {*cell.metadata.get("tags", [])}:
                faults.append(f"cell {i}: shows what is to be predicted: tag it hide-output")
        for tag in ("exercise", "check"):
            if _tagged(cell, tag) and not meta:
                faults.append(
                    f"cell {i}: tagged {tag!r} but without nbgrader's metadata: build the "
                    f"notebook from its source"
                )
        if not meta:
            continue
        if meta["grade_id"] in keys:
            faults.append(f"cell {i}: a second cell named {meta['grade_id']!r}")
        keys.add(meta["grade_id"])
        if meta["solution"] and source.STUB not in cell.source:
            faults.append(
                f"cell {i}: the exercise {meta['grade_id']} hides no solution between "
                f"{' and '.join(source.SOLUTION)}"
            )
        if meta["grade"] and "from attnbook.checks import check" not in cell.source:
            faults.append(
                f"cell {i}: a graded cell stands alone: from attnbook.checks import check"
            )
    return faults


def _trained(nb):
    """The tag that turns comparison off may stand only where training, a recorded run or a clock
    decides; the cell asserts a band, or the folded cell right after it does.
    """
    faults, taint = [], Taint()
    code = _code(nb)
    folded = {
        i: after.source
        for (i, _), (_, after) in zip(code, code[1:])
        if measure.FOLDED & {*after.metadata.get("tags", [])}
    }
    for i, cell in code:
        try:
            used = taint.feed(cell.source)
            parse(cell.source)
        except SyntaxError as error:
            faults.append(f"cell {i}: does not parse: {error}")
            continue
        text = any(_text(o) for o in cell.outputs)
        if _tagged(cell, TRAINED):
            if not used:
                faults.append(
                    f"cell {i}: tagged {TRAINED}, but nothing in it comes from training, a "
                    f"recorded run or a clock"
                )
            elif text and not has_assert(f"{cell.source}\n{folded.get(i, '')}"):
                faults.append(
                    f"cell {i}: tagged {TRAINED} and prints text: assert the band that it must "
                    f"lie in"
                )
        elif used and text and not _tagged(cell, "check"):
            faults.append(
                f"cell {i}: prints text that comes from training, a recorded run or a clock (by "
                f"{', '.join(taint.within(cell.source)) or 'itself'}): tag it {TRAINED} and "
                f"assert a band, or give its own names to what has nothing to do with it"
            )
    return faults


def _text(output) -> bool:
    return output.output_type == "stream" or (
        output.output_type in ("execute_result", "display_data") and not is_figure(output)
    )
