"""Batch norm of feature maps, with a gain and a shift for every class."""

import torch
from torch import Tensor, nn

from ...validate import check_integer, check_values, check_whole, require

__all__ = ["ConditionalBatchNorm", "UnconditionalBatchNorm", "check_labels"]


def check_labels(labels: object, batch: int, num_classes: int) -> Tensor:
    """Return ``labels (batch,)`` as int64, or raise a ``ValueError``; values checked on a CPU."""
    require(labels is not None, f"labels must be given: there are {num_classes} classes")
    labels = check_whole("labels", labels)
    require(
        labels.shape == (batch,),
        f"labels must have the shape ({batch},), got {tuple(labels.shape)}",
    )
    check_values("labels", labels, 0, num_classes - 1)
    return labels.long()  # a tensor of uint8 as an index would be taken as a mask


class UnconditionalBatchNorm(nn.BatchNorm2d):
    """``torch.nn.BatchNorm2d``, called like :class:`ConditionalBatchNorm`; labels are ignored."""

    def forward(self, x: Tensor, labels: Tensor | None = None) -> Tensor:
        return super().forward(x)


class ConditionalBatchNorm(nn.Module):
    """Bring every channel to mean 0 and variance 1 over the batch, then scale and shift it as the
    class of the picture says.

    ``y_bc = g_{l_b,c} (x_bc − μ_c) / √(σ²_c + ε) + b_{l_b,c}``, μ_c and σ²_c over all of the batch

    The statistics are those of all classes together; only gain and shift know the class. In
    evaluation the running means of the training, as in ``torch.nn.BatchNorm2d``.

    Args:
        channels: ``C``.
        num_classes: K, the rows of the gains (all 1 at the start) and of the shifts (0).

    Shapes: x ``(batch, C, height, width)``, labels ``(batch,)`` → as x.

    Source: Dumoulin, Shlens and Kudlur 2017 (styles); Miyato and Koyama 2018 (classes of a GAN).
    """

    def __init__(self, channels: int, num_classes: int) -> None:
        super().__init__()
        self.num_classes = check_integer("num_classes", num_classes)
        self.norm = nn.BatchNorm2d(check_integer("channels", channels), affine=False)
        # Gains, not weights: plain parameters, so that no spectral norm takes them for a matrix.
        self.gain = nn.Parameter(torch.ones(num_classes, channels))
        self.shift = nn.Parameter(torch.zeros(num_classes, channels))

    def forward(self, x: Tensor, labels: Tensor | None = None) -> Tensor:
        labels = check_labels(labels, len(x), self.num_classes)
        gain, shift = (table[labels][:, :, None, None] for table in (self.gain, self.shift))
        return torch.addcmul(shift.to(x.dtype), gain.to(x.dtype), self.norm(x))
