"""Mixtures of experts against dense references: every expert asked about every position, gates
in loops.
"""

import copy
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from refusing import assert_refused

from attnbook import FeedForward, MixtureOfExperts, Switch
from attnbook.mechanisms import balance_loss

EXACT = {"atol": 1e-10, "rtol": 0}
B, N, D, E = 2, 5, 6, 4


def mixture(k=2, seed=0, kind=MixtureOfExperts, **options):
    torch.manual_seed(seed)
    made = kind(
        D, E, lambda: FeedForward(D, 5), **({"k": k} if kind is MixtureOfExperts else {}), **options
    ).double()
    with torch.no_grad():
        for p in made.parameters():
            p.normal_(std=0.7)
    return made


def inputs(seed=1, n=N):
    return torch.randn(
        B, n, D, generator=torch.Generator().manual_seed(seed), dtype=torch.float64
    ).requires_grad_()


def phi(z):
    return (1 + torch.erf(z / math.sqrt(2))) / 2


def variation(z):
    mean = z.sum() / len(z)
    return ((z - mean) ** 2).sum() / len(z) / mean**2


def dense_mixture(made, x, noise=None):
    """Equations 1 to 11 position by position; the noise is given, or None in evaluation.

    Returns y and the balance.
    """
    rows, ys, gates, chances = x.reshape(-1, D), [], [], []
    for t, row in enumerate(rows):
        clean, spread = row @ made.gate, torch.log1p(torch.exp(row @ made.noise))
        h = clean if noise is None else clean + noise[t] * spread
        order = sorted(range(E), key=lambda i: -h[i].item())
        best = order[: made.k]
        exps = {i: torch.exp(h[i] - h[best[0]]) for i in best}
        gate = [
            exps[i] / sum(exps.values()) if i in best else torch.zeros(()).double()
            for i in range(E)
        ]
        ys.append(sum(g * expert(row[None])[0] for g, expert in zip(gate, made.experts)))
        gates.append(torch.stack(gate))
        if made.k < E:
            others = [
                sorted((h[j] for j in range(E) if j != i), key=lambda v: -v.item())[made.k - 1]
                for i in range(E)
            ]
            chances.append(torch.stack([phi((clean[i] - others[i]) / spread[i]) for i in range(E)]))
        else:
            chances.append(torch.ones(E).double())
    balance = made.importance_weight * variation(
        torch.stack(gates).sum(0)
    ) + made.load_weight * variation(torch.stack(chances).sum(0))
    return torch.stack(ys).view(x.shape), balance


def dense_switch(made, x, training):
    rows, ys, taken, p = x.reshape(-1, D), [], [0] * E, []
    limit = (
        math.ceil(made.capacity_factor * len(rows) / E)
        if training and made.capacity_factor
        else len(rows)
    )
    requested = [0] * E
    for row in rows:
        e = (made.router.weight @ row).exp()
        p.append(e / e.sum())
        i = int(p[-1].argmax())
        requested[i] += 1
        taken[i] += 1
        ys.append(
            p[-1][i] * made.experts[i](row[None])[0]
            if taken[i] <= limit
            else torch.zeros(D).double()
        )
    shares = sum(a / len(rows) * m for a, m in zip(requested, torch.stack(p).mean(0)))
    return torch.stack(ys).view(x.shape), made.balance_weight * E * shares


def assert_agree(made, run, other):
    results = []
    for one in (run, other):
        x = inputs()
        y, balance = one(x)
        loss = (
            y * torch.linspace(-1, 2, y.numel(), dtype=torch.float64).view_as(y)
        ).sum() + 3 * balance
        results.append(
            (y, balance, torch.autograd.grad(loss, [x, *made.parameters()], allow_unused=True))
        )
    (a, a_balance, a_grads), (b, b_balance, b_grads) = results
    torch.testing.assert_close(a, b, **EXACT)
    torch.testing.assert_close(
        torch.as_tensor(a_balance), torch.as_tensor(b_balance), check_dtype=False, **EXACT
    )
    for one, another in zip(a_grads, b_grads):
        torch.testing.assert_close(
            *(torch.zeros(()).double() if g is None or not g.any() else g for g in (one, another)),
            **EXACT,
        )


