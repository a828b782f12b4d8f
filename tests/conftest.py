"""Markers and skips that hold for all tests."""

import os

import pytest


def pytest_configure(config):
    config.addinivalue_line("markers", "gpu: needs a CUDA GPU; skipped where there is none")


def pytest_runtest_setup(item):
    if item.get_closest_marker("gpu"):
        import torch

        if not torch.cuda.is_available():
            pytest.skip("needs a CUDA GPU, and PyTorch sees none")
    if os.name != "posix" and item.path.parent.name in ("grading", "sandbox"):
        pytest.skip(
            "notebooks are judged on Linux and macOS; on Windows run these tests in WSL (wsl "
            "--install)"
        )


@pytest.fixture(scope="session")
def bubblewrap():
    """The sandbox works here; on a user's machine where it does not, tests that run hand-ins are
    skipped.
    """
    from attnbook.course.launch import NoSandbox, choose

    try:
        choose()
    except NoSandbox as error:
        if os.environ.get("CI") == "true":
            pytest.fail(str(error))
        pytest.skip(f"{error} (bash tools/install_system.sh)")
