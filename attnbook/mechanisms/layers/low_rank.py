"""Low-rank adaptation (LoRA): a matrix stays as it is, and a product of two thin ones is added."""

import math
from collections import Counter
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ...kernels.layers import Dropout
from ...validate import check_integer, check_number, require

__all__ = ["LoRALinear", "add_lora", "lora_layers", "merge_lora", "unmerge_lora"]


class LoRALinear(nn.Module):
    """A linear layer that keeps its weights, plus a trained product of two thin matrices.

    ``y = W x + b + (α/r) B A dropout(x)``,  A: r × d_in,  B: d_out × r

    A is drawn as the weight of a linear layer and B is zero, so that the layer begins as the one
    that it adapts. Only A and B get gradients.

    Args:
        layer: the linear layer, whose parameters are frozen.
        rank: r, at most the smaller of the layer's two widths.
        alpha: α; r when not given, so that the factor is 1.
        dropout: share of the inputs of A that are set to zero in training.

    Attributes:
        down, up: A and B.
        is_merged: whether the layer's own weight holds the change.

    Shapes: x ``(…, d_in)`` → ``(…, d_out)``.

    Source: Hu et al. 2022, section 4.1.
    """

    def __init__(
        self, layer: nn.Linear, rank: int, *, alpha: float | None = None, dropout: float = 0.0
    ) -> None:
        super().__init__()
        came = type(layer).__name__
        require(isinstance(layer, nn.Linear), f"layer must be a torch.nn.Linear, got {came}")
        self.in_features, self.out_features = layer.in_features, layer.out_features
        self.rank = check_integer("rank", rank, 1, min(self.in_features, self.out_features))
        self.alpha = float(check_number("alpha", self.rank if alpha is None else alpha, above=0))
        self.dropout = Dropout(check_number("dropout", dropout, least=0, below=1))
        self.layer = layer.requires_grad_(False)
        self.down = nn.Parameter(layer.weight.new_empty(self.rank, self.in_features))
        self.up = nn.Parameter(layer.weight.new_zeros(self.out_features, self.rank))
        nn.init.kaiming_uniform_(self.down, a=math.sqrt(5))  # as PyTorch draws a linear layer's
        # of a merged layer; in its state, so that no other takes a changed weight for W
        self.register_buffer("unmerged_weight", None)

    @property
    def is_merged(self) -> bool:
        return self.unmerged_weight is not None

    @property
    def change(self) -> Tensor:
        """What is added to W, ``(d_out, d_in)``: ``(α/r) B A``."""
        return self.alpha / self.rank * (self.up @ self.down)

    @property
    def weight(self) -> Tensor:
        """W with the change: the weight of one linear layer that computes the same."""
        return self.layer.weight if self.is_merged else self.layer.weight + self.change

    @property
    def bias(self) -> Tensor | None:
        """That of the layer."""
        return self.layer.bias

    def forward(self, x: Tensor) -> Tensor:
        y = self.layer(x)
        if self.is_merged:
            return y
        narrow = F.linear(self.dropout(x), self.down)  # (…, r)
        return y + self.alpha / self.rank * F.linear(narrow, self.up)

    @torch.no_grad()
    def merge(self) -> None:
        """Add the change to the layer's weight, where no gradient reaches A and B any more; nothing
        if that is done.
        """
        if not self.is_merged:
            before, changed = self.layer.weight.clone(), self.weight
            self.layer.weight.copy_(changed)
            self.unmerged_weight = before
            self.down.requires_grad_(False), self.up.requires_grad_(False)

    @torch.no_grad()
    def unmerge(self) -> None:
        """Give the layer the weight that it had before :meth:`merge`, bit by bit."""
        if self.unmerged_weight is not None:
            self.layer.weight.copy_(self.unmerged_weight)
            self.unmerged_weight = None
            self.down.requires_grad_(), self.up.requires_grad_()

    def extra_repr(self) -> str:
        merged = ", merged" if self.is_merged else ""
        return f"rank={self.rank}, alpha={self.alpha:g}{merged}"


def add_lora(
    model: nn.Module,
    rank: int,
    *,
    alpha: float | None = None,
    dropout: float = 0.0,
    layers: Sequence[str] | None = None,
) -> dict[str, LoRALinear]:
    """Freeze ``model`` and adapt its linear layers; return the adapted ones by name.

    An output layer for a new task is put on afterwards: what comes after this call is trained.

    Args:
        model: changed in place.
        rank, alpha, dropout: as in :class:`LoRALinear`.
        layers: names of those that are adapted, or ends of names, such as ``"query_projection"``.
            When not given, every linear layer whose weight belongs to it alone; one that is tied
            to an embedding is left out, as its change would change the embedding.

    Raises:
        ValueError: where a name is that of no such layer, or the model is adapted already. The
            model is then as it was.
    """
    require(not lora_layers(model), "model must not be adapted already: it has LoRA layers")
    uses = Counter(
        id(part.weight)
        for part in model.modules()
        if isinstance(getattr(part, "weight", 0), Tensor)
    )
    found = {
        name: part
        for name, part in model.named_modules()
        if name and isinstance(part, nn.Linear) and uses[id(part.weight)] == 1
    }
    require(bool(found), f"model must hold linear layers, got {type(model).__name__} without")
    for end in () if layers is None else layers:
        known = ", ".join(sorted({name.rpartition(".")[2] for name in found}))
        require(
            any(f".{name}".endswith(f".{end}") for name in found),
            f"layers must be names of linear layers, got {end!r}; there are {known}",
        )
    adapted = {
        name: LoRALinear(part, rank, alpha=alpha, dropout=dropout)
        for name, part in found.items()
        if layers is None or any(f".{name}".endswith(f".{end}") for end in layers)
    }
    model.requires_grad_(False)
    for name, part in adapted.items():
        above, _, own = name.rpartition(".")
        setattr(model.get_submodule(above), own, part.train(part.layer.training))
    return adapted


def lora_layers(model: nn.Module) -> dict[str, LoRALinear]:
    """The adapted layers of a model by name."""
    return {name: part for name, part in model.named_modules() if isinstance(part, LoRALinear)}


def merge_lora(model: nn.Module, *, remove: bool = False) -> None:
    """Add the changes to the weights, so that the model is as fast as before it was adapted.

    Args:
        model: changed in place.
        remove: put the linear layers back, so that the names of the state are those of a model that
            was never adapted, as :func:`attnbook.save_decoder` wants; then nothing can be unmerged.
    """
    for name, part in lora_layers(model).items():
        part.merge()
        if remove:
            above, _, own = name.rpartition(".")
            setattr(model.get_submodule(above), own, part.layer)


def unmerge_lora(model: nn.Module) -> None:
    """Take the changes out of the weights, which are what they were, bit by bit."""
    for part in lora_layers(model).values():
        part.unmerge()
