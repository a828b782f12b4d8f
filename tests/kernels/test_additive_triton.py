"""The kernels for CUDA give the numbers of the formula, in every shape: on a GPU, and where there
is none under Triton's interpreter; and they can be compiled for GPUs, which needs none.

Without a GPU at night, where `make nightly` installs Triton: it takes a gigabyte that nobody else
needs.
"""

import os
import subprocess
import sys

import pytest
import torch
from any_gpu import NIGHTLY_OR_GPU
from assertions import assert_exact

import attnbook
from attnbook import AdditiveScore, attend

pytestmark = NIGHTLY_OR_GPU
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@pytest.fixture(autouse=True)
def asked_for(monkeypatch):
    monkeypatch.setenv("ATTNBOOK_TRITON", "1")
    if DEVICE == "cpu":
        monkeypatch.setenv("TRITON_INTERPRET", "1")
    with torch.device(DEVICE):
        yield


def tensors(*shapes, dtype=torch.float64, seed=0):
    torch.manual_seed(seed)
    return [torch.randn(*shape, dtype=dtype, requires_grad=True) for shape in shapes]


def formula(score, query, key, value, mask=None):
    """With everything in memory, by automatic differentiation."""
    hidden = score.query_projection(query).unsqueeze(-2) + score.key_projection(key).unsqueeze(-3)
    e = (hidden.tanh() * score.vector.weight[0]).sum(-1)
    if mask is not None:
        e = e.masked_fill(~mask, -torch.inf)
    return e.softmax(-1).nan_to_num(0.0) @ value


def gradients(result, inputs):
    g = torch.Generator(DEVICE).manual_seed(5)
    loss = (result * torch.randn(result.shape, generator=g, dtype=torch.float64)).sum()
    return torch.autograd.grad(loss, inputs)


def assert_formula(score, inputs, mask=None, **options):
    """In value, and in the gradients of inputs and parameters."""
    result = attend(score, *inputs, mask=mask, **options).context
    expected = formula(score, *inputs, mask)
    assert_exact(result, expected)
    wanted = [*inputs, *score.parameters()]
    assert_exact(gradients(result, wanted), gradients(expected, wanted))


@pytest.fixture
def calls(monkeypatch):
    from attnbook.kernels import additive_triton

    made = []
    for name in ("_Attention", "_Scores"):
        function = getattr(additive_triton, name)
        apply = lambda *a, run=function.apply, name=name: made.append(name) or run(*a)  # noqa: E731
        monkeypatch.setattr(function, "apply", apply)
    return made


SHAPES = {
    "more than a tile": ((2, 19, 7), (2, 75, 7), (2, 75, 21)),
    "one query": ((3, 1, 5), (3, 33, 5), (3, 33, 40)),
    "one key": ((4, 5), (1, 5), (1, 3)),
    "leading dimensions that broadcast": ((2, 1, 4, 18), (3, 6, 18), (2, 3, 6, 2)),
}


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("shapes", SHAPES.values(), ids=SHAPES)
def test_attention_is_the_formula(shapes, masked, calls):
    inputs = tensors(*shapes)
    score = AdditiveScore(shapes[0][-1], shapes[1][-1], 20).double()
    with torch.no_grad():
        score.vector.weight.mul_(10)  # far apart: each tile brings larger scores for some query
    expected_shape = torch.broadcast_shapes(*(shape[:-2] for shape in shapes))
    mask = None
    if masked:
        mask = torch.rand(*expected_shape, shapes[0][-2], shapes[1][-2]) > 0.4
        mask[..., 0, :] = False  # may attend to nothing
    assert_formula(score, inputs, mask, need_weights=False)
    assert calls == ["_Attention"]


@pytest.mark.parametrize(
    "shape", [(37,), (1, 37), (2, 1, 37), (1, 19, 1)], ids=lambda s: "×".join(map(str, s))
)
def test_a_mask_that_broadcasts_is_not_written_out(shape):
    inputs = tensors((2, 19, 7), (2, 37, 7), (2, 37, 4))
    score = AdditiveScore(7, 7).double()
    assert_formula(score, inputs, torch.rand(shape) > 0.3, need_weights=False)


def test_the_backward_pass_in_parts_is_the_backward_pass(monkeypatch):
    from attnbook.kernels import additive_triton

    inputs = tensors((3, 19, 7), (3, 9, 7), (3, 9, 4))
    score, mask = AdditiveScore(7, 7).double(), torch.rand(3, 1, 9) > 0.3
    wanted = [*inputs, *score.parameters()]
    expected = gradients(attend(score, *inputs, mask=mask, need_weights=False).context, wanted)
    for buffer in (9, 50, 200):
        monkeypatch.setattr(additive_triton, "BUFFER", buffer)
        found = gradients(attend(score, *inputs, mask=mask, need_weights=False).context, wanted)
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