@pytest.mark.parametrize("k", [1, 2, 3, 4])
@pytest.mark.parametrize("training", [True, False])
def test_value_balance_and_gradient_equal_the_dense_reference(k, training):
    made = mixture(k).train(training)

    def run(x):
        torch.manual_seed(5)
        return made(x), made.balance if training else 0.0

    torch.manual_seed(5)
    noise = torch.randn(B * N, E, dtype=torch.float64)
    assert_agree(
        made,
        run,
        lambda x: dense_mixture(made, x, noise) if training else (dense_mixture(made, x)[0], 0.0),
    )


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("capacity", [None, 0.4, 1.0, 4.0])
def test_switch_equals_the_dense_reference(training, capacity):
    made = mixture(kind=Switch, capacity_factor=capacity).train(training)
    assert_agree(
        made,
        lambda x: (made(x), made.balance if training else 0.0),
        lambda x: (
            dense_switch(made, x, training)
            if training
            else (dense_switch(made, x, training)[0], 0.0)
        ),
    )


def test_gradients_by_finite_differences():
    x = inputs(n=2)
    for made in (mixture(2).eval(), mixture(kind=Switch).eval()):
        assert torch.autograd.gradcheck(made, [x])


def test_an_expert_reads_only_the_positions_that_chose_it():
    made, read = mixture(2).eval(), [0] * E
    for i, expert in enumerate(made.experts):
        expert.register_forward_hook(
            lambda layer, arguments, result, i=i: read.__setitem__(i, len(arguments[0]))
        )
    made(inputs())
    assert made.counts.tolist() == read and sum(read) == 2 * B * N


def test_in_evaluation_a_position_does_not_depend_on_the_others():
    for made in (mixture(2).eval(), mixture(kind=Switch, capacity_factor=0.1).eval()):
        x = inputs()
        torch.testing.assert_close(made(x)[:, 2:3], made(x[:, 2:3]), **EXACT)
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
    torch.testing.assert_close(turned(x), made(x), **EXACT)
    for expert in made.experts:  # experts that say 1: what is left is the sum of the gates
        (
            expert.hidden.weight.data.zero_(),
            expert.hidden.bias.data.zero_(),
            expert.output.weight.data.zero_(),
            expert.output.bias.data.fill_(1),
        )
    torch.testing.assert_close(made(x), torch.ones_like(x), **EXACT)


def test_the_balance_is_least_where_the_experts_share_equally():
    rows = torch.eye(4).double()[None]  # four positions of width 4
    switch = Switch(4, 4, lambda: FeedForward(4, 3)).double()
    with torch.no_grad():
        switch.router.weight.copy_(torch.eye(4) * 9)
    switch(rows)
    equal = switch.balance.item()
    with torch.no_grad():
        switch.router.weight[0] = 20
    switch(rows)
    assert equal == pytest.approx(switch.balance_weight, abs=1e-12) and switch.balance > 3 * equal
    noisy = MixtureOfExperts(4, 4, lambda: FeedForward(4, 3), k=1, load_weight=0).double()
    with torch.no_grad():
        noisy.noise.fill_(-30), noisy.gate.copy_(torch.eye(4) * 9)
    noisy(rows)
    assert noisy.balance < 1e-9
    with torch.no_grad():
        noisy.gate[:, 0] = 20
    noisy(rows)
    # one has 4 of 4: mean 1, variance 3
    assert noisy.balance.item() == pytest.approx(0.1 * 3, abs=1e-6)


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


