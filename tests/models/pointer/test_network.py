"""The pointer network against an oracle with loops, its known breakages, and its masks."""

import numpy as np
import pytest
import torch
from assertions import assert_exact, assert_refused, refusals
from hypothesis import given, settings
from hypothesis import strategies as st

from attnbook.decoding import point_greedy
from attnbook.decoding.pointing import permutation
from attnbook.models.pointer.fixed_dictionary import FixedDictionary
from attnbook.models.pointer.network import PointerNetwork
from attnbook.tasks.geometry.points import PointBatch, PointBatches, answers
from attnbook.training import pointing_loss

from .oracles_pointer import WRONG, dictionary, loss, pointer

N, LENGTHS = 5, torch.tensor([5, 3, 4])
# as many steps as positions
ONCE = torch.tensor([[4, 0, 2, 1, 3, -1], [2, 0, 1, -1, -1, -1], [3, 1, 0, 2, -1, -1]])
ENDED = torch.tensor([[4, 0, 2, 5, -1, -1], [2, 0, 1, 5, -1, -1], [3, 1, 0, 2, 5, -1]])
TWICE = torch.tensor([[4, 0, 2, 4, 0, 5], [2, 2, 5, -1, -1, -1], [3, 1, 3, 1, 1, 5]])
KINDS = {
    "sorting": (dict(ends=False), ONCE),
    "hulls": (dict(ends=True), ENDED),
    "repeats": (dict(ends=True, repeats=True), TWICE),
}


def network(ends, repeats=False, seed=0, sizes=(4, 3, 6)):
    torch.manual_seed(seed)
    options = dict(zip(("hidden_size", "d_embed", "d_attention"), sizes))
    net = PointerNetwork(2, ends=ends, repeats=repeats, **options)
    with torch.no_grad():  # away from the flat weights of the start
        for p in net.parameters():
            p.copy_(torch.randn_like(p))
        net.score.vector.weight.mul_(2)
    return net.double()


def points(seed=1):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(len(LENGTHS), N, 2, generator=generator, dtype=torch.float64)
    return x.where((torch.arange(N) < LENGTHS[:, None])[..., None], 0.0)


def probabilities(logits, targets):
    """softmax of the logits in the steps that have a target, zeros in the others."""
    return (logits.softmax(-1).nan_to_num(0.0) * (targets >= 0)[..., None]).detach().numpy()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(3))
def test_logits_and_weights_equal_equation_3(kind, seed):
    options, targets = KINDS[kind]
    net, x = network(**options, seed=seed), points(seed + 10)
    out = net(x, LENGTHS, targets, need_weights=True)
    scores, expected = pointer(net, x, LENGTHS, targets)
    real = (targets >= 0).numpy()
    logits = out.logits.detach().numpy()
    np.testing.assert_array_equal(np.isfinite(logits[real]), expected[real] > 0)
    shown = np.isfinite(logits) & real[..., None]
    np.testing.assert_allclose(logits[shown], scores[shown], atol=1e-10, rtol=0)
    assert_exact(out.weights[real], torch.tensor(expected[real]))


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_reading_is_told_apart(wrong):
    """Each known breakage moves the probabilities of at least one kind of answer."""
    result = []
    for options, targets in KINDS.values():
        net, x = network(**options), points()
        with np.errstate(all="ignore"):
            _, broken = pointer(net, x, LENGTHS, targets, wrong)
        mine = probabilities(net(x, LENGTHS, targets).logits, targets)
        result.append(np.abs(mine - broken).max())
    assert max(result) > 1e-2


