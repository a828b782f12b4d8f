"""The readers' notebook of a small book: no role of the website is left in it."""

import nbformat
import pytest
import small

from bookbuild import folds, publish, setup_cell, source

SITE = "https://somebody.github.io/book/"
CONFIG = f"""
repository: {{url: https://github.com/somebody/book, branch: main}}
html: {{baseurl: {SITE}}}
launch_buttons: {{colab_url: https://colab.research.google.com}}
"""
HEAD = small.HEAD.partition("(sec-small)=")[0]
FIRST = (
    HEAD
    + """(sec-first)=
# First

$$
a = b
$$ (eq-a)

Unnumbered: $$c$$ and one more: $$ d $$ (eq-d)
"""
)
SECOND = (
    HEAD
    + """# Second

{cite:t}`one` and {cite:t}`two,three`, as known {cite:p}`four,one`. By {eq}`eq-a` and {eq}`eq-d`,
see {numref}`fig-x`, {ref}`the first <sec-first>`, [it](first.ipynb), and
[the chapter](../01_next/index.md#top).

```
$$ x $$ (eq-code) {eq}`eq-a`
```

```{code-cell} ipython3
---
tags: [hide-input]
mystnb:
  figure:
    caption: A line, as in {eq}`eq-a`.
    name: fig-x
  image:
    alt: A line that rises from left to right, steeply
---
x = 1
```

$$ \\begin{aligned} e &= f \\\\ g &= h \\end{aligned} $$ (eq-e)
"""
)
BIB = """
@article{one, author = {Cho, Kyunghyun}, year = {2014}, doi = {10.1/x}}
@article{two, author = {van den Oord, A. and Le, Q.}, year = {2016}, eprint = {16.1},
  archiveprefix = {arXiv}}
@article{three, author = {A, B. and C, D. and E, F.}, year = {2017}, url = {https://three.org}}
@book{four, author = {M{\\"u}ller, K.}, year = {1999}}
"""
TOC = """
root: intro
parts:
- caption: Before
  chapters: [{file: intro}]
- numbered: 2
  chapters:
  - file: chapters/00_some/index
    sections: [{file: chapters/00_some/first}, {file: chapters/00_some/second}]
"""


@pytest.fixture
def book(tmp_path):
    files = {"_toc.yml": TOC, "_config.yml": CONFIG, "references.bib": BIB}
    files |= {f"sources/00_some/{n}.md": text for n, text in (("first", FIRST), ("second", SECOND))}
    for name, text in (files | {"chapters/00_some/index.md": "# Some\n"}).items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return tmp_path / "sources/00_some"


def made(path):
    return publish.readable(source.read_source(path), path)


def test_texts_say_numbers_names_and_links(book):
    text = made(book / "second.md").cells[0].source
    assert text == (
        "# 0.2 Second\n\n"
        "[Cho (2014)](https://doi.org/10.1/x) and "
        "[van den Oord and Le (2016)](https://arxiv.org/abs/16.1), "
        "[A et al. (2017)](https://three.org), as known "
        f"([Müller, 1999]({SITE}references.html); "
        "[Cho, 2014](https://doi.org/10.1/x)). By (0.1) and (0.2),\n"
        "see Figure 0.1, [the first](first.ipynb), [it](first.ipynb), and\n"
        f"[the chapter]({SITE}chapters/01_next/index.html#top).\n\n"
        "```\n$$ x $$ (eq-code) {eq}`eq-a`\n```"
    )


def test_formulas_carry_their_numbers_and_labels_are_gone(book):
    cell, _ = made(book / "first.md").cells
    assert cell.source == (
        "# 0.1 First\n\n$$\na = b \\tag{0.1}\n$$\n\n"
        "Unnumbered: $$c$$ and one more: $$ d \\tag{0.2} $$"
    )
    assert "\\end{aligned} \\tag{0.3} $$" in made(book / "second.md").cells[-2].source


