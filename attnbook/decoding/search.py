"""Decoding: from a model that predicts the next token to complete target sequences.

A model needs `encode`, `start` and `step`, and the ids that begin and end a target, in
`model.token_ids` or as an argument; every sentence of a batch, and every beam of every sentence, is
one row of one batch."""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..modules import (
    counted_targets,
    device_of,
    fields_of,
    full_precision,
    map_tensors,
    temporary_mode,
)
from ..validate import check_integer, check_lengths, check_number, describe, require
from .step import TokenIds, token_ids_of

__all__ = ["Decoding", "Hypothesis", "beam_search", "greedy", "score_targets"]

NOTHING = -1  # in the place of a token, after the end of a row


class Decoding(NamedTuple):
    """Greedy output for a batch of B sentences.

    Attributes:
        tokens: ids of each target, without the ids that begin and end it.
        weights: attention of each target, (len(tokens), source length) on the CPU; None when it
            was not asked for and when the model has none.
        log_probs: (B,) log p(tokens, end | source); without the end where `finished` is False.
        finished: (B,) whether an end came within max_length.
    """

    tokens: list[list[int]]
    weights: list[Tensor] | None
    log_probs: Tensor
    finished: Tensor


class Hypothesis(NamedTuple):
    """One target found by `beam_search`.

    Attributes:
        tokens: ids, without those that begin and end the target.
        log_prob: log p(tokens, end | source); without the end when not finished.
        score: ``log_prob / length^length_penalty``, the length with the end; it orders hypotheses.
        finished: whether an end came within max_length.
    """

    tokens: list[int]
    log_prob: float
    score: float
    finished: bool


def greedy(
    model,
    source: Tensor,
    lengths: Tensor,
    max_length: int,
    *,
    need_weights: bool = False,
    token_ids: TokenIds | None = None,
) -> Decoding:
    """The most probable token at each step, until one that ends the target.

    ``y_t = argmax_v p(v | y_<t, x)`` over all v that are not forbidden.

    The model decodes in evaluation mode and without gradients.

    Args:
        model: with `encode`, `start` and `step`; a language model, which also has `begin`, goes on
            from the end of its source.
        source: (B, n) token ids, moved to the device of the model.
        lengths: (B,), from 1 to n.
        max_length: the largest number of tokens produced, including the end.
        need_weights: whether the attention over the source is kept; a model's ``step`` is then
            called with ``need_weights=True``.
        token_ids: what starts, ends, never stands in a target; ``model.token_ids`` when not given.

    Raises:
        ValueError: for an empty batch, lengths outside 1…n, max_length < 1, NaN from the model, and
            an encoder-decoder model of which nobody says with what its targets start.

    Source: Sutskever et al. 2014, section 3.2 (a beam of 1).
    """
    source, lengths = check_inputs(model, source, lengths, max_length)
    ids = token_ids_of(model, token_ids)
    batch, width = source.shape
    with torch.no_grad(), temporary_mode(model, False):
        token, state, memory = _first_step(model, source, lengths, ids)
        active = torch.arange(batch, device=source.device)  # sentence of each row
        finished = torch.zeros(batch, dtype=torch.bool, device=source.device)
        log_probs, tokens, weights = None, [], []
        # a model of the reader's own need not know the switch
        asked = {"need_weights": True} if need_weights else {}
        for _ in range(max_length):
            step = model.step(token, state, memory, **asked)
            best, token = _log_probs(step.logits, ids).max(dim=-1)
            log_probs = best.new_zeros(batch) if log_probs is None else log_probs
            running = ~finished[active]
            log_probs = log_probs.index_add(0, active, torch.where(running, best, 0.0))
            ended = is_end(token, ids)
            written = token.masked_fill(~running | ended, NOTHING)
            tokens.append(active.new_full((batch,), NOTHING).index_copy(0, active, written))
            # A model that reads its source shortened has weights over something else than the
            # positions of the source.
            if need_weights and step.weights is not None and step.weights.shape[-1] == width:
                weights.append(
                    step.weights.new_zeros(batch, width).index_copy(0, active, step.weights)
                )
            finished = finished.index_copy(0, active, ~running | ended)
            keep = _still_running(finished[active])
            if keep is None:
                state = step.state
            elif len(keep) == 0:
                break
            else:
                active, token = active[keep], token[keep]
                state, memory = _select_rows(step.state, keep), _select_rows(memory, keep)
    assert log_probs is not None  # there is at least one step
    check_logits(model, log_probs.isnan().any())
    rows = [[t for t in row if t != NOTHING] for row in torch.stack(tokens, dim=1).tolist()]
    maps = None
    if weights:
        together = torch.stack(weights, dim=1).cpu()
        maps = [
            together[i, : len(row), :n].clone()
            for i, (row, n) in enumerate(zip(rows, lengths.tolist(), strict=True))
        ]
    return Decoding(rows, maps, log_probs, finished)


