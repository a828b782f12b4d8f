"""A layer and its oracle, compared in value, weights and gradients."""

import torch

EXACT = {"atol": 1e-10, "rtol": 0}


def randomised(made):
    """The module in float64, all its parameters drawn anew: zeros would hide a mistake."""
    with torch.no_grad():
        for p in made.double().parameters():
            p.normal_(std=0.5)
    return made


def assert_agree(ours, theirs, shape, parameters, need_weights=True):
    """Both give the same output, weights and gradients for the same x of that shape.

    No gradient and one of zeros are the same.
    """
    results = []
    for run in (ours, theirs):
        g = torch.Generator().manual_seed(1)
        x = torch.randn(*shape, generator=g, dtype=torch.float64).requires_grad_()
        output, weights = run(x)
        loss = (output * torch.linspace(-1, 2, output.numel()).view_as(output)).sum()
        grads = torch.autograd.grad(loss, [x, *parameters], allow_unused=True)
        zeros = map(torch.zeros_like, (x, *parameters))
        grads = [zero if grad is None else grad for grad, zero in zip(grads, zeros)]
        results.append((output, weights, grads))
    (output, weights, grads), (expected, expected_weights, expected_grads) = results
    torch.testing.assert_close(output, expected, **EXACT)
    if need_weights:
        torch.testing.assert_close(weights, expected_weights, **EXACT)
    else:
        assert weights is None
    torch.testing.assert_close(grads, expected_grads, **EXACT)
