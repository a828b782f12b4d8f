"""Builds each section from its source, with the outputs of the readers' notebook.

The notebook in chapters/ has its references resolved, so that Colab, GitHub and JupyterLab can show
it; here the roles of the source become links, numbers and captions of the website. The openings and
summaries of chapters are plain Markdown, too, to which it adds what only the website has.
"""

import re
from pathlib import Path

import nbformat
from docutils import nodes

from bookbuild import pages, publish, source


def with_roles(app, docname, text):
    """In place of the text of a notebook: the same with the cells of its source."""
    notebook = Path(app.env.doc2path(docname))
    path = source.source_of(notebook)
    if docname.startswith("chapters/") and notebook.suffix == ".md":
        text[0] = pages.for_website(text[0], notebook, Path(app.srcdir))
    if notebook.suffix != ".ipynb" or not path.is_file():
        return
    app.env.note_dependency(str(path))
    stored = nbformat.reads(text[0], as_version=4)
    made = publish.with_outputs(source.read_source(path), stored, path)
    text[0] = nbformat.writes(made)


def with_claims(app, doctree):
    """Makes the rows of "What held" known to MyST as places that a link may lead to."""
    for node in doctree.findall(nodes.raw):
        for place in re.findall(r'<a id="(claim-[\w-]+)">', node.astext()):
            slugs = app.env.metadata[app.env.docname].setdefault("myst_slugs", {})
            slugs[place] = (node.line, place, "")


def setup(app):
    app.connect("doctree-read", with_claims)
    app.connect("source-read", with_roles, priority=400)  # before api.py adds to the page
    return {"parallel_read_safe": True, "parallel_write_safe": True}
