"""The neural Turing machine against its formulas, step by step, and against known mistakes."""

import copy
import importlib.util
import itertools
import pickle
import sys
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
import torch
from assertions import assert_exact, refusals
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles_ntm import Machine

from attnbook import NTM
from attnbook.kernels import addressing_math
from attnbook.kernels.memory_step import HeadParameters, memory_step, plain_memory_step
from attnbook.training import clipped_backward

from .properties import assert_every_parameter_learns

memory_step_module = sys.modules["attnbook.kernels.memory_step"]
SMALL = dict(hidden_size=6, slots=7, slot_width=3)
KINDS = [
    dict(controller=c, shift=s, memory_start=m, **more)
    for c, s, m, more in itertools.product(
        ("feedforward", "lstm"),
        ("softmax", "scalar"),
        ("constant", "learned"),
        (dict(), dict(read_heads=2, write_heads=3, num_layers=2, shift_range=2)),
    )
]


def words(kind):
    return "-".join(str(value) for value in kind.values())


def machine(seed=0, dtype=torch.float64, scale=1.0, **kind):
    torch.manual_seed(seed)
    net = NTM(4, 3, **{**SMALL, **kind}).to(dtype)
    with torch.no_grad():  # away from the flat weights of the start
        for p in net.parameters():
            p.copy_(torch.randn_like(p) * scale)
    return net


def inputs(batch=2, steps=6, seed=1, dtype=torch.float64):
    g = torch.Generator().manual_seed(seed)
    return torch.randn(batch, steps, 4, generator=g, dtype=torch.float64).to(dtype)


def walk(net, x):
    """Outputs, weights and memories of every step, through the cell."""
    state, rows = net.initial_state(len(x)), []
    for t in range(x.shape[1]):
        y, state, weights = net.cell(x[:, t], state)
        rows.append((y, weights, state.memory))
    return [torch.stack(part, dim=1).detach() for part in zip(*rows)]


def difference(net, x, wrong=None):
    """The largest of outputs, weights and memories from the formulas."""
    rows = zip(x, *walk(net, x))
    pairs = ((mine, Machine(net, wrong).run(row.numpy())) for row, *mine in rows)
    return max(np.abs(m.numpy() - t).max() for mine, theirs in pairs for m, t in zip(mine, theirs))


@pytest.mark.parametrize("kind", KINDS, ids=words)
def test_outputs_weights_and_memory_equal_the_formulas_at_every_step(kind):
    assert difference(machine(**kind), inputs()) < 1e-10


WRONG = ["shift in the wrong direction", "sharpening before shifting", "interpolation swapped"]
WRONG += ["erase after add", "start weights not a distribution", "sharpening without normalisation"]
WRONG += ["heads sharing parameters", "read before write", "shift that does not go round"]


@pytest.mark.parametrize("controller", ["feedforward", "lstm"])
@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_reading_of_the_formulas_is_told_apart(wrong, controller):
    net = machine(controller=controller, read_heads=2, write_heads=2)
    assert difference(net, inputs(), wrong) > 1e-3


@pytest.mark.parametrize("kind", KINDS[::5], ids=words)
def test_gradients_of_the_cell_are_those_of_finite_differences(kind):
    net = machine(scale=0.7, **{**kind, "hidden_size": 3, "slots": 5, "slot_width": 2})
    x = inputs(batch=1, steps=2).requires_grad_()

    def run(x, *parameters):
        out = net(x, need_weights=True)
        return out.logits, out.weights, out.state.memory

    assert torch.autograd.gradcheck(run, (x, *net.parameters()))


def step_arguments(readers, writers, seed=0):
    heads, n, width = readers + writers, 5, 3
    torch.manual_seed(seed)
    shapes = [(n, width), (heads, n), (heads, width), (heads,), (heads,), (heads, 3), (heads,)]
    shapes += [(writers, width)] * 2
    raw = [torch.randn(2, *shape, dtype=torch.float64, requires_grad=True) for shape in shapes]

    def run(which, m, p, k, b, g, s, y, e, a):
        shares = b.exp(), g.sigmoid(), s.softmax(-1), 1 + y.exp(), e.sigmoid()
        return which(m, p.softmax(-1), HeadParameters(k, *shares, a))

    return raw, run