def test_copies_leave_the_last_pass_behind_and_bfloat16_works():
    for made in (
        MixtureOfExperts(D, E, lambda: FeedForward(D, 5)),
        Switch(D, E, lambda: FeedForward(D, 5)),
    ):
        x = torch.randn(B, N, D)
        with torch.autocast("cpu", torch.bfloat16):
            y = made(x)
        (y.float().sum() + balance_loss(made)).backward()
        assert made.balance.dtype == torch.float32 and torch.isfinite(y).all()
        again = copy.deepcopy(made)
        assert (
            again.balance is None
            and again.counts is None
            and set(again.state_dict()) == set(made.state_dict())
        )


@pytest.mark.parametrize("kind", [MixtureOfExperts, Switch])
def test_an_empty_batch_has_a_balance_of_zero(kind):
    made = mixture(kind=kind)
    x = inputs(n=0)
    y = made(x)
    assert y.shape == x.shape and balance_loss(made).item() == 0
    (y.sum() + balance_loss(made)).backward()
    assert all(p.grad is None or (p.grad == 0).all() for p in made.parameters())


def test_errors_name_the_argument():
    def expert():
        return FeedForward(D, 5)

    assert_refused("k", MixtureOfExperts, D, E, expert, k=5)
    assert_refused(
        "importance_weight and load_weight", MixtureOfExperts, D, E, expert, load_weight=-1
    )
    for wrong in ({"capacity_factor": 0}, {"capacity_factor": math.inf}, {"balance_weight": -1}):
        assert_refused(*wrong, Switch, D, E, expert, **wrong)
    assert_refused("num_experts", Switch, D, 0, expert)
    for kind in (MixtureOfExperts, Switch):
        assert_refused("make_expert", lambda: kind(D, E, expert()))
    assert_refused("x", lambda: mixture()(torch.randn(1, 2, 5).double()))


# Known wrong versions: each told apart by the dense reference


def _softmax_before_top_k(made):
    def forward(x):
        rows = x.reshape(-1, D)
        gates = (rows @ made.gate).softmax(-1)
        chosen = torch.zeros_like(gates, dtype=torch.bool).scatter(
            1, gates.topk(made.k).indices, True
        )
        return made._sum_of_experts(rows, gates * chosen, chosen).view(x.shape)

    return forward


def _unweighted(made):
    def forward(x):
        rows = x.reshape(-1, D)
        chosen = torch.zeros(len(rows), E, dtype=torch.bool).scatter(
            1, (rows @ made.gate).topk(made.k).indices, True
        )
        return made._sum_of_experts(rows, chosen.double() / made.k, chosen).view(x.shape)

    return forward


def _the_worst(made):
    def forward(x):
        made.gate.data.neg_()
        y = made(x)
        made.gate.data.neg_()
        return y

    return forward


@pytest.mark.parametrize(
    "wrong", [_softmax_before_top_k, _unweighted, _the_worst], ids=lambda f: f.__name__.strip("_")
)
def test_known_wrong_gates_are_told_apart(wrong):
    made = mixture(2).eval()
    with torch.no_grad():
        assert (wrong(made)(inputs()) - dense_mixture(made, inputs())[0]).abs().max() > 1e-3


def test_known_wrong_switches_are_told_apart():
    made = mixture(kind=Switch, capacity_factor=0.5)
    with torch.no_grad():
        x = inputs()
        right = dense_switch(made, x, True)[0]
        assert ((right == 0).all(-1)).any()  # some came too late
        assert (dense_switch(made, x, False)[0] - right).abs().max() > 1e-3  # no capacity
        rows = x.reshape(-1, D)
        p = (rows @ made.router.weight.T).softmax(-1)
        chosen = torch.nn.functional.one_hot(p.argmax(1), E).bool()
        # the last are served first
        late = chosen & (chosen.flip(0).cumsum(0).flip(0) <= math.ceil(0.5 * len(rows) / E))
        assert (made._sum_of_experts(rows, p, late).view(x.shape) - right).abs().max() > 1e-3
        assert (
            made._sum_of_experts(rows, chosen.double(), chosen).view(x.shape)
            - dense_switch(made, x, False)[0]
        ).abs().max() > 1e-3
