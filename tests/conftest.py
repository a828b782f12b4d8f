"""Markers and skips that hold for all tests."""

import pytest
from patience import patient_hypothesis

patient_hypothesis()


def pytest_configure(config):
    config.addinivalue_line("markers", "gpu: needs a CUDA GPU; skipped where there is none")


def pytest_runtest_setup(item):
    if item.get_closest_marker("gpu"):
        import torch

        if not torch.cuda.is_available():
            pytest.skip("needs a CUDA GPU, and PyTorch sees none")
