"""From a model that predicts the next token to whole texts, targets and answers."""

from . import generation, search
from .generation import *  # noqa: F403
from .pointing import Candidate, Pointed, point_beam, point_greedy
from .sampling import keep_min_p, keep_top_k, keep_top_p, token_distribution
from .search import *  # noqa: F403
from .speculative import Speculated, expected_tokens, speculative_sample
from .step import Decoded, Step, TokenIds

__all__ = ["Decoded", "Step", "TokenIds"]
__all__ += generation.__all__
__all__ += search.__all__
__all__ += ["Candidate", "Pointed", "point_beam", "point_greedy"]
__all__ += ["keep_min_p", "keep_top_k", "keep_top_p", "token_distribution"]
__all__ += ["Speculated", "expected_tokens", "speculative_sample"]
