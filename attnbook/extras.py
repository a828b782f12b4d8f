"""Packages that the library does without until somebody asks for what needs them."""

from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["extra"]


@contextmanager
def extra(name: str, what: str) -> Iterator[None]:
    """Import within the block what comes with the extra ``name`` of ``pyproject.toml``.

    >>> with extra("book", "a download"):
    ...     import pooch

    Args:
        name: of the extra.
        what: what needs the package, in the singular: the message begins with it.

    Raises:
        ModuleNotFoundError: a package is not installed; the message says how to install the extra.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package in ("", "attnbook"):  # not a package that pip could install
            raise
        raise ModuleNotFoundError(
            f'{what} needs {package}: pip install "attnbook[{name}]"', name=error.name
        ) from None
