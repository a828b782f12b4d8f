"""Decoding of answers that are positions: against every answer, and against plain checks."""

import itertools
import math

import pytest
import torch
from assertions import assert_refused

from attnbook.decoding.pointing import (
    Candidate,
    distinct,
    groups,
    permutation,
    point_beam,
    point_greedy,
)
from attnbook.models.pointer.network import PointerNetwork
from attnbook.tasks.geometry.points import PointBatch
from attnbook.training import pointing_loss

LENGTHS = torch.tensor([4, 3, 4, 2])


def network(ends, repeats=False, seed=0):
    torch.manual_seed(seed)
    net = PointerNetwork(2, 6, ends=ends, repeats=repeats, d_embed=4).double()
    with torch.no_grad():
        for p in net.parameters():
            p.copy_(1.5 * torch.randn_like(p))
    return net, torch.randn(len(LENGTHS), 4, 2, dtype=torch.float64)


def log_prob(net, inputs, length, positions, finished=True):
    """log p of one answer to one row, under teacher forcing."""
    n = inputs.shape[0]
    answer = [*positions, n] if net.ends and finished else list(positions)
    logits = net(inputs[None], torch.tensor([length]), torch.tensor([answer])).logits[0]
    return float(logits.log_softmax(-1)[torch.arange(len(answer)), answer].sum().detach())


def hulls(length, least):
    return [
        list(p)
        for size in range(min(least, length), length + 1)
        for p in itertools.permutations(range(length), size)
    ]


def triangles(length, most):
    """Every list of up to ``most`` different ascending triples."""
    triples = list(itertools.combinations(range(length), 3))
    return [
        [i for triple in chosen for i in triple]
        for size in range(1, most + 1)
        for chosen in itertools.permutations(triples, size)
    ]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("repeats", [False, True], ids=["masked model", "unmasked model"])
@pytest.mark.parametrize("ends", [False, True], ids=["tours", "hulls"])
def test_a_wide_beam_finds_what_exhaustive_search_finds(ends, repeats, seed):
    net, x = network(ends, repeats, seed)
    rule = distinct(3) if ends else permutation
    result = point_beam(net, x, LENGTHS, beam_size=200, rule=rule)
    for b, length in enumerate(LENGTHS.tolist()):
        every = hulls(length, 3 if ends else length)
        scores = sorted(((log_prob(net, x[b], length, a), a) for a in every), reverse=True)
        assert len(result[b]) == len(scores) and all(c.finished for c in result[b])
        assert [c.positions for c in result[b]] == [answer for _, answer in scores]
        assert all(abs(c.log_prob - value) < 1e-9 for c, (value, _) in zip(result[b], scores))


def test_a_wide_beam_finds_every_list_of_triangles():
    net, x = network(True, True)
    x, lengths = x[:2], LENGTHS[:2]
    result = point_beam(net, x, lengths, beam_size=60, rule=groups(3), max_steps=7)
    for b, length in enumerate(lengths.tolist()):
        every = triangles(length, 2)
        done = {tuple(c.positions): c.log_prob for c in result[b] if c.finished}
        assert set(done) == {tuple(answer) for answer in every}
        assert all(abs(done[tuple(a)] - log_prob(net, x[b], length, a)) < 1e-9 for a in every)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "ends, repeats, rule",
    [
        (False, False, None),
        (False, False, permutation),
        (False, True, permutation),
        (True, False, distinct(3)),
        (True, True, distinct(1)),
        (True, True, groups(3)),
        (False, True, None),
        (True, False, None),
    ],
)
def test_a_beam_of_one_is_greedy_and_greedy_takes_the_best_at_each_step(ends, repeats, rule, seed):
    net, x = network(ends, repeats, seed)
    greedy = point_greedy(net, x, LENGTHS, rule=rule)
    beam = point_beam(net, x, LENGTHS, rule=rule, beam_size=1)
    for b, length in enumerate(LENGTHS.tolist()):
        positions, finished = greedy.positions[b], bool(greedy.finished[b])
        if not positions and not finished:  # two positions make no triangle
            assert rule is not None and length < 3 and not beam[b]
            continue
        if beam[b]:  # an answer that is left with nothing to point at leaves the beam
            assert beam[b][0].positions == positions and beam[b][0].finished == finished
            assert abs(beam[b][0].log_prob - float(greedy.log_probs[b])) < 1e-9
        log_p = log_prob(net, x[b], length, positions, finished)
        assert abs(float(greedy.log_probs[b]) - log_p) < 1e-9
        assert len(greedy.weights[b]) == len(positions) + (ends and finished)
        if rule is None and not (ends or repeats):
            assert sorted(positions) == list(range(length))
        for i, chosen in enumerate(positions):  # each is the most probable of what was left
            row = greedy.weights[b][i]
            path = torch.tensor(positions[:i], dtype=torch.long)[None, None]
            if rule:
                row = row.masked_fill(~rule(path, LENGTHS[b : b + 1], 4)[0, 0], -1)
            assert chosen == int(row.argmax())


