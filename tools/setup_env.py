"""Makes the virtual environment and installs the project in it:

    python tools/setup_env.py [FOLDER] [--oldest | --colab | --environment]

Needs nothing but Python. Where the Python that runs it has a recent PyTorch already, the
environment sees that one and pip is told to leave it, and NumPy, as they are. On Linux without a
driver of NVIDIA, PyTorch's build for the CPU is taken where it can be had: what pip finds by itself
there is the one for CUDA, 6 GB instead of 0.7. With CI=true the versions are those of
requirements/ci-lock.txt, with --colab those of Google Colab, with --oldest the lower bounds of what
the library needs; --environment installs what environment.yml gives to pip. A stamp in the folder
makes the second call immediate."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LOCK = ROOT / "requirements" / "ci-lock.txt"
COLABS = ROOT / "requirements" / "colab.txt"
CI = os.environ.get("CI", "").lower() in ("1", "true")
OLDEST, COLAB = "--oldest" in sys.argv, "--colab" in sys.argv
ENVIRONMENT = "--environment" in sys.argv
EXTRAS = "book,lab,website,test,translate,text,captions,cluster,reference,dev"
# The library, the tool that builds the book, and the grader: one pip command for all three, since
# the grader depends on the others.
PROJECTS = (f".[{EXTRAS}]", "./bookbuild", "./grader[cluster]")
if OLDEST or COLAB:  # the library alone: pages and the grader need newer ones
    PROJECTS = (".[book,test,translate,captions]", "./bookbuild")
FILES = (
    "environment.yml",
    "pyproject.toml",
    "setup.py",
    "bookbuild/pyproject.toml",
    "grader/pyproject.toml",
)
TORCH_MINIMUM = (2, 9, 0)
CPU_BUILDS = "https://download.pytorch.org/whl/cpu"


def installed() -> dict[str, str]:
    """Versions of torch and numpy in the Python that runs this script, empty where torch is
    missing or too old.
    """
    try:
        found = {name: metadata.version(name) for name in ("torch", "numpy")}
    except metadata.PackageNotFoundError:
        return {}
    return found if new_enough(found["torch"]) else {}


def new_enough(version: str) -> bool:
    """Whether pip takes this version of torch for `torch>=2.9`, which 2.9.0rc1 is not."""
    parts = re.match(r"(\d+)\.(\d+)(?:\.(\d+))?\.?(a|b|rc|dev)?", version)
    if parts is None:
        return False
    release = tuple(int(number or 0) for number in parts.groups()[:3])
    return release > TORCH_MINIMUM or (release == TORCH_MINIMUM and parts[4] is None)


def see_parent(folder: Path) -> None:
    """Let the new environment see the packages of the environment that this script runs in.

    --system-site-packages shows those of the Python underneath; where a virtual environment is
    active, PyTorch is in that one."""
    if sys.prefix == sys.base_prefix:
        return
    where = subprocess.run(
        [str(python_of(folder)), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    parents = dict.fromkeys([sysconfig.get_path("purelib"), sysconfig.get_path("platlib")])
    Path(where, "attnbook-parent.pth").write_text(
        "".join(f"{p}\n" for p in parents), encoding="utf-8"
    )


def stamp_of(base: dict[str, str]) -> str:
    parts = [
        sys.version,
        sys.base_prefix,
        str(CI),
        str(OLDEST),
        str(COLAB),
        str(ENVIRONMENT),
        *PROJECTS,
    ]
    parts += [str(sorted(base.items()))]
    parts += [(ROOT / name).read_text(encoding="utf-8") for name in FILES]
    parts += [LOCK.read_text(encoding="utf-8")] if CI else []
    parts += [COLABS.read_text(encoding="utf-8")] if COLAB else []
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def python_of(folder: Path) -> Path:
    return folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def lower_bounds() -> list[str]:
    """What the library needs, as `name==the oldest version that it names`."""
    import tomllib  # Python 3.11 has it; an older one is told so by main

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    needs = [*project["dependencies"]]
    for name in ("book", "translate", "captions"):
        needs += extras[name]
    return [need.replace(">=", "==") for need in needs]


def environments_pip() -> list[str]:
    """The arguments that conda gives to pip, of environment.yml."""
    given = (ROOT / "environment.yml").read_text(encoding="utf-8").partition("pip:")[2]
    return [
        word for line in re.findall(r"^ *- (.+)$", given, re.MULTILINE) for word in line.split()
    ]


def cpu_build(python: str, base: dict[str, str]) -> list[str] | None:
    """The pip command for PyTorch without CUDA, or None where that is not what pip should get: an
    index of the user's own knows better.
    """
    if base or CI or OLDEST or COLAB or ENVIRONMENT or sys.platform != "linux":
        return None
    if shutil.which("nvidia-smi") or Path("/proc/driver/nvidia").exists():
        return None
    if any(os.environ.get(name) for name in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL")):
        return None
    quick = ["--retries", "1", "--timeout", "15"]  # where that index cannot be reached
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *quick]
    # of two builds of the newest version pip takes the one with a label, which is that of the CPU
    return [*pip, "--extra-index-url", CPU_BUILDS, "torch"]


def commands(python: str, base: dict[str, str], constraints: Path) -> list[list[str]]:
    """The pip commands, in order."""
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    editable = [part for project in PROJECTS for part in ("-e", project)]
    if ENVIRONMENT:
        return [[*pip, *environments_pip()]]
    if OLDEST:
        constraints.write_text("\n".join(lower_bounds()) + "\n", encoding="utf-8")
        return [[*pip, "-c", str(constraints), *editable]]
    if COLAB:
        return [[*pip, "-c", str(COLABS), *editable]]
    if base:
        # Nothing may replace the PyTorch that is there, so both names are held at what is
        # installed.
        constraints.write_text(
            "".join(f"{name}=={version}\n" for name, version in base.items()), encoding="utf-8"
        )
        return [[*pip, "-c", str(constraints), *editable]]
    if CI:
        # torch by itself: the lock then needs no opinion on which build (CPU, CUDA) this machine
        # has.
        torch = next(
            line for line in LOCK.read_text(encoding="utf-8").split() if line.startswith("torch==")
        )
        return [[*pip, torch], [*pip, "-c", str(LOCK), *editable]]
    return [[*pip, *editable]]


def main(folder: Path) -> None:
    if sys.version_info < (3, 11):  # noqa: UP036 (run by whatever Python there is)
        sys.exit(
            f"attnbook needs Python 3.11 or newer, this is {sys.version.split()[0]}; make "
            f"PYTHON=/path/to/python3.11 ..."
        )
    if CI:
        subprocess.run(["bash", str(ROOT / "tools" / "install_system.sh")], check=True)
    base = {} if OLDEST or COLAB or ENVIRONMENT else installed()
    stamp, wanted = folder / "attnbook-setup", stamp_of(base)
    if stamp.is_file() and stamp.read_text() == wanted and python_of(folder).exists():
        return
    if not python_of(folder).exists():
        print(f"making {folder} with Python {sys.version.split()[0]}", flush=True)
        flags = ["--system-site-packages"] if base else []
        made = subprocess.run([sys.executable, "-m", "venv", *flags, str(folder)])
        if made.returncode:
            shutil.rmtree(folder, ignore_errors=True)
            sys.exit(
                "could not make a virtual environment (on Debian and Ubuntu: apt-get install "
                "python3-venv)"
            )
        if base:
            see_parent(folder)
    kept = f", keeping torch {base['torch']}" if base else ""
    print(
        f"installing attnbook into {folder}{kept}; the first time takes a few minutes", flush=True
    )
    command = cpu_build(str(python_of(folder)), base)
    if command is not None and subprocess.run(command, cwd=ROOT, capture_output=True).returncode:
        print(f"no PyTorch for the CPU from {CPU_BUILDS}: taking the one that pip finds")
    for command in commands(str(python_of(folder)), base, folder / "attnbook-constraints.txt"):
        if subprocess.run(command, cwd=ROOT).returncode:
            sys.exit(
                "the installation stopped; run the command again once the reason above is dealt "
                "with"
            )
    part = stamp.with_suffix(".partial")
    part.write_text(wanted)
    os.replace(part, stamp)


if __name__ == "__main__":
    folders = [argument for argument in sys.argv[1:] if not argument.startswith("--")]
    main(Path(folders[0]) if folders else ROOT / ".venv")
