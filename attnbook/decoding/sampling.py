"""The distributions that tokens are drawn from, and texts drawn from a language model."""

import math

import torch
from torch import Tensor

from ..validate import check_integer, check_number, check_tensor, require

__all__ = ["draw", "keep_min_p", "keep_top_k", "keep_top_p", "penalise", "token_distribution"]


def keep_top_k(logits: Tensor, k: int) -> Tensor:
    """Keep the k largest of each row and what equals the least of them; the others become −∞.

    Shapes: ``(…, V)`` → the same; all are kept for k ≥ V. Raises ``ValueError`` for k below 1.

    Source: Fan et al. 2018, section 5.4.
    """
    check_tensor("logits", logits, least=1)
    k = min(check_integer("top_k", k), logits.shape[-1])
    return logits.masked_fill(logits < logits.topk(k).values[..., -1:], -math.inf)


def keep_top_p(logits: Tensor, p: float) -> Tensor:
    """Keep the nucleus of each row, the fewest tokens of probability p together; the others: −∞.

    With the tokens in order, the most probable first (of equals the one with the smaller id), v is
    kept if those before it have less than p together; so the first always is.

    Shapes: ``(…, V)`` → the same. Raises ``ValueError`` unless 0 < p ≤ 1.

    Source: Holtzman et al. 2020, section 3.1, equation 2.
    """
    check_tensor("logits", logits, least=1)
    if check_number("top_p", p, above=0, most=1) == 1:
        return logits  # what is before the last tokens may be rounded to 1
    ordered, order = logits.sort(dim=-1, descending=True, stable=True)
    probabilities = ordered.softmax(-1)
    outside = probabilities.cumsum(-1) - probabilities >= p
    return logits.masked_fill(outside.gather(-1, order.argsort(-1)), -math.inf)


def keep_min_p(logits: Tensor, p: float) -> Tensor:
    """Keep what has at least p times the probability of the most probable; the others become −∞.

    Shapes: ``(…, V)`` → the same. Raises ``ValueError`` unless 0 ≤ p ≤ 1.

    Source: Nguyen et al. 2024, section 3, equations 1 and 2.
    """
    check_tensor("logits", logits, least=1)
    check_number("min_p", p, least=0, most=1)
    probabilities = logits.softmax(-1)
    least = p * probabilities.amax(-1, keepdim=True)
    return logits.masked_fill(probabilities < least, -math.inf)


def token_distribution(
    logits: Tensor,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float = 1.0,
    min_p: float = 0.0,
) -> Tensor:
    """The distribution that a token is drawn from: ``softmax(logits / temperature)`` over what
    :func:`keep_top_k`, then :func:`keep_top_p`, then :func:`keep_min_p` keep.

    Each filter sees the probabilities that the temperature and the filters before it made.

    Args:
        logits: ``(…, V)``; −∞ for what is never drawn.
        temperature: below 1 sharpens; 0 leaves the most probable token only, the first of equals.
        top_k: how many tokens; all when not given.
        top_p: probability of the nucleus; 1 keeps all.
        min_p: share of the largest probability; 0 keeps all.

    Returns:
        Probabilities ``(…, V)``.
    """
    check_tensor("logits", logits, least=1)
    check_number("temperature", temperature, least=0)
    largest = logits.amax(-1, keepdim=True)
    require(
        bool(largest.isfinite().all()),
        "logits must have a finite largest number in each row, got a row of −∞, or ∞ or NaN",
    )
    # A temperature that the dtype rounds to zero is zero.
    if logits.new_tensor(temperature) == 0:
        best = logits.argmax(-1, keepdim=True)
        return torch.zeros_like(logits).scatter(-1, best, 1.0)
    logits = (logits - largest) / temperature  # so that no quotient overflows
    if top_k is not None:
        logits = keep_top_k(logits, top_k)
    return keep_min_p(keep_top_p(logits, top_p), min_p).softmax(-1)


def penalise(logits: Tensor, seen: Tensor, penalty: float) -> Tensor:
    """Logits in which the tokens that a text already holds are less probable: divided by θ where
    they are positive, multiplied by θ where they are negative.

    Shapes: logits and seen, boolean, ``(rows, V)`` → the same; ``penalty`` is θ, 1 for none.

    Source: Keskar et al. 2019, section 4.1.
    """
    check_number("repetition_penalty", penalty, above=0)
    return torch.where(seen, torch.where(logits > 0, logits / penalty, logits * penalty), logits)


def draw(probabilities: Tensor, generator: torch.Generator | None) -> Tensor:
    """One id for each row of ``(rows, V)``."""
    return torch.multinomial(probabilities, 1, generator=generator)[:, 0]
