"""The cut of what flows back: against derivatives by hand, and on the machine of the book."""

import pytest
import torch
from assertions import assert_refused
from torch import nn

from attnbook import NTM
from attnbook.models.ntm import NTMState
from attnbook.tasks.algorithms import ntm_tasks
from attnbook.training.losses.bits import bit_loss
from attnbook.training.optim.recurrent_gradients import clipped_backward


class Doubling(nn.Module):
    """s ← a s + x, with the state in the place of the memory: gradients grow by a at each step."""

    def __init__(self, a):
        super().__init__()
        self.a = nn.Parameter(torch.tensor(a, dtype=torch.float64))

    def cell(self, x, state):
        s = self.a * state.memory + x
        return s, NTMState(s, state.weights, state.reads, ()), state.weights

    def forward(self, inputs):
        rest = torch.zeros(1, dtype=torch.float64)
        state = NTMState(rest.clone(), rest, rest, ())
        for x in inputs:
            y, state, _ = self.cell(x, state)
        return y


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_every_step_cuts_what_flows_into_its_state(sign):
    a, limit, x = 3.0, 5.0, [0.5, -1.0, 2.0, 0.25]
    net, inputs = Doubling(a), torch.tensor(x, dtype=torch.float64)[:, None].requires_grad_()
    with clipped_backward(net, limit):
        (sign * net(inputs)).sum().backward()
    flow, expected, states = sign, [0.0] * 4, [0.0]
    for value in x:
        states.append(a * states[-1] + value)
    slope = 0.0
    for t in (3, 2, 1, 0):  # by hand: cut, then through the step
        flow = min(max(flow, -limit), limit)
        expected[t], slope, flow = flow, slope + flow * states[t], flow * a
    assert expected == [sign * value for value in (5.0, 5.0, 3.0, 1.0)], (
        "the last factor of 3 would have made 27"
    )
    assert inputs.grad[:, 0].tolist() == expected
    assert float(net.a.grad) == pytest.approx(slope, abs=1e-12)


@pytest.mark.parametrize("controller", ["feedforward", "lstm"])
def test_a_wide_limit_changes_nothing_and_a_narrow_one_only_gradients(controller):
    torch.manual_seed(0)
    net = NTM(9, 8, controller=controller, slots=8, slot_width=4, hidden_size=6).double()
    batch = ntm_tasks.draw_copy(3, torch.Generator().manual_seed(0), length=4)
    batch = batch._replace(inputs=batch.inputs.double())

    def run(limit):
        net.zero_grad()
        if limit is None:
            total, _ = bit_loss(net, batch)
            total.backward()
        else:
            with clipped_backward(net, limit):
                total, _ = bit_loss(net, batch)
                total.backward()
        return total.detach(), [p.grad.clone() for p in net.parameters()]

    (plain, full), (wide, same), (narrow, cut) = run(None), run(1e6), run(1e-3)
    assert torch.allclose(plain, wide, atol=1e-10) and torch.allclose(plain, narrow, atol=1e-10)
    assert all(torch.allclose(a, b, atol=1e-10) for a, b in zip(full, same))
    assert any(not torch.allclose(a, b, atol=1e-6) for a, b in zip(full, cut))
    assert all(bool(torch.isfinite(g).all()) for g in cut)


def test_the_cell_is_put_back_also_after_an_error():
    net = NTM(3, 2, slots=4, slot_width=2, hidden_size=3)
    with pytest.raises(RuntimeError, match="stop"), clipped_backward(net, 1.0):
        assert "cell" in vars(net)
        raise RuntimeError("stop")
    assert "cell" not in vars(net)
    net.cell = mine = lambda x, state: NTM.cell(net, x, state)
    with clipped_backward(net, 1.0):
        assert net.cell is not mine
    assert net.cell is mine, "one that was put there, say by torch.compile, comes back"


@pytest.mark.parametrize(
    ("net", "limit", "begin"),
    [
        (NTM(2, 2, slots=4), 0, "limit"),
        (NTM(2, 2, slots=4), float("inf"), "limit"),
        (nn.Linear(2, 2), 1.0, "net must have a method cell(x, state)"),
    ],
)
def test_bad_input_is_named(net, limit, begin):
    assert_refused(begin, clipped_backward(net, limit).__enter__)
