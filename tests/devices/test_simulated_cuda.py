"""The simulated GPU refuses what CUDA refuses, and computes what the CPU computes."""

import copy
import io

import numpy as np
import pytest
import torch
from simulated_cuda import CudaTensor, simulated_cuda
from torch import nn
from torch.nn import functional as F

TWO = "same device, but found at least two devices, cuda:0 and cpu"


@pytest.fixture(autouse=True)
def device():
    with simulated_cuda() as made:
        yield made


def on_cuda(*shape):
    return torch.arange(1.0, 1 + torch.Size(shape).numel()).reshape(shape).to("cuda")


MADE = {
    "a factory": lambda: torch.zeros(2, device="cuda"),
    "a device": lambda: torch.full((2,), 1.0, device=torch.device("cuda:0")),
    "numbers": lambda: torch.tensor([1.0, 2.0], device="cuda"),
    "a NumPy array": lambda: torch.as_tensor(np.ones(2), device="cuda"),
    "a copy": lambda: torch.ones(2).to("cuda"),
    "a copy that overlaps": lambda: torch.ones(2).pin_memory().to("cuda", non_blocking=True),
    "cuda()": lambda: torch.ones(2).cuda(),
    "a tensor like another": lambda: torch.ones(2).to(on_cuda(2)),
    "zeros like another": lambda: torch.zeros_like(on_cuda(2)),
    "new of another": lambda: on_cuda(2).new_tensor([3.0, 4.0]),
    "a result": lambda: on_cuda(2) * 2 + 1,
    "a draw": lambda: torch.rand(2, device="cuda"),
    "with a number of the CPU": lambda: on_cuda(2) * torch.tensor(2.0),
    "with an index of the CPU": lambda: on_cuda(3)[torch.tensor([0, 2])],
    "a module's weight": lambda: nn.Linear(1, 2).to("cuda").bias,
}


@pytest.mark.parametrize("make", MADE.values(), ids=MADE)
def test_a_tensor_of_the_device_says_so(make):
    x = make()
    assert x.is_cuda and x.device == torch.device("cuda", 0) and not x.is_cpu and x.shape == (2,)
    assert x.cpu().device.type == "cpu" and not isinstance(x.cpu(), CudaTensor)
    assert np.isfinite(x.detach().cpu().numpy()).all()


NO_NUMPY = "can't convert cuda:0 device type tensor to numpy"
NOT_OF_THE_CPU = "Expected a 'cuda' device type for generator but found 'cpu'"
FALSE, ZERO, ROWS = torch.zeros(3, dtype=torch.bool), torch.tensor([0]), torch.zeros(2, 1).long()
REFUSED = {
    "sum of two devices": (lambda: on_cuda(3) + torch.ones(3), TWO),
    "sum into the CPU": (lambda: torch.ones(3).add_(on_cuda(3)), TWO),
    "number of the device into one of the CPU": (lambda: torch.zeros(()).add_(on_cuda()), TWO),
    "concatenation": (lambda: torch.cat([torch.ones(3), on_cuda(3)]), TWO),
    "product of matrices": (lambda: on_cuda(2, 2) @ torch.ones(2, 2), TWO),
    "mask on the CPU": (lambda: on_cuda(3).masked_fill(FALSE, 0.0), TWO),
    "ids on the CPU": (lambda: nn.Embedding(5, 2).to("cuda")(ZERO), TWO),
    "weights on the CPU": (lambda: nn.Linear(2, 2)(on_cuda(2, 2)), TWO),
    "targets on the CPU": (lambda: F.cross_entropy(on_cuda(1, 3), ZERO), TWO),
    "isin": (lambda: torch.isin(torch.arange(3), ZERO.to("cuda")), TWO),
    "gather": (lambda: on_cuda(2, 2).gather(1, ROWS), TWO),
    "values of the CPU": (lambda: on_cuda(3).index_put_((ROWS[:, 0],), torch.ones(2)), TWO),
    "index of the device into the CPU": (
        lambda: torch.ones(3)[ZERO.to("cuda")],
        "indices should be either on cpu",
    ),
    "numpy": (lambda: on_cuda(3).numpy(), NO_NUMPY),
    "numpy.asarray": (lambda: np.asarray(on_cuda(3)), NO_NUMPY),
    "draw of the device by the CPU's generator": (
        lambda: torch.rand(2, device="cuda", generator=torch.Generator()),
        NOT_OF_THE_CPU,
    ),
    "draw in place": (lambda: on_cuda(3).normal_(generator=torch.Generator()), NOT_OF_THE_CPU),
    "choice": (
        lambda: torch.multinomial(on_cuda(3), 1, generator=torch.Generator()),
        NOT_OF_THE_CPU,
    ),
    "draw of the CPU by the device's generator": (
        lambda: torch.rand(2, generator=torch.Generator("cuda")),
        "Expected a 'cpu' device type for generator but found 'cuda'",
    ),
    "second GPU": (lambda: torch.zeros(1, device="cuda:1"), "invalid device ordinal"),
    "pinned twice": (lambda: on_cuda(3).pin_memory(), "cannot pin"),
    "lengths on the device": (
        lambda: nn.utils.rnn.pack_padded_sequence(on_cuda(3, 1, 1), on_cuda(1).long()),
        "'lengths' argument should be a 1D CPU int64 tensor",
    ),
    "recurrent network with its input on the CPU": (
        lambda: nn.GRU(1, 2).to("cuda")(torch.ones(3, 2, 1)),
        "not on the same device",
    ),
    "state that is not contiguous": (
        lambda: nn.GRU(1, 4).to("cuda")(on_cuda(3, 2, 1), on_cuda(1, 4, 2).mT),
        "hx is not contiguous",
    ),
}


