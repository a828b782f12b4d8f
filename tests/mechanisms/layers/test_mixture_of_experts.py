"""Mixtures of experts against dense references: every expert asked about every position."""

import copy
import math

import pytest
import torch
from assertions import refusals
from hypothesis import given, settings
from hypothesis import strategies as st

from attnbook import FeedForward, MixtureOfExperts, Switch
from attnbook.mechanisms import balance_loss

from ..agreement import assert_agree, assert_same, drawn, randomised

B, N, D, E = 2, 5, 6, 4


def mixture(k=2, seed=0):
    return randomised(MixtureOfExperts(D, E, lambda: FeedForward(D, 5), k=k), seed, std=0.7)


def switch(capacity=1.25):
    made = Switch(D, E, lambda: FeedForward(D, 5), capacity_factor=capacity)
    return randomised(made, std=0.7)


def inputs(seed=1, n=N):
    return drawn(B, n, D, seed=seed).requires_grad_()


def phi(z):
    return (1 + torch.erf(z / math.sqrt(2))) / 2


def variation(z):
    mean = z.sum() / len(z)
    return ((z - mean) ** 2).sum() / len(z) / mean**2


def dense_mixture(made, x, noise=None):
    """y and the balance, equations 1 to 11 position by position; no noise in evaluation."""
    ys, gates, chances = [], [], []
    for t, row in enumerate(x.reshape(-1, D)):
        clean, spread = row @ made.gate, torch.log1p(torch.exp(row @ made.noise))
        h = clean if noise is None else clean + noise[t] * spread
        order = sorted(range(E), key=lambda i: -h[i].item())
        shares = torch.exp(h[order[: made.k]] - h[order[0]])
        gate = torch.zeros(E).double().index_put((torch.tensor(order[: made.k]),), shares)
        gates.append(gate / shares.sum())
        ys.append(sum(g * expert(row[None])[0] for g, expert in zip(gates[-1], made.experts)))
        for i in range(E):  # the k-th largest of the others
            others = [h[j] for j in order if j != i]
            enough = made.k < E
            chances.append(
                phi((clean[i] - others[made.k - 1]) / spread[i]) if enough else clean[i] * 0 + 1
            )
    importance, load = torch.stack(gates).sum(0), torch.stack(chances).view(-1, E).sum(0)
    balance = made.importance_weight * variation(importance) + made.load_weight * variation(load)
    return torch.stack(ys).view(x.shape), balance


def dense_switch(made, x, training):
    rows, taken = x.reshape(-1, D), [0] * E
    e = torch.stack([made.router.weight @ row for row in rows]).exp()
    p = e / e.sum(1, keepdim=True)
    limited = training and made.capacity_factor
    limit = math.ceil(made.capacity_factor * len(rows) / E) if limited else len(rows)
    ys = []
    for t, row in enumerate(rows):
        i = int(p[t].argmax())
        taken[i] += 1
        ys.append(p[t, i] * made.experts[i](row[None])[0] * (taken[i] <= limit))
    balance = sum(count / len(rows) * mean for count, mean in zip(taken, p.mean(0)))
    return torch.stack(ys).view(x.shape), made.balance_weight * E * balance


def assert_dense(made, training, dense):
    """Value, balance and gradients are those of a dense reference."""

    def joined(y, balance):  # in evaluation there is no balance
        return torch.cat([y.flatten(), balance.view(1)]) if training else y.flatten(), None

    def ours(x):
        torch.manual_seed(5)
        return joined(made(x), made.balance)

    theirs = lambda x: joined(*dense(x))  # noqa: E731
    assert_agree(ours, theirs, (B, N, D), [*made.parameters()], need_weights=False)
    assert (made.balance is None) == (not training)


