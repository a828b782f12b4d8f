"""Mixtures of experts: many feed-forward networks; every position goes through one or a few."""

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ...kernels.precision import without_autocast
from ...validate import check_integer, check_maker, check_tensor, require

__all__ = ["MixtureOfExperts", "Switch", "balance_loss"]

Make = Callable[[], nn.Module]


class _Experts(nn.Module):
    """Experts, and what is left of the last forward pass.

    Attributes:
        balance: the auxiliary loss of the last forward pass in training, a number to add to the
            loss, 0 if there was no position; None before, and in evaluation.
        counts: ``(experts,)``, how many positions each expert got in the last forward pass.
    """

    def __init__(self, d_model: int, num_experts: int, make_expert: Make) -> None:
        super().__init__()
        self.d_model = check_integer("d_model", d_model)
        self.num_experts = check_integer("num_experts", num_experts)
        check_maker("make_expert", make_expert)
        self.experts = nn.ModuleList(make_expert() for _ in range(num_experts))
        self.balance: Tensor | None = None
        self.counts: Tensor | None = None

    def _combine_experts(self, rows: Tensor, gates: Tensor, chosen: Tensor) -> Tensor:
        """``y_t = Σ_i gates_ti expert_i(row_t)`` over the chosen experts: rows ``(t, d)``, gates
        and chosen ``(t, experts)``.

        An expert reads the rows that chose it, and no others.
        """
        self.counts = chosen.detach().sum(0)
        y = torch.zeros_like(rows)
        if not len(rows):  # nothing, with a graph
            y = rows + gates.to(y.dtype).sum(1, keepdim=True)
        for i, (expert, routed) in enumerate(zip(self.experts, _routes(chosen, self.counts))):
            if torch.compiler.is_compiling() or len(routed):
                output = expert(rows[routed]) * gates[routed, i, None]
                y = y.index_add(0, routed, output.to(y.dtype))
        return y

    def __getstate__(self) -> dict:
        # of the last pass: no part of a copy
        return {**self.__dict__, "balance": None, "counts": None}


def _routes(chosen: Tensor, counts: Tensor) -> Sequence[Tensor]:
    """The rows that chose each expert, in their order."""
    if torch.compiler.is_compiling():
        return [column.nonzero()[:, 0] for column in chosen.unbind(1)]
    sizes = counts.tolist()  # the one look for all experts at a GPU
    # all pairs (expert, row), those that were chosen first
    order = chosen.T.flatten().to(torch.uint8).argsort(descending=True, stable=True)
    return (order[: sum(sizes)] % max(1, len(chosen))).split(sizes)


class MixtureOfExperts(_Experts):
    """A feed-forward sublayer of many networks: noisy gates choose the best k for every position.

    ``y = Σ_i G(x)_i E_i(x)``,  ``G(x) = softmax(top_k(H(x)))``,
    ``H(x)_i = x·w_i + ε_i softplus(x·u_i)``,  ε_i ~ N(0, 1)

    where top_k sets all but the k largest to −∞. The noise is drawn while training only. W and U
    start at zero, so that at first chance alone chooses. What keeps a few experts from taking
    everything is the balance, added to the loss:

    ``balance = a CV²(Σ_x G(x)) + b CV²(Σ_x P(x))``,  ``CV²(z) = variance of z / (mean of z)²``,
    ``P(x)_i = Φ((x·w_i − the k-th largest of the other H(x)_j) / softplus(x·u_i))``

    P(x)_i is the chance that expert i is among the k best if only its own noise is drawn anew: the
    number of positions of an expert made smooth. With k = ``num_experts`` it is 1.

    Args:
        d_model: width of x and of the result.
        num_experts: number of networks E_i.
        make_expert: () → a network ``(…, d_model)`` → the same, such as
            :class:`~attnbook.mechanisms.layers.feed_forward.FeedForward`.
        k: how many experts a position goes through.
        importance_weight, load_weight: a and b; both 0.1 in the paper's language models.

    Attributes:
        balance, counts: of the last pass, padding counts too; see :func:`balance_loss`.

    Shapes: ``(…, n, d_model)`` → the same.

    Source: Shazeer et al. 2017, equations 1 to 11.
    """

    def __init__(
        self,
        d_model: int,
        num_experts: int,
        make_expert: Make,
        *,
        k: int = 2,
        importance_weight: float = 0.1,
        load_weight: float = 0.1,
    ) -> None:
        super().__init__(d_model, num_experts, make_expert)
        require(
            check_integer("k", k) <= num_experts,
            f"k must be at most num_experts = {num_experts}, got {k}",
        )
        require(
            importance_weight >= 0 and load_weight >= 0,
            f"importance_weight and load_weight must be at least 0, got {importance_weight!r} "
            f"and {load_weight!r}",
        )
        self.k, self.importance_weight, self.load_weight = k, importance_weight, load_weight
        self.gate = nn.Parameter(torch.zeros(d_model, num_experts))  # W
        self.noise = nn.Parameter(torch.zeros(d_model, num_experts))  # U

    def forward(self, x: Tensor) -> Tensor:
        rows = check_tensor("x", x, width=self.d_model).reshape(-1, self.d_model)
        with without_autocast(rows):
            wide = rows.to(self.gate.dtype)
            clean, spread = wide @ self.gate, F.softplus(wide @ self.noise)  # (t, experts)
        noisy = clean + torch.randn_like(clean) * spread if self.training else clean
        best = noisy.topk(self.k, dim=1).indices
        chosen = torch.zeros_like(noisy, dtype=torch.bool).scatter(1, best, True)
        gates = noisy.masked_fill(~chosen, -math.inf).softmax(1)
        if self.training and not len(rows):  # no mean to vary from: 0, with a gradient
            self.balance = gates.sum()
        elif self.training:
            probabilities = self._load(clean, noisy, spread, chosen)
            importance, load = _variation(gates.sum(0)), _variation(probabilities.sum(0))
            self.balance = self.importance_weight * importance + self.load_weight * load
        else:
            self.balance = None
        return self._combine_experts(rows, gates, chosen).view(x.shape)

    def _load(self, clean: Tensor, noisy: Tensor, spread: Tensor, chosen: Tensor) -> Tensor:
        """P ``(t, experts)``: how likely a position loads an expert."""
        if self.k == self.num_experts:
            return torch.ones_like(clean)
        best = noisy.topk(self.k + 1, dim=1).values
        # Without itself, the k-th largest is the (k + 1)-th of all for one of the k best, and the
        # k-th for the others.
        others = torch.where(chosen, best[:, self.k, None], best[:, self.k - 1, None])
        return torch.special.ndtr((clean - others) / spread.clamp_min(1e-9))


