"""The registry of experiments, and the record of a run: figures, settings, versions, device, seed
and commit in one JSON.

A module of an experiment holds its settings (a frozen dataclass), its function and the runs that
it registers. :func:`load_experiments` finds the modules by walking this package.
"""

from __future__ import annotations

import dataclasses
import difflib
import hashlib
import importlib
import inspect
import json
import os
import pkgutil
import platform
import shlex
import subprocess
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

from attnbook import resources
from attnbook.validate import check_choice, check_integer, plain_number, require

__all__ = [
    "Experiment",
    "NoSettings",
    "load_experiments",
    "prepare",
    "read_setting",
    "record_name",
    "recorded_minutes",
    "register",
    "register_family",
    "reproduce",
]


@dataclass(frozen=True)
class Experiment:
    """A run under its name.

    Attributes:
        run: Called with the settings, ``seed``, and if it has such arguments ``folder`` (for
            checkpoints) and ``device`` (else it runs on the CPU); returns figures that JSON can
            hold.
        settings: An instance of the frozen dataclass that ``run`` takes.
        title: One line for the list.
        minutes: About how long it takes, and on what.
        needs: The data sets that it reads, empty when it generates its data.
    """

    run: Callable[..., dict]
    settings: Any
    title: str
    minutes: str
    needs: str = ""


@dataclass(frozen=True)
class NoSettings:
    """Settings of an experiment that has none."""


_ROOT = Path(__file__).resolve().parents[1]
_PACKAGES = ("attnbook", "attnbook_runs")
_EXPERIMENTS: dict[str, Experiment] = {}


def register(
    name: str, run: Callable[..., dict], settings: Any, *, title: str, minutes: str, needs: str = ""
) -> None:
    """Register a run; the arguments are those of :class:`Experiment`."""
    require(name not in _EXPERIMENTS, f"name must be new, got {name!r}, which is registered")
    _check_types(settings)
    _EXPERIMENTS[name] = Experiment(run, settings, title, minutes, needs)


def register_family(
    run: Callable[..., dict],
    base: Any,
    *rows: tuple[str, str, str, Mapping[str, Any]],
    needs: str = "",
) -> None:
    """Register runs that differ in a few settings.

    Args:
        base: The settings that they share.
        rows: For each run its name, title and minutes, and the settings that differ from ``base``.
    """
    for name, title, minutes, changes in rows:
        settings = dataclasses.replace(base, **changes)
        register(name, run, settings, title=title, minutes=minutes, needs=needs)


def load_experiments() -> dict[str, Experiment]:
    """Import all modules of this package and return the registered runs by name."""
    import attnbook_runs

    for module in pkgutil.walk_packages(attnbook_runs.__path__, f"{attnbook_runs.__name__}."):
        importlib.import_module(module.name)
    return dict(sorted(_EXPERIMENTS.items()))


def recorded_minutes(name: str) -> list[float]:
    """The minutes of each recorded run of an experiment, in ascending order; of one that was
    stopped, those since it went on.
    """
    runs = [
        json.loads(path.read_text(encoding="utf-8"))
        for path in resources.path("results").glob(f"{name}.seed*.json")
    ]
    return sorted(run["seconds"] / 60 for run in runs if "seconds" in run)