def beam_search(
    model,
    source: Tensor,
    lengths: Tensor,
    *,
    beam_size: int,
    max_length: int,
    length_penalty: float = 0.0,
    token_ids: TokenIds | None = None,
) -> list[list[Hypothesis]]:
    """The best targets found by keeping `beam_size` hypotheses of each sentence at every step.

    ``score(y) = log p(y | x) / |y|^α``, where ``|y|`` counts the end, α = length_penalty.

    At each step every unfinished hypothesis is extended by every token that is not forbidden, a
    finished one remains unchanged, once, and the `beam_size` best by score are kept.

    Args:
        model, source, lengths, max_length, token_ids: as in `greedy`.
        beam_size: hypotheses per sentence.
        length_penalty: α; 0 ranks by probability, 1 by the mean log-probability of a token.

    Returns:
        The hypotheses of each sentence, best score first, including those that reach max_length
        without an end, marked unfinished; fewer than `beam_size` only where fewer sequences exist.

    Raises:
        ValueError: as `greedy`; also for beam_size < 1, α < 0 and an α for which max_length^α is
            beyond the range of the scores.

    Source: Graves 2012, section 2.5; Boulanger-Lewandowski et al. 2013; the penalty ``|y|^α`` as in
    Wu et al. 2016, section 7, without their constants ``(5 + |y|)^α / 6^α``.
    """
    source, lengths = check_inputs(model, source, lengths, max_length)
    check_integer("beam_size", beam_size)
    check_number("length_penalty", length_penalty, least=0)
    ids = token_ids_of(model, token_ids)
    with torch.no_grad(), temporary_mode(model, False):
        first = _first_step(model, source, lengths, ids)
        beams = _Beams(model, ids, len(source), beam_size, max_length, length_penalty)
        return beams.search(*first)


