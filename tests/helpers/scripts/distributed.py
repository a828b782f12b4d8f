"""Run by test_distributed.py in two processes: the same calls of `fit` as its single process
makes.
"""

import errno
import os
import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))
from torch.utils.data import DataLoader
from training_doubles import Batch, CopyBatches, make_model

from attnbook.training import NonFiniteError, fit, token_loss

OPTIONS = {"steps": 8, "learning_rate": 0.01, "optimizer": "adamw", "clip_norm": 0.5}
OPTIONS |= {"device": "cpu", "progress": False}


def start(seed, dtype):
    """A model with weights of that seed, two of which no loss depends on: no gradient, so no
    weight decay either.
    """
    model = make_model(seed, dtype)
    model.unused = torch.nn.Parameter(torch.full((2,), seed + 1.0, dtype=dtype))
    return model


def loader(rows, seed):
    """Pairs of one length in an order of that seed."""
    examples = CopyBatches(30).batch(0)
    pairs = [Batch(*(tensor[k] for tensor in examples)) for k in range(30)]
    generator = torch.Generator().manual_seed(seed)
    return DataLoader(pairs, rows, shuffle=True, generator=generator)


def run(name, directory, rank=0):
    """The state of the model, and the history, of one case.

    Every rank starts from other weights.
    """
    dtype = torch.float32 if name == "float32" else torch.float64
    rows = {"uneven rows": 5, "one row": 1, "parts": 5}.get(name, 6)
    model = start(rank, dtype)
    if name == "running statistics":
        model.register_buffer("seen", torch.zeros((), dtype=dtype))

    def loss(model, batch):
        if len(batch.source) == 0:
            raise ValueError("a process without rows has no loss to compute")
        if name == "running statistics":
            model.seen += len(batch.source)
        return token_loss(model, batch)

    options = dict(OPTIONS, micro_batch=2 if name == "parts" else None)
    options["average"] = 0.6 if name == "averaged" else None
    batches = loader(rows, seed=1) if name == "loader" else CopyBatches(rows)
    if name == "checkpoints":
        options.update(checkpoint_dir=directory, save_every=3)
        fit(model, CopyBatches(rows), loss, **{**options, "steps": 3})
        options.update(evaluate=lambda m: m.readout.bias[0], evaluate_every=4)
        model = start(rank + 5, dtype)
    history = fit(model, batches, loss, **options)
    trained = model if history.averaged is None else history.averaged
    return {"weights": trained.state_dict(), "history": vars(history) | {"averaged": None}}


def errors(directory, rank):
    """What a full disk on the main process, and a NaN on the other one, raise in this process."""
    raised = {}

    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    real = os.fsync
    if rank == 0:
        os.fsync = full
    try:
        fit(make_model(), CopyBatches(), token_loss, checkpoint_dir=directory, **OPTIONS)
    except OSError as error:
        raised["full disk"] = str(error)
    os.fsync = real

    def poisoned(model, batch):
        total, count = token_loss(model, batch)
        return (total * float("nan") if rank == 1 else total), count

    try:
        fit(make_model(), CopyBatches(), poisoned, **OPTIONS)
    except NonFiniteError as error:
        raised["nan"] = str(error)
    try:
        fit(make_model(), loader(6, seed=rank), token_loss, **OPTIONS)
    except ValueError as error:
        raised["other batches"] = str(error)
    return raised


CASES = ["float64", "float32", "uneven rows", "one row", "parts", "averaged", "loader"]
CASES += ["checkpoints", "running statistics"]

if __name__ == "__main__":
    torch.set_num_threads(1)
    place, own = Path(sys.argv[1]), int(os.environ["RANK"])
    results = {name: run(name, place / "checkpoints", own) for name in CASES}
    results["errors"] = errors(place / "full", own)
    results["world"] = torch.distributed.get_world_size()
    torch.save(results, place / f"rank_{own}.pt")
