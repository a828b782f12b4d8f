"""RMSProp of Graves, which differs from PyTorch's."""

# PyTorch has no public name for operations on lists of tensors, which its own optimizers use.
# pyright: reportPrivateImportUsage=false

import torch

from attnbook.validate import check_number

__all__ = ["GravesRMSProp"]

_RHO, _MOMENTUM, _EPSILON = 0.95, 0.9, 1e-4
_STATE = ("square", "mean", "delta")


class GravesRMSProp(torch.optim.Optimizer):
    """RMSProp with momentum, after clipping each entry of the gradient.

    g ← min(max(g, −clip), clip),   n ← ρ n + (1 − ρ) g²,   m ← ρ m + (1 − ρ) g, Δ ← μ Δ − lr · g /
    √(n − m² + ε),   θ ← θ + Δ, with ρ = 0.95, μ = 0.9, ε = 1e-4; n, m and Δ begin at 0.

    `torch.optim.RMSprop(centered=True)` adds ε outside of the root, where 1e-4 is negligible.

    Source: Graves 2013, "Generating sequences with recurrent neural networks", equations 38 to 41;
    the clipping to ±10 is that of Graves, Wayne and Danihelka 2014, section 4.6.
    """

    def __init__(self, params, lr: float = 1e-4, *, clip: float | None = 10.0) -> None:
        lr = check_number("lr", lr, above=0)
        if clip is not None:
            clip = check_number("clip", clip, above=0)
        super().__init__(params, dict(lr=lr, clip=clip))

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            with_grad = [p for p in group["params"] if p.grad is not None]
            if not with_grad:
                continue
            for p in with_grad:
                if not self.state[p]:
                    self.state[p].update({name: torch.zeros_like(p) for name in _STATE})
            gradients, clip = [p.grad for p in with_grad], group["clip"]
            if clip is not None:
                above = torch._foreach_clamp_min(gradients, -clip)
                gradients = torch._foreach_clamp_max(above, clip)
            square, mean, delta = ([self.state[p][name] for p in with_grad] for name in _STATE)
            torch._foreach_lerp_(square, torch._foreach_mul(gradients, gradients), 1 - _RHO)
            torch._foreach_lerp_(mean, gradients, 1 - _RHO)
            below = torch._foreach_sub(square, torch._foreach_mul(mean, mean))
            # n − m² is a variance; rounding may leave it a hair below 0
            torch._foreach_clamp_min_(below, 0.0)
            torch._foreach_add_(below, _EPSILON)
            torch._foreach_sqrt_(below)
            torch._foreach_mul_(delta, _MOMENTUM)
            torch._foreach_addcdiv_(delta, gradients, below, -group["lr"])
            torch._foreach_add_(with_grad, delta)
        return loss
