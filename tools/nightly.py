"""What takes hours and need not run for every change: python tools/nightly.py [STEP ...].

Each step is a command that anybody can type; its status, time and last line go into
results/nightly.md, which is committed, and all that it said into build/nightly/STEP.log. Steps that
are not named keep their last report.
"""

from __future__ import annotations

import platform
import subprocess
import sys
import time
from datetime import date
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PY = sys.executable
TESTS = [PY, "-m", "pytest", "-n", "2", "--dist", "loadfile"]
TRITON = "tests/kernels/test_additive_triton.py"
PAPER = "tests/site/test_pdf.py"
STEPS = {
    "mutants": [PY, "tools/mutants.py", "--count", "340", "--out", "results/mutants.json"],
    "solution-mutants": [PY, "tools/solution_mutants.py", "--out", "results/solution_mutants.json"],
    "class-of-500": [PY, "benchmarks/big_class.py", "--students", "500"],
    "hub": [
        "bash",
        "-c",
        f"{PY} -m pip install --quiet nbgrader && {PY} -m pytest -m nightly tests/test_hub.py",
    ],
    "newest": ["make", "test-newest"],
    "oldest": ["make", "test-oldest"],
    "colab": ["make", "test-colab"],
    "environment": [
        "bash",
        "-c",
        f"rm -rf .venv-environment && {PY} tools/setup_env.py .venv-environment --environment && "
        "cd chapters && ../.venv-environment/bin/python -c "
        "'import attnbook, attnbook_grader, bookbuild; attnbook.setup()'",
    ],
    "simulated-gpu": [*TESTS[:-1], "load", "-m", "nightly", "tests/devices"],
    "triton": [
        "bash",
        "-c",
        f"{PY} -m pip install --quiet triton && {PY} -m pytest -m nightly {TRITON}",
    ],
    "compiled": [
        *TESTS[:-1],
        "load",
        "-m",
        "nightly",
        "tests/test_every_module.py",
        "tests/models",
    ],
    "alone": [PY, "-m", "pytest", "-m", "nightly", "tests/test_programs.py"],
    "pretrained": [*TESTS[:-1], "load", "-m", "nightly", "tests/pretrained"],
    "barriers": [*TESTS[:-1], "load", "-m", "nightly", "tests/site", f"--ignore={PAPER}"],
    "paper": [PY, "-m", "pytest", "-m", "nightly", PAPER],
}
REPORT = ROOT / "results" / "nightly.md"
LOGS = ROOT / "build" / "nightly"
COLUMNS = ("status", "minutes", "date", "last")


def run(name: str) -> dict:
    """The outcome of one step."""
    log = LOGS / f"{name}.log"
    LOGS.mkdir(parents=True, exist_ok=True)
    begin = time.monotonic()
    with log.open("w", encoding="utf-8") as file:
        done = subprocess.run(STEPS[name], cwd=ROOT, stdout=file, stderr=subprocess.STDOUT)
    minutes = (time.monotonic() - begin) / 60
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    last = [line for line in lines if line.strip()][-1:]
    return {
        "status": "passed" if done.returncode == 0 else f"failed ({done.returncode})",
        "minutes": round(minutes, 1),
        "last": " ".join(last).strip("= "),
        "date": date.today().isoformat(),
    }


def read_report() -> dict[str, dict]:
    """The steps of the last report, by name."""
    lines = REPORT.read_text(encoding="utf-8").splitlines() if REPORT.exists() else []
    cells = [line.strip("| ").split(" | ") for line in lines if line.startswith("| ")][1:]
    return {name: dict(zip(COLUMNS, rest, strict=True)) for name, *rest in cells}


def write_report(rows: dict[str, dict]) -> None:
    lines = [
        "# The nightly run",
        "",
        f"Made by `make nightly` with Python {platform.python_version()}, two cores.",
        "",
        "| step | status | minutes | date | last line |",
        "|---|---|---|---|---|",
    ]
    for name in STEPS:
        if name in rows:
            lines.append(f"| {name} | {' | '.join(str(rows[name][c]) for c in COLUMNS)} |")
    REPORT.write_text("\n".join(lines) + "\n", encoding="utf-8")


def main(names: list[str]) -> int:
    """Run the steps and write the report; returns 1 if one failed."""
    unknown = set(names) - STEPS.keys()
    if unknown:
        sys.exit(f"no such step: {', '.join(sorted(unknown))}; there are {', '.join(STEPS)}")
    rows = read_report()
    for name in names or STEPS:
        print(f"{name}: {' '.join(map(str, STEPS[name][1:]))}", flush=True)
        rows[name] = run(name)
        print(f"  {rows[name]['status']}, {rows[name]['minutes']} min: {rows[name]['last']}")
        write_report(rows)
    return int(any(row["status"] != "passed" for row in rows.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
