"""Additive scores by exponentials are ``v·tanh(q + k)``, however large queries and keys are."""

import threading

import pytest
import torch
from torch.testing import assert_close

from attnbook import AdditiveScore, attend
from attnbook.kernels import additive
from attnbook.kernels.additive import additive_scores

BLOCKS = additive.blocks
TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-10}


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("size", [0.01, 1, 39, 46, 350, 360, 1e4])
def test_large_numbers_that_cancel_are_no_worse_than_small_ones(size, dtype, monkeypatch):
    """Below the limit by exponentials (39 in float32, 350 in float64), above it by sums, in one
    block and in several.
    """
    generator = torch.Generator().manual_seed(0)
    near, far = (torch.randn(2, n, 6, generator=generator, dtype=dtype) for n in (5, 7))
    query, key = (near + size).requires_grad_(), (far - size).requires_grad_()
    vector = torch.randn(6, generator=generator, dtype=dtype, requires_grad=True)
    grad = torch.randn(2, 5, 7, generator=generator, dtype=dtype)
    exact = [t.detach().double().requires_grad_() for t in (query, key, vector)]
    wanted = ((exact[0][:, :, None] + exact[1][:, None]).tanh() * exact[2]).sum(-1)
    wanted_gradients = torch.autograd.grad(wanted, exact, grad.double())
    # what the sum of two large numbers rounds away is lost to the formula itself
    atol = max(TOLERANCE[dtype], 4 * size * torch.finfo(dtype).eps)
    for elements in (2**20, 40):
        monkeypatch.setattr(additive, "blocks", lambda q, k, e=elements: BLOCKS(q, k, e))
        scores = additive_scores(query, key, vector)
        assert_close(scores.double(), wanted, rtol=0, atol=atol)
        found = torch.autograd.grad(scores, (query, key, vector), grad)
        for a, b in zip(found, wanted_gradients, strict=True):
            assert_close(a.double(), b, rtol=0, atol=10 * atol)


def test_buffers_serve_passes_with_and_without_inference_mode_and_each_thread_has_its_own():
    torch.manual_seed(0)
    inputs = [torch.randn(*shape, requires_grad=True) for shape in ((8, 6), (9, 6), (6,))]
    wanted = additive_scores(*inputs).detach()
    seen = []

    def work():
        with torch.inference_mode():
            seen.append(additive_scores(*inputs).clone())
        seen.append(additive_scores(*inputs))
        seen[-1].sum().backward()
        seen.append({t.data_ptr() for t in additive._LOCAL.scratch._flat.values()})

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert torch.equal(seen[0], wanted) and torch.equal(seen[1], wanted)
    assert not seen[2] & {t.data_ptr() for t in additive._LOCAL.scratch._flat.values()}


def test_one_graph():
    torch.manual_seed(0)
    score, x = AdditiveScore(8, 8, 4), torch.randn(2, 7, 8)
    compiled = torch.compile(lambda y: attend(score, y, y).context, backend="eager", fullgraph=True)
    assert_close(compiled(x), attend(score, x, x).context)
