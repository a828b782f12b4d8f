"""Show, attend and tell: an LSTM that describes a picture by its regions."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from ...decoding.step import Step, TokenIds, check_target, check_token_ids
from ...mechanisms import AdditiveScore, attend, masked_softmax
from ...validate import check_choice, check_integer, describe, require

__all__ = ["Captioner", "Captions", "Glimpse", "PictureEncoder", "Regions"]
__all__ += ["HardAttention", "MeanContext", "SoftAttention"]


class Regions(NamedTuple):
    """An encoded picture: one feature vector per region, its key, and the mean of the features."""

    features: Tensor  # a_i, (batch, L, D)
    projected: Tensor  # W_a a_i, computed once per picture, (batch, L, d_attention)
    mean: Tensor  # (1/L) Σ_i a_i, (batch, D)


class Glimpse(NamedTuple):
    """The result of one attention step; None where the attention has no such value."""

    context: Tensor  # before the gate, (batch, D)
    weights: Tensor | None  # α, (batch, L)
    # log α at the sampled region, 0 for rows that took the expectation, (batch,)
    log_choice: Tensor | None = None


class Captions(NamedTuple):
    """A caption read with teacher forcing, m steps."""

    logits: Tensor  # (batch, m, vocabulary)
    weights: Tensor | None  # (batch, m, L)
    log_choice: Tensor | None  # (batch, m)


class PictureEncoder(nn.Module):
    """Pictures to feature vectors on a grid: three convolutions that halve the sides, with ReLU.

    ``a_i = ReLU(W ReLU(z_i + P [x_i; y_i]))`` with z the H × W × D features of the convolutions and
    (x_i, y_i) the place of region i, from −1 to 1, which tells equal regions apart.

    Args:
        grid: rows and columns of regions; a picture is 8 times as high and wide, in pixels.
        d_feature: ``D``.
        overlap: False: kernels of 2 × 2, a region sees its own 8 × 8 pixels and nothing else. True:
            kernels of 4 × 4 with a margin, a region sees 22 × 22 pixels, so also the 7 around it.

    Shapes: uint8 ``(batch, 3, 8·rows, 8·columns)``, or floats in [0, 1], →
    ``(batch, rows·columns, D)``, row by row.

    Source: takes the place of the VGG network of Xu et al. 2015; small, trained with the decoder.
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

    def forward(self, pictures: Tensor) -> Tensor:
        size = (3, 8 * self.grid[0], 8 * self.grid[1])
        require(
            isinstance(pictures, Tensor)
            and pictures.dim() == 4
            and tuple(pictures.shape[1:]) == size,
            f"pictures must be (batch, {', '.join(map(str, size))}), got {describe(pictures)}",
        )
        require(
            pictures.is_floating_point() or pictures.dtype == torch.uint8,
            f"pictures must be uint8 or floating point numbers, got {pictures.dtype}",
        )
        if pictures.dtype == torch.uint8:
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

    def project_keys(self, features: Tensor) -> Tensor:
        return self.score.project_keys(features)

    def forward(self, query: Tensor, regions: Regions, expected: Tensor | None = None) -> Glimpse:
        context, weights = attend(
            self.score, query[:, None], regions.features, projected_keys=regions.projected
        )
        assert weights is not None
        return Glimpse(context[:, 0], weights[:, 0])