@pytest.mark.parametrize(("readers", "writers"), [(1, 1), (2, 3), (3, 1)])
def test_the_gradient_by_hand_is_the_gradient(readers, writers):
    raw, run = step_arguments(readers, writers)
    options = {"retain_graph": True, "allow_unused": True, "materialize_grads": True}
    for mine, plain in zip(run(memory_step, *raw), run(plain_memory_step, *raw)):
        assert_exact(mine, plain)
        ways = torch.randn_like(mine)
        found, right = (torch.autograd.grad(t, raw, ways, **options) for t in (mine, plain))
        assert_exact(found, right)
    assert torch.autograd.gradcheck(lambda *given: run(memory_step, *given), raw)


def test_the_step_says_that_it_can_be_differentiated_once_and_the_plain_one_can_twice():
    raw, run = step_arguments(1, 1)
    with pytest.raises(RuntimeError, match="memory_step.*differentiated once.*double_backward"):
        torch.autograd.grad(run(memory_step, *raw)[1].sum(), raw[0], create_graph=True)
    (first,) = torch.autograd.grad(run(plain_memory_step, *raw)[1].sum(), raw[0], create_graph=True)
    assert torch.autograd.grad(first.square().sum(), raw[2])[0].any()


@pytest.mark.parametrize("power", [1.0, 2.5])
def test_the_gradient_is_finite_where_weights_key_and_memory_are_zero(power):
    raw, _ = step_arguments(1, 1)
    m, _, k, b, g, s, y, e, a = (part.detach().clone() for part in raw)
    # nothing in the memory, nothing looked for, the gate closed
    m[0], k[0], g = 0.0, 0.0, torch.full_like(g, -1e4).sigmoid()
    previous = torch.zeros(2, 2, 5, dtype=torch.float64)
    previous[..., 0] = 1
    # and no shift: all other weights are exactly 0
    still = torch.tensor([0.0, 1.0, 0.0], dtype=torch.float64).expand_as(s)
    gradients = []
    for step in (memory_step, plain_memory_step):
        given = m, previous, k, b.exp(), g, still, 0 * y + power, e.sigmoid(), a
        given = [part.clone().requires_grad_() for part in given]
        memory, reads, weights = step(*given[:2], HeadParameters(*given[2:]))
        assert (weights[..., 1:] < 1e-300).all() and (weights[..., 0] == 1).all()
        (memory.sum() + reads.square().sum() + (weights * torch.arange(5)).sum()).backward()
        gradients.append([part.grad for part in given])
        assert all(grad.isfinite().all() for grad in gradients[-1])
    assert_exact(*gradients)


def test_every_head_has_parameters_of_its_own():
    net = machine(read_heads=2, write_heads=2)
    heads = net._emit(net.heads(torch.randn(1, 6, dtype=torch.float64)))
    for part in heads:
        pairs = itertools.combinations(part.unbind(1), 2)
        assert all(not torch.allclose(one, other) for one, other in pairs)


@pytest.mark.parametrize("kind", KINDS, ids=words)
def test_the_start_is_a_distribution_and_what_is_read_there(kind):
    net = machine(**kind)
    state = net.initial_state(3)
    heads = net.read_heads + net.write_heads
    assert_exact(state.weights.sum(-1), torch.ones(3, heads, dtype=torch.float64))
    assert_exact(state.reads, state.weights[:, : net.read_heads] @ state.memory)
    if net.memory_start == "constant":
        assert (state.memory == 1e-6).all()
    else:
        assert not torch.equal(state.memory[:, 0], state.memory[:, 1])


def test_from_a_uniform_start_a_constant_memory_can_never_be_told_apart():
    net = machine()
    flat = net.initial_state(2)._replace(weights=torch.full((2, 2, 7), 1 / 7, dtype=torch.float64))
    out = net(inputs(), flat, need_weights=True)
    assert_exact(out.weights, torch.full_like(out.weights, 1 / 7))
    assert net(inputs(), need_weights=True).weights.std(-1).min() > 1e-3


@pytest.mark.parametrize("kind", KINDS[1::3], ids=words)
def test_a_row_a_piece_and_a_batch_give_the_same(kind):
    net, x = machine(**kind), inputs(batch=3)
    out = net(x, need_weights=True)
    heads = net.read_heads + net.write_heads
    assert out.logits.shape == (3, 6, 3) and out.weights.shape == (3, 6, heads, 7)
    assert net(x).weights is None
    for b in range(3):
        assert_exact(net(x[b : b + 1]).logits[0], out.logits[b])
    first = net(x[:, :2])
    assert_exact(net(x[:, 2:], first.state).logits, out.logits[:, 2:])
    changed = x.clone()
    changed[:, 3] += 1
    assert torch.equal(net(changed).logits[:, :3], out.logits[:, :3])


