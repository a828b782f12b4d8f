"""Scores that are kept within bounds by a smooth function."""

import torch
from torch import Tensor

from ...validate import check_number, describe, require
from .base import Score

__all__ = ["SoftCappedScore", "soft_cap"]


def soft_cap(x: Tensor, cap: float) -> Tensor:
    """Keep numbers between −cap and cap: ``cap · tanh(x / cap)``, nearly x where x is small.

    Source: Bello et al. 2016, section 4 (logit clipping); Gemma 2 (Riviere et al. 2024), section 2.
    """
    return torch.tanh(x / cap) * cap


class SoftCappedScore(Score):
    """A score that is kept between −c and c: ``c · tanh(score(s, h) / c)``.

    No weight then grows beyond exp(2c) times another, however long queries and keys become. It is
    no inner product: weights that nobody asks for are computed in blocks, not by a fused kernel.

    Args:
        score: the score that is capped, such as :class:`~attnbook.ScaledDotScore`.
        cap: c; 50 in Gemma 2.

    Shapes: those of the score.

    Source: Gemma 2 (Riviere et al. 2024), section 2.
    """

    def __init__(self, score: Score, cap: float) -> None:
        super().__init__()
        require(isinstance(score, Score), f"score must be a Score, got {describe(score)}")
        self.score, self.cap = score, float(check_number("cap", cap, above=0))
        self.query_width, self.key_width = score.query_width, score.key_width

    @property
    def depends_on_position(self) -> bool:  # type: ignore[override]
        """As the score that is capped."""
        return self.score.depends_on_position

    def check(self, query: Tensor, key: Tensor) -> None:
        self.score.check(query, key)

    def project_keys(self, key: Tensor) -> Tensor:
        return self.score.project_keys(key)

    def compare(self, query: Tensor, projected: Tensor) -> Tensor:
        return soft_cap(self.score.compare(query, projected), self.cap)
