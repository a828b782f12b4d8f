"""What make would run."""

import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def recipe(*arguments: str) -> str:
    """The commands of a target, printed and not run; the same inside a `make test` as outside."""
    env = {
        k: v
        for k, v in os.environ.items()
        if k not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS", "MAKEOVERRIDES", "ARGS", "HEADLESS")
    }
    done = subprocess.run(
        ["make", "--dry-run", "--no-print-directory", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env=env,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
