"""Self-attention GANs, the DCGAN baseline, and the classifier that judges samples."""

from . import sagan
from .blocks import DCGAN_BLOCKS, RESIDUAL_BLOCKS, ResidualInstead
from .sagan import *  # noqa: F403

__all__ = ["DCGAN_BLOCKS", "RESIDUAL_BLOCKS", "ResidualInstead"]
__all__ += sagan.__all__
