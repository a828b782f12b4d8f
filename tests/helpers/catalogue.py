"""Every public module of the library, small, with inputs that it takes: for tests of what must hold
for all of them.

A public class without an entry here fails ``tests/structure/test_names.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import nn

import attnbook
from attnbook.models.captioner import PictureEncoder

B, N, D = 2, 5, 8
WORDS = 11


class Entry(NamedTuple):
    """A module, and what it is called with; floating point tensors are drawn, others given."""

    module: nn.Module
    inputs: tuple
    options: dict = {}

    def __call__(self) -> torch.Tensor:
        """A number that depends on every floating point output."""
        return total_of(self.module(*self.inputs, **self.options))


def total_of(outputs) -> torch.Tensor:
    """The sum of all floating point tensors in what a module gives, each weighted differently."""
    total, place = torch.zeros(()), 0
    pending = [outputs]
    while pending:
        value = pending.pop(0)
        if isinstance(value, torch.Tensor):
            if value.is_floating_point() and value.numel():
                finite = value.masked_fill(value == -torch.inf, 0)  # logits of what is not allowed
                total = total.to(value) + (finite * (1 + place % 3)).square().sum()
                place += 1
        elif isinstance(value, dict):
            pending.extend(value.values())
        elif isinstance(value, list | tuple):
            pending.extend(value)
    return total


def floats(*shape: int) -> torch.Tensor:
    return torch.randn(*shape)


def ids(*shape: int, size: int = WORDS) -> torch.Tensor:
    return torch.arange(1, 1 + torch.Size(shape).numel()).mul(7).reshape(shape) % (size - 4) + 4


def _lengths() -> torch.Tensor:
    return torch.tensor([N, N - 2])


def _mask() -> torch.Tensor:
    return attnbook.padding_mask(_lengths())[:, None]


def _parts(**options) -> attnbook.Parts:
    return attnbook.paper_parts(D, 2, 2 * D, **options)


def _key_mask() -> torch.Tensor:
    return _mask()[:, 0]


def _rows(make, **masks) -> Callable[[], Entry]:
    """What reads rows ``(B, N, D)``, with its masks."""
    return lambda: Entry(make(), (floats(B, N, D),), {name: mask() for name, mask in masks.items()})


def _layer(kind, **options) -> Callable[[], Entry]:
    return _rows(lambda: kind(D, 2, **options), mask=_mask)


def _score(name: str) -> Callable[[], Entry]:
    return lambda: Entry(
        attnbook.make_score(name, D, D, max_length=N), (floats(B, 3, D), floats(B, N, D))
    )


def _residual(kind, *more: Callable[[int], nn.Module]) -> Callable[[], Entry]:
    rest = lambda: (make(D) for make in more)  # noqa: E731
    made = lambda: kind(attnbook.LayerNorm(D), attnbook.Dropout(0.1), *rest())  # noqa: E731
    return lambda: Entry(_Around(made(), nn.Linear(D, D)), (floats(B, N, D),))


class _Around(nn.Module):
    """A residual connection around a layer."""

    def __init__(self, residual: nn.Module, layer: nn.Module) -> None:
        super().__init__()
        self.residual, self.layer = residual, layer

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.residual(x, self.layer)


def _translator(kind, **options) -> Callable[[], Entry]:
    return lambda: Entry(
        kind(WORDS, WORDS, **options), (ids(B, N), _lengths(), ids(B, 4)), _weights(kind)
    )


def _weights(kind) -> dict:
    return {} if kind is attnbook.Seq2Seq else {"need_weights": True}


def _words(kind, **options) -> Callable[[], Entry]:
    return lambda: Entry(kind(WORDS, **options), (ids(B, N), _lengths()))


def _pointer(kind, **options) -> Callable[[], Entry]:
    return lambda: Entry(
        kind(2, hidden_size=D, ends=True, d_embed=D, **options),
        (floats(B, N, 2), _lengths(), torch.tensor([[1, 0, 5], [2, 1, 5]])),
    )


def _episode(kind) -> Callable[[], Entry]:
    return lambda: Entry(
        kind(attnbook.PictureEmbedding(16, filters=4, d_output=D, stages=2), ways=2),
        (torch.rand(B, 2, 16, 16), torch.tensor([[0, 1], [1, 0]]), torch.rand(B, 1, 16, 16)),
    )


def _sagan(which: int) -> Callable[[], Entry]:
    def make() -> Entry:
        pair = attnbook.sagan_pair(16, channels=4, d_noise=6, num_classes=3, attention_at=8)
        module = pair[which]
        x = floats(B, 6) if which == 0 else floats(B, 3, 16, 16)
        return Entry(module, (x, torch.tensor([0, 2])))

    return make


def _residual_instead() -> Entry:
    return Entry(attnbook.ResidualInstead(8), (floats(B, 8, 4, 4),))


def _syntactic() -> Entry:
    heads = torch.tensor([[-1, 0, 1, 1, 0], [-1, 0, 0, 0, 0]])
    model = attnbook.SyntacticEncoderModel(WORDS, _parts(), num_layers=1)
    return Entry(model, (ids(B, N), heads, _lengths()))


def _syntactic_heads() -> Entry:
    offset = attnbook.tree_offset(torch.tensor([[-1, 0, 1, 1, 0]] * B))
    layer = attnbook.SyntacticMultiHeadAttention(D, 2, max_distance=2, max_tree_distance=2)
    return Entry(layer, (floats(B, N, D), offset), {"mask": _mask()})


MAKE: dict[str, Callable[[], Entry]] = {
    **{
        type(attnbook.make_score(n, D, D, max_length=N)).__name__: _score(n)
        for n in attnbook.SCORES
    },
    "SoftCappedScore": lambda: Entry(
        attnbook.SoftCappedScore(attnbook.AdditiveScore(D, D), 0.5),
        (floats(B, 3, D), floats(B, N, D)),
    ),
    "ALiBi": lambda: Entry(attnbook.ALiBi(3), (floats(B, 3, 4, D), floats(B, 3, N, D))),
    "LatentAttention": _rows(
        lambda: attnbook.LatentAttention(
            D, 2, d_latent=6, d_head=4, rotary=attnbook.RotaryPositions(2), d_query_latent=5
        ),
        mask=_mask,
    ),
    "MultiHeadAttention": _layer(attnbook.MultiHeadAttention),
    "RelativeMultiHeadAttention": _layer(attnbook.RelativeMultiHeadAttention, max_distance=2),
    "LocalAttention": _layer(attnbook.LocalAttention, block_length=3),
    "MemoryCompressedAttention": _layer(attnbook.MemoryCompressedAttention),
    "LinformerAttention": _layer(attnbook.LinformerAttention, length=6, rank=3),
    "SyntacticMultiHeadAttention": _syntactic_heads,
    "LinearAttention": _rows(
        lambda: attnbook.LinearAttention(
            D, 2, **{**attnbook.LINEAR_ATTENTIONS["gated_delta"], "decay": "vector"}
        ),
        mask=_mask,
    ),
    "Mamba2Mixer": _rows(
        lambda: attnbook.Mamba2Mixer(D, d_state=3, d_head=4, num_groups=2), mask=_mask
    ),
    "ShortConvolution": _rows(lambda: attnbook.ShortConvolution(D, 3), key_mask=_key_mask),
    "LengthProjection": lambda: Entry(attnbook.LengthProjection(6, 3), (floats(B, 2, N, D),)),
    "PredictedPosition": lambda: Entry(
        attnbook.PredictedPosition(D), (floats(B, 3, D), _lengths())
    ),
    "PictureAttention": lambda: Entry(attnbook.PictureAttention(16), (floats(B, 16, 4, 4),)),
    "PooledPictureAttention": lambda: Entry(
        attnbook.PooledPictureAttention(16), (floats(B, 16, 4, 4),)
    ),
    "AttentionBlock": _rows(lambda: attnbook.AttentionBlock(D, 4, 4)),
    "DenseBlock": _rows(lambda: attnbook.DenseBlock(D, 4, 2)),
    "TCBlock": _rows(lambda: attnbook.TCBlock(D, N, 4)),
    "CausalConvolution": _rows(lambda: attnbook.CausalConvolution(D, 4, 2)),
    "BatchNorm": _rows(lambda: attnbook.BatchNorm(D), key_mask=_key_mask),
    "ConditionalBatchNorm": lambda: Entry(
        attnbook.ConditionalBatchNorm(D, 3), (floats(B, D, 4, 4), torch.tensor([0, 2]))
    ),
    "LayerNorm": _rows(lambda: attnbook.LayerNorm(D)),
    "RMSNorm": _rows(lambda: attnbook.RMSNorm(D)),
    "Dropout": _rows(lambda: attnbook.Dropout(0.5)),
    "FeedForward": _rows(lambda: attnbook.FeedForward(D, 2 * D, "gelu")),
    "LoRALinear": _rows(lambda: attnbook.LoRALinear(nn.Linear(D, 6), 2)),
    "GatedFeedForward": _rows(lambda: attnbook.GatedFeedForward(D, 2 * D)),
    "MixtureOfExperts": _rows(lambda: attnbook.MixtureOfExperts(D, 3, lambda: nn.Linear(D, D))),
    "Switch": _rows(lambda: attnbook.Switch(D, 3, lambda: nn.Linear(D, D))),
    "NoResidual": _residual(attnbook.NoResidual),
    "PostNorm": _residual(attnbook.PostNorm),
    "PreNorm": _residual(attnbook.PreNorm),
    "ReZero": _residual(attnbook.ReZero),
    "SandwichNorm": _residual(attnbook.SandwichNorm, attnbook.LayerNorm),
    "LearnedPositions": _rows(lambda: attnbook.LearnedPositions(N, D)),
    "NoPositions": _rows(lambda: attnbook.NoPositions()),
    "RotaryPositions": _rows(lambda: attnbook.RotaryPositions(D)),
    "SinusoidalPositions": _rows(lambda: attnbook.SinusoidalPositions(D)),
    "StructuralPositions": lambda: Entry(
        attnbook.StructuralPositions(D), (floats(B, N, D), torch.arange(N).expand(B, N))
    ),
    "NTM": lambda: Entry(
        attnbook.NTM(4, 3, hidden_size=D, slots=6, slot_width=4), (floats(B, N, 4),)
    ),
    "Captioner": lambda: Entry(
        attnbook.Captioner(
            WORDS, PictureEncoder((2, 2), D), d_feature=D, d_embed=D, hidden_size=D, d_attention=D
        ),
        (torch.rand(B, 3, 16, 16), ids(B, 4)),
    ),
    "FeedForwardAttention": lambda: Entry(
        attnbook.FeedForwardAttention(2, D), (floats(B, N, 2), _lengths())
    ),
    "HierarchicalAttention": lambda: Entry(
        attnbook.HierarchicalAttention(WORDS, 3, d_embed=D, hidden_size=D),
        (ids(B, 3, 4), torch.tensor([[4, 2, 0], [3, 3, 1]])),
    ),
    "MemoryNetwork": lambda: Entry(
        attnbook.MemoryNetwork(WORDS, d_embed=D, hops=2), (ids(B, 3, 4), ids(B, 3))
    ),
    "PictureGenerator": _sagan(0),
    "PictureDiscriminator": _sagan(1),
    "ResidualInstead": _residual_instead,
    "PointerNetwork": _pointer(attnbook.PointerNetwork),
    "FixedDictionary": _pointer(attnbook.FixedDictionary, most=N, attention=True),
    "Seq2Seq": _translator(attnbook.Seq2Seq, d_embed=D, hidden_size=D),
    "Bahdanau": _translator(attnbook.Bahdanau, d_embed=D, hidden_size=D),
    "Luong": _translator(attnbook.Luong, d_embed=D, hidden_size=D),
    "LSTMLanguageModel": _words(attnbook.LSTMLanguageModel, d_embed=D, hidden_size=D),
    "LSTMN": _words(attnbook.LSTMN, d_embed=D, hidden_size=D),
    "PictureEmbedding": lambda: Entry(
        attnbook.PictureEmbedding(16, filters=4, d_output=D, stages=2), (torch.rand(B, 1, 16, 16),)
    ),
    "FewShotSNAIL": _episode(attnbook.FewShotSNAIL),
    "Prototypes": _episode(attnbook.Prototypes),
    "SNAIL": _rows(lambda: attnbook.SNAIL(D, 3, N)),
    "Transformer": lambda: Entry(
        attnbook.Transformer(WORDS, WORDS, _parts(), num_layers=1),
        (ids(B, N), _lengths(), ids(B, 4)),
    ),
    "TransformerEncoderModel": lambda: Entry(
        attnbook.TransformerEncoderModel(WORDS, _parts(), num_layers=1), (ids(B, N), _lengths())
    ),
    "VisionTransformer": lambda: Entry(
        attnbook.VisionTransformer(4, 2, 5, _parts(), colors=1, num_layers=1), (floats(B, 1, 4, 4),)
    ),
    "Perceiver": lambda: Entry(
        attnbook.Perceiver(3, 2, 5, _parts(), num_layers=1),
        (floats(B, N, 3),),
        {"key_mask": _mask()[:, 0]},
    ),
    "CaptionedDenoiser": lambda: Entry(
        attnbook.CaptionedDenoiser(4, 2, WORDS, N, _parts(), colors=1, num_layers=1),
        (floats(B, 1, 4, 4), torch.tensor([0.2, 0.7]), ids(B, N), _lengths()),
    ),
    "TransformerLM": lambda: Entry(
        attnbook.TransformerLM(WORDS, _parts(), num_layers=1), (ids(B, N), _lengths())
    ),
    "SyntacticEncoderModel": _syntactic,
}
"""How to make each; a name may stand for one class only."""

BASE_CLASSES = {"Score", "ResidualConnection", "SlidingWindow"}  # no layer each


def make(name: str, seed: int = 0) -> Entry:
    """A new module of that name with its inputs, the same for a seed.

    No parameter stands where it starts: at a zero some gradients vanish and some gates tie.
    """
    torch.manual_seed(seed)
    entry = MAKE[name]()
    with torch.no_grad():
        for parameter in entry.module.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
    return entry


def without_chance(name: str, training: bool = True) -> Entry:
    """The same without dropout, whose draws differ from way to way."""
    entry = make(name)
    for part in entry.module.train(training).modules():
        if isinstance(part, attnbook.Dropout | nn.Dropout):
            part.p = 0.0
        if isinstance(part, attnbook.MixtureOfExperts):
            nn.init.zeros_(part.noise)  # as much noise on all gates, of one seed
    return entry
