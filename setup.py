"""What pyproject.toml cannot say: `data/` and `results/` travel inside the wheel, as
attnbook._data and attnbook._results, and from PyPI's page, too, the links of the README lead
somewhere.
"""

import re
import tomllib
from pathlib import Path

from setuptools import find_packages, setup

ROOT = Path(__file__).resolve().parent


def readme() -> str:
    """README.md with the files of the repository that it links to as GitHub shows them."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    files = project["urls"]["Repository"]

    def absolute(link: re.Match) -> str:
        return f"{link[1]}({files}/{'raw' if link[1][0] == '!' else 'blob'}/HEAD/{link[2]})"

    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return re.sub(r"(!?\[[^\]]*\])\((?!https?:|#)([^)\s]+)\)", absolute, text)


setup(
    long_description=readme(),
    long_description_content_type="text/markdown",
    packages=find_packages(include=["attnbook*"], exclude=["attnbook_grader*"])
    + ["attnbook._data", "attnbook._results"],
    package_dir={"attnbook._data": "data", "attnbook._results": "results"},
    package_data={
        "attnbook._data": ["**/*"],
        "attnbook._results": ["**/*"],
        "attnbook": ["py.typed", "**/*.csv", "**/*.json", "**/*.js", "**/*.css"],
    },
)
