"""Losses of models that predict bits, in bits: the code length of a sequence under a model."""

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from ...modules import device_of, full_precision, temporary_mode
from ...validate import require

__all__ = ["bit_costs", "bit_errors", "bit_loss", "score_bits"]

_ROWS = 64  # that go through the model at a time


def bit_costs(logits: Tensor, targets: Tensor, mask: Tensor) -> Tensor:
    """The code length of each bit, ``−log₂ p(target)`` with ``p(1) = σ(logit)``; 0 at masked steps.

    Guessing, p = ½, costs 1 bit; a certain and right prediction costs 0.

    Shapes:
        logits and targets ``(B, T, d)``, mask ``(B, T)`` boolean, result ``(B, T, d)`` in float32
        or float64.
    """
    one_shape = logits.shape == targets.shape and logits.dim() == 3
    require(
        one_shape and mask.shape == targets.shape[:2] and mask.dtype == torch.bool,
        "logits and targets must be (batch, T, d) and mask (batch, T) of bool, got "
        f"{tuple(logits.shape)}, {tuple(targets.shape)} and {tuple(mask.shape)} of {mask.dtype}",
    )
    logits = full_precision(logits)
    nats = F.binary_cross_entropy_with_logits(logits, targets.to(logits.dtype), reduction="none")
    return torch.where(mask[..., None], nats / math.log(2), 0.0)


def bit_loss(model, batch) -> tuple[Tensor, Tensor]:
    """The bits that an ``AlgorithmBatch`` costs, and how many bits it has, for ``fit``."""
    device = device_of(model)
    mask = batch.mask.to(device)
    costs = bit_costs(model(batch.inputs.to(device)).logits, batch.targets.to(device), mask)
    return costs.sum(), mask.sum() * costs.shape[-1]


def bit_errors(logits: Tensor, targets: Tensor, mask: Tensor) -> Tensor:
    """How many bits of each sequence are wrong when the likelier value is predicted: ``(B,)``.

    Shapes as in :func:`bit_costs`.
    """
    wrong = (logits > 0) != (targets > 0.5)
    return (wrong & mask[..., None]).sum((1, 2))


@torch.no_grad()
def score_bits(model, batch) -> dict[str, float]:
    """Mean cost in bits, ``per_bit`` and ``per_sequence``; ``wrong`` bits per sequence."""
    device, count = device_of(model), int(batch.mask.sum()) * batch.targets.shape[2]
    require(count > 0, "batch must have at least one bit that counts, got none")
    cost = wrong = 0.0
    with temporary_mode(model, False):
        for part in zip(*(tensor.split(_ROWS) for tensor in batch)):
            inputs, targets, mask = (tensor.to(device) for tensor in part)
            logits = model(inputs).logits
            cost += float(bit_costs(logits, targets, mask).double().sum())
            wrong += float(bit_errors(logits, targets, mask).sum())
    rows = len(batch.mask)
    return {"per_bit": cost / count, "per_sequence": cost / rows, "wrong": wrong / rows}