@dataclass(frozen=True)
class _Beams:
    """Beams of B sentences: row b·k + j of the model's batch is beam j of sentence b."""

    model: Any
    ids: TokenIds
    sentences: int  # B
    k: int
    max_length: int
    alpha: float

    def search(self, first: Tensor, state: Any, memory: Any) -> list[list[Hypothesis]]:
        b, k, device = self.sentences, self.k, first.device
        beams = torch.arange(k, device=device)
        active = torch.arange(b, device=device)  # the sentences that the model still sees
        rows = active.repeat_interleave(k)
        state, memory = _select_rows(state, rows), _select_rows(memory, rows)
        token = first.repeat_interleave(k)
        log_prob, ends = None, torch.zeros(b, k, dtype=torch.bool, device=device)
        length = torch.zeros(b, k, dtype=torch.long, device=device)
        final: list[Tensor] = []
        path = []
        for step in range(1, self.max_length + 1):
            out = self.model.step(token, state, memory)
            logp = _log_probs(out.logits, self.ids).unflatten(0, (-1, k))
            if log_prob is None:
                self.check_penalty(logp.dtype)
                # Only beam 0 is alive at first: k equal beams would give the same hypothesis k
                # times.
                log_prob = logp.new_zeros(b, k).masked_fill(beams > 0, -math.inf)
                final = [log_prob, length, ends]
            total = log_prob[:, :, None] + logp
            # A finished beam goes on as itself and in no other way: one candidate, in the first
            # column, whatever token that is.
            total = total.masked_fill(ends[:, :, None], -math.inf)
            total[:, :, 0] = torch.where(ends, log_prob, total[:, :, 0])
            candidate_length = torch.where(ends, length, step)
            scores = self.score(total, candidate_length[:, :, None]).flatten(1)
            index = scores.topk(k, dim=1).indices
            parent, chosen = index // logp.shape[-1], index % logp.shape[-1]
            log_prob = total.flatten(1).gather(1, index)
            length = candidate_length.gather(1, parent)
            ends = ends.gather(1, parent) | is_end(chosen, self.ids)
            path.append((active, chosen.masked_fill(ends, NOTHING), parent))
            final = [
                whole.index_copy(0, active, part)
                for whole, part in zip(final, (log_prob, length, ends), strict=True)
            ]
            keep = _still_running((ends | (log_prob == -math.inf)).all(1))
            if keep is not None:
                if len(keep) == 0:
                    break
                active, log_prob, length = active[keep], log_prob[keep], length[keep]
                ends, chosen, parent = ends[keep], chosen[keep], parent[keep]
                memory = _select_rows(memory, (keep[:, None] * k + beams).flatten())
            token = chosen.flatten()
            # Rows of one sentence share its memory, so only the state has to follow the beams.
            old = torch.arange(len(active), device=device) if keep is None else keep
            state = _select_rows(out.state, (old[:, None] * k + parent).flatten())
        check_logits(self.model, final[0].isnan().any())
        return self.collect(path, *final)

    def check_penalty(self, dtype: torch.dtype) -> None:
        if self.alpha * math.log(self.max_length) >= math.log(torch.finfo(dtype).max):
            raise ValueError(
                f"length_penalty must be a power of max_length, {self.max_length}, within the "
                f"range of {str(dtype).removeprefix('torch.')}, got {self.alpha!r}"
            )

    def score(self, log_prob: Tensor, length: Tensor) -> Tensor:
        return log_prob if self.alpha == 0 else log_prob / length.to(log_prob) ** self.alpha

    def collect(self, path, log_prob, length, ends) -> list[list[Hypothesis]]:
        """Follow the parents back from the last step; `topk` has ordered the beams, best first."""
        beam = torch.arange(self.k, device=log_prob.device).expand(self.sentences, self.k).clone()
        columns = []
        for active, chosen, parent in reversed(path):
            # A sentence that had left the batch by then ended before, in the same beam.
            columns.append(
                torch.full_like(beam, NOTHING).index_copy(0, active, chosen.gather(1, beam[active]))
            )
            beam = beam.index_copy(0, active, parent.gather(1, beam[active]))
        sequences = torch.stack(columns[::-1], dim=-1).tolist()
        values = (log_prob, self.score(log_prob, length), ends)
        return [
            [
                Hypothesis([t for t in sequence if t != NOTHING], value, score, done)
                for sequence, value, score, done in zip(*sentence, strict=True)
                if value > -math.inf
            ]
            for sentence in zip(sequences, *(value.tolist() for value in values), strict=True)
        ]


def score_targets(model, batch, *, ignore_index: int = -100) -> Tensor:
    """log p(y|x) = Σ_t log p(y_t | y_<t, x) of each given target, (B,), in nats.

    `batch` holds source, lengths, target_in and target_out as for `token_loss`, which also says
    what counts. Evaluation mode, no gradients. The texts of a language model, which has no source,
    are scored by `language_loss`. Source: Sutskever et al. 2014, equation 1.
    """
    require(
        not hasattr(model, "begin"),
        "model must read a source and a target, got the language model "
        f"{type(model).__name__}: language_loss scores its texts",
    )
    device = device_of(model)
    batch = fields_of(batch, "source", "lengths", "target_in", "target_out")
    counted = counted_targets(batch, ignore_index).to(device)
    target = batch.target_out.to(device).masked_fill(~counted, 0)
    with torch.no_grad(), temporary_mode(model, False):
        logits = model(
            batch.source.to(device), batch.lengths.to(device), batch.target_in.to(device)
        ).logits
    log_probs = full_precision(logits).log_softmax(dim=-1).gather(-1, target[..., None])[..., 0]
    return log_probs.masked_fill(~counted, 0.0).sum(dim=-1)


