"""Score functions: how well a query matches a key, from dot product to additive, and their
registry.
"""

from .additive import AdditiveScore
from .base import SCORES, ScaledDotScore, Score, make_score
from .functions import *  # noqa: F403
from .functions import __all__ as _functions
from .soft_cap import SoftCappedScore

__all__ = [
    "SCORES",
    "AdditiveScore",
    "ScaledDotScore",
    "Score",
    "SoftCappedScore",
    "make_score",
]
__all__ += _functions
