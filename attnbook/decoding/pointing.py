"""Decoding for models that answer with positions of their input.

A model needs `encode`, `start` and `step`, and `ends`: whether its answers finish with END. An
answer is coded as in `attnbook.tasks.geometry.points.PointBatch`: positions, then END = n in
answers that have one, then -1."""

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from ..modules import device_of, full_precision, temporary_mode
from ..validate import check_integer, check_lengths, check_tensor, require
from .search import check_logits

__all__ = ["Candidate", "Pointed", "point_beam", "point_greedy"]
__all__ += ["Rule", "distinct", "groups", "permutation"]

Rule = Callable[[Tensor, Tensor, int], Tensor]
"""`rule(path (B, k, t), lengths (B,), n) -> (B, k, n + 1)`: True where an answer may point.

Column n is END. `path` may hold n where an answer has ended; the rule may then say anything. """


class Pointed(NamedTuple):
    """Greedy answers to a batch of B rows.

    Attributes:
        positions: the positions of each answer, without END.
        weights: the model's distribution at each step, also that of END, (steps, n + 1) on the CPU.
        log_probs: (B,) log p(answer, END | inputs); without the END where `finished` is False.
        finished: (B,) whether the answer is complete within `max_steps`.
    """

    positions: list[list[int]]
    weights: list[Tensor]
    log_probs: Tensor
    finished: Tensor


class Candidate(NamedTuple):
    """An answer of `point_beam`: positions without END, log-probability, whether it came to END."""

    positions: list[int]
    log_prob: float
    finished: bool


# Rules


def permutation(path: Tensor, lengths: Tensor, n: int) -> Tensor:
    """Every position exactly once, then END: a sorted order, a tour that visits every city."""
    real = torch.arange(n, device=path.device) < lengths[:, None]
    free = ~_used(path, n)[..., :n] & real[:, None]
    return torch.cat([free, ~free.any(-1, keepdim=True)], dim=-1)


def distinct(least: int = 1) -> Rule:
    """No position twice; END after `least` positions, or all where there are fewer: a hull, 3."""

    def rule(path: Tensor, lengths: Tensor, n: int) -> Tensor:
        allowed = ~_used(path, n)
        allowed[..., n] = (path.shape[-1] >= lengths.clamp(max=least))[:, None]
        return allowed

    return rule


def groups(size: int) -> Rule:
    """Positions in groups of `size`, ascending inside a group, no group twice, END after whole
    groups: triangles with 3.

    Raises ValueError for a size below 1.
    """
    check_integer("size", size)

    def rule(path: Tensor, lengths: Tensor, n: int) -> Tensor:
        steps = path.shape[-1]
        whole = path[..., : steps - steps % size].unflatten(-1, (-1, size))
        begun = path[..., steps - steps % size :]
        position = torch.arange(n + 1, device=path.device)
        # Enough larger positions have to be left for the rest of the group.
        before = (lengths - (size - 1 - steps % size))[:, None]
        allowed = (position < before)[:, None].expand(*path.shape[:-1], n + 1)
        if steps % size:
            allowed = allowed & (position > begun[..., -1:])
        else:
            allowed = allowed | (position == n) if steps else allowed
        if steps % size == size - 1:
            # groups that begin as this one does
            same = (whole[..., :-1] == begun[..., None, :]).all(-1)
            allowed = allowed & ~_used(torch.where(same, whole[..., -1], n), n)
        return allowed

    return rule


def _used(path: Tensor, n: int) -> Tensor:
    used = torch.zeros(*path.shape[:-1], n + 1, dtype=torch.bool, device=path.device)
    return used.scatter(-1, path, True)


# Decoding


def point_greedy(
    model,
    inputs: Tensor,
    lengths: Tensor,
    *,
    rule: Rule | None = None,
    max_steps: int | None = None,
) -> Pointed:
    """The most probable position that the rule allows, step by step, until the answer ends.

    C_i = argmax_j p(j | C_<i, x) over the j that `rule` and the masks of the model allow. A model
    with END stops there, one without after as many steps as the row has positions. An answer for
    which every position is forbidden stops unfinished. The model decodes in evaluation mode and
    without gradients.

    Args:
        model: with `encode`, `start`, `step` and `ends`.
        inputs: (B, n, d), moved to the device of the model.
        lengths: (B,).
        rule: see `Rule`; None allows whatever the model gives a probability.
        max_steps: the largest number of steps, END included; n + 1 when not given.
    """
    inputs, lengths, steps = _check(model, inputs, lengths, max_steps)
    batch, n, _ = inputs.shape
    with torch.no_grad(), temporary_mode(model, False):
        memory = model.encode(inputs, lengths)
        state = model.start(memory)
        pointed, path = lengths.new_full((batch, 1), -1), lengths.new_empty(batch, 1, 0)
        finished = torch.zeros_like(lengths, dtype=torch.bool)
        running = ~finished
        log_probs, weights, counts = None, [], torch.zeros_like(lengths)
        for t in range(steps):
            step = model.step(pointed, state, memory)
            logp, broken = _allowed_log_probs(step.logits, rule, path, lengths)
            value, chosen = logp[:, 0].max(-1)  # of (B, n + 1)
            running = running & (value > -math.inf)
            log_probs = logp.new_zeros(batch) if log_probs is None else log_probs
            log_probs = torch.where(running, log_probs + value, log_probs)
            chosen, state = torch.where(running, chosen, n), step.state
            counts = counts + running.long()
            weights.append(step.weights[:, 0])
            pointed, path = chosen[:, None], torch.cat([path, chosen[:, None, None]], dim=-1)
            done = running & ((chosen == n) if model.ends else (t + 1 >= lengths))
            finished, running = finished | done, running & ~done
            if _over(model, ~running, broken):
                break
    assert log_probs is not None  # there is at least one step
    rows = [[i for i in row if i < n] for row in path[:, 0].tolist()]
    together = torch.stack(weights, dim=1).cpu()
    return Pointed(
        rows,
        [together[b, :count].clone() for b, count in enumerate(counts.tolist())],
        log_probs,
        finished,
    )


