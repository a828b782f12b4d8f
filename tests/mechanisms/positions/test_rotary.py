"""Rotary positions: complex numbers in NumPy, and the published frequencies."""

import copy
import math
from dataclasses import asdict

import numpy as np
import pytest
import torch
from assertions import refusals
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

from attnbook import (
    NTK,
    ALiBi,
    DynamicNTK,
    Interpolation,
    Llama3,
    LongRoPE,
    RotaryPositions,
    SinusoidalPositions,
    YaRN,
    convert_rotary_layout,
)
from attnbook.mechanisms.positions import absolute, alibi, rotary
from attnbook.models.vision import perceiver
from attnbook.models.vision.perceiver import fourier_features

from ..agreement import assert_same, drawn

D = 8


def oracle(x, positions, *, layout="half", base=10_000.0, first=0, sign=1):
    """Rows (n, d) as complex numbers, a pair each, times exp(i p ω)."""
    (n, d), out = x.shape, np.zeros(x.shape)
    for t, k in np.ndindex(n, d // 2):
        a, b = (k, k + d // 2) if layout == "half" else (2 * k, 2 * k + 1)
        angle = sign * positions[t] * base ** (-2 * (k + first) / d)
        turned = complex(x[t, a], x[t, b]) * complex(math.cos(angle), math.sin(angle))
        out[t, a], out[t, b] = turned.real, turned.imag
    return torch.tensor(out)


@pytest.mark.parametrize("layout", ["half", "interleaved"])
@pytest.mark.parametrize("base", [10_000.0, 500_000.0])
def test_it_is_a_rotation_of_complex_numbers(layout, base):
    x, made = drawn(6, D), RotaryPositions(D, layout=layout, base=base)
    right = {"layout": layout, "base": base}
    for first in (0, 70, 3):  # beyond a table, and back
        expected = oracle(x.numpy(), range(first, first + 6), **right)
        assert_same(made(x, first), expected)
        torch.testing.assert_close(made(x.float(), first), expected.float(), atol=1e-5, rtol=0)
    jumps = torch.tensor([5, 0, 900, 2, 2, 7])
    assert_same(made(x, jumps), oracle(x.numpy(), jumps.tolist(), **right))


@pytest.mark.parametrize(
    "mistake", [{"first": 1}, {"sign": -1}, {"layout": "interleaved"}, {"base": 1_000.0}], ids=str
)
def test_known_wrong_rotations_are_told_apart(mistake):
    x = drawn(6, D)
    wrong = oracle(x.numpy(), range(6), **mistake)
    assert (RotaryPositions(D)(x) - wrong).abs().max() > 1e-3


def test_each_row_of_a_batch_and_of_heads_has_its_position():
    x, made = drawn(2, 3, 4, D), RotaryPositions(D)
    position = torch.tensor([[0, 1, 2, 3], [7, 8, 9, 10]])
    got = made(x, position[:, None])
    for b in range(2):
        assert_same(got[b], made(x[b], int(position[b, 0])))
    assert_same(got, made(x, position[:, None].expand(2, 3, 4)))


@given(st.integers(0, 5000), st.integers(0, 5000), st.integers(0, 5000), st.integers(1, 12))
@settings(max_examples=40, deadline=None)
def test_the_product_depends_on_the_distance_alone_and_lengths_stay(p, r, shift, half):
    made, (q, k) = RotaryPositions(2 * half), drawn(2, 1, 2 * half, seed=p)
    product = (made(q, p) * made(k, r)).sum()
    assert_same((made(q, p + shift) * made(k, r + shift)).sum(), product)
    assert_same(made(q, p).norm(), q.norm())
    assert_same(made(q, 0), q)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_right_at_position_100_000(dtype):
    x = drawn(4, 64).to(dtype)
    for position in (100_000, torch.arange(100_000, 100_004)):
        got = RotaryPositions(64)(x, position)
        expected = oracle(x.double().numpy(), range(100_000, 100_004))
        # rounded once: half a unit in the last place of the largest numbers
        error = {torch.bfloat16: 2**-7, torch.float16: 2**-10}[dtype]
        torch.testing.assert_close(got.double(), expected, atol=error, rtol=0)
    # an angle that was rounded to this dtype (float16 has no such number) is anything
    angle = torch.arange(100_000, 100_004).to(torch.bfloat16).double()
    assert (oracle(x.double().numpy(), angle.tolist()) - expected).abs().max() > 1


def test_the_module_made_half_keeps_its_angles():
    x, made = drawn(4, D), RotaryPositions(D)
    for twin in (copy.deepcopy(made).half(), made.bfloat16()):
        torch.testing.assert_close(twin(x, 100_000), oracle(x.numpy(), range(100_000, 100_004)))
        assert not list(twin.state_dict())


def test_a_table_that_was_made_without_gradients_serves_a_training():
    made, x = RotaryPositions(D), drawn(4, D)
    with torch.inference_mode():
        made(x)
    assert torch.autograd.gradcheck(made, (x.requires_grad_(),))
    # (R x)ᵀ g = xᵀ (R⁻¹ g): the gradient turns back
    (grad,) = torch.autograd.grad(made(x, 3), x, torch.ones(4, D).double())
    assert_same(made(grad, 3), torch.ones(4, D).double())


def test_weights_of_one_layout_serve_the_other_after_the_conversion():
    heads, n = 3, 5
    w, bias, x = drawn(heads * D, 7), drawn(heads * D), drawn(n, 7, seed=1)

    def scores(layout, convert):
        q, k = ((x @ convert(m).T + convert(bias)).view(n, heads, D).mT.mT for m in (w, w.flip(0)))
        q, k = (RotaryPositions(D, layout=layout)(t.transpose(0, 1)) for t in (q, k))
        return q @ k.mT

    expected = scores("interleaved", lambda m: m)
    to_half = lambda m: convert_rotary_layout(m, heads, to="half")  # noqa: E731
    assert_same(scores("half", to_half), expected)
    assert (scores("half", lambda m: m) - expected).abs().max() > 0.1  # read as the other
    wrong = lambda m: convert_rotary_layout(m, heads, to="interleaved")  # noqa: E731
    assert (scores("half", wrong) - expected).abs().max() > 0.1
    assert torch.equal(convert_rotary_layout(to_half(w), heads, to="interleaved"), w)


# Longer texts


def frequencies(scaling, d=D, base=10_000.0):
    return RotaryPositions(d, base=base, scaling=scaling).frequencies


def old(d=D, base=10_000.0):
    return torch.tensor([base ** (-2 * k / d) for k in range(d // 2)], dtype=torch.float64)


def test_interpolation_makes_long_positions_of_short_ones():
    assert_same(frequencies(Interpolation(4.0)), old() / 4)
    x = drawn(1, D)
    far = RotaryPositions(D, scaling=Interpolation(4.0))(x, 4 * 17)
    assert_same(far, RotaryPositions(D)(x, 17))


def test_the_ntk_aware_base_keeps_the_fastest_pair_and_interpolates_the_slowest():
    got = frequencies(NTK(4.0))
    assert got[0] == 1
    assert_same(got[-1], old()[-1] / 4)
    assert_same(got, old(base=10_000 * 4 ** (D / (D - 2))))


def ramp(turns_kept, turns_slowed, d, base, s, length):
    """Pair by pair, by the number of turns in the length."""
    out = []
    for omega in old(d, base).tolist():
        turns = length * omega / (2 * math.pi)
        kept = min(1.0, max(0.0, (turns - turns_slowed) / (turns_kept - turns_slowed)))
        out.append((1 - kept) * omega / s + kept * omega)
    return torch.tensor(out, dtype=torch.float64)


def test_llama_3_mixes_by_turns():
    scaling = Llama3(8.0, 1.0, 4.0, 8192)
    expected = ramp(4.0, 1.0, 128, 500_000.0, 8.0, 8192)
    assert_same(frequencies(scaling, 128, 500_000.0), expected)
    assert (ramp(1.0, 4.0, 128, 500_000.0, 8.0, 8192) - expected).abs().max() > 1e-4


def test_yarn_keeps_what_turns_often_slows_what_turns_once_and_sharpens_the_scores():
    made = RotaryPositions(128, scaling=YaRN(4.0, 2048))
    ratio = made.frequencies / old(128)
    turns = 2048 * old(128) / (2 * math.pi)
    torch.testing.assert_close(ratio[turns > 33], torch.ones(int((turns > 33).sum())).double())
    slow = ratio[turns < 0.8]
    torch.testing.assert_close(slow, torch.full_like(slow, 0.25))
    assert (ratio.diff() <= 1e-12).all() and ((ratio > 0.26) & (ratio < 0.99)).sum() > 10
    q, k = drawn(2, 1, 128)
    plain = RotaryPositions(128, scaling=YaRN(4.0, 2048, attention_factor=1.0))
    grown = (made(q, 9) * made(k, 2)).sum() / (plain(q, 9) * plain(k, 2)).sum()
    assert grown.item() == pytest.approx((0.1 * math.log(4) + 1) ** 2, abs=1e-10)


def test_a_part_of_the_width_is_turned_and_the_rest_stays():
    x = drawn(2, 6, D)
    for layout in ("half", "interleaved"):
        made = RotaryPositions(D, d_rotary=4, layout=layout)
        for position in (0, 3, torch.tensor([[0], [5]])):
            got = made(x, position)
            expected = RotaryPositions(4, layout=layout)(x[..., :4], position)
            assert_same(got, torch.cat([expected, x[..., 4:]], -1))
    assert made.frequencies.shape == (2,)


SHORT, LONG = (1.0, 1.5, 2.0, 3.0), (2.0, 4.0, 6.0, 9.0)
of_dynamic = lambda n: old(base=10_000 * max(1, 4 * n / 16 - 3) ** (D / (D - 2)))  # noqa: E731
of_long = lambda n: old() / torch.tensor(SHORT if n <= 16 else LONG)  # noqa: E731
BY_LENGTH = {
    "dynamic": (DynamicNTK(4.0, 16), of_dynamic, 1.0),
    "LongRoPE": (LongRoPE(SHORT, LONG, 16, 4.0), of_long, math.sqrt(1 + math.log(4, 16))),
}


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("name", BY_LENGTH)
def test_frequencies_follow_the_length_up_to_the_last_position(name, compiled, monkeypatch):
    """16 positions are the limit; each row of a batch has a length of its own, and nothing that
    was computed for another length is kept."""
    scaling, wanted, magnitude = BY_LENGTH[name]
    made, x = RotaryPositions(D, scaling=scaling), drawn(3, 6, D)
    if compiled:  # the way without a table
        monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)

    def turned(x, first, frequencies):
        angle = torch.arange(first, first + x.shape[-2], dtype=torch.float64)[:, None] * frequencies
        a, b = x.chunk(2, -1)
        parts = a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()
        return magnitude * torch.cat(parts, -1)

    for first in (0, 10, 11, 30, 100, 10, 0):
        assert_same(made(x, first), turned(x, first, wanted(first + 6)))
    position = torch.tensor([-2, 10, 40])[:, None] + torch.arange(6)
    got = made(x, position)
    for row, first in enumerate((-2, 10, 40)):
        assert_same(got[row], turned(x[row], first, wanted(first + 6)))
    assert made(x[:, :0], 90).shape == (3, 0, D)
    assert made(x[:, :0], position[:, :0]).shape == (3, 0, D)


PUBLISHED = {
    "linear": Interpolation(4.0),
    "yarn": YaRN(4.0, 4096),
    "yarn, all given": YaRN(40.0, 512, beta_fast=16.0, beta_slow=2.0, attention_factor=1.3),
    "yarn, magnitudes": YaRN(40.0, 512, mscale=0.7, mscale_all_dim=1.2, truncate=False),
    "longrope": LongRoPE(tuple(range(1, 65)), tuple(range(2, 66)), 512, 4.0),
    "llama3": Llama3(8.0, 1.0, 4.0, 8192),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_frequencies_and_magnitude_are_those_of_the_package_transformers(name):
    pytest.importorskip("transformers")
    from transformers import LlamaConfig
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    scaling, kind = PUBLISHED[name], name.partition(",")[0]
    as_list = lambda value: list(value) if isinstance(value, tuple) else value  # noqa: E731
    given = {k: as_list(value) for k, value in asdict(scaling).items() if value is not None}
    given |= {"rope_type": kind, "rope_theta": 500_000.0}
    config = LlamaConfig(hidden_size=256, num_attention_heads=2, rope_parameters=given)
    theirs, magnitude = ROPE_INIT_FUNCTIONS[kind](config, "cpu")
    ours = RotaryPositions(128, base=500_000.0, scaling=scaling)
    torch.testing.assert_close(ours.frequencies.float(), theirs, atol=1e-7, rtol=1e-5)
    assert ours.magnitude == pytest.approx(magnitude)


def turned(position, d=4):
    return lambda: RotaryPositions(4)(torch.randn(2, 3, d), position)


test_wrong_arguments_are_named = refusals(
    ("d_head must be even", lambda: RotaryPositions(5)),
    ("base", lambda: RotaryPositions(4, base=1.0)),
    ("layout", lambda: RotaryPositions(4, layout="halves")),
    ("scaling", lambda: RotaryPositions(4, scaling=4.0)),
    ("x", turned(0, d=6)),
    ("position", turned(-1)),
    ("position must be a", turned(torch.tensor([0.5]))),
    ("position", turned(torch.arange(2))),
    ("weight must have", lambda: convert_rotary_layout(torch.randn(6, 4), 2, to="half")),
    ("weight must be", lambda: convert_rotary_layout([[1.0]], 2, to="half")),
    ("factor", lambda: NTK(0.5)),
    ("d_head must be above", lambda: RotaryPositions(2, scaling=NTK(2.0))),
    ("beta_fast", lambda: YaRN(2.0, 64, beta_fast=1.0)),
    ("high_freq_factor", lambda: Llama3(2.0, 4.0, 1.0, 64)),
)


@pytest.mark.parametrize("scaling", [None, YaRN(4.0, 64)])
def test_made_on_another_device_it_has_its_angles(scaling):
    x = torch.randn(2, 5, 8)
    with torch.device("meta"):  # as a large model is made before its weights are read
        made = RotaryPositions(8, scaling=scaling)
    right = RotaryPositions(8, scaling=scaling)
    assert torch.equal(made.frequencies, right.frequencies)
    assert torch.equal(made(x, 3), right(x, 3))


class WithoutFloat64(TorchDispatchMode):
    """Refuses what Apple's GPUs refuse, beside a CPU that makes tables."""

    def __torch_dispatch__(self, function, types, arguments=(), options=None):
        result = function(*arguments, **(options or {}))
        assert not isinstance(result, torch.Tensor) or result.dtype != torch.float64, function
        return result


def test_without_float64_positions_are_close(monkeypatch):
    x, rows = torch.randn(2, 5, 8), torch.tensor([3, 40])
    heads = x[:, None].expand(-1, 2, -1, -1)
    calls = {
        "rotary": lambda: RotaryPositions(8)(x, rows[:, None] + torch.arange(5)),
        "added": lambda: SinusoidalPositions(8)(x, rows),
        "alibi": lambda: ALiBi(2)(heads, heads),
        "waves": lambda: fourier_features(x, 3, 8.0),
    }
    right = {name: call() for name, call in calls.items()}
    turn = RotaryPositions(8)
    turn.frequencies = turn.frequencies.float()
    calls["rotary"] = lambda: turn(x, rows[:, None] + torch.arange(5))
    for module in (absolute, alibi, rotary, perceiver):
        monkeypatch.setattr(module, "finest_dtype", lambda device: torch.float32)
    with WithoutFloat64():
        found = {name: call() for name, call in calls.items()}
    for name, value in found.items():
        torch.testing.assert_close(value, right[name], rtol=1e-4, atol=1e-4, msg=name)


def test_a_far_position_costs_no_table_of_all_before_it():
    layer, x = RotaryPositions(128), torch.randn(1, 3, 4, 128)
    for position in (131_070, 255, 0):  # within a stretch, across the end of one, at the beginning
        rows = torch.arange(position, position + 4)
        torch.testing.assert_close(layer(x, position), layer(x, rows), rtol=0, atol=0)
        assert sum(t.nbytes for t in vars(layer)["_table"][1:]) < 1_000_000
