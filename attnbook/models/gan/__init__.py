"""Self-attention GANs, the DCGAN baseline, and the classifier that judges samples."""

from .blocks import DCGAN_BLOCKS, RESIDUAL_BLOCKS, ResidualInstead
from .sagan import (
    PictureDiscriminator,
    PictureGenerator,
    PicturePair,
    attention_scales,
    dcgan_pair,
    sagan_pair,
)

__all__ = [
    "DCGAN_BLOCKS",
    "PictureDiscriminator",
    "PictureGenerator",
    "PicturePair",
    "RESIDUAL_BLOCKS",
    "ResidualInstead",
    "attention_scales",
    "dcgan_pair",
    "sagan_pair",
]
