"""Figures to touch, for notebooks and pages: a file of Python and one of JavaScript for each."""

from . import attention, decoding, figure, heads, memory
from .attention import *  # noqa: F403
from .decoding import *  # noqa: F403
from .figure import *  # noqa: F403
from .heads import *  # noqa: F403
from .memory import *  # noqa: F403

__all__ = []
__all__ += attention.__all__
__all__ += decoding.__all__
__all__ += figure.__all__
__all__ += heads.__all__
__all__ += memory.__all__
