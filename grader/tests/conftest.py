"""Skips for machines where notebooks cannot be judged."""

import functools
import os

import pytest
from patience import patient_hypothesis

patient_hypothesis()


def pytest_runtest_setup(item):
    if os.name != "posix":
        pytest.skip(
            "notebooks are judged on Linux and macOS; on Windows run these tests in WSL (wsl "
            "--install)"
        )


@pytest.fixture(scope="session", autouse=True)
def sections_are_read_once():
    """The sources of the book do not change while they are tested; most commands read all."""
    from attnbook_grader.course import exercises

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exercises, "_read", functools.cache(exercises._read))
        yield


@pytest.fixture(scope="session")
def bubblewrap():
    """The sandbox works here; on a user's machine where it does not, tests that run hand-ins are
    skipped.
    """
    from attnbook_grader.sandbox.launch import NoSandbox, choose

    try:
        choose()
    except NoSandbox as error:
        if os.environ.get("CI") == "true":
            pytest.fail(str(error))
        pytest.skip(f"{error} (bash tools/install_system.sh)")
