"""Texts drawn from a language model, one token after the other."""

from __future__ import annotations

import math

import torch

from attnbook.tasks.text.vocabulary import BOS, EOS, PAD

from ..loop.temporary_state import temporary_mode
from ..losses.token_loss import full_precision
from .search import check_inputs, check_logits

__all__ = ["sample"]


def sample(
    model,
    prompts: torch.Tensor,
    lengths: torch.Tensor,
    max_length: int,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    generator: torch.Generator | None = None,
) -> list[list[int]]:
    """Go on with texts: draw each token from ``softmax(logits / temperature)``, until EOS or
    ``max_length`` tokens.

    The last token of a prompt is read by the first step, so a prompt needs at least one token; give
    BOS where there is none.

    Args:
        model: with ``encode``, ``start`` and ``step``, such as
            :class:`~attnbook.models.transformer.language_model.TransformerLM`.
        prompts, lengths: ``(B, n)`` token ids and ``(B,)`` how many of them are real.
        max_length: how many tokens are drawn at most, EOS counted.
        temperature: below 1 the probable tokens become more so; 0 takes the most probable.
        top_k: draw among the k most probable tokens only.
        generator: on the CPU; the global one when not given. A row depends on the rows before it.

    Returns:
        For each prompt the tokens drawn, without EOS. PAD and BOS are never drawn.

    Raises:
        ValueError: as :func:`~attnbook.training.greedy`; also for a temperature or top_k out of
            range, and logits that divided by the temperature have no softmax.

    Source: top-k: Fan et al. 2018, section 5.
    """
    prompts, lengths = check_inputs(model, prompts, lengths, max_length, "prompts")
    if not (
        isinstance(temperature, int | float) and math.isfinite(temperature) and temperature >= 0
    ):
        raise ValueError(f"temperature must be a number of at least 0, got {temperature!r}")
    if top_k is not None and (not isinstance(top_k, int) or top_k < 1):
        raise ValueError(f"top_k must be an integer >= 1 or None, got {top_k!r}")
    with torch.no_grad(), temporary_mode(model, False):
        state, token = _read_prompts(model, prompts, lengths)
        drawn, running = [], torch.ones(len(prompts), dtype=torch.bool)
        for _ in range(max_length):
            step = model.step(token, state, None)
            logits = full_precision(step.logits).cpu()
            check_logits(model, logits)
            choice = _draw(logits, temperature, top_k, generator)
            drawn.append(torch.where(running, choice, PAD))
            running = running & (choice != EOS)
            if not running.any():
                break
            token, state = choice.to(prompts.device), step.state
    rows = torch.stack(drawn, dim=1).tolist()
    return [[t for t in row if t not in (PAD, EOS)] for row in rows]


def _read_prompts(model, prompts: torch.Tensor, lengths: torch.Tensor):
    """The state before the last token of each prompt, and that token."""
    last = prompts.gather(1, (lengths.long() - 1)[:, None])[:, 0]
    if int(lengths.max()) == 1:
        return model.begin(len(prompts), device=prompts.device), last
    # a prompt of nothing else cannot be read ahead: begin all of them with BOS
    if int(lengths.min()) == 1:
        raise ValueError(
            "prompts of one token and longer ones cannot be mixed: put BOS in front of all"
        )
    before = lengths - 1
    return model.start(model.encode(prompts[:, : int(before.max())], before)), last


def _draw(
    logits: torch.Tensor, temperature: float, top_k: int | None, generator: torch.Generator | None
) -> torch.Tensor:
    logits = logits.clone()
    logits[:, [PAD, BOS]] = -math.inf
    if top_k is not None and top_k < logits.shape[1]:
        best = logits.topk(top_k, dim=1)
        logits = torch.full_like(logits, -math.inf).scatter(1, best.indices, best.values)
    if temperature == 0:
        return logits.argmax(1)
    chances = (logits / temperature).softmax(1)
    if chances.isnan().any():
        raise ValueError(
            f"temperature: got {temperature!r}, expected one by which the model's logits can be "
            f"divided"
        )
    return torch.multinomial(chances, 1, generator=generator)[:, 0]
