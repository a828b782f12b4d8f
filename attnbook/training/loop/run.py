"""One update after another for `fit`, with evaluation, checkpoints and resume."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ...modules import temporary_mode
from ...validate import require
from ..optim.optimizers import make_optimizer
from . import nested, resume, temporary_state
from .autocast import autocast
from .averaging import update_average
from .history import History, NonFiniteError
from .loader_batches import LoaderBatches
from .processes import Processes

_LARGEST_RUN_OF_OVERFLOWS = 20


class Run:
    """The state of one call of `fit`."""

    def __init__(
        self,
        processes: Processes,
        model: torch.nn.Module,
        batches,
        loss: Callable,
        *,
        optimizer,
        learning_rate: float,
        weight_decay: float | None,
        factor: Callable[[int], float],
        clip_norm: float | None,
        micro_batch: int | None,
        reduction: str,
        precision: str,
        average: float | None,
        seed: int,
    ):
        self.processes, self.device = processes, processes.device
        self.model, self.batches, self.loss, self.factor = model, batches, loss, factor
        self.clip_norm, self.micro_batch = clip_norm, micro_batch
        self.reduction, self.precision, self.seed = reduction, precision, seed
        self.average = average
        model.to(self.device)
        # The processes may have made their models from different seeds: the main one's is trained.
        # The model is not wrapped in DistributedDataParallel: the loss may call any of its methods,
        # and a process may have no rows, both of which that forbids.
        self.buffers = list(model.buffers())
        processes.copy_from_main([*model.parameters(), *self.buffers])
        self.parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        require(
            bool(self.parameters),
            f"model must have a parameter that requires a gradient, got {type(model).__name__} "
            "without one",
        )
        self.optimizer = make_optimizer(optimizer, self.parameters, learning_rate, weight_decay)
        # An optimizer may hold some alone. The gradients of the others are never cleared: they have
        # no part in the norm.
        held = {id(p) for group in self.optimizer.param_groups for p in group["params"]}
        self.parameters = [p for p in self.parameters if id(p) in held]
        self.rates = [float(group["lr"]) for group in self.optimizer.param_groups]
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=precision == "fp16")
        # Apple's GPUs have no float64.
        self.wide = torch.float32 if self.device.type == "mps" else torch.float64
        self.history = History()
        if average is not None:
            self.history.averaged = copy.deepcopy(model).requires_grad_(False).eval()
        self.overflows = 0

    def load(self, step: int):
        """The rows of this process of one batch, on its device."""
        batch = self.batches.batch(step)
        rows = nested.rows_of(batch, self.processes.index, self.processes.count)
        return nested.to_device(rows, self.device)

    def update(self, step: int, batch, steps: int):
        """One update; returns the next batch, fetched while the device is still at work on this
        one.
        """
        for group, rate in zip(self.optimizer.param_groups, self.rates, strict=True):
            group["lr"] = rate * self.factor(step)
        self.optimizer.zero_grad(set_to_none=True)
        rows = self.micro_batch
        sums = self.backward(batch) if rows is None else self.accumulate(batch, rows)
        self.scaler.unscale_(self.optimizer)
        gradients = [parameter.grad for parameter in self.parameters if parameter.grad is not None]
        norm = torch.nn.utils.get_total_norm(gradients) if gradients else torch.zeros(())
        following = self.load(step + 1) if step + 1 < steps else None
        # The one place where the host waits for the device, and the last one before the weights
        # change.
        total, count, _, norm_value = torch.stack([*sums, norm.to(sums)]).tolist()
        self.check(step, total, count, norm_value)
        if self.clip_norm is not None and gradients:
            torch.nn.utils.clip_grads_with_norm_(self.parameters, self.clip_norm, norm)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.processes.copy_from_main(self.buffers)
        if self.average is not None and self.history.averaged is not None:
            update_average(self.history.averaged, self.model, self.average)
        self.history.losses.append(total / count)
        self.history.grad_norms.append(norm_value)
        self.history.steps += 1
        return following

    def backward(self, batch) -> torch.Tensor:
        """The gradient of one batch, summed over the processes.

        Returns:
            [Σ total, Σ count, Σ rows].
        """
        total, sums = self.forward(batch)
        self.processes.sum(sums)
        # The sum over all processes, divided by the count of all processes: not the mean of their
        # means.
        self.scaled_backward(total / self.divisor(sums).to(total.dtype))
        self.processes.sum_gradients(self.parameters)
        return sums

    def accumulate(self, batch, rows: int) -> torch.Tensor:
        """The same gradient from `rows` rows at a time. The count of the whole batch is known only
        after the last one: each loss is divided by the same number before (fp16 overflows on large
        sums), and the gradient by the rest at the end.
        """
        sums = torch.zeros(3, dtype=self.wide, device=self.device)
        for part in nested.split_rows(batch, rows):
            total, of_part = self.forward(part)
            self.scaled_backward(total / rows)
            sums += of_part
        self.processes.sum(sums)
        self.processes.sum_gradients(self.parameters)
        for parameter in self.parameters:
            if parameter.grad is not None:
                parameter.grad.mul_((rows / self.divisor(sums)).to(parameter.grad.dtype))
        return sums

    def divisor(self, sums: torch.Tensor) -> torch.Tensor:
        """What the summed loss is divided by for the gradient: its terms, or the rows."""
        return sums[1] if self.reduction == "mean" else sums[2]

    def scaled_backward(self, loss: torch.Tensor) -> None:
        # The factor of fp16 is made when the first loss is scaled; a process without rows, whose
        # loss has no graph, needs it as well.
        scaled = self.scaler.scale(loss)
        if loss.requires_grad:
            scaled.backward()

    def forward(self, batch) -> tuple[torch.Tensor, torch.Tensor]:
        """The loss of some rows, and [total, count, rows]."""
        rows = nested.count_rows(batch)
        if rows == 0:
            nothing = torch.zeros(3, dtype=self.wide, device=self.device)
            return torch.zeros((), device=self.device), nothing
        with autocast(self.precision, self.device):
            result = self.loss(self.model, batch)
        if not (isinstance(result, tuple) and len(result) == 2):
            raise ValueError(f"loss must return (total, count), got {type(result).__name__}")
        total, count = result
        if not (isinstance(total, torch.Tensor) and total.dim() == 0 and total.requires_grad):
            raise ValueError(
                "loss must return a total of shape () that depends on the parameters, got "
                f"{total!r}"
            )
        count = torch.as_tensor(count, device=self.device)
        require(
            count.dim() == 0,
            f"loss must return a count of shape (), got shape {tuple(count.shape)}",
        )
        sums = [total.detach().to(self.wide), count.to(self.wide)]
        return total, torch.stack([*sums, torch.full_like(sums[0], rows)])

    def check(self, step: int, total: float, count: float, norm: float) -> None:
        """Raise before the weights change where a number is not finite or nothing was counted."""
        require(count > 0, f"loss must count at least one term in step {step}, got {count:g}")
        if not math.isfinite(total):
            raise NonFiniteError("loss", step, total / count)
        if math.isfinite(norm):
            self.overflows = 0
            return
        if self.scaler.is_enabled() and self.overflows < _LARGEST_RUN_OF_OVERFLOWS:
            # The scaled gradients of fp16 overflowed. The scaler skips this update and halves its
            # scale.
            self.overflows += 1
            return
        names = [
            name
            for name, parameter in self.model.named_parameters()
            if parameter.grad is not None and not parameter.grad.isfinite().all()
        ]
        raise NonFiniteError("gradient", step, norm, f" (first in {names[0]})" if names else "")

    def evaluate(self, evaluate: Callable[[torch.nn.Module], Any]) -> None:
        step, averaged = self.history.steps, self.history.averaged
        model = self.model if averaged is None else averaged
        with (
            temporary_state.temporary_seed(self.seed + step),
            temporary_mode(model, False),
            torch.no_grad(),
        ):
            value = plain_value(evaluate(model))
        self.history.evaluations.append((step, self.processes.on_main(lambda: value)))

    def save(self, directory: Path, settings: dict[str, Any], keep: int) -> None:
        random_states = self.processes.gather(temporary_state.get_random_state())

        def write():
            state = {
                "model": self.model.state_dict(),
                "optimizer": self.optimizer.state_dict(),
                "scaler": self.scaler.state_dict(),
                "history": {**vars(self.history), "averaged": None},
                "random": random_states,
            }
            if self.history.averaged is not None:
                state["averaged"] = self.history.averaged.state_dict()
            if isinstance(self.batches, LoaderBatches):
                state["batches"] = self.batches.state()
            resume.write_checkpoint(directory, self.history.steps, state, settings, keep)

        self.processes.on_main(write)

    def resume(self, directory: Path, settings: dict[str, Any], steps: int) -> None:
        state = self.processes.on_main(lambda: resume.read_newest(directory, settings))
        if state is None:
            return
        history = History(**{**state["history"], "averaged": self.history.averaged})
        require(
            history.steps <= steps,
            f"steps must be at least the {history.steps} of the run in checkpoint_dir, got {steps}",
        )
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        if self.scaler.is_enabled():
            self.scaler.load_state_dict(state["scaler"])
        if history.averaged is not None:
            require(
                "averaged" in state,
                f"average must be None for a checkpoint without averaged weights, got "
                f"{self.average}",
            )
            history.averaged.load_state_dict(state["averaged"])
        if isinstance(self.batches, LoaderBatches) and "batches" in state:
            self.batches.load(state["batches"])
        history.evaluations = [(step, value) for step, value in history.evaluations]
        history.resumed_from = history.steps
        self.history = history
        temporary_state.set_random_state(state["random"][self.processes.index])


def plain_value(value: Any) -> Any:
    """Numbers, text and nests of them, out of tensors and NumPy scalars, so that a checkpoint can
    hold them.
    """
    # first: np.float64 is a float, and cannot be read from a checkpoint
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, dict):
        return {str(key): plain_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain_value(item) for item in value]
    if getattr(value, "size", None) == 1 or isinstance(value, torch.Tensor) and value.numel() == 1:
        return plain_value(value.item())
    raise ValueError(
        f"evaluate must return a number, or a list or dict of numbers, got {type(value).__name__}"
    )
