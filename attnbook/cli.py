"""The command line ``attnbook``. Its commands are entry points: those of the recorded runs, and
those of the grader where it is installed.
"""

from importlib import metadata

from .extras import extra
from .version import __version__

with extra("book", "the command attnbook"):
    import click

__all__ = ["main"]

_OF_THE_GRADER = ("check", "course", "grade")


class _Commands(click.Group):
    """The commands that distributions offer by entry points in the group ``attnbook.commands``."""

    def list_commands(self, ctx):
        return sorted(_entry_points())

    def get_command(self, ctx, name):
        if name in _entry_points():
            return _entry_points()[name].load()
        if name in _OF_THE_GRADER:
            raise click.ClickException(
                f"attnbook {name} needs the grader; in a checkout of the book: "
                f"pip install ./bookbuild ./grader"
            )
        return None


def _entry_points() -> dict[str, metadata.EntryPoint]:
    return {one.name: one for one in metadata.entry_points(group="attnbook.commands")}


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="attnbook")
def main() -> None:
    """Attention, Cell by Cell: the book's experiments and its course."""


if __name__ == "__main__":
    main()
