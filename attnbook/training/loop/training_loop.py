"""The loop of `fit`: one update after another, with evaluation, checkpoints and resume."""

from __future__ import annotations

import hashlib
import math
import time
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..optim.optimizers import make_optimizer
from . import accelerator as runtime
from . import resume
from .history import History, NonFiniteError


class Run:
    """The state of one call of `fit`."""

    def __init__(
        self,
        model,
        batches,
        loss,
        accelerator,
        optimizer,
        learning_rate,
        factor,
        clip_norm,
        micro_batch,
    ):
        self.model, self.batches, self.loss, self.accelerator = model, batches, loss, accelerator
        self.factor, self.clip_norm, self.micro_batch = factor, clip_norm, micro_batch
        model.to(accelerator.device)
        # The processes may have made their models from different seeds: the main one's is trained.
        self.buffers = [buffer for buffer in model.buffers()]
        runtime.copy_from_main(accelerator, [*model.parameters(), *self.buffers])
        self.parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        if not self.parameters:
            raise ValueError(
                f"model: {type(model).__name__} has no parameter that requires a gradient"
            )
        self.optimizer = make_optimizer(optimizer, self.parameters, learning_rate)
        self.rates = [float(group["lr"]) for group in self.optimizer.param_groups]
        # The prepared optimizer knows the gradient scaler of fp16. The model is not prepared: the
        # loss may call any of its methods, and a process may have no rows, both of which
        # DistributedDataParallel forbids.
        self.prepared = accelerator.prepare_optimizer(self.optimizer)
        # Apple's GPUs have no float64.
        self.wide = torch.float32 if accelerator.device.type == "mps" else torch.float64
        self.history = History()
        self.settings: dict[str, Any] = {}
        self.overflows = 0

    def loop(
        self, steps, bar, directory, save_every, keep, evaluate, evaluate_every, time_limit, seed
    ) -> None:
        history, began, before = self.history, time.monotonic(), self.history.seconds
        saved = evaluated = history.steps
        batch = self.load(history.steps) if history.steps < steps else None
        while history.steps < steps:
            late = time_limit is not None and time.monotonic() - began >= time_limit
            if self.any_process(late, time_limit):
                history.stopped = "time_limit"
                break
            batch = self.update(history.steps, batch, steps)
            history.steps += 1
            history.seconds = before + time.monotonic() - began
            bar.set_postfix_str(f"loss {history.losses[-1]:.4f}", refresh=False)
            bar.update()
            due = evaluate_every is not None and history.steps % evaluate_every == 0
            if evaluate is not None and (due or history.steps == steps):
                self.evaluate(evaluate, seed)
                evaluated = history.steps
            if directory is not None and save_every is not None and history.steps % save_every == 0:
                self.save(directory, keep)
                saved = history.steps
        if evaluate is not None and evaluated != history.steps:
            self.evaluate(evaluate, seed)
        history.seconds = before + time.monotonic() - began
        if directory is not None and saved != history.steps:
            self.save(directory, keep)

    def load(self, step: int):
        batch = self.batches.batch(step)
        mine = runtime.rows_of(
            batch, self.accelerator.process_index, self.accelerator.num_processes
        )
        return runtime.to_device(mine, self.accelerator.device)

    def update(self, step: int, batch, steps: int):
        """One update; returns the next batch, fetched while the device is still at work on this
        one.
        """
        for group, rate in zip(self.optimizer.param_groups, self.rates, strict=True):
            group["lr"] = rate * self.factor(step)
        self.optimizer.zero_grad(set_to_none=True)
        sums = self.backward(batch) if self.micro_batch is None else self.backward_in_parts(batch)
        self.accelerator.unscale_gradients(self.prepared)
        gradients = [parameter.grad for parameter in self.parameters if parameter.grad is not None]
        norm = torch.nn.utils.get_total_norm(gradients) if gradients else torch.zeros(())
        following = self.load(step + 1) if step + 1 < steps else None
        # The one place where the host waits for the device, and the last one before the weights
        # change.
        value, terms, norm_value = torch.stack([*sums, norm.to(sums)]).tolist()
        self.check(step, value, terms, norm_value)
        if self.clip_norm is not None and gradients:
            torch.nn.utils.clip_grads_with_norm_(self.parameters, self.clip_norm, norm)
        self.prepared.step()
        if self.accelerator.num_processes > 1:
            runtime.copy_from_main(self.accelerator, self.buffers)
        self.history.losses.append(value / terms)
        self.history.grad_norms.append(norm_value)
        return following

    def backward(self, batch) -> torch.Tensor:
        """The gradient of one batch, summed over the processes; returns [Σ total, Σ count]."""
        total, count = self.forward(batch)
        sums = torch.stack([total.detach().to(self.wide), count.to(self.wide)])
        sums = runtime.sum_over_processes(self.accelerator, sums)
        if total.requires_grad:
            # Sum over all processes, divided by the count of all processes: not the mean of their
            # means.
            self.accelerator.backward(total / sums[1].to(total.dtype))
        else:
            self.nothing_to_scale(total)
        runtime.sum_gradients(self.accelerator, self.parameters)
        return sums

    def nothing_to_scale(self, total: torch.Tensor) -> None:
        """In fp16 the factor of the loss is made when the first loss is scaled, and a process
        without rows needs it as well.
        """
        if self.accelerator.scaler is not None:
            self.accelerator.scaler.scale(total.detach())

    def backward_in_parts(self, batch) -> torch.Tensor:
        """The same gradient from `micro_batch` rows at a time. The count of all parts is known only
        after the last one: each is divided by the same number before (fp16 overflows on large
        sums), and the gradient by the rest at the end."""
        sums = torch.zeros(2, dtype=self.wide, device=self.accelerator.device)
        for part in runtime.parts_of(batch, self.micro_batch):
            total, count = self.forward(part)
            if total.requires_grad:
                self.accelerator.backward(total / self.micro_batch)
            else:
                self.nothing_to_scale(total)
            sums += torch.stack([total.detach().to(self.wide), count.to(self.wide)])
        sums = runtime.sum_over_processes(self.accelerator, sums)
        runtime.sum_gradients(self.accelerator, self.parameters)
        for gradient in (
            parameter.grad for parameter in self.parameters if parameter.grad is not None
        ):
            gradient.mul_((self.micro_batch / sums[1]).to(gradient.dtype))
        return sums

    def forward(self, batch) -> tuple[torch.Tensor, torch.Tensor]:
        device = self.accelerator.device
        if runtime.count_rows(batch) == 0:
            return torch.zeros((), device=device), torch.zeros((), device=device)
        with self.accelerator.autocast():
            result = self.loss(self.model, batch)
        if not (isinstance(result, tuple) and len(result) == 2):
            raise ValueError(f"loss: returned {type(result).__name__}, expected (total, count)")
        total, count = result
        if not (isinstance(total, torch.Tensor) and total.dim() == 0 and total.requires_grad):
            raise ValueError(
                "loss: its total has to be a tensor of shape () that depends on the parameters"
            )
        count = torch.as_tensor(count, device=device)
        if count.dim() != 0:
            raise ValueError(
                f"loss: its count has the shape {tuple(count.shape)}, expected a number"
            )
        return total, count

    def check(self, step: int, value: float, terms: float, norm: float) -> None:
        if terms <= 0:
            raise ValueError(
                f"loss: the batch of step {step} has {terms:g} terms, expected at least one"
            )
        if not math.isfinite(value):
            raise NonFiniteError("loss", step, value / terms)
        if math.isfinite(norm):
            self.overflows = 0
            return
        if self.accelerator.scaler is not None and self.overflows < 20:
            # fp16: an overflow of the scaled gradients. The scaler skips this update and halves its
            # scale.
            self.overflows += 1
            return
        names = [
            n
            for n, p in self.model.named_parameters()
            if p.grad is not None and not p.grad.isfinite().all()
        ]
        raise NonFiniteError("gradient", step, norm, f" (first in {names[0]})" if names else "")

    def any_process(self, flag: bool, asked: Any) -> bool:
        """Whether `flag` holds in any process; all of them have to stop at the same step."""
        if asked is None or self.accelerator.num_processes == 1:
            return flag
        flags = torch.tensor([float(flag)], device=self.accelerator.device)
        return bool(runtime.sum_over_processes(self.accelerator, flags).item())

    def evaluate(self, evaluate, seed: int) -> None:
        step = self.history.steps
        with (
            runtime.own_random_state(seed + step),
            runtime.training_modes_kept(self.model, False),
            torch.no_grad(),
        ):
            value = _plain(evaluate(self.model))
        self.history.evaluations.append((step, runtime.on_main(self.accelerator, lambda: value)))

    def save(self, directory: Path, keep: int) -> None:
        randoms = [runtime.get_random_state()]
        if self.accelerator.num_processes > 1:
            from accelerate.utils import gather_object

            randoms = gather_object(randoms)
        scaler = self.accelerator.scaler

        def write():
            state = {
                "model": self.model.state_dict(),
                "optimizer": self.optimizer.state_dict(),
                "scaler": None if scaler is None else scaler.state_dict(),
                "history": asdict(self.history),
                "random": randoms,
            }
            resume.write_checkpoint(directory, self.history.steps, state, self.settings, keep)

        runtime.on_main(self.accelerator, write)

    def resume(self, directory: Path, steps: int) -> None:
        def read():
            resume.clear_leftovers(directory)
            return resume.read_newest(directory, self.settings)

        state = runtime.on_main(self.accelerator, read)
        if state is None:
            return
        history = History(**state["history"])
        if history.steps > steps:
            raise ValueError(
                f"steps: got {steps}, but checkpoint_dir holds a run of {history.steps} steps"
            )
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        if self.accelerator.scaler is not None and state["scaler"]:
            self.accelerator.scaler.load_state_dict(state["scaler"])
        history.evaluations = [(step, value) for step, value in history.evaluations]
        history.resumed_from, history.stopped = history.steps, "steps"
        self.history = history
        runtime.set_random_state(state["random"][self.accelerator.process_index])


