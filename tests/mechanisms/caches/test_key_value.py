"""Rows are appended without a copy of all before them, and no state changes by it."""

from contextlib import nullcontext
from itertools import pairwise

import pytest
import torch

from attnbook.mechanisms.caches import key_value
from attnbook.mechanisms.caches.key_value import append_rows


@pytest.fixture(autouse=True)
def nothing_is_small(monkeypatch):
    monkeypatch.setattr(key_value, "_SMALL", 0)


def rows(m, **options):
    return torch.randn(2, 3, m, 4, **options)


@pytest.mark.parametrize("inference", [False, True])
def test_every_state_keeps_its_rows_while_others_grow(inference):
    torch.manual_seed(0)
    parts = [rows(m) for m in (5, 1, 1, 3, 200, 1, 1)]
    with torch.inference_mode() if inference else nullcontext():
        states = [parts[0]]
        for part in parts[1:]:
            states.append(append_rows(states[-1], part))
        for k, state in enumerate(states):
            assert torch.equal(state, torch.cat(parts[: k + 1], dim=-2))
        # one state twice, with other rows: both are what they should be, and so are all before
        others = [append_rows(states[2], part) for part in (rows(2), rows(1), rows(400))]
        further = [append_rows(other, rows(1)) for other in others]
        for other, more in zip(others, further):
            assert torch.equal(more[..., :-1, :], other)
            assert torch.equal(other[..., :7, :], states[2])
        for k, state in enumerate(states):
            assert torch.equal(state, torch.cat(parts[: k + 1], dim=-2))


def test_a_step_writes_its_own_rows_and_copies_the_others_seldom(monkeypatch):
    copies, state = 0, rows(1)
    for before, after in pairwise([state, *_grown(state, 500)]):
        copies += before.untyped_storage().data_ptr() != after.untyped_storage().data_ptr()
    assert copies <= 9  # at 2, 3, 7, 15, … 511 rows


def test_few_rows_and_rows_that_were_chosen_anew_are_copied_into_as_much_as_they_need(monkeypatch):
    """As in a beam search, after each step of which no buffer is left."""

    def room(tensor):
        return tensor.untyped_storage().nbytes() - tensor.nbytes

    once = append_rows(rows(20), rows(1))
    assert room(once) == 0 and room(append_rows(once[:1], rows(1)[:1])) == 0
    assert room(append_rows(once, rows(1))) > 0
    monkeypatch.setattr(key_value, "_SMALL", 10**6)
    assert room(append_rows(once, rows(1))) == 0


def _grown(state, steps):
    for _ in range(steps):
        state = append_rows(state, rows(1))
        yield state


def test_gradients_go_through_and_those_of_a_state_that_went_on_are_whole():
    state, more = rows(3, requires_grad=True), rows(2)
    append_rows(state, more).sum().backward()
    assert torch.equal(state.grad, torch.ones_like(state))
    kept = append_rows(rows(3), rows(1))
    query = rows(1, requires_grad=True)
    scores = query @ kept.mT
    append_rows(kept, rows(1))  # written behind what autograd keeps
    scores.sum().backward()
    torch.testing.assert_close(query.grad, kept.sum(-2, keepdim=True))


def test_a_cache_made_for_inference_goes_on_outside_of_it():
    with torch.inference_mode():
        state = append_rows(rows(2), rows(1))
    longer = append_rows(state, rows(1))
    assert torch.equal(longer[..., :3, :], state) and not longer.is_inference()


def test_what_does_not_fit_is_refused_as_by_cat():
    with pytest.raises(RuntimeError, match="Sizes of tensors must match"):
        append_rows(rows(2), torch.randn(1, 3, 1, 4))


def test_a_buffer_that_everyone_wrote_into_would_be_seen(monkeypatch):
    """The known mistake: the second continuation writes over the first."""

    class Shared(key_value._Buffer):
        used = property(lambda self: self.at, lambda self, value: setattr(self, "at", 1))

    monkeypatch.setattr(key_value, "_Buffer", Shared)
    state = append_rows(append_rows(rows(1), rows(0)), rows(0))
    first = append_rows(state, torch.ones(2, 3, 1, 4))
    append_rows(state, torch.zeros(2, 3, 1, 4))
    assert not torch.equal(first[..., 1:, :], torch.ones(2, 3, 1, 4))
