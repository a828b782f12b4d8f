"""What recurrent attentions read beside a position: a few before it; and which are there."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ...validate import check_integer, check_mask, check_tensor, is_readable, require
from ..attention.masks import masks_by_name

__all__ = ["ShortConvolution", "valid_positions"]


class ShortConvolution(nn.Module):
    """A causal convolution of every channel for itself over a few positions, then SiLU.

    ``y_tc = SiLU(Σ_k w_ck x_{t − (K − 1 − k), c} + b_c)``, zeros before the first position

    A state that is updated by one position at a time cannot compare neighbours; this can.

    Args:
        d_model: width of x.
        kernel_size: ``K``.
        bias: whether there is a b.

    Shapes: x ``(…, m, d_model)`` → y of the same shape, and the K − 1 inputs that the next call
    takes as ``past``, ``(…, K − 1, d_model)``: those up to the last position that is there by
    key_mask, ``(…, m)``. Inputs of padding should be zeros.

    Source: Gu and Dao 2023 (Mamba), section 3.4; Yang et al. 2024 (DeltaNet), section 3.4.
    """

    def __init__(self, d_model: int, kernel_size: int, *, bias: bool = False) -> None:
        super().__init__()
        self.d_model = check_integer("d_model", d_model)
        self.kernel_size = check_integer("kernel_size", kernel_size)
        bound = kernel_size**-0.5
        # w, the farthest position first
        self.weight = nn.Parameter(torch.empty(d_model, kernel_size).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.zeros(d_model)) if bias else None

    @masks_by_name("key_mask", mask="key_mask")
    def forward(
        self, x: Tensor, past: Tensor | None = None, *, key_mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        check_tensor("x", x, width=self.d_model)
        check_mask(key_mask, x.shape[:-1], name="key_mask", axes="(…, positions)", true="is there")
        reach, m = self.kernel_size - 1, x.shape[-2]
        shape = (*x.shape[:-2], reach, self.d_model)
        require(
            past is None or past.shape == shape,
            f"past must be {shape} for this x, got {None if past is None else tuple(past.shape)}",
        )
        padded = F.pad(x, (0, 0, reach, 0)) if past is None else torch.cat([past, x], dim=-2)
        taps = [padded[..., k : k + m, :] * self.weight[:, k] for k in range(self.kernel_size)]
        y = sum(taps[1:], taps[0])
        if key_mask is None:
            last = padded[..., m:, :]
        else:  # as many positions as there are up to the last one that is there
            numbers = torch.arange(1, m + 1, device=x.device)
            first = numbers.where(key_mask, 0).amax(-1, keepdim=True)
            places = first + torch.arange(reach, device=x.device)
            last = padded.gather(-2, places.unsqueeze(-1).expand(shape))
        return F.silu(y if self.bias is None else y + self.bias), last


def valid_positions(
    x: Tensor, mask: Tensor | None, key_mask: Tensor | None = None
) -> Tensor | None:
    """Which positions of x ``(…, m, d)`` are there, by the masks of attention: ``(…, m)``, or None
    where it is known that all are.

    Args:
        mask: boolean, True = may attend, broadcastable to ``(…, m, n)``, where x are the last m of
            n positions. A position is there if any of these queries may attend to it.
        key_mask: boolean, True = is there, broadcastable to ``(…, m)``.
    """
    valid, m = None, x.shape[-2]
    if mask is not None:
        columns = mask.shape[-1] if isinstance(mask, Tensor) and mask.dim() else 1
        require(
            columns == 1 or columns >= m, f"mask must be for {m} positions at least, got {columns}"
        )
        check_mask(mask, (*x.shape[:-1], max(m, columns)))
        valid = torch.atleast_2d(mask).any(-2)[..., -m:]
    if key_mask is not None:
        check_mask(key_mask, x.shape[:-1], name="key_mask", axes="(…, positions)", true="is there")
        valid = torch.atleast_1d(key_mask) if valid is None else valid & key_mask
    if valid is None or is_readable(valid) and bool(valid.all()):
        return None
    return valid.expand(*valid.shape[:-1], m)
