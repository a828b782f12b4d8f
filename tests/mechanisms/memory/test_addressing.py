"""Every stage of the addressing against its formula, and beside it wrong versions."""

import numpy as np
import oracles_ntm as oracle
import pytest
import torch
from assertions import assert_refused, refusals
from hypothesis import given, settings
from hypothesis import strategies as st

import attnbook
from attnbook.mechanisms.memory import addressing as A

from ..agreement import assert_same, drawn

B, H, N, M, R = 2, 3, 7, 4, 2


NUMBERS = ("key", "strength", "gate", "kernel", "gamma")
ARGUMENTS = ("memory", "previous", *NUMBERS)


def problem(seed=0):
    g = torch.Generator().manual_seed(seed)

    def normal(*shape):
        return torch.randn(shape, generator=g, dtype=torch.float64)

    return dict(
        memory=normal(B, N, M),
        previous=(2 * normal(B, H, N)).softmax(-1),
        key=normal(B, H, M),
        strength=normal(B, H).exp() * 2,
        gate=normal(B, H).sigmoid(),
        kernel=(2 * normal(B, H, 2 * R + 1)).softmax(-1),
        gamma=1 + normal(B, H).exp(),
        erase=normal(B, H, M).sigmoid(),
        add=normal(B, H, M),
    )


def expected_weights(p, wrong=None):
    out = torch.zeros(B, H, N, dtype=torch.float64)
    for b, h in np.ndindex(B, H):
        numbers = {name: p[name][b, h].numpy() for name in NUMBERS}
        memory, previous = p["memory"][b].numpy(), p["previous"][b, h].numpy()
        out[b, h] = torch.from_numpy(oracle.address(memory, previous, numbers, wrong))
    return out


def addressed(p):
    return A.address(*(p[name] for name in ARGUMENTS))


@pytest.mark.parametrize("seed", range(3))
def test_all_four_stages_equal_the_formulas(seed):
    p = problem(seed)
    result = addressed(p)
    for b, h in np.ndindex(B, H):
        key, strength, gate, kernel, gamma = (p[name][b, h].numpy() for name in NUMBERS)
        content = oracle.content(key, float(strength), p["memory"][b].numpy())
        gated = oracle.interpolate(content, p["previous"][b, h].numpy(), float(gate))
        shifted = oracle.shift(gated, kernel)
        sharp = oracle.sharpen(shifted, float(gamma))
        for mine, theirs in zip(result, (content, gated, shifted, sharp)):
            np.testing.assert_allclose(mine[b, h].numpy(), theirs, atol=1e-10, rtol=0)
    assert attnbook.address is A.address


WRONG = ["shift in the wrong direction", "shift that does not go round", "interpolation swapped"]
WRONG += ["sharpening before shifting", "sharpening without normalisation"]


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_order_or_direction_is_told_apart(wrong):
    p = problem()
    assert (addressed(p).weights - expected_weights(p)).abs().max() < 1e-10
    assert (addressed(p).weights - expected_weights(p, wrong)).abs().max() > 1e-2


WRONG_CONTENT = {  # of the strength β, the cosine c and the product p
    "softmax over the heads": lambda β, c, p: (β * c).softmax(1),
    "softmax over the batch": lambda β, c, p: (β * c).softmax(0),
    "dot product, not cosine": lambda β, c, p: (β * p).softmax(-1),
    "the strength after the softmax": lambda β, c, p: β * c.softmax(-1),
    "no strength": lambda β, c, p: c.softmax(-1),
}


@pytest.mark.parametrize("wrong", WRONG_CONTENT)
def test_wrong_content_weights_are_told_apart(wrong):
    p = problem()
    key, memory, strength = p["key"], p["memory"], p["strength"][..., None]
    cosine = torch.nn.functional.cosine_similarity(key[:, :, None], memory[:, None], dim=-1)
    torch.testing.assert_close(A.cosine_similarity(key, memory), cosine, atol=1e-7, rtol=0)
    result = A.content_weights(key, p["strength"], memory)
    torch.testing.assert_close(result, (strength * cosine).softmax(-1), atol=1e-7, rtol=0)
    assert (result - WRONG_CONTENT[wrong](strength, cosine, key @ memory.mT)).abs().max() > 1e-2


