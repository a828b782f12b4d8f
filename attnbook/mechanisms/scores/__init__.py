"""Score functions: how well a query matches a key, from dot product to additive, and their
registry.
"""

from . import functions
from .base import SCORES, Score, make_score
from .functions import *  # noqa: F403
from .soft_cap import SoftCappedScore

__all__ = ["SCORES", "Score", "SoftCappedScore", "make_score"]
__all__ += functions.__all__
