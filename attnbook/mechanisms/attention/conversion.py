"""From a trained multi-head layer to one of grouped queries."""

import copy
import inspect

import torch
from torch import Tensor

from ...kernels.layers import Linear
from ...validate import check_integer, require
from .multi_head import MultiHeadAttention

__all__ = ["group_by_means"]


def group_by_means(layer: MultiHeadAttention, num_kv_heads: int) -> MultiHeadAttention:
    """Make of a trained multi-head layer one with fewer heads of keys and values: those of a group
    become their mean.

    ``W_k,j = (1/r) Σ_{i in group j} W_k,i``, ``W_v,j`` likewise, biases too; a group is
    r = h / num_kv_heads heads side by side. Queries and W_o stay. The result is no longer the same
    function; the paper trains it on for 5% of the original steps ("uptraining").

    Args:
        layer: any number of heads of keys and values; it is left as it is.
        num_kv_heads: how many are kept, a divisor of those of the layer; 1 is multi-query
            attention.

    Source: Ainslie et al. 2023, section 2.1.
    """
    check_integer("num_kv_heads", num_kv_heads)
    had = layer.num_kv_heads
    require(
        had % num_kv_heads == 0,
        f"num_kv_heads must divide the {had} heads of keys and values of the layer, got "
        f"{num_kv_heads}",
    )
    require(
        "num_kv_heads" in inspect.signature(type(layer)).parameters,
        f"layer must be one that groups its queries, got {type(layer).__name__}",
    )
    grouped = copy.deepcopy(layer)
    grouped.num_kv_heads = num_kv_heads
    grouped.key_projection = _mean(layer.key_projection, had, num_kv_heads)
    grouped.value_projection = _mean(layer.value_projection, had, num_kv_heads)
    return grouped


def _mean(linear: Linear, had: int, kept: int) -> Linear:
    """A linear map whose heads are means of groups of those of another."""

    def mean(rows: Tensor) -> Tensor:
        heads = rows.detach().unflatten(0, (kept, had // kept, -1))
        return heads.mean(1).flatten(0, 1)

    made = Linear(
        linear.in_features,
        linear.out_features // had * kept,
        bias=linear.bias is not None,
        device=linear.weight.device,
        dtype=linear.weight.dtype,
    )
    with torch.no_grad():
        made.weight.copy_(mean(linear.weight))
        if linear.bias is not None:
            made.bias.copy_(mean(linear.bias))
    for parameter, old in zip(made.parameters(), linear.parameters(), strict=True):
        parameter.requires_grad_(old.requires_grad)
    return made.train(linear.training)
