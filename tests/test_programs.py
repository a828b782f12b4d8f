"""The programs of api/programs.md run on the installed library alone, and learn what they say."""

import subprocess
import sys
import venv
from pathlib import Path

import programs
import pytest
from processes import run_alone

from bookbuild import wheel

ROOT = Path(__file__).resolve().parents[1]
PROGRAMS = programs.read()


@pytest.mark.slow
@pytest.mark.parametrize("title", PROGRAMS)
def test_a_program_is_short_and_learns(title, tmp_path):
    """With the dependencies of the library and nothing else: ids in the place of text."""
    code = PROGRAMS[title]
    assert len(code.splitlines()) <= 20 and max(map(len, code.splitlines())) <= 88
    (tmp_path / "program.py").write_text(code, encoding="utf-8")
    given = programs.arguments(code, tmp_path / "week", text=False)
    done = run_alone(tmp_path / "program.py", wheel.unpacked(ROOT), *given)
    assert done.returncode == 0, done.stderr
    assert programs.learned(code, done.stdout, text=False), done.stdout


@pytest.mark.slow
def test_with_tokenizers_text_goes_in_and_comes_out(tmp_path):
    (code,) = [code for code in PROGRAMS.values() if "load_tokenizer" in code]
    given = programs.arguments(code, tmp_path / "week", text=True)
    done = subprocess.run([sys.executable, "-c", code, *given], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert programs.learned(code, done.stdout, text=True), done.stdout


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
