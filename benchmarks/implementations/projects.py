"""The peers as their authors publish them: fetched by name into build/peers, and never changed.

Packages come from the package index without their dependencies, repositories from GitHub at a
fixed commit. Scripts that import a dozen other things at their top are read for the definitions
that are needed, which are executed unchanged.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import torch

__all__ = ["FOLDER", "PACKAGES", "REPOSITORIES", "definitions", "install", "is_there", "use"]

FOLDER = Path(__file__).resolve().parents[2] / "build" / "peers"
PACKAGES = ("d2l==1.0.3", "dnc==1.1.0", "flann==1.6.13", "transformers==5.23.0")
REPOSITORIES = {
    "loudinthecloud/pytorch-ntm": "3c64937cb075e737528ff7ecf02b2c1c6d8347a1",
    "gchaperon/pointer-networks": "2d1745d69e65a69bc1e7c7e97f89a15c64dc6e8a",
    "eambutu/snail-pytorch": "c07c679ea07ae6d5d52548df9ec05229d21f11dd",
    "heykeetae/Self-Attention-GAN": "8714a54ba5027d680190791ba3a6bb08f9c9a129",
}


def is_there(name: str) -> bool:
    """Whether a peer has been fetched."""
    return (FOLDER / name.split("/")[-1]).is_dir()


def install() -> list[str]:
    """Fetch what is missing; returns what could not be had, each with the reason."""
    missing = []
    for package in PACKAGES:
        name = {"flann": "pyflann"}.get(package.split("==")[0], package.split("==")[0])
        if not is_there(name):
            pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
            missing += _run(package, [*pip, "--target", str(FOLDER), package])
    for repository, commit in REPOSITORIES.items():
        if not is_there(repository):
            into, url = FOLDER / repository.split("/")[1], f"https://github.com/{repository}"
            faults = _run(repository, ["git", "clone", "--quiet", url, str(into)])
            missing += faults or _run(
                repository, ["git", "-C", str(into), "checkout", "--quiet", commit]
            )
    return missing


def _run(name: str, command: list[str]) -> list[str]:
    done = subprocess.run(command, capture_output=True, text=True)
    last = done.stderr.strip().splitlines()[-1:]
    return [] if done.returncode == 0 else [f"{name}: {' '.join(last)}"]


def use(*folders: str) -> None:
    """Let Python find what stands in these folders of a repository, or the packages."""
    sys.path[:0] = [str(FOLDER / folder) for folder in folders or (".",)]


def definitions(path: str, *wanted: str, **names: object) -> dict:
    """Classes and functions of a script, executed without the imports at its top.

    Args:
        path: in :data:`FOLDER`.
        wanted: their names.
        names: what they need beside torch and nn.
    """
    tree = ast.parse((FOLDER / path).read_text(encoding="utf-8"))
    tree.body = [node for node in tree.body if getattr(node, "name", None) in wanted]
    space = {"torch": torch, "nn": torch.nn, "F": torch.nn.functional, **names}
    exec(compile(tree, path, "exec"), space)  # noqa: S102 - the peer's own source, to be timed
    return space
