"""Show, attend and tell: an LSTM that describes a picture, with soft, hard or no attention over its
regions.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import nn

from ..decoding.step import Step, TokenIds, check_token_ids
from ..mechanisms import AdditiveScore, attend, masked_softmax
from ..modules import counted_targets
from ..validate import check_choice, check_integer, describe, require
from .rnn.common import check_target

__all__ = [
    "Captioner",
    "Captions",
    "Glimpse",
    "HardAttention",
    "MeanContext",
    "PictureEncoder",
    "Regions",
    "SoftAttention",
    "caption_loss",
    "coverage_penalty",
    "reinforce_loss",
]


class Regions(NamedTuple):
    """An encoded picture: one feature vector per region, its key, and the mean of the features."""

    features: torch.Tensor  # a_i, (batch, L, D)
    projected: torch.Tensor  # W_a a_i, computed once per picture, (batch, L, d_attention)
    mean: torch.Tensor  # (1/L) Σ_i a_i, (batch, D)


class Glimpse(NamedTuple):
    """The result of one attention step; None where the attention has no such value."""

    context: torch.Tensor  # before the gate, (batch, D)
    weights: torch.Tensor | None  # α, (batch, L)
    # log α at the sampled region, 0 for rows that took the expectation, (batch,)
    log_choice: torch.Tensor | None = None


class Captions(NamedTuple):
    """A caption read with teacher forcing, m steps."""

    logits: torch.Tensor  # (batch, m, vocabulary)
    weights: torch.Tensor | None  # (batch, m, L)
    log_choice: torch.Tensor | None  # (batch, m)


class PictureEncoder(nn.Module):
    """Pictures to feature vectors on a grid: three stages of convolution and ReLU, each halves
    height and width.

    ``a_i = ReLU(W ReLU(z_i + P [x_i; y_i]))`` with z the H × W × D features of the convolutions and
    (x_i, y_i) the place of region i, from −1 to 1, without which equal regions in two places would
    be equal vectors.

    Args:
        grid: rows and columns of regions; a picture is 8 times as high and wide, in pixels.
        d_feature: D.
        overlap: False: kernels of 2 × 2, a region sees its own 8 × 8 pixels and nothing else. True:
            kernels of 4 × 4 with a margin, a region sees 22 × 22 pixels, so also the 7 around it.

    Shapes: uint8 ``(batch, 3, 8·rows, 8·columns)``, or floats in [0, 1], →
    ``(batch, rows·columns, D)``, row by row.

    Source: the place of the VGG network of Xu et al. 2015; here it is small and trained with the
    decoder.
    """

    def __init__(self, grid: tuple[int, int], d_feature: int = 64, overlap: bool = False) -> None:
        super().__init__()
        self.grid = (check_integer("rows", grid[0]), check_integer("columns", grid[1]))
        kernel, margin = (4, 1) if overlap else (2, 0)
        widths = [3, 16, 32, check_integer("d_feature", d_feature)]
        convolutions = [
            nn.Conv2d(before, width, kernel, stride=2, padding=margin)
            for before, width in zip(widths, widths[1:])
        ]
        stages = [layer for each in convolutions for layer in (each, nn.ReLU())]
        self.convolutions = nn.Sequential(*stages[:-1])
        y, x = (torch.linspace(-1, 1, count) if count > 1 else torch.zeros(1) for count in grid)
        self.register_buffer(
            "places", torch.stack(torch.meshgrid(x, y, indexing="xy"), -1), persistent=False
        )
        self.place = nn.Linear(2, d_feature, bias=False)  # P
        self.mix = nn.Linear(d_feature, d_feature)  # W
        # PyTorch's own start shrinks the signal in every layer
        for layer in (*convolutions, self.mix):
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        size = (3, 8 * self.grid[0], 8 * self.grid[1])
        require(
            isinstance(pictures, torch.Tensor)
            and pictures.dim() == 4
            and tuple(pictures.shape[1:]) == size,
            f"pictures must be (batch, {', '.join(map(str, size))}), got {describe(pictures)}",
        )
        require(
            pictures.is_floating_point() or pictures.dtype == torch.uint8,
            f"pictures must be uint8 or floating point numbers, got {pictures.dtype}",
        )
        if not pictures.is_floating_point():
            pictures = pictures.to(self.mix.weight.dtype) / 255
        z = self.convolutions(2 * pictures - 1).permute(0, 2, 3, 1)  # (batch, rows, columns, D)
        return self.mix((z + self.place(self.places)).relu()).relu().flatten(1, 2)


class SoftAttention(nn.Module):
    """The context is the expectation over the regions.

    ``e_ti = v·tanh(W_h h_{t−1} + W_a a_i)``, ``α_t = softmax_i(e_t)``, context ``Σ_i α_ti a_i``

    Shapes: query ``(batch, d_query)``, :class:`Regions` of L regions → :class:`Glimpse`.
    Source: Xu et al. 2015, equations 4, 5 and 13.
    """

    def __init__(self, d_query: int, d_feature: int, d_attention: int) -> None:
        super().__init__()
        self.score = AdditiveScore(d_query, d_feature, d_attention)

    def project_keys(self, features: torch.Tensor) -> torch.Tensor:
        return self.score.project_keys(features)

    def forward(
        self, query: torch.Tensor, regions: Regions, expected: torch.Tensor | None = None
    ) -> Glimpse:
        context, weights = attend(
            self.score, query[:, None], regions.features, projected_keys=regions.projected
        )
        assert weights is not None
        return Glimpse(context[:, 0], weights[:, 0])


class HardAttention(SoftAttention):
    """The context is one region: drawn from α_t while training, the most probable one in
    evaluation.

    ``s_t ~ Categorical(α_t)``, context ``a_{s_t}``; no gradient passes through the draw, see
    :func:`reinforce_loss`.

    ``expected``, boolean ``(batch,)``, marks rows that take the expectation Σ_i α_ti a_i instead
    (training only). Source: Xu et al. 2015, section 4.1."""

    def forward(
        self, query: torch.Tensor, regions: Regions, expected: torch.Tensor | None = None
    ) -> Glimpse:
        # (batch, L)
        weights = masked_softmax(self.score.compare(query[:, None], regions.projected))[:, 0]
        weights = weights.to(regions.features.dtype)
        if self.training:
            chosen = torch.multinomial(weights.detach().float(), 1)  # (batch, 1)
        else:
            chosen = weights.argmax(-1, keepdim=True)
        rows = torch.arange(len(query), device=query.device)
        context = regions.features[rows, chosen[:, 0]]  # reads one vector of the L
        if not self.training:
            return Glimpse(context, weights)
        log_choice = weights.gather(-1, chosen)[:, 0].clamp_min(1e-12).log()
        if expected is not None:
            mean = (weights[:, None] @ regions.features)[:, 0]
            context = torch.where(expected[:, None], mean, context)
            log_choice = log_choice.masked_fill(expected, 0.0)
        return Glimpse(context, weights, log_choice)


class MeanContext(nn.Module):
    """No attention: the context is the mean of the features, the same at every step."""

    def project_keys(self, features: torch.Tensor) -> torch.Tensor:
        return features[..., :0]

    def forward(
        self, query: torch.Tensor, regions: Regions, expected: torch.Tensor | None = None
    ) -> Glimpse:
        return Glimpse(regions.mean, None)


class Captioner(nn.Module):
    """An LSTM that writes a caption and attends to the picture before every word.

    ``h_0 = tanh(W_h0 ā)``, ``c_0 = tanh(W_c0 ā)``, ā the mean of the features;
    ``ẑ_t = β_t · attention(h_{t−1}, a)``, ``β_t = σ(w_β·h_{t−1} + b_β)``, one number per step;
    ``h_t = LSTM([E y_{t−1}; ẑ_t], h_{t−1})``;
    ``p(y_t) = softmax(W_o(E y_{t−1} + W_h h_t + W_z ẑ_t))``.

    Args:
        vocabulary_size: number of tokens.
        encoder: pictures to ``(batch, L, D)``, a :class:`PictureEncoder`.
        attention: "soft", "hard" or "none".
        d_feature: D, as the encoder gives it.
        d_embed, hidden_size, d_attention: widths of the word vectors, of the LSTM and of the
            score's hidden layer.
        token_ids: the ids that are no words, for decoding; as a rule ``vocabulary.token_ids``.
            Without it every id is a word.

    Source: Xu et al. 2015, section 3.1 and equations 1–7; "none" is the captioner with one constant
    context.
    """

    baseline: torch.Tensor

    def __init__(
        self,
        vocabulary_size: int,
        encoder: PictureEncoder,
        attention: str = "soft",
        *,
        d_feature: int = 64,
        d_embed: int = 32,
        hidden_size: int = 128,
        d_attention: int = 64,
        token_ids: TokenIds | None = None,
    ) -> None:
        super().__init__()
        kinds = {"soft": SoftAttention, "hard": HardAttention}
        check_choice("attention", attention, (*kinds, "none"))
        self.vocabulary_size = check_integer("vocabulary_size", vocabulary_size)
        self.token_ids = check_token_ids(token_ids, vocabulary_size)
        for name, size in (
            ("d_feature", d_feature),
            ("d_embed", d_embed),
            ("hidden_size", hidden_size),
            ("d_attention", d_attention),
        ):
            check_integer(name, size)
        self.encoder = encoder
        self.attention = (
            MeanContext()
            if attention == "none"
            else kinds[attention](hidden_size, d_feature, d_attention)
        )
        self.embedding = nn.Embedding(vocabulary_size, d_embed, padding_idx=self.token_ids.padding)
        self.first_hidden = nn.Linear(d_feature, hidden_size)  # W_h0
        self.first_cell = nn.Linear(d_feature, hidden_size)  # W_c0
        self.gate = nn.Linear(hidden_size, 1)  # β
        self.cell = nn.LSTMCell(d_embed + d_feature, hidden_size)
        self.from_hidden = nn.Linear(hidden_size, d_embed)  # W_h
        self.from_context = nn.Linear(d_feature, d_embed, bias=False)  # W_z
        self.output = nn.Linear(d_embed, vocabulary_size)  # W_o
        # b, moving mean of log p(caption); 0: none yet
        self.register_buffer("baseline", torch.zeros(()))

    def encode(self, pictures: torch.Tensor) -> Regions:
        """Features and keys of pictures, computed once however many words follow."""
        features, width = self.encoder(pictures), self.first_hidden.in_features
        require(
            features.shape[-1] == width,
            f"d_feature must be the width of the encoder's features, {features.shape[-1]}, got "
            f"{width}",
        )
        return Regions(features, self.attention.project_keys(features), features.mean(1))

    def start(self, regions: Regions) -> tuple[torch.Tensor, torch.Tensor]:
        """h_0 and c_0 from the mean of the features."""
        return self.first_hidden(regions.mean).tanh(), self.first_cell(regions.mean).tanh()

    def _advance(self, embedded, state, regions, expected=None):
        glimpse = self.attention(state[0], regions, expected)
        # β is (batch, 1): one number for all of the context
        z = self.gate(state[0]).sigmoid() * glimpse.context
        return self.cell(torch.cat([embedded, z], -1), state), z, glimpse

    def _read_out(self, embedded, hidden, z):
        return self.output(embedded + self.from_hidden(hidden) + self.from_context(z))

    def step(
        self,
        token: torch.Tensor,
        state: tuple[torch.Tensor, torch.Tensor],
        regions: Regions,
        *,
        need_weights: bool = False,
    ) -> Step:
        """Read one token ``(batch,)``, attend to the picture, score the next token."""
        embedded = self.embedding(token)
        state, z, glimpse = self._advance(embedded, state, regions)
        weights = glimpse.weights if need_weights else None
        return Step(self._read_out(embedded, state[0], z), state, weights)

    def forward(
        self,
        pictures: torch.Tensor,
        target_in: torch.Tensor,
        *,
        expected: torch.Tensor | None = None,
    ) -> Captions:
        """Score captions ``(batch, m)`` under teacher forcing."""
        check_target(target_in, len(pictures), self.vocabulary_size)
        regions = self.encode(pictures)
        state, embedded = self.start(regions), self.embedding(target_in)
        hidden, contexts, glimpses = [], [], []
        for e in embedded.unbind(1):
            state, z, glimpse = self._advance(e, state, regions, expected)
            hidden.append(state[0])
            contexts.append(z)
            glimpses.append(glimpse)
        logits = self._read_out(embedded, torch.stack(hidden, 1), torch.stack(contexts, 1))
        weights, log_choice = (
            None if parts[0] is None else torch.stack(parts, 1)
            for parts in ([g.weights for g in glimpses], [g.log_choice for g in glimpses])
        )
        return Captions(logits, weights, log_choice)


def coverage_penalty(weights: torch.Tensor, real: torch.Tensor) -> torch.Tensor:
    """The doubly stochastic penalty of each caption: every region should get weight 1 in all.

    ``Σ_i (1 − Σ_t α_ti)²``, t over the real steps only

    Shapes: weights ``(batch, m, L)``, real boolean ``(batch, m)`` → ``(batch,)``.
    Source: Xu et al. 2015, section 4.2.1 and equation 14.
    """
    return (1 - (weights * real[..., None]).sum(1)).square().sum(-1)


def reinforce_loss(
    log_p: torch.Tensor,
    log_choice: torch.Tensor,
    entropy: torch.Tensor,
    baseline: torch.Tensor | float,
    reward_weight: float = 1.0,
    entropy_weight: float = 0.0,
) -> torch.Tensor:
    """The number that hard attention is trained on, one per caption.

    ``−log p(y|s) − λ_r (log p(y|s) − b) · log p(s) − λ_e H``; the factor in brackets is a constant.

    With λ_r = 1 the gradient of the first two terms estimates that of −E_s[log p(y | s)]. That of
    the third is the gradient of the entropies of the steps along the choices that were drawn. It
    pushes every α_t towards even weights, as in the paper; it is not the gradient of the entropy of
    the whole sequence of choices, to which an early choice also counts through the later entropies.

    Shapes: log_p, log_choice (summed over the steps) and entropy ``(batch,)``, baseline a number →
    ``(batch,)``.
    Source: Xu et al. 2015, equation 12 and the lines after it; Williams 1992.
    """
    advantage = (log_p - baseline).detach()
    return -log_p - reward_weight * advantage * log_choice - entropy_weight * entropy


def caption_loss(
    model: Captioner,
    batch,
    *,
    coverage: float = 0.0,
    reward_weight: float = 0.3,
    entropy_weight: float = 0.003,
    expected_share: float = 0.5,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The training loss of a captioner for :func:`attnbook.training.fit`: summed over captions, and
    the number of tokens.

    ``Σ_b [−log p(y_b) + λ Σ_i (1 − Σ_t α_ti)²]``, λ = ``coverage``; for hard attention in training
    mode :func:`reinforce_loss` replaces −log p, with the moving baseline
    ``b ← 0.9 b + 0.1 mean log p``, and a caption takes the expected context with probability
    ``expected_share``.

    ``batch`` holds pictures, target_in, target_out and target_lengths as
    :class:`attnbook.tasks.images.captioned_pictures.PictureBatch`."""
    pictures, target_in, target = (t.to(model.output.weight.device) for t in batch[:3])
    hard = isinstance(model.attention, HardAttention) and model.training
    expected = torch.rand(len(target), device=target.device) < expected_share if hard else None
    out = model(pictures, target_in, expected=expected)
    real = counted_targets(batch).to(target.device)
    log_p = out.logits.float().log_softmax(-1).gather(-1, target[..., None])[..., 0]
    log_p = log_p.masked_fill(~real, 0.0).sum(1)
    if hard:
        # b starts at the first mean: from 0 the first advantages would all be large and negative
        with torch.no_grad():
            mean = log_p.mean().to(model.baseline)
            baseline = torch.where(model.baseline == 0, mean, model.baseline)
            model.baseline.copy_(0.9 * baseline + 0.1 * mean)
        entropy = -(out.weights * out.weights.clamp_min(1e-12).log()).sum(-1)
        per_caption = reinforce_loss(
            log_p,
            (out.log_choice * real).sum(1),
            (entropy * real).sum(1),
            baseline,
            reward_weight,
            entropy_weight,
        )
    else:
        per_caption = -log_p
    if coverage and out.weights is not None:
        per_caption = per_caption + coverage * coverage_penalty(out.weights, real)
    return per_caption.sum(), real.sum()
