"""Beam search against exhaustive search and a plain one with lists, and the known faults."""

import math
from functools import partial
from typing import NamedTuple

import pytest
import torch
from assertions import assert_exact, assert_refused
from torch.utils._python_dispatch import TorchDispatchMode
from training_doubles import (
    BOS,
    EOS,
    PAD,
    TARGETS,
    Batch,
    CopyBatches,
    TinyAttention,
    all_targets,
    make_model,
    produced,
    sharp,
    sources,
    step_by_step,
)

from attnbook.decoding import beam_search, greedy, score_targets
from attnbook.decoding import search as module


@pytest.mark.parametrize("alpha", [0.0, 0.7, 1.0])
def test_beam_of_one_equals_greedy(alpha):
    model, (source, lengths) = sharp(), sources(20)
    result = greedy(model, source, lengths, 6)
    beams = beam_search(model, source, lengths, beam_size=1, max_length=6, length_penalty=alpha)
    for tokens, log_prob, finished, (only,) in zip(*result[:1], *result[2:], beams, strict=True):
        assert only.tokens == tokens and only.finished == finished.item()
        assert only.log_prob == pytest.approx(log_prob.item(), abs=1e-10)


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0, 2.0])
def test_a_beam_as_wide_as_all_sequences_is_exhaustive_search(alpha):
    max_length = 3
    model, (source, lengths) = sharp(), sources(4)
    options = {"beam_size": TARGETS**max_length, "max_length": max_length, "length_penalty": alpha}
    found = beam_search(model, source, lengths, **options)
    for row, n, hypotheses in zip(source, lengths.tolist(), found, strict=True):
        expected = []
        for sequence in all_targets(max_length):
            log_prob = step_by_step(model, row, n, sequence)
            expected.append((log_prob / len(sequence) ** alpha, log_prob, list(sequence)))
        expected.sort(reverse=True)
        for h, (score, log_prob, sequence) in zip(hypotheses, expected, strict=True):
            assert produced(h) == sequence and h.finished == (sequence[-1] == EOS)
            assert (h.score, h.log_prob) == pytest.approx((score, log_prob), abs=1e-10)


@pytest.mark.parametrize("alpha", [0.0, 1.0])
@pytest.mark.parametrize("beam_size", [2, 3, 5])
def test_equals_a_plain_search_with_lists(beam_size, alpha):
    """The same rule, one sentence and one hypothesis at a time."""
    max_length = 6
    model, (source, lengths) = sharp(3), sources(6)
    options = {"beam_size": beam_size, "max_length": max_length, "length_penalty": alpha}
    found = beam_search(model, source, lengths, **options)
    for row, n, hypotheses in zip(source, lengths.tolist(), found, strict=True):
        score = lambda c: step_by_step(model, row, n, c) / len(c) ** alpha  # noqa: E731
        beams = [()]
        for _ in range(max_length):
            candidates = []
            for beam in beams:
                ends = beam[-1:] == (EOS,)
                candidates += [beam] if ends else [(*beam, v) for v in range(EOS, TARGETS)]
            beams = sorted(candidates, key=score, reverse=True)[:beam_size]
        assert [tuple(produced(h)) for h in hypotheses] == beams
        for h, beam in zip(hypotheses, beams, strict=True):
            assert h.log_prob == pytest.approx(step_by_step(model, row, n, beam), abs=1e-10)
            assert h.score == pytest.approx(h.log_prob / len(beam) ** alpha, abs=1e-10)


def test_sentences_that_are_done_leave_the_batch():
    """Rows that the model sees: all at first, fewer once half of the sentences have ended."""

    class Watched(TinyAttention):
        rows = ()

        def step(self, token, state, memory):
            self.rows = (*self.rows, len(token))
            return super().step(token, state, memory)

    model, (source, lengths) = sharp(), sources(40)
    watched = Watched(target_size=TARGETS, sharpness=4.0).double()
    watched.load_state_dict(model.state_dict())
    assert greedy(watched, source, lengths, 30).tokens == greedy(model, source, lengths, 30).tokens
    assert watched.rows[0] == 40 and watched.rows[-1] <= 20
    watched.rows = ()
    with torch.no_grad():
        watched.readout.bias[EOS] += 0.3
    beam_search(watched, source, lengths, beam_size=3, max_length=30)
    assert watched.rows[0] == 120 and watched.rows[-1] <= 60


