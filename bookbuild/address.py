"""Where the book lives: the addresses that `_config.yml` states. All others are made of them."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import yaml

ROOT = Path(__file__).resolve().parents[1]


class Address(NamedTuple):
    """The repository, its branch that readers get, the website, and Google Colab."""

    repository: str
    branch: str
    site: str
    colab: str

    @property
    def requirement(self) -> str:
        """What pip installs: the library as it stands on the branch."""
        return f"attnbook @ git+{self.repository}@{self.branch}"

    def page(self, name: str) -> str:
        """The page of the website that is made of the file `name`, given without its ending."""
        return f"{self.site}{name}.html"

    def file(self, path: str) -> str:
        """The file `path` of the repository, as GitHub shows it."""
        return f"{self.repository}/blob/{self.branch}/{path}"

    def on_colab(self, path: str) -> str:
        """Opens the notebook `path` of the repository on Colab."""
        project = self.repository.removeprefix("https://github.com/")
        return f"{self.colab}/github/{project}/blob/{self.branch}/{path}"


def read_address(path: Path) -> Address:
    """The address of the book that the file or folder `path` belongs to: of the nearest folder
    above it with a `_config.yml`, and else of this one.
    """
    folders = [path, *path.resolve().parents, ROOT]
    config = next(f / "_config.yml" for f in folders if (f / "_config.yml").is_file())
    return _read(config, config.stat().st_mtime_ns)


@lru_cache(maxsize=8)
def _read(config: Path, _) -> Address:
    said = yaml.safe_load(config.read_text(encoding="utf-8"))
    return Address(
        repository=said["repository"]["url"].rstrip("/"),
        branch=said["repository"]["branch"],
        site=said["html"]["baseurl"].rstrip("/") + "/",
        colab=said["launch_buttons"]["colab_url"].rstrip("/"),
    )
