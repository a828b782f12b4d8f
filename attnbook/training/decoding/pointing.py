"""Loss and decoding for models that answer with positions of their input.

All that is asked of a model is `encode`, `start` and `step`, and whether it `ends`. An answer is
coded as in `attnbook.tasks.geometry.points.PointBatch`: positions, then, where the answer says when
it ends, END = n, then -1."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch.nn import functional as F

from ..loop.temporary_state import temporary_mode
from ..losses.token_loss import device_of, full_precision

Rule = Callable[[torch.Tensor, torch.Tensor, int], torch.Tensor]
"""`rule(path (B, k, t), lengths (B,), n) -> (B, k, n + 1)`: where an answer may point after t
steps; True = may.

Column n is END. `path` may hold n where an answer has ended already; what the rule says of those
does not matter. """


class Pointed(NamedTuple):
    """Greedy answers to a batch of B rows.

    positions  the positions of each answer, without END
    weights    the model's distribution at each step, (steps, n + 1) on the CPU, the step of END
               included
    log_probs  (B,) log p(answer, END | inputs); without the END where `finished` is False
    finished   (B,) whether the answer came to its end within `max_steps`
    """

    positions: list[list[int]]
    weights: list[torch.Tensor]
    log_probs: torch.Tensor
    finished: torch.Tensor


class Candidate(NamedTuple):
    """One answer found by `point_beam`: its positions without END, its log-probability, whether
    it came to its end.
    """

    positions: list[int]
    log_prob: float
    finished: bool


# Rules
# -------------------------------------------------------------------------------------------------------------------


def permutation(path: torch.Tensor, lengths: torch.Tensor, n: int) -> torch.Tensor:
    """Every position exactly once, then END: a sorted order, a tour that visits every city."""
    free = (
        ~_used(path, n)[..., :n] & (torch.arange(n, device=path.device) < lengths[:, None])[:, None]
    )
    return torch.cat([free, ~free.any(-1, keepdim=True)], dim=-1)


def distinct(least: int = 1) -> Rule:
    """No position twice, and END only after `least` positions, or all where a row has fewer: a
    hull with 3.
    """

    def rule(path: torch.Tensor, lengths: torch.Tensor, n: int) -> torch.Tensor:
        allowed = ~_used(path, n)
        allowed[..., n] = (path.shape[-1] >= lengths.clamp(max=least))[:, None]
        return allowed

    return rule


def groups(size: int) -> Rule:
    """Positions in groups of `size`, ascending inside a group, no group twice, END after whole
    groups: triangles with 3.

    Raises ValueError for a size below 1.
    """
    if isinstance(size, bool) or not isinstance(size, int) or size < 1:
        raise ValueError(f"size must be an integer >= 1, got {size!r}")

    def rule(path: torch.Tensor, lengths: torch.Tensor, n: int) -> torch.Tensor:
        steps = path.shape[-1]
        whole, begun = (
            path[..., : steps - steps % size].unflatten(-1, (-1, size)),
            path[..., steps - steps % size :],
        )
        position = torch.arange(n + 1, device=path.device)
        # Enough larger positions have to be left for the rest of the group.
        allowed = (position < (lengths - (size - 1 - steps % size))[:, None])[:, None].expand(
            *path.shape[:-1], n + 1
        )
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


def _used(path: torch.Tensor, n: int) -> torch.Tensor:
    used = torch.zeros(*path.shape[:-1], n + 1, dtype=torch.bool, device=path.device)
    return used.scatter(-1, path, True)


# Loss
# --------------------------------------------------------------------------------------------------------------------


def pointing_loss(model, batch) -> tuple[torch.Tensor, torch.Tensor]:
    """Cross-entropy of the positions (and END) of an answer under teacher forcing, for `fit`.

    total = -Σ_{b,i : C_bi ≠ -1} log p(C_bi | C_b,<i, x_b),   count = number of terms, both of shape
    (), in nats.

    `batch` holds inputs (B, n, d), lengths (B,), targets (B, m); it is moved to the device of the
    model, whose logits (B, m, n + 1) are scores, not probabilities. Raises ValueError for logits of
    another shape. Source: Vinyals et al. 2015, equations 1 and 2."""
    device = device_of(model)
    targets = batch.targets.to(device)
    logits = model(batch.inputs.to(device), batch.lengths, targets).logits
    if logits.shape != (*targets.shape, batch.inputs.shape[1] + 1):
        raise ValueError(
            f"logits: got the shape {tuple(logits.shape)} from {type(model).__name__}, "
            f"expected {(*targets.shape, batch.inputs.shape[1] + 1)}"
        )
    total = F.cross_entropy(
        full_precision(logits).flatten(0, 1), targets.flatten(), ignore_index=-1, reduction="sum"
    )
    return total, (targets >= 0).sum()


# Decoding
# ----------------------------------------------------------------------------------------------------------------


def point_greedy(
    model,
    inputs: torch.Tensor,
    lengths: torch.Tensor,
    *,
    rule: Rule | None = None,
    max_steps: int | None = None,
) -> Pointed:
    """The most probable position at each step among those that the rule allows, until the answer
    ends.

    C_i = argmax_j p(j | C_<i, x) over the j that `rule` and the model's own masks allow. A model
    with END ends by it, one without after as many steps as the row has positions.

    rule       see `Rule`; None: whatever the model gives a probability
    max_steps  the largest number of steps, END counted; n + 1 when not given, which is enough where
               nothing repeats

    `inputs` (B, n, d) and `lengths` (B,) are moved to the device of the model, which decodes in
    evaluation mode and without gradients. An answer that is left with nothing to point at stops,
    unfinished. Raises ValueError for an empty batch, max_steps < 1, a rule of another shape, and
    NaN from the model."""
    inputs, lengths, steps = _check(model, inputs, lengths, max_steps)
    batch, n, _ = inputs.shape
    with torch.no_grad(), temporary_mode(model, False):
        memory = model.encode(inputs, lengths)
        state = model.start(memory)
        pointed, path = lengths.new_full((batch, 1), -1), lengths.new_empty(batch, 1, 0)
        running, finished = (
            lengths.new_full((batch,), value, dtype=torch.bool) for value in (True, False)
        )
        log_probs, weights, counts = None, [], torch.zeros_like(lengths)
        for t in range(steps):
            step = model.step(pointed, state, memory)
            logp = _allowed_log_probs(model, step.logits, rule, path, lengths)[:, 0]  # (B, n + 1)
            value, chosen = logp.max(-1)
            running = running & (value > -math.inf)
            log_probs = logp.new_zeros(batch) if log_probs is None else log_probs
            log_probs = torch.where(running, log_probs + value, log_probs)
            chosen, state = torch.where(running, chosen, n), step.state
            counts = counts + running.long()
            weights.append(step.weights[:, 0])
            pointed, path = chosen[:, None], torch.cat([path, chosen[:, None, None]], dim=-1)
            done = running & ((chosen == n) if model.ends else (t + 1 >= lengths))
            finished, running = finished | done, running & ~done
            if not running.any():
                break
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
    inputs: torch.Tensor,
    lengths: torch.Tensor,
    *,
    beam_size: int,
    rule: Rule | None = None,
    max_steps: int | None = None,
) -> list[list[Candidate]]:
    """The most probable answers that the rule allows, found by keeping `beam_size` of each row at
    every step.

    score(C) = Σ_i log p(C_i | C_<i, x), under the model as it is: a rule forbids, it does not give
    what it forbids to others. All answers of all rows go through the model as one batch. Returns
    for each row its candidates, most probable first, fewer than `beam_size` only where fewer are
    allowed.

    Arguments and errors as in `point_greedy`; also ValueError for beam_size < 1.
    Source: Vinyals et al. 2015, section 4.4: for tours, only valid ones.
    """
    inputs, lengths, steps = _check(model, inputs, lengths, max_steps)
    if isinstance(beam_size, bool) or not isinstance(beam_size, int) or beam_size < 1:
        raise ValueError(f"beam_size: got {beam_size!r}, expected an integer >= 1")
    batch, n, _ = inputs.shape
    with torch.no_grad(), temporary_mode(model, False):
        memory = model.encode(inputs, lengths)
        state = model.start(memory, beam_size)
        pointed, path = (
            lengths.new_full((batch, beam_size), -1),
            lengths.new_empty(batch, beam_size, 0),
        )
        ended, total = torch.zeros_like(pointed, dtype=torch.bool), None
        for t in range(steps):
            step = model.step(pointed, state, memory)
            logp = _allowed_log_probs(model, step.logits, rule, path, lengths)  # (B, k, n + 1)
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
            if (ended | (total == -math.inf)).all():
                break
    return [
        [
            Candidate([i for i in positions if i < n], value, done)
            for positions, value, done in zip(*row, strict=True)
            if value > -math.inf
        ]
        for row in zip(path.tolist(), total.tolist(), ended.tolist(), strict=True)
    ]


def _follow(part: torch.Tensor, parent: torch.Tensor) -> torch.Tensor:
    """``part[b, parent[b, j]]`` of a tensor (B, k, …)."""
    return part.gather(1, parent[..., None].expand(*parent.shape, part.shape[-1]))


def _allowed_log_probs(
    model, logits: torch.Tensor, rule: Rule | None, path: torch.Tensor, lengths: torch.Tensor
):
    logp = full_precision(logits).log_softmax(dim=-1)
    if logp.isnan().any():
        raise ValueError(f"model: {type(model).__name__} gave logits that are NaN")
    if rule is None:
        return logp
    allowed = rule(path, lengths, logits.shape[-1] - 1)
    if allowed.shape != logits.shape or allowed.dtype != torch.bool:
        raise ValueError(
            f"rule: gave {tuple(allowed.shape)} of {allowed.dtype}, expected "
            f"{tuple(logits.shape)} of torch.bool"
        )
    return logp.masked_fill(~allowed, -math.inf)


def _check(model, inputs, lengths, max_steps: int | None):
    if not isinstance(inputs, torch.Tensor) or inputs.dim() != 3 or len(inputs) == 0:
        came = tuple(inputs.shape) if isinstance(inputs, torch.Tensor) else type(inputs).__name__
        raise ValueError(f"inputs: got {came}, expected (batch, n, width) with at least one row")
    if (
        not isinstance(lengths, torch.Tensor)
        or lengths.shape != inputs.shape[:1]
        or lengths.is_floating_point()
    ):
        came = tuple(lengths.shape) if isinstance(lengths, torch.Tensor) else type(lengths).__name__
        raise ValueError(f"lengths: got {came}, expected whole numbers of shape ({len(inputs)},)")
    steps = inputs.shape[1] + 1 if max_steps is None else max_steps
    if isinstance(steps, bool) or not isinstance(steps, int) or steps < 1:
        raise ValueError(f"max_steps: got {max_steps!r}, expected an integer >= 1")
    device = device_of(model)
    return inputs.to(device), lengths.to(device), steps
