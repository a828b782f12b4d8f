"""What attention is made of."""

from . import attention, caches, efficient, layers, memory, positions, recurrent, scores
from .attention import *  # noqa: F403
from .caches import *  # noqa: F403
from .efficient import *  # noqa: F403
from .layers import *  # noqa: F403
from .memory import *  # noqa: F403
from .positions import *  # noqa: F403
from .recurrent import *  # noqa: F403
from .scores import *  # noqa: F403

__all__ = []
__all__ += attention.__all__
__all__ += caches.__all__
__all__ += efficient.__all__
__all__ += layers.__all__
__all__ += memory.__all__
__all__ += positions.__all__
__all__ += recurrent.__all__
__all__ += scores.__all__
