"""Pictures drawn from words: a denoiser whose patches attend to a caption."""

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from ...kernels.layers import Linear
from ...mechanisms import padding_mask
from ...mechanisms.layers.embeddings import ScaledEmbedding
from ...mechanisms.positions.absolute import LearnedPositions, wave_vectors
from ...validate import (
    check_choice,
    check_ids,
    check_integer,
    check_lengths,
    check_number,
    check_tensor,
    require,
)
from ..transformer.parts import Parts, check_parts
from .vision_transformer import check_pictures, patches_of, pre_norm_parts

__all__ = ["CaptionedDenoiser", "NoisyBatch", "draw_from_noise", "flow_loss", "with_noise"]

CONDITIONING = ("cross-attention", "one vector")


class CaptionedDenoiser(nn.Module):
    """Which way from a noisy picture to a clean one, told what it should show.

    Between a picture x_0 and noise ε lie ``x_t = (1 − t) x_0 + t ε``; the network estimates the
    velocity ``ε − x_0`` from x_t, t and a caption, so that small steps against it lead from noise
    to a picture. Its blocks are those of a Transformer's decoder without a causal mask: patches
    attend to one another, then to the words. That is the block that latent diffusion puts into its
    U-Net; here patches stand in for the U-Net, and pixels for its latents.

    ``v = (t − (1 − t) σ²) y / r² − μ + (σ / r) F(x_t, t, caption)``

    ``y = x_t − (1 − t) μ``,  ``r² = t² + (1 − t)² σ²``

    where the network F has only to tell by how much the velocity differs from the best guess of
    somebody who knows nothing of pictures but their mean μ and standard deviation σ.

    Args:
        size, side, colors: of pictures and patches, as in
            :class:`~attnbook.models.vision.vision_transformer.VisionTransformer`.
        vocabulary_size: of the captions; id 0 is padding.
        max_words: the longest caption.
        parts: what the blocks are built of; when not given, 256 wide, 4 heads, pre-norm, GELU.
        num_layers: blocks.
        conditioning: "cross-attention": every patch looks at the words. "one vector": the words
            read one another in a block of their own, and the mean of what they found is added to
            every patch, as is the time; the blocks are then those of an encoder.
        mean, deviation: μ and σ of the numbers of the pictures.

    Shapes: pictures ``(batch, colors, size, size)``, time ``(batch,)`` from 0 to 1, words
    ``(batch, n)``, lengths ``(batch,)`` or None → velocity as pictures, and the weights of each
    block over the words, ``(batch, h, N, n)``, or None.

    Source: cross-attention as conditioning, Rombach et al. 2022, section 3.3; the straight paths,
    Liu et al. 2023, equation 1, and Lipman et al. 2023; the guess that F corrects, Karras et al.
    2022, section 5, here for these paths.
    """

    def __init__(
        self,
        size: int,
        side: int,
        vocabulary_size: int,
        max_words: int,
        parts: Parts | None = None,
        *,
        colors: int = 3,
        num_layers: int = 4,
        conditioning: str = "cross-attention",
        mean: float = 0.0,
        deviation: float = 0.5,
    ) -> None:
        super().__init__()
        self.size, self.side = check_integer("size", size), check_integer("side", side)
        require(size % side == 0, f"side must divide size, got {side} and {size}")
        self.colors = check_integer("colors", colors)
        self.conditioning = check_choice("conditioning", conditioning, CONDITIONING)
        self.mean, self.deviation = float(mean), check_number("deviation", deviation, above=0)
        parts = check_parts(pre_norm_parts(256, 4, 1024) if parts is None else parts)
        d_model = self.d_model = parts.d_model
        self.patch_projection = Linear(colors * side**2, d_model)
        self.positions = LearnedPositions((size // side) ** 2, d_model)
        self.words = ScaledEmbedding(vocabulary_size, d_model)
        self.word_positions = LearnedPositions(max_words, d_model)
        self.time = nn.Sequential(Linear(d_model, d_model), nn.SiLU(), Linear(d_model, d_model))
        if conditioning == "cross-attention":
            self.stack: Any = parts.make_decoder(num_layers)
        else:
            self.reader, self.stack = parts.make_encoder(1), parts.make_encoder(num_layers)
        self.output = Linear(d_model, colors * side**2)

    def forward(
        self,
        pictures: Tensor,
        time: Tensor,
        words: Tensor,
        lengths: Tensor | None = None,
        *,
        need_weights: bool = False,
    ) -> tuple[Tensor, tuple[Tensor, ...] | None]:
        check_pictures(pictures, self.colors, self.size, self.size)
        check_tensor("time", time, width=len(pictures), least=1)
        check_ids("words", words, self.words.num_embeddings)
        if lengths is not None:
            check_lengths(lengths, len(words), "words", 1, words.shape[-1])
        # the waves are made for positions in the hundreds
        told = self.time(wave_vectors(1000 * time, self.d_model).to(pictures.dtype))
        x = self.positions(self.patch_projection(patches_of(pictures, self.side)))
        x = x + told.unsqueeze(-2)  # (batch, N, d_model)
        caption = self.word_positions(self.words(words))  # (batch, n, d_model)
        mask = None if lengths is None else padding_mask(lengths.to(words.device), words.shape[-1])
        weights = None
        if self.conditioning == "cross-attention":
            source = self.stack.project(caption)
            where = None if mask is None else mask.unsqueeze(-2)
            stacked = self.stack(x, source, source_mask=where, need_weights=need_weights)
            if need_weights:
                weights = tuple(of_words for _, of_words in stacked.weights)
        else:
            caption = self.reader(caption, mask=None if mask is None else mask.unsqueeze(-2)).x
            if mask is None:
                vector = caption.mean(-2, keepdim=True)
            else:
                there = mask.unsqueeze(-1).to(caption.dtype)
                vector = (caption * there).sum(-2, keepdim=True) / there.sum(-2, keepdim=True)
            stacked = self.stack(x + vector)
        return self._velocity(self._joined(self.output(stacked.x)), pictures, time), weights

    def _velocity(self, correction: Tensor, pictures: Tensor, time: Tensor) -> Tensor:
        t, variance = time.view(-1, 1, 1, 1), self.deviation**2
        square = t**2 + (1 - t) ** 2 * variance
        centred = pictures - (1 - t) * self.mean
        known = (t - (1 - t) * variance) / square * centred - self.mean
        return known + self.deviation / square.sqrt() * correction

    def _joined(self, patches: Tensor) -> Tensor:
        """The pictures that patches ``(batch, N, colors · P²)`` were cut from."""
        rows = self.size // self.side
        cut = patches.unflatten(-1, (self.colors, self.side, self.side)).unflatten(1, (rows, rows))
        return cut.permute(0, 3, 1, 4, 2, 5).flatten(-2).flatten(-3, -2)


class NoisyBatch(NamedTuple):
    """Pictures with captions of one length, and what they are mixed with.

    pictures, noise ``(batch, colors, size, size)``, words ``(batch, n)``, time ``(batch,)`` from 0
    to 1."""

    pictures: Tensor
    words: Tensor
    noise: Tensor
    time: Tensor


def with_noise(pictures: Tensor, words: Tensor, generator: torch.Generator) -> NoisyBatch:
    """Noise ``ε ~ N(0, 1)`` and a time ``t ~ U(0, 1)`` for each picture."""
    shape, dtype, device = pictures.shape, pictures.dtype, generator.device
    noise = torch.randn(shape, generator=generator, dtype=dtype, device=device)
    time = torch.rand(shape[0], generator=generator, dtype=dtype, device=device)
    return NoisyBatch(pictures, words, noise, time)


def flow_loss(model: nn.Module, batch: NoisyBatch) -> tuple[Tensor, int]:
    """Squared error of the velocity, summed over pictures and averaged over their numbers, and how
    many pictures: as ``fit`` expects.

    ``Σ mean (v(x_t, t, caption) − (ε − x_0))²``

    Source: Liu et al. 2023, equation 1.
    """
    t = batch.time.view(-1, 1, 1, 1)
    mixed = (1 - t) * batch.pictures + t * batch.noise
    velocity, _ = model(mixed, batch.time, batch.words)
    error = (velocity - (batch.noise - batch.pictures)).square()
    return error.mean((1, 2, 3)).sum(), len(error)


@torch.no_grad()
def draw_from_noise(
    model: CaptionedDenoiser,
    words: Tensor,
    lengths: Tensor | None = None,
    *,
    steps: int = 20,
    generator: torch.Generator,
) -> Tensor:
    """One picture for each caption: from noise at t = 1 to t = 0 in equal Euler steps.

    Args:
        words, lengths: ``(batch, n)`` and ``(batch,)``, see :class:`CaptionedDenoiser`.
        steps: how many.
        generator: of the noise, on the CPU.

    Returns:
        ``(batch, colors, size, size)``, not clamped.
    """
    check_integer("steps", steps)
    weight = model.output.weight
    shape = (len(words), model.colors, model.size, model.size)
    x = torch.randn(shape, generator=generator, device=generator.device).to(weight)
    for k in range(steps, 0, -1):
        time = torch.full((len(words),), k / steps, dtype=weight.dtype, device=weight.device)
        x = x - model(x, time, words, lengths)[0] / steps
    return x
