"""What pyproject.toml cannot say: `data/` and `results/` travel inside the wheel, as
attnbook._data and attnbook._results.
"""

from setuptools import find_packages, setup

setup(
    packages=find_packages(include=["attnbook", "attnbook.*"])
    + ["attnbook._data", "attnbook._results"],
    package_dir={"attnbook._data": "data", "attnbook._results": "results"},
    package_data={
        "attnbook._data": ["**/*"],
        "attnbook._results": ["**/*"],
        "attnbook": ["py.typed", "**/*.csv", "**/*.json", "**/*.js", "**/*.css"],
    },
)
