"""What an update is in `fit`: a step down the gradient of the loss of one model."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ...modules import temporary_mode
from ...validate import require
from ..optim.optimizers import make_optimizer
from ..optim.schedules import make_schedule
from . import nested
from .autocast import ScaledOptimizer, autocast
from .history import History
from .loader_batches import LoaderBatches
from .processes import Processes
from .run import Run, plain_value
from .settings import describe
from .temporary_state import temporary_seed


class ModelRun(Run):
    """One call of `fit`, with its arguments."""

    history: History

    def __init__(
        self,
        processes: Processes,
        *,
        model: torch.nn.Module,
        loss: Callable,
        optimizer: str | Callable,
        learning_rate: float,
        weight_decay: float | None,
        schedule: str | Callable | None,
        warmup_steps: int | None,
        clip_norm: float | None,
        micro_batch: int | None,
        reduction: str,
        **options,
    ):
        self.factor = make_schedule(schedule, options["steps"], warmup_steps)
        super().__init__(processes, {"": model}, History(), **options)
        self.model, self.loss = model, loss
        self.clip_norm, self.micro_batch, self.reduction = clip_norm, micro_batch, reduction
        # The model is not wrapped in DistributedDataParallel: the loss may call any of its methods,
        # and a process may have no rows, both of which that forbids.
        self.buffers = list(model.buffers())
        trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
        require(
            bool(trained),
            f"model must have a parameter that requires a gradient, got {type(model).__name__} "
            "without one",
        )
        self.optimizer = make_optimizer(optimizer, trained, learning_rate, weight_decay)
        self.rates = [float(group["lr"]) for group in self.optimizer.param_groups]
        self.scaled = ScaledOptimizer(self.optimizer, model, self.precision, self.device)
        # Apple's GPUs have no float64.
        self.wide = torch.float32 if self.device.type == "mps" else torch.float64
        self.following: Any = None
        self.parts |= {"model": model, "optimizer": self.optimizer, "scaler": self.scaled.scaler}
        if isinstance(self.batches, LoaderBatches):
            self.parts["batches"] = self.batches

    def settings(self) -> dict[str, Any]:
        # Compared where both runs have them: the second may be longer.
        probes = [step for step in (0, 1, 2, 3, *(10**k for k in range(1, 7))) if step < self.steps]
        held, common = set(map(id, self.scaled.parameters)), super().settings()
        common["modules"] |= {
            name: "trained" if id(parameter) in held else "frozen"
            for name, parameter in self.model.named_parameters()
        }
        return {
            "model": type(self.model).__qualname__,
            **common,
            "loss": describe(self.loss),
            "optimizer": type(self.optimizer).__name__,
            "optimizer groups": [
                {k: repr(v) for k, v in group.items() if k not in ("params", "lr", "initial_lr")}
                for group in self.optimizer.param_groups
            ],
            "learning_rate": self.rates,
            "schedule": {str(step): self.factor(step) for step in probes},
            "clip_norm": self.clip_norm,
            "micro_batch": self.micro_batch,
            "reduction": self.reduction,
        }

    def update(self, step: int) -> None:
        batch = self.load(step) if self.following is None else self.following
        for group, rate in zip(self.optimizer.param_groups, self.rates, strict=True):
            group["lr"] = rate * self.factor(step)
        self.scaled.clear()
        rows = self.micro_batch
        sums = self.backward(batch) if rows is None else self.accumulate(batch, rows)
        norm = self.scaled.norm()
        # fetched while the device is still at work on this one
        self.following = self.load(step + 1) if step + 1 < self.steps else None
        # The one place where the host waits for the device, and the last one before the weights
        # change.
        total, count, _, norm_value = torch.stack([*sums, norm.to(sums)]).tolist()
        require(count > 0, f"loss must count at least one term in step {step}, got {count:g}")
        self.scaled.check(step, total / count, norm_value)
        if self.clip_norm is not None:
            torch.nn.utils.clip_grads_with_norm_(self.scaled.parameters, self.clip_norm, norm)
        self.scaled.step()
        self.processes.copy_from_main(self.buffers)
        self.history.losses.append(total / count)
        self.history.grad_norms.append(norm_value)

    def backward(self, batch) -> Tensor:
        """The gradient of one batch, summed over the processes.

        Returns:
            [Σ total, Σ count, Σ rows].
        """
        total, sums = self.forward(batch)
        self.processes.sum(sums)
        # The sum over all processes, divided by the count of all processes: not the mean of their
        # means.
        self.scaled.backward(total / self.divisor(sums).to(total.dtype))
        self.processes.sum_gradients(self.scaled.parameters)
        return sums

    def accumulate(self, batch, rows: int) -> Tensor:
        """The same gradient from `rows` rows at a time. The count of the whole batch is known only
        after the last one: each loss is divided by the same number before (fp16 overflows on large
        sums), and the gradient by the rest at the end.
        """
        sums = torch.zeros(3, dtype=self.wide, device=self.device)
        for part in nested.split_rows(batch, rows):
            total, of_part = self.forward(part)
            self.scaled.backward(total / rows)
            sums += of_part
        self.processes.sum(sums)
        self.processes.sum_gradients(self.scaled.parameters)
        for parameter in self.scaled.parameters:
            if parameter.grad is not None:
                parameter.grad.mul_((rows / self.divisor(sums)).to(parameter.grad.dtype))
        return sums

    def divisor(self, sums: Tensor) -> Tensor:
        """What the summed loss is divided by for the gradient: its terms, or the rows."""
        return sums[1] if self.reduction == "mean" else sums[2]

    def forward(self, batch) -> tuple[Tensor, Tensor]:
        """The loss of some rows, and [total, count, rows]."""
        rows = nested.count_rows(batch)
        if rows == 0:
            nothing = torch.zeros(3, dtype=self.wide, device=self.device)
            return torch.zeros((), device=self.device, requires_grad=True), nothing
        with autocast(self.precision, self.device):
            result = self.loss(self.model, batch)
        if not (isinstance(result, tuple) and len(result) == 2):
            raise ValueError(f"loss must return (total, count), got {type(result).__name__}")
        total, count = result
        if not (isinstance(total, Tensor) and total.dim() == 0 and total.requires_grad):
            wanted = "a total of shape () that depends on the parameters"
            raise ValueError(f"loss must return {wanted}, got {total!r}")
        count = torch.as_tensor(count, device=self.device)
        shape = tuple(count.shape)
        require(shape == (), f"loss must return a count of shape (), got shape {shape}")
        sums = [total.detach().to(self.wide), count.to(self.wide)]
        return total, torch.stack([*sums, torch.full_like(sums[0], rows)])

    def measure(self, evaluate: Callable[[torch.nn.Module], Any]) -> Any:
        model = self.model if self.history.averaged is None else self.history.averaged
        with temporary_seed(self.seed + self.history.steps), temporary_mode(model, False):
            return plain_value(evaluate(model))

    def shown(self) -> str:
        return f"loss {self.history.losses[-1]:.4f}"
