"""One model from several steps of a run: the mean of checkpoints, or a moving average."""

import json
import os
from collections.abc import Iterable
from pathlib import Path

import torch
from torch import Tensor
from torch.optim.swa_utils import get_ema_multi_avg_fn

from ...validate import require
from . import resume
from .checkpoints import check_fit, read_weights

__all__ = ["average_checkpoints"]


@torch.no_grad()
def update_average(averaged: torch.nn.Module, model: torch.nn.Module, decay: float) -> None:
    """w̄ ← decay w̄ + (1 − decay) w for the parameters; buffers are copied."""
    means: list[Tensor] = list(averaged.parameters())
    weights: list[Tensor] = list(model.parameters())
    get_ema_multi_avg_fn(decay)(means, weights, None)
    for mean, now in zip(averaged.buffers(), model.buffers(), strict=True):
        mean.copy_(now)


def average_checkpoints(
    model: torch.nn.Module, paths: Iterable[str | os.PathLike] | str | os.PathLike
) -> None:
    """Set the weights of ``model`` to the mean of those in K checkpoints: w = Σ_k w_k / K.

    Checkpoints are read one after the other and summed in float64. Integers in a state, such as
    counters, are those of the last path. The dtype and the device of the model stay; either all of
    it is set or nothing.

    Args:
        model: of the class and shapes of the checkpoints.
        paths: files written by `save_model`, or the ``step_NNNNNN`` folders in the checkpoint_dir
            of `fit` (with keep_checkpoints=K there are K at the end); or one such checkpoint_dir,
            which stands for all the folders in it.

    Raises as `load_model_weights` for a checkpoint that is damaged or of another model.

    Source: Vaswani et al. 2017, section 6.1: the last 5 checkpoints of the base models, 20 of the
    big ones.
    """
    if isinstance(paths, str | os.PathLike):
        paths = (resume.checkpoints_in(Path(paths)) if Path(paths).is_dir() else []) or [paths]
    paths = list(paths)
    require(bool(paths), "paths must hold at least one checkpoint, got none")
    total: dict[str, Tensor] = {}
    for path in paths:
        tensors, metadata = _weights(Path(path))
        check_fit(path, tensors, model, metadata)
        for name, tensor in tensors.items():
            wide = _wide(tensor)
            # not in place: tied weights are one tensor under two names
            total[name] = total[name] + wide if name in total and _has_mean(wide) else wide
    with torch.no_grad():
        for name, tensor in model.state_dict().items():
            mean = total[name]
            tensor.copy_(mean / len(paths) if _has_mean(mean) else mean)


def _has_mean(tensor: Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


def _wide(tensor: Tensor) -> Tensor:
    wide = torch.promote_types(tensor.dtype, torch.float64)
    return tensor.to(wide) if _has_mean(tensor) else tensor


def _weights(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    if not path.is_dir():
        return read_weights(path)
    settings, state = resume.read_checkpoint(path)
    return state["model"], {
        "attnbook.class": settings.get("model", "another model"),
        "attnbook.attributes": json.dumps(settings.get("modules", {})),
    }
