"""The fast dropout: its statistics, its gradient, its random numbers."""

import math

import pytest
import torch
from assertions import assert_refused
from torch.nn import functional as F

from attnbook import Dropout, MultiHeadAttention

N = 400_000


def drawn(p, seed=0, n=N):
    torch.manual_seed(seed)
    return Dropout(p)(torch.ones(n, dtype=torch.float64))


@pytest.mark.parametrize("p", [0.1, 0.3, 0.5, 0.9])
def test_the_share_of_what_is_kept_and_the_mean(p):
    out, keep = drawn(p), Dropout(p).keep
    assert abs(keep - (1 - p)) <= 2**-17
    deviation = math.sqrt(keep * (1 - keep) / N)
    assert abs((out != 0).double().mean().item() - keep) < 4.5 * deviation
    # divided by the true probability: the mean is exact
    assert set(out.unique().tolist()) == {0.0, 1 / keep}
    assert abs(out.mean().item() - 1) < 4.5 * deviation / keep


def test_neighbours_are_independent():
    """Four elements come from one random word; none knows of another, nor of the next word's."""
    saved = (drawn(0.5) != 0).double() - 0.5
    for distance in (1, 2, 3, 4, 5, 8, 312, 624):  # 624: the state of the generator
        correlation = (saved[:-distance] * saved[distance:]).mean().item() * 4
        assert abs(correlation) < 4.5 / math.sqrt(N)
    for place in range(4):
        assert abs(saved[place::4].mean().item()) < 4.5 * 0.5 / math.sqrt(N / 4)


def test_runs_of_each_length_come_as_often_as_they_should():
    saved = drawn(0.3)[: N // 8 * 8].view(-1, 8).ne(0).sum(1)
    q, rows = Dropout(0.3).keep, N // 8
    chi = sum(
        (int((saved == k).sum()) - rows * w) ** 2 / (rows * w)
        for k in range(9)
        for w in [math.comb(8, k) * q**k * (1 - q) ** (8 - k)]
    )
    assert chi < 30  # 8 degrees of freedom: 0.0002 of all seeds


def test_the_gradient_passes_where_the_value_passed():
    torch.manual_seed(0)
    x = torch.randn(7, 11, dtype=torch.float64, requires_grad=True)
    drop = Dropout(0.4)
    out = drop(x)
    (grad,) = torch.autograd.grad(out, x, torch.ones_like(out))
    torch.testing.assert_close(grad, torch.where(out == 0, 0.0, 1 / drop.keep).double())
    torch.testing.assert_close(out, x * grad)


def test_a_seed_repeats_it_and_every_call_draws_anew():
    assert torch.equal(drawn(0.5, 3), drawn(0.5, 3))
    assert not torch.equal(drawn(0.5, 3), drawn(0.5, 4))
    torch.manual_seed(0)
    drop, x = Dropout(0.5), torch.ones(1000)
    assert not torch.equal(drop(x), drop(x))


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 4095])
def test_any_number_of_elements_shape_and_dtype(n):
    for x in (torch.ones(n), torch.ones(n, 1, 3).transpose(0, 2), torch.ones(n).bfloat16()):
        out = Dropout(0.5)(x)
        assert out.shape == x.shape and out.dtype == x.dtype
        assert set(out.float().unique().tolist()) <= {0.0, 2.0}
    assert Dropout(0.5)(torch.ones(0, 3)).shape == (0, 3)


def test_evaluation_and_zero_are_the_identity_and_the_ends_hold():
    x = torch.randn(9)
    assert Dropout(0.5).eval()(x) is x and Dropout(0.0)(x) is x
    assert Dropout(1e-9).keep == 1.0 and torch.equal(Dropout(1e-9)(x), x)
    assert Dropout(1 - 1e-9).keep == 2**-16 and torch.isfinite(Dropout(1 - 1e-9)(x)).all()
    changed = Dropout(0.1)
    changed.p = 0.75
    assert changed.keep == 0.25
    for p in (-0.1, 1.0, float("nan"), True, "0.1"):
        assert_refused("p", Dropout, p)


def test_compiled_it_is_pytorch_s():
    torch.manual_seed(0)
    out = torch.compile(Dropout(0.5), backend="eager", fullgraph=True)(torch.ones(50))
    torch.manual_seed(0)
    assert torch.equal(out, F.dropout(torch.ones(50), 0.5))


@pytest.mark.parametrize("need_weights", [True, False])
def test_weights_are_dropped_in_training_alone(need_weights):
    torch.manual_seed(0)
    query = torch.randn(2, 3, 4).double()
    made, same = MultiHeadAttention(4, 2, dropout=0.5).double(), MultiHeadAttention(4, 2).double()
    same.load_state_dict(made.state_dict())
    expected = same(query).context
    assert not torch.allclose(made(query, need_weights=need_weights).context, expected)
    torch.testing.assert_close(made.eval()(query, need_weights=need_weights).context, expected)


WRONG = {
    "not scaled": lambda x, p: x * (torch.rand_like(x) >= p),
    "scaled by p": lambda x, p: x * (torch.rand_like(x) >= p) / p,
    "p kept instead of dropped": lambda x, p: x * (torch.rand_like(x) < p) / (1 - p),
    "one draw for a whole row": lambda x, p: x * (torch.rand(len(x), 1) >= p) / (1 - p),
    "eight bits at p = 0.1, scaled by 0.9": lambda x, p: (
        x * (torch.randint(0, 256, x.shape) < 230) / 0.9 / 0.997
    ),
}


@pytest.mark.parametrize("mistake", WRONG)
def test_the_statistics_reject_known_wrong_versions(mistake):
    torch.manual_seed(0)
    p = 0.1
    out = WRONG[mistake](torch.ones(N // 100, 100, dtype=torch.float64), p)
    deviation = math.sqrt(p * (1 - p) / N)
    mean_off = abs(out.mean().item() - 1) > 4.5 * deviation / (1 - p)
    scale_off = abs(out.max().item() - 1 / Dropout(p).keep) > 1e-3
    saved = (out != 0).double()
    saved = (saved - saved.mean()).flatten()
    linked = abs((saved[:-1] * saved[1:]).mean().item() / saved.var().item()) > 4.5 / math.sqrt(N)
    assert mean_off or scale_off or linked
