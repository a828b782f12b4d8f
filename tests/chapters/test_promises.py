"""What the notebooks took in this session, against what they declare. Collected last (see conftest.py)."""
from pathlib import Path

import nbformat
import pytest

from attnbook.course import measure

ROOT = Path(__file__).resolve().parents[2]


def test_every_notebook_keeps_its_declared_time_and_memory(measured):
    rows = {name: row for name, row in measured.items() if not row["failed"] and (ROOT / name).exists()}
    if not rows:
        pytest.skip("no notebook ran in this session")
    said = []
    for name, row in rows.items():
        promise = measure.declared(nbformat.read(ROOT / name, as_version=4))
        said += [f"{name}: {line}" for line in measure.over_promise(promise.quick, row["seconds"], row["peak_mb"])]
    assert not said, "\n".join(said)