@pytest.mark.parametrize("kind", KINDS)
def test_the_loss_is_that_of_scores_and_not_of_probabilities(kind):
    """A softmax before the cross-entropy leaves a perfect answer with a loss far above 0."""
    options, targets = KINDS[kind]
    net, x = network(**options), points()
    total, count = pointing_loss(net, PointBatch(x, LENGTHS, targets))
    _, p = pointer(net, x, LENGTHS, targets)
    mean = float((total / count).detach())
    assert count == (targets >= 0).sum()
    assert mean == pytest.approx(loss(p, targets), abs=1e-10)
    assert abs(mean - loss(p, targets, softmax_twice=True)) > 1e-2


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_are_those_of_finite_differences(kind):
    options, targets = KINDS[kind]
    net, targets = network(**options, sizes=(2, 2, 3)), targets[1:]
    x = points()[1:].requires_grad_()

    def run(x, *parameters):
        logits = net(x, LENGTHS[1:], targets).logits.flatten(0, 1)
        given = {"ignore_index": -1, "reduction": "none"}
        return torch.nn.functional.cross_entropy(logits, targets.flatten(), **given)

    assert torch.autograd.gradcheck(run, (x, *net.parameters()))


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_of_one_equals_its_row(kind):
    options, targets = KINDS[kind]
    net, x = network(**options), points()
    together = net(x, LENGTHS, targets, need_weights=True).weights
    for b, n in enumerate(LENGTHS.tolist()):
        row = targets[b : b + 1, : int((targets[b] >= 0).sum())]
        # END is the column behind the last position of the batch
        row = torch.where(row == N, n, row)
        alone = net(x[b : b + 1, :n], LENGTHS[b : b + 1], row, need_weights=True).weights[0]
        expected = torch.cat([together[b, : row.shape[1], :n], together[b, : row.shape[1], N:]], -1)
        assert_exact(alone, expected)


@pytest.mark.parametrize("kind", KINDS)
def test_step_by_step_equals_teacher_forcing_for_answers_side_by_side(kind):
    options, targets = KINDS[kind]
    net, x = network(**options), points()
    other = torch.tensor([[0, 1, 2, 3, 4, -1], [0, 1, 2, -1, -1, -1], [0, 1, 2, 3, -1, -1]])
    memory = net.encode(x, LENGTHS)
    state, pointed = net.start(memory, answers=2), torch.full((3, 2), -1)
    both = torch.stack([targets, other], 1)
    forced = [net(x, LENGTHS, row, need_weights=True) for row in (targets, other)]
    for i in range(both.shape[-1]):
        out = net.step(pointed, state, memory)
        for k in range(2):
            real = both[:, k, i] >= 0
            assert_exact(out.logits[real, k], forced[k].logits[real, i])
            assert_exact(out.weights[real, k], forced[k].weights[real, i])
        pointed, state = torch.where(both[..., i] < 0, N, both[..., i]), out.state


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_weights_are_a_distribution_over_what_is_left(data):
    seed, ends = data.draw(st.integers(0, 10**6)), data.draw(st.booleans())
    lengths = torch.tensor(data.draw(st.lists(st.integers(1, 6), min_size=1, max_size=4)))
    n = int(lengths.max()) + data.draw(st.integers(0, 2))
    rows = [data.draw(st.permutations(range(int(length)))) + [n] * ends for length in lengths]
    targets = torch.tensor([row + [-1] * (n + 1 - len(row)) for row in rows])
    x = torch.randn(len(lengths), n, 2, dtype=torch.float64)
    weights = network(ends, seed=seed)(x, lengths, targets, need_weights=True).weights
    for b, row in enumerate(rows):
        for i in range(n + 1):
            left = set(range(int(lengths[b]))) - set(row[:i]) | ({n} if ends else set())
            sure = torch.tensor([j in left for j in range(n + 1)])
            assert (weights[b, i][~sure] == 0).all() and (weights[b, i][sure] > 0).all()
            assert abs(float(weights[b, i].sum().detach()) - bool(left)) < 1e-9


def test_the_decoder_is_called_once_and_keys_are_projected_once():
    net, x = network(ends=False), points()
    calls = []
    for name in ("encoder", "decoder"):
        getattr(net, name).register_forward_hook(lambda *_, name=name: calls.append(name))
    net.score.key_projection.register_forward_hook(lambda *_: calls.append("keys"))
    net(x, LENGTHS, ONCE)
    assert sorted(calls) == ["decoder", "encoder", "keys"]
    calls.clear()
    point_greedy(net, x, LENGTHS, rule=permutation)
    assert calls.count("keys") == calls.count("encoder") == 1 and calls.count("decoder") == N


def test_it_trains_under_bf16_autocast():
    net, batch = PointerNetwork(1, 16, ends=False), PointBatches("sorting", (3, 6), 16).batch(0)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        total, _ = pointing_loss(net, batch)
        result = point_greedy(net, batch.inputs, batch.lengths, rule=permutation)
    total.backward()
    assert total.dtype == torch.float32 and all(p.grad.isfinite().all() for p in net.parameters())
    assert [sorted(row) for row in result.positions] == [sorted(row) for row in answers(batch)]


