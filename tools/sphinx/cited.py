"""References as they are cited: "(Zeyer et al., 2020)" in the text and "Zeyer et al., 2020" before
the entry of the list.
"""

import sphinxcontrib.bibtex.plugin
from pybtex.plugin import register_plugin
from pybtex.style.formatting.unsrt import Style
from pybtex.style.labels import BaseLabelStyle
from sphinxcontrib.bibtex.style.referencing import BracketStyle
from sphinxcontrib.bibtex.style.referencing.author_year import AuthorYearReferenceStyle
from sphinxcontrib.bibtex.style.template import join, year


class RoundBrackets(AuthorYearReferenceStyle):
    def __init__(self):
        round_ones = BracketStyle("(", ")")
        super().__init__(bracket_textual=round_ones, bracket_parenthetical=round_ones)


class AuthorYear(BaseLabelStyle):
    """What stands in the brackets."""

    def format_labels(self, sorted_entries):
        style = RoundBrackets()
        who = style.person.author_or_editor_or_title(full=False)
        label = join(sep=style.author_year_sep)[who, year]
        for entry in sorted_entries:
            yield str(label.format_data({"entry": entry, "style": style}))


class ByAuthorAndYear(Style):
    default_sorting_style = "author_year_title"
    default_label_style = AuthorYear


def setup(app):
    register_plugin("pybtex.style.formatting", "author_year", ByAuthorAndYear)
    sphinxcontrib.bibtex.plugin.register_plugin(
        "sphinxcontrib.bibtex.style.referencing", "round_author_year", RoundBrackets
    )
    return {"parallel_read_safe": True, "parallel_write_safe": True}
