"""The programs of api/programs.md run on the installed library alone, and learn what they say."""

import subprocess
import venv
from pathlib import Path

import alone
import programs
import pytest

from bookbuild import wheel

ROOT = Path(__file__).resolve().parents[1]
PROGRAMS = programs.read()


@pytest.mark.slow
@pytest.mark.parametrize("title", PROGRAMS)
def test_a_program_is_short_and_learns(title, tmp_path):
    lines = PROGRAMS[title].splitlines()
    assert len(lines) <= 20 and max(map(len, lines)) <= 88
    (tmp_path / "program.py").write_text(PROGRAMS[title], encoding="utf-8")
    done = alone.run(tmp_path / "program.py", wheel.unpacked(ROOT))
    assert done.returncode == 0 and programs.learned(done.stdout), done.stdout + done.stderr


@pytest.mark.nightly
def test_they_run_where_pip_has_installed_the_wheel_and_nothing_else(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    import setup_env

    folder = tmp_path / "alone"
    venv.create(folder, with_pip=True)
    python = str(setup_env.python_of(folder))
    if (torch := setup_env.cpu_build(python, {})) is not None:
        subprocess.run(torch)  # where that index cannot be reached, pip takes another build
    subprocess.run([python, "-m", "pip", "install", wheel.build(ROOT, tmp_path)], check=True)
    for name in ("matplotlib", "click", "accelerate"):
        assert subprocess.run([python, "-c", f"import {name}"], capture_output=True).returncode
    subprocess.run([python, ROOT / "tests" / "helpers" / "programs.py"], check=True)