@pytest.mark.parametrize(
    "change, message",
    [
        (dict(inputs=torch.zeros(3, N, 3, dtype=torch.float64)), "inputs"),
        (dict(inputs=torch.zeros(3, 0, 2, dtype=torch.float64)), "inputs"),
        (dict(lengths=torch.tensor([5, 3])), "lengths"),
        (dict(lengths=torch.tensor([5, 0, 4])), "lengths must be between"),
        (dict(lengths=torch.tensor([6, 3, 4])), "lengths must be between"),
        (dict(targets=ONCE[:2]), "targets must be"),
        (dict(targets=ONCE.double()), "targets must be"),
        (dict(targets=torch.full((3, 2), -2)), "targets must hold"),
        (dict(targets=torch.tensor([[0], [3], [0]])), "targets must hold"),
        (dict(targets=ENDED), "targets must hold"),
        (dict(targets=torch.tensor([[0, 1, 0], [0, 1, 2], [0, 1, 2]])), "targets must not"),
    ],
)
def test_wrong_arguments_are_named(change, message):
    given = {"inputs": points(), "lengths": LENGTHS, "targets": ONCE, **change}
    assert_refused(message, network(ends=False), **given)


@pytest.mark.parametrize("row", [[0, -1, 1, 5], [5, 0, -1, -1], [1, 5, 5, -1]])
def test_nothing_but_padding_stands_behind_an_end(row):
    targets = torch.tensor([[0, 5, -1, -1], row, [2, 1, 5, -1]])
    message = f"targets must hold nothing but −1 after END or padding, got [{row}]"
    assert_refused(message, network(ends=True), points(), torch.full((3,), 5), targets)


test_sizes_below_one_are_named = refusals(
    *(
        (name, lambda name=name: PointerNetwork(**{"d_input": 2, "ends": True, name: 0}))
        for name in ("d_input", "hidden_size", "d_embed", "d_attention")
    ),
    ("most", lambda: FixedDictionary(2, 0, attention=False, ends=True)),
)


# The baselines


def baseline(attention, ends, repeats=False, most=7):
    torch.manual_seed(0)
    options = {"attention": attention, "ends": ends, "repeats": repeats, "d_embed": 3}
    net = FixedDictionary(2, most, 4, **options).double()
    with torch.no_grad():
        for p in net.parameters():
            p.copy_(torch.randn_like(p))
    return net


@pytest.mark.parametrize("attention", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_a_fixed_dictionary_equals_its_equations(kind, attention):
    options, targets = KINDS[kind]
    net, x = baseline(attention, **options), points()
    out = net(x, LENGTHS, targets, need_weights=True)
    expected = dictionary(net, x, LENGTHS, targets)
    np.testing.assert_allclose(probabilities(out.logits, targets), expected, atol=1e-10, rtol=0)
    real = targets >= 0
    assert_exact(out.weights[real], torch.tensor(expected)[real])
    memory = net.encode(x, LENGTHS)
    state, pointed = net.start(memory), torch.full((3, 1), -1)
    for i in range(targets.shape[1]):
        step = net.step(pointed, state, memory)
        assert_exact(step.logits[real[:, i], 0], out.logits[real[:, i], i])
        pointed = torch.where(targets[:, i : i + 1] < 0, N, targets[:, i : i + 1])
        state = step.state
    pointing_loss(net, PointBatch(x, LENGTHS, targets))[0].backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in net.parameters())


def test_only_the_baseline_with_attention_sees_single_states():
    """Same last state, other numbers before: without attention nothing of that is left."""
    for attention in (False, True):
        net, x = baseline(attention, ends=False), points()
        memory = net.encode(x, LENGTHS)
        turned = None if memory.keys is None else memory.keys.flip(1)
        changed = memory._replace(states=memory.states.flip(1), keys=turned)
        mine, other = (
            net.step(torch.full((3, 1), -1), net.start(m), m).logits for m in (memory, changed)
        )
        assert torch.equal(mine, other) == (not attention)


def test_a_fixed_dictionary_has_no_word_for_more_positions():
    for attention in (False, True):
        assert_refused("inputs", baseline(attention, ends=False, most=4), points(), LENGTHS, ONCE)
    many = torch.zeros(1, 50, 2, dtype=torch.float64), torch.tensor([50])
    assert network(ends=False).encode(*many).keys.shape[1] == 50
