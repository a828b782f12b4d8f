import json

import pytest

from attnbook_runs import reproduce


@pytest.fixture
def figures_of(tmp_path):
    """Runs an experiment with other settings, in ``tmp_path``, and returns its figures."""

    def run(name, **settings):
        path = reproduce(name, out=tmp_path, device="cpu", commit="abc", **settings)
        return json.loads(path.read_text())["figures"]

    return run