def test_scores_are_the_formula_also_where_the_weights_are_asked_for(calls):
    inputs = tensors((2, 19, 7), (2, 37, 7), (2, 37, 4))
    score = AdditiveScore(7, 7, 20).double()
    assert_formula(score, inputs)
    assert calls == ["_Scores"]


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_other_dtypes_are_computed_in_float32(dtype):
    inputs = tensors((2, 5, 16), (2, 40, 16), (2, 40, 8), dtype=dtype)
    score = AdditiveScore(16, 16).to(dtype)
    result = attend(score, *inputs, need_weights=False).context
    assert result.dtype == dtype
    wide = AdditiveScore(16, 16).double()
    wide.load_state_dict(score.state_dict())
    expected = formula(wide, *(t.double() for t in inputs))
    tolerance = 1e-5 if dtype == torch.float32 else 2e-3
    torch.testing.assert_close(result.double(), expected, rtol=0, atol=tolerance)


def test_large_scores_and_saturated_units_stay_finite():
    query, key, value = tensors((1, 17, 8), (1, 40, 8), (1, 40, 4), dtype=torch.float32)
    score = AdditiveScore(8, 8)
    with torch.no_grad():
        score.vector.weight.mul_(300)
    result = attend(score, 100 * query, 100 * key, value, need_weights=False).context
    assert result.isfinite().all()
    assert all(g.isfinite().all() for g in torch.autograd.grad(result.sum(), (query, key, value)))


def test_values_too_wide_for_a_register_take_the_other_path(calls):
    inputs = tensors((1, 2, 4), (1, 3, 4), (1, 3, 513))
    score = AdditiveScore(4, 4).double()
    assert_exact(attend(score, *inputs, need_weights=False).context, formula(score, *inputs))
    assert "_Attention" not in calls


@pytest.mark.parametrize("need_weights", [False, True])
@pytest.mark.parametrize("b, m, n", [(1, 0, 3), (0, 2, 3)])
def test_no_queries_take_the_other_path(b, m, n, need_weights, calls):
    inputs = tensors((b, m, 4), (b, n, 4), (b, n, 2))
    context = attend(AdditiveScore(4, 4).double(), *inputs, need_weights=need_weights).context
    assert context.shape == (b, m, 2) and calls == []


def test_it_is_for_who_asks_and_not_under_a_second_derivative(monkeypatch, calls):
    inputs = tensors((1, 4, 4), (1, 3, 4), (1, 3, 2))
    score = AdditiveScore(4, 4).double()
    with attnbook.double_backward():
        attend(score, *inputs, need_weights=False)
    monkeypatch.delenv("ATTNBOOK_TRITON")
    attend(score, *inputs, need_weights=False)
    assert calls == []


@pytest.mark.parametrize("capability", [75, 80, 90])
def test_the_kernels_compile_for_gpus(capability, tmp_path):
    """In an interpreter of its own: the kernels of this one are interpreted."""
    script = tmp_path / "compile.py"
    script.write_text(COMPILE)
    env = {**os.environ, "TRITON_INTERPRET": "0", "TRITON_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, script, str(capability)]
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.split() == 2 * ["scores", *3 * ["attention"], "gradient"]


COMPILE = """
import sys
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from attnbook.kernels import additive_triton as at
import triton.language as tl

target = GPUTarget("cuda", int(sys.argv[1]), 32)
I = "i32"

def make(kernel, types, constants):
    names = kernel.arg_names
    signature = dict(zip(names, types)) | {name: "constexpr" for name in constants}
    made = triton.compile(ASTSource(kernel, signature, constants), target=target)
    assert len(made.asm["ptx"]) > 1000 and "cubin" in made.asm

for wide, P, many in ((tl.float32, "*fp32", 16), (tl.float64, "*fp64", 1)):
    tiles = {"ROWS": many, "COLUMNS": 32, "WIDTH": 16, "WIDE": wide}
    make(at._scores_kernel, [P] * 4 + [I] * 3, tiles); print("scores")
    for rows, masked in ((many, False), (many, True), (1, True)):
        constants = {**tiles, "ROWS": rows, "MASKED": masked, "VALUES": 512}
        make(at._attention_kernel, [P] * 4 + ["*u8", P, P] + [I] * 7, constants); print("attention")
    make(at._gradient_kernel, [P] * 6 + [I] * 5, tiles); print("gradient")
"""