def test_no_hypothesis_comes_twice_and_scores_fall():
    options = {"beam_size": 8, "max_length": 6, "length_penalty": 0.5}
    for hypotheses in beam_search(sharp(), *sources(20), **options):
        assert len({(tuple(h.tokens), h.finished) for h in hypotheses}) == len(hypotheses) == 8
        assert [h.score for h in hypotheses] == sorted((h.score for h in hypotheses), reverse=True)
        assert any(h.finished for h in hypotheses)


def test_fewer_hypotheses_where_fewer_sequences_exist():
    model, (source, lengths) = sharp(), sources(3)
    for hypotheses in beam_search(model, source, lengths, beam_size=10, max_length=1):
        assert sorted(produced(h)[0] for h in hypotheses) == [EOS, 3, 4, 5]
        assert all(math.isfinite(h.score) for h in hypotheses)


def score_of(hypotheses, source, lengths, model):
    """log p of each best hypothesis by teacher forcing."""
    rows = [produced(h) for h in hypotheses]
    width = max(map(len, rows))
    out = torch.tensor([row + [PAD] * (width - len(row)) for row in rows])
    target_in = torch.cat([torch.full((len(rows), 1), BOS), out[:, :-1]], 1)
    return score_targets(model, Batch(source, lengths, target_in, out))


def test_log_probs_are_those_of_teacher_forcing():
    model, (source, lengths) = sharp(), sources(20)
    beams = beam_search(model, source, lengths, beam_size=4, max_length=6)
    for place in range(4):
        column = [hypotheses[place] for hypotheses in beams]
        expected = torch.tensor([h.log_prob for h in column], dtype=torch.float64)
        assert_exact(score_of(column, source, lengths, model), expected)


def test_score_targets_is_the_sum_over_steps():
    model = sharp(dropout=0.5)
    batch = CopyBatches(6, tokens=3).batch(1)
    scores = score_targets(model, batch)
    assert model.training and not scores.requires_grad
    for i, target in enumerate(batch.target_out.tolist()):
        tokens = [token for token in target if token != PAD]
        total = step_by_step(model, batch.source[i], int(batch.lengths[i]), tokens)
        assert scores[i].item() == pytest.approx(total, abs=1e-10)


# Known faults: each changes the result, so that the tests above would see it


def assert_fails_when(monkeypatch, name, broken, test, *arguments):
    monkeypatch.setattr(module, name, broken)
    with pytest.raises(AssertionError):
        test(*arguments)


@pytest.mark.parametrize(
    "stays", [lambda moved, nest: nest, lambda moved, nest: (moved[0], nest[1])]
)
def test_a_state_that_does_not_follow_its_beam_as_a_whole_is_noticed(stays, monkeypatch):
    real, calls = module._select_rows, []

    def first_two_only(nest, rows):
        calls.append(None)
        moved = real(nest, rows)
        return moved if len(calls) <= 2 else stays(moved, nest)

    test = test_log_probs_are_those_of_teacher_forcing
    assert_fails_when(monkeypatch, "_select_rows", first_two_only, test)


def test_a_penalty_on_the_wrong_length_is_noticed(monkeypatch):
    class Wrong(module._Beams):
        def score(self, log_prob, length):
            return super().score(log_prob, (length - 1).clamp(min=1))

    exhaustive = test_a_beam_as_wide_as_all_sequences_is_exhaustive_search
    assert_fails_when(monkeypatch, "_Beams", Wrong, exhaustive, 1.0)
    assert_fails_when(monkeypatch, "_Beams", Wrong, test_equals_a_plain_search_with_lists, 3, 1.0)


