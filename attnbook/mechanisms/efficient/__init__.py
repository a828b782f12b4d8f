"""Attention to fewer keys: windows, blocks, sparse patterns, compressed and latent keys."""

from . import block_patterns, compressed, latent, local, local_blocks
from .block_patterns import *  # noqa: F403
from .compressed import *  # noqa: F403
from .latent import *  # noqa: F403
from .local import *  # noqa: F403
from .local_blocks import *  # noqa: F403

__all__ = []
__all__ += block_patterns.__all__
__all__ += compressed.__all__
__all__ += latent.__all__
__all__ += local.__all__
__all__ += local_blocks.__all__