def settings_of(
    run: Run, seed: int, precision: str, clip_norm: float | None, steps: int
) -> dict[str, Any]:
    """All that has to be the same for a run to go on as if it had never stopped."""
    first = hashlib.sha256()
    for tensor in runtime.tensors_of(run.batches.batch(0)):
        first.update(str((tensor.dtype, tuple(tensor.shape))).encode())
        first.update(tensor.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes())
    # Compared where both runs have them: the steps to come may have another number.
    probes = sorted({*range(min(4, steps)), *(10**k for k in range(1, 7) if 10**k < steps)})
    groups = [
        {k: repr(v) for k, v in g.items() if k not in ("params", "lr", "initial_lr")}
        for g in run.optimizer.param_groups
    ]
    return {
        "model": type(run.model).__qualname__,
        "shapes": {name: list(tensor.shape) for name, tensor in run.model.state_dict().items()},
        "dtypes": sorted({str(tensor.dtype) for tensor in run.model.state_dict().values()}),
        "trained parameters": len(run.parameters),
        "first batch": first.hexdigest()[:16],
        "loss": _name(run.loss),
        "optimizer": type(run.optimizer).__name__,
        "optimizer groups": groups,
        "learning_rate": run.rates,
        "schedule": {str(step): run.factor(step) for step in probes},
        "clip_norm": clip_norm,
        **({} if run.micro_batch is None else {"micro_batch": run.micro_batch}),
        "seed": seed,
        "precision": precision,
        "processes": run.accelerator.num_processes,
        "device": run.accelerator.device.type,
        "torch": torch.__version__,
    }


def _name(function: Any) -> str:
    """A function, or an object that is called, by its name and what it was made with: the same
    in every process.
    """
    if isinstance(function, partial):
        given = [
            *map(_told, function.args),
            *(f"{key}={_told(value)}" for key, value in sorted(function.keywords.items())),
        ]
        return f"{_name(function.func)}({', '.join(given)})"
    return getattr(function, "__qualname__", None) or _told(function)


def _told(value: Any) -> str:
    """`repr`, or the name of the class where `repr` holds an address, which another process has
    not.
    """
    if getattr(value, "__qualname__", None) or isinstance(value, partial):
        return _name(value)
    text = repr(value)
    return type(value).__qualname__ if " at 0x" in text else text


def _plain(value: Any) -> Any:
    """Numbers, text and nests of them, out of tensors and NumPy scalars, so that a checkpoint
    can hold them.
    """
    # first: np.float64 is a float, and cannot be read from a checkpoint
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if getattr(value, "size", None) == 1 or isinstance(value, torch.Tensor) and value.numel() == 1:
        return _plain(value.item())
    raise ValueError(
        f"evaluate: returned {type(value).__name__}, expected a number, or a list or dict of "
        f"numbers"
    )
