"""The loss of models that answer with positions of their input."""

from torch import Tensor

from ...modules import device_of
from ...validate import require
from .token_loss import summed_cross_entropy

__all__ = ["pointing_loss"]


def pointing_loss(model, batch) -> tuple[Tensor, Tensor]:
    """Cross-entropy of the positions (and END) of an answer under teacher forcing, for `fit`.

    total = -Σ_{b,i : C_bi ≠ -1} log p(C_bi | C_b,<i, x_b),   count = number of terms, both of shape
    (), in nats.

    Args:
        model: maps inputs, lengths and targets to logits (B, m, n + 1).
        batch: inputs (B, n, d), lengths (B,), targets (B, m), moved to the device of the model.

    Source: Vinyals et al. 2015, equations 1 and 2.
    """
    device = device_of(model)
    targets = batch.targets.to(device)
    logits = model(batch.inputs.to(device), batch.lengths, targets).logits
    shape, came = (*targets.shape, batch.inputs.shape[1] + 1), tuple(logits.shape)
    of = type(model).__name__
    require(came == shape, f"logits must have shape {shape}, got shape {came} from {of}")
    counted = targets != -1
    return summed_cross_entropy(model, logits, targets, counted), counted.sum()
