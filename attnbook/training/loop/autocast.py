"""In which precision a model is trained, by name, and the scale that fp16 needs."""

import math
import warnings
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor, nn, optim

from ...validate import check_choice, require
from .history import NonFiniteError

__all__ = ["PRECISIONS", "autocast", "usable_precision"]

_LARGEST_RUN_OF_OVERFLOWS = 20
PRECISIONS = {"no": None, "bf16": torch.bfloat16, "fp16": torch.float16}


def usable_precision(precision: str, device: torch.device) -> str:
    """The precision that ``device`` can train in: ``precision``, or "fp16" for "bf16" on an NVIDIA
    GPU without arithmetic for it, such as a T4, with a warning. The CPU has no "fp16".
    """
    check_choice("precision", precision, PRECISIONS)
    require(
        precision != "fp16" or device.type != "cpu",
        "precision must be 'no' or 'bf16' on the CPU, which cannot scale gradients, got 'fp16'",
    )
    old = device.type == "cuda" and torch.cuda.get_device_capability(device) < (8, 0)
    if precision == "bf16" and old:
        name = torch.cuda.get_device_name(device)
        warnings.warn(f"{name} computes no bf16: it trains in fp16 instead", stacklevel=3)
        return "fp16"
    return precision


def autocast(precision: str, device: torch.device) -> AbstractContextManager:
    """Return the context in which a model and its loss are computed in ``precision``."""
    dtype = PRECISIONS[precision]
    return nullcontext() if dtype is None else torch.autocast(device.type, dtype)


class ScaledOptimizer:
    """The optimizer of a model whose loss fp16 scales; in another precision the scale is 1."""

    def __init__(
        self, optimizer: optim.Optimizer, model: nn.Module, precision: str, device: torch.device
    ):
        self.optimizer, self.model = optimizer, model
        # An optimizer may hold some alone. The gradients of the others are never cleared: they have
        # no part in the norm.
        held = {id(p) for group in optimizer.param_groups for p in group["params"]}
        self.parameters = [p for p in model.parameters() if p.requires_grad and id(p) in held]
        self.scaler = torch.amp.GradScaler(device.type, enabled=precision == "fp16")
        self.overflows = 0

    def clear(self) -> None:
        self.optimizer.zero_grad(set_to_none=True)

    def backward(self, loss: Tensor) -> None:
        self.scaler.scale(loss).backward()

    def norm(self) -> Tensor:
        """The Euclidean norm of all gradients, without the scale from here on."""
        self.scaler.unscale_(self.optimizer)
        gradients = [p.grad for p in self.parameters if p.grad is not None]
        return nn.utils.get_total_norm(gradients)

    def check(self, step: int, loss: float, norm: float, of: str = "") -> None:
        """Raise before the weights change where a number is not finite."""
        if not math.isfinite(loss):
            raise NonFiniteError(f"loss{of}", step, loss)
        if math.isfinite(norm):
            self.overflows = 0
            return
        if self.scaler.is_enabled() and self.overflows < _LARGEST_RUN_OF_OVERFLOWS:
            # The scaled gradients of fp16 overflowed. The scaler skips this update and halves its
            # scale.
            self.overflows += 1
            return
        named = ((n, p.grad) for n, p in self.model.named_parameters() if p.grad is not None)
        names = [name for name, gradient in named if not gradient.isfinite().all()]
        hint = f" (first in {names[0]})" if names else ""
        raise NonFiniteError(f"gradient{of}", step, norm, hint)

    def step(self) -> None:
        self.scaler.step(self.optimizer)
        self.scaler.update()
