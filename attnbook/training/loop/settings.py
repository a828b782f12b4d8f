"""What has to be the same for a run to go on as if it had never stopped."""

from __future__ import annotations

import hashlib
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from ...validate import plain_number, require
from .nested import tensors_of

if TYPE_CHECKING:
    from .run import Run


def settings_of(run: Run, steps: int) -> dict[str, Any]:
    """The settings of a run, as values that JSON can hold."""
    # Compared where both runs have them: the second may be longer.
    probes = sorted({*range(min(4, steps)), *(10**k for k in range(1, 7) if 10**k < steps)})
    groups = [
        {k: repr(v) for k, v in g.items() if k not in ("params", "lr", "initial_lr")}
        for g in run.optimizer.param_groups
    ]
    state = run.model.state_dict()
    held = set(map(id, run.parameters))
    settings = {
        "model": type(run.model).__qualname__,
        "shapes": {name: list(tensor.shape) for name, tensor in state.items()},
        "dtypes": sorted({str(tensor.dtype) for tensor in state.values()}),
        "modules": modules_of(run.model)
        | {
            name: "trained" if id(parameter) in held else "frozen"
            for name, parameter in run.model.named_parameters()
        },
        "first batch": digest_of(run.batches.batch(0)),
        "loss": describe(run.loss),
        "optimizer": type(run.optimizer).__name__,
        "optimizer groups": groups,
        "average": run.average,
        "learning_rate": run.rates,
        "schedule": {str(step): run.factor(step) for step in probes},
        "clip_norm": run.clip_norm,
        "micro_batch": run.micro_batch,
        "reduction": run.reduction,
        "seed": run.seed,
        "precision": run.precision,
        "processes": run.processes.count,
        "device": run.device.type,
        "torch": torch.__version__,
    }
    return {key: python_value(value) for key, value in settings.items()}


def check_same_batches(run: Run) -> None:
    """Raise a ValueError in every process unless all have the same first batch."""
    if run.processes.count > 1:
        digests = run.processes.gather(digest_of(run.batches.batch(0)))
        require(
            len(set(digests)) == 1,
            f"batches must be the same in all {len(digests)} processes, each of which trains on "
            "its rows of them, got other first batches: a DataLoader needs the same seed "
            "everywhere and no DistributedSampler",
        )


def digest_of(batch: Any) -> str:
    """A short name for the tensors of a batch."""
    digest = hashlib.sha256()
    for tensor in tensors_of(batch):
        digest.update(str((tensor.dtype, tuple(tensor.shape))).encode())
        flat = tensor.detach().cpu().reshape(-1).clone(memory_format=torch.contiguous_format)
        digest.update(flat.view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()[:16]


def describe(value: Any) -> str:
    """A function by its name, a partial one with its arguments, and another object by its `repr`,
    or by the name of its class where `repr` holds an address, which differs between processes.
    """
    if isinstance(value, partial):
        arguments = [
            *map(describe, value.args),
            *(f"{key}={describe(item)}" for key, item in sorted(value.keywords.items())),
        ]
        return f"{describe(value.func)}({', '.join(arguments)})"
    if name := getattr(value, "__qualname__", None):
        return name
    text = repr(value)
    return type(value).__qualname__ if " at 0x" in text else text


def modules_of(model: torch.nn.Module, prefix: str = "") -> dict[str, str]:
    """The class of each module and its numbers and texts, such as a number of heads or a dropout,
    of which no shape speaks.
    """
    modules = model.named_modules(prefix=prefix)
    classes = {name: type(module).__qualname__ for name, module in modules if name}
    return classes | attributes_of(model, prefix)


def python_value(value: Any) -> Any:
    """A number as Python's own: a size from NumPy is the same size."""
    number = plain_number(value)
    return value if number is None else number


def attributes_of(
    model: torch.nn.Module, prefix: str = "", *, in_training: bool = True
) -> dict[str, str]:
    """The numbers and texts of each module; without those that count in training alone, of dropout
    and of the row of an embedding that does not learn, where ``in_training`` is False.
    """
    described = {}
    for name, module in model.named_modules(prefix=prefix):
        if not in_training and "Dropout" in type(module).__name__:
            continue
        for key, value in vars(module).items():
            value = python_value(value)
            plain = value is None or isinstance(value, bool | int | float | str)
            hidden = key == "training" or key.startswith("_")
            training_alone = "dropout" in key or key == "padding_idx"
            hidden = hidden or (training_alone and not in_training)
            if plain and not hidden:
                described[f"{name}.{key}".lstrip(".")] = repr(value)
    return described
