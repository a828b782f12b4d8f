"""The loop of every training: updates, with a bar, evaluation, checkpoints and resume."""

import copy
import os
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm

from ...validate import check_integer, check_number, require
from . import nested, resume, temporary_state
from .averaging import update_average
from .history import RunHistory
from .processes import Processes
from .settings import digest_of, modules_of, python_value


@dataclass(eq=False)
class Run(ABC):
    """The state of one training; a subclass says what an update is.

    Attributes:
        processes: of this run, and their devices.
        networks: what is trained, by the prefix of its names in the settings. The first one is
            averaged.
        history: an empty one, to be filled.
        parts: what a checkpoint holds, by name, each with ``state_dict`` and ``load_state_dict``.
        The others are arguments of :func:`attnbook.fit`.
    """

    processes: Processes
    networks: Mapping[str, torch.nn.Module]
    history: RunHistory
    batches: Any
    steps: int
    average: float | None
    seed: int
    precision: str
    checkpoint_dir: str | os.PathLike | None
    save_every: int | None
    progress: bool
    evaluate: Callable | None
    evaluate_every: int | None
    keep_checkpoints: int = 1
    parts: dict[str, Any] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.device = self.processes.device
        for network in self.networks.values():
            network.to(self.device)
            # The processes may have made their networks from different seeds: the main one's are
            # trained.
            self.processes.copy_from_main([*network.parameters(), *network.buffers()])
        if self.average is not None:
            averaged = copy.deepcopy(self.first).requires_grad_(False).eval()
            self.history.averaged = self.parts["averaged"] = averaged

    @property
    def first(self) -> torch.nn.Module:
        return next(iter(self.networks.values()))

    @abstractmethod
    def update(self, step: int) -> None:
        """Make one update and write it into the history."""

    @abstractmethod
    def measure(self, evaluate: Callable) -> Any:
        """What ``evaluate`` returns, in evaluation mode and under its own random numbers."""

    @abstractmethod
    def shown(self) -> str:
        """The last update, for the bar."""

    def settings(self) -> dict[str, Any]:
        """What has to be the same for a run to go on as if it had never stopped."""
        state = {
            f"{prefix}.{name}".lstrip("."): tensor
            for prefix, network in self.networks.items()
            for name, tensor in network.state_dict().items()
        }
        return {
            "shapes": {name: list(tensor.shape) for name, tensor in state.items()},
            "dtypes": sorted({str(tensor.dtype) for tensor in state.values()}),
            "modules": {
                name: value
                for prefix, network in self.networks.items()
                for name, value in modules_of(network, prefix).items()
            },
            "first batch": digest_of(self.batches.batch(0)),
            "average": self.average,
            "seed": self.seed,
            "precision": self.precision,
            "processes": self.processes.count,
            "device": self.device.type,
            "torch": torch.__version__,
        }

    def load(self, step: int) -> Any:
        """The rows of this process of one batch, on its device."""
        batch = self.batches.batch(step)
        rows = nested.rows_of(batch, self.processes.index, self.processes.count)
        return nested.to_device(rows, self.device)

    def train(self) -> None:
        """Go on from the newest checkpoint, if there is one, to the last step."""
        self.check_same_batches()
        history, steps, settings = self.history, self.steps, {}
        directory = None if self.checkpoint_dir is None else Path(self.checkpoint_dir)
        with ExitStack() as stack:
            if directory is not None:
                settings = {key: python_value(value) for key, value in self.settings().items()}
                self.resume(directory, settings)
                if history.steps < steps:  # a finished run is only read
                    writer = resume.sole_writer(directory)
                    self.processes.on_main(lambda: stack.enter_context(writer))
            began = time.monotonic() - history.seconds
            shown = self.progress and self.processes.index == 0
            silent = not shown or os.environ.get("ATTNBOOK_PROGRESS") == "0"
            style: dict[str, Any] = dict(file=sys.stderr, unit="step", mininterval=0.5)
            bar = tqdm(total=steps, initial=history.steps, disable=silent, **style)
            stack.enter_context(bar)
            for step in range(history.steps, steps):
                self.update(step)
                if self.average is not None and history.averaged is not None:
                    update_average(history.averaged, self.first, self.average)
                bar.set_postfix_str(self.shown(), refresh=False)
                bar.update()
                evaluate = self.evaluate
                if evaluate is not None and resume.is_due(step + 1, self.evaluate_every, steps):
                    with torch.no_grad():
                        value = self.measure(evaluate)
                    history.evaluations.append((step + 1, self.processes.on_main(lambda: value)))
                history.seconds = time.monotonic() - began
                if directory is not None and resume.is_due(step + 1, self.save_every, steps):
                    self.save(directory, settings)

    def check_same_batches(self) -> None:
        """Raise a ValueError in every process unless all have the same first batch."""
        if self.processes.count > 1:
            digests = self.processes.gather(digest_of(self.batches.batch(0)))
            require(
                len(set(digests)) == 1,
                f"batches must be the same in all {len(digests)} processes, each of which trains "
                "on its rows of them, got other first batches: a DataLoader needs the same seed "
                "everywhere and no DistributedSampler",
            )

    def save(self, directory: Path, settings: dict[str, Any]) -> None:
        random_states = self.processes.gather(temporary_state.get_random_state())

        def write():
            evaluations = plain_value(self.history.evaluations)
            state = {
                **{name: part.state_dict() for name, part in self.parts.items()},
                "history": {**vars(self.history), "averaged": None, "evaluations": evaluations},
                "random": random_states,
            }
            step, keep = self.history.steps, self.keep_checkpoints
            resume.write_checkpoint(directory, step, state, settings, keep)

        self.processes.on_main(write)

    def resume(self, directory: Path, settings: dict[str, Any]) -> None:
        """Put everything where the newest checkpoint was written, if there is one."""
        state = self.processes.on_main(lambda: resume.read_newest(directory, settings))
        if state is None:
            return
        history = self.history
        for name in vars(history).keys() & state["history"].keys() - {"averaged"}:
            setattr(history, name, state["history"][name])
        history.evaluations = [(step, value) for step, value in history.evaluations]
        history.resumed_from = history.steps
        require(
            history.steps <= self.steps,
            f"steps must be at least the {history.steps} of the run in checkpoint_dir, got "
            f"{self.steps}",
        )
        missing = [name for name in self.parts if name not in state]
        require(
            not missing,
            f"checkpoint_dir must be of this run, got a checkpoint without {', '.join(missing)}",
        )
        for name, part in self.parts.items():
            part.load_state_dict(state[name])
        states = state["random"]
        if isinstance(states, dict):  # an earlier version of adversarial training
            states = [states]
        temporary_state.set_random_state(states[self.processes.index])