def test_all_beams_alive_at_the_start_are_noticed(monkeypatch):
    def masked_fill(self, mask, value, real=torch.Tensor.masked_fill):
        alive = self.dim() == 2 and value == -math.inf and not self.any()
        return self if alive else real(self, mask, value)

    monkeypatch.setattr(torch.Tensor, "masked_fill", masked_fill)
    with pytest.raises(AssertionError):
        test_no_hypothesis_comes_twice_and_scores_fall()


def test_ids_of_32_bits_are_ids():
    source, lengths = sources()
    for decode in (greedy, partial(beam_search, beam_size=2)):
        wide, narrow = (decode(sharp(), t, lengths, max_length=4) for t in (source, source.int()))
        assert str(wide) == str(narrow)


# Bad input


@pytest.mark.parametrize("decode", [greedy, partial(beam_search, beam_size=2)])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"source": torch.zeros(0, 3).long(), "lengths": torch.ones(0).long()}, "source must have"),
        ({"source": torch.zeros(7, 3)}, "source must be"),
        ({"lengths": torch.ones(2).long()}, "lengths must be a"),
        ({"lengths": torch.zeros(7).long()}, "lengths must be from"),
        ({"lengths": torch.full((7,), 99)}, "lengths must be from"),
        ({"max_length": 0}, "max_length"),
    ],
)
def test_bad_input(decode, change, message):
    source, lengths = sources()
    given = {"source": source, "lengths": lengths, "max_length": 4, **change}
    assert_refused(message, decode, sharp(), **given)


@pytest.mark.parametrize("options", [{"beam_size": 0}, {"length_penalty": -1}])
def test_bad_beam_options(options):
    with pytest.raises(ValueError, match=f"{next(iter(options))} must be"):
        beam_search(sharp(), *sources(), **{"beam_size": 2, "max_length": 3, **options})


def test_a_penalty_beyond_the_numbers_of_the_scores():
    source, lengths = sources()
    long = {"beam_size": 2, "max_length": 100}
    for model, alpha in ((make_model(), 20), (sharp(), 400)):
        options = {"length_penalty": alpha, **long}
        assert_refused("length_penalty", beam_search, model, source, lengths, **options)
    assert all(beam_search(sharp(), source, lengths, length_penalty=20, **long))


def test_nan_from_the_model():
    model = sharp()
    with torch.no_grad():
        model.readout.bias[3] = math.nan
    for decode in (greedy, partial(beam_search, beam_size=2)):
        assert_refused("model must give finite", decode, model, *sources(), max_length=4)


def test_nests_of_every_kind_are_picked():
    class Pair(NamedTuple):
        first: torch.Tensor
        second: tuple | None

    rows = torch.tensor([2, 0, 0])
    tensor = torch.arange(6).view(3, 2)
    picked = module._select_rows(Pair(tensor, (None, [tensor, {"a": tensor}])), rows)
    assert isinstance(picked, Pair) and picked.second[0] is None
    for part in (picked.first, picked.second[1][0], picked.second[1][1]["a"]):
        assert torch.equal(part, tensor[rows])


class Operations(TorchDispatchMode):
    """Counts the operations of PyTorch."""

    count = 0

    def __torch_dispatch__(self, function, types, arguments=(), options=None):
        self.count += 1
        return function(*arguments, **(options or {}))


def test_a_batch_takes_hardly_more_operations_than_one_sentence():
    model = make_model(width=64, target_size=60)
    batch = CopyBatches(64, tokens=8).batch(0)

    def operations(sentences):
        given = batch.source[sentences], batch.lengths[sentences]
        with Operations() as counter:
            beam_search(model, *given, beam_size=5, max_length=12)
        return counter.count

    assert operations(slice(0, 64)) < 1.5 * operations(slice(0, 1))