def test_a_figure_has_its_caption_below_and_its_words(book):
    _, figure, caption, _, _ = made(book / "second.md").cells
    assert caption.source.startswith("**Figure 0.1.** A line, as in (0.1).\n\n<details>")
    assert "A line that rises from left to right, steeply.\n" in caption.source
    assert figure.metadata.alt.startswith("A line that rises") and "mystnb" not in figure.metadata
    assert figure.metadata.jupyter == {"source_hidden": True} and figure.metadata.cellView == "form"
    assert caption.metadata.tags == [publish.CAPTION]


def test_exercises_are_numbered_in_their_section(book):
    asked = "(ex-{})=\n### Exercise: A {}\n"
    for name, exercises in {"first": "bc", "second": "a"}.items():
        with (book / f"{name}.md").open("a") as file:
            file.write("\n" + "\n".join(asked.format(one, one) for one in exercises))
    assert made(book / "first.md").cells[-2].source.count("### Exercise 0.1.2: A c") == 1
    second = made(book / "second.md")
    assert "### Exercise 0.2.1: A a" in second.cells[-2].source
    page = publish.with_outputs(source.read_source(book / "second.md"), second, book / "second.md")
    assert "(ex-a)=\n### Exercise 0.2.1: A a" in page.cells[-1].source


def test_the_website_gets_the_roles_and_the_outputs(book):
    raw = source.read_source(book / "second.md")
    stored = made(book / "second.md")
    stored.cells[1].outputs = [nbformat.v4.new_output("stream", text="1\n")]
    stored.cells[1].execution_count = 1
    page = publish.with_outputs(raw, stored, book / "second.md")
    assert "{cite:t}`one`" in page.cells[0].source and len(page.cells) == 3
    assert page.cells[1].metadata.mystnb.figure.name == "fig-x"
    assert page.cells[1].metadata.mystnb.code_prompt_show == "Code for Figure 0.1"
    assert page.cells[1].outputs == stored.cells[1].outputs
    stored.cells[0].id = "another"
    with pytest.raises(ValueError, match="build it again"):
        publish.with_outputs(raw, stored, book / "second.md")


@pytest.mark.parametrize(
    ("role", "words"),
    [
        ("{eq}`eq-z`", "no formula, figure or exercise 'eq-z'"),
        ("{numref}`fig-z`", "no formula, figure or exercise 'fig-z'"),
        ("{cite:t}`nobody`", "no paper 'nobody'"),
        ("{ref}`x <sec-z>`", "no section 'sec-z'"),
    ],
)
def test_what_the_book_does_not_have_is_named(book, role, words):
    path = book / "second.md"
    path.write_text(HEAD + f"# Second\n\n{role}\n", encoding="utf-8")
    with pytest.raises(publish.UnknownLabel, match=words):
        made(path)


def test_a_new_number_changes_no_id(book):
    before = [cell.id for cell in made(book / "second.md").cells]
    (book / "first.md").write_text(FIRST + "\n$$ z $$ (eq-z)\n", encoding="utf-8")
    after = made(book / "second.md")
    assert "\\tag{0.4}" in after.cells[-2].source
    assert [cell.id for cell in after.cells] == before


def test_a_notebook_leads_on_by_addresses_that_hold_anywhere(book):
    assert made(book / "first.md").cells[-1].source == (
        f"---\n\nNext: [0.2 Second]({SITE}chapters/00_some/second.html) · [on Colab]("
        "https://colab.research.google.com/github/somebody/book/blob/main/chapters/00_some/"
        f"second.ipynb)\n\nChapter: [0 Some]({SITE}chapters/00_some/index.html)"
    )
    last = made(book / "second.md").cells[-1].source
    assert "Before: [0.1 First]" in last and "Next" not in last


def test_a_page_that_is_no_notebook_is_linked_on_the_website(book):
    index = book.parents[1] / "chapters/00_some/index.md"
    index.write_text("(ch-some)=\n# Some\n", encoding="utf-8")
    path = book / "second.md"
    path.write_text(HEAD + "# Second\n\n{ref}`it <ch-some>`\n", encoding="utf-8")
    assert f"[it]({SITE}chapters/00_some/index.html)" in made(path).cells[0].source


LINE = "*quick: 20 s · 1 GB · CPU — full: 8 min · 2 GB · one GPU*"
TRAINS = (
    f"# Second\n\n{LINE}\n\n## On\n\n```{{code-cell}} ipython3\nsetup.full, setup.device\n```\n"
)


