"""Files that travel with the package: everything under `data/` and `results/` of the repository.

In a checkout or an editable install they are read where they lie; in an installed wheel they sit in
the package as `_data` and `_results`."""

from pathlib import Path, PurePosixPath

_PACKAGE = Path(__file__).resolve().parent
_FOLDERS = {"data": "_data", "results": "_results"}


def path(name: str) -> Path:
    """Where the file or folder `name` of the repository lies on this machine.

    name: a path relative to the repository that begins with `data/` or `results/`, such as
    "data/registry.csv".
    Returns an absolute path that exists.
    Raises ValueError for a name outside those two folders, FileNotFoundError when there is no such
    file."""
    parts = PurePosixPath(name).parts
    if not parts or parts[0] not in _FOLDERS or ".." in parts:
        raise ValueError(
            f"name must be a path under {' or '.join(f'{f}/' for f in _FOLDERS)}, got {name!r}"
        )
    installed = _PACKAGE / _FOLDERS[parts[0]]
    root = installed if installed.is_dir() else _PACKAGE.parent / parts[0]
    found = root.joinpath(*parts[1:])
    if not found.exists():
        raise FileNotFoundError(
            f"{name} does not come with this copy of attnbook (looked at {found})"
        )
    return found


def text(name: str) -> str:
    """The contents of the text file `name` (see `path`), read as UTF-8."""
    return path(name).read_text(encoding="utf-8")