def reproduce(
    name: str,
    *,
    seed: int = 0,
    out: str | os.PathLike = "results",
    device: str | None = None,
    commit: str | None = None,
    resume: bool = False,
    **overrides: Any,
) -> Path:
    """Run an experiment and write ``OUT/NAME.seedN.json`` atomically.

    Args:
        name: A name of :func:`load_experiments`.
        seed: Seed of data, weights and order.
        out: Folder of the results.
        device: By default the GPU if there is one and the experiment can use it, else the CPU.
        commit: Recorded beside the figures; by default that of the repository.
        resume: Whether to go on where a run of the same commit (without one: of the same modules)
            and settings was stopped, by checkpoints in a hidden folder of ``out`` while it runs;
            not for uncommitted code.
        overrides: Settings to change, by name; recorded too.

    Returns:
        The path of the JSON. Its ``seconds`` are those of this call: of a run that was stopped,
        those since it went on.

    Raises:
        ValueError: For an unknown name or setting, a setting that is not of the type of its field,
            and a device that is not there or that the experiment cannot use.
        OSError: Before the run, if ``out`` cannot be written.

    Warns before it replaces a JSON of other settings.
    """
    import torch

    from attnbook.files import make_folder, write_atomically
    from attnbook.training.loop.processes import check_device

    from .common import resumable

    seed = check_integer("seed", seed, 0)
    folder = Path(out)
    overrides = {key: _plain(value) for key, value in overrides.items()}
    experiment, settings = prepare(name, seed, folder, overrides)
    parameters = inspect.signature(experiment.run).parameters
    takes_device = "device" in parameters
    used = str(
        check_device(device or ("cuda" if takes_device and torch.cuda.is_available() else "cpu"))
    )
    require(
        takes_device or used.startswith("cpu"), f"device must be 'cpu' for {name}, got {used!r}"
    )
    make_folder("out", folder)
    # no TF32: a GPU computes what a CPU does
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    started = time.perf_counter()
    commit = commit or _commit()
    context = {"folder": folder, "device": used}
    arguments = {key: value for key, value in context.items() if key in parameters}
    run = f"{_source() if commit == 'unknown' else commit} {settings} {used}".encode()
    checkpoints = folder / f".{name}.seed{seed}.{hashlib.sha256(run).hexdigest()[:12]}"
    # uncommitted code may have changed since
    resume = resume and not commit.endswith("-dirty")
    with resumable(checkpoints) if resume else nullcontext():
        figures = experiment.run(settings, seed=seed, **arguments)
    record = {
        "name": name,
        "title": experiment.title,
        "seed": seed,
        "settings": _chosen(settings),
        "figures": figures,
        "seconds": round(time.perf_counter() - started, 1),
        "device": _device_name(used),
        **({"gpu": _gpu(used)} if used.startswith("cuda") else {}),
        "versions": _versions(),
        "commit": commit,
        "command": _command(name, seed, device, overrides),
    }
    text = json.dumps(record, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    return write_atomically(folder / record_name(name, seed), text.encode())


def prepare(
    name: str, seed: int, folder: Path, overrides: Mapping[str, Any]
) -> tuple[Experiment, Any]:
    """The experiment of that name, and its settings with the changes.

    Warns if the folder has a record of other settings, and raises a ``ValueError`` for an unknown
    name or setting and for a setting that is not of the type of its field.
    """
    experiments = load_experiments()
    if name not in experiments:
        close = difflib.get_close_matches(name, experiments)
        such = f", such as {', '.join(map(repr, close))}" if close else ""
        raise ValueError(
            f"name must be an experiment that `attnbook experiments` lists{such}, got {name!r}"
        )
    experiment = experiments[name]
    fields = [field.name for field in dataclasses.fields(experiment.settings)]
    for key in overrides:
        check_choice(f"setting of {name}", key, fields)
    settings = dataclasses.replace(experiment.settings, **overrides)
    _check_types(settings)
    path = folder / record_name(name, seed)
    if path.exists() and json.loads(path.read_text("utf-8")).get("settings") != json.loads(
        json.dumps(_chosen(settings))
    ):
        warnings.warn(
            f"{path} holds a run of other settings, which this one will replace", stacklevel=3
        )
    return experiment, settings


def record_name(name: str, seed: int) -> str:
    """The file of a run."""
    return f"{name}.seed{seed}.json"


def _chosen(settings: Any) -> dict[str, Any]:
    return {field.name: getattr(settings, field.name) for field in dataclasses.fields(settings)}


def _plain(value: Any) -> Any:
    """A number as Python's own, for the record."""
    number = plain_number(value)
    return value if number is None else number


def read_setting(text: str) -> Any:
    """The value of a setting that is given as text: JSON or a Python number, else the text."""
    for parse in (int, float, json.loads):
        try:
            return parse(text)
        except ValueError:
            continue
    return {"true": True, "false": False}.get(text.lower(), text)


def _command(name: str, seed: int, device: str | None, overrides: dict[str, Any]) -> str:
    """The command line that repeats the run."""
    words = ["attnbook", "reproduce", name, "--seed", str(seed)]
    words += ["--device", device] if device else []
    for key, value in overrides.items():
        plain = isinstance(value, str) and read_setting(value) == value
        words += ["--set", f"{key}={value if plain else json.dumps(value, ensure_ascii=False)}"]
    return shlex.join(words)


def _check_types(settings: Any) -> None:
    """Raise a ``ValueError`` if a setting is not of the type of its field."""
    for key, kind in get_type_hints(type(settings)).items():
        value = getattr(settings, key)
        require(_matches(value, kind), f"{key} must be {_spelled(kind)}, got {value!r}")


def _spelled(kind: Any) -> str:
    return inspect.formatannotation(kind).replace("collections.abc.", "").replace("typing.", "")


def _matches(value: object, kind: Any) -> bool:
    """Whether a value is of a type; a list is any sequence, since JSON has no tuples, and an
    integer is a float too.
    """
    if kind is Any:
        return True
    if isinstance(kind, UnionType):
        return any(_matches(value, one) for one in get_args(kind))
    origin, items = get_origin(kind) or kind, get_args(kind)
    if origin in (tuple, Sequence):
        return isinstance(value, tuple | list) and all(
            any(_matches(item, one) for one in items if one is not ...) for item in value
        )
    if origin in (dict, Mapping):
        return isinstance(value, Mapping) and all(_matches(v, items[1]) for v in value.values())
    if isinstance(value, bool):
        return origin is bool
    return isinstance(value, (int, float) if origin is float else origin)


def _device_name(device: str) -> str:
    import torch

    if device.startswith("cuda"):
        return torch.cuda.get_device_name(device)
    if not device.startswith("cpu"):
        return f"{platform.machine()} {device}"
    return f"{platform.machine()} CPU, {torch.get_num_threads()} threads"


def _gpu(device: str) -> dict[str, Any]:
    """What a figure of a GPU depends on, beside its name."""
    import torch

    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        driver = subprocess.check_output(query, stderr=subprocess.DEVNULL, text=True).split()[0]
    except (OSError, subprocess.CalledProcessError, IndexError):
        driver = "unknown"
    return {
        "memory_gb": round(torch.cuda.get_device_properties(device).total_memory / 2**30, 1),
        "peak_gb": round(torch.cuda.max_memory_allocated(device) / 2**30, 2),
        "driver": driver,
        "cuda": torch.version.cuda,
        "tf32": torch.backends.cudnn.allow_tf32,
    }


def _versions() -> dict[str, str]:
    from importlib.metadata import PackageNotFoundError, version

    versions = {"python": platform.python_version()}
    for package in ("attnbook", "torch", "numpy", "accelerate", "tokenizers", "sacrebleu"):
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return versions


def _source(root: Path = _ROOT) -> str:
    """A hash of all modules that a run may use."""
    digest = hashlib.sha256()
    for package in _PACKAGES:
        for path in sorted((root / package).rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()


def _commit(root: Path = _ROOT) -> str:
    """The commit, with ``-dirty`` where the library or the runs have changes or files that it does
    not hold.
    """
    if not (root / ".git").exists():  # installed, perhaps inside another repository
        return "unknown"

    def git(*words: str) -> str:
        return subprocess.check_output(
            ["git", *words], cwd=root, stderr=subprocess.DEVNULL, text=True
        ).strip()

    try:
        commit = git("describe", "--always", "--abbrev=12")
        return commit + ("-dirty" if git("status", "--porcelain", "--", *_PACKAGES) else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