@pytest.mark.parametrize("k", [1, 2, 3, 4])
@pytest.mark.parametrize("training", [True, False])
def test_value_balance_and_gradient_equal_the_dense_reference(k, training):
    made = mixture(k).train(training)
    torch.manual_seed(5)
    noise = torch.randn(B * N, E, dtype=torch.float64) if training else None
    assert_dense(made, training, lambda x: dense_mixture(made, x, noise))


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("capacity", [None, 0.4, 1.0, 4.0])
def test_switch_equals_the_dense_reference(training, capacity):
    made = switch(capacity).train(training)
    assert_dense(made, training, lambda x: dense_switch(made, x, training))


def test_an_expert_reads_only_the_positions_that_chose_it():
    made, read = mixture(2).eval(), [0] * E
    for i, expert in enumerate(made.experts):
        keep = lambda layer, given, out, i=i: read.__setitem__(i, len(out))  # noqa: E731
        expert.register_forward_hook(keep)
    made(inputs())
    assert made.counts.tolist() == read and sum(read) == 2 * B * N


def test_in_evaluation_a_position_does_not_depend_on_the_others():
    for made in (mixture(2).eval(), switch(0.1).eval()):
        x = inputs()
        assert_same(made(x)[:, 2:3], made(x[:, 2:3]))
        assert made.balance is None and balance_loss(made) == 0.0


def test_at_the_start_chance_alone_chooses_and_all_experts_get_some():
    torch.manual_seed(0)
    made = MixtureOfExperts(D, E, lambda: FeedForward(D, 5), k=1)
    assert not made.gate.any() and not made.noise.any()
    made(torch.randn(1, 4000, D))
    assert (made.counts - 1000).abs().max() < 150 and made.balance < 0.01


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 4), st.integers(0, 99), st.floats(0, 3))
def test_gates_are_shares_and_a_permutation_of_the_experts_changes_nothing(k, seed, strength):
    made = mixture(k, seed).eval()
    with torch.no_grad():
        made.gate.mul_(strength + 0.01)
    order = torch.randperm(E).tolist()
    turned = copy.deepcopy(made)
    turned.experts = torch.nn.ModuleList(turned.experts[i] for i in order)
    turned.gate.data = made.gate.data[:, order]
    x = inputs(seed)
    assert_same(turned(x), made(x))
    with torch.no_grad():  # experts that say 1: what is left is the sum of the gates
        for name, p in made.experts.named_parameters():
            p.fill_(float(name.endswith("output.bias")))
    assert_same(made(x), torch.ones_like(x))


def test_the_balance_is_least_where_the_experts_share_equally():
    rows = torch.eye(4).double()[None]  # four positions of width 4
    switch = Switch(4, 4, lambda: FeedForward(4, 3)).double()
    noisy = MixtureOfExperts(4, 4, lambda: FeedForward(4, 3), k=1, load_weight=0).double()
    noisy.noise.data.fill_(-30)
    for made, matrix in ((switch, switch.router.weight.data), (noisy, noisy.gate.data.T)):
        matrix.copy_(torch.eye(4) * 9)
        made(rows)
        equal = made.balance.item()
        matrix[0] = 20
        made(rows)
        if made is switch:
            assert equal == pytest.approx(made.balance_weight, abs=1e-12)
            assert made.balance > 3 * equal
        else:  # one has 4 of 4: mean 1, variance 3
            assert equal < 1e-9 and made.balance.item() == pytest.approx(0.1 * 3, abs=1e-6)


def test_training_by_the_balance_alone_spreads_the_load():
    for kind, options in (
        (MixtureOfExperts, {"k": 1}),
        (Switch, {"capacity_factor": None, "balance_weight": 1.0}),
    ):
        torch.manual_seed(0)
        made = kind(D, E, lambda: FeedForward(D, 5), **options)
        with torch.no_grad():
            (made.gate.T if kind is MixtureOfExperts else made.router.weight)[0] += 0.8
        x = torch.randn(1, 200, D) + 1
        made(x)
        before, optimizer = made.counts.max().item(), torch.optim.Adam(made.parameters(), 0.02)
        for _ in range(60):
            made(x)
            optimizer.zero_grad()
            balance_loss(made).backward()
            optimizer.step()
        assert before > 150 and made.counts.max() < 110, (kind.__name__, before, made.counts)