class HardAttention(SoftAttention):
    """The context is one region: drawn from α_t in training, the most probable in evaluation.

    ``s_t ~ Categorical(α_t)``, context ``a_{s_t}``; no gradient passes through the draw, see
    :func:`~attnbook.models.captioner.losses.reinforce_loss`.

    ``expected``, boolean ``(batch,)``, marks rows that take the expectation Σ_i α_ti a_i instead
    (training only). Source: Xu et al. 2015, section 4.1."""

    def forward(self, query: Tensor, regions: Regions, expected: Tensor | None = None) -> Glimpse:
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

    def project_keys(self, features: Tensor) -> Tensor:
        return features[..., :0]

    def forward(self, query: Tensor, regions: Regions, expected: Tensor | None = None) -> Glimpse:
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
        d_embed, hidden_size, d_attention: widths of word vectors, LSTM and score's hidden layer.
        token_ids: the ids that are no words, for decoding; as a rule ``vocabulary.token_ids``.
            Without it every id is a word.

    Source: Xu et al. 2015, section 3.1 and equations 1–7; "none" has one constant context.
    """

    baseline: Tensor

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
        kinds = {"soft": SoftAttention, "hard": HardAttention, "none": lambda *sizes: MeanContext()}
        kind = kinds[check_choice("attention", attention, kinds)]
        self.vocabulary_size = check_integer("vocabulary_size", vocabulary_size)
        self.token_ids = check_token_ids(token_ids, vocabulary_size)
        check_integer("d_feature", d_feature)
        check_integer("d_embed", d_embed)
        check_integer("hidden_size", hidden_size)
        check_integer("d_attention", d_attention)
        self.encoder = encoder
        self.attention = kind(hidden_size, d_feature, d_attention)
        self.embedding = nn.Embedding(vocabulary_size, d_embed, padding_idx=self.token_ids.padding)
        self.first_hidden = nn.Linear(d_feature, hidden_size)  # W_h0
        self.first_cell = nn.Linear(d_feature, hidden_size)  # W_c0
        self.gate = nn.Linear(hidden_size, 1)  # β
        self.cell = nn.LSTMCell(d_embed + d_feature, hidden_size)
        self.from_hidden = nn.Linear(hidden_size, d_embed)  # W_h
        self.from_context = nn.Linear(d_feature, d_embed, bias=False)  # W_z
        self.output = nn.Linear(d_embed, vocabulary_size)  # W_o
        self.register_buffer("baseline", torch.zeros(()))  # b, mean of log p(caption); 0: none yet

    def encode(self, pictures: Tensor) -> Regions:
        """Features and keys of pictures, computed once however many words follow."""
        features = self.encoder(pictures)
        width, given = features.shape[-1], self.first_hidden.in_features
        require(
            width == given,
            f"d_feature must be the width of the encoder's features, {width}, got {given}",
        )
        return Regions(features, self.attention.project_keys(features), features.mean(1))

    def start(self, regions: Regions) -> tuple[Tensor, Tensor]:
        """h_0 and c_0 from the mean of the features."""
        return self.first_hidden(regions.mean).tanh(), self.first_cell(regions.mean).tanh()

    def _advance(self, embedded, state, regions, expected=None):
        glimpse = self.attention(state[0], regions, expected)
        # β is (batch, 1): one number for all of the context
        z = self.gate(state[0]).sigmoid() * glimpse.context
        return self.cell(torch.cat([embedded, z], -1), state), z, glimpse

    def _deep_output(self, embedded, hidden, z):
        return self.output(embedded + self.from_hidden(hidden) + self.from_context(z))

    def step(
        self,
        token: Tensor,
        state: tuple[Tensor, Tensor],
        regions: Regions,
        *,
        need_weights: bool = False,
    ) -> Step:
        """Read one token ``(batch,)``, attend to the picture, score the next token."""
        embedded = self.embedding(token)
        state, z, glimpse = self._advance(embedded, state, regions)
        weights = glimpse.weights if need_weights else None
        return Step(self._deep_output(embedded, state[0], z), state, weights)

    def forward(
        self, pictures: Tensor, target_in: Tensor, *, expected: Tensor | None = None
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
        logits = self._deep_output(embedded, torch.stack(hidden, 1), torch.stack(contexts, 1))
        _, *parts = zip(*glimpses)  # weights and log_choice of all steps
        return Captions(logits, *(None if p[0] is None else torch.stack(p, 1) for p in parts))
