"""What a decoder keeps of the tokens that it has read: keys and values, those of a window, or pages
of them.
"""

from .key_value import ProjectedSource
from .paged import PagedCache, PagedSource
from .window import RollingSource, SlidingWindow, sliding_window_mask

__all__ = [
    "PagedCache",
    "PagedSource",
    "ProjectedSource",
    "RollingSource",
    "SlidingWindow",
    "sliding_window_mask",
]