@pytest.mark.parametrize("kind", [MixtureOfExperts, Switch])
def test_copies_leave_the_last_pass_behind_and_bfloat16_works(kind):
    made, x = kind(D, E, lambda: FeedForward(D, 5)), torch.randn(B, N, D)
    with torch.autocast("cpu", torch.bfloat16):
        y = made(x)
    (y.float().sum() + balance_loss(made)).backward()
    assert made.balance.dtype == torch.float32 and torch.isfinite(y).all()
    again = copy.deepcopy(made)
    assert again.balance is again.counts is None
    assert set(again.state_dict()) == set(made.state_dict())


@pytest.mark.parametrize("make", [mixture, switch])
@pytest.mark.parametrize("differentiated", [True, False])
def test_an_empty_batch_has_a_balance_of_zero(make, differentiated):
    made, x = make(), inputs(n=0).requires_grad_(differentiated)
    y = made(x)
    y.sum().backward(retain_graph=True)  # without the balance, too
    assert y.shape == x.shape and balance_loss(made).item() == 0
    (y.sum() + balance_loss(made)).backward()
    assert all(p.grad is None or (p.grad == 0).all() for p in made.parameters())


def _made(kind, *arguments, **options):
    expert = lambda: FeedForward(D, 5)  # noqa: E731
    return lambda: kind(*(arguments or (D, E, expert)), **options)


test_errors_name_the_argument = refusals(
    ("k", _made(MixtureOfExperts, k=5)),
    ("importance_weight and load_weight", _made(MixtureOfExperts, load_weight=-1)),
    ("capacity_factor", _made(Switch, capacity_factor=0)),
    ("capacity_factor", _made(Switch, capacity_factor=math.inf)),
    ("balance_weight", _made(Switch, balance_weight=-1)),
    ("num_experts", _made(Switch, D, 0, FeedForward)),
    ("make_expert", _made(Switch, D, E, FeedForward(D, 5))),
    ("make_expert", _made(MixtureOfExperts, D, E, FeedForward(D, 5))),
    ("x", lambda: mixture()(drawn(1, 2, 5))),
)


def among(scores, k):
    return torch.zeros_like(scores).scatter(1, scores.topk(k).indices, 1.0).bool()


WRONG_GATES = {  # the gates and the experts chosen by scores (t, E)
    "softmax before top k": lambda h: (h.softmax(-1) * among(h, 2), among(h, 2)),
    "unweighted": lambda h: (among(h, 2) / 2, among(h, 2)),
    "the worst": lambda h: (h.masked_fill(~among(-h, 2), -math.inf).softmax(-1), among(-h, 2)),
}


@pytest.mark.parametrize("wrong", WRONG_GATES)
def test_known_wrong_gates_are_told_apart(wrong):
    made, x = mixture(2).eval(), inputs().detach()
    gates, chosen = WRONG_GATES[wrong](x.reshape(-1, D) @ made.gate)
    found = made._combine_experts(x.reshape(-1, D), gates.double(), chosen).view(x.shape)
    assert (found - dense_mixture(made, x)[0]).abs().max() > 1e-3


def test_known_wrong_switches_are_told_apart():
    made, x = switch(0.5), inputs().detach()
    right, free = dense_switch(made, x, True)[0], dense_switch(made, x, False)[0]
    assert (right == 0).all(-1).any()  # some came too late
    assert (free - right).abs().max() > 1e-3  # no capacity
    rows = x.reshape(-1, D)
    p = (rows @ made.router.weight.T).softmax(-1)
    chosen = among(p, 1)
    # the last are served first
    late = chosen & (chosen.flip(0).cumsum(0).flip(0) <= math.ceil(0.5 * len(rows) / E))
    assert (made._combine_experts(rows, p, late).view(x.shape) - right).abs().max() > 1e-3
    unweighted = made._combine_experts(rows, chosen.double(), chosen).view(x.shape)
    assert (unweighted - free).abs().max() > 1e-3
