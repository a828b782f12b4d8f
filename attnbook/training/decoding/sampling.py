"""Texts drawn from a language model, one token after the other."""

from __future__ import annotations

import math

import torch

from attnbook.tasks.sequences.vocabulary import BOS, EOS, PAD

from ...validate import check_number, require
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
    generator: torch.Generator | None = None,
) -> list[list[int]]:
    """Continue texts: sample each token from ``softmax(logits / temperature)``, until EOS or
    ``max_length`` tokens.

    The first step reads the last token of a prompt, so a prompt needs at least one token, such as
    BOS.

    Args:
        model: with ``encode``, ``start`` and ``step``, such as
            :class:`~attnbook.models.transformer.language_model.TransformerLM`.
        prompts, lengths: ``(B, n)`` token ids and ``(B,)`` how many of them are not padding.
        max_length: the largest number of sampled tokens, including EOS.
        temperature: below 1 sharpens the distribution; 0 takes the most probable token.
        generator: on the CPU; the global one when not given. A row depends on the rows before it.

    Returns:
        For each prompt the sampled tokens, without EOS. PAD and BOS are never sampled.

    Raises:
        ValueError: as :func:`~attnbook.training.greedy`; also for a temperature below 0, and logits
            that divided by the temperature have no softmax.
    """
    prompts, lengths = check_inputs(model, prompts, lengths, max_length, "prompts")
    check_number("temperature", temperature, least=0)
    with torch.no_grad(), temporary_mode(model, False):
        state, token = _read_prompts(model, prompts, lengths)
        drawn, running = [], torch.ones(len(prompts), dtype=torch.bool)
        for _ in range(max_length):
            step = model.step(token, state, None)
            logits = full_precision(step.logits).cpu()
            check_logits(model, logits.isnan().any())
            choice = _draw(logits, temperature, generator)
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
            "prompts must all have one token or all more, got both: put BOS in front of all"
        )
    before = lengths - 1
    return model.start(model.encode(prompts[:, : int(before.max())], before)), last


def _draw(
    logits: torch.Tensor, temperature: float, generator: torch.Generator | None
) -> torch.Tensor:
    logits = logits.clone()
    logits[:, [PAD, BOS]] = -math.inf
    if temperature == 0:
        return logits.argmax(1)
    probabilities = (logits / temperature).softmax(1)
    require(
        not probabilities.isnan().any(),
        f"temperature must be a number by which the model's logits can be divided, got "
        f"{temperature!r}",
    )
    return torch.multinomial(probabilities, 1, generator=generator)[:, 0]
