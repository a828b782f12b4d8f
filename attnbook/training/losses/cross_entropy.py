"""Cross-entropy with a smoothed target, without the matrix of log-probabilities."""

from functools import partial

import torch
from torch import Tensor
from torch.nn import functional as F

from ...kernels.double_backward import check_once, under_double_backward
from ...validate import check_number, check_whole, is_readable

__all__ = ["smoothed_cross_entropy"]

_BLOCK = 2**20  # elements: 4 MB in float32, which stays in a CPU's cache


def smoothed_cross_entropy(
    logits: Tensor, target: Tensor, label_smoothing: float = 0.0, ignore_index: int = -100
) -> Tensor:
    """Cross-entropy between smoothed targets and a softmax, summed over the rows that count.

    total = −Σ_{t : y_t ≠ ignored} Σ_v q_tv log p_tv,   p_t = softmax(z_t),   q_tv = (1 − ε) [v =
    y_t] + ε / V,

    which is the sum of −(1 − ε) log p_t,y_t − ε · mean_v log p_tv, as in
    `torch.nn.functional.cross_entropy`. On a CPU that function goes over the (rows, V) matrix about
    ten times and keeps a second one for the way back; here rows go through in blocks that fit the
    cache, nothing but the logits is kept, and the gradient p − q is made block by block. Elsewhere,
    and under :func:`attnbook.double_backward`, it is that function.

    Args:
        logits: z, (rows, V), floating point.
        target: y, (rows,), whole numbers.
        label_smoothing: ε, from 0 up to but not including 1.
        ignore_index: rows with this target count nothing and get a gradient of zero.

    Returns:
        The sum, of shape (), in nats, in the dtype of the logits.

    Raises:
        IndexError: for a target outside the vocabulary.

    Source: Szegedy et al. 2016, section 7.
    """
    check_number("label_smoothing", label_smoothing, least=0, below=1)
    if not logits.is_floating_point():
        raise ValueError(f"logits must be floating point numbers, got {logits.dtype}")
    target = check_whole("target", target).long()
    if logits.dim() != 2 or target.shape != logits.shape[:1]:
        raise ValueError(
            "logits and target must have shapes (rows, V) and (rows,), got "
            f"{tuple(logits.shape)} and {tuple(target.shape)}"
        )
    if not is_readable(logits) or under_double_backward():
        plain = partial(F.cross_entropy, ignore_index=ignore_index, reduction="sum")
        return plain(logits, target, label_smoothing=label_smoothing)
    counted = target != ignore_index
    picked = target.where(counted, 0)
    if ((picked < 0) | (picked >= logits.shape[1])).any():
        raise IndexError(
            f"target must have ids from 0 to {logits.shape[1] - 1}, got {int(picked.min())} to "
            f"{int(picked.max())}"
        )
    return _Smoothed.apply(logits, picked, counted, label_smoothing)


def _rows(logits: Tensor):
    step = max(1, _BLOCK // logits.shape[1])
    return (slice(a, a + step) for a in range(0, logits.shape[0], step))


class _Smoothed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits, target, counted, smoothing):
        loss = logits.new_empty(logits.shape[0])
        for rows in _rows(logits):
            log_probs = logits[rows].log_softmax(-1)
            loss[rows] = log_probs.gather(1, target[rows, None])[:, 0] * (smoothing - 1)
            if smoothing:
                loss[rows] -= smoothing * log_probs.mean(-1)
        ctx.smoothing = smoothing
        ctx.save_for_backward(logits, target, counted)
        return loss.masked_fill_(~counted, 0.0).sum()

    @staticmethod
    def backward(ctx, grad):
        check_once("smoothed_cross_entropy")
        logits, target, counted = ctx.saved_tensors
        share = (grad * counted)[:, None]  # (rows, 1)
        result = torch.empty_like(logits)
        for rows in _rows(logits):
            block = torch.softmax(logits[rows], -1, out=result[rows])
            right = block.new_full((len(block), 1), ctx.smoothing - 1)
            block.scatter_add_(1, target[rows, None], right)
            if ctx.smoothing:
                block.sub_(ctx.smoothing / logits.shape[1])
            block.mul_(share[rows])
        return result, None, None, None
