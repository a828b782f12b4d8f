"""Score functions: how well a query matches a key, from dot product to additive."""

from . import additive, functions
from .additive import *  # noqa: F403
from .base import SCORES, ScaledDotScore, Score, make_score
from .functions import *  # noqa: F403
from .soft_cap import SoftCappedScore

__all__ = ["SCORES", "ScaledDotScore", "Score", "SoftCappedScore", "make_score"]
__all__ += additive.__all__
__all__ += functions.__all__
