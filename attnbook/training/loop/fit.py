"""One training loop for every model of the book, in one process or several."""

import os
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader

from ...modules import temporary_mode
from ...validate import check_choice, check_integer, check_number, require
from .autocast import usable_precision
from .history import History
from .loader_batches import LoaderBatches, unknown_order
from .model_run import ModelRun
from .processes import join_processes
from .run import check_run
from .temporary_state import temporary_seed

__all__ = ["fit"]


def fit(
    model: torch.nn.Module,
    batches,
    loss: Callable[[torch.nn.Module, Any], tuple[Tensor, Tensor | int]],
    *,
    steps: int,
    learning_rate: float = 1e-3,
    optimizer: str | Callable[[list[torch.nn.Parameter]], torch.optim.Optimizer] = "adam",
    weight_decay: float | None = None,
    schedule: str | Callable[[int], float] | None = None,
    warmup_steps: int | None = None,
    clip_norm: float | None = 1.0,
    micro_batch: int | None = None,
    reduction: str = "mean",
    average: float | None = None,
    seed: int = 0,
    precision: str = "no",
    device: torch.device | str | None = None,
    checkpoint_dir: str | os.PathLike | None = None,
    save_every: int | None = None,
    keep_checkpoints: int = 2,
    progress: bool = True,
    evaluate: Callable[[torch.nn.Module], Any] | None = None,
    evaluate_every: int | None = None,
) -> History:
    """Train ``model`` in place for ``steps`` updates.

    g = ∇ (Σ_p total_p / Σ_p count_p),   g ← g · min(1, clip_norm / (‖g‖ + 10⁻⁶)),   one optimizer
    step at learning_rate · schedule(step), for step = 0, 1, …; the sums run over the processes p.
    With reduction="sequence" the number of rows takes the place of the counts.

    Several processes, one for each GPU, are started by

        ``torchrun --nproc_per_node 2 train.py``

    or by `accelerate launch --multi_gpu --num_processes 2 train.py`; the script is the same as for
    one process, and so are the weights, up to rounding. Without a GPU the processes are joined by
    gloo. (`accelerate launch --cpu` starts one process only where there is no MPI.)

    The global random generators of Python, NumPy and PyTorch are seeded with ``seed`` (plus the
    index of the process) for the training and have their former state when the call returns: the
    result depends on ``seed`` alone, and the caller's random numbers go on as if `fit` had not been
    called. The training mode of every module is restored as well.

    Args:
        model: is moved to the device, stays there, and is never wrapped.
        batches: has ``batch(step)``, a pure function of the step, that returns a nest (tuple,
            NamedTuple, dict) of tensors with the rows first. Of P processes, number p trains on
            rows p::P. Or a `torch.utils.data.DataLoader`, whose epochs follow one another. Where it
            shuffles by a ``generator`` of its own, the batches are those of a plain loop over it,
            in every call; otherwise their order depends on ``seed``. With a checkpoint_dir its
            order must be that of a sampler of PyTorch or of a list, and what is random in an
            example must come from the global generators: a run that goes on reads its last epoch
            again up to where it was. (With ``persistent_workers`` only what does not draw random
            numbers in a worker is then the same.)
        loss: ``loss(model, batch) -> (total, count)``: the summed loss and the number of its terms.
        optimizer: "adam", "adamw", "sgd", "adadelta", in letters of any case, or a function from
            the parameters to an optimizer, which then sets its own learning rates.
        weight_decay: PyTorch's, of all trained parameters, for an optimizer that has a name:
            "adamw" shrinks each weight by learning_rate · weight_decay of itself at every step, the
            others add weight_decay · w to its gradient, after the clipping. None for their
            defaults, 0.01 for "adamw" and 0 for the others.
        schedule: "constant" (None), "linear", "cosine", "inverse_sqrt", or a function from step to
            factor.
        warmup_steps: over which the rate first rises, in a straight line, for a schedule that has
            a name. None for none, for "inverse_sqrt" a tenth of the steps.
        clip_norm: largest norm of the gradient; None for no clipping.
        micro_batch: rows that go through the model at a time: the gradient is that of the whole
            batch, in less memory. None: all. (The same up to rounding and dropout, unless rows
            depend on each other as in batch norm.)
        reduction: what the gradient is of: "mean", the mean over all terms; "sequence", the sum
            over the terms of a row, as a mean over rows. The second is larger by the terms in a
            row. Adam does not notice, but ``clip_norm``, the rate of SGD and the constants of an
            optimizer belong to one of the two: settings from a paper that sums its loss over a
            sequence need the second. The losses in the history are means over terms either way.
        average: decay ρ of an exponential moving average of the weights, w̄ ← ρ w̄ + (1 − ρ) w
            after each step, beginning with the first weights; about 1 / (1 − ρ) steps count. The
            model with w̄ is ``averaged`` of the history, and is what ``evaluate`` gets; its buffers
            are copies of the model's. None for no averaging.
        precision: "no", "bf16" or "fp16" (autocast; the weights keep their dtype; fp16 needs a
            GPU, and takes the place of bf16 on one that has none).
        device: None for the GPU if there is one, else the CPU.
        checkpoint_dir: where ``step_NNNNNN`` folders go every ``save_every`` steps and at the end;
            the newest ``keep_checkpoints`` are kept. When the folder holds one, the run goes on
            from it and ends with the weights and losses of a run that was never stopped, to the
            last bit (on a GPU as far as its kernels are deterministic; buffers with
            ``persistent=False`` are as the caller made them). Compared are the first batch,
            the arguments that decide the weights (functions by their names, the schedule at a few
            steps), and of the model the shapes, the classes of its modules, their attributes that
            are numbers or text, and which parameters are trained.
        progress: a text bar on stderr; ATTNBOOK_PROGRESS=0 silences all of them.
        evaluate: ``evaluate(model)`` returns a number, or a list or dict of numbers. Called every
            ``evaluate_every`` steps and at the end, without gradients, in evaluation mode and under
            its own random numbers: how often it is called does not change the training. Every
            process calls it; the value of the main one is recorded.

    Returns:
        The losses, gradient norms and evaluations of the run, and the averaged model.

    Raises:
        ValueError: for arguments out of range, for a checkpoint of another run, naming what
            differs, for a checkpoint_dir with a `DataLoader` whose order no seed gives, for
            processes with different batches, and while another process trains with this
            checkpoint_dir.
        NonFiniteError: a ValueError, for a loss or gradient that is not finite, before the weights
            change.
        OSError: when a checkpoint cannot be written.
    """
    given = _checked(locals())
    seed, processes = given["seed"], join_processes(given.pop("device"))
    given["precision"] = usable_precision(precision, processes.device)
    with temporary_seed(seed + processes.index), temporary_mode(model, True), ExitStack() as stack:
        if isinstance(batches, DataLoader):
            given["batches"] = LoaderBatches(batches, seed)
            stack.callback(given["batches"].close)
        run = ModelRun(processes, **given)
        run.train()
    return run.history


def _checked(given: dict[str, Any]) -> dict[str, Any]:
    model, batches, loss = given["model"], given["batches"], given["loss"]
    if not isinstance(model, torch.nn.Module):
        raise ValueError(f"model must be a torch.nn.Module, got {type(model).__name__}")
    if isinstance(batches, DataLoader):
        order = unknown_order(batches)
        if order is not None and given["checkpoint_dir"] is not None:
            raise ValueError(
                "checkpoint_dir must be None for a DataLoader whose order no seed gives, since its "
                f"batches cannot be found again when the run goes on; the order is that of {order}"
            )
    elif not callable(getattr(batches, "batch", None)):
        came = type(batches).__name__
        raise ValueError(f"batches must have a method batch(step) or be a DataLoader, got {came}")
    require(callable(loss), f"loss must be a function of the model, got {loss!r}")
    check_integer("keep_checkpoints", given["keep_checkpoints"])
    if given["micro_batch"] is not None:
        check_integer("micro_batch", given["micro_batch"])
    check_choice("reduction", given["reduction"], ("mean", "sequence"))
    if given["clip_norm"] is not None:
        check_number("clip_norm", given["clip_norm"], above=0)
    return check_run(given)
