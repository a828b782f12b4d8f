"""RMSProp as Graves wrote it down, which is not PyTorch's to the letter."""

from __future__ import annotations

import torch

__all__ = ["GravesRMSProp"]


class GravesRMSProp(torch.optim.Optimizer):
    """RMSProp with momentum, and the gradient cut entry by entry before it.

    g ← min(max(g, −clip), clip),   n ← ρ n + (1 − ρ) g²,   m ← ρ m + (1 − ρ) g,
    Δ ← μ Δ − lr · g / √(n − m² + ε),   θ ← θ + Δ, with ρ = 0.95, μ = 0.9, ε = 1e-4; n, m and Δ
    begin at 0.

    `torch.optim.RMSprop(centered=True)` adds ε behind the root, where 1e-4 is as good as nothing.

    Raises ValueError for numbers out of range.
    Source: Graves 2013, "Generating sequences with recurrent neural networks", equations 38 to 41;
    the cut of ±10 is that of
    Graves, Wayne and Danihelka 2014, section 4.6.
    """

    def __init__(
        self,
        params,
        lr: float = 1e-4,
        *,
        momentum: float = 0.9,
        rho: float = 0.95,
        eps: float = 1e-4,
        clip: float | None = 10.0,
    ) -> None:
        for name, value, good in (
            ("lr", lr, lr > 0),
            ("momentum", momentum, 0 <= momentum < 1),
            ("rho", rho, 0 < rho < 1),
            ("eps", eps, eps > 0),
            ("clip", clip, clip is None or clip > 0),
        ):
            if not good:
                raise ValueError(
                    f"{name}: got {value!r}, expected a positive number"
                    + (" below 1" if name in ("momentum", "rho") else "")
                )
        super().__init__(params, dict(lr=lr, momentum=momentum, rho=rho, eps=eps, clip=clip))

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
                    self.state[p].update(
                        {name: torch.zeros_like(p) for name in ("square", "mean", "delta")}
                    )
            gradients = [p.grad for p in with_grad]
            if group["clip"] is not None:
                gradients = torch._foreach_clamp_max(
                    torch._foreach_clamp_min(gradients, -group["clip"]), group["clip"]
                )
            square, mean, delta = (
                [self.state[p][name] for p in with_grad] for name in ("square", "mean", "delta")
            )
            torch._foreach_lerp_(square, torch._foreach_mul(gradients, gradients), 1 - group["rho"])
            torch._foreach_lerp_(mean, gradients, 1 - group["rho"])
            below = torch._foreach_sub(square, torch._foreach_mul(mean, mean))
            # n − m² is a variance; rounding may leave it a hair below 0
            torch._foreach_clamp_min_(below, 0.0)
            torch._foreach_add_(below, group["eps"])
            torch._foreach_sqrt_(below)
            torch._foreach_mul_(delta, group["momentum"])
            torch._foreach_addcdiv_(delta, gradients, below, -group["lr"])
            torch._foreach_add_(with_grad, delta)
        return loss