def is_end(token: Tensor, ids: TokenIds) -> Tensor:
    """Which of the tokens end a text: boolean, of the same shape."""
    ended = torch.zeros_like(token, dtype=torch.bool)
    for end in ids.end:
        ended = ended | (token == end)
    return ended


def without_forbidden(logits: Tensor, ids: TokenIds) -> Tensor:
    """Logits, or log-probabilities, ``(…, V)`` with −∞ for the tokens that are never written."""
    if not ids.forbidden:
        return logits
    ids.within(logits.shape[-1])
    require(
        len(ids.forbidden) < logits.shape[-1],
        f"token_ids must leave a token that may be written, got all {logits.shape[-1]} forbidden",
    )
    never = torch.zeros(logits.shape[-1], dtype=torch.bool, device=logits.device)
    never[list(ids.forbidden)] = True
    return logits.masked_fill(never, -math.inf)


def read_prompts(model, prompts: Tensor, lengths: Tensor) -> tuple[Tensor, Any]:
    """The last token of each prompt (B,), and the state before it."""
    require(
        hasattr(model, "begin"),
        "model must be a language model, with begin, encode, start and step, got "
        f"{type(model).__name__}: greedy and beam_search write what it says to a source",
    )
    last = prompts.gather(1, (lengths.long() - 1)[:, None])[:, 0]
    before = lengths - 1
    if int(before.max()) == 0:
        return last, model.begin(len(prompts), device=prompts.device)
    return last, model.start(model.encode(prompts[:, : int(before.max())], before))


def _first_step(model, source: Tensor, lengths: Tensor, ids: TokenIds):
    """What a decoder reads first (B,), the state before it, and its memory of the source."""
    if ids.start is None:
        require(
            hasattr(model, "begin"),
            "model must say with which id its targets start, for instance by "
            "token_ids=vocabulary.token_ids where it is made, got none from "
            f"{type(model).__name__}",
        )
        return *read_prompts(model, source, lengths), None
    memory = model.encode(source, lengths)
    first = torch.full((len(source),), ids.start, dtype=torch.long, device=source.device)
    return first, model.start(memory), memory


def _log_probs(logits: Tensor, ids: TokenIds) -> Tensor:
    """log softmax over all tokens, then −∞ for those that a target never holds: (rows, V)."""
    return without_forbidden(full_precision(logits).log_softmax(dim=-1), ids)


def _select_rows(nest: Any, rows: Tensor) -> Any:
    """Those rows of every tensor of a nest of tuples and NamedTuples; None stays None."""
    return map_tensors(lambda tensor: tensor.index_select(0, rows), nest)


def _still_running(done: Tensor) -> Tensor | None:
    """Indices of the rows that are not done, once they are half of the rows or fewer; else None.

    Every step costs as much as its rows: a few long targets should not pay for the whole batch.
    """
    running = (~done).nonzero()[:, 0]
    return running if 2 * len(running) <= len(done) else None


def check_inputs(
    model, source, lengths, max_length: int, name: str = "source"
) -> tuple[Tensor, Tensor]:
    """Token ids and lengths on the device of the model; a ValueError calls the ids `name`."""
    check_integer("max_length", max_length)
    if (
        not isinstance(source, Tensor)
        or source.dim() != 2
        or source.dtype not in (torch.int32, torch.int64)
    ):
        raise ValueError(
            f"{name} must be token ids (batch, length) of int32 or int64, got {describe(source)}"
        )
    require(len(source) > 0, f"{name} must have at least one row, got an empty batch")
    check_lengths(lengths, len(source), name)
    require(
        lengths.min() >= 1 and lengths.max() <= source.shape[1],
        f"lengths must be from 1 to {source.shape[1]}, the width of {name}, got "
        f"{int(lengths.min())} to {int(lengths.max())}",
    )
    device = device_of(model)
    return source.to(device), lengths.to(device)


def check_logits(model, nan: Tensor | bool) -> None:
    """Raise ValueError, naming the model, if there are values that are NaN."""
    if nan:
        raise ValueError(f"model must give finite logits, got NaN from {type(model).__name__}")
