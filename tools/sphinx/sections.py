"""Builds each section from its source, with the outputs of the readers' notebook.

The notebook in chapters/ has its references resolved, so that Colab, GitHub and JupyterLab can show
it; here the roles of the source become links, numbers and captions of the website.
"""

from pathlib import Path

import nbformat

from bookbuild import publish, source


def with_roles(app, docname, text):
    """In place of the text of a notebook: the same with the cells of its source."""
    notebook = Path(app.env.doc2path(docname))
    path = source.source_of(notebook)
    if notebook.suffix != ".ipynb" or not path.is_file():
        return
    app.env.note_dependency(str(path))
    stored = nbformat.reads(text[0], as_version=4)
    made = publish.with_outputs(source.read_source(path), stored, path)
    text[0] = nbformat.writes(made)


def setup(app):
    app.connect("source-read", with_roles, priority=400)  # before api.py adds to the page
    return {"parallel_read_safe": True, "parallel_write_safe": True}