def test_reading_and_writing_equal_the_formulas_and_erase_after_add_does_not():
    p = problem()
    reads = A.read(p["memory"], p["previous"])
    written = A.write(p["memory"], p["previous"], p["erase"], p["add"])
    for b in range(B):
        memory = p["memory"][b].numpy()
        heads = [[p[k][b, h].numpy() for k in ("previous", "erase", "add")] for h in range(H)]
        right = np.stack([oracle.read(memory, w) for w, _, _ in heads])
        np.testing.assert_allclose(reads[b].numpy(), right, atol=1e-10)
        mine, late = written[b].numpy(), oracle.write(memory, heads, "erase after add")
        np.testing.assert_allclose(mine, oracle.write(memory, heads), atol=1e-10)
        assert np.abs(mine - late).max() > 1e-2
    turned = A.write(p["memory"], *(p[name].flip(1) for name in ("previous", "erase", "add")))
    assert_same(written, turned)


def test_a_positive_shift_moves_to_higher_slots_and_around_the_end():
    here = torch.eye(5, dtype=torch.float64)[None]  # head h looks at slot h
    for k in (-1, 0, 1):
        kernel = torch.zeros(1, 5, 3, dtype=torch.float64)
        kernel[..., k + 1] = 1
        moved = A.shift(here, kernel)
        assert moved.argmax(-1)[0].tolist() == [(h + k) % 5 for h in range(5)]
    evenly = torch.full((1, 5, 5), 0.2, dtype=torch.float64)
    assert_same(A.shift(here, evenly), evenly)


def test_a_kernel_of_one_shift_moves_nothing():
    p = problem()
    alone = torch.ones(B, H, 1, dtype=torch.float64)
    assert_same(A.shift(p["previous"], alone), p["previous"])
    result = addressed({**p, "kernel": alone})
    assert_same(result.shifted, result.gated)


def test_a_scalar_shift_is_the_paper_s_example():
    kernel = A.uniform_shift(torch.tensor(6.7, dtype=torch.float64), 8)
    assert kernel[8 + 6].item() == pytest.approx(0.3) and kernel[8 + 7].item() == pytest.approx(0.7)
    assert kernel.count_nonzero() == 2
    for x in (-2.0, -1.25, 0.0, 0.5, 1.999, 2.0):
        found = A.uniform_shift(torch.tensor(x, dtype=torch.float64), 2)
        np.testing.assert_allclose(found.numpy(), oracle.uniform_shift(x, 2), atol=1e-12)
    assert A.uniform_shift(torch.tensor([9.0, -9.0]), 2).argmax(-1).tolist() == [4, 0]


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10_000), slots=st.integers(5, 12), by=st.integers(-2, 2), x=st.floats(-2, 2)
)
def test_a_shift_back_undoes_a_whole_shift(seed, slots, by, x):
    weights = drawn(2, 1, slots, seed=seed).softmax(-1)

    def moved(w, k):
        return A.shift(w, A.uniform_shift(torch.full((2, 1), float(k), dtype=torch.float64), 2))

    assert_same(moved(moved(weights, by), -by), weights)
    assert_same(moved(weights, by), weights.roll(by, -1))
    assert_same(moved(weights, x).sum(-1), torch.ones(2, 1, dtype=torch.float64))


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_shuffled_slots_have_shuffled_content_weights(seed):
    p = problem(seed)
    order = torch.randperm(N, generator=torch.Generator().manual_seed(seed))
    weights = A.content_weights(p["key"], p["strength"], p["memory"])
    shuffled = A.content_weights(p["key"], p["strength"], p["memory"][:, order])
    assert_same(shuffled, weights[..., order])
    # a cosine knows no lengths
    longer = A.content_weights(3 * p["key"], p["strength"], 5 * p["memory"])
    torch.testing.assert_close(longer, weights, atol=1e-6, rtol=0)


EXTREME = st.sampled_from([0.0, 1e-6, 1.0, 1e3, 1e6])