@pytest.mark.parametrize("wrong, message", REFUSED.values(), ids=REFUSED)
def test_what_cuda_refuses_is_refused(wrong, message):
    with pytest.raises((RuntimeError, TypeError), match=message):
        wrong()


def both(compute, *inputs):
    """What `compute` gives, and its gradients, on the CPU and on the device."""
    results = []
    for place in ("cpu", "cuda"):
        leaves = [x.detach().to(place).requires_grad_() for x in inputs]
        out = compute(*leaves)
        slopes = torch.autograd.grad(out.square().sum(), leaves)
        results.append([x.detach().cpu() for x in (out, *slopes)])
        assert out.is_cuda == (place == "cuda")
    return results


COMPUTED = {
    "broadcasting": lambda a, b: (a[:, None] * b[None]).tanh().sum(-1),
    "views and writes in place": lambda a, b: (lambda x: (x[:2].mul_(2), x.t())[1] @ b)(a * 1),
    "attention": lambda a, b: F.scaled_dot_product_attention(
        a[None], b[None], b[None], is_causal=True
    ),
    "indices and masks": lambda a, b: (
        a[:, torch.tensor([2, 0])].masked_fill(b[:, :2] > 0, 0.0)[b[:, 0] < 0.5] * b[0, 0]
    ),
    "transposed in place": lambda a, b: (lambda x: x.transpose_(0, 1))(a * b),
    "to and fro": lambda a, b: (a.cpu() * b.cpu()).to(a.device),
}


@pytest.mark.parametrize("compute", COMPUTED.values(), ids=COMPUTED)
def test_right_code_gives_the_numbers_of_the_cpu(compute):
    torch.manual_seed(0)
    cpu, cuda = both(compute, *torch.randn(2, 4, 4, dtype=torch.float64))
    torch.testing.assert_close(cuda, cpu, rtol=0, atol=1e-12)


def test_draws_are_those_of_the_cpu():
    there, here = (torch.Generator(place).manual_seed(3) for place in ("cuda", "cpu"))
    drawn = torch.rand(3, device="cuda", generator=there).cpu()
    assert torch.equal(drawn, torch.rand(3, generator=here))
    assert all(isinstance(one, torch.Generator) for one in (here, torch.default_generator))


def trained(place):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(5, 4), nn.Dropout(0.2), nn.Linear(4, 5))
    model[2].weight = model[0].weight  # tied
    model.to(place)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    tokens = torch.tensor([1, 2, 3, 3], device=place)
    losses = []
    for _ in range(5):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(tokens), tokens)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        losses.append(loss.item())
    return model, optimizer, losses


def test_a_model_is_trained_as_on_the_cpu():
    (model, _, losses), (_, _, expected) = trained("cuda"), trained("cpu")
    assert losses == pytest.approx(expected, rel=1e-5) and losses[-1] < losses[0]
    assert model[0].weight is model[2].weight and model[0].weight.is_cuda  # still tied
    assert next(copy.deepcopy(model).parameters()).is_cuda
    assert not next(model.to("cpu").parameters()).is_cuda


