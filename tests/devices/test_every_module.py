"""Every public module on a GPU: the numbers of the CPU, and no wait for the device."""

import catalogue
import pytest
import torch
from any_gpu import GPU_TOO, REAL, any_gpu
from torch.utils._pytree import tree_leaves, tree_map_only

pytestmark = GPU_TOO

# The host waits once in a pass forward and back: for lengths that lie on the device, and for
# who goes where.
WAITS = "Seq2Seq Bahdanau Luong LSTMLanguageModel PointerNetwork FixedDictionary".split()
WAITS += "HierarchicalAttention MixtureOfExperts Switch".split()


def there_and_back(entry, device):
    """Outputs and gradients, as tensors of the CPU."""
    inputs, options = tree_map_only(
        torch.Tensor, lambda tensor: tensor.to(device), (entry.inputs, entry.options)
    )
    module = entry.module.to(device)
    torch.manual_seed(1)
    outputs = [t for t in tree_leaves(module(*inputs, **options)) if isinstance(t, torch.Tensor)]
    assert {t.device.type for t in outputs} == {device}
    total, slopes = catalogue.total_of(outputs), []
    if total.requires_grad:
        slopes = torch.autograd.grad(
            total,
            [p for p in module.parameters() if p.requires_grad],
            allow_unused=True,
            materialize_grads=True,
        )
    return [*outputs, *slopes]


def made(name):
    """A GPU draws other noise than a CPU; the simulated one draws the same."""
    return catalogue.without_chance(name, training=not (REAL and name == "MixtureOfExperts"))


@pytest.mark.parametrize("name", catalogue.MAKE)
def test_a_step_of_training_on_the_device(name):
    right = there_and_back(made(name), "cpu")
    with any_gpu() as device:
        found = there_and_back(made(name), "cuda")
        waits = dict(device.synchronizations)
        found = [t.detach().cpu() for t in found]
    for mine, theirs in zip(found, right, strict=True):
        # a small number of a tensor is the sum of large ones, in another order
        scale = max(1.0, float(theirs.detach().nan_to_num(0, 0, 0).abs().max()))
        torch.testing.assert_close(mine, theirs.detach(), rtol=1e-4, atol=1e-4 * scale)
    assert sum(waits.values()) <= (name in WAITS), waits


@pytest.mark.parametrize("name", catalogue.MAKE)
def test_a_step_of_training_in_half_precision(name):
    """Under autocast, as on a T4: near float32, and no mixture of dtypes that CUDA refuses."""
    right = there_and_back(made(name), "cpu")
    with any_gpu(), torch.autocast("cuda", torch.float16):
        found = there_and_back(made(name), "cuda")
        found = [t.detach().cpu() for t in found]
    for mine, theirs in zip(found, right, strict=True):
        mine, theirs = mine.double(), theirs.detach().double()
        hidden = theirs.isinf()  # logits that a mask hides
        assert torch.equal(mine[hidden], theirs[hidden])
        mine, theirs = mine[~hidden], theirs[~hidden]
        assert (mine - theirs).norm() <= 0.1 * theirs.norm() + 0.05
