"""The website: its pages, how it is built, and which Chromium opens it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from patience import HANGS

ROOT = Path(__file__).resolve().parents[2]
CI = os.environ.get("CI", "").lower() in ("1", "true")


def toc_files() -> list[str]:
    """Every page of the table of contents, in order, as a path without extension."""
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))
    found = [toc["root"]]
    for chapter in (chapter for part in toc["parts"] for chapter in part["chapters"]):
        found += [chapter["file"], *(section["file"] for section in chapter.get("sections", []))]
    return found


def chromium_path() -> str:
    """The system's Chromium; skips with an instruction where there is none, and fails in CI."""
    for name in ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable"):
        if found := shutil.which(name):
            return found
    message = "no Chromium on this machine; install it with: bash tools/install_system.sh"
    pytest.fail(message) if CI else pytest.skip(message)


def build(source: Path, target: Path) -> subprocess.CompletedProcess:
    """What `make book` runs, into another folder."""
    command = [
        str(Path(sys.executable).with_name("jupyter-book")),
        "build",
        str(source),
        "--path-output",
        str(target),
        "--all",
        "-W",
        "--keep-going",
    ]
    return subprocess.run(command, capture_output=True, text=True, timeout=HANGS)