def test_a_checkpoint_is_read_back():
    model, optimizer, _ = trained("cuda")
    file = io.BytesIO()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, file)
    file.seek(0)
    read = torch.load(file, weights_only=True)
    before = [p.detach().cpu() for p in model.parameters()]
    with torch.no_grad():
        model[0].weight.zero_()
    model.load_state_dict(read["model"]), optimizer.load_state_dict(read["optimizer"])
    for p, b in zip(model.parameters(), before, strict=True):
        assert torch.equal(p.cpu(), b) and p.is_cuda


@pytest.mark.parametrize("kind", [nn.RNN, nn.GRU, nn.LSTM])
@pytest.mark.parametrize("packed", [False, True])
def test_recurrent_networks_go_back_in_training_only(kind, packed):
    torch.manual_seed(0)
    network = kind(3, 4, num_layers=2, bidirectional=True, batch_first=True, dtype=torch.float64)
    lengths = torch.tensor([5, 3])

    def run(x):
        read = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True) if packed else x
        out, _ = network(read)
        return nn.utils.rnn.pad_packed_sequence(out, batch_first=True)[0] if packed else out

    def slope(leaf):
        return torch.autograd.grad(run(leaf).square().sum(), leaf)[0].cpu()

    def assert_equal(found, wanted):
        torch.testing.assert_close(found.detach().cpu(), wanted, rtol=0, atol=1e-12)

    x = torch.randn(2, 5, 3, dtype=torch.float64, requires_grad=True)
    out, expected = run(x).detach(), slope(x)
    network.to("cuda")
    leaf = x.detach().to("cuda").requires_grad_()
    assert_equal(run(leaf), out)
    assert_equal(slope(leaf), expected)
    network.eval()
    assert_equal(run(leaf), out)
    with pytest.raises(RuntimeError, match="cudnn RNN backward can only be called in training"):
        slope(leaf)
    with torch.backends.cudnn.flags(enabled=False):
        assert_equal(slope(leaf), expected)


WAITS = {
    "item": lambda x: x[0].item(),
    "float": lambda x: float(x[0]),
    "a condition": lambda x: bool(x[0] > 0),
    "format": lambda x: f"{x[0]:.1f}",
    "tolist": lambda x: x.tolist(),
    "cpu": lambda x: x.cpu(),
    "copy into the CPU": lambda x: torch.zeros(3).copy_(x),
    "mask as index": lambda x: x[x > 1],
    "values at a mask": lambda x: x.index_put_((x > 0,), x.clone()),
    "nonzero": lambda x: (x > 1).nonzero(),
    "unique": lambda x: torch.unique(x),
    "equal": lambda x: torch.equal(x, x),
}
WAITS_NOT = {
    "computing": lambda x: (x * 2).softmax(0).sum(),
    "a shape": lambda x: x.shape[0] + len(x),
    "masked_fill": lambda x: x.masked_fill(x > 1, 0.0),
    "a number at a mask": lambda x: x.__setitem__(x > 1, 0.0),
    "whole numbers as index": lambda x: x[torch.tensor([0], device="cuda")],
    "copy to the device": lambda x: torch.ones(3).to("cuda"),
}


@pytest.mark.parametrize("action", WAITS.values(), ids=WAITS)
def test_a_line_that_waits_for_the_device_is_counted(action, device):
    action(on_cuda(3))
    ((line, count),) = device.synchronizations.items()
    assert line == f"{__file__}:{action.__code__.co_firstlineno}" and count == 1


@pytest.mark.parametrize("action", WAITS_NOT.values(), ids=WAITS_NOT)
def test_a_line_that_does_not_wait_is_not_counted(action, device):
    action(on_cuda(3))
    assert not device.synchronizations


def test_after_the_block_all_is_as_before(device):
    before = torch.Generator
    with simulated_cuda() as inner:
        assert torch.cuda.is_available() and torch.Generator is not before
        on_cuda(1).item()
    assert inner.synchronizations.total() == 1 and torch.Generator is before
    assert not device.synchronizations
    on_cuda(1).item()
    assert device.synchronizations.total() == 1
