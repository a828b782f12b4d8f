"""How a test waits: for what it waits for, not for a time; a machine may be slow, or busy."""

import time

from hypothesis import HealthCheck, settings

HANGS = 400
"""Seconds after which something hangs, and is not slow."""
PATIENT = {"seconds": HANGS, "startup": HANGS, "notebook": HANGS}
"""The sandbox's limits of time for code that comes to an end."""


def eventually(true) -> bool:
    """Whether this comes true."""
    end = time.monotonic() + HANGS
    while not true() and time.monotonic() < end:
        time.sleep(0.02)
    return bool(true())


def patient_hypothesis(**options) -> None:
    """Let examples of Hypothesis take as long as they take.

    Args:
        options: other settings that hold from here on.
    """
    settings.register_profile(
        "patient", deadline=None, suppress_health_check=[HealthCheck.too_slow], **options
    )
    settings.load_profile("patient")
