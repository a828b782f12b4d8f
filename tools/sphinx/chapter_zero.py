"""Sphinx numbers chapters from 1; this book begins with chapter 0.

Takes one from the first part of every section number.
"""

from docutils import nodes
from sphinx.environment.collectors.toctree import TocTreeCollector


def _less(number):
    return type(number)([number[0] - 1, *number[1:]]) if number else number


def shift(env):
    """Shift the numbers wherever Sphinx keeps them: by page, in the tables of contents, and at
    the titles.
    """
    for page, numbers in env.toc_secnumbers.items():
        env.toc_secnumbers[page] = {anchor: _less(number) for anchor, number in numbers.items()}
    for toc in env.tocs.values():
        for reference in toc.findall(nodes.reference):
            if "secnumber" in reference:
                reference["secnumber"] = _less(reference["secnumber"])
    for title in env.titles.values():
        if "secnumber" in title:
            title["secnumber"] = _less(title["secnumber"])


def _collector():
    """The class that numbers the sections: newer versions of sphinx_external_toc bring their
    own.
    """
    try:
        from sphinx_external_toc.collectors import TocTreeCollectorWithStyles
    except ImportError:
        return TocTreeCollector
    return TocTreeCollectorWithStyles


def setup(app):
    def wrap(app, config):
        collector = _collector()
        original = collector.assign_section_numbers
        if not getattr(original, "from_zero", False):

            def assign_section_numbers(self, env):
                changed = original(self, env)
                shift(env)
                return changed

            assign_section_numbers.from_zero = True
            collector.assign_section_numbers = assign_section_numbers

    # after sphinx_multitoc_numbering has put its own version in place
    app.connect("config-inited", wrap, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
