"""The pages of the chapters that are not sections: openings, summaries, the epilogue.

They are plain Markdown, so that GitHub and JupyterLab show them as they are. The website shows more
in three places, and finds them by what a reader sees there: a paper that is linked by authors and
year is a citation, a paragraph "In one picture: [words](section.ipynb#fig-name)" is that figure,
and the table between <!-- claims --> and <!-- end of claims --> (tools/make_claims.py writes it)
has the style of claims.
"""

from __future__ import annotations

import re
from pathlib import Path

from . import publish

PICTURE = re.compile(
    r"^In one picture: \[(?P<words>[^\]]+)\]\((?P<section>\w+)\.ipynb#(?P<label>fig-[\w-]+)\)$",
    re.MULTILINE,
)
CLAIMS = re.compile(
    r"^(?P<begin><!-- claims -->\n)(?P<table>.*?)(?P<end>^<!-- end of claims -->)$",
    re.MULTILINE | re.DOTALL,
)


def for_website(text: str, path: Path, root: Path) -> str:
    """The MyST of the page `path` of the book in `root`: its citations as roles, its picture and
    its claims as directives.
    """
    book = publish.read_book(root)
    for key, (_, _, address) in book.papers.items():
        if f"]({address})" in text:
            for role in (f"{{cite:t}}`{key}`", f"{{cite:p}}`{key}`"):
                text = text.replace(publish.resolve(role, path, book), role)
    text = PICTURE.sub(
        lambda found: (
            f"```{{chapter-picture}} {path.parent.name}\n"
            f":figure: {found['section']} {found['label']}\n:alt: {found['words']}\n```"
        ),
        text,
    )
    return CLAIMS.sub(
        lambda found: f":::{{div}} chapter-claims\n{found['table'].strip()}\n:::", text
    )
