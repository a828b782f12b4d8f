"""Markers and skips that hold for all tests."""

import pytest
from patience import patient_hypothesis

patient_hypothesis()


def pytest_configure(config):
    config.addinivalue_line("markers", "gpu: needs a CUDA GPU; skipped where there is none")
    config.addinivalue_line(
        "markers", "nightly: takes minutes each; runs only with  pytest -m nightly"
    )


def pytest_collection_modifyitems(config, items):
    if "nightly" in config.getoption("markexpr"):
        return
    nightly = [item for item in items if item.get_closest_marker("nightly")]
    if nightly:
        config.hook.pytest_deselected(items=nightly)
        items[:] = [item for item in items if not item.get_closest_marker("nightly")]


def pytest_runtest_setup(item):
    if item.get_closest_marker("gpu"):
        import torch

        if not torch.cuda.is_available():
            pytest.skip("needs a CUDA GPU, and PyTorch sees none")
