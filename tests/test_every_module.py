"""What holds for every public module of the library, in each of its numbers."""

import copy
import functools
import re
from itertools import product, starmap

import catalogue
import numpy as np
import pytest
import torch

import attnbook
from attnbook.training.loop.settings import modules_of

NEAR = {"rtol": 1e-3, "atol": 1e-5}  # of a difference quotient


def leaves_of(entry):
    """The numbers that the output depends on, as leaves: inputs first, then parameters."""
    inputs = [x for x in entry.inputs if isinstance(x, torch.Tensor) and x.is_floating_point()]
    trained = [p for p in entry.module.parameters() if p.requires_grad]
    return [x.requires_grad_() for x in inputs] + trained


def in_float64(name):
    entry = catalogue.make(name)
    inputs = tuple(
        x.double() if isinstance(x, torch.Tensor) and x.is_floating_point() else x
        for x in entry.inputs
    )
    return entry._replace(module=entry.module.double().eval(), inputs=inputs)


def curvature(entry, leaves, ways):
    """Σ (∂/∂leaf of the slope along `ways`): a Hessian-vector product, by double backward."""
    slopes = torch.autograd.grad(entry(), leaves, create_graph=True, allow_unused=True)
    along = sum((s * w).sum() for s, w in zip(slopes, ways) if s is not None and s.requires_grad)
    if not isinstance(along, torch.Tensor):
        return [torch.zeros_like(leaf) for leaf in leaves]
    return [*torch.autograd.grad(along, leaves, allow_unused=True, materialize_grads=True)]


def measured_curvature(entry, leaves, ways, step=1e-7):
    """The same by differences of first derivatives."""
    slopes, options = [], {"allow_unused": True, "materialize_grads": True}

    def move(by):
        with torch.no_grad():
            for leaf, way in zip(leaves, ways):
                leaf += by * way

    for by in (step, -step):
        move(by)
        slopes.append(torch.autograd.grad(entry(), leaves, **options))
        move(-by)
    return [(ahead - behind) / (2 * step) for ahead, behind in zip(*slopes)]


@pytest.mark.parametrize("name", catalogue.MAKE)
def test_gradients_can_be_differentiated_again_under_double_backward(name):
    """Without it they are right, too, or an error names it."""
    entry = in_float64(name)
    leaves = leaves_of(entry)
    ways = [torch.randn_like(leaf) for leaf in leaves]
    with attnbook.double_backward():
        found = curvature(entry, leaves, ways)
    measured = measured_curvature(entry, leaves, ways)
    torch.testing.assert_close(found, measured, **NEAR)
    try:
        torch.testing.assert_close(curvature(entry, leaves, ways), measured, **NEAR)
    except RuntimeError as error:
        assert "run the forward pass under `with attnbook.double_backward():`" in str(error)


def of_numpy(value):
    """An integer or a fraction as NumPy and pandas give it."""
    kind = {int: np.int64, float: np.float64}.get(type(value))
    return value if kind is None else kind(value)


@pytest.fixture
def numbers_of_numpy(monkeypatch):
    """Every module of the library is made with numbers of NumPy, whoever makes it."""

    def patch(cls):
        begin = cls.__init__

        @functools.wraps(begin)
        def with_numpy(self, *arguments, **options):
            options = {name: of_numpy(value) for name, value in options.items()}
            begin(self, *map(of_numpy, arguments), **options)

        monkeypatch.setattr(cls, "__init__", with_numpy)

    for name in attnbook.__all__:
        cls = getattr(attnbook, name)
        if isinstance(cls, type) and issubclass(cls, torch.nn.Module) and "__init__" in vars(cls):
            patch(cls)
    for name in ("B", "N", "D", "WORDS"):
        monkeypatch.setattr(catalogue, name, np.int64(getattr(catalogue, name)))


@pytest.mark.parametrize("name", catalogue.MAKE)
def test_sizes_and_rates_of_numpy_make_the_same_module(name, request):
    plain = catalogue.make(name)
    torch.manual_seed(1)
    right = plain()
    request.getfixturevalue("numbers_of_numpy")
    entry = catalogue.make(name)
    torch.manual_seed(1)
    assert torch.equal(entry(), right)
    assert modules_of(entry.module) == modules_of(plain.module)


PYTORCH_TRANSFORMS = {  # what PyTorch's own transforms cannot do yet, by the words of its error
    "recurrent networks": "doesn't have storage|calling .item|lstm_cell|gru_cell",
    "routes by value": "dynamic shape",
    "pooling of pictures": "is_contiguous inside of vmap",
}


def per_parameters(entry):
    """A function of the parameters and the inputs, for `torch.func`."""
    buffers = dict(entry.module.named_buffers())

    def run(parameters, *inputs):
        state = (parameters, buffers)
        return catalogue.total_of(
            torch.func.functional_call(entry.module, state, inputs, entry.options)
        )

    return run, dict(entry.module.named_parameters())