def check_run(given: Mapping[str, Any]) -> dict[str, Any]:
    """Check what all trainings take; all of it, its numbers as Python's, for checkpoints."""
    steps = check_integer("steps", given["steps"])
    seed = check_integer("seed", given["seed"], 0, 2**63 - 1)
    if given["average"] is not None:
        check_number("average", given["average"], least=0, below=1)
    evaluate = given["evaluate"]
    fits = evaluate is None or callable(evaluate)
    require(fits, f"evaluate must be a function of what is trained, got {evaluate!r}")
    for name, needed in (("save_every", "checkpoint_dir"), ("evaluate_every", "evaluate")):
        if (every := given[name]) is not None:
            check_integer(name, every)
            there = given[needed] is not None
            require(there, f"{name} must be None without {needed}, got {every}")
    return {**given, "steps": steps, "seed": seed}


def plain_value(value: Any) -> Any:
    """Nests of numbers and text, out of tensors and NumPy scalars, for a checkpoint."""
    # first: np.float64 is a float, and cannot be read from a checkpoint
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, dict):
        return {str(key): plain_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain_value(item) for item in value]
    if getattr(value, "size", None) == 1 or isinstance(value, Tensor) and value.numel() == 1:
        return plain_value(value.item())
    raise ValueError(
        f"evaluate must return a number, or a list or dict of numbers, got {type(value).__name__}"
    )
