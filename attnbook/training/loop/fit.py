"""One training loop for every model of the book, on Hugging Face Accelerate."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from ..optim.schedules import make_schedule
from . import accelerator as runtime
from .history import History
from .training_loop import Run, settings_of


def fit(
    model: torch.nn.Module,
    batches,
    loss: Callable[[torch.nn.Module, Any], tuple[torch.Tensor, torch.Tensor | int]],
    *,
    steps: int,
    learning_rate: float = 1e-3,
    optimizer: str | Callable[[list[torch.nn.Parameter]], torch.optim.Optimizer] = "adam",
    schedule: str | Callable[[int], float] | None = None,
    clip_norm: float | None = 1.0,
    micro_batch: int | None = None,
    seed: int = 0,
    precision: str = "no",
    device: torch.device | str | None = None,
    checkpoint_dir: str | os.PathLike | None = None,
    save_every: int | None = None,
    keep_checkpoints: int = 2,
    progress: bool = True,
    evaluate: Callable[[torch.nn.Module], Any] | None = None,
    evaluate_every: int | None = None,
    time_limit: float | None = None,
) -> History:
    """Train `model` in place for `steps` updates and return the `History`.

    g = ∇ (Σ_p total_p / Σ_p count_p),   g ← g · min(1, clip_norm / ‖g‖),   one optimizer step at
    learning_rate · schedule(step), for step = 0, 1, …; the sums run over the processes p.

    batches         has `batch(step)`, a pure function of the step, that returns a nest (tuple,
                    NamedTuple, dict) of tensors with the rows first. Of P processes, number p
                    trains on rows p::P.
    loss            `loss(model, batch) -> (total, count)`: the summed loss and the number of its
                    terms.
    optimizer       "adam", "adamw", "sgd", "adadelta", or a function from the parameters to an
                    optimizer, which then sets its own learning rates.
    schedule        "constant" (None), "linear", "cosine", "inverse_sqrt", or a function from step
                    to factor.
    clip_norm       largest norm of the gradient; None leaves it as it is.
    micro_batch     rows that go through the model at a time: the gradient is that of the whole
                    batch, in less memory. None: all. (The same but for rounding and dropout, unless
                    rows know each other as in batch norm.)
    precision       "no", "bf16" or "fp16" (autocast; the weights keep their dtype; fp16 needs a
                    GPU).
    device          None: the GPU if there is one, else the CPU; under `accelerate launch`, its
                    choice. The model is moved there and stays there. It is never wrapped.
    checkpoint_dir  where `step_NNNNNN` folders go every `save_every` steps and at the end; the
                    newest `keep_checkpoints` are kept. When the folder holds one, the run goes on
                    from it and ends with the weights and losses of a run that was never stopped, to
                    the last bit (on a GPU as far as its kernels are deterministic).
    progress        a text bar on stderr; ATTNBOOK_PROGRESS=0 silences all of them.
    evaluate        `evaluate(model)` returns a number, or a list or dict of numbers. Called every
                    `evaluate_every` steps and at the end, without gradients, the model in
                    evaluation mode and under random numbers of its own: how often it is called does
                    not change the training. Every process calls it; the value of the main one is
                    kept.
    time_limit      seconds after which this call stops, saving a checkpoint if it may.

    Several processes: `accelerate launch --multi_gpu --num_processes P script.py`, or `torchrun`;
    without a GPU the
    processes are joined by gloo. (`accelerate launch --cpu` starts one process only where there is
    no MPI.)

    Random numbers: Python's, NumPy's and PyTorch's global generators are seeded with `seed` (plus
    the number of
    the process) for the training, and have the state they had before the call when it returns. So
    the result depends on `seed` alone, and the caller's own stream of random numbers goes on as if
    `fit` had not been called. The training mode of every module is put back as well.

    Raises ValueError for arguments out of range and for a checkpoint of another run, naming what
    differs; NonFiniteError, a ValueError, for a loss or gradient that is not finite, before the
    weights change; OSError when a checkpoint cannot be written."""
    _check_arguments(locals())
    factor = make_schedule(schedule, steps)
    directory = None if checkpoint_dir is None else Path(checkpoint_dir)
    with runtime.own_accelerate_state():
        accelerator = runtime.make_accelerator(precision, device)
        rank = accelerator.process_index
        with runtime.own_random_state(seed + rank), runtime.training_modes_kept(model, True):
            run = Run(
                model,
                batches,
                loss,
                accelerator,
                optimizer,
                learning_rate,
                factor,
                clip_norm,
                micro_batch,
            )
            if directory is not None:
                run.settings = settings_of(run, seed, precision, clip_norm, steps)
                run.resume(directory, steps)
            bar = tqdm(
                total=steps,
                initial=run.history.steps,
                disable=not (progress and rank == 0 and os.environ.get("ATTNBOOK_PROGRESS") != "0"),
                file=sys.stderr,
                unit="step",
                mininterval=0.5,
            )
            with bar:
                run.loop(
                    steps,
                    bar,
                    directory,
                    save_every,
                    keep_checkpoints,
                    evaluate,
                    evaluate_every,
                    time_limit,
                    seed,
                )
            return run.history


def _check_arguments(given: dict[str, Any]) -> None:
    def whole(name, least=1):
        value = given[name]
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise ValueError(f"{name}: got {value!r}, expected an integer >= {least}")

    def positive(name):
        value = given[name]
        if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
            raise ValueError(f"{name}: got {value!r}, expected a positive number")

    if not isinstance(given["model"], torch.nn.Module):
        raise ValueError(f"model: got {type(given['model']).__name__}, expected a torch.nn.Module")
    if not callable(getattr(given["batches"], "batch", None)):
        raise ValueError(
            f"batches: got {type(given['batches']).__name__}, expected an object with a method "
            f"batch(step)"
        )
    if not callable(given["loss"]):
        raise ValueError(
            f"loss: got {given['loss']!r}, expected a function of the model and a batch"
        )
    if given["evaluate"] is not None and not callable(given["evaluate"]):
        raise ValueError(f"evaluate: got {given['evaluate']!r}, expected a function of the model")
    whole("steps")
    whole("seed", 0)
    if given["seed"] >= 2**63:
        raise ValueError(f"seed: got {given['seed']!r}, expected less than 2 ** 63")
    whole("keep_checkpoints")
    for name in ("save_every", "evaluate_every", "micro_batch"):
        if given[name] is not None:
            whole(name)
    for name in ("clip_norm", "time_limit"):
        if given[name] is not None:
            positive(name)
    if given["save_every"] is not None and given["checkpoint_dir"] is None:
        raise ValueError("save_every: got a number without checkpoint_dir, expected both or none")
    if given["evaluate_every"] is not None and given["evaluate"] is None:
        raise ValueError("evaluate_every: got a number without evaluate, expected both or none")