def pytorch_may_refuse(compute):
    """What it gives; where PyTorch itself cannot, the test is expected to fail."""
    try:
        return compute()
    except RuntimeError as error:
        for reason, words in PYTORCH_TRANSFORMS.items():
            if re.search(words, str(error)):
                return pytest.xfail(f"PyTorch's transforms: {reason}")
        raise


@pytest.mark.parametrize("name", catalogue.MAKE)
def test_torch_func_takes_gradients_with_respect_to_parameters(name):
    entry = in_float64(name)
    run, parameters = per_parameters(entry)
    if not parameters:
        return
    found = pytorch_may_refuse(lambda: torch.func.grad(run)(parameters, *entry.inputs))
    options = {"allow_unused": True, "materialize_grads": True}
    for parameter in parameters.values():
        parameter.requires_grad_()  # also what a module has frozen
    right = torch.autograd.grad(entry(), [*parameters.values()], **options)
    torch.testing.assert_close([*found.values()], [*right], rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", catalogue.MAKE)
def test_vmap_over_inputs_or_parameters_equals_one_after_the_other(name):
    entry = in_float64(name)
    run, parameters = per_parameters(entry)
    real = [isinstance(x, torch.Tensor) and x.is_floating_point() for x in entry.inputs]
    inputs = [torch.stack([x, x.flip(0)]) if r else x for x, r in zip(entry.inputs, real)]
    over, many = None, parameters
    if not any(real):
        over, many = 0, {key: torch.stack([p, 1.1 * p]) for key, p in parameters.items()}
    dims = [0 if r else None for r in real]
    found = pytorch_may_refuse(lambda: torch.func.vmap(run, (over, *dims))(many, *inputs))
    for i in range(2):
        mine = many if over is None else {key: p[i] for key, p in many.items()}
        alone = run(mine, *(x[i] if r else x for x, r in zip(inputs, real)))
        torch.testing.assert_close(found[i], alone, rtol=1e-10, atol=1e-10)


ASK_FOR_VALUES = (  # experts route by them, packed sequences count them
    "MixtureOfExperts Switch HierarchicalAttention PointerNetwork FixedDictionary Seq2Seq Bahdanau "
    "Luong LSTMLanguageModel"
).split()


@pytest.mark.parametrize("name", [name for name in catalogue.MAKE if name not in ASK_FOR_VALUES])
def test_shapes_without_numbers(name):
    entry = catalogue.make(name)

    def shapes(device):
        entry.module.to(device)
        inputs, options = torch.utils._pytree.tree_map_only(
            torch.Tensor, lambda tensor: tensor.to(device), (entry.inputs, entry.options)
        )
        outputs = torch.utils._pytree.tree_leaves(entry.module(*inputs, **options))
        return [(t.shape, t.device.type) for t in outputs if isinstance(t, torch.Tensor)]

    right = shapes("cpu")
    assert shapes("meta") == [(shape, "meta") for shape, _ in right]


COMPILED_EVERY_DAY = (
    "MultiHeadAttention RelativeMultiHeadAttention LinformerAttention PictureAttention BatchNorm "
    "MixtureOfExperts MemoryNetwork Prototypes SNAIL TransformerLM"
).split()


def compiled_at_night(name, training):
    every_day = training and name in COMPILED_EVERY_DAY
    return pytest.param(name, training, marks=() if every_day else pytest.mark.nightly)


@pytest.mark.parametrize(
    ("name", "training"), starmap(compiled_at_night, product(catalogue.MAKE, (True, False)))
)
def test_one_graph_is_compiled_on_the_cpu_and_gives_the_same(name, training):
    entry = catalogue.without_chance(name, training)
    other = copy.deepcopy(entry)
    torch.compiler.reset()
    backend = "aot_eager" if training and name in COMPILED_EVERY_DAY else "inductor"
    compiled = torch.compile(other.module, fullgraph=True, backend=backend)
    torch.manual_seed(1)
    try:
        found = catalogue.total_of(compiled(*other.inputs, **other.options))
    except torch._dynamo.exc.Unsupported as error:
        if "RNN, GRU, or LSTM" in str(error):
            pytest.xfail("PyTorch compiles no recurrent networks of its own")
        raise
    torch.manual_seed(1)
    right = entry()
    torch.testing.assert_close(found, right, rtol=1e-4, atol=1e-4)
    if right.requires_grad:
        mine, theirs = (
            torch.autograd.grad(total, leaves_of(each)[-1:], allow_unused=True)
            for total, each in ((found, other), (right, entry))
        )
        if theirs[0] is not None:
            torch.testing.assert_close(mine, theirs, rtol=1e-3, atol=1e-4)
