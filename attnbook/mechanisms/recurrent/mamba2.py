"""The mixer of Mamba-2: a state-space model that is linear attention with one decay a head."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ...kernels.layers import Linear
from ...validate import check_integer, require
from .linear import linear_attention
from .multi_head import HeadDecay, RecurrentAttention, RecurrentState
from .short_convolution import ShortConvolution

__all__ = ["Mamba2Mixer"]

_EPS = 1e-5  # of the norm


class Mamba2Mixer(RecurrentAttention):
    """Mix positions by a state-space model whose heads share queries and keys.

    ``[z, x, B, C, δ] = u W_in``; a short convolution over x, B and C;
    ``S_t = α_t S_{t−1} + B_t (Δ_t x_t)ᵀ``,  ``y_t = S_tᵀ C_t + D x_t``,
    ``output = norm(y ⊙ SiLU(z)) W_out``

    In the words of attention: C are queries, B keys, ``Δ x`` values, and ``α_t = exp(−e^a Δ_t)``,
    ``Δ_t = softplus(δ_t + b)`` is the decay of a head, see
    :class:`~attnbook.mechanisms.recurrent.multi_head.HeadDecay`. All heads of a group have the
    same queries and keys: as many heads for one query as grouped-query attention has queries for
    one key.

    Args:
        d_model: width of u, the input, and of the result.
        d_state: width of queries and keys, N in the paper.
        d_head: width of values in a head, P in the paper.
        expand: ``expand · d_model`` is the width of x, that of all heads together.
        num_groups: groups of heads.
        kernel_size: of the convolution.

    Shapes: as :class:`~attnbook.mechanisms.recurrent.multi_head.LinearAttention`. The state's
    memory is ``(…, h, d_state, d_head)``.

    Source: Dao and Gu 2024, section 7 and figure 6.
    """

    def __init__(
        self,
        d_model: int,
        *,
        d_state: int = 128,
        d_head: int = 64,
        expand: int = 2,
        num_groups: int = 1,
        kernel_size: int = 4,
    ) -> None:
        super().__init__()
        self.d_model = check_integer("d_model", d_model)
        self.d_head = check_integer("d_head", d_head)
        self.num_groups = check_integer("num_groups", num_groups)
        self.width = check_integer("expand", expand) * d_model
        require(
            self.width % d_head == 0,
            f"expand · d_model must divide by d_head, got {self.width} and {d_head}",
        )
        self.num_heads = self.width // d_head
        require(
            self.num_heads % num_groups == 0,
            f"num_groups must divide the {self.num_heads} heads, got {num_groups}",
        )
        shared = num_groups * check_integer("d_state", d_state)
        self.widths = (self.width, shared, shared)  # of x, B and C
        rows = 2 * self.width + 2 * shared + self.num_heads
        self.input_projection = Linear(d_model, rows, bias=False)
        self.convolution = ShortConvolution(sum(self.widths), kernel_size, bias=True)
        self.head_decay = HeadDecay(self.num_heads)
        self.skip = nn.Parameter(torch.ones(self.num_heads))  # D
        self.norm_weight = nn.Parameter(torch.ones(self.width))
        self.output_projection = Linear(self.width, d_model, bias=False)

    def run(self, x, valid, memory, recent) -> tuple[Tensor, RecurrentState]:
        groups, heads = self.num_groups, (self.num_groups, self.num_heads // self.num_groups)
        if memory is not None:
            memory = memory.unflatten(-3, heads)
        gate, mixed, steps = self.input_projection(x).split(
            [self.width, sum(self.widths), self.num_heads], -1
        )
        mixed, recent = self.convolution(mixed, recent, key_mask=valid)
        values, key, query = mixed.split(self.widths, -1)
        # (…, groups, 1, m, d_state) for the heads of a group
        query, key = (t.unflatten(-1, (groups, 1, -1)).movedim(-4, -2) for t in (query, key))
        values = values.unflatten(-1, (*heads, -1)).movedim(-4, -2)  # (…, groups, h/g, m, d_head)
        step, log_decay = (t.unflatten(-2, heads).unsqueeze(-1) for t in self.head_decay(steps))
        context, memory = linear_attention(
            query,
            key,
            values * step,
            key_mask=None if valid is None else valid[..., None, None, :],
            log_decay=log_decay,
            state=memory,
            form="recurrent" if x.shape[-2] == 1 else "chunks",
        )
        context = context + self.skip.view(*heads, 1, 1) * values
        context = context.movedim(-2, -4).flatten(-3) * F.silu(gate)  # heads side by side
        context = context.unflatten(-1, (groups, -1))  # each group is normalised for itself
        context = F.rms_norm(context, context.shape[-1:], eps=_EPS).flatten(-2)
        output = self.output_projection(context * self.norm_weight)
        return output, RecurrentState(memory.flatten(-4, -3), recent)
