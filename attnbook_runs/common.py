"""What the experiments share: training by their settings, checkpoints, and figures of a run."""

from __future__ import annotations

import itertools
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import torch
from torch import nn

from attnbook.training import cosine_decay, fit, save_model
from attnbook.training.loop.history import History

__all__ = [
    "Best",
    "block_means",
    "checkpoint_folder",
    "checkpoints",
    "count_parameters",
    "resumable",
    "rounded",
    "save_checkpoint",
    "select",
    "train",
    "training_figures",
]

_OF_FIT = (
    "steps",
    "learning_rate",
    "optimizer",
    "clip_norm",
    "micro_batch",
    "reduction",
    "precision",
)
_SAVES = 20  # of a training that can be resumed
_folders: ContextVar[Iterator[Path] | None] = ContextVar("folders", default=None)


@contextmanager
def resumable(folder: Path) -> Iterator[None]:
    """Every :func:`train` inside keeps checkpoints in ``folder``: the same block, run again, goes
    on where it was stopped, to the same figures. The folder is removed when the block is done.
    """
    token = _folders.set(folder / f"training-{k}" for k in itertools.count(1))
    try:
        yield
    finally:
        _folders.reset(token)
    shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def checkpoint_folder() -> Iterator[Path]:
    """The folder of the next training: inside :func:`resumable` one that stays, else a temporary
    one.
    """
    folders = _folders.get()
    if folders is not None:
        yield next(folders)
        return
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


def checkpoints(steps: int) -> dict[str, Any]:
    """Where and how often the next training of so many steps saves, as arguments of it: inside
    :func:`resumable`, else nothing.
    """
    folders = _folders.get()
    if folders is None:
        return {}
    return {"checkpoint_dir": next(folders), "save_every": max(1, steps // _SAVES)}


class Best:
    """An evaluation that keeps the weights with the best value, as a file: a training that is
    stopped and goes on has them still.

    Args:
        evaluate: From a model to a number.
        folder: Where the weights go.
        largest: Whether the best value is the largest, not the smallest.
    """

    def __init__(self, evaluate: Callable[[nn.Module], float], folder: Path, largest: bool = False):
        self._evaluate, self._path, self._largest = evaluate, folder / "best.pt", largest
        self.value = torch.load(self._path)["value"] if self._path.exists() else None

    def __call__(self, model: nn.Module) -> float:
        value = self._evaluate(model)
        if self.value is None or (value > self.value if self._largest else value < self.value):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            new = self._path.with_suffix(".new")
            torch.save({"value": value, "weights": model.state_dict()}, new)
            new.replace(self._path)
            self.value = value
        return value

    def restore(self, model: nn.Module) -> None:
        """Give a model the best weights."""
        device = next(model.parameters()).device
        model.load_state_dict(torch.load(self._path, map_location=device)["weights"])


def select(settings: Any, *names: str) -> dict[str, Any]:
    """Some of the settings of an experiment, as keyword arguments."""
    return {name: getattr(settings, name) for name in names}


def train(
    model: nn.Module,
    batches: Any,
    loss: Callable,
    settings: Any,
    *,
    seed: int,
    device: Any,
    warmup: int = 20,
    evaluations: int | None = None,
    **options: Any,
) -> History:
    """Train a model in place with the settings of an experiment.

    Args:
        settings: ``steps`` and ``learning_rate``, and where it has them ``optimizer``,
            ``clip_norm``, ``micro_batch``, ``reduction``, ``precision`` and ``decay`` (of the
            learning rate, by a cosine; the default).
        warmup: Steps over which the learning rate rises.
        evaluations: Calls of ``evaluate``, evenly spaced.
        options: Further arguments of :func:`attnbook.fit`; they override the settings.
    """
    arguments = select(settings, *(name for name in _OF_FIT if hasattr(settings, name)))
    if getattr(settings, "decay", True):
        arguments["schedule"] = cosine_decay(settings.steps, warmup)
    if evaluations is not None:
        arguments["evaluate_every"] = max(1, settings.steps // evaluations)
    if "checkpoint_dir" not in options:
        arguments |= checkpoints(options.get("steps", arguments.get("steps", 1)))
        if "checkpoint_dir" in arguments:
            arguments["keep_checkpoints"] = 1
    return fit(model, batches, loss, seed=seed, device=device, **{**arguments, **options})


def save_checkpoint(
    model: nn.Module, name: str | None, folder: Path, seed: int, **metadata: Any
) -> None:
    """Store the weights at half precision as ``FOLDER/NAME.seedN.safetensors``, with metadata;
    without a name do nothing."""
    if name:
        text = {key: str(value) for key, value in metadata.items()}
        save_model(model, Path(folder) / f"{name}.seed{seed}.safetensors", half=True, **text)


def count_parameters(model: nn.Module) -> int:
    """The number of trained parameters of a model."""
    return sum(p.numel() for p in model.parameters())


def training_figures(model: nn.Module, history: History) -> dict[str, Any]:
    """The number of parameters of a model and the seconds that its training took."""
    return {"parameters": count_parameters(model), "training_seconds": round(history.seconds, 1)}


def rounded(evaluations: Iterable[tuple[int, float]], digits: int = 4) -> list[list[float]]:
    """``[step, value]`` for each evaluation of a run."""
    return [[step, round(value, digits)] for step, value in evaluations]


def block_means(values: Sequence[float], count: int) -> list[float]:
    """The means of about ``count`` blocks of consecutive values, such as losses by step."""
    size = max(1, len(values) // count)
    blocks = (values[k : k + size] for k in range(0, len(values), size))
    return [round(sum(block) / len(block), 4) for block in blocks]
