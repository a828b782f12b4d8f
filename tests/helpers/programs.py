"""The programs of api/programs.md. As a script: runs all of them in the Python that runs it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "api" / "programs.md"


def read() -> dict[str, str]:
    """The code of each program, by the title over it."""
    page = PAGE.read_text(encoding="utf-8")
    found = re.findall(r"^## (.+?)$.*?^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    return {title.lower(): code for title, code in found}


def learned(said: str) -> bool:
    """Whether the two numbers that a program prints say so: its score is less than half of that of
    a guess.
    """
    found, guess = (float(number) for number in re.findall(r"\b\d+(?:\.\d+)?\b", said))
    return found < guess / 2


def main() -> None:
    for title, code in read().items():
        with tempfile.TemporaryDirectory() as folder:
            script = Path(folder, "program.py")
            script.write_text(code, encoding="utf-8")
            done = subprocess.run(
                [sys.executable, "-I", str(script)],
                stdout=subprocess.PIPE,
                text=True,
                env={**os.environ, "ATTNBOOK_PROGRESS": "0"},
            )
        print(f"{title}: {done.stdout}", end="", flush=True)
        if done.returncode or not learned(done.stdout):
            sys.exit(f"{title}: failed")


if __name__ == "__main__":
    main()