@pytest.mark.parametrize("kind", KINDS[::5], ids=words)
def test_the_stages_of_a_step_end_in_its_weights(kind):
    net, x = machine(**kind), inputs()
    state = net(x[:, :3]).state
    stages = net.stages(x[:, 3], state)
    _, _, weights = net.cell(x[:, 3], state)
    assert_exact(stages.weights, weights)
    for stage in stages[:-1]:
        assert stage.shape == weights.shape and not torch.allclose(stage, weights)


def test_no_loop_over_the_batch_or_the_slots():
    def operations(batch, slots):
        net, x = machine(slots=slots), inputs(batch=batch, steps=2)
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
            net(x).logits.sum().backward()
        return sum(e.count for e in profile.key_averages() if e.key.startswith("aten::"))

    assert operations(2, 7) == operations(32, 7) == operations(2, 70)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    scale=st.sampled_from([0.0, 0.1, 3.0, 100.0, 1e4]),
    kind=st.sampled_from(KINDS),
    reach=st.sampled_from([0.0, 1.0, 1e3]),
)
def test_weights_stay_distributions_and_nothing_is_nan_whatever_the_parameters(
    seed, scale, kind, reach
):
    net = machine(seed, torch.float32, scale, **kind)
    x = inputs(seed=seed, dtype=torch.float32) * reach
    out = net(x, need_weights=True)
    assert out.logits.isfinite().all() and (out.weights >= 0).all()
    assert (out.weights.sum(-1) - 1).abs().max() <= 1e-4
    out.logits.tanh().sum().backward()
    assert not any(p.grad.isnan().any() for p in net.parameters() if p.grad is not None)


@pytest.mark.parametrize("cast", [False, True], ids=["weights", "autocast"])
@pytest.mark.parametrize("kind", KINDS, ids=words)
def test_in_half_precision_the_addressing_stays_in_float32(kind, cast):
    net, x = machine(dtype=torch.float32, scale=0.5, **kind), inputs(dtype=torch.float32)
    exact = net(x, need_weights=True)
    if not cast:
        net, x = net.bfloat16(), x.bfloat16()
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=cast):
        out = net(x, need_weights=True)
    assert out.logits.dtype == torch.bfloat16
    assert out.weights.dtype == out.state.memory.dtype == torch.float32
    assert (out.weights.sum(-1) - 1).abs().max() <= 1e-5
    torch.testing.assert_close(out.logits.float(), exact.logits, atol=0.5, rtol=0.1)
    out.logits.float().square().sum().backward()
    assert all(p.grad.isfinite().all() for p in net.parameters())


@pytest.mark.parametrize("kind", KINDS, ids=words)
def test_every_parameter_learns(kind):
    net = machine(**kind)
    assert_every_parameter_learns(net, net(inputs()).logits.square().sum())


@pytest.mark.parametrize("kind", KINDS[::5], ids=words)
def test_a_cell_that_was_replaced_is_the_one_that_runs(kind):
    net, calls = machine(**kind), []
    expected = net(inputs(), need_weights=True)

    def cell(x, state, own=net.cell):
        calls.append(len(x))
        return own(x, state)

    net.cell = cell
    result = net(inputs(), need_weights=True)
    assert calls == [2] * 6
    assert_exact(result.logits, expected.logits)
    assert_exact(result.weights, expected.weights)


@pytest.mark.parametrize("kind", KINDS[::5], ids=words)
def test_a_cell_of_a_subclass_is_the_one_that_runs(kind):
    class Forgetful(NTM):
        def cell(self, x, state):
            y, after, weights = super().cell(x, state)
            return 2 * y, after._replace(reads=torch.zeros_like(after.reads)), weights

    torch.manual_seed(0)
    net = Forgetful(4, 3, **{**SMALL, **kind}).double()
    state, expected = net.initial_state(2), []
    for x in inputs().unbind(1):
        y, state, _ = NTM.cell(net, x, state)
        state = state._replace(reads=torch.zeros_like(state.reads))
        expected.append(2 * y)
    assert_exact(net(inputs()).logits, torch.stack(expected, dim=1))


@pytest.mark.parametrize("kind", KINDS[::5], ids=words)
def test_compile_compiles_one_step_for_all_steps(kind):
    torch.compiler.reset()
    net, graphs = machine(**kind), []
    expected = net(inputs(), need_weights=True)

    def backend(graph, example):
        graphs.append(graph)
        return graph.forward

    net.compile(fullgraph=True, backend=backend)
    result = net(inputs(steps=6), need_weights=True)
    assert_exact(result.logits, expected.logits)
    assert_exact(result.weights, expected.weights)
    made = len(graphs)
    net(inputs(steps=9))
    # the first step, from a state that asks for no gradient, and the others
    assert 1 <= made <= 2 and len(graphs) == made


