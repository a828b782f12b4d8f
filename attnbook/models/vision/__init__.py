"""Transformers that see: pictures as patches, latents that read, pictures drawn from words."""

from .captioned_denoiser import CaptionedDenoiser
from .perceiver import Perceiver, fourier_features
from .vision_transformer import VisionTransformer, patches_of

__all__ = ["CaptionedDenoiser", "Perceiver", "VisionTransformer", "fourier_features", "patches_of"]
