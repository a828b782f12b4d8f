"""A decoder of today, as in Llama, Mistral, Qwen and Phi-3, with Gemma and GPT-2 beside it.

There is no new model here. A decoder-only Transformer is
:class:`~attnbook.models.transformer.language_model.TransformerLM`; what changed since 2017 are its
parts, and :func:`decoder_parts` says which: the norm stands inside the branch and only scales, the
positions are turned into queries and keys, groups of queries share a head of keys and values, the
hidden layer has a gate, and biases are gone. The published weights are read by
:func:`~attnbook.pretrained.load_decoder`.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import cast

from torch import Tensor, nn
from torch.nn import functional as F

from ...kernels.layers import Dropout, Linear
from ...mechanisms.attention.multi_head import MultiHeadAttention
from ...mechanisms.caches.window import SlidingWindow
from ...mechanisms.layers.embeddings import ScaledEmbedding
from ...mechanisms.layers.feed_forward import GatedFeedForward
from ...mechanisms.layers.norms import LayerNorm, RMSNorm
from ...mechanisms.layers.residual import PreNorm, SandwichNorm
from ...mechanisms.positions.absolute import LearnedPositions, NoPositions
from ...mechanisms.positions.rotary import RotaryPositions
from ...mechanisms.scores.base import ScaledDotScore
from ...mechanisms.scores.soft_cap import SoftCappedScore, soft_cap
from ...validate import check_integer, check_number, require
from .parts import Parts, paper_parts

__all__ = ["decoder_parts", "gemma_parts", "gpt2_parts"]


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
    output_bias: bool | None = None,
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
        bias, output_bias: of the projections of the attention, see :class:`MultiHeadAttention`;
            Qwen2 has ``bias=True, output_bias=False``.
        eps: ε of the norms.

    Source: Touvron et al. 2023, section 2.2; grouped queries as in Llama 2, window as in Jiang et
    al. 2023 (Mistral), norms of heads as in the Qwen3 report (2025).
    """
    norm = partial(RMSNorm, eps=eps)
    check_integer("d_model", d_model)
    require(
        d_head is not None or d_model % check_integer("num_heads", num_heads) == 0,
        f"d_model must be a multiple of num_heads where there is no d_head, got {d_model} and "
        f"{num_heads}",
    )
    width = d_model // num_heads if d_head is None else d_head
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
            window=None if window is None else SlidingWindow(window),
            bias=bias,
            output_bias=output_bias,
        ),
        feed_forward=partial(GatedFeedForward, d_model, d_feed_forward, "swiglu"),
        positions=NoPositions,
        embedding=partial(_embedding, d_model),
    )


gelu = partial(F.gelu, approximate="tanh")
"""GELU by its approximation with a tanh, as GPT-2 and Gemma compute it."""


class SoftCappedOutput(Linear):
    """Logits without biases, kept between −c and c: ``c · tanh(W x / c)``.

    Source: Gemma 2 (Riviere et al. 2024), section 2; c is 30 there.
    """

    def __init__(self, d_model: int, size: int, cap: float) -> None:
        super().__init__(d_model, size, bias=False)
        self.cap = float(check_number("cap", cap, above=0))

    def forward(self, x: Tensor) -> Tensor:
        return soft_cap(super().forward(x), self.cap)


def gemma_parts(
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
    scale: float | None = None,
    score_cap: float | None = None,
    logit_cap: float | None = None,
) -> Parts:
    """The parts of Gemma 2 and Gemma 3, for :class:`TransformerLM`.

    Those of :func:`decoder_parts`, except: a norm on either side of each sublayer
    (:class:`SandwichNorm`), norms whose weights start at 0 (``offset=1``), embeddings times
    √d_model, a gate of GELU, and scores and logits that may be kept within bounds.

    Args:
        d_model, num_heads, d_feed_forward: as for :func:`decoder_parts`.
        num_kv_heads, d_head, rotary, bias, eps: as there; Gemma 3 has two rotary bases.
        normalise: as there; Gemma 3 has norms of heads, Gemma 2 has not.
        window: as there, in every second block of Gemma 2 and in five of six of Gemma 3.
        scale: of the scores, instead of 1 / √d_head.
        score_cap, logit_cap: bounds of scores and of logits, 50 and 30 in Gemma 2.

    Source: Riviere et al. 2024 (Gemma 2), section 2; Kamath et al. 2025 (Gemma 3), section 2.
    """
    base = decoder_parts(
        d_model,
        num_heads,
        d_feed_forward,
        num_kv_heads=num_kv_heads,
        d_head=d_head,
        rotary=rotary,
        window=window,
        bias=bias,
    )
    norm = partial(RMSNorm, eps=eps, offset=1.0)
    score, attention = ScaledDotScore(scale), cast(Callable[..., nn.Module], base.attention)
    return replace(
        base,
        attention=partial(
            attention,
            score=score if score_cap is None else SoftCappedScore(score, score_cap),
            normalise=norm if normalise else None,
        ),
        feed_forward=partial(GatedFeedForward, d_model, d_feed_forward, gelu),
        residual=lambda: SandwichNorm(norm(d_model), Dropout(0.0), norm(d_model)),
        final_norm=partial(norm, d_model),
        embedding=partial(ScaledEmbedding, d_model=d_model),
        output=base.output
        if logit_cap is None
        else lambda size: SoftCappedOutput(d_model, size, logit_cap),
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
    norm = partial(LayerNorm, eps=eps)
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
