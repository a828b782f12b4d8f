"""Texts drawn from a language model, one token after the other, and the distributions that they
are drawn from.
"""

from __future__ import annotations

import math

import torch

from attnbook.tasks.sequences.vocabulary import BOS, EOS, PAD

from ...validate import check_integer, check_number, check_tensor, require
from ..loop.temporary_state import temporary_mode
from ..losses.token_loss import full_precision
from .search import check_inputs, check_logits

__all__ = ["keep_min_p", "keep_top_k", "keep_top_p", "sample", "token_distribution"]


def keep_top_k(logits: torch.Tensor, k: int) -> torch.Tensor:
    """Keep the k largest of each row and what equals the least of them; the others become −∞.

    Shapes: ``(…, V)`` → the same; all are kept for k ≥ V. Raises ``ValueError`` for k below 1.

    Source: Fan et al. 2018, section 5.4.
    """
    check_tensor("logits", logits, least=1)
    k = min(check_integer("top_k", k), logits.shape[-1])
    return logits.masked_fill(logits < logits.topk(k).values[..., -1:], -math.inf)


def keep_top_p(logits: torch.Tensor, p: float) -> torch.Tensor:
    """Keep the nucleus of each row, the fewest tokens that together have probability p or more;
    the others become −∞.

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


def keep_min_p(logits: torch.Tensor, p: float) -> torch.Tensor:
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
    logits: torch.Tensor,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float = 1.0,
    min_p: float = 0.0,
) -> torch.Tensor:
    """The distribution that a token is drawn from: ``softmax(logits / temperature)`` over what
    :func:`keep_top_k`, then :func:`keep_top_p`, then :func:`keep_min_p` keep, in the order of
    Hugging Face transformers.

    Each filter sees the probabilities that the temperature and the filters before it made.

    Args:
        logits: ``(…, V)``; −∞ for what is never drawn.
        temperature: below 1 sharpens the distribution; 0 leaves the most probable token only, the
            first of equals.
        top_k: how many tokens; all when not given.
        top_p: probability of the nucleus; 1 keeps all.
        min_p: share of the largest probability; 0 keeps all.

    Returns:
        Probabilities ``(…, V)``.

    Raises:
        ValueError: for options out of range, NaN, and a row in which nothing can be drawn.
    """
    check_tensor("logits", logits, least=1)
    check_number("temperature", temperature, least=0)
    largest = logits.amax(-1, keepdim=True)
    require(
        bool(largest.isfinite().all()),
        "logits must have a finite largest number in each row, got a row of −∞, or ∞ or NaN",
    )
    # A temperature that the dtype rounds to zero is zero.
    if torch.tensor(temperature, dtype=logits.dtype) == 0:
        best = logits.argmax(-1, keepdim=True)
        return torch.zeros_like(logits).scatter(-1, best, 1.0)
    logits = (logits - largest) / temperature  # so that no quotient overflows
    if top_k is not None:
        logits = keep_top_k(logits, top_k)
    return keep_min_p(keep_top_p(logits, top_p), min_p).softmax(-1)


def sample(
    model,
    prompts: torch.Tensor,
    lengths: torch.Tensor,
    max_length: int,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float = 1.0,
    min_p: float = 0.0,
    generator: torch.Generator | None = None,
) -> list[list[int]]:
    """Continue texts: sample each token from its :func:`token_distribution`, until EOS or
    ``max_length`` tokens.

    The first step reads the last token of a prompt, so a prompt needs at least one token, such as
    BOS.

    Args:
        model: with ``encode``, ``start`` and ``step``, such as
            :class:`~attnbook.models.transformer.language_model.TransformerLM`.
        prompts, lengths: ``(B, n)`` token ids and ``(B,)`` how many of them are not padding.
        max_length: the largest number of sampled tokens, including EOS.
        temperature, top_k, top_p, min_p: of :func:`token_distribution`; a temperature of 0 takes
            the most probable token.
        generator: on the CPU; the global one when not given. A row depends on the rows before it.

    Returns:
        For each prompt the sampled tokens, without EOS. PAD and BOS are never sampled.

    Raises:
        ValueError: as :func:`~attnbook.training.greedy` and :func:`token_distribution`; also for
            prompts of which some have one token and others more.
    """
    prompts, lengths = check_inputs(model, prompts, lengths, max_length, "prompts")
    options = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "min_p": min_p}
    with torch.no_grad(), temporary_mode(model, False):
        state, token = read_prompts(model, prompts, lengths)
        drawn, running = [], torch.ones(len(prompts), dtype=torch.bool)
        for _ in range(max_length):
            step = model.step(token, state, None)
            logits = full_precision(step.logits).cpu()
            check_logits(model, logits.isnan().any())
            choice = draw(token_distribution(without_start(logits), **options), generator)
            drawn.append(torch.where(running, choice, PAD))
            running = running & (choice != EOS)
            if not running.any():
                break
            token, state = choice.to(prompts.device), step.state
    rows = torch.stack(drawn, dim=1).tolist()
    return [[t for t in row if t not in (PAD, EOS)] for row in rows]


def read_prompts(model, prompts: torch.Tensor, lengths: torch.Tensor):
    """The state before the last token of each prompt, and that token."""
    last = prompts.gather(1, (lengths.long() - 1)[:, None])[:, 0]
    if int(lengths.max()) == 1:
        return model.begin(len(prompts), device=prompts.device), last
    # a prompt of nothing else cannot be read ahead: begin all of them with BOS
    if int(lengths.min()) == 1:
        raise ValueError(
            "prompts must all have one token or all more, got both: put BOS in front of all"
        )
    before = lengths - 1
    return model.start(model.encode(prompts[:, : int(before.max())], before)), last


def without_start(logits: torch.Tensor) -> torch.Tensor:
    """Logits of the next token, which is never PAD or BOS."""
    never = torch.zeros(logits.shape[-1], dtype=torch.bool, device=logits.device)
    never[[PAD, BOS]] = True
    return logits.masked_fill(never, -math.inf)


def draw(probabilities: torch.Tensor, generator: torch.Generator | None) -> torch.Tensor:
    """One id for each row of ``(rows, V)``."""
    return torch.multinomial(probabilities, 1, generator=generator)[:, 0]