def point_beam(
    model,
    inputs: Tensor,
    lengths: Tensor,
    *,
    beam_size: int,
    rule: Rule | None = None,
    max_steps: int | None = None,
) -> list[list[Candidate]]:
    """The most probable answers that the rule allows, found by keeping `beam_size` of each row.

    score(C) = Σ_i log p(C_i | C_<i, x), without renormalisation over what the rule allows. All
    answers of all rows go through the model as one batch.

    Args:
        model, inputs, lengths, rule, max_steps: as in `point_greedy`.
        beam_size: answers kept per row.

    Returns:
        The candidates of each row, most probable first, fewer where fewer are allowed.

    Source: Vinyals et al. 2015, section 4.4: for tours, only valid ones.
    """
    inputs, lengths, steps = _check(model, inputs, lengths, max_steps)
    check_integer("beam_size", beam_size)
    batch, n, _ = inputs.shape
    with torch.no_grad(), temporary_mode(model, False):
        memory = model.encode(inputs, lengths)
        state = model.start(memory, beam_size)
        pointed = lengths.new_full((batch, beam_size), -1)
        path = lengths.new_empty(batch, beam_size, 0)
        ended, total = torch.zeros_like(pointed, dtype=torch.bool), None
        for t in range(steps):
            step = model.step(pointed, state, memory)
            logp, broken = _allowed_log_probs(step.logits, rule, path, lengths)  # (B, k, n + 1)
            # only one answer of a row lives at first: k equal ones would be the same answer k times
            if total is None:
                total = logp.new_full((batch, beam_size), -math.inf)
                total[:, 0] = 0.0
                stay = logp.new_full((n + 1,), -math.inf)
                stay[n] = 0.0
            # An answer that has ended goes on as itself and in no other way: one candidate, in the
            # column of END.
            scores = total[..., None] + torch.where(ended[..., None], stay, logp)
            total, index = scores.flatten(1).topk(beam_size)
            parent, chosen = index // (n + 1), index % (n + 1)
            ended = ended.gather(1, parent)
            path = torch.cat(
                [_follow(path, parent), torch.where(ended, n, chosen)[..., None]], dim=-1
            )
            ended = ended | (chosen == n if model.ends else (t + 1 >= lengths)[:, None])
            state = type(step.state)(*(_follow(part, parent) for part in step.state))
            pointed = chosen
            if _over(model, ended | (total == -math.inf), broken):
                break
    assert total is not None  # there is at least one step
    return [
        [
            Candidate([i for i in positions if i < n], value, done)
            for positions, value, done in zip(*row, strict=True)
            if value > -math.inf
        ]
        for row in zip(path.tolist(), total.tolist(), ended.tolist(), strict=True)
    ]


def _follow(part: Tensor, parent: Tensor) -> Tensor:
    """``part[b, parent[b, j]]`` of a tensor (B, k, …)."""
    return part.gather(1, parent[..., None].expand(*parent.shape, part.shape[-1]))


def _over(model, ended: Tensor, broken: Tensor) -> bool:
    """Whether all answers have ended; a ValueError if logits were NaN. One look at the device."""
    over, nan = torch.stack([ended.all(), broken]).tolist()
    check_logits(model, nan)
    return over


def _allowed_log_probs(
    logits: Tensor, rule: Rule | None, path: Tensor, lengths: Tensor
) -> tuple[Tensor, Tensor]:
    """log p of every position, −∞ where the rule forbids it, and whether any is NaN."""
    logp = full_precision(logits).log_softmax(dim=-1)
    broken = logp.isnan().any()
    if rule is None:
        return logp, broken
    allowed = rule(path, lengths, logits.shape[-1] - 1)
    if allowed.shape != logits.shape or allowed.dtype != torch.bool:
        raise ValueError(
            f"rule must give {tuple(logits.shape)} of torch.bool, got {tuple(allowed.shape)} of "
            f"{allowed.dtype}"
        )
    return logp.masked_fill(~allowed, -math.inf), broken


def _check(model, inputs, lengths, max_steps: int | None):
    check_tensor("inputs", inputs)
    require(
        inputs.dim() == 3 and len(inputs) > 0,
        f"inputs must be (batch, n, width) with at least one row, got shape {tuple(inputs.shape)}",
    )
    check_lengths(lengths, len(inputs), "inputs")
    steps = inputs.shape[1] + 1 if max_steps is None else check_integer("max_steps", max_steps)
    device = device_of(model)
    return inputs.to(device), lengths.to(device), steps