def test_what_a_rule_forbids_is_not_given_to_others():
    net, x = network(False, True)
    free, ruled = (
        point_beam(net, x, LENGTHS, beam_size=300, rule=rule) for rule in (None, permutation)
    )
    for b, length in enumerate(LENGTHS.tolist()):
        assert len(free[b]) == length**length
        assert abs(sum(math.exp(c.log_prob) for c in free[b]) - 1) < 1e-9
        all_of_them = {tuple(c.positions): c.log_prob for c in free[b]}
        assert all(abs(all_of_them[tuple(c.positions)] - c.log_prob) < 1e-9 for c in ruled[b])
        assert any(len(set(c.positions)) < length for c in free[b])


def test_rows_and_beams_go_through_the_model_as_one_batch():
    net, x = network(False)
    steps = []
    advance = net.step
    net.step = lambda pointed, *rest: steps.append(tuple(pointed.shape)) or advance(pointed, *rest)
    point_beam(net, x, LENGTHS, beam_size=7, rule=permutation)
    assert steps == [(4, 7)] * 4


def test_a_row_is_decoded_as_it_is_alone():
    for ends, rule in ((False, permutation), (True, distinct(3))):
        net, x = network(ends)
        together = point_beam(net, x, LENGTHS, beam_size=3, rule=rule)
        greedy = point_greedy(net, x, LENGTHS, rule=rule)
        for b, n in enumerate(LENGTHS.tolist()):
            row = x[b : b + 1, :n], LENGTHS[b : b + 1]
            (alone,) = point_beam(net, *row, beam_size=3, rule=rule)
            assert [c.positions for c in alone] == [c.positions for c in together[b]]
            assert point_greedy(net, *row, rule=rule).positions == [greedy.positions[b]]


@pytest.mark.parametrize(
    ("rule", "path", "length", "allowed"),
    [
        (permutation, [], 3, {0, 1, 2}),
        (permutation, [2, 0], 3, {1}),
        (permutation, [2, 0, 1], 3, {5}),
        # The model itself masks padding, positions 3 and 4 here.
        (distinct(3), [], 3, {0, 1, 2, 3, 4}),
        (distinct(3), [1, 2], 3, {0, 3, 4}),
        (distinct(3), [1, 2, 0], 5, {3, 4, 5}),
        (distinct(3), [1, 0], 2, {2, 3, 4, 5}),
        (groups(3), [], 5, {0, 1, 2}),
        (groups(3), [1], 5, {2, 3}),
        (groups(3), [1, 2], 5, {3, 4}),
        (groups(3), [1, 2, 3], 5, {0, 1, 2, 5}),
        (groups(3), [1, 2, 3, 1, 2], 5, {4}),
        (groups(3), [1, 2, 3, 1], 5, {2, 3}),
        (groups(3), [], 3, {0}),
        (groups(3), [0, 1], 3, {2}),
        (groups(1), [1], 3, {0, 2, 5}),
    ],
)
def test_the_rules_say_what_an_answer_may_go_on_with(rule, path, length, allowed):
    read = torch.tensor(path, dtype=torch.long)[None, None]
    may = rule(read, torch.tensor([length]), 5)[0, 0]
    assert set(may.nonzero()[:, 0].tolist()) == allowed


def test_an_answer_with_nothing_left_or_no_steps_left_is_unfinished():
    net, x = network(True)

    def never(path, lengths, n):
        return torch.zeros(*path.shape[:2], n + 1, dtype=torch.bool)

    nothing = point_greedy(net, x, LENGTHS, rule=never)
    assert nothing.positions == [[]] * 4
    assert not nothing.finished.any() and (nothing.log_probs == 0).all()
    assert point_beam(net, x, LENGTHS, beam_size=2, rule=never) == [[]] * 4
    short = point_beam(net, x, LENGTHS, beam_size=2, rule=distinct(3), max_steps=2)
    for candidate in itertools.chain(*short[:3]):
        assert isinstance(candidate, Candidate)
        assert not candidate.finished and len(candidate.positions) == 2


def test_the_model_keeps_its_mode_and_no_gradients_are_kept():
    net, x = network(False)
    net.train()
    net.embedding.eval()
    assert not point_greedy(net, x, LENGTHS).log_probs.requires_grad
    assert net.training and not net.embedding.training


def test_wrong_arguments_are_named():
    net, x = network(False)
    for change, message in (
        ({"inputs": x[0]}, "^inputs must"),
        ({"inputs": x[:0]}, "^inputs must"),
        ({"lengths": LENGTHS[:2]}, "^lengths must"),
        ({"lengths": LENGTHS.double()}, "^lengths must"),
        ({"max_steps": 0}, "^max_steps must"),
        ({"rule": lambda *_: torch.ones(2, 2).bool()}, r"rule must give .* got \(2, 2\)"),
    ):
        given = {"inputs": x, "lengths": LENGTHS, **change}
        for decode, more in ((point_greedy, {}), (point_beam, {"beam_size": 2})):
            with pytest.raises(ValueError, match=message):
                decode(net, **given, **more)
    assert_refused("beam_size", point_beam, net, x, LENGTHS, beam_size=0)
    assert_refused("size", groups, 0)
    with torch.no_grad():
        net.embedding.weight.fill_(math.nan)
    assert_refused("model must give finite logits", point_greedy, net, x, LENGTHS)

    class Narrow(PointerNetwork):
        def forward(self, *given):
            out = super().forward(*given)
            return out._replace(logits=out.logits[..., :-1])

    net.__class__ = Narrow
    batch = PointBatch(x, LENGTHS, torch.zeros(4, 1, dtype=torch.long))
    assert_refused("logits", pointing_loss, net, batch)
