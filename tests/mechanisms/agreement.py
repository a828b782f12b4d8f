"""What the tests of mechanisms share: numbers, modules, and a layer beside its oracle."""

import torch

EXACT = {"atol": 1e-10, "rtol": 0}


def assert_same(found, expected):
    """Tensors, or tuples of them, that are equal in float64, but for rounding."""
    torch.testing.assert_close(found, expected, **EXACT)


def drawn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def randomised(made, seed=0, std=0.5):
    """The module in float64, all its parameters drawn anew: zeros would hide a mistake."""
    torch.manual_seed(seed)
    with torch.no_grad():
        for p in made.double().parameters():
            p.normal_(std=std)
    return made


def assert_agree(ours, theirs, shape, parameters, need_weights=True):
    """Both give the same output, weights and gradients for the same x of that shape.

    No gradient and one of zeros are the same.
    """
    results = []
    for run in (ours, theirs):
        x = drawn(*shape, seed=1).requires_grad_()
        output, weights = run(x)
        loss = (output * torch.linspace(-1, 2, output.numel()).view_as(output)).sum()
        leaves = [x, *parameters]
        grads = torch.autograd.grad(loss, leaves, allow_unused=True, materialize_grads=True)
        results.append((output, weights, grads))
    (output, weights, grads), (expected, expected_weights, expected_grads) = results
    assert_same(output, expected)
    if need_weights:
        assert_same(weights, expected_weights)
    else:
        assert weights is None
    assert_same(grads, expected_grads)