@settings(max_examples=120, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    dtype=st.sampled_from([torch.float32, torch.bfloat16, torch.float64]),
    key=EXTREME,
    memory=st.sampled_from([0.0, 1e-20, 1e-6, 1.0, 1e4]),
    strength=EXTREME,
    gamma=EXTREME,
    gate=st.sampled_from([0.0, 0.5, 1.0]),
    one=st.booleans(),
    complete=st.booleans(),
)
def test_every_stage_is_a_distribution_and_no_gradient_is_nan(
    seed, dtype, key, memory, strength, gamma, gate, one, complete
):
    p = problem(seed)
    p["key"] = p["key"] * key
    p["memory"] = p["memory"] * memory
    p["strength"], p["gamma"] = p["strength"] * 0 + strength, 1 + p["gamma"] * 0 + gamma
    p["gate"] = p["gate"] * 0 + gate
    if one:
        p["previous"] = torch.eye(N, dtype=torch.float64)[:H].expand(B, -1, -1)
    if complete:
        p["kernel"] = torch.eye(2 * R + 1, dtype=torch.float64)[:H].expand(B, -1, -1)
    p = {name: part.to(dtype).detach().requires_grad_() for name, part in p.items()}
    result = addressed(p)
    # what comes in sums to 1 as exactly as its dtype can say
    tolerance = 2e-2 if dtype == torch.bfloat16 else 1e-4
    for stage in result:
        assert stage.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
        assert (stage >= 0).all() and (stage.sum(-1) - 1).abs().max() < tolerance
    way = torch.arange(N, dtype=stage.dtype)
    ((result.weights * way).sum() + A.read(p["memory"], result.weights).tanh().sum()).backward()
    for name in ("memory", "previous", "key", "strength", "gate", "kernel", "gamma"):
        assert p[name].grad.isfinite().all(), name


def test_zeros_have_a_finite_gradient_and_the_plain_cosine_has_not():
    zero = torch.zeros(1, 1, M, dtype=torch.float64, requires_grad=True)
    key = torch.ones(1, 1, M, dtype=torch.float64, requires_grad=True)

    def slope(cosine):
        return torch.autograd.grad(cosine.sum(), zero, retain_graph=True)[0].abs().max()

    assert slope(A.cosine_similarity(key, zero)) <= 1 / A.SHORTEST**0.5
    assert slope(A.cosine_similarity(zero, key)) <= 1 / A.SHORTEST**0.5
    plain = (key * zero).sum(-1) / ((key * key).sum(-1) * (zero * zero).sum(-1)).sqrt()
    assert not slope(plain).isfinite()
    assert slope(torch.nn.functional.cosine_similarity(key, zero, dim=-1, eps=1e-8)) > 1e7


def test_sharpening_by_powers_breaks_where_ours_does_not():
    # what rounding may leave of a 0 after a convolution
    below = torch.tensor([[[0.6, 0.4, -1e-9]]])
    assert (below**1.5).isnan().any()
    small, gamma = torch.tensor([[[1e-3, 2e-3, 1e-3]]], requires_grad=True), torch.tensor([[40.0]])
    powers = small ** gamma[..., None]
    assert (powers / powers.sum(-1, keepdim=True)).isnan().all()  # 0/0
    sharp = A.sharpen(small, gamma)
    torch.testing.assert_close(sharp, torch.tensor([[[0.0, 1.0, 0.0]]]), atol=1e-6, rtol=0)
    sharp[0, 0, 1].backward()
    assert small.grad.isfinite().all()
    assert_refused("weights", A.sharpen, below, torch.ones(1, 1))


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10_000), gamma=st.floats(1, 20))
def test_sharpening_keeps_the_order_and_never_blurs(seed, gamma):
    weights = problem(seed)["previous"]
    sharp = A.sharpen(weights, torch.full((B, H), gamma, dtype=torch.float64))
    assert torch.equal(sharp.argsort(-1), weights.argsort(-1))
    assert (sharp.max(-1).values >= weights.max(-1).values - 1e-12).all()
    assert_same(A.sharpen(weights, torch.ones(B, H, dtype=torch.float64)), weights)


