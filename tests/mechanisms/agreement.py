"""What the tests of mechanisms share: numbers, modules, and a layer beside its oracle."""

import torch
from assertions import assert_exact as assert_same


def drawn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def slopes(output, leaves):
    """Gradients of a sum in which each number of the output weighs another; zeros for none."""
    weight = torch.linspace(-1, 2, output.numel(), dtype=output.dtype).view_as(output)
    total = (output * weight).sum()
    return torch.autograd.grad(total, leaves, allow_unused=True, materialize_grads=True)


def randomised(made, seed=0, std=0.5):
    """The module in float64, all its parameters drawn anew: zeros would hide a mistake."""
    torch.manual_seed(seed)
    with torch.no_grad():
        for p in made.double().parameters():
            p.normal_(std=std)
    return made


def assert_agree(ours, theirs, shape, parameters, need_weights=True):
    """Both give the same output, weights and gradients for the same x of that shape."""
    results = []
    for run in (ours, theirs):
        x = drawn(*shape, seed=1).requires_grad_()
        output, weights = run(x)
        results.append(
            (output, weights if need_weights else None, slopes(output, [x, *parameters]))
        )
        assert need_weights or run is theirs or weights is None
    assert_same(*results)