class Switch(_Experts):
    """A feed-forward sublayer of many networks, of which every position goes through one.

    ``p(x) = softmax(W x)``,  ``i = argmax_j p(x)_j``,  ``y = p(x)_i E_i(x)``

    While training an expert takes at most ``⌈capacity_factor · t / experts⌉`` of the t positions of
    a batch, first come, first served; a position that comes too late gets zero, and the residual
    sum carries it on. In evaluation none is turned away: what a position gets shall not depend on
    the others of its batch. (The paper keeps a capacity there, too.) The balance, added to the
    loss, is least, ``balance_weight``, where all experts get equally much:

    ``balance = balance_weight · experts · Σ_i f_i P_i``, with f_i the share of the positions that
    choose expert i, those turned away among them, and P_i the mean of p_i

    Args:
        d_model: width of x and of the result.
        num_experts: number of networks E_i.
        make_expert: as in :class:`MixtureOfExperts`.
        capacity_factor: 1 to 1.5 in the paper; None for no limit.
        balance_weight: 0.01 in the paper.

    Attributes:
        balance, counts: of the last pass, padding counts too; see :func:`balance_loss`.

    Shapes: ``(…, n, d_model)`` → the same. p is in float32 under autocast, too, as in the paper.

    Source: Fedus, Zoph and Shazeer 2022, equations 1 to 6.
    """

    def __init__(
        self,
        d_model: int,
        num_experts: int,
        make_expert: Make,
        *,
        capacity_factor: float | None = 1.25,
        balance_weight: float = 0.01,
    ) -> None:
        super().__init__(d_model, num_experts, make_expert)
        require(
            capacity_factor is None or 0 < capacity_factor < math.inf,
            "capacity_factor must be a number above 0, or None for no limit, got "
            f"{capacity_factor!r}",
        )
        require(balance_weight >= 0, f"balance_weight must be at least 0, got {balance_weight!r}")
        self.capacity_factor, self.balance_weight = capacity_factor, balance_weight
        self.router = nn.Linear(d_model, num_experts, bias=False)  # W

    def forward(self, x: Tensor) -> Tensor:
        rows = check_tensor("x", x, width=self.d_model).reshape(-1, self.d_model)
        with without_autocast(rows):
            w = self.router.weight
            probabilities = F.linear(rows.to(w.dtype), w).softmax(1)  # (t, experts)
        routed = F.one_hot(probabilities.argmax(1), self.num_experts)
        chosen = routed.bool()
        if self.training and not len(rows):
            self.balance = probabilities.sum()
        elif self.training:
            shares = routed.to(probabilities.dtype).mean(0) * probabilities.mean(0)
            self.balance = self.balance_weight * self.num_experts * shares.sum()
            if self.capacity_factor is not None:
                capacity = math.ceil(self.capacity_factor * len(rows) / self.num_experts)
                chosen = chosen & (routed.cumsum(0) <= capacity)
        else:
            self.balance = None
        return self._combine_experts(rows, probabilities, chosen).view(x.shape)


def _variation(z: Tensor) -> Tensor:
    """CV², the squared coefficient of variation of a vector."""
    return z.var(correction=0) / z.mean().square()


def balance_loss(model: nn.Module) -> Tensor | float:
    """What the mixtures of experts in a model add to the loss after a training pass; else 0."""
    layers = (layer for layer in model.modules() if isinstance(layer, _Experts))
    return sum((layer.balance for layer in layers if layer.balance is not None), 0.0)
