"""What every score is: the base class, and the registry that its subclasses enter by their name.

A score maps ``query (…, m, d_q)`` and ``key (…, n, d_k)`` to ``(…, m, n)``. Work that depends on
the keys alone is done by :meth:`Score.project_keys`, once per source; :meth:`Score.compare` then
scores any number of queries against the result. ``score(query, key)`` does both."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import ClassVar, cast

from torch import Tensor, nn

from ...kernels.precision import wide_product
from ...kernels.streaming import BlockKernel, check_projected_width
from ...kernels.visible import Visible
from ...validate import check_choice, check_number, check_tensor, describe, require

__all__ = ["SCORES", "ScaledDotScore", "Score", "check_score", "make_score"]

SCORES: dict[str, type[Score]] = {}
"""Every score of the book under its name from the literature, in the order of the years of its
papers; the book's summary table is made from it.
"""


class Score(nn.Module):
    """Base class of the scores: ``forward(query (…, m, d_q), key (…, n, d_k)) -> (…, m, n)``.

    Subclasses set ``name``, ``formula`` (TeX) and ``source`` (authors and year), define
    :meth:`compare` (or :meth:`inner_product`, from which it follows) and, where keys are
    transformed before they meet a query, :meth:`project_keys`. Defining a subclass with a name
    registers it. Where a subclass, or one object, replaces :meth:`compare`, the faster ways of its
    parent, :meth:`inner_product`, :meth:`block_kernel` and :meth:`fused_attention`, are not used.

    A subclass whose :meth:`project_keys` depends on where a key stands, or on the other keys, sets
    ``depends_on_position``: keys that are projected one by one are then no part of a longer source,
    and a cache projects them anew."""

    name: ClassVar[str] = ""
    formula: ClassVar[str] = ""
    source: ClassVar[str] = ""
    query_width: int | None = None
    key_width: int | None = None
    depends_on_position: ClassVar[bool] = False

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        if cls.__dict__.get("name"):
            SCORES[cls.name] = cls
            for name in sorted(SCORES, key=lambda name: SCORES[name].year()):
                SCORES[name] = SCORES.pop(name)

    @classmethod
    def year(cls) -> str:
        """Of the paper that ``source`` names, at its end."""
        return cls.source[-4:]

    def project_keys(self, key: Tensor) -> Tensor:
        """What of the score depends on the keys alone, once per source: ``(…, n, width)``."""
        return key

    def compare(self, query: Tensor, projected: Tensor) -> Tensor:
        """Score queries ``(…, m, d_q)`` against projected keys ``(…, n, width)``: ``(…, m, n)``, in
        float32 where query and keys are of half precision.
        """
        product = self.inner_product(query)
        if product is None:
            raise NotImplementedError(
                f"{type(self).__name__} must define compare(query, projected)"
            )
        query, scale = product
        check_projected_width(query.shape[-1], projected)
        return wide_product(query if scale == 1.0 else query * scale, projected.mT)

    def fast_path(self, name: str) -> Callable:
        """Return the method of that name, :meth:`inner_product`, :meth:`block_kernel` or
        :meth:`fused_attention`, or the one of :class:`Score` where :meth:`compare` was replaced
        after it.
        """
        if "compare" in vars(self):
            return getattr(Score, name).__get__(self)
        if type(self).compare is Score.compare:
            return getattr(self, name)
        for owner in type(self).__mro__:  # up to Score, which has both
            if name in vars(owner):
                return getattr(self, name)
            if "compare" in vars(owner):
                break
        return getattr(Score, name).__get__(self)

    def inner_product(self, query: Tensor) -> tuple[Tensor, float] | None:
        """Return ``(transformed query (…, m, width), scale)`` if the score is
        ``scale · query · projected key``, else None.

        :func:`attnbook.attend` hands such a score to a fused kernel when no weights are asked for.
        """
        return None

    def block_kernel(self, query: Tensor) -> BlockKernel:
        """Return what scores blocks of these queries, where the m×n matrix is not to be stored.

        A subclass may do the work on queries alone here, once and not per block, and may give the
        gradient of a block in closed form.
        """
        return BlockKernel(self.compare, query, tuple(self.parameters()))

    def fused_attention(
        self, query: Tensor, projected: Tensor, value: Tensor, visible: Visible
    ) -> Tensor | None:
        """Return the context ``(…, m, d_v)`` of attention without weights from a kernel of this
        score's own, or None where there is none for these tensors.
        """
        return None

    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        """Score every query against every key: ``(…, m, n)``.

        Raises ``ValueError`` if a width does not fit.
        """
        self.check(query, key)
        return self.compare(query, self.project_keys(key))

    def check(self, query: Tensor, key: Tensor) -> None:
        """Raise ``ValueError`` if query or key has a wrong shape or width."""
        check_tensor("query", query, width=self.query_width)
        check_tensor("key", key, width=self.key_width)

    def check_projected(self, key: Tensor, projected: Tensor) -> None:
        """Raise ``ValueError`` unless ``projected`` is ``project_keys(key)`` by its shape."""
        check_tensor("projected_keys", projected)
        if projected.shape[:-1] != key.shape[:-1]:
            rows = ", ".join(map(str, key.shape[:-1]))
            raise ValueError(
                f"projected_keys must have a row for each key, ({rows}, width), got shape "
                f"{tuple(projected.shape)}"
            )

    def _check_equal_widths(self, query: Tensor, key: Tensor) -> None:
        check_tensor("query", query)
        check_tensor("key", key)
        if query.shape[-1] != key.shape[-1]:
            raise ValueError(
                f"{type(self).__name__} needs query and key of one width, got {query.shape[-1]} "
                f"and {key.shape[-1]}"
            )


class ScaledDotScore(Score):
    """The inner product divided by the root of the width of the keys: ``score(s, h) = sᵀ h / √d``.

    For independent components of variance 1 the product sᵀh has variance d; the factor brings it
    back to 1, so that the softmax does not saturate as d grows.

    Args:
        scale: factor of the inner product instead of 1 / √d.

    Source: Vaswani et al. 2017, section 3.2.1.
    """

    name = "scaled_dot"
    formula = r"s^\top h / \sqrt{d}"
    source = "Vaswani et al. 2017"

    def __init__(self, scale: float | None = None) -> None:
        super().__init__()
        self.scale = None if scale is None else float(check_number("scale", scale, above=0))

    def check(self, query: Tensor, key: Tensor) -> None:
        self._check_equal_widths(query, key)

    def inner_product(self, query: Tensor) -> tuple[Tensor, float]:
        return query, 1.0 / math.sqrt(query.shape[-1]) if self.scale is None else self.scale


def check_score(score: object) -> Score:
    """Return ``score`` if it has the methods of a :class:`Score`, or raise a ``ValueError``."""
    if not isinstance(score, nn.Module):
        raise ValueError(f"score must be a Score, got {describe(score)}")
    return cast(Score, score)


def make_score(name: str, d_query: int, d_key: int, **sizes: int | None) -> Score:
    """Make a registered score for queries of width ``d_query`` and keys of width ``d_key``.

    A score is built with those of the arguments that its ``__init__`` names; one that names neither
    width has no matrix to bring two widths together and needs them equal.

    Args:
        name: one of :data:`SCORES`.
        d_query, d_key: the widths.
        sizes: what else a score can be built with, such as ``d_hidden`` of ``additive``, ``rank``
            of ``reduced_rank`` and ``max_length``, the longest source, of ``location``; None leaves
            the default of the score. Other scores ignore it, so that one call can make any of them.

    Raises:
        ValueError: for an unknown name, where the score needs one width and two are given, or where
            it needs a size that is not given.
        TypeError: for a size that no registered score takes.
    """
    kind = SCORES[check_choice("score", name, sorted(SCORES))]
    if unknown := set(sizes).difference(*map(_arguments, SCORES.values())):
        raise TypeError(f"no score takes {', '.join(sorted(unknown))}")
    takes = _arguments(kind)
    if not {"d_query", "d_key"} & set(takes):
        require(
            d_query == d_key, f"score {name!r} needs d_query = d_key, got {d_query} and {d_key}"
        )
    given = {"d_query": d_query, "d_key": d_key, **sizes}
    given = {size: given[size] for size in takes if given.get(size) is not None}
    for size, needed in takes.items():
        require(size in given or not needed, f"score {name!r} needs {size}")
    return kind(**given)


def _arguments(kind: type[Score]) -> dict[str, bool]:
    """The names of what a score is built with, and whether it needs to be given."""
    return {
        name: parameter.default is parameter.empty
        for name, parameter in inspect.signature(kind).parameters.items()
        # nn.Module itself takes any arguments
        if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    }
