"""A decoder of today, as in Llama, Mistral and Qwen3, and GPT-2 beside it.

There is no new model here. A decoder-only Transformer is
:class:`~attnbook.models.transformer.language_model.TransformerLM`; what changed since 2017 are its
parts, and :func:`decoder_parts` says which: the norm stands inside the branch and only scales, the
positions are turned into queries and keys, groups of queries share a head of keys and values, the
hidden layer has a gate, and biases are gone. The published weights are read by
:func:`~attnbook.models.transformer.published.load_decoder`.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from torch import nn
from torch.nn import functional as F

from ...mechanisms.attention.multi_head import MultiHeadAttention
from ...mechanisms.layers.feed_forward import GatedFeedForward
from ...mechanisms.layers.norms import LayerNorm, RMSNorm
from ...mechanisms.layers.residual import PreNorm
from ...mechanisms.positions.absolute import LearnedPositions, NoPositions
from ...mechanisms.positions.rotary import RotaryPositions
from ...validate import check_integer
from .parts import Parts, paper_parts

__all__ = ["decoder_parts", "gpt2_parts"]


def decoder_parts(
    d_model: int,
    num_heads: int,
    d_feed_forward: int,
    *,
    num_kv_heads: int | None = None,
    d_head: int | None = None,
    rotary: RotaryPositions | None = None,
    normalise: bool = False,
    window: int | None = None,
    bias: bool = False,
    eps: float = 1e-6,
) -> Parts:
    """The parts of a decoder of today, for :class:`TransformerLM`.

    ``x ← x + attention(RMSNorm(x))``, ``x ← x + W_2 (swish(W h) ⊙ V h)`` with ``h = RMSNorm(x)``;
    queries and keys of the attention are turned by their positions. Without the options, and with
    ``num_kv_heads=num_heads``, this is the first Llama.

    Args:
        d_model, num_heads, d_feed_forward: widths and heads; d_feed_forward is about 8/3 d_model.
        num_kv_heads: heads of keys and values, see :class:`MultiHeadAttention`.
        d_head: width of a head, ``d_model / num_heads`` when not given.
        rotary: turns queries and keys, in all blocks; its base is 10,000 when not given.
        normalise: whether queries and keys of a head go through an RMSNorm, as in Qwen3.
        window: how many positions each one attends to, itself among them, as in Mistral.
        bias: of the projections of the attention.
        eps: ε of the norms.

    Raises:
        ValueError: for sizes that do not fit, here or when a module is made of them.

    Source: Touvron et al. 2023, section 2.2; grouped queries as in Llama 2, window as in Jiang et
    al. 2023 (Mistral), norms of heads as in the Qwen3 report (2025).
    """
    norm = partial(RMSNorm, eps=eps)
    width = check_integer("d_model", d_model) // check_integer("num_heads", num_heads)
    width = width if d_head is None else d_head
    return replace(
        paper_parts(d_model, num_heads, dropout=0.0, residual=PreNorm, norm=norm),
        attention=partial(
            MultiHeadAttention,
            d_model,
            num_heads,
            num_kv_heads=num_kv_heads,
            d_head=width,
            rotary=RotaryPositions(width) if rotary is None else rotary,
            normalise=norm if normalise else None,
            window=window,
            bias=bias,
        ),
        feed_forward=partial(GatedFeedForward, d_model, d_feed_forward, "swiglu"),
        positions=NoPositions,
        embedding=partial(_embedding, d_model),
    )


def gpt2_parts(
    d_model: int, num_heads: int, d_feed_forward: int, max_length: int, *, eps: float = 1e-5
) -> Parts:
    """The parts of GPT-2: layer norm inside the branch, learned positions, GELU, biases.

    Args:
        d_model, num_heads, d_feed_forward: widths and heads; d_feed_forward is 4 d_model.
        max_length: number of positions.
        eps: ε of the norms.

    Source: Radford et al. 2019, section 2.3; GELU with the tanh of Hendrycks and Gimpel 2016.
    """
    norm, gelu = partial(LayerNorm, eps=eps), partial(F.gelu, approximate="tanh")
    return replace(
        paper_parts(
            d_model,
            num_heads,
            d_feed_forward,
            dropout=0.0,
            residual=PreNorm,
            norm=norm,
            activation=gelu,
        ),
        positions=partial(LearnedPositions, max_length, d_model),
        embedding=partial(_embedding, d_model),
    )


def _embedding(d_model: int, size: int) -> nn.Embedding:
    """Token embeddings as they are, without √d_model, every id a token: there is no padding."""
    made = nn.Embedding(size, d_model)
    nn.init.normal_(made.weight, std=0.02)
    return made