@pytest.mark.parametrize(
    "copied",
    [copy.deepcopy, lambda net: pickle.loads(pickle.dumps(net))],
    ids=["deepcopy", "pickle"],
)
@pytest.mark.parametrize("kind", KINDS[::5], ids=words)
def test_a_copy_of_a_compiled_or_clipped_machine_runs_with_its_own_weights(kind, copied):
    plain, net = machine(seed=1, **kind), machine(**kind)
    net.compile(backend="eager")
    with clipped_backward(net, 1.0):
        twin = copied(net)
    assert not {"_advance", "cell"} & vars(twin).keys() and "_advance" in vars(net)
    twin.load_state_dict(plain.state_dict())
    assert_exact(twin(inputs()).logits, plain(inputs()).logits)


@pytest.mark.slow
def test_a_machine_captured_with_its_gradient_gives_the_same():
    results = []
    for compiled in (False, True):
        net = machine(dtype=torch.float32, scale=0.5)
        if compiled:
            net.compile(fullgraph=True, backend="aot_eager")
        out = net(inputs(dtype=torch.float32), need_weights=True)
        slopes = torch.autograd.grad(out.logits.square().sum(), net.parameters())
        results.append((out.logits, out.weights, *slopes))
    torch.testing.assert_close(*results, atol=1e-3, rtol=1e-3)


@pytest.mark.parametrize("kind", KINDS, ids=words)
def test_no_tensor_is_made_on_another_device_than_the_machine_s(kind, monkeypatch):
    """The meta device has no numbers; a tensor of the CPU stops an operation, as on a GPU."""
    # there is no autocast to leave on that device
    for module in (addressing_math, memory_step_module):
        monkeypatch.setattr(module, "without_autocast", lambda tensor: nullcontext())
    net = machine(**kind).to("meta")
    out = net(inputs().to("meta"), need_weights=True)
    parts = (out.logits, out.weights, *out.state[:3], *out.state.controller)
    assert {part.device.type for part in parts} == {"meta"}
    out.logits.sum().backward()
    assert all(p.grad.device.type == "meta" for p in net.parameters())


@pytest.mark.parametrize(
    "kind",
    [dict(controller="lstm"), dict(controller="feedforward", read_heads=2, write_heads=2)],
    ids=words,
)
def test_the_naive_machine_of_the_benchmark_computes_the_same(kind):
    path = Path(__file__).resolve().parents[2] / "benchmarks/implementations/naive_ntm.py"
    spec = importlib.util.spec_from_file_location("naive_ntm", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    net = machine(dtype=torch.float32, scale=0.5, **kind)
    x = inputs(dtype=torch.float32)
    with torch.no_grad():
        torch.testing.assert_close(module.NaiveNTM(net)(x), net(x).logits, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(("controller", "expected"), [("feedforward", 13_260), ("lstm", 62_260)])
def test_the_number_of_parameters_that_the_docstring_names(controller, expected):
    assert sum(p.numel() for p in NTM(9, 8, controller=controller).parameters()) == expected
    assert f"{expected:,}" in NTM.__doc__


def state(**kind):
    return machine(**kind).initial_state(2)


READS = torch.zeros(2, 1, 4)
SIZES = "hidden_size num_layers slots slot_width read_heads write_heads shift_range".split()
test_bad_arguments_are_named = refusals(
    ("controller", lambda: NTM(4, 3, controller="gru")),
    ("shift", lambda: NTM(4, 3, shift="left")),
    ("memory_start", lambda: NTM(4, 3, memory_start="zeros")),
    ("d_input", lambda: NTM(0, 3)),
    ("d_output", lambda: NTM(4, 0)),
    *((name, lambda name=name: NTM(4, 3, **{name: 0})) for name in SIZES),
    ("shift_range must leave", lambda: NTM(4, 3, slots=4, shift_range=2)),
    ("batch", lambda: machine().initial_state(0)),
    ("inputs", lambda: machine()(torch.zeros(5, 4))),
    ("inputs", lambda: machine()(torch.zeros(2, 0, 4))),
    ("state must have a memory", lambda: machine()(inputs(), machine().initial_state(3))),
    ("state must have weights", lambda: machine()(inputs(), state(write_heads=2))),
    ("state must have reads", lambda: machine()(inputs(), state()._replace(reads=READS))),
    ("state must have a controller of 2", lambda: machine(controller="lstm")(inputs(), state())),
    ("state must have a controller of 0", lambda: machine()(inputs(), state(controller="lstm"))),
)
