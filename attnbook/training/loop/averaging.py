"""One model from the last checkpoints of a run."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import torch

from . import resume
from .checkpoints import check_fit, read_weights

__all__ = ["average_checkpoints"]


def average_checkpoints(model: torch.nn.Module, paths: Iterable[str | os.PathLike]) -> None:
    """Set the weights of `model` to the mean of those in several checkpoints: w = Σ_k w_k / K, in
    place.

    `paths` are files written by `save_model`, or the `step_NNNNNN` folders that `fit` leaves in its
    checkpoint_dir (with keep_checkpoints=K they are there at the end); or one such checkpoint_dir,
    which stands for all the folders in it. Checkpoints are read one after the other and summed in
    float64. Whole numbers in a state, such as counters, are those of the last path. The dtype and
    the device of the model stay; either all of it is set or nothing.

    Raises ValueError when there is no path, and as `load_model_weights` for a checkpoint that is
    damaged or of another model. Source: Vaswani et al. 2017, section 6.1: the last 5 checkpoints of
    the base models, 20 of the big ones."""
    if isinstance(paths, str | os.PathLike):
        paths = (resume.checkpoints_in(Path(paths)) if Path(paths).is_dir() else []) or [paths]
    paths = list(paths)
    if not paths:
        raise ValueError("paths: got none, expected at least one checkpoint")
    own, total = model.state_dict(), {}
    for path in paths:
        tensors, was = _weights(Path(path))
        check_fit(path, tensors, model, was)
        for name, tensor in tensors.items():
            if tensor.is_floating_point() and name in total:
                # not in place: tied weights are one tensor under two names
                total[name] = total[name] + tensor.double()
            else:
                total[name] = tensor.double() if tensor.is_floating_point() else tensor
    with torch.no_grad():
        for name, tensor in own.items():
            tensor.copy_(
                total[name] / len(paths) if total[name].is_floating_point() else total[name]
            )


def _weights(path: Path) -> tuple[dict[str, torch.Tensor], str]:
    if path.is_dir():
        manifest, state = resume.read_checkpoint(path)
        return state["model"], manifest["settings"].get("model", "another model")
    tensors, metadata = read_weights(path)
    return tensors, metadata.get("attnbook.class", "another model")
