"""The scores of the literature: how well a query matches a key. One class per score, registered
under its name.

Symbols: s is a query (a decoder state in the papers), h a key (an encoder state). What all of them
have in common stands in :class:`~attnbook.mechanisms.scores.base.Score`.
"""

import torch
from torch import Tensor, nn

from ...validate import check_integer, check_number, require
from .base import ScaledDotScore, Score

__all__ = ["ContentScore", "LocationScore", "GeneralScore", "DotScore", "ReducedRankScore"]


class ContentScore(Score):
    """Cosine of the angle between query and key.

    ``score(s, h) = s·h / (‖s‖ ‖h‖)``; a vector of norm 0 scores 0, with a finite gradient.

    Shapes: query ``(…, m, d)``, key ``(…, n, d)``. No parameters. The result lies in [−1, 1], so
    the softmax stays flat unless it is scaled: the Neural Turing Machine multiplies it by a learned
    strength β.

    Args:
        eps: a norm below it counts as it; where the dtype cannot divide by its cube, the smallest
            that it can takes its place.

    Source: Graves, Wayne and Danihelka 2014, section 3.3.1.
    """

    name = "content"
    formula = r"\operatorname{cosine}(s, h)"
    source = "Graves, Wayne and Danihelka 2014"

    def __init__(self, eps: float = 1e-8) -> None:
        super().__init__()
        self.eps = check_number("eps", eps, above=0)

    def check(self, query: Tensor, key: Tensor) -> None:
        self._check_equal_widths(query, key)

    def _unit(self, x: Tensor) -> Tensor:
        # Clamping the squared norm, not the norm: the square root has an infinite slope at 0. The
        # squares in float32 at least, and eps no smaller than what the dtype of x can divide by:
        # the slope at 0 is 1 / eps; nor than what can be cubed: the slope of 1 / √ is taken from
        # eps⁻³.
        wide = x.float() if x.dtype.itemsize < 4 else x
        eps = max(self.eps, torch.finfo(x.dtype).tiny, torch.finfo(wide.dtype).tiny ** (1 / 3))
        return (wide * wide.square().sum(-1, keepdim=True).clamp_min(eps**2).rsqrt()).to(x.dtype)

    def project_keys(self, key: Tensor) -> Tensor:
        return self._unit(key)

    def inner_product(self, query: Tensor) -> tuple[Tensor, float]:
        return self._unit(query), 1.0


class LocationScore(Score):
    """Scores from the query alone: it names positions, it does not look at what stands there.

    ``e = W s``, ``α = softmax(e)`` over the first n of ``max_length`` rows of W. In the cache of a
    decoder the positions are those of the cache, padding counts: texts that go on after prompts of
    different lengths should begin with one length.

    Args:
        d_query: width of the queries.
        max_length: the longest source, the number of rows of W.

    Source: Luong, Pham and Manning 2015, equation 8.
    """

    name = "location"
    formula = r"(W s)_i"
    source = "Luong, Pham and Manning 2015"
    depends_on_position = True

    def __init__(self, d_query: int, max_length: int) -> None:
        super().__init__()
        self.query_width = check_integer("d_query", d_query)
        self.max_length = check_integer("max_length", max_length)
        self.rows = nn.Linear(d_query, max_length, bias=False)  # W

    def check(self, query: Tensor, key: Tensor) -> None:
        super().check(query, key)
        self._check_length(key)

    def _check_length(self, key: Tensor) -> None:
        require(
            key.shape[-2] <= self.max_length,
            f"key has {key.shape[-2]} positions, LocationScore was made for max_length = "
            f"{self.max_length}",
        )

    def project_keys(self, key: Tensor) -> Tensor:
        # Of the keys only their number counts: position i is scored by row i of W, whatever stands
        # there.
        self._check_length(key)
        n = key.shape[-2]
        return self.rows.weight[:n].expand(*key.shape[:-2], -1, -1)  # (…, n, d_query)

    def inner_product(self, query: Tensor) -> tuple[Tensor, float]:
        return query, 1.0


class GeneralScore(Score):
    """A bilinear form: a learned inner product between query and key.

    ``score(s, h) = sᵀ W h`` with W of shape ``(d_query, d_key)``; W h is computed once per source.

    Source: Luong, Pham and Manning 2015, section 3.1.
    """

    name = "general"
    formula = r"s^\top W h"
    source = "Luong, Pham and Manning 2015"

    def __init__(self, d_query: int, d_key: int) -> None:
        super().__init__()
        self.query_width = check_integer("d_query", d_query)
        self.key_width = check_integer("d_key", d_key)
        self.key_projection = nn.Linear(d_key, d_query, bias=False)  # W

    def project_keys(self, key: Tensor) -> Tensor:
        return self.key_projection(key)  # (…, n, d_query)

    def inner_product(self, query: Tensor) -> tuple[Tensor, float]:
        return query, 1.0


class DotScore(ScaledDotScore):
    """The inner product of query and key: ``score(s, h) = sᵀ h``. One width for both.

    Source: Luong, Pham and Manning 2015, section 3.1.
    """

    name = "dot"
    formula = r"s^\top h"
    source = "Luong, Pham and Manning 2015"

    def __init__(self) -> None:
        super().__init__(scale=1.0)


class ReducedRankScore(Score):
    """A bilinear form of rank at most k: ``score(s, h) = (U s)ᵀ (V h)``, that is W = Uᵀ V.

    With k below both widths it has k·(d_query + d_key) parameters instead of d_query·d_key.

    Args:
        d_query, d_key: widths of queries and keys.
        rank: k, the rows of U and V; a quarter of the smaller width when not given.

    Source: the reduced-rank multiplicative attention of Britz et al. 2017, section 3.
    """

    name = "reduced_rank"
    formula = r"(U s)^\top (V h)"
    source = "Britz et al. 2017"

    def __init__(self, d_query: int, d_key: int, rank: int | None = None) -> None:
        super().__init__()
        self.query_width = check_integer("d_query", d_query)
        self.key_width = check_integer("d_key", d_key)
        rank = max(1, min(d_query, d_key) // 4) if rank is None else rank
        self.query_projection = nn.Linear(d_query, check_integer("rank", rank), bias=False)  # U
        self.key_projection = nn.Linear(d_key, rank, bias=False)  # V

    def project_keys(self, key: Tensor) -> Tensor:
        return self.key_projection(key)  # (…, n, rank)

    def inner_product(self, query: Tensor) -> tuple[Tensor, float]:
        return self.query_projection(query), 1.0
