"""What a verdict depends on: the file of the section's checks, what all checks share, and the seed.

When the file of a section changes, its exercises are judged again and no others; when shared code
changes, all are.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable
from pathlib import Path

from attnbook_exercises import answers, checks
from attnbook_exercises.checks import find

from .. import protocol

__all__ = ["CHECKS", "fingerprint"]


def _hash(files: Iterable[Path]) -> str:
    """Of the contents, whatever the line ends of a checkout."""
    contents = (path.read_bytes().replace(b"\r\n", b"\n") for path in files)
    return hashlib.sha256(b"\0".join(contents)).hexdigest()[:16]


def _of_files() -> str:
    packages = (checks, answers, protocol)
    return _hash(path for one in packages for path in sorted(Path(one.__path__[0]).rglob("*.py")))


CHECKS = _of_files()
"""Hash of the code of all checks at import: a process that runs for days may have older checks than
the files.
"""


def fingerprint(id: str, seed: int) -> str:
    """Hash of the file with the check `id`, of the files that all checks share, and of the hidden
    seed.
    """
    shared = (Path(one.__path__[0]).glob("*.py") for one in (checks, answers))
    section = Path(str(sys.modules[find(id).function.__module__].__file__))
    files = _hash([section, *(path for folder in shared for path in sorted(folder))])
    return hashlib.sha256(f"{files}\0{seed}".encode()).hexdigest()[:16]