@pytest.fixture
def trains(book):
    """A section with two presets, as a reader gets it."""
    (book / "second.md").write_text(HEAD + TRAINS, encoding="utf-8")
    return book / "second.md"


def test_the_set_up_cell_is_added_below_the_line(trains):
    title, setup, text, code, _ = made(trains).cells
    assert title.source.startswith("# 0.2 Second\n\n*about 5 minutes with the exercises · quick:")
    assert title.source.endswith("choose *Runtime → Change runtime type → T4 GPU*.")
    assert setup.id == setup_cell.TAG and setup.metadata.cellView == "form"
    said = setup.source.splitlines()
    assert said[0] == "#@title Set-up: auto is full with a GPU (8 min), else quick (20 s)"
    assert said[1] == 'preset = "auto"  #@param ["auto", "quick", "full"]'
    assert 'attnbook @ git+https://github.com/somebody/book@main"' in said[5]
    assert said[-1].startswith("setup = attnbook.setup(seed=0, preset=preset, interface=")
    assert text.source == "## On" and code.source == "setup.full, setup.device"
    assert made(trains).metadata.accelerator == "GPU"


def test_a_section_for_the_cpu_promises_no_gpu(trains):
    line = "*runs in 20 s · 1 GB · CPU*"
    trains.write_text(HEAD + f"# Second\n\n{line}\n", encoding="utf-8")
    title, setup, _ = made(trains).cells
    assert "GPU" not in title.source and "preset" not in setup.source
    assert (
        setup.source.startswith("#@title Set-up\n") and "accelerator" not in made(trains).metadata
    )


def numbered(monkeypatch, oldest, newest):
    monkeypatch.setattr(setup_cell, "current_interface", lambda *_: newest)
    monkeypatch.setattr(setup_cell, "oldest_interface", lambda *_: oldest)


def number_of(nb):
    return setup_cell.interface_of(nb.cells[1].source)


def test_a_notebook_keeps_the_number_of_its_last_change(trains, monkeypatch):
    numbered(monkeypatch, 1, 3)
    stored = made(trains)
    numbered(monkeypatch, 2, 5)

    def again():
        return publish.readable(source.read_source(trains), trains, stored)

    assert number_of(stored) == number_of(again()) == 3
    numbered(monkeypatch, 4, 5)
    assert number_of(again()) == 5, "3 is supported no more"
    numbered(monkeypatch, 2, 5)
    trains.write_text(HEAD + TRAINS.replace("## On", "## Off"), encoding="utf-8")
    assert number_of(again()) == 5, "its text changed"


NUMBERS, FOLDED = "Check of the numbers", ["hide-cell"]


@pytest.mark.parametrize(
    ("code", "tags", "said"),
    [
        ("plt.show()", ["hide-input"], "Code for Figure 0.1"),
        ("plt.show()\nassert x", ["hide-input"], "Code for Figure 0.1 · check of the numbers"),
        ("print(x)", ["hide-input"], "Code for the output below"),
        ("assert x < 1", FOLDED, NUMBERS),
        ("same(x, y)", FOLDED, NUMBERS),
        (
            "from attnbook import attend\n%pip install x\nassert_close(attend(x), y)",
            FOLDED,
            "Check against the library",
        ),
        ("from attnbook.tasks import collate\nassert collate(x) == y", FOLDED, NUMBERS),
        ("def f(): ...\nclass G: ...", FOLDED, "Code: f, G"),
        ("print(1)", ["hide-output"], "Output"),
        ("print(1)", [], None),
    ],
)
def test_a_fold_says_what_it_holds(code, tags, said):
    cell = nbformat.v4.new_code_cell(code, metadata={"tags": tags})
    if "plt.show()" in code:
        cell.metadata["mystnb"] = {"figure": {"name": "fig-x"}, "image": {"alt": "a"}}
    assert folds.title(cell, {"fig-x": "0.1"}) == said
    if said and tags != ["hide-output"]:
        assert folds.untitled(folds.titled(cell, {"fig-x": "0.1"})) == code