@pytest.mark.parametrize(
    ("call", "names"),
    [
        (A.read, ("memory", "previous")),
        (A.write, ("memory", "previous", "erase", "add")),
        (A.cosine_similarity, ("key", "memory")),
        (A.content_weights, ("key", "strength", "memory")),
        (A.interpolate, ("previous", "kernel_as_weights", "gate")),
        (A.shift, ("previous", "kernel")),
        (A.sharpen, ("previous", "gamma")),
        (lambda x: A.uniform_shift(x, R), ("scalar",)),
    ],
)
def test_gradients_are_those_of_finite_differences(call, names):
    p = problem() | {
        "kernel_as_weights": problem(5)["previous"],
        "scalar": torch.tensor([0.3, -1.6], dtype=torch.float64),
    }
    assert torch.autograd.gradcheck(call, [p[name].detach().requires_grad_() for name in names])


def test_leading_dimensions_are_free_and_may_be_none():
    p = problem()
    result = addressed(p)
    deep = addressed({name: part.view(1, B, 1, *part.shape[1:]) for name, part in p.items()})
    flat = addressed({name: part[0] for name, part in p.items()})
    for mine, more, less in zip(result, deep, flat):
        assert_same(more.view_as(mine), mine)
        assert_same(less, mine[0])
    parts = [p[name] for name in ("memory", "previous", "erase", "add")]
    written = A.write(*(part.view(1, B, 1, *part.shape[1:]) for part in parts))
    assert_same(written[0, :, 0], A.write(*parts))
    read = A.read(p["memory"][0], p["previous"][0])
    assert_same(read, A.read(p["memory"], p["previous"])[0])


@pytest.mark.gpu
def test_a_gpu_gives_what_the_cpu_gives():
    p = problem()
    found = addressed({name: part.cuda() for name, part in p.items()})
    assert_same(tuple(part.cpu() for part in found), tuple(addressed(p)))


P = problem()
MORE = {name: torch.cat([part] * 3) for name, part in P.items()}  # rows than there are
test_bad_arguments_are_named = refusals(
    ("memory", lambda: A.read([1.0], P["previous"])),
    ("weights", lambda: A.read(P["memory"], P["previous"][..., 1:])),
    ("memory", lambda: A.read(P["memory"].long(), P["previous"])),
    ("erase must be", lambda: A.write(P["memory"], P["previous"], P["erase"][..., 1:], P["add"])),
    ("add", lambda: A.write(P["memory"], P["previous"], P["erase"], P["add"][:, 1:])),
    ("erase", lambda: A.write(P["memory"], P["previous"], 2 * P["erase"], P["add"])),
    ("key", lambda: A.content_weights(P["key"][..., 1:], P["strength"], P["memory"])),
    ("strength", lambda: A.content_weights(P["key"], P["strength"][:, 1:], P["memory"])),
    ("strength", lambda: A.content_weights(P["key"], -P["strength"], P["memory"])),
    ("strength", lambda: A.content_weights(P["key"], 3.0, P["memory"])),
    ("previous", lambda: A.interpolate(P["previous"], P["previous"][..., 1:], P["gate"])),
    ("gate", lambda: A.interpolate(P["previous"], P["previous"], P["gate"] + 1)),
    ("kernel must have an", lambda: A.shift(P["previous"], P["kernel"][..., 1:])),
    ("kernel must have an", lambda: A.shift(P["previous"][..., :3], P["kernel"])),
    ("kernel must have one", lambda: A.shift(P["previous"], P["kernel"][:, 1:])),
    ("lowest", lambda: A.uniform_shift(0.5, 1)),
    ("shift_range", lambda: A.uniform_shift(torch.tensor(0.5), 0)),
    ("gamma", lambda: A.sharpen(P["previous"], P["gamma"] - 1.2)),
    ("gamma must hold", lambda: A.sharpen(P["previous"], P["gamma"][:, 1:])),
    ("memory and weights", lambda: A.read(P["memory"], MORE["previous"])),
    (
        "memory, weights, erase",
        lambda: A.write(P["memory"], P["previous"], P["erase"], MORE["add"]),
    ),
    ("memory, key and", lambda: A.content_weights(P["key"], MORE["strength"], P["memory"])),
    ("content, previous and", lambda: A.interpolate(P["previous"], MORE["previous"], P["gate"])),
    ("weights and kernel", lambda: A.shift(P["previous"], MORE["kernel"])),
    ("weights and gamma", lambda: A.sharpen(P["previous"], MORE["gamma"])),
)
